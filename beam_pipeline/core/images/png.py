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

from beam_pipeline.core.images.header import (
    MAX_PIXELS,
    PNG_CHANNELS,
    PNG_PALETTE,
    UPRIGHT,
    ImageHeader,
    bomb,
    corrupt,
    cut_short,
    exif_orientation,
    is_bomb,
)

if TYPE_CHECKING:
    from PIL import Image

MAGIC = b"\x89PNG\r\n\x1a\n"
START = MAGIC + b"\0\0\0\rIHDR"
HEADER = struct.Struct(">IIBBBBBI")  # after the start; the last is a CRC-32
HEADER_END = len(START) + HEADER.size
DEPTHS = {
    0: (1, 2, 4, 8, 16),
    2: (8, 16),
    PNG_PALETTE: (1, 2, 4, 8),
    4: (8, 16),
    6: (8, 16),
}
"""Colour type -> bits a sample."""
MAX_SIDE = 1_000_000
"""libpng refuses a longer side."""
END = b"\0\0\0\0IEND\xaeB`\x82"

_CACHED_STARTS = 4096
_SKIPPED = {  # name -> lengths
    b"cHRM": (32,),
    b"gAMA": (4,),
    b"pHYs": (9,),
    b"sRGB": (1,),
    b"tEXt": range(1 << 16),
    b"tIME": (7,),
}
_CHUNK = struct.Struct(">I4s")
_CRC_BYTES = 4
_KNOWN = frozenset({b"IHDR", b"PLTE", b"IDAT", b"IEND"})
_MAX_CHUNK = (1 << 31) - 1
_SAMPLES = {0: 1, 2: 3, PNG_PALETTE: 1, 4: 2, 6: 4}  # a pixel, by colour type
_PIECE_BYTES = 1 << 20  # 1 MiB
_MAX_FILTER, _UP = 4, 2  # filters of rows; the second is the difference to the byte above
_DEEP = 16
_CHANNELS = {2: 3, 4: 2, 6: 4}  # colour type -> channels, of PNGs of 16 bits that Pillow cuts to 8
_TYPES = {channels: colour_type for colour_type, channels in _CHANNELS.items()}
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


class _Chunk(NamedTuple):
    """A chunk; its content is `data[start:end]`, and its CRC-32 follows."""

    kind: bytes
    start: int
    end: int


class _Start(NamedTuple):
    """The content of the chunks before the pixels.

    Attributes:
      transparent: colours of the palette are transparent.
      orientation: EXIF's.
    """

    transparent: bool
    orientation: int


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
    return _image_header(layout, _before_pixels(data, layout), has_end(data))


def check_png(data: bytes) -> ImageHeader:
    """Reads all of a PNG: the checksums, the compressed pixels and the filter of each row.

    Memory is a few MiB, whatever the size of the image.

    Raises:
      BadImageError: as `png_header`, and where pixels are damaged or missing.
    """
    layout = _layout(data)
    header = _image_header(layout, _before_pixels(data, layout), has_end(data))
    _check_pixels(data, layout)
    return header


def grey_png(pixels: bytes, width: int, height: int, bits: int = 8) -> bytes:
    """A grey PNG; the same pixels give the same bytes with the same zlib.

    Args:
      pixels: row by row; of 16 bits, the higher byte first.
      width: in pixels.
      height: in pixels.
      bits: 8 or 16 a pixel.
    """
    stride = width * bits // 8
    rows = b"".join(
        b"\0" + pixels[start : start + stride] for start in range(0, height * stride, stride)
    )
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


def has_end(data: bytes, offset: int = len(MAGIC)) -> bool:
    """Tells whether chunks reach the last one.

    Args:
      data: the file.
      offset: of a chunk, where to begin if the last bytes of the file are not its end.
    """
    if data.endswith(END):
        return True
    return any(chunk.kind == b"IEND" for chunk in _chunks(data, offset))


def pixel_chunks(data: bytes) -> Iterator[memoryview]:
    """Yields the parts of the compressed pixels."""
    for kind, start, end in _chunks(data, len(MAGIC)):
        if kind == b"IDAT":
            yield memoryview(data)[start:end]


def _chunks(data: bytes, offset: int) -> Iterator[_Chunk]:
    """Yields chunks up to the last one, or up to where the file ends."""
    kind = b""
    while kind != b"IEND" and offset + _CHUNK.size <= len(data):
        length, kind = _CHUNK.unpack_from(data, offset)
        start = offset + _CHUNK.size
        offset = start + length + _CRC_BYTES
        if offset > len(data) or length > _MAX_CHUNK or not kind.isalpha():
            return
        yield _Chunk(kind, start, start + length)


