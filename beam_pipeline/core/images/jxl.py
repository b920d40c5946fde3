"""JPEG XL, by the rules of `tf.io.decode_image`, which reads it since TensorFlow 2.21.

A file is a codestream, or a container of boxes, each with its length, a name and its content:

    FF 0A ...                                      a codestream
    00 00 00 0C "JXL " 0D 0A 87 0A                 a container
    00 00 00 14 "ftyp" "jxl " ...                  what it is: always the second box
    00 00 12 34 "jxlc" FF 0A ...                   the codestream, or
    00 00 01 00 "jxlp" 00 00 00 00 FF 0A ...       its first part, with its number,
    00 00 12 34 "jxlp" 80 00 00 01 ...             and its last one
    00 00 01 23 "Exif" ...                         others are skipped

A codestream begins with fields of bits, the lowest bit of each byte first: the size, then what the
samples are. A number is mostly a selector of two bits, which says how many bits follow and what to add.

TensorFlow turns the image as its orientation says, and takes the first frame. Channels are the colours,
1 or 3, and alpha.

Source: ISO/IEC 18181-1, annexes C and D; ISO/IEC 18181-2; tensorflow/core/lib/jxl/jxl_io.cc.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from beam_pipeline.core.dead_letters import Reason
from beam_pipeline.core.images.header import (
    BadImageError,
    ImageHeader,
    bomb,
    cut_short,
    is_bomb,
)

MAGIC = b"\xff\x0a"
CONTAINER = b"\0\0\0\x0cJXL \r\n\x87\n"

_FILE_TYPE = b"jxl "
_WHOLE, _PART = b"jxlc", b"jxlp"
_NUMBER_BYTES = 4  # before the content of a part
_LAST_PART = 0x80
_LONG = 1  # in place of a length: eight bytes after the name hold it
_TO_THE_END = 0
_HEADER_BYTES = 1 << 16  # of a codestream, hold all that is read here

_SIZE = ((9, 1), (13, 1), (18, 1), (30, 1))  # (bits, added) by selector
_SIZE_OF_PREVIEW = ((6, 1), (8, 65), (10, 321), (12, 1345))
_EIGHTHS_OF_PREVIEW = ((0, 16), (0, 32), (5, 1), (9, 33))
_RATIOS = {1: (1, 1), 2: (12, 10), 3: (4, 3), 4: (3, 2), 5: (16, 9), 6: (5, 4), 7: (2, 1)}
_ENUM = ((0, 0), (0, 1), (4, 2), (6, 18))
_INTEGER_BITS = ((0, 8), (0, 10), (0, 12), (6, 1))
_FLOAT_BITS = ((0, 32), (0, 16), (0, 24), (6, 1))
_EXTRA_CHANNELS = ((0, 0), (0, 1), (4, 2), (12, 1))
_NAME_BYTES = ((0, 0), (4, 0), (5, 16), (10, 48))
_TICKS = ((0, 100), (0, 1000), (10, 1), (30, 1))
_TICKS_DIVISOR = ((0, 1), (0, 1001), (8, 1), (10, 1))
_LOOPS = ((0, 0), (3, 0), (16, 0), (32, 0))
_SHIFT = ((0, 0), (0, 3), (0, 4), (3, 1))
_FILTER_ARRAY = ((0, 1), (2, 0), (4, 3), (8, 19))
_ALPHA, _SPOT_COLOUR, _COLOUR_FILTER = 0, 2, 5  # kinds of extra channels
_GREY = 1  # a colour space
_FIRST_TURNED = 5  # orientations from here on swap the sides


def is_jxl(data: bytes) -> bool:
    """Tells whether a file begins like JPEG XL."""
    return data.startswith((MAGIC, CONTAINER))


def jxl_header(data: bytes) -> ImageHeader:
    """Reads size and channels; looks for the end of the codestream where the file is a container.

    Where a bare codestream ends only a decoder can tell.

    Raises:
      BadImageError: the header is broken or cut short, the codestream of a container is not all
        there, or it claims too many pixels.
    """
    codestream = data[:_HEADER_BYTES]
    if not data.startswith(MAGIC):
        codestream = _contained(data)
        if not codestream.startswith(MAGIC):
            raise _corrupt("it contains no codestream", data)
    try:
        height, width, channels = _fields(_Bits(codestream[len(MAGIC) :]))
    except IndexError as error:
        raise _corrupt("the header is broken or cut short", data) from error
    if is_bomb(height, width):
        raise bomb(height, width)
    return ImageHeader("jxl", height, width, channels)


def check_jxl(data: bytes) -> ImageHeader:
    """Decodes it, too, with `pillow-jxl-plugin`.

    Raises:
      BadImageError: as `jxl_header`, where the pixels cannot be decoded, and where that library is
        not installed.
    """
    header = jxl_header(data)
    try:
        from pillow_jxl import Decoder
    except ImportError as error:
        raise BadImageError(
            Reason.UNSUPPORTED_FORMAT,
            "JPEG XL, which --image_check full cannot decode without a library; run "
            "pip install pillow-jxl-plugin where shards are written",
        ) from error
    try:
        Decoder(num_threads=0)(data)
    except RuntimeError as error:
        raise BadImageError(
            Reason.CORRUPT_IMAGE, "the jxl header is sound, decoding fails"
        ) from error
    return header


class _Box(NamedTuple):
    """A part of a container.

    Attributes:
      name: four letters.
      start, end: of its content; the end may lie behind that of the file.
    """

    name: bytes
    start: int
    end: int


def _boxes(data: bytes) -> Iterator[_Box]:
    offset = 0
    while offset + 8 <= len(data):
        start = offset + 8
        length = int.from_bytes(data[offset : offset + 4], "big")
        if length == _LONG:
            start += 8
            length = int.from_bytes(data[offset + 8 : offset + 16], "big")
        end = len(data) if length == _TO_THE_END else offset + length
        if end < start:
            raise _corrupt(f"the box at byte {offset} claims {length} bytes", data)
        yield _Box(data[offset + 4 : offset + 8], start, end)
        offset = end


def _contained(data: bytes) -> bytes:
    """The beginning of the codestream in a container, all of which must be there."""
    found = b""
    for number, box in enumerate(_boxes(data)):
        name, start, end = box
        if number == 1 and (name != b"ftyp" or not data.startswith(_FILE_TYPE, start)):
            raise _corrupt("its second box does not say that it is a JPEG XL file", data)
        if end > len(data):
            raise cut_short("JPEG XL", f"the box {name!r} at byte {start} has {end - start} bytes")
        if name == _PART and end - start >= _NUMBER_BYTES:
            is_last = data[start] & _LAST_PART
            found += data[start + _NUMBER_BYTES : min(end, start + _HEADER_BYTES - len(found))]
            if is_last:
                return found
        elif name == _WHOLE:
            return data[start : min(end, start + _HEADER_BYTES)]
    raise cut_short("JPEG XL", "the box with the codestream, or its last part, is missing")


class _Bits:
    """Reads fields of bits. Raises IndexError behind the last byte."""

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
    """Reads height, width and channels, as TensorFlow gives them."""
    height, width = _size(bits)
    if bits.take(1):  # everything else is as usual
        return height, width, 3
    turned = False
    has_more = bits.take(1)
    if has_more:
        turned = 1 + bits.take(3) >= _FIRST_TURNED
        _skip_screens(bits)
    _skip_depth(bits)
    bits.take(1)  # whether 16 bits are enough to decode it
    kinds = [_extra_channel(bits) for _ in range(bits.number(_EXTRA_CHANNELS))]
    bits.take(1)  # whether colours are of the format's own space
    channels = _colours(bits) + (_ALPHA in kinds)
    return (width, height, channels) if turned else (height, width, channels)


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


def _skip_screens(bits: _Bits) -> None:
    """Reads past the size that a viewer should show, a preview's size, and what animates frames."""
    if bits.take(1):
        _size(bits)
    if bits.take(1):
        choices = _EIGHTHS_OF_PREVIEW if bits.take(1) else _SIZE_OF_PREVIEW
        bits.number(choices)
        if not bits.take(3):
            bits.number(choices)
    if bits.take(1):
        bits.number(_TICKS)
        bits.number(_TICKS_DIVISOR)
        bits.number(_LOOPS)
        bits.take(1)


def _skip_depth(bits: _Bits) -> None:
    if bits.take(1):
        bits.number(_FLOAT_BITS)
        bits.take(4)
    else:
        bits.number(_INTEGER_BITS)


def _extra_channel(bits: _Bits) -> int:
    """Reads past what is said of a channel beside the colours; returns its kind."""
    if bits.take(1):
        return _ALPHA
    kind = bits.number(_ENUM)
    _skip_depth(bits)
    bits.number(_SHIFT)
    bits.take(8 * bits.number(_NAME_BYTES))
    if kind == _ALPHA:
        bits.take(1)
    elif kind == _SPOT_COLOUR:
        bits.take(4 * 16)
    elif kind == _COLOUR_FILTER:
        bits.number(_FILTER_ARRAY)
    return kind


def _colours(bits: _Bits) -> int:
    if bits.take(1):  # sRGB
        return 3
    bits.take(1)  # whether an ICC profile follows
    return 1 if bits.number(_ENUM) == _GREY else 3


def _corrupt(what: str, data: bytes) -> BadImageError:
    return BadImageError(
        Reason.CORRUPT_IMAGE, f"starts like JPEG XL, but {what} (the file has {len(data)} bytes)"
    )
