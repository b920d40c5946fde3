"""Images as sixels, the graphics of DEC's VT300 terminals, which several others understand.

A sixel is a character for six pixels, one below the other: bit 0 is the highest, and "?" is none of
them. An image is a row of bands, each six pixels high. A band is drawn colour by colour: the pixels of
one, back to the left margin (`$`), the pixels of the next. `-` begins the next band.
"""

from __future__ import annotations

import fcntl
import re
import struct
import termios
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from PIL import Image

_COLOURS = 256
_BAND = 6  # pixels
_NONE = 63  # "?"
_RUN = re.compile(rb"(.)\1{3,}")
_USUAL_CELL = 8, 16
_NAMES = re.compile(r"(foot|mlterm|yaft|eat)(-|$)|.*sixel")


def understands_sixels(term: str) -> bool:
    """True if a terminal of that name, the value of TERM, draws sixels in every configuration."""
    return bool(_NAMES.match(term))


def cell_size(screen: TextIO) -> tuple[int, int]:
    """The width and height of a character in pixels; a small one if the terminal does not tell."""
    try:
        answer = fcntl.ioctl(screen.fileno(), termios.TIOCGWINSZ, bytes(8))
    except OSError:
        return _USUAL_CELL
    rows, columns, width, height = struct.unpack("4H", answer)
    if not (columns and rows and width >= columns and height >= rows):
        return _USUAL_CELL
    return width // columns, height // rows


def sixels(image: Image.Image) -> str:
    """An RGB image as a control sequence that draws it at the cursor."""
    drawn = image.quantize(_COLOURS)
    levels = [round(level * 100 / 255) for level in drawn.getpalette() or ()]
    colours = zip(*[iter(levels)] * 3, strict=True)
    parts = [f'\x1bP0;1q"1;1;{drawn.width};{drawn.height}']
    parts += [f"#{i};2;{red};{green};{blue}" for i, (red, green, blue) in enumerate(colours)]
    data, size = drawn.tobytes(), _BAND * drawn.width
    bands = [_band(data[at : at + size], drawn.width) for at in range(0, len(data), size)]
    return "".join([*parts, "-".join(bands), "\x1b\\"])


def _band(pixels: bytes, width: int) -> str:
    """Up to six rows of colour numbers as sixels."""
    rows: dict[int, bytearray] = {}
    for at, colour in enumerate(pixels):
        y, x = divmod(at, width)
        row = rows.get(colour)
        if row is None:
            row = rows[colour] = bytearray([_NONE]) * width
        row[x] += 1 << y
    return "$".join(f"#{colour}{_shortened(row)}" for colour, row in sorted(rows.items()))


def _shortened(row: bytearray) -> str:
    """A row without what is empty at its end, runs of a character as `!`, their length and it."""
    row = row.rstrip(bytes([_NONE]))
    return _RUN.sub(lambda run: b"!%d%c" % (len(run[0]), run[0][0]), row).decode()
