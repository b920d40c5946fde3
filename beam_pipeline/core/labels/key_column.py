"""The column of a table that names the image, told by its name, or by its cells if it has none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from beam_pipeline.core.errors import LabelTableError
from beam_pipeline.core.labels.cells import MOST, infer_kind, text_of
from beam_pipeline.core.labels.schema import NO_LABEL_COLUMN, ColumnChoices, ColumnKind
from beam_pipeline.core.labels.table_files import LabelTable, TableHead, inspect_file, is_image_name
from beam_pipeline.core.labels.table_rows import TableRows, head_rows, with_decimal_commas

_PATH_NAMES = (
    *("filename", "file_name", "image", "image_uri", "path"),
    *("image_path", "image_name", "image_file", "file", "filepath", "file_path", "img"),
)
_PATH_ENDING = "_file_name"  # as image_file_name, in folders as Hugging Face has them
_ID_NAMES = ("id", "image_id", "uri", "url")
KEY_NAMES = (*_PATH_NAMES, *_ID_NAMES)
"""Names of the key column, the likelier ones first; compared in lower case."""

INDEX_COLUMN = "Unnamed: 0"
"""A first column without a name that names the images; as pandas calls it."""


def path_columns(names: Sequence[str]) -> Sequence[str]:
    """The column that is called as one with paths of images is; several where it may be any of them."""
    by_lower = {name.lower(): name for name in reversed(names)}
    usual = [by_lower[name] for name in _PATH_NAMES if name in by_lower]
    return usual[:1] or [name for name in names if name.lower().endswith(_PATH_ENDING)]


def is_key_name(name: str) -> bool:
    """True for the name of a column that usually names images."""
    return name == INDEX_COLUMN or name.lower() in KEY_NAMES or bool(path_columns([name]))


def inspect_table(head: TableHead, choices: ColumnChoices) -> tuple[LabelTable, TableRows]:
    """The format of a file, and its first rows. Raises LabelTableError."""
    table = inspect_file(head, choices.encoding)
    kinds = choices.kinds_by_name
    texts = {name for name, kind in kinds.items() if kind is ColumnKind.BYTES}
    rows = head_rows(head, table)
    table, rows = _with_index(table, head, rows, choices)
    commas = with_decimal_commas(table, rows, texts | {*choices.separators})
    if commas != table:
        table, rows = commas, head_rows(head, commas)
    names = [name for name in rows.columns if name]
    if not names:
        raise LabelTableError(
            f'{table.uri}: no line contains a JSON object such as {{"file_name": "a.jpg", "label": "cat"}}'
        )
    return replace(table, key_column=_key_name(names, choices, head.uri)), rows


def _with_index(
    table: LabelTable, head: TableHead, rows: TableRows, choices: ColumnChoices
) -> tuple[LabelTable, TableRows]:
    """The table with a name for its first column, if that has none and names the images, as pandas' index may."""
    if choices.key or table.header[:1] != ("",) or path_columns(table.header):
        return table, rows
    named = replace(table, header=(INDEX_COLUMN, *table.header[1:]))
    named_rows = head_rows(head, named)
    cells = [text_of(cell) for cell in named_rows.cells(INDEX_COLUMN)]
    images = sum(map(is_image_name, cells))
    if cells and not images and {*map(str.lower, table.header)}.isdisjoint(_ID_NAMES):
        firsts = (text_of(column[0]) for column in named_rows.columns.values())
        stems = len({*cells}) == len(cells) and infer_kind(cells) is ColumnKind.BYTES
        images = len(cells) if stems and not any(map(is_image_name, firsts)) else 0
    return (named, named_rows) if images > MOST * len(rows) else (table, rows)


def _key_name(names: Sequence[str], choices: ColumnChoices, uri: str) -> str:
    if choices.key == NO_LABEL_COLUMN and choices.key not in names:
        return ""
    if choices.key and choices.key == choices.label:
        raise LabelTableError(f"{uri}: the column {choices.key!r} cannot be both key and label")
    if choices.key:
        if choices.key in names:
            return choices.key
        raise LabelTableError(
            f"{uri}: no column {choices.key!r} (--key_column); it has {', '.join(names)}"
        )
    candidates = [name for name in names if name != choices.label] or names
    paths = path_columns(candidates)
    if len(paths) > 1:
        raise LabelTableError(
            f"{uri}: which of the columns {', '.join(paths)} names the image? Say --key_column NAME"
        )
    by_lower = {name.lower(): name for name in reversed(candidates)}
    ids = [by_lower[name] for name in _ID_NAMES if name in by_lower]
    index = [INDEX_COLUMN] if names[0] == INDEX_COLUMN else []
    return [*paths, *index, *ids, *candidates][0]
