"""Cuts large files into ranges that several workers read at once: text after lines, Parquet between row groups.

A range of text may begin after any line break that ends a record. In CSV, a line break within quotes does
not, so quotes are looked at: if every quoted cell of a block is closed in its own line, and is
between separators, then each of the block's line breaks ends a record.

    a.jpg,cat          regular
    "a, b.jpg",cat     regular: the quotes are at the ends of a cell
    5" a.jpg,cat       not regular: the quote may open a cell for one parser and not for another

The footer of a Parquet file tells how many rows and bytes each row group has, so nothing else is read to cut it.
"""

from __future__ import annotations

import codecs
import csv
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, BinaryIO, NamedTuple

# Of a range or a batch in memory, and of what may inflate from nearly nothing
_MOST_AT_ONCE = 256 << 20
_MOST_INFLATED = 1032  # times; deflate's own limit, which other methods do not have
_FEW_ROWS = 1024  # of a batch; fewer take longer to hand on than to read
_PAGE_BYTES = 1 << 20
_ENTRIES = frozenset(("PLAIN", "RLE", "RLE_DICTIONARY", "PLAIN_DICTIONARY", "BIT_PACKED"))
"""Encodings that repeat whole values, and no parts of them."""
_VALUE_BYTES = 8  # of an item of a list in memory
_QUOTE = b'"'
_BREAK = b"\n"
_LONGEST_LINE = 1 << 20  # bytes; a block whose last line is longer is not regular


SEPARATORS = ",;\t|"


def separator_of(line: str) -> str:
    """The separator of cells that is most frequent in a header; a comma in case of a tie."""
    return max(SEPARATORS, key=lambda mark: (line.count(mark), mark == ","))


@dataclass(frozen=True)
class ByLines:
    """A file of text is cut after lines.

    Attributes:
      delimiter: the separator of cells; empty if quotes mean nothing to its lines.
    """

    delimiter: str


@dataclass(frozen=True)
class ByRowGroups:
    """A Parquet file is cut between its row groups."""


Cut = ByLines | ByRowGroups


class LineRange(NamedTuple):
    """Whole lines of a file.

    Attributes:
      begin, end: their bytes; `end` is -1 for all up to the end of the file.
      first: the number of the first line.
      regular: each of their line breaks is known to end a record.
    """

    begin: int = 0
    end: int = -1
    first: int = 1
    regular: bool = False

    @property
    def size(self) -> int:
        """Their bytes; 0 if they are not known."""
        return max(0, self.end - self.begin)

    @property
    def read_at_once(self) -> bool:
        """True if they are few enough to be in memory at once."""
        return self.end >= 0


class RowGroupRange(NamedTuple):
    """Row groups of a Parquet file that follow one another.

    Attributes:
      begin, end: indices of the first row group and of the one after the last.
      first: the number of their first row, from 1.
      rows: how many rows they have.
      size: their bytes before compression, which the file records.
    """

    begin: int
    end: int
    first: int
    rows: int
    size: int

    @property
    def read_at_once(self) -> bool:
        """True if their rows are few enough to be in memory at once."""
        return self.size <= _MOST_AT_ONCE


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
    lines = block.count(_BREAK) + (bool(block) and not block.endswith(_BREAK))
    return LineBlock(begin, end, lines, regular=is_regular(block, delimiter))


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
    lines = text.replace("\r\n", "\n").removesuffix("\n").split("\n")
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
    mark = re.escape(delimiter.encode())
    before, after = rb"(?<![^\n" + mark + rb"])", rb"(?=[\r\n" + mark + rb"]|\Z)"
    cell = before + rb'"[^"\r\n]*(?:""[^"\r\n]*)*"' + after
    cells: list[bytes] = re.findall(cell, lines.removeprefix(codecs.BOM_UTF8))
    return quotes == sum(cell.count(_QUOTE) for cell in cells)


def cut_row_groups(file: BinaryIO, part_bytes: int) -> list[RowGroupRange]:
    """The ranges of a file; none if it lacks rows, is not a Parquet file or is damaged.

    Args:
      file: the file, seekable.
      part_bytes: the size of a range before compression, roughly; it has one row group at least.

    Raises:
      OSError: the file cannot be read.
    """
    import pyarrow  # takes a third of a second to import, and few jobs need it
    from pyarrow import parquet

    try:
        metadata = parquet.read_metadata(file)
    except pyarrow.ArrowException:  # reading reports it
        return []
    ranges, part = [], RowGroupRange(0, 0, 1, 0, 0)
    for index in range(metadata.num_row_groups):
        part = _with_group(part, metadata.row_group(index))
        if part.size >= part_bytes:
            ranges.append(part)
            part = RowGroupRange(part.end, part.end, part.first + part.rows, 0, 0)
    return [*ranges, part] if part.rows else ranges


def _with_group(groups: RowGroupRange, group: Any) -> RowGroupRange:
    return groups._replace(
        end=groups.end + 1,
        rows=groups.rows + group.num_rows,
        size=groups.size + group.total_byte_size,
    )


