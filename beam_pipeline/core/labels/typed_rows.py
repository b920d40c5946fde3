"""Types the rows of tables: chunks of cells become columns of `LabelRow`s, and dead letters."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from beam_pipeline.core import errors
from beam_pipeline.core.dead_letters import DeadLetter, Reason, Stage, row_dead_letter
from beam_pipeline.core.labels import box_columns, cells, tables
from beam_pipeline.core.labels.further_columns import parse_point
from beam_pipeline.core.labels.schema import CELL_FILES, Column, ColumnKind
from beam_pipeline.core.labels.table_rows import ABSENT, Format, LabelTable, TableRows
from beam_pipeline.core.listing.folders import SPLIT_NAMES
from beam_pipeline.core.packing import Columns, LabelBatch, Same, items_of
from beam_pipeline.core.references import LabelRow, LabelValue
from beam_pipeline.core.text import excerpt
from beam_pipeline.core.uris import is_remote

Place = Callable[[str], str]
"""Turns the name of an image, as written, into the one that is looked for."""


def label_rows(
    chunks: Iterable[TableRows],
    table: LabelTable,
    schema: tables.LabelSchema,
    rename: Place | None = None,
    *,
    keep_unnamed: bool = False,
) -> Iterator[LabelBatch | DeadLetter]:
    """Yields the rows of a file, typed; one whose cells cannot be told apart, or without a key, is a dead letter.

    Args:
      chunks: the rows.
      table: the file.
      schema: the columns of all files.
      rename: of names of images; None to leave them as they are.
      keep_unnamed: rows without a key are rows, with an empty name.

    Raises:
      LabelTableError: a quote that is closed too late swallowed other rows.
    """
    place = _place(table, rename)
    for rows in chunks:
        _check_names(rows, table, schema)
        names, faults = cells.texts_of(rows.cells(table.key_column)), [*rows.faults]
        if "" in names and not keep_unnamed:
            message = f"the key column {table.key_column!r} is empty"
            faults += [(rows.lines[row], message) for row, name in enumerate(names) if not name]
            rows = rows.chosen([row for row, name in enumerate(names) if name])
            names = list(filter(None, names))
        for line, message in sorted(faults):
            yield row_dead_letter(Stage.LABELS, "", Reason.BAD_ROW, message, table.uri, line)
        if names:
            names = [*map(place, names)] if place else names
            yield LabelBatch.of_columns(_typed(rows, names, table, schema, place))


def typed_row(
    name: str, fields: Mapping[str, Any], table: LabelTable, schema: tables.LabelSchema, line: int
) -> LabelRow:
    """A row of a table, its values typed; what is wrong with one is the row's problem."""
    rows = TableRows.of_fields([line], [fields])
    return next(items_of(LabelRow, _typed(rows, [name], table, schema, _place(table, None))))


def _place(table: LabelTable, rename: Place | None) -> Place | None:
    """Renames, and makes names relative to the table's folder relative to its root; None if both change nothing."""
    folder = table.folder
    if not folder:
        return rename

    def place(name: str) -> str:
        name = rename(name) if rename else name
        if not name or is_remote(name) or posixpath.isabs(name):
            return name
        return posixpath.normpath(posixpath.join(folder, name))

    return place


def _placed(value: Any, place: Place) -> Any:
    """The paths in a cell, as the names of images are read."""
    return place(value) if isinstance(value, str) else value and tuple(map(place, value))


def _typed(
    rows: TableRows,
    names: Sequence[str],
    table: LabelTable,
    schema: tables.LabelSchema,
    place: Place | None,
) -> Columns:
    """The columns of the rows; of several problems in a row, the first is said."""
    count = len(rows)
    leading, faults = schema.leading.parse(rows)
    values, problems = [*leading], {**faults}

    def parsed(column: str, written: Sequence[Any], parse: Callable[[Any], Any]) -> Sequence[Any]:
        parsed_cells, faults = cells.parse_cells(written, parse)
        lacks = ", which this file lacks" * bool(table.header and isinstance(written, Same))
        for row, message in faults.items():
            problems.setdefault(row, f"column {column!r}{lacks}: {message}")
        return parsed_cells

    for column in schema.table_columns:
        if pair := schema.points.get(column.name):
            places = list(zip(*map(rows.cells, pair), strict=True))
            values.append(parsed(column.name, places, partial(parse_point, names=pair)))
            continue
        parse = partial(_column_value, column=column, schema=schema)
        of_column = parsed(column.name, rows.cells(column.name), parse)
        if column.kind in CELL_FILES and place:
            of_column = cells.by_text(of_column, partial(_placed, place=place))
        values.append(of_column)
    splits: Sequence[str] = Same(table.split, count)
    if schema.split_column:
        written = rows.cells(schema.split_column, ABSENT)
        splits = parsed(schema.split_column, written, partial(_split_of, table=table))
        splits = [split or "" for split in splits] if problems else splits
    texts = [problems.get(row, "") for row in range(count)] if problems else Same("", count)
    sizes = box_columns.claimed_sizes(rows, schema.leading.size)
    uris = Same(table.uri, count)
    return names, _tuples(values, count), splits, uris, rows.lines, texts, sizes


def _tuples(values: Sequence[Sequence[LabelValue]], count: int) -> Sequence[tuple[LabelValue, ...]]:
    """The values of each row; rows of a single class share theirs."""
    if not values:
        return Same((), count)
    if len(values) == 1 and set(map(type, values[0])) == {str}:
        single = {value: (value,) for value in set(values[0])}
        return [single[value] for value in values[0]]
    return list(zip(*values, strict=True))


def _split_of(cell: Any, table: LabelTable) -> str:
    """The split that a cell names. Raises BadCellError."""
    if cell is ABSENT:
        return table.split
    text = cells.text_of(cell)
    split = SPLIT_NAMES.get(text.lower(), text)
    if not re.fullmatch(r"\w+", split):
        raise cells.BadCellError(f"{text!r} names no split")
    return split


def _column_value(cell: Any, column: Column, schema: tables.LabelSchema) -> LabelValue:
    """A cell as a value of its column.

    Raises:
      BadCellError: it is none, or 007 is in a column that was taken for one of numbers.
    """
    name, separator = column.name, schema.separators.get(column.name, "")
    if name in schema.guessed and isinstance(cell, str) and "0" in cell:
        padded = next(filter(cells.is_padded, cells.list_items(cell, separator)), None)
        if padded:
            raise cells.BadCellError(
                f"{excerpt(padded)} begins with a zero, so it may be a name; --columns {name}:str makes the "
                f"column a text, {name}:int reads it as a number"
            )
    return cells.parse_cell(cell, column, separator)


def _check_names(rows: TableRows, table: LabelTable, schema: tables.LabelSchema) -> None:
    """Raises LabelTableError for a name with a line break, as one that a stray quote begins.

    Names of images, classes and splits, like in a CSV file.
    """
    if table.format is not Format.CSV:
        return
    classes = [column.name for column in schema.table_columns if column.kind is ColumnKind.CLASS]
    for column in (table.key_column, schema.leading.class_name, *classes, schema.split_column):
        names = rows.cells(column, "") if column else ()
        for row, name in enumerate(names if _has_break("".join(names)) else ()):
            if _has_break(text := name.strip()):
                raise errors.LabelTableError(
                    f"{table.uri}, line {rows.lines[row]}: {excerpt(text)} in column {column!r} has "
                    f"{len(text.splitlines())} lines, where a name has one; look for a quote that opens there and is "
                    "closed too late"
                )


def _has_break(text: str) -> bool:
    return "\n" in text or "\r" in text
