"""Columns whose cells name files: found by what the first cells name, and told apart by its first bytes.

| the first files of a column | kind |
|---|---|
| all PNGs of 16 bits and one channel, such as depths | `PICTURE_16` |
| all images | `PICTURE` |
| others, or some images only | `FILE` |
"""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from beam_pipeline.core.images.header import image_extension
from beam_pipeline.core.images.masks import is_deep_grey
from beam_pipeline.core.labels.cells import MOST, NEARLY_ALL, text_of
from beam_pipeline.core.labels.schema import CELL_FILES, Column, ColumnKind
from beam_pipeline.core.listing.filters import IMAGE_EXTENSIONS
from beam_pipeline.core.questions import Question
from beam_pipeline.core.text import enumerated

FileHead = Callable[[str], bytes | None]
"""A path as a cell has it -> the first bytes of the file that it names; None if there is none."""

HEAD_BYTES = 64  # of a file
_LOOKED_AT = 3  # files of a column
_SHOWN = 8
_TEXTS = 200  # of a column
_LONGEST = 1024
_PATH = re.compile(r"[^\s<>]+(?: [^\s<>]+){0,3}\.(?!\d+\b)[A-Za-z0-9]{2,5}")


def files_named(cells: Sequence[Any], head_of: FileHead) -> list[bytes]:
    """The first bytes of the first few files that cells name; cells may be lists."""
    names = dict.fromkeys(filter(None, map(text_of, _items(cells))))
    heads = map(head_of, islice(names, _LOOKED_AT))
    return [head for head in heads if head is not None]


def kind_of_files(cells: Sequence[Any], head_of: FileHead) -> ColumnKind:
    """The kind of a column of files; by their extensions if the first ones do not exist."""
    heads = files_named(cells, head_of)
    if heads and all(map(is_deep_grey, heads)):
        return ColumnKind.PICTURE_16
    names = [text for text in map(text_of, _items(cells)) if text]
    extensions = (posixpath.splitext(name)[1].lower() for name in names)
    pictures = sum(extension in IMAGE_EXTENSIONS for extension in extensions)
    are_images = all(map(image_extension, heads)) if heads else pictures > MOST * len(names)
    return ColumnKind.PICTURE if are_images else ColumnKind.FILE


def undeclared_files(
    values: Mapping[str, Sequence[Any]], declared: Collection[str], head_of: FileHead
) -> Iterator[str]:
    """The columns that the user said nothing of, and whose first cells name files that exist."""
    for name, cells in values.items():
        texts = [*islice(filter(None, map(text_of, _items(cells))), _TEXTS)]
        if name in declared or not texts or any(isinstance(cell, dict) for cell in cells):
            continue
        paths = sum(len(text) < _LONGEST and bool(_PATH.fullmatch(text)) for text in texts)
        if paths >= NEARLY_ALL * len(texts) and files_named(cells, head_of):
            yield name


def files_question(names: Sequence[str], where: str) -> Question:
    """Asks whether columns of paths are to be written as texts, or the files that they name."""
    return Question(
        "files",
        f"{where}: cells of {enumerated(names, _SHOWN)} are paths of files that exist, so the files would be read "
        "and written beside the image of their row.",
        f"--columns {shlex.quote(f'{names[0]}:str')} keeps a column as text, {shlex.quote(f'{names[0]}:skip')} "
        f"leaves it out. For the files (in short, --file_columns {shlex.quote(','.join(names))}):",
        {"columns": dict.fromkeys(names, "file")},
    )


def note_on_object_files(columns: Sequence[Column]) -> str:
    """Continues a sentence on a table with a row for each object, if objects have files; else empty."""
    names = [column.name for column in columns if column.kind in CELL_FILES]
    if not names:
        return ""
    return (
        f"; the files of {enumerated(names, _SHOWN)} belong to objects, so they are written as they are, neither "
        "rotated nor resized with the image"
    )


def _items(cells: Sequence[Any]) -> Iterator[Any]:
    for cell in cells:
        yield from cell if isinstance(cell, list) else (cell,)
