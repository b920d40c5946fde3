"""Reads label tables of a few lines, given as text."""

from __future__ import annotations

import io
import json
from typing import Any

from beam_pipeline.core.dead_letters import DeadLetter
from beam_pipeline.core.labels.schema import Column, ColumnKind
from beam_pipeline.core.labels.table_rows import LabelTable, TableHead, read_chunks
from beam_pipeline.core.labels.tables import LabelSchema, inspect_tables
from beam_pipeline.core.labels.typed_rows import label_rows
from beam_pipeline.core.references import LabelRow
from tests.conformance.tables import choices_of

CLASS, INT64, FLOAT, BYTES = (
    ColumnKind.CLASS,
    ColumnKind.INT64,
    ColumnKind.FLOAT,
    ColumnKind.BYTES,
)
CLASS_SCHEMA = LabelSchema((Column("label", CLASS, "image/class", required=True),), "")

PLAIN = "filename,label\na.jpg,cat\nb.jpg,dog\n"
PLAIN_ROWS = [(2, "a.jpg", ("cat",)), (3, "b.jpg", ("dog",))]


def inspect(
    content: str | bytes, uri: str = "labels.csv", **choices: Any
) -> tuple[LabelSchema, LabelTable]:
    """The columns of a table and how it is read; short names of options will do."""
    data = content.encode() if isinstance(content, str) else content
    schema, (table,) = inspect_tables([TableHead(uri, data, True)], choices_of(choices))
    return schema, table


def read(
    content: str | bytes, uri: str = "labels.csv", **choices: Any
) -> list[LabelRow | DeadLetter]:
    schema, table = inspect(content, uri, **choices)
    data = content.encode() if isinstance(content, str) else content
    return read_rows(data, table, schema)


def read_rows(data: bytes, table: LabelTable, schema: LabelSchema) -> list[LabelRow | DeadLetter]:
    """The rows of a file and its dead letters, in the order of their lines."""
    rows: list[LabelRow | DeadLetter] = []
    for part in label_rows(read_chunks(io.BytesIO(data), table), table, schema):
        rows += [part] if isinstance(part, DeadLetter) else part
    return sorted(rows, key=lambda row: row.line)


def sound_rows(
    content: str | bytes, uri: str = "labels.csv", **choices: Any
) -> list[tuple[Any, ...]]:
    """(line, name, values) of each row, all of which must be sound."""
    rows = read(content, uri, **choices)
    assert all(isinstance(row, LabelRow) and not row.problem for row in rows), rows
    return [(row.line, row.name, row.values) for row in rows if isinstance(row, LabelRow)]


def kinds(content: str | bytes, uri: str = "labels.csv", **choices: Any) -> dict[str, ColumnKind]:
    return {column.name: column.kind for column in inspect(content, uri, **choices)[0].columns}


def bad_row(line: int, message: str, uri: str = "labels.csv") -> DeadLetter:
    return DeadLetter("labels", "", "", "bad_row", message, uri, line)


def json_lines(*rows: object) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)
