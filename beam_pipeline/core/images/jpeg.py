"""The end of a JPEG: whether libjpeg, as `tf.io.decode_image` uses it, finds one.

After the header come one or more scans. A scan is a segment FF DA, then compressed data, in which FF
is followed by 00, or by D0 to D7 for a restart. The first other marker ends the data: another
segment, a further scan, or FF D9, the end. What follows the end is not read: padding, a second
picture (MPO), a video.

    FF DA 00 0C ...  compressed data with FF 00 and FF D0 in it  FF D9

Source: ITU-T T.81, annex B.
"""

from __future__ import annotations

import re

MAGIC = b"\xff\xd8\xff"
END = b"\xff\xd9"
SCAN = b"\xff\xda"
MAX_SIDE = 65_500
"""libjpeg refuses a longer side."""
MAX_SAMPLES = (1 << 29) - 1
"""TensorFlow refuses more samples: height x width x components, of which CMYK has four."""

MAX_SCANS = 100
"""More scans are a decompression bomb. Encoders write about ten; each may say in 200 bytes that nothing
changes, and takes as long to decode as the whole picture."""

_SCAN, _END, _START = 0xDA, 0xD9, 0xD8
_ALONE = frozenset({0x01, *range(0xD0, 0xD8)})  # markers without a length
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_MAX_RUBBISH = 1 << 20  # bytes; Pillow looks at each of them
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
    """Returns the offset of the first scan; -1 if there is none, or too much rubbish before it."""
    offset, rubbish = 2, 0
    while 0 <= (found := data.find(b"\xff", offset)) < len(data) - 1:
        rubbish += found - offset + 1
        kind, offset = data[found + 1], found + 2
        if kind == _END or rubbish > _MAX_RUBBISH:
            break
        if kind == _SCAN:
            return found
        if kind in (0, 0xFF):
            offset = found + 1
        elif kind not in _ALONE:
            length = int.from_bytes(data[offset : offset + 2], "big")
            rubbish -= 1 if length > 2 else 0
            offset += max(2, length)
    return -1


def count_scans(data: bytes) -> int:
    """Walks from marker to marker behind the first scan; returns 0 if that leads to no end.

    It stops counting behind `MAX_SCANS`.
    """
    offset = first_scan(data)
    scans = 0
    if offset < 0:
        return 0
    while found := _MARKER_IN_SCAN.search(data, offset):
        kind, offset = found[1][0], found.end()
        if kind == _END or scans > MAX_SCANS:
            return scans
        if kind == _START or kind in _FRAMES:  # another picture begins inside this one
            return 0
        scans += kind == _SCAN
        offset += max(2, int.from_bytes(data[offset : offset + 2], "big"))
    return 0
