"""Images of 16 bits a sample. Pillow holds grey ones and cuts the others to 8 bits.

A colour PNG of 16 bits is read by Pillow all the same, one byte of each pixel at a time: PNG's filters
work on the bytes of a pixel independently, so that the first bytes of all pixels are, with the filter of
each row, the rows of a grey PNG of 8 bits. A row of two RGB pixels,

    filter  R1 r1 G1 g1 B1 b1  R2 r2 G2 g2 B2 b2        (R: the high byte of red, r: the low one)

is the rows `filter R1 R2`, `filter r1 r2`, ... of six grey PNGs.
"""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Sequence
from typing import Any

from PIL import Image

from beam_pipeline.core.images import png as png_file
from beam_pipeline.core.images.geometry import Rectangle
from beam_pipeline.core.images.header import ImageHeader
from beam_pipeline.core.references import Size

_DEEP = 16
_CHANNELS = {2: 3, 4: 2, 6: 4}  # colour type -> channels, of PNGs that Pillow cuts to 8 bits
_TYPES = {channels: colour_type for colour_type, channels in _CHANNELS.items()}
_MOST = (1 << _DEEP) - 1
_UP = 2  # PNG's filter: the difference to the byte above
_LEVEL = 6


def grey(image: Image.Image) -> Image.Image:
    """A grey image of 16 bits, from one of more or of other byte order; wider values are cut."""
    import numpy as np

    if image.mode == "I;16":
        return image
    values = np.clip(np.asarray(image), 0, _MOST).astype("<u2")
    return Image.fromarray(values)


def scaled(image: Image.Image, size: Size, box: Rectangle) -> Image.Image:
    """Scales a grey image of 16 bits."""
    wide = image.convert("I").resize(size, Image.Resampling.LANCZOS, box)
    return grey(wide)


def to_8_bits(image: Image.Image) -> Image.Image:
    """The upper 8 bits of a grey image of 16, which Pillow before 11 reads into 32; others as they are."""
    if not image.mode.startswith("I"):
        return image
    import numpy as np  # takes long to import, and few images are of 16 bits

    return Image.fromarray((np.asarray(grey(image)) >> 8).astype(np.uint8))


def colour_channels(data: bytes, header: ImageHeader) -> Sequence[Image.Image] | None:
    """The channels of a colour PNG of 16 bits, each a grey image; None for any other image.

    Raises:
      ValueError, zlib.error: the pixels are damaged, or interlaced.
    """
    if header.format != "png" or len(data) < png_file.HEADER_END:
        return None
    width, height, depth, colour_type, _, _, interlaced, _ = png_file.HEADER.unpack_from(
        data, len(png_file.START)
    )
    if depth != _DEEP or colour_type not in _CHANNELS:
        return None
    if interlaced:
        raise ValueError("an interlaced colour PNG of 16 bits cannot be scaled or turned")
    rows = _rows(data, width, height, 2 * _CHANNELS[colour_type])
    return [
        _joined(_plane(rows, 2 * channel), _plane(rows, 2 * channel + 1))
        for channel in range(_CHANNELS[colour_type])
    ]


def _rows(data: bytes, width: int, height: int, pixel_bytes: int) -> Any:
    """The filtered rows: an array of height x (1 + width x pixel_bytes)."""
    import numpy as np

    stride = 1 + width * pixel_bytes
    packed = b"".join(png_file.pixel_chunks(data))
    rows = zlib.decompressobj().decompress(packed, height * stride)
    if len(rows) != height * stride:
        raise ValueError(f"{height * stride - len(rows)} bytes of pixels are missing")
    return np.frombuffer(rows, np.uint8).reshape(height, 1 + width * pixel_bytes), pixel_bytes


def _plane(rows: tuple[Any, int], byte: int) -> Any:
    """One byte of each pixel, without the filter."""
    import numpy as np

    filtered, pixel_bytes = rows
    part = np.concatenate((filtered[:, :1], filtered[:, 1 + byte :: pixel_bytes]), axis=1)
    height, width = part.shape[0], part.shape[1] - 1
    grey_png = _file(width, height, 8, 0, part.tobytes(), level=0)
    with Image.open(io.BytesIO(grey_png)) as image:
        return np.asarray(image)


def _joined(high: Any, low: Any) -> Image.Image:
    import numpy as np

    return Image.fromarray((high.astype(np.uint16) << 8) | low)


def png(channels: Sequence[Image.Image]) -> bytes:
    """Grey images of 16 bits as the channels of one PNG."""
    import numpy as np

    values = np.stack([np.asarray(channel) for channel in channels], axis=-1).astype(">u2")
    height, width, depth = values.shape
    rows = np.frombuffer(values.tobytes(), np.uint8).reshape(height, width * depth * 2)
    filtered = np.empty((height, rows.shape[1] + 1), np.uint8)
    filtered[:, 0] = _UP
    filtered[:, 1:] = rows
    filtered[1:, 1:] -= rows[:-1]
    return _file(width, height, _DEEP, _TYPES[depth], filtered.tobytes(), level=_LEVEL)


def _file(
    width: int, height: int, depth: int, colour_type: int, rows: bytes, *, level: int
) -> bytes:
    """A PNG of filtered rows."""
    chunks = (
        (b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour_type, 0, 0, 0)),
        (b"IDAT", zlib.compress(rows, level)),
        (b"IEND", b""),
    )
    return png_file.MAGIC + b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        for kind, body in chunks
    )
