from __future__ import annotations

import io
import struct
import zlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from beam_pipeline.core.dead_letters import Reason
from beam_pipeline.core.images import pillow_codec, png
from beam_pipeline.core.images.header import BadImageError, ImageHeader
from beam_pipeline.core.images.preparation import decode_fully, read_header
from tests.core.images.fixtures import (
    MUTATIONS,
    PICTURES,
    PLTE,
    PNG_START,
    chunk,
    mutated,
    outcome,
)
from tests.core.images.fixtures import png as make_png
from tests.profiles import examples

HEADER = chunk(b"IHDR", struct.pack(">IIBBBBB", 9, 7, 8, 2, 0, 0, 0))
ROWS = (b"\0" + bytes(range(27))) * 7
END = chunk(b"IEND", b"")
SOUND = ImageHeader("png", 7, 9, 3)


def picture(packed: bytes, *, before: bytes = b"", after: bytes = b"", pieces: int = 1) -> bytes:
    """A PNG of 7 x 9 pixels around compressed data, which may lie in several chunks."""
    step = len(packed) // pieces + 1
    parts = [chunk(b"IDAT", packed[at : at + step]) for at in range(0, len(packed), step)]
    return PNG_START + HEADER + before + b"".join(parts) + after + END


PACKED = zlib.compress(ROWS)

CASES = {
    "sound": (picture(PACKED), SOUND),
    "in pieces": (picture(PACKED, pieces=9), SOUND),
    "a chunk after the pixels": (picture(PACKED, after=chunk(b"tEXt", b"a\0b")), SOUND),
    "bytes behind the end": (picture(PACKED) + b"\0\0", SOUND),
    "more rows than needed": (picture(zlib.compress(ROWS + bytes(28))), SOUND),
    "a comment of a wrong checksum": (picture(PACKED, before=b"\0\0\0\1tEXtxabcd"), SOUND),
    "no end": (picture(PACKED)[: -len(END)], Reason.CORRUPT_IMAGE),
    "a wrong end": (picture(PACKED)[:-1], Reason.CORRUPT_IMAGE),
    "no pixels": (PNG_START + HEADER + END, Reason.CORRUPT_IMAGE),
    "an unknown chunk that may not be skipped": (
        picture(PACKED, before=chunk(b"ABCD", b"")),
        Reason.CORRUPT_IMAGE,
    ),
    "a palette's image without a palette": (
        make_png(9, 7, 8, 3, b"\1"),
        Reason.CORRUPT_IMAGE,
    ),
    "a palette after its transparency": (
        make_png(9, 7, 8, 3, b"\1", chunk(b"tRNS", b"\0") + PLTE),
        SOUND,
    ),
    "a side of a million and one": (
        PNG_START
        + chunk(b"IHDR", struct.pack(">IIBBBBB", 1_000_001, 1, 1, 0, 0, 0, 0))
        + chunk(b"IDAT", zlib.compress(bytes(125_002)))
        + END,
        Reason.DECOMPRESSION_BOMB,
    ),
}

DAMAGED_PIXELS = {
    "a row is missing": picture(zlib.compress(ROWS[:-28])),
    "the checksum of the data is wrong": picture(PACKED[:-1] + b"x"),
    "the checksum of the data is missing": picture(PACKED[:-4]),
    "a chunk between the pixels": picture(
        PACKED[:9], after=chunk(b"tEXt", b"") + chunk(b"IDAT", PACKED[9:])
    ),
    "a filter that there is not": picture(zlib.compress(b"\5" + ROWS[1:])),
    "a chunk whose checksum is wrong": picture(PACKED).replace(PACKED[-4:], b"abcd"),
}


def shape(tf: Any, data: bytes) -> tuple[int, ...] | None:
    try:
        return tuple(tf.io.decode_image(data).shape)
    except tf.errors.InvalidArgumentError:
        return None


@pytest.mark.parametrize("name", CASES)
def test_both_checks_say_what_tensorflow_says(tf: Any, name: str) -> None:
    """What lies around the pixels is found by the default check, too."""
    data, expected = CASES[name]
    assert outcome(png.png_header, data) == outcome(png.check_png, data) == expected
    assert shape(tf, data) == (expected[1:4] if isinstance(expected, ImageHeader) else None)


@pytest.mark.parametrize("name", DAMAGED_PIXELS)
def test_damaged_pixels_are_found_by_the_full_check_only(tf: Any, name: str) -> None:
    """The default check reads no pixels."""
    data = DAMAGED_PIXELS[name]
    assert png.png_header(data) == SOUND
    assert outcome(decode_fully, data) is Reason.CORRUPT_IMAGE
    left_to_pillow = name == "a filter that there is not"
    assert outcome(png.check_png, data) == (SOUND if left_to_pillow else Reason.CORRUPT_IMAGE)
    assert shape(tf, data) is None


@pytest.mark.parametrize("interlaced", [0, 1])
@pytest.mark.parametrize(("width", "height"), [(1, 1), (3, 5), (8, 8), (9, 17)])
@pytest.mark.parametrize(("depth", "colour_type"), [(1, 0), (2, 0), (16, 2), (8, 6), (16, 4)])
def test_the_length_of_the_pixels_is_known(
    tf: Any, interlaced: int, width: int, height: int, depth: int, colour_type: int
) -> None:
    """One byte less than the rows of all passes have is found, as TensorFlow finds it."""
    header = struct.pack(">IIBBBBB", width, height, depth, colour_type, 0, 0, interlaced)
    layout = png._Layout(width, height, depth, colour_type, bool(interlaced))
    length = png._pixel_bytes(layout)
    for missing in (0, 1):
        data = b"".join(
            [
                PNG_START,
                chunk(b"IHDR", header),
                chunk(b"IDAT", zlib.compress(bytes(length - missing))),
                END,
            ]
        )
        decoded = shape(tf, data)
        assert (decoded is None) == bool(missing)
        if missing:
            with pytest.raises(BadImageError, match="pixels are missing: 1 bytes"):
                png.check_png(data)
        else:
            assert png.check_png(data)[1:4] == decoded


@settings(max_examples=examples(300))
@given(
    name=st.sampled_from(sorted(k for k in PICTURES if k.startswith("PNG"))), mutations=MUTATIONS
)
def test_a_damaged_png_passes_the_full_check_if_tensorflow_decodes_it(
    tf: Any, name: str, mutations: list[tuple[int, str, int]]
) -> None:
    """Neither more nor fewer."""
    data = mutated(PICTURES[name][0], mutations)
    found = outcome(decode_fully, data)
    if found is not Reason.DECOMPRESSION_BOMB:
        assert (found[1:4] if isinstance(found, ImageHeader) else None) == (
            shape(tf, data) if data.startswith(png.MAGIC) else None
        )


# --- sixteen bits ----------------------------------------------------------------------------


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
