"""Cuts large files of lines into blocks that several readers can begin with.

A block may begin after any line break that ends a record. In CSV, a line break within quotes does
not, so quotes are looked at: if every quoted cell of a block is closed in its own line, and is
between separators, then each of the block's line breaks ends a record.

    a.jpg,cat          regular
    "a, b.jpg",cat     regular: the quotes are at the ends of a cell
    5" a.jpg,cat       not regular: the quote may open a cell for one parser and not for another
"""

from __future__ import annotations

import codecs
import csv
import functools
import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

_QUOTE = b'"'
_BREAK = b"\n"
_LONGEST_LINE = 1 << 20  # bytes; a block whose last line is longer is not regular


class LineBlock(NamedTuple):
    """A part of a file.

    Attributes:
      begin, end: its bytes, whole lines.
      lines: how many lines it has; a last one without a line break counts.
      regular: each of its lines is a record, or several.
    """

    begin: int
    end: int
    lines: int
    regular: bool


def scan_block(
    read: Callable[[int, int], bytes], *, start: int, size: int, of: int, delimiter: str
) -> LineBlock:
    """Looks at the lines that begin in a part of a file.

    Args:
      read: returns so many bytes of the file from an offset on; fewer at its end.
      start: the offset of the part.
      size: its bytes.
      of: the bytes of the file.
      delimiter: the separator of cells; empty if a file lacks quotes that could hide a line break.
    """
    before = 1 if start else 0  # the break that ends the line before, if a line begins at `start`
    data = read(start - before, min(size + before + _LONGEST_LINE, of - start + before))
    first = data.find(_BREAK) + 1 if start else 0
    is_last = start + size >= of
    last = len(data) if is_last else data.find(_BREAK, size + before - 1) + 1
    begin, end = start - before + first, start - before + last
    if (start and not first) or not last or last < first:
        return LineBlock(begin, end, 0, regular=False)
    block = data[first:last]
    unfinished = bool(block) and not block.endswith(_BREAK)
    lines = block.count(_BREAK) + unfinished
    text = block if start else block.removeprefix(codecs.BOM_UTF8)
    return LineBlock(begin, end, lines, regular=is_regular(text, delimiter))


def sub_blocks(lines: bytes, size: int) -> Iterator[bytes]:
    """Cuts whole lines into smaller blocks of whole lines, each a line longer than `size` at most."""
    start = 0
    while start < len(lines):
        end = lines.find(_BREAK, start + size - 1) + 1 or len(lines)
        yield lines[start:end]
        start = end


def columns_of_lines(text: str, delimiter: str, count: int) -> Sequence[Sequence[str]] | None:
    """The columns of regular lines of CSV; None if a line is not one record of so many cells.

    Spaces around cells are theirs.

    Args:
      text: the lines.
      delimiter: the separator of cells.
      count: of cells in a line.
    """
    if "\0" in text:
        return None
    if "\r" in text:
        text = text.replace("\r\n", "\n")
    lines = text.removesuffix("\n").split("\n")
    if "" in lines or max(map(len, lines)) >= csv.field_size_limit():
        return None
    if '"' not in text:
        if {line.count(delimiter) for line in lines} != {count - 1}:
            return None
        cells = delimiter.join(lines).split(delimiter)
        return [cells[index::count] for index in range(count)]
    try:
        rows = list(csv.reader(lines, delimiter=delimiter, strict=True))
    except csv.Error:
        return None
    if len(rows) != len(lines) or set(map(len, rows)) != {count}:
        return None
    return list(zip(*rows, strict=True))


def is_regular(lines: bytes, delimiter: str) -> bool:
    r"""True if every line break is a `\n` that ends a record, with or without a `\r` before it."""
    if lines.count(b"\r") != lines.count(b"\r\n"):
        return False
    quotes = lines.count(_QUOTE)
    if not quotes or not delimiter:
        return True
    cells: list[bytes] = _quoted_cell(delimiter).findall(lines)
    return quotes == sum(cell.count(_QUOTE) for cell in cells)


@functools.cache
def _quoted_cell(delimiter: str) -> re.Pattern[bytes]:
    mark = re.escape(delimiter.encode())
    return re.compile(
        rb"(?<![^\n" + mark + rb'])"[^"\r\n]*(?:""[^"\r\n]*)*"(?=[\r\n' + mark + rb"]|\Z)"
    )
