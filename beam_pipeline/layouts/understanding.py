"""A summary of how images and labels were understood, in lines for the user:

Layout table: label files are given
  labels.csv: CSV in UTF-8, separator ','; its column filename names the images
  label: classes, from the column breed; also weight (numbers), note (texts)
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator

from beam_pipeline.core.labels.schema import Column, ColumnKind
from beam_pipeline.core.labels.table_files import Format, LabelTable
from beam_pipeline.core.text import enumerated
from beam_pipeline.layouts.layout import (
    ContainerLabels,
    FolderLabels,
    ListedLabels,
    Source,
)

_SHOWN = 8
_KINDS = {
    ColumnKind.CLASS: "classes",
    ColumnKind.INT64: "integers",
    ColumnKind.FLOAT: "numbers",
    ColumnKind.BYTES: "texts",
    ColumnKind.BOX: "boxes",
    ColumnKind.POINT: "points",
    ColumnKind.SEGMENTATION: "masks",
    ColumnKind.SEGMENTATION_16: "masks of 16 bits",
    ColumnKind.PANOPTIC: "masks of segments",
}
_SEPARATORS = {"\t": "tab"}
_ENCODINGS = {"utf-8-sig": "UTF-8", "utf-16": "UTF-16", "cp1252": "Windows-1252"}


def understanding(source: Source, why: str) -> Iterator[str]:
    """Lines on the layout, the tables and the label.

    Args:
      source: the images and labels.
      why: the reason for the layout; empty if the user named it.
    """
    yield f"Layout {source.layout}: {why or 'as --layout says'}"
    yield from _table_lines(source)
    yield f"  label: {_label(source)}"


def _table_lines(source: Source) -> Iterator[str]:
    """Returns one line for all tables that are read in the same way."""
    alike: dict[str, list[str]] = {}
    for table in source.tables:
        alike.setdefault(_how(table), []).append(posixpath.basename(table.uri))
    for how, names in alike.items():
        yield f"  {enumerated(names, 3)}: {how}"


def _how(table: LabelTable) -> str:
    encoding = _ENCODINGS.get(table.encoding, table.encoding)
    if table.format is Format.NAMES:
        return f"list in {encoding}; each line names an image"
    separator = _SEPARATORS.get(table.delimiter, repr(table.delimiter or " "))
    kind = {
        Format.PARQUET: "Parquet",
        Format.JSON_LINES: f"JSON Lines in {encoding}",
        Format.JSON_ARRAY: f"array of JSON in {encoding}",
        Format.NUMBERED: f"numbered captions in {encoding}",
    }.get(table.format, f"table in {encoding}, separator {separator}")
    return f"{kind}; the column {table.key_column!r} names the images"


def _label(source: Source) -> str:
    columns = source.columns
    boxes = [column for column in columns if column.kind is ColumnKind.BOX]
    label = next(iter(columns), None)
    if boxes and label is boxes[0]:
        further = [column for column in columns if not column.feature.startswith("image/object/")]
        return f"boxes of objects with their classes{_also(further)}"
    if label is None or label.feature == "image/filename" or not label.feature.startswith("image/"):
        return f"none{_also(columns)}"
    kind = _KINDS[label.kind]
    if label.repeated:
        kind = f"lists of {kind}"
    return f"{kind}, {_origin(source, label)}{_also(columns[1:])}"


def _origin(source: Source, label: Column) -> str:
    if isinstance(source.labels, FolderLabels):
        return "from each image's name" if source.labels.names else "each image's folder"
    if source.class_by_folder:
        return "each image's folder"
    if isinstance(source.labels, ContainerLabels):
        return "in the same files as the images"
    if isinstance(source.labels, ListedLabels):
        return f"from {enumerated([root.uri for root in source.labels.folders], 3)}"
    if not source.tables:
        return "from label files"
    return f"from the column {label.name!r}"


def _also(columns: tuple[Column, ...] | list[Column]) -> str:
    """The columns that become features; that of --split_by alone does not."""
    named = [f"{column.name} ({_KINDS[column.kind]})" for column in columns if column.feature]
    return f"; also {enumerated(named, _SHOWN)}" if named else ""
