"""Reads the headers of ordinary JPEGs and PNGs, in a tenth of the time that Pillow takes.

Nearly all files are ordinary. An unusual, broken or cut one, and every other format, is left to slower
readers, which can say what is wrong.

A JPEG is a list of segments. Each starts with a byte 0xFF, a marker and, counting itself, a length:

    FF D8                        start of the image
    FF E0 00 10 "JFIF" ...       14 bytes of content, skipped
    FF DB 00 43 00 ...           a quantization table, number 0
    FF C0 00 11 08 00 07 00 09 03 ...   a frame: 8 bits, 7 rows of 9 pixels, 3 components
    FF DA ...                    the first scan: the header ends here
"""

from __future__ import annotations

import struct
import zlib
from functools import lru_cache
from typing import NamedTuple

from beam_pipeline.core.images import jpeg, png
from beam_pipeline.core.images.exif import PREFIX, exif_orientation
from beam_pipeline.core.images.header import (
    MAX_PIXELS,
    PNG_CHANNELS,
    PNG_PALETTE,
    ImageHeader,
)

_CACHED_STARTS = 4096

_PNG_SKIPPED = {  # name -> lengths
    b"cHRM": (32,),
    b"gAMA": (4,),
    b"pHYs": (9,),
    b"sRGB": (1,),
    b"tEXt": range(1 << 16),
    b"tIME": (7,),
}

# The segments of a JPEG, by the byte after 0xFF. Source: ITU-T T.81, table B.1.
_SEGMENT = struct.Struct(">BBH")  # 0xFF, marker, length with its own two bytes
_FRAME = struct.Struct(">BHHB")  # bits a component, height, width, components
_FRAMES = frozenset({0xC0, 0xC1, 0xC2})  # baseline, extended, progressive
_QUANTIZATION = 0xDB
_SCAN = 0xDA
_JFIF, _ICC_PROFILE, _ADOBE = 0xE0, 0xE2, 0xEE
_EXIF = 0xE1  # or XMP
_SKIPPED = frozenset({0xC4, 0xDD, _EXIF, 0xFE})  # Huffman tables, restarts, EXIF, comments
_CMYK = 4  # components
_JPEG_CHANNELS = {1: 1, 3: 3, _CMYK: 3}  # by components; CMYK is decoded to RGB


class PlainJpeg(NamedTuple):
    """All that is needed of an ordinary JPEG to decode it.

    Attributes:
      header: as `plain_header` returns it.
      icc_profile: its colour profile; empty if it has none.
    """

    header: ImageHeader
    icc_profile: bytes


def plain_header(data: bytes) -> ImageHeader | None:
    """The header of an ordinary JPEG or PNG that has its end; None for any other bytes."""
    if data.startswith(jpeg.MAGIC):
        return _jpeg_header(data)
    if data.startswith(png.START):
        return _png_header(data)
    return None


def plain_jpeg(data: bytes) -> PlainJpeg | None:
    """Reads an ordinary JPEG of one or three components; None for any other bytes.

    None also where its profile lies in several segments, and where it has EXIF: Pillow reads all of
    that, and refuses files in which some is damaged.
    """
    segments: list[tuple[int, int]] = []
    header = _jpeg_header(data, segments) if data.startswith(jpeg.MAGIC) else None
    if not header:
        return None
    icc_profile = b""
    for kind, offset in segments:
        if kind in _FRAMES:
            return None if data[offset + 9] == _CMYK else PlainJpeg(header, icc_profile)
        if kind == _EXIF:
            return None
        if kind == _ICC_PROFILE:
            # Its length, "ICC_PROFILE\0", its number and the number of all parts.
            if icc_profile or data[offset + 16 : offset + 18] != b"\1\1":
                return None
            end = offset + 2 + int.from_bytes(data[offset + 2 : offset + 4], "big")
            icc_profile = data[offset + 18 : end]
    return None


