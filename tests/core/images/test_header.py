from __future__ import annotations

from beam_pipeline.core.dead_letters import Reason
from beam_pipeline.core.images.header import (
    FORMATS,
    PNG_CHANNELS,
    PNG_PALETTE,
    BadImageError,
)


def test_formats_are_those_of_tensorflow() -> None:
    """The values of image/format are these five."""
    assert sorted(FORMATS.values()) == ["bmp", "gif", "jpeg", "png", "webp"]


def test_a_bad_image_carries_its_reason() -> None:
    """The dead letter has the reason, the message is for people."""
    error = BadImageError(Reason.CORRUPT_IMAGE, "cut short")
    assert (error.reason, str(error)) == (Reason.CORRUPT_IMAGE, "cut short")


def test_channels_of_a_png_follow_from_its_colour_type() -> None:
    """Grey, colour, palette, grey with alpha, colour with alpha."""
    assert PNG_CHANNELS == {0: 1, 2: 3, PNG_PALETTE: 3, 4: 2, 6: 4}
