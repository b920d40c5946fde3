"""Inventories: listings of images that were made elsewhere, as CSV, gzipped CSV or Parquet.

Two sets of columns are supported: `uri` and `size`; and `bucket`, `name` and `size`, as in the
inventory reports of Google's Storage Insights. `generation` is optional. A row with a `timeDeleted`
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
from contextlib import contextmanager
from typing import Any, BinaryIO, NamedTuple

from beam_pipeline.core.errors import InventoryError
from beam_pipeline.core.listing.cuts import RowGroupRange
from beam_pipeline.core.listing.line_blocks import columns_of_lines
from beam_pipeline.core.listing.row_groups import numbered_batches
from beam_pipeline.core.packing import Same
from beam_pipeline.core.text import shown

_URI, _SIZE, _BUCKET, _NAME = "uri", "size", "bucket", "name"
_GENERATION, _DELETED = "generation", "timeDeleted"
_COLUMN_SETS = ((_URI, _SIZE), (_BUCKET, _NAME, _SIZE))
_FURTHER = (_GENERATION, _DELETED)

_GZIP, _PARQUET = b"\x1f\x8b", b"PAR1"
_SEPARATORS = ",;\t|"
_ROWS_AT_ONCE = 1 << 14  # of Parquet
_MOST_OF_A_HEADER = 1 << 16  # characters; that of Storage Insights has a few hundred
_MOST_DIGITS = 4_000  # Python refuses to parse more than 4,300
_BEYOND = 1 << 63  # sizes and generations are stored as signed integers of 64 bits


_LEAST_GROUPS = 256
_PLAIN_BYTES, _PACKED_BYTES = 2_500_000, 400_000  # a group's share of CSV, and of anything else


class InventoryRow(NamedTuple):
    """A file that an inventory lists.

    Attributes:
      uri: the file.
      size: bytes.
      version: its generation; 0 if the inventory has none.
      line: the line of a CSV file or the row of a Parquet file, from 1.
      live: True if it is the newest version of the file.
    """

    uri: str
    size: int
    version: int
    line: int
    live: bool = True


def groups_for(inventories: Mapping[str, int]) -> int:
    """In how many groups the rows are compared with each other; each has some 50,000 rows.

    The worker of a group holds it, 387 bytes a row.

    Args:
      inventories: URI -> bytes; a name without `.csv` at its end counts as compressed.
    """
    groups = sum(
        size // (_PLAIN_BYTES if uri.endswith(".csv") else _PACKED_BYTES)
        for uri, size in inventories.items()
    )
    return max(_LEAST_GROUPS, groups)


def read_inventory(file: BinaryIO, uri: str) -> Iterator[InventoryRow]:
    """Reads an inventory row by row; its format is detected from its first bytes.

    Args:
      file: the inventory, seekable, at its beginning.
      uri: its name, for messages.

    Raises:
      InventoryError: it is damaged, has other columns, or a row names no file or no size.
    """
    if is_parquet(file):
        return (row for rows in parquet_rows(file, uri) for row in rows)
    beginning = file.read(2)
    file.seek(0)
    if beginning != _GZIP:
        return _rows(_csv_cells(file, uri), uri, "line")
    return _unzipped_rows(file, uri)


def is_parquet(file: BinaryIO) -> bool:
    """Tells from the first bytes of a file; it is at its beginning before and afterwards."""
    beginning = file.read(len(_PARQUET))
    file.seek(0)
    return beginning == _PARQUET


def _unzipped_rows(file: BinaryIO, uri: str) -> Iterator[InventoryRow]:
    try:
        with gzip.GzipFile(fileobj=file) as unzipped:
            yield from _rows(_csv_cells(unzipped, uri), uri, "line")
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InventoryError(
            f"--inventory {uri} is damaged or cut short ({error}); make it again"
        ) from error


class _Cells(NamedTuple):
    """A row of a file.

    Attributes:
      line: its line or row, from 1.
      cells: column -> cell, for the columns that are read.
    """

    line: int
    cells: dict[str, Any]


def _rows(rows: Iterator[_Cells], uri: str, unit: str) -> Iterator[InventoryRow]:
    for line, cells in rows:
        try:
            yield _row(line, cells)
        except ValueError as error:
            raise InventoryError(f"--inventory {uri}, {unit} {line}: {error}") from error


def _row(line: int, cells: dict[str, Any]) -> InventoryRow:
    """Parses a row. Raises ValueError."""
    size = _whole_number(cells[_SIZE], _SIZE)
    generation = cells.get(_GENERATION)
    version = 0 if generation in (None, "") else _whole_number(generation, _GENERATION)
    if _URI in cells:
        where = _text(cells[_URI], _URI)
    else:
        where = f"gs://{_text(cells[_BUCKET], _BUCKET)}/{_text(cells[_NAME], _NAME)}"
    return InventoryRow(where, size, version, line, cells.get(_DELETED) in (None, ""))


def _whole_number(value: Any, column: str) -> int:
    text = value.strip() if isinstance(value, str) else ""
    if text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS:
        value = int(text)
    elif text.isascii() and text.isdecimal():
        value = _BEYOND
    if type(value) is not int or value < 0:
        raise ValueError(f"the column {column} holds {shown(value)}, expected a whole number")
    if value >= _BEYOND:
        raise ValueError(
            f"the column {column} holds {shown(text or value)}, expected less than 2^63"
        )
    return value


def _text(value: Any, column: str) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(f"the column {column} holds {shown(value)}, expected text")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            text = value.encode("utf-8", "backslashreplace").decode()
            raise ValueError(
                f"the column {column} holds {shown(text)}, which is not UTF-8"
            ) from None
    return value


def _columns(header: Sequence[str], uri: str) -> list[str]:
    """Returns the columns to read.

    Raises:
      InventoryError: a required column is missing, or a column appears twice.
    """
    wanted = next((names for names in _COLUMN_SETS if all(n in header for n in names)), None)
    if wanted is None:
        raise InventoryError(
            f"--inventory {uri}: the columns are {', '.join(map(shown, header)) or 'none'}; "
            f"expected {' or '.join(' and '.join(names) for names in _COLUMN_SETS)}; name them so "
            "in the header"
        )
    columns = [*wanted, *(name for name in _FURTHER if name in header)]
    for name in columns:
        if header.count(name) > 1:
            raise InventoryError(f"--inventory {uri}: two columns are called {name!r}; rename one")
    return columns


class CsvHeader(NamedTuple):
    """The format of a CSV file.

    Attributes:
      delimiter: what stands between cells.
      cells: how many a row has.
      columns: (name, index) of the columns that are read.
    """

    delimiter: str
    cells: int
    columns: Sequence[tuple[str, int]]


def csv_header(file: BinaryIO, uri: str) -> CsvHeader | None:
    """Reads the header of an inventory; None if it is no plain CSV file, and so is read as a whole.

    Raises:
      InventoryError: it has other columns.
    """
    beginning = file.read(4)
    file.seek(0)
    if beginning == _PARQUET or beginning.startswith(_GZIP):
        return None
    text = _text_of(file)
    try:
        return _header(text, uri)
    finally:
        text.detach()


def read_rows(
    file: BinaryIO, uri: str, header: CsvHeader, first_line: int
) -> Iterator[InventoryRow]:
    """Reads a CSV inventory from a line on, behind the header.

    Args:
      file: the inventory, at the beginning of that line.
      uri: its name, for messages.
      header: its format.
      first_line: the number of that line.

    Raises:
      InventoryError: as `read_inventory`.
    """
    encoding = "utf-8" if first_line > 1 else "utf-8-sig"
    text = io.TextIOWrapper(file, encoding, errors="surrogateescape", newline="")
    if first_line == 1:
        text.readline()
        first_line = 2
    return _rows(_cells_below(text, uri, header, first_line), uri, "line")


class InventoryColumns(NamedTuple):
    """Files that an inventory lists, all of them the newest versions.

    Attributes:
      uris: the files, in ASCII or other valid text, without line breaks.
      sizes, versions: as in `InventoryRow`.
    """

    uris: Sequence[str]
    sizes: Sequence[int]
    versions: Sequence[int]


def row_columns(lines: bytes, header: CsvHeader) -> InventoryColumns | None:
    """The columns of regular lines behind the header; None if a line has to be looked at by `read_rows`."""
    try:
        text = lines.decode()
    except UnicodeDecodeError:
        return None
    found = columns_of_lines(text, header.delimiter, header.cells)
    if found is None:
        return None
    cells = {name: found[index] for name, index in header.columns}
    count = len(found[0])
    sizes = _whole_numbers(cells[_SIZE])
    versions: Sequence[int] | None = Same(0, count)
    if _GENERATION in cells and any(cells[_GENERATION]):
        versions = _whole_numbers(cells[_GENERATION])
    if sizes is None or versions is None or any(cells.get(_DELETED, ())):
        return None
    if _URI in cells:
        uris = cells[_URI]
        return None if "" in uris else InventoryColumns(uris, sizes, versions)
    buckets, names = cells[_BUCKET], cells[_NAME]
    if "" in buckets or "" in names:
        return None
    uris = [f"gs://{bucket}/{name}" for bucket, name in zip(buckets, names, strict=True)]
    return InventoryColumns(uris, sizes, versions)


def _whole_numbers(texts: Sequence[str]) -> Sequence[int] | None:
    """Numbers of less than 18 digits; None if there are other texts."""
    digits = "".join(texts)
    plain = digits.isascii() and digits.isdecimal() and all(texts)
    return list(map(int, texts)) if plain and max(map(len, texts)) < 18 else None


def _csv_cells(file: Any, uri: str) -> Iterator[_Cells]:
    text = _text_of(file)
    return _cells_below(text, uri, _header(text, uri), 2)


def _text_of(file: Any) -> io.TextIOWrapper:
    # Bytes that are not UTF-8 become surrogates, which are reported with their row.
    return io.TextIOWrapper(file, "utf-8-sig", errors="surrogateescape", newline="")


def _header(text: io.TextIOWrapper, uri: str) -> CsvHeader:
    first = text.readline(_MOST_OF_A_HEADER)
    if len(first) == _MOST_OF_A_HEADER:
        raise InventoryError(
            f"--inventory {uri}: the first line has {_MOST_OF_A_HEADER} characters or more; expected a "
            "header that names the columns"
        )
    delimiter = max(_SEPARATORS, key=lambda mark: (first.count(mark), mark == ","))
    try:
        header = [cell.strip() for cell in next(csv.reader([first], delimiter=delimiter), [])]
    except csv.Error as error:  # a null character, in Python 3.10
        raise InventoryError(f"--inventory {uri}, line 1: not CSV: {error}") from error
    columns = [(name, header.index(name)) for name in _columns(header, uri)]
    return CsvHeader(delimiter, len(header), columns)


def _cells_below(
    text: io.TextIOWrapper, uri: str, header: CsvHeader, first_line: int
) -> Iterator[_Cells]:
    reader = csv.reader(text, delimiter=header.delimiter, strict=True)
    line = first_line
    try:
        for cells in reader:
            if len(cells) == header.cells:
                yield _Cells(line, {name: cells[index] for name, index in header.columns})
            elif cells:
                raise InventoryError(
                    f"--inventory {uri}, line {line}: {len(cells)} fields where the header has "
                    f"{header.cells}; look for a quote or a separator in a name"
                )
            line = reader.line_num + first_line
    except csv.Error as error:
        raise InventoryError(f"--inventory {uri}, line {line}: not CSV: {error}") from error
    text.detach()


class ParquetRows:
    """Some rows of a Parquet inventory; they can be iterated over one by one.

    Attributes:
      first: the number of the first one, from 1.
    """

    def __init__(self, batch: Any, first: int, uri: str) -> None:
        """Takes the rows.

        Args:
          batch: a `pyarrow.RecordBatch` of the columns that are read.
          first: as the attribute.
          uri: the file, for messages.
        """
        self.first = first
        self._batch = batch
        self._uri = uri

    def __iter__(self) -> Iterator[InventoryRow]:
        return _rows(self._cells(), self._uri, "row")

    def _cells(self) -> Iterator[_Cells]:
        with _parquet_errors(self._uri):
            rows = self._batch.to_pylist()
        return itertools.starmap(_Cells, enumerate(rows, self.first))

    def columns(self) -> InventoryColumns | None:
        """The columns of the rows; None if they have to be looked at one by one."""
        batch, count = self._batch, len(self._batch)
        cells = {name: batch.column(index) for index, name in enumerate(batch.schema.names)}
        deleted = cells.get(_DELETED)
        if not count or (deleted is not None and deleted.null_count < count):
            return None
        sizes = _arrow_numbers(cells[_SIZE])
        versions: Sequence[int] | None = Same(0, count)
        generations = cells.get(_GENERATION)
        if generations is not None and generations.null_count < count:
            versions = _arrow_numbers(generations)
        if sizes is None or versions is None:
            return None
        if _URI in cells:
            uris = _arrow_texts(cells[_URI])
            return InventoryColumns(uris, sizes, versions) if uris else None
        buckets, names = _arrow_texts(cells[_BUCKET]), _arrow_texts(cells[_NAME])
        if buckets is None or names is None:
            return None
        uris = [f"gs://{bucket}/{name}" for bucket, name in zip(buckets, names, strict=True)]
        return InventoryColumns(uris, sizes, versions)


def parquet_rows(
    file: BinaryIO, uri: str, groups: RowGroupRange | None = None
) -> Iterator[ParquetRows]:
    """Reads a Parquet inventory, or some of its row groups.

    Args:
      file: the inventory, seekable.
      uri: its name, for messages.
      groups: the row groups to read; None for all.

    Raises:
      InventoryError: it is damaged, has changed since it was cut, or has other columns.
    """
    with _parquet_errors(uri):
        from pyarrow import parquet

        opened = parquet.ParquetFile(file)
        columns = _columns(opened.schema_arrow.names, uri)
        batches = numbered_batches(opened, groups, rows_at_once=_ROWS_AT_ONCE, columns=columns)
        for first, batch in batches:
            yield ParquetRows(batch, first, uri)


@contextmanager
def _parquet_errors(uri: str) -> Iterator[None]:
    import pyarrow  # takes a third of a second to import, and few jobs need it

    try:
        yield
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        raise InventoryError(
            f"--inventory {uri} is damaged or cut short ({error}); make it again"
        ) from error


def _arrow_numbers(column: Any) -> Sequence[int] | None:
    """Whole numbers; None if some are missing, negative or not below 2^63."""
    from pyarrow import types

    if column.null_count:
        return None
    found = column.to_pylist()
    if types.is_integer(column.type):
        return found if min(found) >= 0 and max(found) < _BEYOND else None
    return _whole_numbers(found) if types.is_string(column.type) else None


def _arrow_texts(column: Any) -> Sequence[str] | None:
    """Texts; None if some are missing, empty or not UTF-8."""
    from pyarrow import types

    is_text = types.is_string(column.type) or types.is_large_string(column.type)
    if column.null_count or not is_text:
        return None
    try:
        found = column.to_pylist()
    except UnicodeDecodeError:
        return None
    return None if "" in found else found
