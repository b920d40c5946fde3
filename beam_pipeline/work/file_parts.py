"""Parts of label files and inventories, which several workers read at once."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from beam_pipeline.core.listing import cuts
from beam_pipeline.storage import files
from beam_pipeline.work import outcome, writer_process

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


def _look_at(uri: str, start: int, size: int, of: int, delimiter: str) -> cuts.LineBlock:
    """Looks at a part of a file before it is read; takes the arguments of `scan_block`. Raises OSError."""

    def read(offset: int, size: int) -> bytes:
        return files.read_part(uri, size, offset)

    return cuts.scan_block(read, start=start, size=size, of=of, delimiter=delimiter)


def _cut_parquet(uri: str, part_bytes: int) -> list[cuts.RowGroupRange]:
    """Reads the footer of a Parquet file. Raises OSError."""
    with files.open_input(uri) as file:
        return cuts.cut_row_groups(file, part_bytes)


def _results_of(calls: Iterable[outcome.Call]) -> Iterator[Any]:
    """The results of calls, in order."""
    running: writer_process.Tasks[Any] = writer_process.Tasks(repeat=True)
    for call in calls:
        yield from (result() for result in running.submit(call))
    yield from (result() for result in running.rest())


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
            (ranges,) = _results_of([outcome.Call(_cut_parquet, (uri, part_bytes))])
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
    starts = range(0, size, part_bytes)
    looks = (outcome.Call(_look_at, (uri, start, part_bytes, size, delimiter)) for start in starts)
    end, line = 0, 1
    for block in _results_of(looks):
        if not block.regular:
            yield cuts.LineRange(end, -1, line)
            return
        if block.lines:
            yield cuts.LineRange(block.begin, block.end, line, regular=True)
        end, line = block.end, line + block.lines
