"""PNGs, read as libpng reads them for `tf.io.decode_image`: chunk by chunk, without Pillow.

A chunk is its length, its name, its content, and the CRC-32 of name and content. The first letter of
the name is a capital if no decoder may skip the chunk:

    89 "PNG" 0D 0A 1A 0A                       the signature
    00 00 00 0D "IHDR" 00 00 00 09 ... CRC     width 9, height, depth, colour type, ...
    00 00 20 00 "IDAT" ... CRC                 a part of the compressed pixels; others follow
    00 00 00 00 "IEND" AE 42 60 82             the end: nothing after it is read

A colour PNG of 16 bits a sample is read by Pillow all the same, which cuts others to 8 bits, one byte of
each pixel at a time: PNG's filters work on the bytes of a pixel independently, so that the first bytes of
all pixels are, with the filter of each row, the rows of a grey PNG of 8 bits. A row of two RGB pixels,

    filter  R1 r1 G1 g1 B1 b1  R2 r2 G2 g2 B2 b2        (R: the high byte of red, r: the low one)

is the rows `filter R1 R2`, `filter r1 r2`, ... of six grey PNGs.

Source: ISO/IEC 15948.
"""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from beam_pipeline.core.images import header as headers
from beam_pipeline.core.images.header import PNG_PALETTE, ImageHeader, corrupt

if TYPE_CHECKING:
    from PIL import Image

MAGIC = b"\x89PNG\r\n\x1a\n"
START = MAGIC + b"\0\0\0\rIHDR"
HEADER = struct.Struct(">16xIIBBBBBI")  # after the start; the last is a CRC-32
_DEPTHS = {0: (1, 2, 4, 8, 16), 2: (8, 16), PNG_PALETTE: (1, 2, 4, 8), 4: (8, 16), 6: (8, 16)}
"""Colour type -> bits a sample."""
_SAMPLES = {0: 1, 2: 3, PNG_PALETTE: 1, 4: 2, 6: 4}
"""Colour type -> samples a pixel."""
MAX_SIDE = 1_000_000
"""libpng refuses a longer side."""
END = b"\0\0\0\0IEND\xaeB`\x82"

_CACHED_STARTS = 4096
_CHUNK = struct.Struct(">I4s")
_CRC_BYTES = 4
_KNOWN = frozenset({b"IHDR", b"PLTE", b"IDAT", b"IEND"})
_MAX_CHUNK = (1 << 31) - 1
_PIECE_BYTES = 1 << 20  # 1 MiB
_UP = 2  # a filter of rows: the difference to the byte above
_DEEP = 16
_CUT = (2, 4, 6)  # colour types, of PNGs of 16 bits that Pillow cuts to 8
_WRITTEN_LEVEL = 6  # of zlib
_PASSES = (  # of an interlaced image: first column and row, steps between them
    (0, 0, 8, 8),
    (4, 0, 8, 8),
    (0, 4, 4, 8),
    (2, 0, 4, 4),
    (0, 2, 2, 4),
    (1, 0, 2, 2),
    (0, 1, 1, 2),
)


class _Layout(NamedTuple):
    """The first chunk of a PNG."""

    width: int
    height: int
    depth: int
    colour_type: int
    interlaced: bool


