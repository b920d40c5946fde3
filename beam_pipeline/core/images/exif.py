"""The orientation that EXIF gives an image: how a viewer turns the stored pixels before it shows them.

EXIF is a little TIFF file inside the image: a header with the offset of a directory, then the
directory's entries of 12 bytes each.

    "II" 2A 00 08 00 00 00          little-endian, the directory is at byte 8
    02 00                           two entries
    12 01 03 00 01 00 00 00 06 00 00 00   tag 0112, type 3, one value: 6
    ...

The value says where the first row and the first column of the stored pixels belong:

    1        2        3        4        5          6          7          8
    ##       ##         #      #        #####      #            #        #####
    #         #         #      #        # #        # #        # #        # #
    ##       ##        ##      ##       #          #####    #####            #
    #         #         #      #
    #         #        ##      ##

Source: CIPA DC-008 (EXIF 2.3), 4.6.4.
"""

from __future__ import annotations

import struct

UPRIGHT = 1
QUARTER_TURNS = frozenset({5, 6, 7, 8})
"""Orientations that swap width and height."""

PREFIX = b"Exif\0\0"
"""The prefix of the TIFF header in a JPEG's segment, and in some PNGs and WebPs."""

_TAG = 0x0112
_ORDERS = {b"II": "<", b"MM": ">"}
_MARK = 42
_VALUES = {1: "B", 3: "H", 4: "I"}  # by type: byte, short, long
_ENTRY_BYTES = 12


def exif_orientation(exif: bytes) -> int:
    """Reads the orientation, from 1 to 8; 1, upright, if there is none or EXIF is damaged."""
    start = len(PREFIX) if exif.startswith(PREFIX) else 0
    order = _ORDERS.get(exif[start : start + 2])
    if order is None:
        return UPRIGHT
    try:
        mark, directory = struct.unpack_from(f"{order}HI", exif, start + 2)
        if mark != _MARK:
            return UPRIGHT
        entry = start + directory
        (entries,) = struct.unpack_from(f"{order}H", exif, entry)
        entry += 2
        for _ in range(entries):
            tag, kind, count = struct.unpack_from(f"{order}HHI", exif, entry)
            if tag == _TAG and kind in _VALUES and count == 1:
                (value,) = struct.unpack_from(f"{order}{_VALUES[kind]}", exif, entry + 8)
                return value if 1 <= value <= 8 else UPRIGHT
            entry += _ENTRY_BYTES
    except struct.error:
        pass
    return UPRIGHT
