"""Draws the README's picture, `docs/first_minute.svg`: the demo in a terminal, and the report it writes.

    python docs/terminal_picture.py

Half blocks are drawn as rectangles, so that no font has to have them. The report is a screenshot by a
headless Chromium: the one that BEAM_TFRECORD_CHROMIUM names, or one on the PATH.
"""

from __future__ import annotations

import base64
import fcntl
import io
import os
import pty
import re
import shlex
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
from dataclasses import dataclass
from html import escape
from pathlib import Path

from PIL import Image

COLUMNS = 80
CELL_WIDTH, CELL_HEIGHT = 7.8, 16.0  # pixels, of a font of 13 pixels
_GROUND, _INK, _PROMPT, _FRAME = "#fbfbfc", "#24292f", "#0a56b3", "#c9d1d9"
_MARGIN = 16
_GAP = 16  # between terminal and report
_REPORT_WIDTH, _PAGE_WIDTH = 600, 800  # pixels: in the picture, in the browser
_DENSITY = 1.5  # pixels of the screenshot to one of the picture
_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
_PICTURE = Path(__file__).with_name("first_minute.svg")
_COMMAND = "beam-tfrecord demo"
_REPORT = "beam-tfrecord-demo/tfrecords/report.html"
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


def browser() -> str:
    """The path of a Chromium; empty if there is none."""
    named = os.environ.get("BEAM_TFRECORD_CHROMIUM")
    return named or next(filter(None, map(shutil.which, _BROWSERS)), "")


def screenshot(page: str, height: int) -> bytes:
    """The top of a page in a headless Chromium, as a PNG.

    Args:
      page: the path of an HTML file.
      height: of the picture that shows it, `_REPORT_WIDTH` wide, in pixels.

    Raises:
      CalledProcessError: the browser fails.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "page.png")
        argv = [browser(), "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
        window = _PAGE_WIDTH, round(height * _PAGE_WIDTH / _REPORT_WIDTH)
        scale = _DENSITY * _REPORT_WIDTH / _PAGE_WIDTH
        argv += [f"--user-data-dir={folder}/profile", f"--window-size={window[0]},{window[1]}"]
        argv += [f"--force-device-scale-factor={scale}", f"--screenshot={path}"]
        address = Path(page).absolute().as_uri()
        subprocess.run(  # noqa: S603 -- a browser and a page of our own
            [*argv, address], check=True, capture_output=True, timeout=120
        )
        out = io.BytesIO()
        with Image.open(path) as image:
            image.convert("RGB").quantize(256).save(out, "PNG", optimize=True)
    return out.getvalue()


def height_of(lines: list[list[Cell]]) -> int:
    """The height of a terminal with these lines, in pixels."""
    return round(len(lines) * CELL_HEIGHT + 2 * _MARGIN)


def svg(lines: list[list[Cell]], report: bytes = b"") -> str:
    """A terminal with these lines and, where there is one, the PNG of a report at its right."""
    height, terminal = height_of(lines), round(COLUMNS * CELL_WIDTH + 2 * _MARGIN)
    left = terminal + _GAP
    width = left + _REPORT_WIDTH if report else terminal
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, \'DejaVu Sans '
        'Mono\', monospace" font-size="13">',
        _frame(0, terminal, height, _GROUND),
    ]
    for row, cells in enumerate(lines):
        parts += _rectangles(row, cells)
        parts += _texts(row, cells)
    if report:
        data = base64.b64encode(report).decode()
        parts += [
            f'<clipPath id="page"><rect x="{left}" width="{_REPORT_WIDTH}" height="{height}" rx="8"/>'
            "</clipPath>",
            f'<image x="{left}" width="{_REPORT_WIDTH}" height="{height}" clip-path="url(#page)" '
            f'href="data:image/png;base64,{data}"/>',
            _frame(left, _REPORT_WIDTH, height, "none"),
        ]
    return "\n".join([*parts, "</svg>", ""])


def _frame(left: int, width: int, height: int, fill: str) -> str:
    return (
        f'<rect x="{left + 0.5}" y="0.5" width="{width - 1}" height="{height - 1}" rx="8" '
        f'fill="{fill}" stroke="{_FRAME}"/>'
    )


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
    """The SVG of the first minute: the demo and its report; without a browser, the demo alone."""
    with tempfile.TemporaryDirectory() as folder:
        printed = output_in_terminal(_COMMAND, folder).replace(f"{os.path.realpath(folder)}/", "")
        prompt = [Cell(character, _PROMPT, bold=True) for character in f"$ {_COMMAND}"]
        rows = [part for line in printed.rstrip("\n").split("\n") for part in wrapped(line)]
        lines = [prompt, *map(cells_of, rows)]
        page = os.path.join(folder, _REPORT)
        report = screenshot(page, height_of(lines)) if browser() else b""
    return svg(lines, report)


def main() -> None:
    """Writes the picture."""
    if not browser():
        sys.exit(
            f"no browser: none of {', '.join(_BROWSERS)} is installed, and BEAM_TFRECORD_CHROMIUM names "
            f"none. The report cannot be drawn, so {_PICTURE.name} is left as it is"
        )
    _PICTURE.write_text(picture(), encoding="utf-8")


if __name__ == "__main__":
    main()
