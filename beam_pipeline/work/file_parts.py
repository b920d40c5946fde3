"""Parts of label files and inventories, which several workers read at once."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from beam_pipeline.core.listing import cuts
from beam_pipeline.storage import files

PART_BYTES = 8 << 20  # 8 MiB, some 200,000 rows


class FilePart(NamedTuple):
    """A part of a file, or a whole one.

    Attributes:
      uri: the file.
      range: the part; None for the whole file, of an unknown size.
    """

    uri: str
    range: cuts.LineRange | cuts.RowGroupRange | None = None

    @property
    def size(self) -> int:
        """Its bytes; 0 if they are not known."""
        return self.range.size if self.range else 0

    @property
    def read_at_once(self) -> bool:
        """True if its rows are few enough to be in memory at once."""
        return self.range is not None and self.range.read_at_once


def read_lines(uri: str, lines: cuts.LineRange) -> bytes:
    """Reads some lines of a file whose end is known. Raises OSError."""
    data = files.read_part(uri, lines.size, lines.begin)
    if len(data) < lines.size:
        raise OSError(f"{uri} has become shorter while it was read")
    return data


CutBy = Callable[[str], cuts.Cut | None]
"""Returns how a file may be cut, None if it may not; may raise OSError."""

_PARQUET_SHARE = 4  # a row takes about a quarter of its text's bytes


def cut_file(uri: str, cut_by: CutBy, part_bytes: int) -> list[FilePart]:
    """The parts of a file; one that cannot be read or cut is one part.

    Args:
      uri: the file.
      cut_by: tells how it may be cut.
      part_bytes: the size of a part, roughly; of a Parquet file, before compression.
    """
    ranges: Sequence[cuts.LineRange | cuts.RowGroupRange] = ()
    with contextlib.suppress(OSError):  # reading tells why
        size, cut = files.size_of(uri), cut_by(uri)
        if isinstance(cut, cuts.ByLines):
            ranges = list(_cut_lines(uri, size, cut.delimiter, part_bytes))
        elif isinstance(cut, cuts.ByRowGroups) and size >= part_bytes // _PARQUET_SHARE:
            with files.open_input(uri) as file:
                ranges = cuts.cut_row_groups(file, part_bytes)
    return [FilePart(uri, part) for part in ranges] or [FilePart(uri)]


def _cut_lines(uri: str, size: int, delimiter: str, part_bytes: int) -> Iterator[cuts.LineRange]:
    """Ranges of lines; none of a file that is large and has empty lines before its header.

    From the first block that is not regular on, all is one range.
    """
    if size < 2 * part_bytes:
        if size > 0:
            yield cuts.LineRange(0, size)
        return
    first = files.read_part(uri, 1 << 16, 0).partition(b"\n")[0]
    if not any(byte.isalnum() and byte.isascii() for byte in map(chr, first)):
        return

    def read(offset: int, length: int) -> bytes:
        return files.read_part(uri, length, offset)

    end, line = 0, 1
    for start in range(0, size, part_bytes):
        block = cuts.scan_block(read, start=start, size=part_bytes, of=size, delimiter=delimiter)
        if not block.regular:
            yield cuts.LineRange(end, -1, line)
            return
        if block.lines:
            yield cuts.LineRange(block.begin, block.end, line, regular=True)
        end, line = block.end, line + block.lines
