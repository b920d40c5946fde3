"""Inventories: listings of images that were made elsewhere, as CSV, gzipped CSV or Parquet.

Two sets of columns are supported: `uri` and `size`; and `bucket`, `name` and `size`, which are in the
inventory reports by Storage Insights. `generation` is optional. A row with a `timeDeleted`
is an old version of an object that was replaced. Other columns are ignored:

    uri,size,generation                        bucket,name,size,timeDeleted
    gs://pets/cat/1.jpg,110321,17000001        pets,cat/1.jpg,110321,
"""

from __future__ import annotations

import csv
import gzip
import io
import itertools
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, BinaryIO, NamedTuple

from beam_pipeline.core.errors import InventoryError
from beam_pipeline.core.listing import cuts
from beam_pipeline.core.packing import Same
from beam_pipeline.core.text import excerpt, is_utf8, printable

_URI, _SIZE, _BUCKET, _NAME = "uri", "size", "bucket", "name"
_GENERATION, _DELETED = "generation", "timeDeleted"
_COLUMN_SETS = ((_URI, _SIZE), (_BUCKET, _NAME, _SIZE))
_FURTHER = (_GENERATION, _DELETED)

_GZIP, _PARQUET = b"\x1f\x8b", b"PAR1"
_ROWS_AT_ONCE = 1 << 14  # of Parquet
_RECORDS_AT_ONCE = 1 << 12
_BLOCK_BYTES = 1 << 20  # of lines that become columns at once, some 15,000 rows
_EMPTY = (None, "")
_MOST_OF_A_HEADER = 1 << 16  # characters; Storage Insights' has a few hundred
_MOST_DIGITS = 4_000  # Python refuses to parse more than 4,300
_BEYOND = 1 << 63  # sizes and generations are stored as signed integers of 64 bits


_LEAST_GROUPS, _ROWS_A_GROUP = 64, 50_000
_PLAIN_ROW, _PACKED_ROW = 50, 8  # bytes of CSV, and of anything else


class InventoryRows(NamedTuple):
    """Files that an inventory lists, by columns.

    Attributes:
      uris: the files.
      sizes: bytes.
      versions: their generations; 0 if the inventory has none.
      lines: the lines of a CSV file or the rows of a Parquet file, from 1.
      live: of each, True if it is the newest version of the file.
    """

    uris: Sequence[str]
    sizes: Sequence[int]
    versions: Sequence[int]
    lines: Sequence[int]
    live: Sequence[bool]


def rows_in(inventories: Mapping[str, int]) -> int:
    """Roughly how many rows inventories have.

    Args:
      inventories: URI -> bytes; a name without `.csv` at its end counts as compressed.
    """
    return sum(
        size // (_PLAIN_ROW if uri.endswith(".csv") else _PACKED_ROW)
        for uri, size in inventories.items()
    )


