"""EXIF's orientation, read from the bytes of a little TIFF."""

from __future__ import annotations

import io
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from beam_pipeline.core.images.header import exif_orientation
from beam_pipeline.core.images.preparation import read_header


def exif(orientation: int, order: str = "<", kind: int = 3) -> bytes:
    """A directory of two entries, the orientation behind another."""
    form = {1: "B", 3: "H", 4: "I"}[kind]
    head = struct.pack(f"{order}2sHI", b"II" if order == "<" else b"MM", 42, 8)
    other = struct.pack(f"{order}HHI4s", 0x010F, 2, 4, b"abc")
    value = struct.pack(f"{order}{form}", orientation).ljust(4, b"\0")
    entry = struct.pack(f"{order}HHI", 0x0112, kind, 1) + value
    return head + struct.pack(f"{order}H", 2) + other + entry


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("kind", [1, 3, 4])
@pytest.mark.parametrize("prefix", [b"", b"Exif\0\0"])
def test_it_is_read_in_both_byte_orders(
    orientation: int, order: str, kind: int, prefix: bytes
) -> None:
    """Cameras write either, and some a longer or shorter integer."""
    assert exif_orientation(prefix + exif(orientation, order, kind)) == orientation


@pytest.mark.parametrize("orientation", [0, 9, 255])
def test_a_value_without_a_meaning_is_upright(orientation: int) -> None:
    """As viewers have it."""
    assert exif_orientation(exif(orientation)) == 1


@given(st.binary(max_size=60) | st.binary(max_size=60).map(lambda tail: exif(6)[:12] + tail))
def test_whatever_the_bytes_there_is_an_orientation(data: bytes) -> None:
    """Damaged EXIF is no reason to leave an image out."""
    assert 1 <= exif_orientation(data) <= 8


@given(st.integers(0, len(exif(6)) - 1))
def test_cut_exif_is_upright_or_whole(length: int) -> None:
    """The last two bytes are padding."""
    assert exif_orientation(exif(6)[:length]) in (1, 6)


@pytest.mark.parametrize("file_format", ["JPEG", "PNG", "WEBP", "MPO"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_the_header_of_a_file_has_it(file_format: str, orientation: int) -> None:
    """Of every format with EXIF, on the quick way and on the slow one."""
    tags, out = Image.Exif(), io.BytesIO()
    tags[0x010F], tags[0x0112] = "a camera", orientation
    image = Image.new("RGB", (9, 7))
    further = {"save_all": True, "append_images": [image]} if file_format == "MPO" else {}
    image.save(out, file_format, exif=tags, **further)
    assert read_header(out.getvalue()).orientation == orientation
