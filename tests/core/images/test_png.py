from __future__ import annotations

import struct
import zlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_pipeline.core.dead_letters import Reason
from beam_pipeline.core.images import png
from beam_pipeline.core.images.header import BadImageError, ImageHeader
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
    assert outcome(png.check_png, data) is Reason.CORRUPT_IMAGE
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
    length = png._Rows(layout).missing
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
    found = outcome(png.check_png, data)
    if found is not Reason.DECOMPRESSION_BOMB:
        assert (found[1:4] if isinstance(found, ImageHeader) else None) == (
            shape(tf, data) if data.startswith(png.MAGIC) else None
        )
