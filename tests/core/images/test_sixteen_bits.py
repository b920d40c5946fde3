"""Pixels of 16 bits, through the parts of Pillow that hold 8."""

from __future__ import annotations

import io
import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from beam_pipeline.core.images import pillow_codec, png
from beam_pipeline.core.images.preparation import read_header


def channels_of(pixels: np.ndarray) -> list[Image.Image]:
    return [Image.fromarray(np.ascontiguousarray(plane)) for plane in np.moveaxis(pixels, -1, 0)]


def random_pixels(channels: int) -> np.ndarray:
    return np.random.default_rng(channels).integers(0, 1 << 16, (7, 5, channels), dtype=np.uint16)


@pytest.mark.parametrize("mode", ["I;16", "I"])
def test_the_upper_bits_remain(mode: str) -> None:
    """Whichever mode a version of Pillow reads grey PNGs of 16 bits in."""
    values = np.array([[0, 255, 256, 65535]], np.uint16 if mode == "I;16" else np.int32)
    image = Image.fromarray(values)
    assert image.mode == mode
    assert np.asarray(pillow_codec.to_8_bits(image)).tolist() == [[0, 0, 1, 255]]


@pytest.mark.parametrize("channels", [2, 3, 4])
def test_what_is_written_is_read_back(channels: int) -> None:
    """Every bit of every channel."""
    pixels = random_pixels(channels)
    data = png.png_of_channels(channels_of(pixels))
    header = read_header(data)
    assert header[1:4] == pixels.shape
    found = png.colour_channels(data, header)
    assert found is not None
    assert (np.stack([np.asarray(plane) for plane in found], -1) == pixels).all()


@pytest.mark.parametrize("row_filter", range(5))
def test_all_filters_of_png(tf: object, row_filter: int) -> None:
    """TensorFlow and this module decode the same pixels, whatever the rows hold."""
    rows = np.random.default_rng(0).integers(0, 256, (7, 1 + 5 * 6), dtype=np.uint8)
    rows[:, 0] = row_filter
    data = png_of(rows.tobytes(), interlaced=0)
    decoded = tf.io.decode_png(data, dtype=tf.uint16).numpy()  # type: ignore[attr-defined]
    found = png.colour_channels(data, read_header(data))
    assert found is not None
    assert (np.stack([np.asarray(plane) for plane in found], -1) == decoded).all()


def png_of(rows: bytes, *, interlaced: int) -> bytes:
    """A colour PNG of 16 bits, of 5 x 7 pixels."""
    chunks = (
        (b"IHDR", struct.pack(">IIBBBBB", 5, 7, 16, 2, 0, 0, interlaced)),
        (b"IDAT", zlib.compress(rows)),
        (b"IEND", b""),
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        for kind, body in chunks
    )


def test_other_images_are_left_to_pillow() -> None:
    """Of 8 bits, or of one channel, or no PNG."""
    for mode, file_format in (("RGB", "PNG"), ("I;16", "PNG"), ("RGB", "JPEG")):
        out = io.BytesIO()
        Image.new(mode, (5, 7)).save(out, file_format)
        header = read_header(out.getvalue())
        assert png.colour_channels(out.getvalue(), header) is None


def test_what_cannot_be_taken_apart() -> None:
    """Interlaced pixels, and too few of them."""
    interlaced = png_of(b"\0" * 300, interlaced=1)
    with pytest.raises(ValueError, match="interlaced"):
        png.colour_channels(interlaced, read_header(interlaced))
    short = png_of(b"\0" * 30, interlaced=0)
    with pytest.raises(ValueError, match="187 bytes of pixels are missing"):
        png.colour_channels(short, read_header(short))


def test_wide_values_are_cut() -> None:
    """A scaled edge may swing beyond both ends."""
    wide = Image.fromarray(np.array([[-5, 70000, 300]], np.int32))
    assert np.asarray(pillow_codec.grey_16_bits(wide)).tolist() == [[0, 65535, 300]]
    assert np.asarray(pillow_codec.to_8_bits(pillow_codec.grey_16_bits(wide))).tolist() == [
        [0, 255, 1]
    ]