def _layout(data: bytes) -> _Layout:
    if not data.startswith(START) or len(data) < HEADER_END:
        raise corrupt("PNG", "the header is broken or cut short", data)
    width, height, depth, colour_type, compression, filters, interlaced, crc = HEADER.unpack_from(
        data, len(START)
    )
    if zlib.crc32(data[12 : HEADER_END - _CRC_BYTES]) != crc:
        raise corrupt("PNG", "the checksum of the header is wrong", data)
    if depth not in DEPTHS.get(colour_type, ()) or compression or filters or interlaced > 1:
        raise corrupt(
            "PNG",
            f"the header claims {depth} bits, colour type {colour_type}, compression "
            f"{compression}, filter {filters} and interlacing {interlaced}",
            data,
        )
    if not width or not height:
        raise corrupt("PNG", f"the header claims {width} x {height} pixels", data)
    if is_bomb(height, width) or max(height, width) > MAX_SIDE:
        raise bomb(height, width)
    return _Layout(
        width=width,
        height=height,
        depth=depth,
        colour_type=colour_type,
        interlaced=bool(interlaced),
    )


def _before_pixels(data: bytes, layout: _Layout) -> _Start:
    """Reads the chunks before the pixels."""
    colours, transparent, orientation = 0, False, UPRIGHT
    for kind, start, end in _chunks(data, HEADER_END):
        if kind == b"IDAT":
            if layout.colour_type == PNG_PALETTE and not colours:
                raise corrupt("PNG", "the palette is missing", data)
            return _Start(transparent, orientation)
        sound = _is_sound(data, start, end)
        if kind == b"PLTE" and sound and not colours:
            colours = min((end - start) // 3, 256)
        elif kind == b"tRNS" and sound and 0 < end - start <= min(colours, 1 << layout.depth):
            transparent = True
        elif kind == b"eXIf" and sound:
            orientation = exif_orientation(data[start:end])
        elif kind == b"IEND":
            break
        _check_critical(data, kind, sound)
    raise corrupt("PNG", "there are no pixels", data)


def _check_critical(data: bytes, kind: bytes, sound: bool) -> None:
    if kind[:1].isupper() and (not sound or kind not in _KNOWN):
        raise corrupt("PNG", f"the chunk {kind.decode()} is damaged or unknown", data)


def _is_sound(data: bytes, start: int, end: int) -> bool:
    crc = zlib.crc32(memoryview(data)[start - 4 : end])
    return crc.to_bytes(_CRC_BYTES, "big") == data[end : end + _CRC_BYTES]


def _image_header(layout: _Layout, start: _Start, whole: bool) -> ImageHeader:
    if not whole:
        raise cut_short("PNG", "IEND, its last chunk, is missing")
    channels = PNG_CHANNELS[layout.colour_type]
    if layout.colour_type == PNG_PALETTE and start.transparent:
        channels = 4
    return ImageHeader("png", layout.height, layout.width, channels, start.orientation)


def _check_pixels(data: bytes, layout: _Layout) -> None:
    """Walks over all chunks, inflates the pixels as far as the image needs, and throws them away."""
    pixels = _Pixels(layout)
    started = ended = False
    kind = b""
    for kind, start, end in _chunks(data, len(MAGIC)):
        _check_critical(data, kind, _is_sound(data, start, end))
        if kind == b"IDAT" and not ended:
            started = True
            try:
                pixels.take(memoryview(data)[start:end])
            except zlib.error as error:
                raise corrupt("PNG", f"the pixels cannot be decompressed: {error}", data) from error
        else:
            ended = started
    if kind != b"IEND":
        raise cut_short("PNG", "its chunks do not lead to IEND, the last one")
    if not pixels.complete:
        raise corrupt("PNG", f"pixels are missing: {pixels.rows.missing} bytes, or their end", data)
    if pixels.rows.bad_filter:
        raise corrupt("PNG", "a row has a filter that there is not", data)


class _Pixels:
    """Inflates pixels by pieces.

    As in libpng, the compressed data must reach its end. A checksum that is wrong counts only if the
    data ends with the last row; behind more data than the image needs, any fault is an end.

    Attributes:
      rows: the rows found.
      complete: nothing is missing.
    """

    def __init__(self, layout: _Layout) -> None:
        self.rows = _Rows(layout)
        self.complete = False
        self._inflater = zlib.decompressobj()

    def take(self, packed: bytes | memoryview) -> None:
        """Takes the content of one chunk. Raises zlib.error."""
        while packed and not self.complete:
            missing = self.rows.missing
            try:
                piece = self._inflater.decompress(
                    packed, min(missing or _PIECE_BYTES, _PIECE_BYTES)
                )
            except zlib.error:
                if missing:
                    raise
                self.complete = True
                return
            self.rows.take(piece)
            self.complete = self._inflater.eof and not self.rows.missing
            packed = b"" if self._inflater.eof else self._inflater.unconsumed_tail


class _Rows:
    """Takes decompressed rows and looks at the first byte of each, which is its filter.

    Attributes:
      missing: bytes that have not come yet.
      bad_filter: a row has an unknown filter.
    """

    def __init__(self, layout: _Layout) -> None:
        bits = layout.depth * _SAMPLES[layout.colour_type]
        passes = _PASSES if layout.interlaced else ((0, 0, 1, 1),)
        self._passes = []  # (bytes a row with its filter, rows)
        for left, top, across, down in passes:
            width = (layout.width - left + across - 1) // across
            height = (layout.height - top + down - 1) // down
            if width > 0 and height > 0:
                self._passes.append((1 + (width * bits + 7) // 8, height))
        self.missing = sum(stride * rows for stride, rows in self._passes)
        self.bad_filter = False
        self._offset = 0  # in the current pass

    def take(self, piece: bytes) -> None:
        """Takes the next bytes; those after the last row are ignored."""
        while piece and self._passes:
            stride, rows = self._passes[0]
            part, piece = (
                piece[: stride * rows - self._offset],
                piece[stride * rows - self._offset :],
            )
            filters = part[-self._offset % stride :: stride]
            self.bad_filter |= bool(filters) and max(filters) > _MAX_FILTER
            self._offset += len(part)
            self.missing -= len(part)
            if self._offset == stride * rows:
                del self._passes[0]
                self._offset = 0


def plain_png_header(data: bytes) -> ImageHeader | None:
    """The header of an ordinary PNG that has its end, in little time; None for any other bytes."""
    header = _png_start(data[:HEADER_END])
    if not header:
        return None
    offset = HEADER_END
    while (kind := data[offset + 4 : offset + 8]) != b"IDAT":
        length = int.from_bytes(data[offset : offset + 4], "big")
        end = offset + 8 + length
        if length not in _SKIPPED.get(kind, ()) or end + 4 > len(data):
            return None
        if zlib.crc32(data[offset + 4 : end]).to_bytes(4, "big") != data[end : end + 4]:
            return None
        offset = end + 4
    end = offset + 8 + int.from_bytes(data[offset : offset + 4], "big")
    if end + 4 > len(data) or not has_end(data, offset):
        return None
    return header


@lru_cache(_CACHED_STARTS)
def _png_start(start: bytes) -> ImageHeader | None:
    """Reads the signature and the first chunk, which are the same in all images of a size and kind."""
    if len(start) < HEADER_END:
        return None
    width, height, depth, colour_type, compression, filters, interlaced, crc = HEADER.unpack_from(
        start, len(START)
    )
    if colour_type == PNG_PALETTE or depth not in DEPTHS.get(colour_type, ()):
        return None
    if compression or filters or interlaced > 1 or max(height, width) > MAX_SIDE:
        return None
    if zlib.crc32(start[12:-4]) != crc or not 0 < height * width <= MAX_PIXELS:
        return None
    return ImageHeader("png", height, width, PNG_CHANNELS[colour_type])


def colour_channels(data: bytes, header: ImageHeader) -> Sequence[Image.Image] | None:
    """The channels of a colour PNG of 16 bits, each a grey image; None for any other image.

    Raises:
      ValueError, zlib.error: the pixels are damaged, or interlaced.
    """
    if header.format != "png" or len(data) < HEADER_END:
        return None
    width, height, depth, colour_type, _, _, interlaced, _ = HEADER.unpack_from(data, len(START))
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
    packed = b"".join(pixel_chunks(data))
    rows = zlib.decompressobj().decompress(packed, height * stride)
    if len(rows) != height * stride:
        raise ValueError(f"{height * stride - len(rows)} bytes of pixels are missing")
    return np.frombuffer(rows, np.uint8).reshape(height, 1 + width * pixel_bytes), pixel_bytes


def _plane(rows: tuple[Any, int], byte: int) -> Any:
    """One byte of each pixel, without the filter."""
    import numpy as np
    from PIL import Image

    filtered, pixel_bytes = rows
    part = np.concatenate((filtered[:, :1], filtered[:, 1 + byte :: pixel_bytes]), axis=1)
    height, width = part.shape[0], part.shape[1] - 1
    grey_png = _written((width, height, 8, 0), part.tobytes(), level=0)
    with Image.open(io.BytesIO(grey_png)) as image:
        return np.asarray(image)


def _joined(high: Any, low: Any) -> Image.Image:
    import numpy as np
    from PIL import Image

    return Image.fromarray((high.astype(np.uint16) << 8) | low)


def png_of_channels(channels: Sequence[Image.Image]) -> bytes:
    """Grey images of 16 bits as the channels of one PNG."""
    import numpy as np

    values = np.stack([np.asarray(channel) for channel in channels], axis=-1).astype(">u2")
    height, width, depth = values.shape
    rows = np.frombuffer(values.tobytes(), np.uint8).reshape(height, width * depth * 2)
    filtered = np.empty((height, rows.shape[1] + 1), np.uint8)
    filtered[:, 0] = _UP
    filtered[:, 1:] = rows
    filtered[1:, 1:] -= rows[:-1]
    return _written((width, height, _DEEP, _TYPES[depth]), filtered.tobytes())
