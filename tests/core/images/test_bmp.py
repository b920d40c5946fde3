from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_pipeline.core.dead_letters import Reason
from beam_pipeline.core.images.gif_bmp_jxl import bmp_header
from beam_pipeline.core.images.header import ImageHeader
from tests.core.images.fixtures import MUTATIONS, PALETTE, bmp, mutated, outcome
from tests.profiles import examples

RGB, GREY = bmp(9, 7, 24), bmp(9, 7, 8, PALETTE)
SOUND = ImageHeader("bmp", 7, 9, 3)


def with_field(data: bytes, offset: int, value: int, form: str = "<I") -> bytes:
    """A BMP with another value in its header."""
    field = struct.pack(form, value)
    return data[:offset] + field + data[offset + len(field) :]


CASES: dict[str, tuple[bytes, ImageHeader | Reason]] = {
    "sound": (RGB, SOUND),
    "from top to bottom": (with_field(RGB, 22, -7, "<i"), SOUND),
    "a size field that lies": (with_field(RGB, 2, 5), SOUND),
    "a palette of a wrong length": (with_field(GREY, 46, 1 << 30), ImageHeader("bmp", 7, 9, 1)),
    "bits in fields": (with_field(bmp(9, 7, 32), 30, 3), ImageHeader("bmp", 7, 9, 4)),
    "bits in fields, with alpha": (with_field(bmp(9, 7, 32), 30, 6), ImageHeader("bmp", 7, 9, 4)),
    "OS/2's short header": (with_field(RGB, 14, 16), SOUND),
    "a byte more": (RGB + b"\0", Reason.CORRUPT_IMAGE),
    "a byte less": (RGB[:-1], Reason.CORRUPT_IMAGE),
    "a row more": (with_field(RGB, 22, 8), Reason.CORRUPT_IMAGE),
    "no rows": (with_field(RGB, 22, 0), Reason.CORRUPT_IMAGE),
    "pixels that begin before the file": (with_field(RGB, 10, -54, "<i"), Reason.CORRUPT_IMAGE),
    "cut": (RGB[:20], Reason.CORRUPT_IMAGE),
    "16 bits": (bmp(9, 7, 16), Reason.UNSUPPORTED_FORMAT),
    "4 bits": (bmp(9, 7, 4, PALETTE[:64]), Reason.UNSUPPORTED_FORMAT),
}


def shape(tf: Any, data: bytes) -> tuple[int, ...] | None:
    try:
        return tuple(tf.io.decode_image(data).shape)
    except tf.errors.InvalidArgumentError:
        return None


@pytest.mark.parametrize("name", CASES)
def test_the_check_says_what_tensorflow_says(tf: Any, name: str) -> None:
    """It reads five numbers, and the file must end with the last row."""
    data, expected = CASES[name]
    assert outcome(bmp_header, data) == expected
    assert shape(tf, data) == (expected[1:4] if isinstance(expected, ImageHeader) else None)


@pytest.mark.parametrize("compression", [1, 2, 4, 5])
def test_a_compressed_bmp_is_unsupported_even_if_tensorflow_decodes_it(
    tf: Any, compression: int
) -> None:
    """If lengths happen to agree, TensorFlow takes the codes for pixels."""
    data = with_field(RGB, 30, compression)
    assert shape(tf, data) == (7, 9, 3)
    assert outcome(bmp_header, data) is Reason.UNSUPPORTED_FORMAT


@settings(max_examples=examples(300))
@given(base=st.sampled_from([RGB, GREY]), mutations=MUTATIONS)
def test_what_passes_is_decoded(
    tf: Any, base: bytes, mutations: list[tuple[int, str, int]]
) -> None:
    """By TensorFlow, to the shape that the check says."""
    data = mutated(base, mutations)
    found = outcome(bmp_header, data)
    if data.startswith(b"BM") and isinstance(found, ImageHeader):
        assert shape(tf, data) == found[1:4]
