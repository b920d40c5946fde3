"""Thumbnails: of every format that the converter writes, small, and none where there is no picture."""

from __future__ import annotations

import base64
import io

import pytest
from PIL import Image

from beam_pipeline.core.report.thumbnails import (
    LARGE_SIDE,
    SIDE,
    Thumbnail,
    mask_colour,
    thumbnail,
)
from tests.pictures import picture


def opened(found: Thumbnail | None) -> Image.Image:
    """The picture of a thumbnail, as a browser decodes it."""
    assert found is not None
    data = base64.b64decode(found.uri.partition(",")[2])
    image = Image.open(io.BytesIO(data)).convert("RGB")
    assert image.size == (found.width, found.height)
    return image


def png(image: Image.Image) -> bytes:
    """An image as a PNG."""
    file = io.BytesIO()
    image.save(file, "PNG")
    return file.getvalue()


@pytest.mark.parametrize("file_format", ["JPEG", "PNG", "GIF", "BMP", "WEBP"])
def test_every_format_has_one(file_format: str) -> None:
    """Its longer side has so many pixels."""
    data = picture(3, file_format=file_format, size=(400, 200))
    assert opened(thumbnail(data)).size == (SIDE, SIDE // 2)
    assert opened(thumbnail(data, side=LARGE_SIDE)).size == (LARGE_SIDE, LARGE_SIDE // 2)


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA"])
def test_every_mode_has_one(mode: str) -> None:
    """Palettes, too; transparent pixels are grey."""
    image = Image.new("LA", (300, 300), (0, 0) if mode.endswith("A") else (0, 255)).convert(mode)
    small = opened(thumbnail(png(image)))
    assert small.size == (SIDE, SIDE)
    expected = [128 if mode.endswith("A") else 0] * 3
    assert small.getpixel((9, 9)) == pytest.approx(expected, abs=1)


def test_sixteen_bits_are_shown_by_the_higher_eight() -> None:
    """Black and white as they are."""
    assert opened(thumbnail(png(Image.new("I;16", (9, 9), 200 << 8)))).getpixel((4, 4)) == (
        *(200, 200, 200),
    )


def test_a_small_image_stays_as_it_is() -> None:
    """Every pixel."""
    data = picture(5, file_format="PNG", size=(9, 7))
    found = opened(thumbnail(data))
    assert found.tobytes() == Image.open(io.BytesIO(data)).tobytes()


@pytest.mark.parametrize("mode", ["L", "I;16"])
def test_a_mask_is_drawn_over_its_image(mode: str) -> None:
    """But for its background, each id in a colour of its own."""
    mask = Image.new(mode, (40, 20))
    mask.paste(3, (0, 0, 20, 20))
    grey = (100, 100, 100)
    found = opened(thumbnail(png(Image.new("RGB", (40, 20), grey)), png(mask)))
    assert found.getpixel((30, 10)) == grey
    expected = [round(100 + 0.55 * (channel - 100)) for channel in mask_colour(3)]
    assert found.getpixel((10, 10)) == pytest.approx(expected, abs=1)


def test_the_colours_of_ids_differ() -> None:
    """Those of 256 of them."""
    assert len({mask_colour(number) for number in range(256)}) == 256
    assert mask_colour(0) == (0, 0, 0)


@pytest.mark.parametrize(
    "data",
    [b"", b"hello", b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", picture(file_format="PNG")[:40], b"BM"],
)
def test_what_cannot_be_drawn_has_none(data: bytes) -> None:
    """Instead of an error."""
    assert thumbnail(data) is None


def test_a_huge_image_is_not_decoded() -> None:
    """Nor is one whose header only claims that it is."""
    huge = bytearray(picture(file_format="PNG"))
    huge[16:24] = (20_000).to_bytes(4, "big") * 2
    assert thumbnail(bytes(huge)) is None
