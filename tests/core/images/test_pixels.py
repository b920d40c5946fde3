from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_pipeline.core.dead_letters import Reason
from beam_pipeline.core.images.header import BadImageError, ImageHeader
from beam_pipeline.core.images.preparation import (
    IMAGE_ENCODINGS,
    RAW_FORMAT,
    PixelFormat,
    decode_fully,
    pixel_preparer,
)
from tests.profiles import examples

SMALL = PixelFormat(2, 3)  # two rows of three pixels
RED, GREEN, BLUE = bytes(range(10, 16)), bytes(range(50, 56)), bytes(range(90, 96))
FIRST_ROW = bytes([10, 50, 90, 11, 51, 91, 12, 52, 92])
SECOND_ROW = bytes([13, 53, 93, 14, 54, 94, 15, 55, 95])


def test_the_size_is_a_byte_a_channel() -> None:
    """CIFAR's images are 3072 bytes."""
    assert PixelFormat(32, 32).size == 3072
    assert SMALL.size == 18


def test_raw_pixels_are_written_with_their_channels_together() -> None:
    """As `tf.io.decode_raw` and a reshape to height x width x 3 want them."""
    data, header = pixel_preparer(SMALL, "raw")(RED + GREEN + BLUE)
    assert data == FIRST_ROW + SECOND_ROW
    assert header == ImageHeader(RAW_FORMAT, 2, 3, 3)


def test_a_png_holds_the_same_pixels(tf: Any) -> None:
    """TensorFlow decodes it to them, and its header is the one that is said."""
    data, header = pixel_preparer(SMALL, "png")(RED + GREEN + BLUE)
    assert header == ImageHeader("png", 2, 3, 3) == decode_fully(data)
    decoded = tf.io.decode_image(data).numpy()
    assert (decoded.shape, decoded.dtype.name) == ((2, 3, 3), "uint8")
    assert decoded.tobytes() == FIRST_ROW + SECOND_ROW


def test_the_encodings_are_these() -> None:
    """The first is the default."""
    assert IMAGE_ENCODINGS == ("png", "raw")
    assert RAW_FORMAT in IMAGE_ENCODINGS


@pytest.mark.parametrize("encoding", IMAGE_ENCODINGS)
@pytest.mark.parametrize("size", [0, 17, 19])
def test_pixels_of_another_number_are_no_image(encoding: str, size: int) -> None:
    """The message has both sizes and how the expected one comes about."""
    with pytest.raises(BadImageError) as caught:
        pixel_preparer(SMALL, encoding)(bytes(size))
    assert caught.value.reason is Reason.CORRUPT_IMAGE
    assert str(caught.value) == f"{size} bytes of pixels, expected 18 (2 x 3 x 3)"


@settings(max_examples=examples(60))
@given(data=st.data(), height=st.integers(1, 9), width=st.integers(1, 9))
def test_no_pixel_is_changed(tf: Any, data: st.DataObject, height: int, width: int) -> None:
    """Both encodings decode to the planes that went in, and give the same bytes a second time."""
    pixels = PixelFormat(height, width)
    planes = data.draw(st.binary(min_size=pixels.size, max_size=pixels.size))
    expected = tf.transpose(
        tf.reshape(tf.io.decode_raw(planes, tf.uint8), (3, height, width)), (1, 2, 0)
    )
    raw, _ = pixel_preparer(pixels, "raw")(planes)
    png, _ = pixel_preparer(pixels, "png")(planes)
    assert raw == expected.numpy().tobytes()
    assert tf.io.decode_png(png).numpy().tobytes() == raw
    assert pixel_preparer(pixels, "png")(planes)[0] == png
