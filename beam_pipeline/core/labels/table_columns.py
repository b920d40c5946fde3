"""Reads regular lines of tables by whole columns, where nothing about them is unusual.

The general way is `tables.read_rows`, one row at a time. `row_columns` gives the same rows several
times as fast, or None where a line has to be looked at: `read_rows` then reads them.
"""

from __future__ import annotations

from collections.abc import Sequence

from beam_pipeline.core.labels.cells import BadCellError
from beam_pipeline.core.labels.table_files import UTF_8, WITHOUT_CELLS, LabelTable
from beam_pipeline.core.labels.tables import LabelSchema, column_value, split_name
from beam_pipeline.core.listing.line_blocks import columns_of_lines
from beam_pipeline.core.packing import Columns, Same
from beam_pipeline.core.references import LabelRow, LabelValue


def row_columns(
    lines: bytes, table: LabelTable, schema: LabelSchema, first_line: int
) -> Columns | None:
    """The columns of the rows of some lines; none of columns if they hold the header alone.

    None if a line is empty, broken or holds a fault, or if the table is not simple.

    Args:
      lines: regular ones of a CSV file.
      table: how it is read.
      schema: its columns.
      first_line: the number of the first line; 1 for a part that begins with the header.
    """
    if schema.detection or schema.one_hot or table.decimal_commas or len(table.delimiter) != 1:
        return None
    if table.delimiter in WITHOUT_CELLS or table.key_column not in table.header:
        return None
    found = _cells(lines, table, first_line)
    if found is None:
        return None
    if table.has_header and first_line == 1:
        found, first_line = [column[1:] for column in found], 2
        if not found[0]:
            return []
    cells = dict(zip(table.header, found, strict=True))
    names = list(map(str.strip, cells[table.key_column]))
    values = _values(cells, schema, len(names))
    if "" in names or values is None:
        return None
    splits: Sequence[str] = Same(table.split, len(names))
    if schema.split_column and schema.split_column in cells:
        texts = cells[schema.split_column]
        split_of = {text: split_name(text.strip()) for text in set(texts)}
        if "" in split_of.values():
            return None
        splits = [split_of[text] for text in texts]
    count = len(names)
    columns: Sequence[Sequence[object]] = (
        *(names, values, splits, Same(table.uri, count)),
        *(range(first_line, first_line + count), Same("", count), Same(None, count)),
    )
    assert len(columns) == len(LabelRow._fields)
    return columns


def _cells(lines: bytes, table: LabelTable, first_line: int) -> Sequence[Sequence[str]] | None:
    encoding = "utf-8" if table.encoding == UTF_8 and first_line > 1 else table.encoding
    try:
        text = lines.decode(encoding)
    except UnicodeDecodeError:
        return None
    return columns_of_lines(text, table.delimiter, len(table.header))


def _values(
    cells: dict[str, Sequence[str]], schema: LabelSchema, count: int
) -> Sequence[tuple[LabelValue, ...]] | None:
    columns: list[Sequence[LabelValue]] = []
    try:
        for column in schema.columns:
            texts = cells.get(column.name)
            if texts is None:
                columns.append([column_value(None, column, schema)] * count)
                continue
            value_of = {text: column_value(text, column, schema) for text in set(texts)}
            if len(schema.columns) == 1:  # one tuple for each value, however often it occurs
                labels = {text: (value,) for text, value in value_of.items()}
                return [labels[text] for text in texts]
            columns.append([value_of[text] for text in texts])
    except BadCellError:
        return None
    return list(zip(*columns, strict=True)) if columns else [()] * count
