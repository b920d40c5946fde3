"""The beginnings of label files; their format is inferred from these before the job starts."""

from __future__ import annotations

import csv
import io
import posixpath
import re
from collections.abc import Mapping, Sequence

from beam_pipeline.core.errors import LabelTableError
from beam_pipeline.core.labels import table_rows
from beam_pipeline.core.labels.parquet_columns import parquet_columns
from beam_pipeline.core.labels.table_files import encoding_of
from beam_pipeline.layouts.label_files import common_categories
from beam_pipeline.storage import files

_HEAD_BYTES = 4 << 20  # 4 MiB of each label file, to infer column types
_HEAD_ROWS = 20_000  # or this many rows of a Parquet file, and the rest of their batch
_FIRST_LINE_BYTES = 64 << 10
PARQUET_ENDING = ".parquet"
_MAX_CELL_CHARACTERS = 16 << 20  # csv's limit is 128 Ki; a mask or an embedding may be longer
_NAMES_CLASSES = re.compile(r".*class[-_]?descriptions?.*\.csv", re.IGNORECASE)
_DESCRIPTION = ("LabelName", "DisplayName")


def head(uri: str) -> table_rows.TableHead:
    """Reads the beginning of a label file, enough to infer its columns' types.

    Raises:
      LabelTableError: it cannot be read, or contains no rows that can be used.
    """
    with files.naming(f"--labels {uri}", LabelTableError):
        return _read(uri, _HEAD_BYTES)


def first_line(uri: str) -> table_rows.TableHead | None:
    """Reads a label file up to the longest possible first line; None if it cannot be read."""
    try:
        return _read(uri, _FIRST_LINE_BYTES)
    except (OSError, LabelTableError):
        return None


def allow_long_cells() -> None:
    """Raises the csv module's limit of cells for this process; every reader of tables calls it."""
    csv.field_size_limit(_MAX_CELL_CHARACTERS)


def _read(uri: str, size: int) -> table_rows.TableHead:
    """Reads the beginning of a file; raises LabelTableError if a Parquet file is without rows of labels."""
    allow_long_cells()
    with files.open_input(uri) as file:
        if not uri.lower().endswith(PARQUET_ENDING):
            data = file.read(size + 1)
            return table_rows.TableHead(uri, data[:size], len(data) <= size)
        columns = parquet_columns(file, uri)
        if columns.hold_images:
            column = (*columns.images, *columns.image_lists)[0]
            raise LabelTableError(
                f"{uri} contains the images themselves, in its column {column!r}, not only labels; "
                f"convert it with --images {uri}, without --labels"
            )
        if columns.unused:
            raise LabelTableError(
                f"{uri}: the column {columns.unused[0]!r} contains bytes; write the table without it, or with texts"
            )
        file.seek(0)
        table = table_rows.LabelTable(uri, table_rows.Format.PARQUET)
        chunks: list[table_rows.TableRows] = []
        for chunk in table_rows.read_chunks(file, table):
            chunks.append(chunk)
            if sum(map(len, chunks)) >= _HEAD_ROWS:
                break
        rows = table_rows.TableRows.together(chunks)
    if not len(rows):
        raise LabelTableError(
            f"{uri}: the file is without rows; expected a row for each image or object"
        )
    return table_rows.TableHead(uri, b"", len(rows) == columns.rows, rows)


def without_class_names(
    heads: Sequence[table_rows.TableHead],
) -> tuple[Sequence[table_rows.TableHead], Mapping[str, str]]:
    """Returns the tables among the label files, and id -> name of the classes that others describe.

        /m/0cmf2,Airplane
        /m/02xwb,Apple

    is `class-descriptions-boxable.csv` of Open Images; its other such files have a header. Source:
    https://storage.googleapis.com/openimages/web/download_v7.html

    Raises:
      LabelTableError: a description is not a list of ids and names, or descriptions disagree.
    """
    described = [h for h in heads if _NAMES_CLASSES.fullmatch(posixpath.basename(h.uri))]
    if not described or len(described) == len(heads):
        return heads, {}
    names: dict[str, dict[str, str]] = {}
    for head in described:
        file = io.BytesIO(head.data)
        for line, cells, problem in table_rows.csv_records(file, encoding_of(head.data), ","):
            if len(cells) != 2 or problem or not all(map(str.strip, cells)) or not head.whole:
                expected = "the id and the name of a class"
                raise LabelTableError(f"{head.uri}, line {line}: expected {expected} {problem}")
            if tuple(cells) != _DESCRIPTION:
                names.setdefault(head.uri, {})[cells[0].strip()] = cells[1].strip()
    return [h for h in heads if h not in described], common_categories(names)
