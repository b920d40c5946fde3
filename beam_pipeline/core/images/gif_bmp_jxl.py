"""GIF, BMP and JPEG XL, by the rules of `tf.io.decode_image`. Headers are read without Pillow.

A GIF is read as giflib does. It is a screen, then blocks, each with a byte for its kind. Data comes in sub-blocks: a byte for
the length, that many bytes, and a length of 0 at the end.

    "GIF89a" width height flags ...     the screen, and colours if a flag is set
    21 FE | 05 "hello" | 00             an extension: here, a comment
    2C left top width height flags ...  a frame, and its own colours if a flag is set
       08 | FF ... | 12 ... | 00           bits of a code, and compressed pixels
    3B                                  the end

TensorFlow gives images of the size of the largest frame, not of the screen. It reads the frames up to
the first fault, if the first one is whole. Here a file that breaks off inside a frame is bad.

Source: https://www.w3.org/Graphics/GIF/spec-gif89a.txt, giflib's dgif_lib.c, and
tensorflow/core/lib/gif/gif_io.cc.

Of a BMP, TensorFlow reads five numbers of the header. It does not look at a palette, at masks or at a
compression: the bytes of a pixel are its channels. The file must end with the last row.

    "BM" size 0 0 OFFSET | header size, WIDTH, HEIGHT, planes, BITS, compression, ...
    0         ...     10   14           18     22      26      28    30

Source: tensorflow/core/kernels/image/decode_image_op.cc.

A JPEG XL file, which TensorFlow reads from 2.21 on, is a codestream, or a container of boxes, each with its length, a name and its content:

    FF 0A ...                                      a codestream
    00 00 00 0C "JXL " 0D 0A 87 0A                 a container
    00 00 00 14 "ftyp" "jxl " ...                  what it is: always the second box
    00 00 12 34 "jxlc" FF 0A ...                   the codestream, or
    00 00 01 00 "jxlp" 00 00 00 00 FF 0A ...       its first part, with its number,
    00 00 12 34 "jxlp" 80 00 00 01 ...             and its last one
    00 00 01 23 "Exif" ...                         others are skipped

A codestream begins with fields of bits, the lowest bit of each byte first: the size, then what the
samples are. A number is mostly a selector of two bits, which tells how many bits follow and what to add.

TensorFlow turns the image according to its orientation. Channels are the colours, 1 or 3, and alpha. Previews,
animations and other channels are rare, and refused.

Source: ISO/IEC 18181-1, annexes C and D; ISO/IEC 18181-2; tensorflow/core/lib/jxl/jxl_io.cc.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from beam_pipeline.core.dead_letters import Reason
from beam_pipeline.core.images import header as headers
from beam_pipeline.core.images.header import BadImageError, ImageHeader, corrupt, cut_short

GIF_MAGIC = b"GIF8"
_SIGNATURES = (b"GIF87a", b"GIF89a")
_SCREEN_END = 13
_FRAME = struct.Struct("<HHHHB")  # left, top, width, height, flags
_HAS_COLOURS = 0x80
_EXTENSION, _FRAME_KIND, _END = 0x21, 0x2C, 0x3B
_CONTROL = 0xF9  # an extension with the transparent colour of the next frame
_CODE_BITS = range(2, 9)


class _Frame(NamedTuple):
    """A frame as its header describes it.

    Attributes:
      width, height: in pixels.
      colours: of its palette.
      transparent: the number of the transparent colour, or -1.
      code_bits: of the first codes, without the bit that is added.
      start: offset of its first sub-block.
    """

    width: int
    height: int
    colours: int
    transparent: int
    code_bits: int
    start: int


def gif_header(data: bytes) -> ImageHeader:
    """Walks from block to block; the largest frame gives the size.

    Raises:
      BadImageError: a whole frame is missing, a frame lacks colours, the file breaks off inside a
        block, or all frames together claim too many pixels.
    """
    height = width = frames = 0
    for frame in _frames(data):
        height, width, frames = max(height, frame.height), max(width, frame.width), frames + 1
        headers.check_pixels(height, width)
        # TensorFlow gives each the size of the largest.
        if frames * height * width > headers.MAX_PIXELS:
            raise BadImageError(
                Reason.DECOMPRESSION_BOMB,
                f"{frames} frames or more of {width} x {height} pixels: more than {headers.MAX_PIXELS} pixels "
                "in all, for tf.io.decode_image; shorten the animation to keep it",
            )
    if not frames:
        raise corrupt("GIF", "there is no frame", data)
    return ImageHeader("gif", height, width, 3)


def check_gif(data: bytes) -> ImageHeader:
    """Decompresses every frame as well.

    Raises:
      BadImageError: as `gif_header`, and where a frame's codes are broken or too few, or of colours
        that its palette lacks.
    """
    header = gif_header(data)
    for number, frame in enumerate(_frames(data)):
        if fault := _fault(frame, data):
            raise headers.undecodable("gif", f"frame {number}: {fault}")
    return header


def _frames(data: bytes) -> Iterator[_Frame]:
    if not data.startswith(_SIGNATURES) or len(data) < _SCREEN_END:
        raise corrupt("GIF", "the header is broken or cut short", data)
    shared = _colours(data[10])
    offset = _SCREEN_END + 3 * shared
    transparent = -1
    # As giflib does, ends quietly at what is not a block, if a frame came before it.
    while offset < len(data) and (kind := data[offset]) in (_EXTENSION, _FRAME_KIND):
        try:
            if kind == _EXTENSION:
                if data[offset + 1] == _CONTROL and data[offset + 2] == 4:
                    transparent = data[offset + 6] if data[offset + 3] & 1 else -1
                # giflib does not know an extension without content: it expects one more chain.
                offset = _skipped(data, offset + 2 + (data[offset + 2] == 0))
                continue
            _, _, width, height, flags = _FRAME.unpack_from(data, offset + 1)
            own = _colours(flags)
            start = offset + 1 + _FRAME.size + 3 * own
            frame = _Frame(width, height, own or shared, transparent, data[start], start + 1)
            if not all(frame[:3]) or frame.code_bits not in _CODE_BITS:
                raise corrupt(
                    "GIF",
                    f"a frame claims {width} x {height} pixels of {frame.colours} colours and codes of "
                    f"{frame.code_bits} bits",
                    data,
                )
            offset = _skipped(data, frame.start)
        except (IndexError, struct.error) as error:
            raise cut_short("GIF", f"it ends inside the block at byte {offset}") from error
        transparent = -1
        yield frame


def _colours(flags: int) -> int:
    return 2 << (flags & 7) if flags & _HAS_COLOURS else 0


def _skipped(data: bytes, offset: int) -> int:
    """Returns the offset after a chain of sub-blocks. Raises IndexError if the file ends before."""
    while length := data[offset]:
        offset += length + 1
    return offset + 1


def _fault(frame: _Frame, data: bytes) -> str:
    """Decompresses a frame to the numbers of its colours; returns what is wrong, or nothing."""
    from PIL import Image  # which most jobs never need

    size, codes = (frame.width, frame.height), memoryview(data)[frame.start :]
    try:
        counts = Image.frombytes("P", size, codes, "gif", (frame.code_bits, 0)).histogram()
    except ValueError as error:
        return str(error)
    for colour in range(frame.colours, len(counts)):
        if counts[colour] and colour != frame.transparent:
            return f"colour {colour} of {frame.colours}"
    return ""


BMP_MAGIC = b"BM"
_FIELDS = struct.Struct("<10xiIiiHHI")
_CHANNELS = {8: 1, 24: 3, 32: 4}  # by bits a pixel; a palette is not looked up
_OLD_HEADER_BYTES = 12  # OS/2's first, with its figures elsewhere
_COMPRESSION_FROM = 20  # bytes of a header that has the field
_UNCOMPRESSED = (0, 3, 6)  # plain, and plain with masks for its bits


def bmp_header(data: bytes) -> ImageHeader:
    """Reads the header of a BMP and compares the file's length with what it claims.

    Raises:
      BadImageError: TensorFlow does not decode it, or would decode something else.
    """
    if len(data) < _FIELDS.size:
        raise corrupt("BMP", "the header is broken or cut short", data)
    offset, header_bytes, width, height, _, bits, compression = _FIELDS.unpack_from(data)
    if header_bytes < _OLD_HEADER_BYTES or offset < 0:
        raise corrupt("BMP", "the header is broken or cut short", data)
    compressed = header_bytes >= _COMPRESSION_FROM and compression not in _UNCOMPRESSED
    if header_bytes == _OLD_HEADER_BYTES or compressed or bits not in _CHANNELS:
        raise headers.unsupported(
            "a BMP that is compressed, of OS/2's oldest kind, or of other than 8, 24 or 32 bits a "
            f"pixel cannot be decoded by tf.io.decode_image; {headers.REENCODED}",
        )
    channels, rows = _CHANNELS[bits], abs(height)
    if width <= 0 or not rows:
        raise corrupt("BMP", f"the header claims {width} x {height} pixels", data)
    headers.check_pixels(rows, width)
    expected = offset + rows * ((channels * width + 3) // 4 * 4)
    if len(data) != expected:
        raise corrupt(
            "BMP",
            f"{expected} bytes were expected: pixels from byte {offset} on, {rows} rows of {width} "
            f"x {channels}",
            data,
        )
    return ImageHeader("bmp", rows, width, channels)


JXL_MAGIC = b"\xff\x0a"
JXL_CONTAINER = b"\0\0\0\x0cJXL \r\n\x87\n"
JXL_STARTS = (JXL_MAGIC, JXL_CONTAINER)

_FILE_TYPE = b"jxl "
_WHOLE, _PART = b"jxlc", b"jxlp"
_NUMBER_BYTES = 4  # before the content of a part
_LAST_PART = 0x80
_TO_THE_END = 0
_HEADER_BYTES = 1 << 16  # of a codestream, enough for all that is read here

_SIZE = ((9, 1), (13, 1), (18, 1), (30, 1))  # (bits, added) by selector
_RATIOS = {1: (1, 1), 2: (12, 10), 3: (4, 3), 4: (3, 2), 5: (16, 9), 6: (5, 4), 7: (2, 1)}
_ENUM = ((0, 0), (0, 1), (4, 2), (6, 18))
_INTEGER_BITS = ((0, 8), (0, 10), (0, 12), (6, 1))
_FLOAT_BITS = ((0, 32), (0, 16), (0, 24), (6, 1))
_EXTRA_CHANNELS = ((0, 0), (0, 1), (4, 2), (12, 1))
_NAME_BYTES = ((0, 0), (4, 0), (5, 16), (10, 48))
_SHIFT = ((0, 0), (0, 3), (0, 4), (3, 1))
_ALPHA = 0  # a kind of extra channel
_GREY = 1  # a colour space
_FIRST_TURNED = 5  # orientations from here on swap the sides


def jxl_header(data: bytes) -> ImageHeader:
    """Reads size and channels; looks for the end of the codestream where the file is a container.

    Where a bare codestream ends only a decoder can tell.

    Raises:
      BadImageError: the header is broken or cut short, the codestream of a container is not all
        there, or it claims too many pixels.
    """
    codestream = data[:_HEADER_BYTES]
    if not data.startswith(JXL_MAGIC):
        codestream = _contained(data)
        if not codestream.startswith(JXL_MAGIC):
            raise corrupt("JPEG XL", "it contains no codestream", data)
    try:
        height, width, channels = _fields(_Bits(codestream[len(JXL_MAGIC) :]))
    except IndexError as error:
        raise corrupt("JPEG XL", "the header is broken or cut short", data) from error
    headers.check_pixels(height, width)
    return ImageHeader("jxl", height, width, channels)


def check_jxl(data: bytes) -> ImageHeader:
    """Decodes it as well, with `pillow-jxl-plugin`.

    Raises:
      BadImageError: as `jxl_header`, where the pixels cannot be decoded, and where that library is
        not installed.
    """
    header = jxl_header(data)
    try:
        from pillow_jxl import Decoder
    except ImportError as error:
        raise headers.unsupported(
            "JPEG XL, which --image_check full cannot decode without a library; run "
            "pip install pillow-jxl-plugin where shards are written",
        ) from error
    try:
        Decoder(num_threads=0)(data)
    except RuntimeError as error:
        raise headers.undecodable("jxl") from error
    return header


def _contained(data: bytes) -> bytes:
    """The beginning of the codestream in a container, which must be complete."""
    codestream, offset, number = b"", 0, 0
    while offset + 8 <= len(data):
        name, start = data[offset + 4 : offset + 8], offset + 8
        length = int.from_bytes(data[offset : offset + 4], "big")
        end = len(data) if length == _TO_THE_END else offset + length
        if end < start:
            raise corrupt("JPEG XL", f"the box at byte {offset} claims {length} bytes", data)
        if number == 1 and (name != b"ftyp" or not data.startswith(_FILE_TYPE, start)):
            raise corrupt("JPEG XL", "its second box is not that of a JPEG XL file", data)
        if end > len(data):
            raise cut_short("JPEG XL", f"the box {name!r} at byte {start} has {end - start} bytes")
        if name == _WHOLE:
            return data[start : min(end, start + _HEADER_BYTES)]
        if name == _PART and end - start >= _NUMBER_BYTES:
            most = start + _HEADER_BYTES - len(codestream)
            codestream += data[start + _NUMBER_BYTES : min(end, most)]
            if data[start] & _LAST_PART:
                return codestream
        offset, number = end, number + 1
    raise cut_short("JPEG XL", "the box with the codestream, or its last part, is missing")


class _Bits:
    """Reads fields of bits. Raises IndexError after the last byte."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._offset = 0  # in bits

    def take(self, count: int) -> int:
        """The next bits as a number."""
        first, last = self._offset // 8, (self._offset + count + 7) // 8
        if last > len(self._data):
            raise IndexError(f"{len(self._data)} bytes, expected {last}")
        value = int.from_bytes(self._data[first:last], "little") >> self._offset % 8
        self._offset += count
        return value & ((1 << count) - 1)

    def number(self, choices: tuple[tuple[int, int], ...]) -> int:
        """A number after its selector, which chooses one of four (bits, added)."""
        bits, added = choices[self.take(2)]
        return self.take(bits) + added


