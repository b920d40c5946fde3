"""Tables: CSV, TSV, JSON Lines and Parquet files with one row per image or per object.

They are given in --labels and may be in any folder.
"""

from __future__ import annotations

import functools
import os
import posixpath
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, BinaryIO

from beam_pipeline.core import packing, questions, text
from beam_pipeline.core.dataset.splits import group_by
from beam_pipeline.core.dead_letters import DeadLetter
from beam_pipeline.core.errors import ConversionError, LabelTableError, UsageError
from beam_pipeline.core.labels import path_roles, samples, table_rows
from beam_pipeline.core.labels.cells import by_text, text_of, texts_of
from beam_pipeline.core.labels.classes import ClassNumbering
from beam_pipeline.core.labels.schema import (
    CLASS_FOLDER_COLUMNS,
    FOLLOWING,
    NO_LABEL_COLUMN,
    ColumnKind,
)
from beam_pipeline.core.labels.table_files import inspect_file, path_columns
from beam_pipeline.core.labels.tables import LABEL_NAMES, LabelSchema, inspect_tables
from beam_pipeline.core.labels.typed_rows import label_rows
from beam_pipeline.core.listing import cuts
from beam_pipeline.core.listing.filters import ImageRoot
from beam_pipeline.core.listing.folders import FOLDER, SPLIT_NAMES, named_split
from beam_pipeline.core.records.example_source import LabelledImages
from beam_pipeline.layouts import class_folders, named_files, tree
from beam_pipeline.layouts.automl import is_automl, open_as_table
from beam_pipeline.layouts.heads import allow_long_cells, first_line, head, without_class_names
from beam_pipeline.layouts.layout import FileLabels, Labels, Source, SourceOptions
from beam_pipeline.layouts.named_files import LocalCopy
from beam_pipeline.layouts.paths import image_roots, label_files
from beam_pipeline.storage import files

TABLE_OPTIONS = frozenset(
    {
        *("key_column", "label_column", "columns", "list_column", "one_hot", "labels_encoding"),
        *("label_base", "label_order", "class_ids", "sample", "row_id", "no_image"),
    }
)
_FIRST_DETECTION_ID = 1  # 0 is the background's
_METADATA = ("metadata.csv", "metadata.jsonl", "metadata.parquet")
_HASH = re.compile(r"[^\W_]|[0-9a-f]{2,3}")
_EACH = 2  # images in a folder, on average
_SHOWN = 3
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

    tables: tuple[table_rows.LabelTable, ...]
    schema: LabelSchema
    copies: LocalCopy = LocalCopy()  # noqa: RUF009, it is frozen
    class_names: Mapping[str, str] = field(default_factory=dict)
    imageless: samples.RowSamples | None = None

    def read(self, file: BinaryIO, uri: str) -> Iterator[packing.LabelBatch | DeadLetter]:
        """Yields every row of a table."""
        return self.read_part(file, uri, cuts.LineRange())

    def cut_of(self, uri: str) -> cuts.Cut | None:
        """See `PartReader`."""
        return self._table(uri).cut

    def read_part(
        self, file: BinaryIO, uri: str, part: cuts.LineRange | cuts.RowGroupRange
    ) -> Iterator[packing.LabelBatch | DeadLetter]:
        """See `PartReader`."""
        allow_long_cells()
        table = self._table(uri)
        if isinstance(part, cuts.RowGroupRange):
            chunks = table_rows.read_chunks(file, table, groups=part)
        elif part.read_at_once:
            chunks = table_rows.read_lines(
                file.read(), table, first_line=part.first, regular=part.regular
            )
        else:
            chunks = table_rows.read_chunks(file, table, first_line=part.first)
        rename = self.copies.name if self.copies != LocalCopy() else None
        chunks = map(self._with_class_names, chunks) if self.class_names else chunks
        imageless = self.imageless
        rows = label_rows(chunks, table, self.schema, rename, keep_unnamed=bool(imageless))
        if not imageless:
            return rows
        return (r if isinstance(r, DeadLetter) else imageless.with_names(r) for r in rows)

    def _with_class_names(self, rows: table_rows.TableRows) -> table_rows.TableRows:
        column = self.schema.leading.class_name or self.schema.columns[0].name
        cells = by_text(rows.cells(column), lambda cell: self.class_names.get(text_of(cell), cell))
        columns = {**rows.columns, column: cells}
        return table_rows.TableRows(rows.lines, columns, rows.faults, ragged=rows.ragged)

    def _table(self, uri: str) -> table_rows.LabelTable:
        (table,) = (table for table in self.tables if table.uri == uri)
        return table


