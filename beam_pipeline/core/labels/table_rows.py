"""Reads tables: chunks of rows by columns, whatever the format of the file.

A chunk has the cells of some thousand rows by column, and the faults of rows that cannot be told apart. Regular lines
of CSV are cut into columns at once (`columns_of_lines`); all else is parsed record by record.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, BinaryIO

from beam_pipeline.core.errors import LabelTableError
from beam_pipeline.core.json_file import JsonFile, JsonFileError
from beam_pipeline.core.labels.cells import NEARLY_ALL, by_text, is_empty, is_number, json_float
from beam_pipeline.core.labels.conversations import with_images
from beam_pipeline.core.labels.parquet_columns import json_value, parquet_errors
from beam_pipeline.core.labels.table_files import (
    LISTS,
    UTF_8,
    Format,
    LabelTable,
    TableHead,
    csv_records,
    decoded_lines,
    decoding_errors,
    encoding_problem,
    split_line,
)
from beam_pipeline.core.listing.cuts import RowGroupRange
from beam_pipeline.core.listing.line_blocks import columns_of_lines, is_regular, sub_blocks
from beam_pipeline.core.listing.row_groups import numbered_batches
from beam_pipeline.core.packing import Same
from beam_pipeline.core.text import excerpt

BLOCK_BYTES = 1 << 20  # of lines that become columns at once, some 25,000 rows
_ROWS_AT_ONCE = 4096
_DECIMAL_COMMA = re.compile(r"[+-]?[0-9]+,[0-9]+([eE][+-]?[0-9]+)?")

ABSENT = object()
"""The cell of a row of JSON without such a column."""

_Record = tuple[int, Any, str]
"""(line, cells or fields, problem or empty)"""


class TableRows:
    """Rows of a table, by columns.

    Attributes:
      lines: where each row starts, or its number in a Parquet file.
      columns: name -> the cells of all rows, `ABSENT` where a row of JSON lacks such a column.
      faults: (line, message) of further rows, whose cells cannot be told apart.
      ragged: False if each row surely has all columns.
    """

    def __init__(
        self,
        lines: Sequence[int],
        columns: Mapping[str, Sequence[Any]],
        faults: Sequence[tuple[int, str]] = (),
        *,
        ragged: bool = False,
    ) -> None:
        self.lines = lines
        self.columns = columns
        self.faults = faults
        self.ragged = ragged

    @classmethod
    def of_fields(
        cls,
        lines: Sequence[int],
        fields: Sequence[Mapping[str, Any]],
        faults: Sequence[tuple[int, str]] = (),
    ) -> TableRows:
        """The rows of objects of JSON."""
        names = dict.fromkeys(name for row in fields for name in row)
        columns = {name: [row.get(name, ABSENT) for row in fields] for name in names}
        return cls(lines, columns, faults, ragged=any(len(row) < len(names) for row in fields))

    @classmethod
    def together(cls, parts: Sequence[TableRows]) -> TableRows:
        """The rows of all parts, without faults."""
        names = dict.fromkeys(name for part in parts for name in part.columns)
        columns = {name: [c for part in parts for c in part.cells(name, ABSENT)] for name in names}
        return cls([line for part in parts for line in part.lines], columns, ragged=True)

    def __len__(self) -> int:
        return len(self.lines)

    def cells(self, name: str, absent: Any = None) -> Sequence[Any]:
        """The cells of a column, with `absent` for rows without it."""
        cells = self.columns.get(name)
        if cells is None:
            return Same(absent, len(self.lines))
        if self.ragged and absent is not ABSENT:
            return [absent if cell is ABSENT else cell for cell in cells]
        return cells

    def fields(self) -> Sequence[Mapping[str, Any]]:
        """The rows as objects of JSON."""
        rows = zip(*self.columns.values(), strict=True)
        return [
            {name: cell for name, cell in zip(self.columns, row, strict=True) if cell is not ABSENT}
            for row in rows
        ]

    def chosen(self, rows: Sequence[int]) -> TableRows:
        """Some of the rows, without faults."""
        columns = {name: [cells[row] for row in rows] for name, cells in self.columns.items()}
        return TableRows([self.lines[row] for row in rows], columns, ragged=self.ragged)

    def stripped(self) -> TableRows:
        """The rows without spaces around texts; equal texts are one object in memory."""
        columns = {name: by_text(cells, _stripped) for name, cells in self.columns.items()}
        return TableRows(self.lines, columns, ragged=self.ragged)


def _stripped(cell: Any) -> Any:
    return cell.strip() if isinstance(cell, str) else cell


def read_chunks(
    file: BinaryIO,
    table: LabelTable,
    *,
    strict: bool = True,
    first_line: int = 1,
    groups: RowGroupRange | None = None,
) -> Iterator[TableRows]:
    """Yields the rows of a file, or of a part of it.

    Args:
      file: the file, open at its beginning or at the first line of the part.
      table: how it is read.
      strict: False if the file may be incomplete; then a quote that spans many lines is not an error.
      first_line: the number of the first line.
      groups: the row groups of a Parquet file to read; None for all.

    Raises:
      LabelTableError: a Parquet file or an array of JSON is broken, or a quote spans other rows.
    """
    if table.format is Format.PARQUET:
        yield from _parquet_chunks(file, table.uri, groups)
        return
    records = _records(file, table, strict, first_line)
    error: LabelTableError | None = None
    while not error:
        batch: list[_Record] = []
        try:
            batch.extend(islice(records, _ROWS_AT_ONCE))  # which keeps what is before an error
        except LabelTableError as caught:
            error = caught
        if not batch:
            break
        yield _rows_of(batch, table)
    if error:
        raise error


def read_lines(
    data: bytes, table: LabelTable, *, first_line: int = 1, regular: bool = False
) -> Iterator[TableRows]:
    """Yields the rows of whole lines that are in memory, as `read_chunks` does.

    Args:
      data: the lines.
      table: how they are read.
      first_line: the number of the first one.
      regular: True if each line break is known to end a record.
    """
    if not regular and not is_regular(data.removeprefix(b"\xef\xbb\xbf"), table.delimiter):
        yield from read_chunks(io.BytesIO(data), table, first_line=first_line)
        return
    for block in sub_blocks(data, BLOCK_BYTES):
        rows = _columns_at_once(block, table, first_line)
        if rows is not None:
            yield rows
        else:
            yield from read_chunks(io.BytesIO(block), table, first_line=first_line)
        first_line += block.count(b"\n")


def head_rows(head: TableHead, table: LabelTable) -> TableRows:
    """The complete rows of a file's beginning, stripped, without those that have faults."""
    if head.rows is not None:
        return TableRows.of_fields(range(1, len(head.rows) + 1), head.rows).stripped()
    data = head.data
    if not head.whole and table.delimiter:
        data = data[: data.rfind(b"\n") + 1] or data
    if is_regular(data.removeprefix(b"\xef\xbb\xbf"), table.delimiter):
        rows = _columns_at_once(data, table, 1)
        if rows is not None:
            return rows.stripped()
    chunks = list(read_chunks(io.BytesIO(head.data), table, strict=False))
    rows = TableRows.together(chunks or [_rows_of((), table)])
    return (rows if head.whole else rows.chosen(range(len(rows) - 1))).stripped()