def _fields(bits: _Bits) -> tuple[int, int, int]:
    """Reads height, width and channels, as TensorFlow gives them. Raises BadImageError for what is rare."""
    height, width = _size(bits)
    if bits.take(1):  # everything else is as usual
        return height, width, 3
    if bits.take(1):
        if 1 + bits.take(3) >= _FIRST_TURNED:
            height, width = width, height
        if bits.take(3):
            raise _unusual("a preview, an animation or a size to show it at")
    _skip_depth(bits)
    bits.take(1)  # whether 16 bits are enough to decode it
    extra = bits.number(_EXTRA_CHANNELS)
    if extra > 1 or (extra and not _is_alpha(bits)):
        raise _unusual("channels other than colours and alpha")
    bits.take(1)  # whether colours are of the format's own space
    colours = 3
    if not bits.take(1):  # sRGB
        bits.take(1)  # whether an ICC profile follows
        colours = 1 if bits.number(_ENUM) == _GREY else 3
    return height, width, colours + extra


def _unusual(ability: str) -> BadImageError:
    return headers.unsupported(
        f"a JPEG XL image with {ability}; {headers.REENCODED} after pip install pillow-jxl-plugin"
    )


def _size(bits: _Bits) -> tuple[int, int]:
    """Reads height and width as stored."""
    in_eighths = bits.take(1)

    def side() -> int:
        return (bits.take(5) + 1) * 8 if in_eighths else bits.number(_SIZE)

    height = side()
    ratio = bits.take(3)
    if not ratio:
        return height, side()
    across, down = _RATIOS[ratio]
    return height, height * across // down


def _skip_depth(bits: _Bits) -> None:
    if bits.take(1):
        bits.number(_FLOAT_BITS)
        bits.take(4)
    else:
        bits.number(_INTEGER_BITS)


def _is_alpha(bits: _Bits) -> bool:
    """Reads past the description of a channel beside the colours; False if it is not alpha."""
    if bits.take(1):
        return True
    if bits.number(_ENUM) != _ALPHA:
        return False
    _skip_depth(bits)
    bits.number(_SHIFT)
    bits.take(8 * bits.number(_NAME_BYTES))
    bits.take(1)  # whether colours are multiplied by it
    return True