class Table:
    """Rows name their images and contain their labels."""

    name = "table"
    option_names = TABLE_OPTIONS | {"rows_of"}

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
        for automl in filter(is_automl, heads):
            return open_as_table(options, TABLE_OPTIONS, automl.uri)
        choices = replace(options, may_be_lists=options.sample == samples.SAMPLES[0])
        schema, tables = _inspected(choices, heads)
        if class_names and schema.leading.integer_classes:
            schema = replace(schema, leading=replace(schema.leading, integer_classes=False))
        uris = tuple(table.uri for table in tables)
        roots = image_roots(options.images, frozenset(uris))
        beginnings = [table_rows.head_rows(*pair) for pair in zip(heads, tables, strict=True)]
        keys = zip(beginnings, tables, strict=True)
        names = [name for part, table in keys for name in texts_of(part.cells(table.key_column))]
        of_folders = options.rows_of != samples.ROWS_OF[0]
        copies = LocalCopy() if of_folders else named_files.find_copies(names, roots, uris)
        rows = table_rows.TableRows.together(beginnings)
        folders = functools.cache(lambda: named_files.folders_by_name(roots))
        doubts = [*_other_keys(options, folders, names, rows, schema, roots)]
        doubts += _unused_folders(options, folders, names, rows, schema)
        if schema.class_by_folder and options.split_by == FOLDER:
            doubts.append(class_folders.WHOLE_CLASSES)
        reader = TableReader(tables, schema, copies, class_names)
        source = _source(self.name, options, reader, roots)
        if of_folders:
            source = replace(source, labels=_of_folders(source.labels, names, roots))
            doubts = []
        return replace(source, questions=(*schema.questions, *doubts))


def _of_folders(labels: Labels, names: Sequence[str], roots: Sequence[ImageRoot]) -> FileLabels:
    """Labels whose rows name folders, as the first ones do. Raises UsageError if they name none."""
    level = named_files.folder_level(names, roots)
    if not level:
        raise UsageError(
            f"--rows_of folder: the first rows name {text.enumerated([*map(repr, names)], _SHOWN)}; expected paths of "
            "folders with images, or ends of such paths that no other folder has"
        )
    assert isinstance(labels, FileLabels)
    return replace(labels, level=level)


class ImageFolder:
    """Hugging Face's image folders: a table among the images contains their labels.

    It is in the images' folder or in each split's, such as `train/metadata.jsonl`. Its column `file_name` names
    images relative to it; all other columns are labels. Source:
    https://huggingface.co/docs/datasets/image_dataset
    """

    name = "imagefolder"
    option_names = TABLE_OPTIONS
    reads_labels = False

    def recognise(self, options: SourceOptions) -> str:
        """Recognises a metadata file among the images that has a column with their names."""
        with suppress(ConversionError, OSError):  # reported by the layout that is finally chosen
            return next(filter(None, (_reason(path, options) for path in options.images)), "")
        return ""

    def open(self, options: SourceOptions) -> Source:
        """Reads the beginnings of the metadata files.

        Raises:
          UsageError: the file does not exist, or it is unusable as a whole.
        """
        folder_of = {uri: folder for path in options.images for uri, folder in _metadata_in(path)}
        if not folder_of:
            raise UsageError(
                f"--layout imagefolder: no {', '.join(_METADATA[:-1])} or {_METADATA[-1]} in "
                f"{', '.join(options.images)} or in folders train, validation or test there"
            )
        first: dict[str, str] = {}
        for uri in folder_of:
            folder, name = posixpath.split(uri)
            if first.setdefault(folder, uri) != uri:
                raise LabelTableError(
                    f"{first[folder]} and {name} are in one folder; remove the one that does not count"
                )
        choices = replace(options, label_needed=False)
        schema, tables = _inspected(choices, [head(uri) for uri in folder_of])
        tables = tuple(replace(table, folder=folder_of[table.uri]) for table in tables)
        roots = image_roots(options.images, frozenset(folder_of))
        source = _source(self.name, options, TableReader(tables, schema), roots)
        return replace(source, notes=(*source.notes, *unlabelled_notes(options, schema)))


def _metadata_in(path: str) -> list[tuple[str, str]]:
    """(URI, folder relative to the images') of the metadata files of a folder of images, or of its splits.

    There are none in archives. Raises UsageError if the path does not exist.
    """
    roots = image_roots((path,))
    if any(root.archive for root in roots):
        return []
    root, order = roots[0].uri, list(SPLIT_NAMES)
    below = (posixpath.basename(folder) for folder in tree.subfolders(root))
    splits = [name for name in below if name.lower() in order]
    return [
        (uri, folder)
        for folder in ("", *sorted(splits, key=lambda name: order.index(name.lower())))
        for name in _METADATA
        if tree.has_file(uri := files.join(root, folder, name))
    ]