def with_decimal_commas(table: LabelTable, rows: TableRows, texts: Collection[str]) -> LabelTable:
    """Returns the table with `decimal_commas` filled in.

    Args:
      table: one with `;` between its cells; no other has such numbers.
      rows: its first ones.
      texts: columns to leave out, such as those declared as texts or lists by the user.
    """
    if table.delimiter != ";":
        return table
    names = []
    for name in rows.columns:
        cells = [cell for cell in rows.cells(name) if not is_empty(cell)]
        commas = sum(map(_has_decimal_comma, cells))
        numbers = commas + sum(map(is_number, cells))
        if name and name not in texts and commas and numbers >= NEARLY_ALL * len(cells):
            names.append(name)
    return replace(table, decimal_commas=tuple(names))


def _columns_at_once(block: bytes, table: LabelTable, first_line: int) -> TableRows | None:
    """The rows of regular lines; None if a line is blank, broken or no row of so many cells."""
    if table.format is not Format.CSV:
        return None
    try:
        text = block.decode(_encoding(table, first_line))
    except UnicodeDecodeError:
        return None
    columns = columns_of_lines(text, table.delimiter, len(table.header))
    if columns is None or _any_blank(columns):
        return None
    if first_line == 1 and table.header_lines:
        columns = [column[table.header_lines :] for column in columns]
        first_line += table.header_lines
    lines = range(first_line, first_line + len(columns[0]))
    return _with_points(TableRows(lines, dict(zip(table.header, columns, strict=True))), table)


def _any_blank(columns: Sequence[Sequence[str]]) -> bool:
    """True if all cells of a row are empty, such as the lines of commas that Excel leaves."""
    if all(map(str.strip, columns[0])):
        return False
    return not all(any(map(str.strip, row)) for row in zip(*columns, strict=True))


def _encoding(table: LabelTable, first_line: int) -> str:
    """The encoding of a part of a file: a byte order mark is only at the beginning."""
    return "utf-8" if table.encoding == UTF_8 and first_line > 1 else table.encoding


def _records(file: BinaryIO, table: LabelTable, strict: bool, first_line: int) -> Iterator[_Record]:
    """The records of a file of text, below the header."""
    encoding = _encoding(table, first_line)
    if table.format in LISTS:
        return _listed(file, encoding, table, first_line)
    if table.format is Format.JSON_LINES:
        return _json_lines(file, encoding, first_line)
    if table.format is Format.JSON_ARRAY:
        return _json_array(file, encoding, table, strict)
    uri = table.uri if strict else ""
    records = csv_records(file, encoding, table.delimiter, uri, first_line)
    return islice(records, table.header_lines if first_line == 1 else 0, None)