def numbered_batches(
    opened: Any,
    groups: RowGroupRange | None,
    *,
    rows_at_once: int,
    columns: Sequence[str] | None = None,
    file: BinaryIO | None = None,
) -> Iterator[tuple[int, Any]]:
    """Yields (number of the first row, record batch) of a file.

    Memory contains a page of each column and a batch, of 256 MiB at most or of a single row.
    If the file is given, a batch of short texts may also have those of a whole row group that are in no dictionary.

    Args:
      opened: a `pyarrow.parquet.ParquetFile`.
      groups: the row groups to read; None for all.
      rows_at_once: the most rows of a batch.
      columns: the columns to read; None for all.
      file: the file that was opened, to look up how long the entries of its dictionaries are.

    Raises:
      OSError: the file has other row groups than when it was cut, or is a decompression bomb.
      pyarrow.ArrowException: it is damaged.
    """
    number, chosen = 1, range(opened.metadata.num_row_groups)
    if groups:
        if groups != _as_cut(opened.metadata, groups):
            raise OSError("it has changed since its footer was read")
        number, chosen = groups.first, range(groups.begin, groups.end)
    if not chosen:  # PyArrow before 19 fails to read none
        return
    packed, largest = _sizes(opened.metadata, chosen, columns)
    most, size = max(_MOST_AT_ONCE, _MOST_INFLATED * packed), 0
    if largest > most:
        raise _bomb(packed, largest)
    at_once = max(1, min(rows_at_once, _MOST_AT_ONCE // largest))
    if file and at_once < _FEW_ROWS:
        _, longest = _sizes(opened.metadata, chosen, columns, partial(_longest_entry, file))
        at_once = max(1, min(rows_at_once, _MOST_AT_ONCE // longest))
    for batch in opened.iter_batches(
        at_once, row_groups=chosen, columns=columns, use_threads=False
    ):
        batch = _decoded(batch)
        size += batch.nbytes
        if size > most:
            raise _bomb(packed, size)
        yield number, batch
        number += len(batch)


def _bomb(packed: int, size: int) -> OSError:
    return OSError(f"a decompression bomb: {packed:,} bytes inflate to {size:,} or more")


def _decoded(batch: Any) -> Any:
    """A batch whose columns have their values, not numbers in a dictionary."""
    import pyarrow

    if not any(map(pyarrow.types.is_dictionary, batch.schema.types)):
        return batch
    columns = [c.dictionary_decode() if hasattr(c, "indices") else c for c in batch.columns]
    return pyarrow.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _sizes(
    metadata: Any,
    groups: Iterable[int],
    columns: Sequence[str] | None,
    longest_entry: Callable[[Any, int, int], int] | None = None,
) -> tuple[int, int]:
    """Returns the compressed bytes of columns, and how many a row's value may have in memory, by the footer.

    Each row of texts may repeat the longest entry of a dictionary, and a list contain all items of its row group.

    Args:
      metadata: of the file.
      groups: its row groups to read.
      columns: the columns to read; None for all.
      longest_entry: returns the bytes of the longest entry of a dictionary; None to take its texts for one.
    """
    packed, largest = 0, 1
    for number in groups:
        group = metadata.row_group(number)
        for index in range(group.num_columns):
            chunk = group.column(index)
            path = f"{chunk.path_in_schema}."
            if columns is not None and not any(path.startswith(f"{name}.") for name in columns):
                continue
            packed += chunk.total_compressed_size
            if metadata.schema.column(index).max_repetition_level:
                largest = max(largest, _VALUE_BYTES * chunk.num_values)
            elif not chunk.physical_type.endswith("BYTE_ARRAY"):
                continue
            elif longest_entry and _ENTRIES.issuperset(chunk.encodings):
                largest = max(largest, longest_entry(metadata, number, index))
                continue
            largest = max(largest, chunk.total_uncompressed_size)
    return packed, largest


def _longest_entry(file: BinaryIO, metadata: Any, group: int, index: int) -> int:
    """The bytes of the longest entry of a dictionary, which comes with a column's first value.

    A column that PyArrow reads without its dictionary, such as decimals or a part of a struct, counts as one entry.
    """
    import pyarrow
    from pyarrow import parquet

    name = metadata.schema.column(index).path
    opened = parquet.ParquetFile(
        file, metadata=metadata, read_dictionary=[name], buffer_size=_PAGE_BYTES, pre_buffer=False
    )
    batches = opened.iter_batches(1, row_groups=[group], columns=[name], use_threads=False)
    first = next(batches, None)
    if first is None or not pyarrow.types.is_dictionary(first.column(0).type):
        size: int = metadata.row_group(group).column(index).total_uncompressed_size
        return size
    entries = first.column(0).dictionary.view(pyarrow.binary()).to_pylist()
    return max(map(len, filter(None, entries)), default=1)


def _as_cut(metadata: Any, groups: RowGroupRange) -> RowGroupRange | None:
    """The same range as a footer has it now; None if there are fewer row groups."""
    if groups.end > metadata.num_row_groups:
        return None
    first = 1 + sum(metadata.row_group(index).num_rows for index in range(groups.begin))
    part = RowGroupRange(groups.begin, groups.begin, first, 0, 0)
    for index in range(groups.begin, groups.end):
        part = _with_group(part, metadata.row_group(index))
    return part
