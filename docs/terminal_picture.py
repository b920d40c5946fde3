"""Runs a command as in a terminal and draws what it prints as an SVG: `docs/first_minute.svg`.

    python docs/terminal_picture.py

The picture is that of the demo. Half blocks are drawn as rectangles, so
that no font has to have them.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import shlex
import struct
import subprocess
import sys
import tempfile
import termios
from dataclasses import dataclass
from html import escape
from pathlib import Path

COLUMNS = 100
CELL_WIDTH, CELL_HEIGHT = 7.8, 16.0  # pixels, of a font of 13 pixels
_GROUND, _INK, _PROMPT = "#16181d", "#d7dae0", "#7fc8ff"
_MARGIN = 16
_PICTURE = Path(__file__).with_name("first_minute.svg")
_COMMAND = "beam-tfrecord demo"
_SGR = re.compile(r"\x1b\[([0-9;]*)m")
_UPPER_HALF = "\u2580"


@dataclass(frozen=True)
class Cell:
    """A character with its colours; empty for those of the terminal."""

    text: str
    ink: str = ""
    ground: str = ""
    bold: bool = False


def output_in_terminal(command: str, folder: str) -> str:
    """What a command prints to standard output in a terminal of 24-bit colours.

    Raises:
      CalledProcessError: it fails.
    """
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("4H", 50, COLUMNS, 0, 0))
    environment = {
        **os.environ,
        "PATH": f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}",
        "TERM": "xterm-256color",
        "COLORTERM": "truecolor",
    }
    for name in ("NO_COLOR", "TMUX", "TERM_PROGRAM"):
        environment.pop(name, None)
    argv = shlex.split(command)
    process = subprocess.Popen(  # noqa: S603 -- the commands above
        argv, cwd=folder, env=environment, stdout=theirs, stderr=subprocess.DEVNULL
    )
    os.close(theirs)
    shown = b""
    while True:
        try:
            shown += os.read(ours, 1 << 16)
        except OSError:  # the other end is closed
            break
    os.close(ours)
    if process.wait():
        raise subprocess.CalledProcessError(process.returncode, argv)
    return shown.decode().replace("\r\n", "\n")


def cells_of(line: str) -> list[Cell]:
    """A line with control sequences of colour as characters."""
    cells: list[Cell] = []
    ink = ground = ""
    bold = False
    for number, part in enumerate(_SGR.split(line)):
        if number % 2 == 0:
            cells += [Cell(character, ink, ground, bold) for character in part]
            continue
        codes = [int(code or 0) for code in part.split(";")]
        while codes:
            code = codes.pop(0)
            if code == 0:
                ink, ground, bold = "", "", False
            elif code == 1:
                bold = True
            elif code in (38, 48):
                _, red, green, blue = codes[:4]
                del codes[:4]
                colour = f"#{red:02x}{green:02x}{blue:02x}"
                ink, ground = (colour, ground) if code == 38 else (ink, colour)
    return cells


def wrapped(line: str) -> list[str]:
    """A line of plain text, broken where the terminal ends."""
    if "\x1b" in line or len(line) <= COLUMNS:
        return [line]
    return [line[at : at + COLUMNS] for at in range(0, len(line), COLUMNS)]


def svg(lines: list[list[Cell]]) -> str:
    """A terminal with these lines."""
    width = round(COLUMNS * CELL_WIDTH + 2 * _MARGIN)
    height = round(len(lines) * CELL_HEIGHT + 2 * _MARGIN)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, \'DejaVu Sans '
        'Mono\', monospace" font-size="13">',
        f'<rect width="{width}" height="{height}" rx="8" fill="{_GROUND}"/>',
    ]
    for row, cells in enumerate(lines):
        parts += _rectangles(row, cells)
        parts += _texts(row, cells)
    return "\n".join([*parts, "</svg>", ""])


def _rectangles(row: int, cells: list[Cell]) -> list[str]:
    """The half blocks of a row; neighbours of one colour are one rectangle."""
    found = []
    half = CELL_HEIGHT / 2
    for part in (0, 1):
        y = _MARGIN + row * CELL_HEIGHT + part * half
        start = 0
        while start < len(cells):
            colour = _half(cells[start], part)
            end = start + 1
            while end < len(cells) and _half(cells[end], part) == colour:
                end += 1
            if colour:
                found.append(
                    f'<rect x="{_MARGIN + start * CELL_WIDTH:.1f}" y="{y:.0f}" '
                    f'width="{(end - start) * CELL_WIDTH:.1f}" height="{half:.0f}" fill="{colour}" '
                    'shape-rendering="crispEdges"/>'
                )
            start = end
    return found


def _half(cell: Cell, part: int) -> str:
    if cell.text != _UPPER_HALF:
        return ""
    return cell.ground if part else cell.ink


def _texts(row: int, cells: list[Cell]) -> list[str]:
    """The words of a row, each at its place, so that any font keeps the columns."""
    text = "".join(" " if cell.text == _UPPER_HALF else cell.text for cell in cells)
    y = _MARGIN + (row + 0.75) * CELL_HEIGHT
    found = []
    for word in re.finditer(r"\S+(?: \S+)*", text):
        cell = cells[word.start()]
        weight = ' font-weight="bold"' if cell.bold else ""
        length = len(word[0]) * CELL_WIDTH
        found.append(
            f'<text x="{_MARGIN + word.start() * CELL_WIDTH:.1f}" y="{y:.0f}" '
            f'fill="{cell.ink or _INK}"{weight} textLength="{length:.1f}">{escape(word[0])}</text>'
        )
    return found


def picture() -> str:
    """The SVG of the first minute: the demo, and what it made."""
    with tempfile.TemporaryDirectory() as folder:
        printed = output_in_terminal(_COMMAND, folder).replace(f"{os.path.realpath(folder)}/", "")
    prompt = [Cell(character, _PROMPT, bold=True) for character in f"$ {_COMMAND}"]
    lines = [part for line in printed.rstrip("\n").split("\n") for part in wrapped(line)]
    return svg([prompt, *map(cells_of, lines)])


def main() -> None:
    """Writes the picture."""
    _PICTURE.write_text(picture(), encoding="utf-8")


if __name__ == "__main__":
    main()
