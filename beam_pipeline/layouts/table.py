"""Tables: CSV, TSV, JSON Lines and Parquet files with one row per image or per object.

They are given in --labels and may be in any folder.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import BinaryIO

from beam_pipeline.core.dataset.splits import group_by
from beam_pipeline.core.dead_letters import DeadLetter
from beam_pipeline.core.errors import LabelTableError, UsageError
from beam_pipeline.core.labels.cells import by_text, text_of
from beam_pipeline.core.labels.classes import ClassNumbering
from beam_pipeline.core.labels.samples import NO_IMAGE, SAMPLES, RowSamples
from beam_pipeline.core.labels.schema import (
    CLASS_FOLDER_COLUMNS,
    Column,
    ColumnChoices,
    ColumnKind,
)
from beam_pipeline.core.labels.table_rows import (
    LabelTable,
    TableRows,
    head_rows,
    read_chunks,
    read_lines,
)
from beam_pipeline.core.labels.tables import LabelSchema, inspect_tables
from beam_pipeline.core.labels.typed_rows import label_rows
from beam_pipeline.core.listing.cuts import Cut, LineRange, RowGroupRange
from beam_pipeline.core.listing.folders import FOLDER, named_split
from beam_pipeline.core.packing import LabelBatch
from beam_pipeline.core.records.example_source import LabelledImages
from beam_pipeline.layouts.automl import REASON, Automl, is_automl
from beam_pipeline.layouts.cell_files import file_heads
from beam_pipeline.layouts.class_folders import WHOLE_CLASSES
from beam_pipeline.layouts.class_names import without_class_names
from beam_pipeline.layouts.heads import allow_long_cells, head
from beam_pipeline.layouts.layout import FileLabels, Source, SourceOptions
from beam_pipeline.layouts.local_copy import LocalCopy, find_copies
from beam_pipeline.layouts.paths import image_roots, label_files
from beam_pipeline.layouts.unused_folders import other_keys, unused_folders

TABLE_OPTIONS = frozenset(
    {
        *("key_column", "label_column", "columns", "list_column", "one_hot", "labels_encoding"),
        *("label_base", "label_order", "class_ids", "sample", "row_id", "no_image"),
    }
)
_FIRST_DETECTION_ID = 1  # 0 is the background's
_WORD_BEGINS = re.compile(r"(?<=[a-z])(?=[A-Z])")


@dataclass(frozen=True)
class TableReader:
    """Reads tables.

    Attributes:
      tables: how each file is read.
      schema: their columns.
      copies: maps the rows' names to images on this machine.
      class_names: id of a class, as rows contain it -> its name; others are names.
      imageless: makes samples of rows that name no image; None to make them dead letters.
    """

    tables: tuple[LabelTable, ...]
    schema: LabelSchema
    copies: LocalCopy
    class_names: Mapping[str, str] = field(default_factory=dict)
    imageless: RowSamples | None = None

    def read(self, file: BinaryIO, uri: str) -> Iterator[LabelBatch | DeadLetter]:
        """Yields every row of a table."""
        return self.read_part(file, uri, LineRange())

    def cut_of(self, uri: str) -> Cut | None:
        """See `PartReader`."""
        return self._table(uri).cut

    def read_part(
        self, file: BinaryIO, uri: str, part: LineRange | RowGroupRange
    ) -> Iterator[LabelBatch | DeadLetter]:
        """See `PartReader`."""
        allow_long_cells()
        table = self._table(uri)
        if isinstance(part, RowGroupRange):
            chunks = read_chunks(file, table, groups=part)
        elif part.read_at_once:
            chunks = read_lines(file.read(), table, first_line=part.first, regular=part.regular)
        else:
            chunks = read_chunks(file, table, first_line=part.first)
        rename = self.copies.name if self.copies != LocalCopy() else None
        chunks = map(self._with_class_names, chunks) if self.class_names else chunks
        imageless = self.imageless
        if not imageless:
            return label_rows(chunks, table, self.schema, rename)
        rows = label_rows(chunks, table, self.schema, rename, keep_unnamed=True)
        return (r if isinstance(r, DeadLetter) else imageless.with_names(r) for r in rows)

    def _with_class_names(self, rows: TableRows) -> TableRows:
        column = self.schema.leading.class_name or self.schema.columns[0].name
        cells = by_text(rows.cells(column), lambda cell: self.class_names.get(text_of(cell), cell))
        columns = {**rows.columns, column: cells}
        return TableRows(rows.lines, columns, rows.faults, ragged=rows.ragged)

    def _table(self, uri: str) -> LabelTable:
        (table,) = (table for table in self.tables if table.uri == uri)
        return table


class Table:
    """Rows name their images and contain their labels."""

    name = "table"
    option_names = TABLE_OPTIONS

    def recognise(self, options: SourceOptions) -> str:
        """Recognises any label files; the layout is tried after all other layouts of label files."""
        return "label files are given" if options.labels else ""

    def open(self, options: SourceOptions) -> Source:
        """Reads the beginnings of all tables.

        Raises:
          UsageError: a path does not exist, or a table is unusable as a whole.
        """
        if not options.labels:
            raise UsageError("--layout table needs --labels")
        heads, class_names = without_class_names([head(uri) for uri in label_files(options.labels)])
        automl = [beginning.uri for beginning in heads if is_automl(beginning)]
        if automl:
            return _open_automl(options, f"{automl[0]} has no header: {REASON}")
        choices = replace(column_choices(options), may_be_lists=options.sample == SAMPLES[0])
        head_of = file_heads(lambda: image_roots(options.images), [head.uri for head in heads])
        schema, tables = inspect_tables(heads, choices, head_of)
        if class_names and schema.leading.integer_classes:
            schema = replace(schema, leading=replace(schema.leading, integer_classes=False))
        uris = tuple(table.uri for table in tables)
        roots = image_roots(options.images, frozenset(uris))
        beginnings = [head_rows(*pair) for pair in zip(heads, tables, strict=True)]
        keys = zip(beginnings, tables, strict=True)
        names = [text_of(cell) for part, table in keys for cell in part.cells(table.key_column)]
        copies = find_copies(names, roots, uris)
        by_folder = schema.class_by_folder
        rows = TableRows.together(beginnings)
        doubts = [*other_keys(options, roots, names, rows)]
        doubts += unused_folders(options, roots, names, rows, schema)
        columns = (*CLASS_FOLDER_COLUMNS, *schema.columns[1:]) if by_folder else schema.columns
        whole_classes = by_folder and options.split_by == FOLDER
        return Source(
            layout=self.name,
            roots=roots,
            labels=replace(
                table_labels(options, tables, schema, copies, class_names),
                class_by_folder=by_folder,
            ),
            examples=table_examples(options, columns),
            numbering=table_numbering(options, schema),
            notes=(*schema.notes, *copies.notes),
            questions=(*schema.questions, *doubts, *([WHOLE_CLASSES] if whole_classes else [])),
            tables=tables,
            roles=schema.roles,
        )


def with_splits_of_files(source: Source) -> Source:
    """The source, with the rows of each table in the split that the table's name states.

    Raises:
      UsageError: a name lacks it, rows have it themselves, or the labels are not tables.
    """
    reader = _table_reader(source)
    if reader is None:
        raise UsageError(
            f"--splits label_files means nothing for the layout {source.layout}; it is for tables named "
            "with --labels"
        )
    if reader.schema.split_column:
        raise UsageError(
            f"--splits label_files: the column {reader.schema.split_column!r} contains the split of each "
            "row; leave the option out"
        )
    tables = tuple(
        replace(table, split=_split_of(table.uri, capitals=True)) for table in reader.tables
    )
    unclear = next((table.uri for table in tables if not table.split), "")
    if unclear:
        raise UsageError(
            f"--splits label_files: the name of {unclear} contains no split, or several; expected names such "
            "as train.csv, labels_val.csv and test.csv"
        )
    assert isinstance(source.labels, FileLabels)
    labels = replace(source.labels, reader=replace(reader, tables=tables))
    return replace(source, labels=labels, tables=tables)


def split_files(source: Source) -> Mapping[str, str]:
    """Table -> the split in its name, of those with one, if rows do not tell their split themselves."""
    reader = _table_reader(source)
    if reader is None or reader.schema.split_column:
        return {}
    capitals = reader.schema.class_by_folder
    splits = {table.uri: _split_of(table.uri, capitals=capitals) for table in reader.tables}
    return {uri: split for uri, split in splits.items() if split}


def split_columns(source: Source) -> Mapping[str, str]:
    """Column -> its type, of those that seem to tell splits, but are features; see `LabelSchema`."""
    reader = _table_reader(source)
    names = reader.schema.split_like if reader else ()
    return {
        column.name: "str" if column.kind is ColumnKind.BYTES else column.kind.value
        for column in source.columns
        if column.name in names
    }


def _table_reader(source: Source) -> TableReader | None:
    reader = source.labels.reader if isinstance(source.labels, FileLabels) else None
    return reader if isinstance(reader, TableReader) else None


def _split_of(uri: str, *, capitals: bool) -> str:
    """The split in a table's name; with `capitals`, a capital begins a word, as in TrainImages.txt."""
    stem = posixpath.splitext(posixpath.basename(uri))[0]
    if "partition" in stem.lower():  # of all splits
        return ""
    return named_split(_WORD_BEGINS.sub("_", stem) if capitals else stem)


