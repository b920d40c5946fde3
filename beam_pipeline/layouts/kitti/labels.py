"""KITTI's label files: one file per image, one line per object, 15 columns separated by spaces.

Source: the readme of KITTI's object development kit (http://www.cvlibs.net/datasets/kitti).
"""

from __future__ import annotations

import codecs
import posixpath
from collections.abc import Sequence

from beam_pipeline.core.labels.cells import parse_number
from beam_pipeline.core.labels.schema import (
    Column,
    ColumnKind,
    object_column,
    object_columns,
)
from beam_pipeline.core.references import Box, LabelRow, LabelValue
from beam_pipeline.core.text import counted

OBJECT_TYPES = (
    *("Car", "Van", "Truck", "Pedestrian"),
    *("Person_sitting", "Cyclist", "Tram", "Misc"),
)
"""The types of objects, in the order of the readme."""

IGNORED_TYPE = "dontcare"
"""The type of regions with unlabelled objects, in lower case; KITTI writes DontCare."""

_BOX = ("left", "top", "right", "bottom")
_NUMBERS = (
    *("truncated", "occluded", "alpha", *_BOX),
    *("height", "width", "length", "x", "y", "z", "rotation_y"),
)
_INTEGERS = frozenset({"occluded"})
_FIELDS = 1 + len(_NUMBERS)
_WITH_SCORE = _FIELDS + 1

COLUMNS = (
    *object_columns(pixels=True),
    object_column("truncated", ColumnKind.FLOAT),
    object_column("occluded", ColumnKind.INT64),
    object_column("alpha", ColumnKind.FLOAT),
    *(
        object_column(f"3d_bbox/{name}", ColumnKind.FLOAT)
        for name in ("height", "width", "length", "x", "y", "z", "rot_y")
    ),
    Column("ignore", ColumnKind.BOX, "image/object/ignore/bbox", True, repeated=True, pixels=True),
)
"""The label columns; rotation_y is called rot_y, as in the TensorFlow Model Garden."""

_NOTHING: tuple[LabelValue, ...] = ((),) * len(COLUMNS)


def parse_labels(data: bytes, uri: str) -> LabelRow:
    """Parses one label file; its name without extension is that of its image.

    Boxes are in 0-based pixels, as written. A file without lines is an image without objects.

    Args:
      data: the whole file.
      uri: its URI.

    Returns: the row; if a line is not KITTI's, a row with that line and the problem.
    """
    name = posixpath.splitext(posixpath.basename(uri))[0]
    objects: list[tuple[object, ...]] = []
    ignored: list[Box] = []
    for line, text in enumerate(data.removeprefix(codecs.BOM_UTF8).splitlines(), 1):
        fields = text.split()
        if not fields:
            continue
        try:
            kind, numbers = _parse_line(fields)
        except _LineError as error:
            return LabelRow(name, _NOTHING, split="", file=uri, line=line, problem=str(error))
        truncated, occluded, alpha, left, top, right, bottom, *box_3d = numbers
        box = (left, top, right, bottom, line)
        if kind.lower() == IGNORED_TYPE:
            ignored.append(box)
        else:
            objects.append((box, kind, truncated, occluded, alpha, *box_3d))
    if not objects:
        return LabelRow(name, (*_NOTHING[:-1], tuple(ignored)), split="", file=uri, line=0)
    values: list[tuple[object, ...]] = [*zip(*objects, strict=True), tuple(ignored)]
    return LabelRow(name, tuple(values), split="", file=uri, line=0)  # type: ignore[arg-type]


class _LineError(ValueError):
    """A line is not one of KITTI's labels."""


def _parse_line(fields: Sequence[bytes]) -> tuple[str, list[float]]:
    """Returns (type, the 14 numbers) of a line."""
    if len(fields) != _FIELDS:
        hint = (
            "; a 16th is the score of a detector's results, which are not labels"
            if len(fields) == _WITH_SCORE
            else ""
        )
        raise _LineError(
            f"{counted(len(fields), 'column')}, expected the {_FIELDS} of KITTI's labels: type, "
            f"{', '.join(_NUMBERS)}{hint}"
        )
    try:
        kind = fields[0].decode()
    except UnicodeDecodeError as error:
        raise _LineError(f"the type {fields[0]!r} is not UTF-8; save the file as UTF-8") from error
    return kind, [
        _parse_number(name, field) for name, field in zip(_NUMBERS, fields[1:], strict=True)
    ]


def _parse_number(name: str, field: bytes) -> float:
    integer = name in _INTEGERS
    try:
        return parse_number(field.decode(), ColumnKind.INT64 if integer else ColumnKind.FLOAT)
    except ValueError as error:
        expected = "an integer" if integer else "a number"
        raise _LineError(
            f"{name} is {field.decode('utf-8', 'backslashreplace')!r}, expected {expected}"
        ) from error
