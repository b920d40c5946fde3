"""Parquet files that contain the images themselves, such as Hugging Face's data sets.

A column contains an image per row, and the other columns its labels. Source:
https://huggingface.co/docs/hub/datasets-image
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from beam_pipeline.core import questions, text
from beam_pipeline.core.errors import UsageError
from beam_pipeline.core.labels import box_columns, table_rows
from beam_pipeline.core.labels.classes import ClassNumbering
from beam_pipeline.core.labels.parquet_columns import ParquetColumns, parquet_columns
from beam_pipeline.core.labels.schema import (
    NO_LABEL_COLUMN,
    OBJECTS_COLUMN,
    SKIP_KIND,
    Column,
    ColumnKind,
)
from beam_pipeline.core.labels.tables import LABEL_NAMES, LabelSchema
from beam_pipeline.core.records.example_source import LabelledImages
from beam_pipeline.core.uris import is_remote
from beam_pipeline.layouts import caption_files, parquet_rows, paths
from beam_pipeline.layouts.layout import ContainerLabels, Source, SourceOptions
from beam_pipeline.layouts.table import table_numbering, unlabelled_notes
from beam_pipeline.storage import files

_IMAGE_NAMES = ("image", "img")
_LOOKED_AT, _LOOKED_AT_REMOTE = 2_000, 200  # rows of the first file and of the last
_SHOWN = 5
_INTEGERS = frozenset(["int", "int64"])  # of --columns: ids stay ids


class Parquet:
    """Rows contain an image and its labels."""

    name = "parquet"
    option_names = caption_files.SIDECAR_OPTIONS
    reads_labels = False

    def recognise(self, options: SourceOptions) -> str:
        """Recognises Parquet files, without images beside them; the first contains images."""
        if not options.images or not all(p.strip() for p in options.images):
            return ""
        firsts = [parquet_rows.first_parquet(path) for path in options.images]
        first = firsts[0]
        if first is None or not all(firsts):
            return ""
        try:
            columns, _ = _beginning(first.uri, frozenset(), most=0)
        except UsageError:  # reported when the file is opened
            return f"{first.name} is called like a Parquet file"
        if not columns.hold_images:
            return ""
        column, *_ = (*columns.images, *columns.image_lists)
        return f"{first.name} contains images in its column {column}"

    def open(self, options: SourceOptions) -> Source:
        """Looks at the schemas and the first rows of the first file and of the last.

        Raises:
          UsageError: a path names no Parquet file, or no column of images or of labels can be told.
        """
        parquet = parquet_rows.parquet_files(options.images)
        uris = tuple(file.uri for file in parquet)
        skipped = frozenset(name for name, kind in options.columns.items() if kind == SKIP_KIND)
        most = _LOOKED_AT_REMOTE if is_remote(uris[0]) else _LOOKED_AT
        splits = {file.name: file.split for file in parquet}
        columns, rows = _beginning(uris[0], skipped, most)
        if uris[1:]:
            rows += _beginning(uris[-1], skipped, most)[1]
        image = _image_column(uris[0], columns, skipped)
        labels = tuple(name for name in columns.labels if name not in skipped)
        classes = {
            name: names
            for name, names in columns.classes.items()
            if name.partition(".")[0] in labels and options.columns.get(name) not in _INTEGERS
        }
        if not rows:
            raise UsageError(f"{uris[0]}: the file is without rows; expected one for each image")
        for number, fields in enumerate(rows):
            parquet_rows.name_classes(fields, classes, "")
            fields[parquet_rows.ROW] = f"{uris[0]}/{number}"
        schema, table, left_out = _inspect(uris[0], rows, columns, labels, classes, options)
        has_path = image in columns.structs
        path = Column(f"{image}.path", ColumnKind.BYTES, "image/filename", required=True)
        reader = parquet_rows.ParquetReader(
            parquet, image, labels, classes, table, schema, has_path
        )
        return Source(
            layout=self.name,
            roots=(),
            labels=ContainerLabels(reader, uris),
            examples=LabelledImages((*schema.columns, path) if has_path else schema.columns),
            numbering=_numbering(options, schema, classes),
            notes=(
                *paths.split_notes(splits, "files"),
                *schema.notes,
                *_notes(schema, left_out, options),
            ),
            roles=tuple(row for row in schema.roles if row.subject != f"column {parquet_rows.ROW}"),
            questions=(
                *schema.questions,
                *paths.split_questions(splits, "files"),
                *_further_images(columns, image, skipped),
            ),
        )


def _beginning(
    uri: str, skipped: frozenset[str], most: int
) -> tuple[ParquetColumns, list[dict[str, Any]]]:
    """The columns of a file, and the labels of its first rows, without columns to skip.

    Raises:
      UsageError: it cannot be read, or is not a Parquet file.
    """
    try:
        with files.open_input(uri) as file:
            columns = parquet_columns(file, uri)
            labels = tuple(name for name in columns.labels if name not in skipped)
            return columns, parquet_rows.first_fields(
                file, uri, columns, labels, most
            ) if most else []
    except OSError as error:
        raise UsageError(f"--images {uri} cannot be read: {error.strerror or error}") from error


def _image_column(uri: str, columns: ParquetColumns, skipped: frozenset[str]) -> str:
    """The column of images. Raises UsageError if it cannot be told."""
    images = [name for name in columns.images if name not in skipped]
    usual = [name for name in images if name.lower() in _IMAGE_NAMES]
    if usual or len(images) == 1:
        return min(
            usual or images, key=lambda name: _IMAGE_NAMES.index(name.lower()) if usual else 0
        )
    problem = f"{uri} does not contain images; its columns are "
    problem += ", ".join((*columns.labels, *columns.unused)) or "none"
    problem += (
        ". If it is a table of labels, name it with --labels, and the images' folder with --images"
    )
    if images:
        problem = (
            f"{uri}: which of the columns {', '.join(images)} contains the images? Leave out the "
            f"others, as in --columns {','.join(f'{name}:skip' for name in images[1:])}"
        )
    elif columns.image_lists:
        problem = (
            f"{uri}: the column {columns.image_lists[0]!r} contains a list of images in each row; "
            "expected one image a row. Write a file with a row for each image"
        )
    raise UsageError(problem)


def _inspect(
    uri: str,
    rows: Sequence[dict[str, Any]],
    columns: ParquetColumns,
    labels: Sequence[str],
    classes: Mapping[str, tuple[str, ...]],
    options: SourceOptions,
) -> tuple[LabelSchema, table_rows.LabelTable, Sequence[str]]:
    """Infers the columns. Raises UsageError.

    Returns: the schema, the table, and columns that are left out because no feature can contain them.
    """
    unread = {*columns.images, *columns.image_lists, *columns.labels, *columns.unused} - {*labels}
    sides = box_columns.find_boxes(labels)[1]
    typed = {**dict.fromkeys(columns.floats, "float"), **dict.fromkeys(columns.texts, "str")}
    kinds = {
        **{name: kind for name, kind in typed.items() if name in labels and name not in sides},
        **{name: "str" for name in classes if name in labels},
        **{name: kind for name, kind in options.columns.items() if name not in unread},
    }
    choices = replace(
        options,
        key_column=parquet_rows.ROW,
        label_column=_label_column(labels, classes, options),
        columns=kinds,
        label_needed=False,
    )
    schema, table, nested = caption_files.inspect_rows(uri, rows, choices)
    return schema, table, [*nested, *columns.unused]


def _label_column(
    labels: Sequence[str], classes: Mapping[str, tuple[str, ...]], options: SourceOptions
) -> str:
    """The column of the label, if its name need not be guessed from the names of all columns."""
    if options.label_column or OBJECTS_COLUMN in labels:
        return options.label_column
    named = [name for name in labels if name in classes]
    usual = any(name.lower() in LABEL_NAMES for name in labels)
    if len(named) > 1 and not usual:
        raise UsageError(
            f"--images: which of the columns {', '.join(named)} is the label? Give --label_column NAME, "
            "or --label_column none to keep all of them as features label/<column>"
        )
    return "" if usual else next(iter(named), "" if labels else NO_LABEL_COLUMN)


def _numbering(
    options: SourceOptions, schema: LabelSchema, classes: Mapping[str, tuple[str, ...]]
) -> ClassNumbering:
    """The ids that the file gives its classes; without names of classes, a table's."""
    column = schema.columns[0].name if schema.has_label else ""
    if schema.objects:
        column = f"{OBJECTS_COLUMN}.{schema.objects.categories}"
    names = classes.get(column, ())
    numbering = table_numbering(options, schema)
    if not names or numbering.from_name:
        return numbering
    base = options.label_base or 0
    return replace(numbering, base=base, known=tuple((n, i) for i, n in enumerate(names, base)))


def _notes(schema: LabelSchema, left_out: Sequence[str], options: SourceOptions) -> Iterator[str]:
    if left_out:
        yield (
            "left out, since they are objects, lists of lists or bytes: "
            f"{text.enumerated(left_out, _SHOWN)}"
        )
    if schema.columns or options.label_column:
        yield from unlabelled_notes(options, schema)
    else:
        yield "there is no column besides the images, so there is no label"


def _further_images(
    columns: ParquetColumns, image: str, skipped: frozenset[str]
) -> Iterator[questions.Question]:
    """A question if there are images that would be left out."""
    further = [
        name
        for name in (*columns.images, *columns.image_lists)
        if name != image and name not in skipped
    ]
    if further:
        yield questions.Question(
            "further_images",
            f"The images are taken from the column {image!r}, and those in "
            f"{text.counted(len(further), 'further column')}, {', '.join(further)}, would be left out.",
            f"--columns {image}:skip,... takes another; masks are read from files, with --masks. If that is "
            "meant:",
            {"columns": dict.fromkeys(further, "skip")},
        )
