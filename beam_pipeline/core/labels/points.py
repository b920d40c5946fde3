"""Points in two columns of a table, such as nose_x and nose_y.

`--columns nose:point` makes a point of them, which follows its image when that is resized. Else they are two
plain numbers, which do not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from beam_pipeline.core.labels.cells import BadCellError, infer_kind, is_empty, parse_cell, text_of
from beam_pipeline.core.labels.schema import Column, ColumnKind
from beam_pipeline.core.questions import Question
from beam_pipeline.core.text import enumerated

_LARGEST_FRACTION = 1.5  # a point may be slightly outside its image
_NUMBERS = frozenset({ColumnKind.INT64, ColumnKind.FLOAT})
_PLACES = re.compile("point|landmark|coord|polygon", re.IGNORECASE)
_SEVERAL_PLACES = re.compile("(point|landmark|coord|coordinate|polygon)s", re.IGNORECASE)
_SHOWN = 4

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


def point_of_columns(name: str, cells: Sequence[Sequence[Any]]) -> Column:
    """The column of a point for each image, in pixels unless all its numbers are fractions.

    Args:
      name: of the point.
      cells: x and y in the first rows.
    """
    pixels = False
    for cell in (cell for axis in cells for cell in axis):
        if infer_kind([cell]) in _NUMBERS:
            pixels = pixels or abs(float(text_of(cell))) > _LARGEST_FRACTION
    return Column(name, ColumnKind.POINT, f"label/{name}", pixels=pixels)


def parse_point(cells: Sequence[Any], names: Sequence[str]) -> tuple[Any, ...] | None:
    """Returns x and y, or None if both are empty.

    Raises:
      BadCellError: one is not a number.
    """
    if all(map(is_empty, cells)):
        return None
    point = []
    for cell, name in zip(cells, names, strict=True):
        try:
            point.append(parse_cell(cell, Column(name, ColumnKind.FLOAT, "", required=True)))
        except BadCellError as error:
            raise BadCellError(f"{name!r}: {error}") from error
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
        f"{enumerated(names, _SHOWN)} look like places in the images, but --resize scales boxes and points "
        "only, so these numbers would no longer fit.",
        f"If they are not places, give each a type, as {keep}."
        + (" For points, which are written as fractions of the image:" if points else ""),
        {"columns": dict.fromkeys(pairs, "point")} if points else None,
    )
