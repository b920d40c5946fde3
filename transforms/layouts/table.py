"""Tables: CSV, TSV and JSON Lines files with a row an image, in any folder, named by the person."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from transforms import files
from transforms.core.dead_letters import DeadLetter
from transforms.core.errors import LabelTableError, UsageError
from transforms.core.label_tables import (
    ColumnChoices,
    LabelSchema,
    LabelTable,
    TableHead,
    inspect_tables,
    read_rows,
)
from transforms.core.references import LabelRow
from transforms.layouts.layout import FileLabels, Given, Source
from transforms.layouts.paths import image_roots, label_files

_HEAD_BYTES = 4 << 20  # 4 MiB of each label file settle its columns' types


@dataclass(frozen=True)
class TableReader:
    """Attributes: tables, how each file is read; schema, their columns."""

    tables: tuple[LabelTable, ...]
    schema: LabelSchema

    def read(self, file: BinaryIO, uri: str) -> Iterator[LabelRow | DeadLetter]:
        """Yields every row of a table."""
        (table,) = (table for table in self.tables if table.uri == uri)
        return read_rows(file, table, self.schema)


class Table:
    """A row names its image and says its labels."""

    name = "table"
    options = frozenset(
        {"key_column", "label_column", "columns", "list_columns", "label_base", "label_order"}
    )

    def recognise(self, given: Given) -> str:
        """Whatever files of labels are given that no other layout knows."""
        return "label files are given" if given.labels else ""

    def open(self, given: Given) -> Source:
        """Looks at the beginnings of all tables.

        Raises:
          UsageError: a path does not exist, or a table is unusable as a whole.
        """
        if not given.labels:
            raise UsageError("--layout table needs --labels")
        uris = label_files(given.labels)
        choices = ColumnChoices(given.key_column, given.label_column, given.columns)
        schema, tables = inspect_tables([head(uri) for uri in uris], choices)
        return Source(
            self.name,
            image_roots(given.images, frozenset(uris)),
            FileLabels(TableReader(tables, schema), tuple(uris)),
            schema.columns,
            given.numbering(),
        )


def head(uri: str) -> TableHead:
    """The beginning of a label file.

    Raises:
      LabelTableError: it cannot be read.
    """
    try:
        with files.open_input(uri) as file:
            data = file.read(_HEAD_BYTES + 1)
    except OSError as error:
        raise LabelTableError(
            f"--labels {uri} cannot be read: {error.strerror or error}"
        ) from error
    return TableHead(uri, data[:_HEAD_BYTES], len(data) <= _HEAD_BYTES)