def _jpeg_header(data: bytes, segments: list[tuple[int, int]] | None = None) -> ImageHeader | None:
    """Walks from segment to segment up to the first scan, as libjpeg does.

    Args:
      data: the file.
      segments: takes (second byte, offset) of each.
    """
    offset, end = 2, len(data) - _SEGMENT.size
    header = None
    orientation = 1
    while offset <= end:
        mark, kind, length = _SEGMENT.unpack_from(data, offset)
        if mark != 0xFF or offset + length > end + 2:  # every segment starts with it
            return None
        if segments is not None:
            segments.append((kind, offset))
        if kind in _SKIPPED:
            if kind == _EXIF and data.startswith(PREFIX, offset + _SEGMENT.size):
                exif = data[offset + _SEGMENT.size : offset + 2 + length]
                orientation = exif_orientation(exif) if orientation == 1 else orientation
        elif kind in _FRAMES:
            if header or length < 2 + _FRAME.size:
                return None
            bits, height, width, components = _FRAME.unpack_from(data, offset + _SEGMENT.size)
            channels = _JPEG_CHANNELS.get(components)
            if bits != 8 or not channels or length != 8 + 3 * components:
                return None
            if not 0 < height * width <= MAX_PIXELS or max(height, width) > jpeg.MAX_SIDE:
                return None
            if components == 4 and height * width * components > jpeg.MAX_SAMPLES:
                return None
            header = ImageHeader("jpeg", height, width, channels)
        elif kind == _SCAN:
            if orientation != 1 and header:
                header = header._replace(orientation=orientation)
            return header if jpeg.has_end(data, offset) else None
        elif not _is_usual(data, offset + _SEGMENT.size, kind, length - 2):
            return None
        offset += 2 + length
    return None


def _is_usual(data: bytes, offset: int, kind: int, length: int) -> bool:
    """Tells whether Pillow accepts and skips a segment whose content it reads."""
    if kind == _QUANTIZATION:  # 8-bit tables, each after its number
        return length % 65 == 0 and max(data[offset : offset + length : 65], default=16) < 16
    if kind in (_JFIF, _ADOBE):
        return length > 6  # includes the version number
    # Another kind of APP2 may be the list of further pictures in an MPO.
    return kind == _ICC_PROFILE and length > 13 and data.startswith(b"ICC_PROFILE\0", offset)


def _png_header(data: bytes) -> ImageHeader | None:
    """Reads the first chunk and walks from chunk to chunk up to the pixels."""
    header = _png_start(data[: png.HEADER_END])
    if not header:
        return None
    offset = png.HEADER_END
    while (kind := data[offset + 4 : offset + 8]) != b"IDAT":
        length = int.from_bytes(data[offset : offset + 4], "big")
        end = offset + 8 + length
        if length not in _PNG_SKIPPED.get(kind, ()) or end + 4 > len(data):
            return None
        if zlib.crc32(data[offset + 4 : end]).to_bytes(4, "big") != data[end : end + 4]:
            return None
        offset = end + 4
    end = offset + 8 + int.from_bytes(data[offset : offset + 4], "big")
    if end + 4 > len(data) or not png.has_end(data, offset):
        return None
    return header


@lru_cache(_CACHED_STARTS)
def _png_start(start: bytes) -> ImageHeader | None:
    """Reads the signature and the first chunk, which are the same in all images of a size and kind."""
    if len(start) < png.HEADER_END:
        return None
    width, height, depth, colour_type, compression, filters, interlaced, crc = (
        png.HEADER.unpack_from(start, len(png.START))
    )
    if colour_type == PNG_PALETTE or depth not in png.DEPTHS.get(colour_type, ()):
        return None
    if compression or filters or interlaced > 1 or max(height, width) > png.MAX_SIDE:
        return None
    if zlib.crc32(start[12:-4]) != crc or not 0 < height * width <= MAX_PIXELS:
        return None
    return ImageHeader("png", height, width, PNG_CHANNELS[colour_type])