def groups_for(rows: int) -> int:
    """In how many groups that many rows are compared with each other; the worker of a group keeps it, 387 bytes a row."""
    return max(_LEAST_GROUPS, rows // _ROWS_A_GROUP)


def read_inventory(
    file: BinaryIO, uri: str, groups: cuts.RowGroupRange | None = None
) -> Iterator[InventoryRows]:
    """Reads an inventory some rows at a time; its format is detected from its first bytes.

    Args:
      file: the inventory, seekable, at its beginning.
      uri: its name, for messages.
      groups: the row groups of a Parquet file to read; None for all.

    Raises:
      InventoryError: it is damaged, has changed since it was cut, has other columns, or a row names no file or
        no size.
    """
    beginning = _beginning(file)
    try:
        if beginning == _PARQUET:
            yield from _parquet_rows(file, uri, groups)
        else:
            is_packed = beginning.startswith(_GZIP)
            yield from read_rows(gzip.GzipFile(fileobj=file) if is_packed else file, uri)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise _damaged(uri, error) from error


def is_parquet(file: BinaryIO) -> bool:
    """Tells from the first bytes of a file; it is at its beginning before and afterwards."""
    return _beginning(file) == _PARQUET


def _beginning(file: BinaryIO) -> bytes:
    beginning = file.read(len(_PARQUET))
    file.seek(0)
    return beginning


def _typed(
    lines: Sequence[int], cells: Mapping[str, Sequence[Any]], uri: str, unit: str = "line"
) -> InventoryRows:
    """Parses rows.

    Args:
      lines: their numbers.
      cells: column -> its cells, for the columns that are read.
      uri: the inventory, for messages.
      unit: what the numbers count.

    Raises:
      InventoryError: a row names no file or no size.
    """
    count = len(lines)
    problems: dict[int, str] = {}
    sizes = _whole_numbers(cells[_SIZE], _SIZE, problems)
    versions: Sequence[int] = Same(0, count)
    generations = cells.get(_GENERATION, ())
    if any(generations):
        texts = ["0" if cell in _EMPTY else cell for cell in generations]
        versions = _whole_numbers(texts, _GENERATION, problems)
    if _URI in cells:
        uris = _texts(cells[_URI], _URI, problems)
    else:
        buckets = _texts(cells[_BUCKET], _BUCKET, problems)
        names = _texts(cells[_NAME], _NAME, problems)
        uris = [f"gs://{bucket}/{name}" for bucket, name in zip(buckets, names, strict=True)]
    if problems:
        row = min(problems)
        raise InventoryError(f"--inventory {uri}, {unit} {lines[row]}: {problems[row]}")
    live: Sequence[bool] = Same(True, count)
    if _DELETED in cells:
        live = [cell in _EMPTY for cell in cells[_DELETED]]
    return InventoryRows(uris, sizes, versions, lines, live)


def _whole_numbers(cells: Sequence[Any], column: str, problems: dict[int, str]) -> Sequence[int]:
    """The numbers of a column; adds row -> what is wrong with it."""
    if set(map(type, cells)) == {int} and min(cells) >= 0 and max(cells) < _BEYOND:
        return cells
    if set(map(type, cells)) == {str}:
        digits = "".join(cells)
        if digits.isascii() and digits.isdecimal() and all(cells) and max(map(len, cells)) < 18:
            return list(map(int, cells))
    numbers = []
    for row, cell in enumerate(cells):
        number, text = cell, cell.strip() if isinstance(cell, str) else ""
        if text.isascii() and text.isdecimal():
            number = int(text) if len(text) <= _MOST_DIGITS else _BEYOND
        is_whole = type(number) is int and number >= 0
        if not is_whole or number >= _BEYOND:
            expected = "less than 2^63" if is_whole else "a whole number"
            message = f"the column {column} contains {excerpt(cell)}, expected {expected}"
            problems.setdefault(row, message)
        numbers.append(number)
    return numbers


def _texts(cells: Sequence[Any], column: str, problems: dict[int, str]) -> Sequence[str]:
    """The texts of a column; adds row -> what is wrong with it."""
    if set(map(type, cells)) == {str} and "" not in cells and is_utf8("".join(cells)):
        return cells
    for row, cell in enumerate(cells):
        problem = f"{excerpt(cell)}, expected text"
        if isinstance(cell, str) and cell:
            problem = "" if is_utf8(cell) else f"{excerpt(printable(cell))}, which is not UTF-8"
        if problem:
            problems.setdefault(row, f"the column {column} contains {problem}")
    return cells


def _columns(header: Sequence[str], uri: str) -> list[str]:
    """Returns the columns to read.

    Raises:
      InventoryError: a required column is missing, or a column appears twice.
    """
    wanted = next((names for names in _COLUMN_SETS if all(n in header for n in names)), None)
    if wanted is None:
        raise InventoryError(
            f"--inventory {uri}: the columns are {', '.join(map(excerpt, header)) or 'none'}; expected "
            f"{' or '.join(' and '.join(names) for names in _COLUMN_SETS)}; name them so in the header"
        )
    columns = [*wanted, *(name for name in _FURTHER if name in header)]
    for name in columns:
        if header.count(name) > 1:
            raise InventoryError(f"--inventory {uri}: two columns are called {name!r}; rename one")
    return columns


class CsvHeader(NamedTuple):
    """The format of a CSV file.

    Attributes:
      delimiter: the separator of cells.
      cells: how many a row has.
      columns: (name, index) of the columns that are read.
    """

    delimiter: str
    cells: int
    columns: Sequence[tuple[str, int]]

    def chosen(self, columns: Sequence[Sequence[str]]) -> Mapping[str, Sequence[str]]:
        """The columns that are read, of all."""
        return {name: columns[index] for name, index in self.columns}


def csv_header(file: BinaryIO, uri: str) -> CsvHeader | None:
    """Reads the header of an inventory; None if it is not a plain CSV file, and so is read as a whole.

    Raises:
      InventoryError: it has other columns.
    """
    if _beginning(file).startswith((_PARQUET, _GZIP)):
        return None
    text = _text_of(file, 1)
    try:
        return _header(text, uri)
    finally:
        text.detach()


def read_lines(
    lines: bytes, uri: str, header: CsvHeader, *, first_line: int, regular: bool
) -> Iterator[InventoryRows]:
    """Reads whole lines of a CSV inventory that are in memory, as `read_inventory` does.

    Args:
      lines: the lines.
      uri: the inventory, for messages.
      header: its format.
      first_line: the number of the first one.
      regular: True if each line break is known to end a record.
    """
    if not regular and not cuts.is_regular(lines, header.delimiter):
        yield from read_rows(io.BytesIO(lines), uri, header, first_line)
        return
    if first_line == 1:
        lines, first_line = lines[lines.find(b"\n") + 1 or len(lines) :], 2
    for block in cuts.sub_blocks(lines, _BLOCK_BYTES):
        text = block.decode(errors="surrogateescape")
        columns = cuts.columns_of_lines(text, header.delimiter, header.cells)
        if columns is None:
            yield from read_rows(io.BytesIO(block), uri, header, first_line)
        else:
            numbers = range(first_line, first_line + len(columns[0]))
            yield _typed(numbers, header.chosen(columns), uri)
        first_line += block.count(b"\n")


def _text_of(file: Any, first_line: int) -> io.TextIOWrapper:
    # Bytes that are not UTF-8 become surrogates, which are reported with their row.
    encoding = "utf-8" if first_line > 1 else "utf-8-sig"
    return io.TextIOWrapper(file, encoding, errors="surrogateescape", newline="")


def _header(text: io.TextIOWrapper, uri: str) -> CsvHeader:
    first = text.readline(_MOST_OF_A_HEADER)
    if len(first) == _MOST_OF_A_HEADER:
        raise InventoryError(
            f"--inventory {uri}: the first line has {_MOST_OF_A_HEADER} characters or more; expected a "
            "header that names the columns"
        )
    delimiter = cuts.separator_of(first)
    try:
        header = [cell.strip() for cell in next(csv.reader([first], delimiter=delimiter), [])]
    except csv.Error as error:  # a null character, in Python 3.10
        raise InventoryError(f"--inventory {uri}, line 1: not CSV: {error}") from error
    columns = [(name, header.index(name)) for name in _columns(header, uri)]
    return CsvHeader(delimiter, len(header), columns)


def read_rows(
    file: Any, uri: str, header: CsvHeader | None = None, first_line: int = 1
) -> Iterator[InventoryRows]:
    """Reads a CSV inventory from a line on; the first line is the header.

    Raises:
      InventoryError: as `read_inventory`.
    """
    text = _text_of(file, first_line)
    if first_line == 1:
        header, first_line = _header(text, uri), 2
    assert header
    records = _records(text, uri, header, first_line)
    while batch := list(itertools.islice(records, _RECORDS_AT_ONCE)):
        lines, cells = zip(*batch, strict=True)
        yield _typed(lines, header.chosen(list(zip(*cells, strict=True))), uri)
    text.detach()


def _records(
    text: io.TextIOWrapper, uri: str, header: CsvHeader, first_line: int
) -> Iterator[tuple[int, list[str]]]:
    """Yields (line, cells) of each record; empty lines are none."""
    reader = csv.reader(text, delimiter=header.delimiter, strict=True)
    line = first_line
    try:
        for cells in reader:
            if len(cells) == header.cells:
                yield line, cells
            elif cells:
                raise InventoryError(
                    f"--inventory {uri}, line {line}: {len(cells)} fields where the header has "
                    f"{header.cells}; look for a quote or a separator in a name"
                )
            line = reader.line_num + first_line
    except csv.Error as error:
        raise InventoryError(f"--inventory {uri}, line {line}: not CSV: {error}") from error


def _parquet_rows(
    file: BinaryIO, uri: str, groups: cuts.RowGroupRange | None
) -> Iterator[InventoryRows]:
    import pyarrow  # takes a third of a second to import, and few jobs need it
    from pyarrow import parquet

    try:
        opened = parquet.ParquetFile(file)
        columns = _columns(opened.schema_arrow.names, uri)
        batches = cuts.numbered_batches(
            opened, groups, rows_at_once=_ROWS_AT_ONCE, columns=columns, file=file
        )
        for first, batch in batches:
            if len(batch):
                yield _typed(range(first, first + len(batch)), batch.to_pydict(), uri, "row")
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        raise _damaged(uri, error) from error


def _damaged(uri: str, error: Exception) -> InventoryError:
    return InventoryError(f"--inventory {uri} is damaged or cut short ({error}); make it again")
