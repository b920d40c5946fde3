from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import strategies as st
from PIL import Image

from beam_pipeline.core.dead_letters import Reason
from beam_pipeline.core.images.geometry import RESIZE_MODES, ImageChanges
from beam_pipeline.core.images.header import BadImageError, ImageHeader
from beam_pipeline.core.images.preparation import read_header
from tests.pictures import picture

FORMAT_NAMES = ("JPEG", "PNG", "GIF", "BMP", "WEBP")


def saved(image: Image.Image, **options: Any) -> bytes:
    out = io.BytesIO()
    image.save(out, **options)
    return out.getvalue()


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


PNG_START = b"\x89PNG\r\n\x1a\n"


def png(
    width: int, height: int, depth: int, colour_type: int, pixel: bytes, extra: bytes = b""
) -> bytes:
    """A PNG of pixels of whole bytes, with chunks before its pixels, as Pillow would not write it."""
    header = struct.pack(">IIBBBBB", width, height, depth, colour_type, 0, 0, 0)
    pixels = zlib.compress((b"\0" + pixel * width) * height)
    return b"".join(
        [PNG_START, chunk(b"IHDR", header), extra, chunk(b"IDAT", pixels), chunk(b"IEND", b"")]
    )


def bmp(width: int, height: int, bits: int, palette: bytes = b"") -> bytes:
    """An uncompressed BMP of that many bits a pixel; a row fills whole words of four bytes."""
    pixels = bytes((width * bits + 31) // 32 * 4 * abs(height))
    start = 54 + len(palette)
    return b"".join(
        [
            b"BM" + struct.pack("<IHHI", start + len(pixels), 0, 0, start),
            struct.pack("<IiiHHIIiiII", 40, width, height, 1, bits, 0, len(pixels), 0, 0, 0, 0),
            palette,
            pixels,
        ]
    )


PALETTE = bytes(range(256)) * 4  # of 256 colours, in fours of blue, green, red and nothing


PLTE = chunk(b"PLTE", bytes(range(6)))


_PICTURES: dict[str, tuple[bytes, int]] = {  # bytes of 9 x 7 pixels, and channels
    **{
        f"{name} {mode}": (picture(1, file_format=name, mode=mode), channels)
        for name, modes in {
            "JPEG": {"RGB": 3, "L": 1, "CMYK": 3},
            "PNG": {"RGB": 3, "RGBA": 4, "L": 1, "LA": 2, "P": 3, "1": 1, "I;16": 1},
            "GIF": {"RGB": 3, "L": 3, "RGBA": 3},
            "BMP": {"RGB": 3, "L": 1, "RGBA": 4},  # Pillow leaves out the fourth byte
            "WEBP": {"RGB": 3, "RGBA": 4},
        }.items()
        for mode, channels in modes.items()
    },
    "JPEG progressive": (saved(Image.new("RGB", (9, 7)), format="JPEG", progressive=True), 3),
    "PNG P, transparent": (saved(Image.new("P", (9, 7)), format="PNG", transparency=0), 4),
    "PNG L, one value transparent": (png(9, 7, 8, 0, b"\1", chunk(b"tRNS", b"\0\1")), 1),
    "PNG RGB, one colour transparent": (
        *(png(9, 7, 8, 2, b"\1\2\3", chunk(b"tRNS", b"\0\1\0\2\0\3")), 3),
    ),
    "PNG RGB, 16 bits": (png(9, 7, 16, 2, b"\1\2\3\4\5\6"), 3),
    "PNG RGBA, 16 bits": (png(9, 7, 16, 6, b"\1\2\3\4\5\6\7\x08"), 4),
    "PNG LA, 16 bits": (png(9, 7, 16, 4, b"\1\2\3\4"), 2),  # Pillow opens this one as RGBA
    "GIF, two frames": (
        saved(
            Image.new("RGB", (9, 7)),
            format="GIF",
            save_all=True,
            append_images=[Image.new("RGB", (9, 7), "red")],
        ),
        3,
    ),
    "BMP RGB, top row first": (bmp(9, -7, 24), 3),
    "BMP P": (bmp(9, 7, 8, PALETTE), 1),  # TensorFlow does not look at its palette
    "WEBP, lossless": (
        *(saved(Image.new("RGBA", (9, 7), (1, 2, 3, 4)), format="WEBP", lossless=True), 4),
    ),
}
PICTURES = {
    name: (data, ImageHeader(name.replace(",", " ").split()[0].lower(), 7, 9, channels))
    for name, (data, channels) in _PICTURES.items()
} | {"JPEG 300 x 200": (picture(1, size=(300, 200)), ImageHeader("jpeg", 200, 300, 3))}


def reason_of(data: bytes) -> Reason:
    with pytest.raises(BadImageError) as caught:
        read_header(data)
    return caught.value.reason


def outcome(check: Callable[[bytes], ImageHeader], data: bytes) -> ImageHeader | Reason:
    """What a check says of an image; every other exception is a fault."""
    try:
        return check(data)
    except BadImageError as error:
        return error.reason


MUTATIONS = st.lists(
    st.tuples(
        st.integers(0, 10_000), st.sampled_from(["set", "cut", "insert"]), st.integers(0, 255)
    ),
    min_size=1,
    max_size=5,
)


def decoded_shape(tf: Any, data: bytes) -> tuple[int, ...] | None:
    """What TensorFlow makes of it, as frames and as one picture; None if either fails."""
    try:
        frames, one = (
            tuple(tf.io.decode_image(data, expand_animations=every).shape)
            for every in (True, False)
        )
    except tf.errors.InvalidArgumentError:
        return None
    assert frames[-3:] == one
    return one


def mutated(data: bytes, mutations: list[tuple[int, str, int]]) -> bytes:
    changed = bytearray(data)
    for offset, what, value in mutations:
        at = offset % (len(changed) + 1)
        if what == "set":
            changed[at : at + 1] = bytes([value])
        elif what == "cut":
            del changed[at : at + 1 + value % 8]
        else:
            changed[at:at] = bytes([value])
    return bytes(changed)


def to_size(
    width: int, height: int, mode: str = RESIZE_MODES[0], never_enlarge: bool = True
) -> ImageChanges:
    """The changes that give images a size."""
    return ImageChanges(resize=(width, height), resize_mode=mode, never_enlarge=never_enlarge)