def _rows_of(records: Sequence[_Record], table: LabelTable) -> TableRows:
    """The rows of records; those with a problem, or of another length than the header, are faults."""
    count = len(table.header)
    lines: list[int] = []
    sound: list[Any] = []
    faults: list[tuple[int, str]] = []
    for line, cells, problem in records:
        if problem:
            faults.append((line, problem))
        elif count and len(cells) != count:
            problem = (
                f"{len(cells)} fields where the header has {count} ({', '.join(table.header)}): "
                f"{excerpt(table.delimiter.join(cells))}"
            )
            faults.append((line, problem))
        else:
            lines.append(line)
            sound.append(cells)
    if not count:
        return TableRows.of_fields(lines, [*map(with_images, sound)], faults)
    columns = zip(*sound, strict=True) if sound else ((),) * count
    rows = TableRows(lines, dict(zip(table.header, columns, strict=True)), faults)
    return _with_points(rows, table)


def _with_points(rows: TableRows, table: LabelTable) -> TableRows:
    """The rows with a point for each decimal comma."""
    if not table.decimal_commas:
        return rows
    points = {name: by_text(rows.cells(name), _with_point) for name in table.decimal_commas}
    return TableRows(rows.lines, {**rows.columns, **points}, rows.faults)


def _with_point(cell: str) -> str:
    return cell.replace(",", ".") if _has_decimal_comma(cell) else cell


def _has_decimal_comma(value: Any) -> bool:
    return isinstance(value, str) and _DECIMAL_COMMA.fullmatch(value.strip()) is not None


def _listed(file: BinaryIO, encoding: str, table: LabelTable, first_line: int) -> Iterator[_Record]:
    """The lines of a list."""
    text = decoded_lines(file, encoding, newline=None)
    count = len(table.header)
    for line, record in enumerate(text, first_line):
        if not record.strip():
            continue
        problem = encoding_problem(record, encoding)
        cells = split_line(record, table)
        if len(cells) != count and not problem:
            problem = f"names no image and its label: {excerpt(record.strip())}"
        yield line, cells, problem
    text.detach()


# --- JSON ---------------------------------------------------------------------------------------


def _json_lines(file: BinaryIO, encoding: str, first_line: int) -> Iterator[_Record]:
    text = decoded_lines(file, encoding, newline=None)
    for line, record in enumerate(text, first_line):
        if not record.strip():
            continue
        problem = encoding_problem(record, encoding)
        fields: Any = {}
        if not problem:
            try:
                fields = json.loads(record, parse_float=json_float)
            except (ValueError, RecursionError) as error:
                problem = f"not JSON: {error}"
        yield line, fields, problem or _json_problem(fields, record, encoding)
    text.detach()


def _json_array(
    file: BinaryIO, encoding: str, table: LabelTable, strict: bool
) -> Iterator[_Record]:
    """The items of an array, which is never in memory as a whole; an incomplete one ends it unless `strict`.

    Raises:
      LabelTableError: the array is broken.
    """
    errors = decoding_errors(encoding)
    array = JsonFile(file, encoding=encoding, errors=errors, parse_float=json_float)
    try:
        for item in array.elements():
            fault = encoding_problem(array.text, encoding)
            yield array.line, item, fault or _json_problem(item, array.text, encoding)
    except JsonFileError as error:
        if strict:
            raise LabelTableError(f"{table.uri}: not JSON: {error}") from error


def _json_problem(fields: Any, record: str, encoding: str) -> str:
    """What is wrong with a row of JSON; empty if it is an object of valid text."""
    if "\\u" in record:  # an escape may represent half a character
        problem = encoding_problem(json.dumps(fields, ensure_ascii=False), encoding)
        if problem:
            return problem
    return "" if isinstance(fields, dict) else f"expected a JSON object, found {excerpt(fields)}"


# --- Parquet ------------------------------------------------------------------------------------


def _parquet_chunks(file: BinaryIO, uri: str, groups: RowGroupRange | None) -> Iterator[TableRows]:
    """The rows of a file with values like JSON; memory is bounded by its row groups."""
    with parquet_errors(uri):
        from pyarrow import parquet

        opened = parquet.ParquetFile(file)
        for first, batch in numbered_batches(opened, groups, rows_at_once=_ROWS_AT_ONCE):
            broken: dict[int, list[str]] = {}
            columns = {
                name: _json_cells(cells, name, broken) for name, cells in batch.to_pydict().items()
            }
            rows = TableRows(range(first, first + len(batch)), columns)
            if broken:
                rows = rows.chosen([row for row in range(len(rows)) if row not in broken])
                rows.faults = [
                    (first + row, f"bytes that are not UTF-8 text in {', '.join(names)}")
                    for row, names in sorted(broken.items())
                ]
            yield rows


def _json_cells(cells: Sequence[Any], name: str, broken: dict[int, list[str]]) -> Sequence[Any]:
    """The cells of a column of Arrow as JSON has them; rows of bytes that are not text are added to `broken`."""
    if set(map(type, cells)) <= {str, int, bool, type(None)}:
        return cells
    values = []
    for row, cell in enumerate(cells):
        try:
            values.append(json_value(cell))
        except UnicodeDecodeError:
            values.append(None)
            broken.setdefault(row, []).append(name)
    return values
