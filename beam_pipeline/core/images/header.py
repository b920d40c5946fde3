"""The header of an image: format, size and orientation, and the error for bytes that are not a usable image.

EXIF's orientation tells how a viewer turns the stored pixels before it shows them. EXIF is a little TIFF
file inside the image: a header with the offset of a directory, then its entries of 12 bytes each.

    "II" 2A 00 08 00 00 00          little-endian, the directory is at byte 8
    02 00                           two entries
    12 01 03 00 01 00 00 00 06 00 00 00   tag 0112, type 3, one value: 6
    ...

The value tells where the first row and the first column of the stored pixels belong:

    1        2        3        4        5          6          7          8
    ##       ##         #      #        #####      #            #        #####
    #         #         #      #        # #        # #        # #        # #
    ##       ##        ##      ##       #          #####    #####            #
    #         #         #      #
    #         #        ##      ##

Source: CIPA DC-008 (EXIF 2.3), 4.6.4.
"""

from __future__ import annotations

import contextlib
import struct
from typing import NamedTuple

from beam_pipeline.core.dead_letters import Reason

RAW_FORMAT = "raw"
"""The value of `image/format` where `image/encoded` is uint8 pixels, row by row, channels together."""

DIGEST_BYTES = 16
NO_DIGEST = bytes(DIGEST_BYTES)
"""Stands for the digest of an image that was not read, or became no example."""

MAX_PIXELS = 178_956_970
"""A larger image is a decompression bomb. This is Pillow's own limit for an error."""

REENCODED = "--reencode auto makes it a PNG or JPEG"
"""The way out for images that readers of TFRecords do not decode, and Pillow does."""

PNG_PALETTE = 3
"""A PNG's colour type."""

_MAGICS = (
    (b"\xff\xd8\xff", "jpg"),
    (b"\x89PNG\r\n\x1a\n", "png"),
    (b"GIF8", "gif"),
    (b"BM", "bmp"),
    (b"II*\0", "tif"),
    (b"MM\0*", "tif"),
    (b"\x00\x00\x00\x0cjP  ", "jp2"),
    (b"\xff\x0a", "jxl"),
    (b"\x00\x00\x00\x0cJXL ", "jxl"),
)
"""(first bytes, extension) of image files that their first bytes alone tell."""
LEAST_IMAGE = 24  # bytes


def image_extension(data: bytes) -> str:
    """The extension of an image file by its first bytes; empty if unknown."""
    if len(data) < LEAST_IMAGE:
        return ""
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return "webp"
    if data[4:8] == b"ftyp" and data[8:12] in (b"avif", b"avis", b"heic", b"heix", b"mif1"):
        return "avif" if data[8:10] == b"av" else "heic"
    return next((name for magic, name in _MAGICS if data.startswith(magic)), "")


class ImageHeader(NamedTuple):
    """The header of an image.

    Attributes:
      format: "jpeg", "png", "gif", "bmp", "webp", "jxl" or "raw".
      height, width: in pixels as stored, before any EXIF rotation.
      channels: as `tf.io.decode_image` returns them.
      orientation: EXIF's, from 1 (upright) to 8.
    """

    format: str
    height: int
    width: int
    channels: int
    orientation: int = 1

    @property
    def size(self) -> tuple[int, int]:
        """(width, height)."""
        return self.width, self.height


class BadImageError(Exception):
    """The bytes cannot become an example. Carries the reason for the dead letter."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def check_pixels(height: int, width: int, max_side: int = MAX_PIXELS) -> None:
    """Makes sure that an image does not claim more than `MAX_PIXELS`. Raises BadImageError."""
    if max(1, height) * max(1, width) > MAX_PIXELS or max(height, width) > max_side:
        raise bomb(height, width)


def bomb(height: int, width: int) -> BadImageError:
    """The error for an image that claims too many pixels."""
    return BadImageError(
        Reason.DECOMPRESSION_BOMB,
        f"the header claims {width} x {height} pixels: more than {MAX_PIXELS} pixels, or a side longer "
        "than decoders accept; scale the image down to keep it",
    )


def out_of_memory(work: str) -> BadImageError:
    """The error for an image that needs too much memory: to read it, for instance."""
    return BadImageError(Reason.DECOMPRESSION_BOMB, f"{work} it takes more memory than there is")


def corrupt(name: str, fault: str, data: bytes) -> BadImageError:
    """The error for a file that begins as an image of a kind does, and is broken."""
    return BadImageError(
        Reason.CORRUPT_IMAGE, f"starts like {name}, but {fault} (the file has {len(data)} bytes)"
    )


def cut_short(name: str, missing: str) -> BadImageError:
    """The error for an image whose header is sound and whose end is missing."""
    return BadImageError(
        Reason.CORRUPT_IMAGE, f"the {name} header is sound, but the file is cut short: {missing}"
    )


def unsupported(fault: str) -> BadImageError:
    """The error for an image that is not decoded, or not written, in its format."""
    return BadImageError(Reason.UNSUPPORTED_FORMAT, fault)


def undecodable(name: str, fault: object = "") -> BadImageError:
    """The error for an image whose header is sound and whose pixels are not."""
    text = f"the {name} header is sound, decoding fails" + (f": {fault}" if fault else "")
    return BadImageError(Reason.CORRUPT_IMAGE, text)


UPRIGHT = 1
QUARTER_TURNS = frozenset({5, 6, 7, 8})
"""Orientations that swap width and height."""

EXIF_PREFIX = b"Exif\0\0"
"""The prefix of the TIFF header in a JPEG's segment, and in some PNGs and WebPs."""

_TAG = 0x0112
_ORDERS = {b"II*\0": "<", b"MM\0*": ">"}  # by the beginning of the TIFF header
_VALUES = {1: "B", 3: "H", 4: "I"}  # by type: byte, short, long
_ENTRY_BYTES = 12


def exif_orientation(exif: bytes) -> int:
    """Reads the orientation, from 1 to 8; 1, upright, if it is missing or EXIF is damaged."""
    start = len(EXIF_PREFIX) if exif.startswith(EXIF_PREFIX) else 0
    order = _ORDERS.get(exif[start : start + 4])
    if order is None:
        return UPRIGHT
    with contextlib.suppress(struct.error):
        (directory,) = struct.unpack_from(f"{order}I", exif, start + 4)
        (entries,) = struct.unpack_from(f"{order}H", exif, start + directory)
        first = start + directory + 2
        for entry in range(first, first + entries * _ENTRY_BYTES, _ENTRY_BYTES):
            tag, kind, count = struct.unpack_from(f"{order}HHI", exif, entry)
            if tag == _TAG and kind in _VALUES and count == 1:
                (value,) = struct.unpack_from(f"{order}{_VALUES[kind]}", exif, entry + 8)
                return value if 1 <= value <= 8 else UPRIGHT
    return UPRIGHT
