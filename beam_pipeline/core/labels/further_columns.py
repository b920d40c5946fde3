"""Further columns of tables that are more than a value: points in two columns, and files that cells name.

`--columns nose:point` makes a point of two columns such as nose_x and nose_y, which follows its image when that is
resized. Else they are two plain numbers, which do not. Columns whose cells name files are found by what the first
cells name, and told apart by its first bytes:

| the first files of a column | kind |
|---|---|
| all PNGs of 16 bits and one channel, such as depths | `PICTURE_16` |
| all images, or some where most names are those of images | `PICTURE` |
| others | `FILE` |
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from beam_pipeline.core.images import header, masks
from beam_pipeline.core.labels import cells
from beam_pipeline.core.labels.schema import CELL_FILES, Column, ColumnKind
from beam_pipeline.core.labels.table_rows import is_image_name
from beam_pipeline.core.questions import Question
from beam_pipeline.core.text import enumerated

LARGEST_FRACTION = 1.5
"""A point or a box may extend slightly beyond its image."""

_NUMBERS = frozenset({ColumnKind.INT64, ColumnKind.FLOAT})
_PLACES = re.compile("point|landmark|coord|polygon", re.IGNORECASE)
_SEVERAL_PLACES = re.compile("(point|landmark|coord|coordinate|polygon)s", re.IGNORECASE)

Pairs = Mapping[str, tuple[str, str]]
"""The name of a point -> its columns."""


def paired_columns(names: Iterable[str]) -> Pairs:
    """The columns whose names differ only in an x and a y; a point has the rest of the name.

    >>> paired_columns(["nose_x", "nose_y", "leftEyeX", "leftEyeY", "x1", "y1", "max"])
    {'nose': ('nose_x', 'nose_y'), 'leftEye': ('leftEyeX', 'leftEyeY'), '1': ('x1', 'y1')}
    """
    names = list(names)
    pairs: dict[str, tuple[str, str]] = {}
    for name in names:
        for match in re.finditer("[xX]", name):
            before, after = name[: match.start()], name[match.end() :]
            partner = f"{before}{'y' if match[0] == 'x' else 'Y'}{after}"
            if partner in names:
                point = re.sub(r"[\s_.\-]+", "_", f"{before}_{after}").strip("_") or "point"
                pairs.setdefault(point, (name, partner))
    return pairs


def point_of_columns(name: str, axes: Sequence[Sequence[Any]]) -> Column:
    """The column of a point for each image, in pixels unless all its numbers are fractions.

    Args:
      name: of the point.
      axes: x and y in the first rows.
    """
    numbers = (cell for axis in axes for cell in axis if cells.infer_kind([cell]) in _NUMBERS)
    pixels = any(abs(float(cells.text_of(cell))) > LARGEST_FRACTION for cell in numbers)
    return Column(name, ColumnKind.POINT, f"label/{name}", pixels=pixels)


def parse_point(places: Sequence[Any], names: Sequence[str]) -> tuple[Any, ...] | None:
    """Returns x and y, or None if both are empty.

    Raises:
      BadCellError: one is not a number.
    """
    if all(map(cells.is_empty, places)):
        return None
    point = []
    for cell, name in zip(places, names, strict=True):
        try:
            point.append(cells.parse_cell(cell, Column(name, ColumnKind.FLOAT, "", required=True)))
        except cells.BadCellError as error:
            raise cells.BadCellError(f"{name!r}: {error}") from error
    return tuple(point)


def resize_questions(
    columns: Sequence[Column], declared: Mapping[str, str], *, answered: bool
) -> Iterator[Question]:
    """Asks about numbers that look like places in images that are resized, as only boxes and points are scaled.

    Args:
      columns: of the labels.
      declared: column -> the type that the user gave.
      answered: whether `--columns` makes points of the source's columns.
    """
    free = [column for column in columns if column.name not in declared]
    numbers = {column.name: column for column in free if column.kind in _NUMBERS}
    pairs = paired_columns(numbers)
    lists = [name for name, column in numbers.items() if column.repeated and _PLACES.search(name)]
    texts = [column for column in free if column.kind is ColumnKind.BYTES]
    lists += [column.name for column in texts if _SEVERAL_PLACES.search(column.name)]
    names = [*dict.fromkeys([*(name for pair in pairs.values() for name in pair), *lists])]
    if not names:
        return
    first = next(column for column in free if column.name == names[0])
    kind = {ColumnKind.INT64: "int", ColumnKind.FLOAT: "float"}.get(first.kind, "str")
    keep = f"--columns {names[0]}:{kind}"
    further = all(c.feature == f"label/{c.name}" for c in free if c.name in names)
    points = answered and further and not lists
    yield Question(
        "moved_points",
        f"{enumerated(names, 4)} look like places in the images, but --resize scales boxes and points "
        "only, so these numbers would no longer fit.",
        f"If they are not places, give each a type, as {keep}."
        + (" For points, which are written as fractions of the image:" if points else ""),
        {"columns": dict.fromkeys(pairs, "point")} if points else None,
    )


FileHead = Callable[[str], bytes | None]
"""A path as a cell has it -> the first bytes of the file that it names; None if there is none."""

HEAD_BYTES = 64  # of a file
_LOOKED_AT = 3  # files of a column
_SHOWN = 8
_TEXTS = 200  # of a column
_LONGEST = 1024
_PATH = re.compile(r"[^\s<>]+(?: [^\s<>]+){0,3}\.(?!\d+\b)[A-Za-z0-9]{2,5}")


def files_named(paths: Sequence[Any], head_of: FileHead) -> list[bytes]:
    """The first bytes of the first few files that cells name; cells may be lists."""
    names = dict.fromkeys(filter(None, map(cells.text_of, _items(paths))))
    heads = map(head_of, islice(names, _LOOKED_AT))
    return [head for head in heads if head is not None]


def kind_of_files(paths: Sequence[Any], head_of: FileHead) -> ColumnKind:
    """The kind of a column of files; by their extensions if the first ones do not exist."""
    heads = files_named(paths, head_of)
    if heads and all(map(masks.is_deep_grey, heads)):
        return ColumnKind.PICTURE_16
    names = [text for text in map(cells.text_of, _items(paths)) if text]
    pictures = sum(map(is_image_name, names))
    are_images = pictures > cells.MOST * len(names)  # then another is a dead letter
    if heads:
        images = [bool(header.image_extension(head)) for head in heads]
        are_images = all(images) or (any(images) and are_images)
    return ColumnKind.PICTURE if are_images else ColumnKind.FILE


def undeclared_files(
    values: Mapping[str, Sequence[Any]], declared: Collection[str], head_of: FileHead
) -> Iterator[str]:
    """The columns that the user said nothing of, and whose first cells name files that exist."""
    for name, column in values.items():
        texts = [*islice(filter(None, map(cells.text_of, _items(column))), _TEXTS)]
        if name in declared or not texts or any(isinstance(cell, dict) for cell in column):
            continue
        paths = sum(len(text) < _LONGEST and bool(_PATH.fullmatch(text)) for text in texts)
        if paths >= cells.NEARLY_ALL * len(texts) and files_named(column, head_of):
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


def _items(values: Sequence[Any]) -> Iterator[Any]:
    for cell in values:
        yield from cell if isinstance(cell, list) else (cell,)