def table_labels(
    options: SourceOptions,
    tables: tuple[LabelTable, ...],
    schema: LabelSchema,
    copies: LocalCopy,
    class_names: Mapping[str, str] = MappingProxyType({}),
) -> FileLabels:
    """Returns the labels of tables, whose rows are samples, or labels of the image that they name.

    Raises:
      UsageError: no column is called as --row_id says.
    """
    uris = tuple(table.uri for table in tables)
    folder = posixpath.dirname(uris[0])
    while len(folder) > 1 and not all(uri.startswith(f"{folder}/") for uri in uris):
        folder = posixpath.dirname(folder)
    names = [column.name for column in schema.columns if column.feature]
    if options.row_id and options.row_id not in names:
        raise UsageError(
            f"--row_id {options.row_id}: {uris[0]} has no such column to write; expected one of {', '.join(names)}"
        )
    by_rows = options.sample != SAMPLES[0]
    group = group_by(options.split_by, schema.columns, Table.name) if by_rows else None
    rows = RowSamples(
        ids=names.index(options.row_id) if options.row_id else None,
        group=group.column if group else None,
        folder=f"{folder.rstrip('/')}/",
    )
    imageless = rows if options.no_image != NO_IMAGE[0] else None
    return FileLabels(
        TableReader(tables, schema, copies, class_names, imageless),
        uris,
        merge_rows=schema.several_rows,
        samples=rows if by_rows else None,
        imageless=imageless,
    )


