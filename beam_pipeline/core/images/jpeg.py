"""JPEGs: the headers of ordinary ones, in a tenth of the time that Pillow takes, and the end of any.

Nearly all files are ordinary. An unusual, broken or cut one is left to Pillow, which can tell what is wrong.
A JPEG is a list of segments. Each starts with a byte 0xFF, a marker and, counting itself, a length:

    FF D8                        start of the image
    FF E0 00 10 "JFIF" ...       14 bytes of content, skipped
    FF DB 00 43 00 ...           a quantization table, number 0
    FF C0 00 11 08 00 07 00 09 03 ...   a frame: 8 bits, 7 rows of 9 pixels, 3 components
    FF DA ...                    the first scan: the header ends here

After the header come one or more scans. A scan is a segment FF DA, then compressed data, where FF
is followed by 00, or by D0 to D7 for a restart. The first other marker ends the data: another
segment, a further scan, or FF D9, the end. What follows the end is not read: padding, a second
picture (MPO), a video.

    FF DA 00 0C ...  compressed data with FF 00 and FF D0 in it  FF D9

Source: ITU-T T.81, annex B.
"""

from __future__ import annotations

import re
import struct
from typing import NamedTuple

from beam_pipeline.core.images.header import EXIF_PREFIX, MAX_PIXELS, ImageHeader, exif_orientation

MAGIC = b"\xff\xd8\xff"
END = b"\xff\xd9"
SCAN = re.compile(rb"\xff\xda")  # which is counted in a third of the time of `bytes.count`
MAX_SIDE = 65_500
"""libjpeg refuses a longer side."""
MAX_SAMPLES = (1 << 29) - 1
"""TensorFlow refuses more samples: height x width x components; CMYK has four."""

MAX_SCANS = 100
"""More scans are a decompression bomb. Encoders write about ten; each may tell in 200 bytes that nothing
changes, and takes as long to decode as the whole picture."""

_SCAN, _END, _START = 0xDA, 0xD9, 0xD8
_ALONE = frozenset({0x01, *range(0xD0, 0xD8)})  # markers without a length
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_MAX_RUBBISH = 1 << 20  # bytes; Pillow looks at each of them
_SEGMENT = struct.Struct(">BBH")  # 0xFF, marker, length with its own two bytes
_FRAME_FIELDS = struct.Struct(">BHHB")  # bits a component, height, width, components
_PROGRESSIVE = 0xC2
_USUAL_FRAMES = frozenset({0xC0, 0xC1, _PROGRESSIVE})  # baseline, extended
_QUANTIZATION = 0xDB
_JFIF, _ICC_PROFILE, _ADOBE = 0xE0, 0xE2, 0xEE
_EXIF = 0xE1  # or XMP
_SKIPPED = frozenset({0xC4, 0xDD, _EXIF, 0xFE})  # Huffman tables, restarts, EXIF, comments
_CMYK = 4  # components
_JPEG_CHANNELS = {1: 1, 3: 3, _CMYK: 3}  # by components; CMYK is decoded to RGB
_MARKER_IN_SCAN = re.compile(rb"\xff+([^\x00\x01\xd0-\xd7\xff])")


def has_end(data: bytes, scan: int) -> bool:
    """Tells whether there is an end after the first scan begins.

    It is looked for at the end of the file first, where nearly all files have it.

    Args:
      data: the file.
      scan: the offset of the first scan.
    """
    return data.endswith(END) or data.find(END, scan) >= 0


def first_scan(data: bytes) -> int:
    """Returns the offset of the first scan; -1 without one, or with too much rubbish before it."""
    offset, rubbish = 2, 0
    while 0 <= (marker := data.find(b"\xff", offset)) < len(data) - 1:
        rubbish += marker - offset + 1
        kind, offset = data[marker + 1], marker + 2
        if kind == _END or rubbish > _MAX_RUBBISH:
            break
        if kind == _SCAN:
            return marker
        if kind in (0, 0xFF):
            offset = marker + 1
        elif kind not in _ALONE:
            length = int.from_bytes(data[offset : offset + 2], "big")
            rubbish -= 1 if length > 2 else 0
            offset += max(2, length)
    return -1