def _reason(path: str, options: SourceOptions) -> str:
    """The reason why a path is such a folder; empty if it is not."""
    for uri, folder in _metadata_in(path):
        reason = f"{posixpath.join(folder, posixpath.basename(uri))} in {path}"
        beginning, names = first_line(uri), []
        with suppress(LabelTableError):  # reported when the file is opened
            if beginning:
                rows = table_rows.head_rows(beginning, inspect_file(beginning))
                names = [*filter(None, rows.columns)]
        if not names:
            return reason
        columns = [options.key_column] if options.key_column in names else path_columns(names)
        if columns:
            return f"{reason} names images in its column {columns[0]}"
    return ""


# --- what both have in common ---------------------------------------------------------------------


def _inspected(
    options: SourceOptions, heads: Sequence[table_rows.TableHead]
) -> tuple[LabelSchema, tuple[table_rows.LabelTable, ...]]:
    tables = [head.uri for head in heads]
    head_of = named_files.file_heads(lambda: image_roots(options.images), tables)
    return inspect_tables(heads, options, head_of)


def _source(
    layout: str, options: SourceOptions, reader: TableReader, roots: tuple[ImageRoot, ...]
) -> Source:
    """The source of tables, whose rows are samples, or labels of the image that they name.

    Raises:
      UsageError: no column is called as --row_id says.
    """
    schema, uris = reader.schema, tuple(table.uri for table in reader.tables)
    folders = os.path.commonprefix([uri.split("/")[:-1] for uri in uris])  # noqa: RUF071 -- of lists
    names = [column.name for column in schema.columns if column.feature]
    if options.row_id and options.row_id not in names:
        raise UsageError(
            f"--row_id {options.row_id}: {uris[0]} has no such column to write; expected one of {', '.join(names)}"
        )
    by_rows, keeps = options.sample != samples.SAMPLES[0], options.no_image != samples.NO_IMAGE[0]
    group = group_by(options.split_by, schema.columns, Table.name) if by_rows else None
    rows = samples.RowSamples(
        ids=names.index(options.row_id) if options.row_id else None,
        group=group.column if group else None,
        folder=f"{'/'.join(folders).rstrip('/')}/",
    )
    by_folder = schema.class_by_folder
    columns = (*CLASS_FOLDER_COLUMNS, *schema.columns[1:]) if by_folder else schema.columns
    return Source(
        layout=layout,
        roots=roots,
        labels=FileLabels(
            replace(reader, imageless=rows if keeps else None),
            uris,
            merge_rows=schema.several_rows,
            class_by_folder=by_folder,
            samples=rows if by_rows else None,
            imageless=rows if keeps else None,
        ),
        examples=LabelledImages(columns, rows=by_rows, imageless=keeps),
        numbering=table_numbering(options, schema),
        notes=(*schema.notes, *reader.copies.notes),
        questions=schema.questions,
        tables=reader.tables,
        roles=schema.roles,
    )


def unlabelled_notes(options: SourceOptions, schema: LabelSchema) -> Iterator[str]:
    """A note on columns of which none is called like a label, if none was chosen."""
    if not schema.has_label and not options.label_column:
        features = ", ".join(column.feature for column in schema.columns)
        yield (
            f"no column is called {', '.join(LABEL_NAMES)}, so there is no label but the features "
            f"{features}; --label_column NAME makes a column the label"
            if features
            else "there is no column besides the images, so there is no label"
        )


def with_splits_of_files(source: Source) -> Source:
    """The source, with the rows of each table in the split that the table's name states.

    Raises:
      UsageError: a name lacks it, rows have it themselves, or the labels are not tables.
    """
    option, reader, labels = "--splits label_files", _table_reader(source), source.labels
    if reader is None or not isinstance(labels, FileLabels):
        given = f"means nothing for the layout {source.layout}"
        raise UsageError(f"{option} {given}; it is for tables named with --labels")
    if reader.schema.split_column:
        column = f"the column {reader.schema.split_column!r} contains the split of each row"
        raise UsageError(f"{option}: {column}; leave the option out")
    tables = tuple(replace(t, split=_split_of(t.uri, capitals=True)) for t in reader.tables)
    if unclear := [table.uri for table in tables if not table.split]:
        expected = "expected names such as train.csv, labels_val.csv and test.csv"
        problem = f"the name of {unclear[0]} contains no split, or several"
        raise UsageError(f"{option}: {problem}; {expected}")
    labels = replace(labels, reader=replace(reader, tables=tables))
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


