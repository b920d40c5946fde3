"""Plain tables for a terminal: columns of the width of their cells, texts from data escaped."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from beam_pipeline.core.text import terminal_line

_GAP = "  "
_LEAST = 8  # columns of a terminal for the last column
_CUT = "..."


def table_lines(
    header: Sequence[str], rows: Sequence[Sequence[str]], width: int, right: str = ""
) -> list[str]:
    """A header and rows as lines, of which the last column is cut where the line is too long.

    Args:
      header: the names of the columns.
      rows: the cells, as many in each row.
      width: the columns of the terminal; 0 for any.
      right: for each column `>` to align it at the right, or any other character.
    """
    cells = [[terminal_line(cell) for cell in row] for row in (header, *rows)]
    widths = [max(map(display_width, column)) for column in zip(*cells, strict=True)]
    if width:
        most = max(_LEAST * 3, width // 2)  # one long name must not push the figures out of sight
        widths = [min(one, most) for one in widths[:-1]] + widths[-1:]
        before = sum(widths[:-1]) + len(_GAP) * (len(widths) - 1)
        widths[-1] = min(widths[-1], max(_LEAST, width - before))
    lines = []
    for row in cells:
        parts = []
        for column, (cell, wide) in enumerate(zip(row, widths, strict=True)):
            text = fitted(cell, wide)
            space = " " * (wide - display_width(text))
            parts.append(space + text if right[column : column + 1] == ">" else text + space)
        lines.append(_GAP.join(parts).rstrip())
    return lines


def display_width(text: str) -> int:
    """The columns that a text takes in a terminal: Chinese and emoji take two, accents none."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )


def fitted(text: str, width: int) -> str:
    """A text, cut where it takes more columns than there are."""
    if display_width(text) <= width:
        return text
    text = text[:width]
    while text and display_width(text) > width - len(_CUT):
        text = text[:-1]
    return (text + _CUT)[:width]