def png_header(data: bytes) -> ImageHeader:
    """Reads the header of a PNG and looks for its end.

    Raises:
      BadImageError: it is broken or cut short, or claims too many pixels.
    """
    layout = _layout(data)
    colours, orientation = 0, headers.UPRIGHT
    channels = 3 if layout.colour_type == PNG_PALETTE else _SAMPLES[layout.colour_type]
    for kind, start, end in _chunks(data, HEADER.size):
        if kind == b"IDAT":
            break
        sound = _is_sound(data, start, end)
        if kind == b"PLTE" and sound and not colours:
            colours = min((end - start) // 3, 256)
        elif kind == b"tRNS" and sound and 0 < end - start <= min(colours, 1 << layout.depth):
            channels = 4 if layout.colour_type == PNG_PALETTE else channels
        elif kind == b"eXIf" and sound:
            orientation = headers.exif_orientation(data[start:end])
        _check_critical(data, kind, sound)
    else:
        raise corrupt("PNG", "there are no pixels", data)
    if layout.colour_type == PNG_PALETTE and not colours:
        raise corrupt("PNG", "the palette is missing", data)
    kinds = (kind for kind, _, _ in _chunks(data, HEADER.size))
    if not data.endswith(END) and b"IEND" not in kinds:
        raise headers.cut_short("PNG", "IEND, its last chunk, is missing")
    return ImageHeader("png", layout.height, layout.width, channels, orientation)


def check_png(data: bytes) -> ImageHeader:
    """Reads all of a PNG: the checksums, and the compressed pixels, which are thrown away.

    Memory is a few MiB, whatever the size of the image. As in libpng, the compressed data must reach its
    end. A checksum that is wrong counts only if the data ends with the last row; after more data than the
    image needs, any fault is an end.

    Raises:
      BadImageError: as `png_header`, and where pixels are damaged or missing.
    """
    layout, header = _layout(data), png_header(data)
    missing, inflater = _pixel_bytes(layout), zlib.decompressobj()
    started = ended = complete = False
    kind = b""
    for kind, start, end in _chunks(data, len(MAGIC)):
        _check_critical(data, kind, _is_sound(data, start, end))
        if kind != b"IDAT" or ended:
            ended = started
            continue
        started, packed = True, memoryview(data)[start:end]
        try:
            while packed and not complete:
                piece = inflater.decompress(packed, min(missing or _PIECE_BYTES, _PIECE_BYTES))
                missing = max(0, missing - len(piece))
                complete = inflater.eof and not missing
                packed = memoryview(b"" if inflater.eof else inflater.unconsumed_tail)
        except zlib.error as error:
            if missing:
                raise corrupt("PNG", f"the pixels cannot be decompressed: {error}", data) from error
            complete = True
    if kind != b"IEND":
        raise headers.cut_short("PNG", "its chunks do not lead to IEND, the last one")
    if not complete:
        raise corrupt("PNG", f"pixels are missing: {missing} bytes, or their end", data)
    return header


def _pixel_bytes(layout: _Layout) -> int:
    """The bytes of all rows, each with its filter."""
    bits, size = layout.depth * _SAMPLES[layout.colour_type], 0
    for left, top, across, down in _PASSES if layout.interlaced else ((0, 0, 1, 1),):
        width = (layout.width - left + across - 1) // across
        height = (layout.height - top + down - 1) // down
        if width > 0 and height > 0:
            size += height * (1 + (width * bits + 7) // 8)
    return size


def grey_png(pixels: bytes, width: int, height: int, bits: int = 8) -> bytes:
    """A grey PNG; the same pixels give the same bytes with the same zlib.

    Args:
      pixels: row by row; of 16 bits, the higher byte first.
      width: in pixels.
      height: in pixels.
      bits: 8 or 16 a pixel.
    """
    stride = width * bits // 8
    starts = range(0, height * stride, stride)
    rows = b"".join(b"\0" + pixels[start : start + stride] for start in starts)
    return _written((width, height, bits, 0), rows)


def _written(fields: tuple[int, int, int, int], rows: bytes, level: int = _WRITTEN_LEVEL) -> bytes:
    """A PNG of filtered rows; the fields are width, height, bits a sample and colour type."""
    chunks = (
        (b"IHDR", struct.pack(">IIBBBBB", *fields, 0, 0, 0)),
        (b"IDAT", zlib.compress(rows, level)),
        (b"IEND", b""),
    )
    return MAGIC + b"".join(
        _CHUNK.pack(len(body), kind) + body + zlib.crc32(kind + body).to_bytes(_CRC_BYTES, "big")
        for kind, body in chunks
    )


def _chunks(data: bytes, offset: int) -> Iterator[tuple[bytes, int, int]]:
    """Yields (kind, start, end) of chunks up to the last one, or up to where the file ends.

    The content of a chunk is `data[start:end]`, and its CRC-32 follows.
    """
    kind = b""
    while kind != b"IEND" and offset + _CHUNK.size <= len(data):
        length, kind = _CHUNK.unpack_from(data, offset)
        start = offset + _CHUNK.size
        offset = start + length + _CRC_BYTES
        if offset > len(data) or length > _MAX_CHUNK or not kind.isalpha():
            return
        yield kind, start, start + length


def _layout(data: bytes) -> _Layout:
    try:
        return _start(data[: HEADER.size])
    except ValueError as error:
        raise corrupt("PNG", str(error), data) from error


@lru_cache(_CACHED_STARTS)
def _start(start: bytes) -> _Layout:
    """Reads the signature and the first chunk, which are the same in all images of a size and kind.

    Raises:
      ValueError: it is broken; the message tells how.
      BadImageError: it claims too many pixels.
    """
    if not start.startswith(START) or len(start) < HEADER.size:
        raise ValueError("the header is broken or cut short")
    width, height, depth, colour_type, compression, filters, interlaced, crc = HEADER.unpack(start)
    if zlib.crc32(start[12:-_CRC_BYTES]) != crc:
        raise ValueError("the checksum of the header is wrong")
    if depth not in _DEPTHS.get(colour_type, ()) or compression or filters or interlaced > 1:
        raise ValueError(
            f"the header claims {depth} bits, colour type {colour_type}, compression "
            f"{compression}, filter {filters} and interlacing {interlaced}"
        )
    if not width or not height:
        raise ValueError(f"the header claims {width} x {height} pixels")
    headers.check_pixels(height, width, MAX_SIDE)
    return _Layout(width, height, depth, colour_type, bool(interlaced))


def _check_critical(data: bytes, kind: bytes, sound: bool) -> None:
    if kind[:1].isupper() and (not sound or kind not in _KNOWN):
        raise corrupt("PNG", f"the chunk {kind.decode()} is damaged or unknown", data)


def _is_sound(data: bytes, start: int, end: int) -> bool:
    content = memoryview(data) if end - start > _PIECE_BYTES else data
    crc = zlib.crc32(content[start - 4 : end])
    return crc.to_bytes(_CRC_BYTES, "big") == data[end : end + _CRC_BYTES]


def colour_channels(data: bytes, header: ImageHeader) -> Sequence[Image.Image] | None:
    """The channels of a colour PNG of 16 bits, each a grey image; None for any other image.

    Raises:
      ValueError, zlib.error: the pixels are damaged, or interlaced.
    """
    if header.format != "png":
        return None
    width, height, depth, colour_type, interlaced = _layout(data)
    if depth != _DEEP or colour_type not in _CUT:
        return None
    import numpy as np
    from PIL import Image

    if interlaced:
        raise ValueError("an interlaced colour PNG of 16 bits cannot be scaled or turned")
    pixel_bytes = 2 * _SAMPLES[colour_type]
    stride = 1 + width * pixel_bytes
    chunks = _chunks(data, len(MAGIC))
    packed = b"".join(data[start:end] for kind, start, end in chunks if kind == b"IDAT")
    inflated = zlib.decompressobj().decompress(packed, height * stride)
    if len(inflated) != height * stride:
        raise ValueError(f"{height * stride - len(inflated)} bytes of pixels are missing")
    rows = np.frombuffer(inflated, np.uint8).reshape(height, stride)

    def plane(byte: int) -> Any:
        """One byte of each pixel, without the filter."""
        part = np.concatenate((rows[:, :1], rows[:, 1 + byte :: pixel_bytes]), axis=1)
        png = _written((width, height, 8, 0), part.tobytes(), level=0)
        with Image.open(io.BytesIO(png)) as grey:
            return np.asarray(grey)

    planes = [(plane(byte), plane(byte + 1)) for byte in range(0, pixel_bytes, 2)]
    return [Image.fromarray((high.astype(np.uint16) << 8) | low) for high, low in planes]


def png_of_channels(channels: Sequence[Image.Image]) -> bytes:
    """Grey images of 16 bits as the channels of one PNG."""
    import numpy as np

    values = np.stack([np.asarray(channel) for channel in channels], axis=-1).astype(">u2")
    height, width, samples = values.shape
    rows = np.frombuffer(values.tobytes(), np.uint8).reshape(height, width * samples * 2)
    filtered = np.empty((height, rows.shape[1] + 1), np.uint8)
    filtered[:, 0] = _UP
    filtered[:, 1:] = rows
    filtered[1:, 1:] -= rows[:-1]
    (colour_type,) = (kind for kind in _CUT if _SAMPLES[kind] == samples)
    return _written((width, height, _DEEP, colour_type), filtered.tobytes())