# --- questions ------------------------------------------------------------------------------------


def _unused_folders(
    options: SourceOptions,
    folders: Callable[[], Mapping[str, tuple[str, ...]]],
    images: Sequence[str],
    rows: table_rows.TableRows,
    schema: LabelSchema,
) -> Iterator[questions.Question]:
    """Asks about the first level of folders of images that no column agrees with: they may be the classes.

    Args:
      options: those given; --label_column confirms that folders are ignored.
      folders: gives name of an image -> the folders that it is in; they are listed for it.
      images: the names of images in the first rows.
      rows: these rows.
      schema: their columns.
    """
    label = schema.label_name
    if label is None or options.label_column or any("/" in n or "\\" in n for n in images):
        return
    keep = {"label_column": label or NO_LABEL_COLUMN}
    paths = [folders().get(name, ()) for name in images]
    for level in range(max(map(len, paths), default=0)):
        pairs = [(path[level], row) for row, path in enumerate(paths) if len(path) > level]
        names = sorted({name for name, _ in pairs})
        lower = {name.lower() for name in names}
        are_splits = lower <= SPLIT_NAMES.keys()
        if (
            not 1 < len(names) <= len(pairs) / _EACH
            or (are_splits and not level)  # which are used
            or lower <= path_roles.IMAGES | path_roles.MASKS
            or path_roles.differ_in_numbers(names)
            or all(map(_HASH.fullmatch, names))
            or any(_agrees(pairs, column) for column in map(rows.cells, rows.columns))
        ):
            continue
        advice = "If they are the classes, and the table is of no use:"
        answer: dict[str, Any] = {"labels": (), "layout": "class_folders"}
        if len({*map(named_split, names)} - {""}) > 1:
            advice, answer = "If they are splits, write them in a column called split.", {}
        yield questions.Question(
            "unused_folders",
            f"The images are in the folders {text.enumerated([*map(repr, names)], _SHOWN)}, which no column "
            "agrees with, and which would be ignored.",
            f"{advice}{'' if answer else ' To ignore them:'}",
            answer or keep,
            (("To ignore them:", keep),) if answer else (),
        )
        return


def _other_keys(
    options: SourceOptions,
    folders: Callable[[], Collection[str]],
    names: Sequence[str],
    rows: table_rows.TableRows,
    schema: LabelSchema,
    roots: Sequence[ImageRoot],
) -> Iterator[questions.Question]:
    """Asks about columns whose values are names of the images, or lists of them, if those of the key are not."""
    if options.key_column or not any(names) or any(map(table_rows.is_image_name, names)):
        return
    if named_files.are_names(names, folders(), any):
        return
    reason = f"Rows would name their images as {names[0]!r}, and no image is called so."
    lists = [c.name for c in schema.columns if c.kind in FOLLOWING and c.repeated]
    texts = {name: [*map(text_of, rows.cells(name))] for name in rows.columns}
    keys = [name for name, cells in texts.items() if named_files.are_names(cells, folders(), all)]
    paths = [name for name in keys if any(map(table_rows.is_image_name, texts[name]))]
    answers = [(f"If {c!r} names it:", {"key_column": c}) for c in paths or keys]
    levels = {name: named_files.folder_level(cells, roots) or 0 for name, cells in texts.items()}
    deepest = max(levels, key=levels.__getitem__)
    if levels[deepest] and not lists:
        advice = f"If {deepest!r} names a folder, and a row is of each image in it:"
        answers.append((advice, {"key_column": deepest, "rows_of": samples.ROWS_OF[1]}))
    if lists:
        answer = {"key_column": NO_LABEL_COLUMN, "no_image": samples.NO_IMAGE[1]}
        answer |= {} if schema.label_name in LABEL_NAMES else {"label_column": NO_LABEL_COLUMN}
        answers.append((f"If those in {lists[0]!r} are all that a row has:", answer))
    if answers:
        (advice, answer), *further = answers
        yield questions.Question("other_key", reason, advice, answer, tuple(further))


def _agrees(pairs: Sequence[tuple[str, int]], cells: Sequence[Any]) -> bool:
    """True if the values of a column are the names of folders, or repeat and imply the folder of a row."""
    folders: dict[str, set[str]] = defaultdict(set)
    for folder, row in pairs:
        folders[text_of(cells[row])].add(folder)
    if {folder.lower() for folder, _ in pairs} <= {value.lower() for value in folders}:
        return True
    return 2 * len(folders) <= len(pairs) and all(len(names) == 1 for names in folders.values())