def table_examples(options: SourceOptions, columns: tuple[Column, ...]) -> LabelledImages:
    """Returns the examples of tables with these label columns."""
    rows, imageless = options.sample != SAMPLES[0], options.no_image != NO_IMAGE[0]
    return LabelledImages(columns, rows=rows, imageless=imageless)


def column_choices(options: SourceOptions) -> ColumnChoices:
    """Returns the options given for columns."""
    return ColumnChoices(
        options.key_column,
        options.label_column,
        options.columns,
        separators=options.list_column,
        group=options.split_by,
        label_required=options.unlabelled != "keep",
        one_hot=options.one_hot,
        encoding=options.labels_encoding,
        rows=options.sample != SAMPLES[0],
        row_id=options.row_id,
    )


def table_numbering(options: SourceOptions, schema: LabelSchema) -> ClassNumbering:
    """Returns the numbering of classes in tables; integer classes of objects are their own ids."""
    integers = schema.leading.integer_classes
    if integers is None:
        return options.numbering()
    if not integers:
        return options.numbering(_FIRST_DETECTION_ID)
    if options.label_base is None:
        return replace(options.numbering(), from_name=True)
    return replace(options.numbering(), order="numeric")


def _open_automl(options: SourceOptions, note: str) -> Source:
    """The source of rows as AutoML has them, which a user calls a table. Raises LabelTableError."""
    for name in sorted(TABLE_OPTIONS - Automl.option_names):
        if getattr(options, name) != getattr(SourceOptions(()), name):
            raise LabelTableError(f"--{name} means nothing: {note}")
    source = Automl().open(options)
    return replace(source, notes=(note, *source.notes))