def count_scans(data: bytes) -> int:
    """Walks from marker to marker after the first scan; returns 0 if the end is missing.

    It stops counting after `MAX_SCANS`.
    """
    offset = first_scan(data)
    scans = 0
    if offset < 0:
        return 0
    while marker := _MARKER_IN_SCAN.search(data, offset):
        kind, offset = marker[1][0], marker.end()
        if kind == _END or scans > MAX_SCANS:
            return scans
        if kind == _START or kind in _FRAMES:  # another picture begins inside this one
            return 0
        scans += kind == _SCAN
        offset += max(2, int.from_bytes(data[offset : offset + 2], "big"))
    return 0


class PlainJpeg(NamedTuple):
    """All that is needed of an ordinary JPEG to decode it.

    Attributes:
      header: as `jpeg_header` returns it.
      icc_profile: its colour profile; empty if it has none.
      single_scan: libjpeg decodes one scan of it, whatever follows.
    """

    header: ImageHeader
    icc_profile: bytes
    single_scan: bool


def plain_jpeg(data: bytes) -> PlainJpeg | None:
    """Reads an ordinary JPEG of one or three components; None for any other bytes.

    None also where its profile is in several segments, and where it has EXIF: Pillow reads all of
    that, and refuses files with damaged segments.
    """
    segments: list[tuple[int, int]] = []
    header = jpeg_header(data, segments)
    if not header:
        return None
    icc_profile = b""
    for kind, offset in segments:
        if kind in _USUAL_FRAMES:
            break
        if kind == _EXIF:
            return None
        if kind == _ICC_PROFILE:
            # Its length, "ICC_PROFILE\0", its number and the number of all parts.
            if icc_profile or data[offset + 16 : offset + 18] != b"\1\1":
                return None
            end = offset + 2 + int.from_bytes(data[offset + 2 : offset + 4], "big")
            icc_profile = data[offset + 18 : end]
    components, in_scan = data[offset + 9], data[segments[-1][1] + 4]
    single_scan = kind != _PROGRESSIVE and components == in_scan
    return None if components == _CMYK else PlainJpeg(header, icc_profile, single_scan)


def jpeg_header(data: bytes, segments: list[tuple[int, int]] | None = None) -> ImageHeader | None:
    """The header of an ordinary JPEG that has its end; None for any other bytes.

    Walks from segment to segment up to the first scan, as libjpeg does.

    Args:
      data: the file.
      segments: takes (second byte, offset) of each.
    """
    if not data.startswith(MAGIC):
        return None
    offset, end = 2, len(data) - _SEGMENT.size
    header = None
    orientation = 1
    while offset <= end:
        mark, kind, length = _SEGMENT.unpack_from(data, offset)
        if mark != 0xFF or offset + length > end + 2:  # every segment starts with it
            return None
        if segments is not None:
            segments.append((kind, offset))
        start = offset + _SEGMENT.size
        if kind in _SKIPPED:
            if kind == _EXIF and data.startswith(EXIF_PREFIX, start):
                exif = data[start : offset + 2 + length]
                orientation = exif_orientation(exif) if orientation == 1 else orientation
        elif kind in _USUAL_FRAMES:
            if header or length < 2 + _FRAME_FIELDS.size:
                return None
            bits, height, width, components = _FRAME_FIELDS.unpack_from(data, start)
            channels = _JPEG_CHANNELS.get(components)
            if bits != 8 or not channels or length != 8 + 3 * components:
                return None
            most = min(MAX_PIXELS, MAX_SAMPLES // components)
            if not 0 < height * width <= most or max(height, width) > MAX_SIDE:
                return None
            header = ImageHeader("jpeg", height, width, channels)
        elif kind == _SCAN:
            if orientation != 1 and header:
                header = header._replace(orientation=orientation)
            return header if has_end(data, offset) else None
        elif not _is_usual(data, start, kind, length - 2):
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
