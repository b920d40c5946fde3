"""GIFs, read as giflib reads them for `tf.io.decode_image`, without Pillow.

A file is a screen, then blocks, each with a byte for its kind. Data comes in sub-blocks: a byte for
the length, that many bytes, and a length of 0 at the end.

    "GIF89a" width height flags ...     the screen, and colours if the flags say so
    21 FE | 05 "hello" | 00             an extension: here, a comment
    2C left top width height flags ...  a frame, and colours of its own if its flags say so
       08 | FF ... | 12 ... | 00           bits of a code, and compressed pixels
    3B                                  the end

TensorFlow gives images of the size of the largest frame, not of the screen. It reads the frames up to
the first fault, if the first one is whole. Here a file that breaks off inside a frame is bad.

Source: https://www.w3.org/Graphics/GIF/spec-gif89a.txt, giflib's dgif_lib.c, and
tensorflow/core/lib/gif/gif_io.cc.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from beam_pipeline.core.dead_letters import Reason
from beam_pipeline.core.images.header import (
    MAX_PIXELS,
    BadImageError,
    ImageHeader,
    bomb,
    cut_short,
    is_bomb,
)

MAGIC = b"GIF8"
_SIGNATURES = (b"GIF87a", b"GIF89a")
_SCREEN_END = 13
_FRAME = struct.Struct("<HHHHB")  # left, top, width, height, flags
_HAS_COLOURS = 0x80
_EXTENSION, _FRAME_KIND, _END = 0x21, 0x2C, 0x3B
_CONTROL = 0xF9  # an extension with the transparent colour of the next frame
_CODE_BITS = range(2, 9)
_MAX_CODE_BITS = 12
_MAX_CODES = 1 << _MAX_CODE_BITS


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
    """Walks from block to block; the size is that of the largest frame.

    Raises:
      BadImageError: there is no whole frame, a frame has no colours, the file breaks off inside a
        block, or all frames together claim too many pixels.
    """
    return _header(data)


def check_gif(data: bytes) -> ImageHeader:
    """Decompresses every frame, too.

    Raises:
      BadImageError: as `gif_header`, and where a frame's codes are broken, too few, or of colours
        that its palette lacks.
    """
    header = _header(data)
    for number, frame in enumerate(_frames(data)):
        fault = _fault(frame, b"".join(_sub_blocks(data, frame.start)))
        if fault:
            raise BadImageError(
                Reason.CORRUPT_IMAGE,
                f"the gif header is sound, decoding fails: frame {number}: {fault}",
            )
    return header


def _header(data: bytes) -> ImageHeader:
    """Counts the frames, each of which TensorFlow gives the size of the largest."""
    height = width = frames = 0
    for frame in _frames(data):
        height, width, frames = max(height, frame.height), max(width, frame.width), frames + 1
        if is_bomb(height, width):
            raise bomb(height, width)
        if is_bomb(frames * height, width):
            raise BadImageError(
                Reason.DECOMPRESSION_BOMB,
                f"{frames} frames or more of {width} x {height} pixels: more than {MAX_PIXELS} pixels "
                "in all, for tf.io.decode_image to hold; shorten the animation to keep it",
            )
    if not frames:
        raise _corrupt("there is no frame", data)
    return ImageHeader("gif", height, width, 3)


def _frames(data: bytes) -> Iterator[_Frame]:
    if not data.startswith(_SIGNATURES) or len(data) < _SCREEN_END:
        raise _corrupt("the header is broken or cut short", data)
    flags = data[10]
    shared = _colours(flags)
    offset = _SCREEN_END + 3 * shared
    transparent, found = -1, False
    # As giflib does, ends quietly at what is no block, if a frame came before it.
    while offset < len(data) and (kind := data[offset]) in (_EXTENSION, _FRAME_KIND):
        try:
            if kind == _EXTENSION:
                if data[offset + 1] == _CONTROL and data[offset + 2] == 4:
                    transparent = data[offset + 6] if data[offset + 3] & 1 else -1
                # giflib does not know an extension without content: it expects one more chain.
                offset = _skipped(data, offset + 2 + (data[offset + 2] == 0))
                continue
            frame = _frame(data, offset + 1, shared, transparent)
            offset = _skipped(data, frame.start)
        except (IndexError, struct.error) as error:
            if found:
                raise cut_short("GIF", f"it ends inside the block at byte {offset}") from error
            raise _corrupt("the header is broken or cut short", data) from error
        transparent, found = -1, True
        yield frame


def _frame(data: bytes, offset: int, shared: int, transparent: int) -> _Frame:
    _, _, width, height, flags = _FRAME.unpack_from(data, offset)
    own = _colours(flags)
    start = offset + _FRAME.size + 3 * own
    code_bits = data[start]
    if not width or not height or not (own or shared) or code_bits not in _CODE_BITS:
        raise _corrupt(
            f"a frame claims {width} x {height} pixels of {own or shared} colours and codes of "
            f"{code_bits} bits",
            data,
        )
    return _Frame(
        width=width,
        height=height,
        colours=own or shared,
        transparent=transparent,
        code_bits=code_bits,
        start=start + 1,
    )


def _colours(flags: int) -> int:
    return 2 << (flags & 7) if flags & _HAS_COLOURS else 0


def _skipped(data: bytes, offset: int) -> int:
    """Returns the offset behind a chain of sub-blocks. Raises IndexError if the file ends before."""
    while length := data[offset]:
        offset += length + 1
    return offset + 1


def _sub_blocks(data: bytes, offset: int) -> Iterator[bytes]:
    while length := data[offset]:
        yield data[offset + 1 : offset + 1 + length]
        offset += length + 1


def _fault(frame: _Frame, packed: bytes) -> str:
    """Follows the codes of a frame without making its pixels; returns what is wrong, or nothing.

    A code stands for a run of pixels. Those below `clear` are single pixels; each further code adds
    the next entry to the table: the run before, and one pixel more.
    """
    clear = 1 << frame.code_bits
    first_entries = [1] * clear + [0, 0]  # clear, and the end
    lengths = first_entries.copy()
    bits, limit, running = frame.code_bits + 1, 2 << frame.code_bits, clear + 2
    held = held_bits = position = last = 0
    missing = frame.width * frame.height
    while missing > 0:
        while held_bits < bits:
            if position == len(packed):
                return f"{missing} pixels are missing"
            held |= packed[position] << held_bits
            held_bits += 8
            position += 1
        code = held & ((1 << bits) - 1)
        held >>= bits
        held_bits -= bits
        if running <= _MAX_CODES:
            running += 1
            if running > limit and bits < _MAX_CODE_BITS:
                limit *= 2
                bits += 1
        if code == clear:
            lengths = first_entries.copy()
            bits, limit, running, last = frame.code_bits + 1, 2 << frame.code_bits, clear + 2, 0
            continue
        if code == clear + 1:
            return f"{missing} pixels are missing"
        if frame.colours <= code < clear and code != frame.transparent:
            return f"colour {code} of {frame.colours}"
        if code > len(lengths) or (code == len(lengths) and not last):
            return "a code stands for nothing"
        length = lengths[code] if code < len(lengths) else last + 1
        if last and len(lengths) < _MAX_CODES:
            lengths.append(last + 1)
        last = length
        missing -= length
    return ""


def _corrupt(what: str, data: bytes) -> BadImageError:
    return BadImageError(
        Reason.CORRUPT_IMAGE, f"starts like GIF, but {what} (the file has {len(data)} bytes)"
    )
