"""Types the rows of tables: chunks of cells become columns of `LabelRow`s, and dead letters."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from beam_pipeline.core.dead_letters import DeadLetter, Reason, Stage, row_dead_letter
from beam_pipeline.core.errors import LabelTableError
from beam_pipeline.core.labels.box_columns import claimed_sizes
from beam_pipeline.core.labels.cells import (
    BadCellError,
    by_text,
    is_padded,
    list_items,
    parse_cell,
    parse_cells,
    text_of,
)
from beam_pipeline.core.labels.points import parse_point
from beam_pipeline.core.labels.schema import CELL_FILES, Column, ColumnKind
from beam_pipeline.core.labels.table_files import Format, LabelTable
from beam_pipeline.core.labels.table_rows import ABSENT, TableRows
from beam_pipeline.core.labels.tables import LabelSchema
from beam_pipeline.core.listing.folders import SPLIT_NAMES
from beam_pipeline.core.packed_batches import LabelBatch
from beam_pipeline.core.packing import Columns, Same, items_of
from beam_pipeline.core.references import LabelRow, LabelValue
from beam_pipeline.core.text import excerpt
from beam_pipeline.core.uris import is_remote


def label_rows(
    chunks: Iterable[TableRows],
    table: LabelTable,
    schema: LabelSchema,
    rename: Callable[[str], str] | None = None,
    *,
    keep_unnamed: bool = False,
) -> Iterator[LabelBatch | DeadLetter]:
    """Yields the rows of a file, typed; one whose cells cannot be told apart, or without a key, is a dead letter.

    Args:
      chunks: the rows.
      table: the file.
      schema: the columns of all files.
      rename: turns the name of an image, as written, into the one that is looked for.
      keep_unnamed: rows without a key are rows, with an empty name.

    Raises:
      LabelTableError: a quote that is not closed swallowed other rows.
    """
    for rows in chunks:
        error, rows = _until_broken_name(rows, table, schema)
        names = by_text(rows.cells(table.key_column), text_of)
        unnamed = f"the key column {table.key_column!r} is empty"
        faults = [*rows.faults]
        if not keep_unnamed:
            faults += ((rows.lines[i], unnamed) for i, name in enumerate(names) if not name)
        for line, message in sorted(faults):
            yield row_dead_letter(Stage.LABELS, "", Reason.BAD_ROW, message, table.uri, line)
        if "" in names and not keep_unnamed:
            rows = rows.chosen([row for row, name in enumerate(names) if name])
            names = list(filter(None, names))
        if names:
            names = [rename(name) for name in names] if rename else names
            names = [_below(table.folder, name) for name in names] if table.folder else names
            yield LabelBatch.of_columns(_typed(rows, names, table, schema, rename))
        if error:
            raise error


def _below(folder: str, name: str) -> str:
    """A name relative to a folder as one relative to the folder's own root."""
    if not name or is_remote(name) or posixpath.isabs(name):
        return name
    return posixpath.normpath(posixpath.join(folder, name))


def _place_of(value: Any, table: LabelTable, rename: Callable[[str], str] | None) -> Any:
    """The paths in a cell, as the names of images are read: renamed, and relative to the folder of images."""
    if not isinstance(value, str):
        return value and tuple(_place_of(name, table, rename) for name in value)
    name = rename(value) if rename else value
    return _below(table.folder, name) if table.folder else name


def typed_row(
    name: str, fields: Mapping[str, Any], table: LabelTable, schema: LabelSchema, line: int
) -> LabelRow:
    """A row of a table, its values typed; what is wrong with one is the row's problem."""
    columns = _typed(TableRows.of_fields([line], [fields]), [name], table, schema)
    return next(items_of(LabelRow, columns))


