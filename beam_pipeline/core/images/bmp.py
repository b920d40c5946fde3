"""BMPs, by the rules of `tf.io.decode_image`, which are stricter than Pillow's and simpler.

TensorFlow reads five numbers of the header. It does not look at a palette, at masks or at a
compression: the bytes of a pixel are its channels. The file must end with the last row.

    "BM" size 0 0 OFFSET | header size, WIDTH, HEIGHT, planes, BITS, compression, ...
    0         ...     10   14           18     22      26      28    30

Source: tensorflow/core/kernels/image/decode_image_op.cc.
"""

from __future__ import annotations

import struct

from beam_pipeline.core.dead_letters import Reason
from beam_pipeline.core.images.header import (
    REENCODED,
    BadImageError,
    ImageHeader,
    bomb,
    is_bomb,
)

MAGIC = b"BM"
_FIELDS = struct.Struct("<iIiiHHI")  # from byte 10 on
_FIELDS_START = 10
_CHANNELS = {8: 1, 24: 3, 32: 4}  # by bits a pixel; a palette is not looked up
_OLD_HEADER_BYTES = 12  # OS/2's first, with its figures elsewhere
_COMPRESSION_FROM = 20  # bytes of a header that has the field
_UNCOMPRESSED = (0, 3, 6)  # plain, and plain with masks for its bits


def bmp_header(data: bytes) -> ImageHeader:
    """Reads the header of a BMP and compares the file's length with what it claims.

    Raises:
      BadImageError: TensorFlow does not decode it, or would decode something else.
    """
    if len(data) < _FIELDS_START + _FIELDS.size:
        raise _corrupt("the header is broken or cut short", data)
    offset, header_bytes, width, height, _, bits, compression = _FIELDS.unpack_from(
        data, _FIELDS_START
    )
    if header_bytes < _OLD_HEADER_BYTES or offset < 0:
        raise _corrupt("the header is broken or cut short", data)
    compressed = header_bytes >= _COMPRESSION_FROM and compression not in _UNCOMPRESSED
    if header_bytes == _OLD_HEADER_BYTES or compressed or bits not in _CHANNELS:
        raise BadImageError(
            Reason.UNSUPPORTED_FORMAT,
            "a BMP that is compressed, of OS/2's oldest kind, or of other than 8, 24 or 32 bits a "
            f"pixel cannot be decoded by tf.io.decode_image; {REENCODED}",
        )
    channels, rows = _CHANNELS[bits], abs(height)
    if width <= 0 or not rows:
        raise _corrupt(f"the header claims {width} x {height} pixels", data)
    if is_bomb(rows, width):
        raise bomb(rows, width)
    expected = offset + rows * ((channels * width + 3) // 4 * 4)
    if len(data) != expected:
        raise _corrupt(
            f"{expected} bytes were expected: pixels from byte {offset} on, {rows} rows of {width} "
            f"x {channels}",
            data,
        )
    return ImageHeader("bmp", rows, width, channels)


def _corrupt(what: str, data: bytes) -> BadImageError:
    return BadImageError(
        Reason.CORRUPT_IMAGE, f"starts like BMP, but {what} (the file has {len(data)} bytes)"
    )