def _typed(
    rows: TableRows,
    names: Sequence[str],
    table: LabelTable,
    schema: LabelSchema,
    rename: Callable[[str], str] | None = None,
) -> Columns:
    """The columns of the rows; of several problems in a row, the first is said."""
    leading, faults = schema.leading.parse(rows)
    values, problems = [*leading], {**faults}
    for column in schema.table_columns:
        pair = schema.points.get(column.name)
        parse = partial(_column_value, column=column, schema=schema)
        cells, faults = (
            parse_cells(
                list(zip(*map(rows.cells, pair), strict=True)), partial(parse_point, names=pair)
            )
            if pair
            else parse_cells(rows.cells(column.name), parse)
        )
        if column.kind in CELL_FILES and (rename or table.folder):
            cells = by_text(cells, partial(_place_of, table=table, rename=rename))
        values.append(cells)
        for row, message in faults.items():
            problems.setdefault(row, f"column {column.name!r}: {message}")
    count = len(rows)
    columns: Columns = (
        *(names, _tuples(values, count), _splits(rows, table, schema, problems)),
        *(Same(table.uri, count), rows.lines),
        [problems.get(row, "") for row in range(count)] if problems else Same("", count),
        claimed_sizes(rows, schema.leading.size),
    )
    assert len(columns) == len(LabelRow._fields)
    return columns


def _tuples(values: Sequence[Sequence[LabelValue]], count: int) -> Sequence[tuple[LabelValue, ...]]:
    """The values of each row; rows of a single class share theirs."""
    if not values:
        return Same((), count)
    if len(values) == 1 and set(map(type, values[0])) == {str}:
        single = {value: (value,) for value in set(values[0])}
        return [single[value] for value in values[0]]
    return list(zip(*values, strict=True))


def _splits(
    rows: TableRows, table: LabelTable, schema: LabelSchema, problems: dict[int, str]
) -> Sequence[str]:
    """The split of each row, as written if it names none, which is a problem."""
    if not schema.split_column:
        return Same(table.split, len(rows))
    cells = rows.cells(schema.split_column, ABSENT)
    splits, faults = parse_cells(cells, partial(_split_of, table=table))
    for row, message in faults.items():
        problems.setdefault(row, f"column {schema.split_column!r}: {message}")
    if not faults:
        return splits
    return [text_of(cells[row]) if row in faults else split for row, split in enumerate(splits)]


def _split_of(cell: Any, table: LabelTable) -> str:
    if cell is ABSENT:
        return table.split
    text = text_of(cell)
    split = split_name(text)
    if not split:
        raise BadCellError(f"{text!r} names no split")
    return split


def split_name(text: str) -> str:
    """The split that a cell names; empty if it names none."""
    split = SPLIT_NAMES.get(text.lower(), text)
    return split if re.fullmatch(r"\w+", split) else ""


def _column_value(cell: Any, column: Column, schema: LabelSchema) -> LabelValue:
    """A cell as a value of its column. Raises BadCellError."""
    separator = schema.separators.get(column.name, "")
    if column.name in schema.guessed:
        _check_not_padded(cell, separator, column.name)
    return parse_cell(cell, column, separator)


def _check_not_padded(cell: Any, separator: str, column: str) -> None:
    """Raises BadCellError if 007 is in a column that was taken for one of numbers."""
    if isinstance(cell, str) and "0" in cell:
        for item in list_items(cell, separator):
            if is_padded(item):
                raise BadCellError(
                    f"{excerpt(item)} begins with a zero, so it may be a name; --columns "
                    f"{column}:str makes the column a text, {column}:int reads it as a number"
                )


def _until_broken_name(
    rows: TableRows, table: LabelTable, schema: LabelSchema
) -> tuple[LabelTableError | None, TableRows]:
    """The rows before the first name with a line break, as one that a stray quote begins, and the error for it.

    Names of images, classes and splits, like in a CSV file.
    """
    if table.format is not Format.CSV:
        return None, rows
    classes = [column.name for column in schema.table_columns if column.kind is ColumnKind.CLASS]
    broken: list[tuple[int, str, str]] = []
    for column in (table.key_column, schema.leading.class_name, *classes, schema.split_column):
        cells = rows.cells(column, "") if column else ()
        if _has_break("".join(cells)):
            row = next((i for i, cell in enumerate(cells) if _has_break(cell.strip())), None)
            broken += [] if row is None else [(row, column, cells[row].strip())]
    if not broken:
        return None, rows
    row, column, text = min(broken, key=lambda place: place[0])
    line = rows.lines[row]
    before = rows.chosen(range(row))
    before.faults = [(number, message) for number, message in rows.faults if number < line]
    return LabelTableError(
        f"{table.uri}, line {line}: {excerpt(text)} in column {column!r} has {len(text.splitlines())} "
        "lines, where a name has one; look for a quote that opens there and is closed too late"
    ), before


def _has_break(text: str) -> bool:
    return "\n" in text or "\r" in text
