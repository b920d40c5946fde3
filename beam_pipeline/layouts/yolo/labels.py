"""YOLO's label files: one file per image, one line per object, coordinates as fractions of the image.

| task | line |
|---|---|
| detect | class, centre x, centre y, width, height |
| segment | class, then x, y of three or more points of the object's outline |
| pose | class, box as above, then x, y of each key point, with its visibility if there are three values |
| obb | class, then x, y of the four corners of a rotated box |

Source: https://docs.ultralytics.com/datasets/detect/, and /segment/, /pose/ and /obb/ beside it.
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from beam_pipeline.core.labels.cells import parse_number
from beam_pipeline.core.labels.schema import (
    Column,
    ColumnKind,
    keypoint_columns,
    mask_column,
    object_columns,
    point_column,
)
from beam_pipeline.core.references import LabelValue
from beam_pipeline.core.text import counted

DETECT, SEGMENT, POSE, OBB = "detect", "segment", "pose", "obb"

_BOX = 5  # columns of a class and its box
_CORNERS = 9  # of a class and four corners
_LEAST_OUTLINE = 7  # of a class and three points
_HIDDEN, _VISIBLE = 0, 2  # as in COCO


class LabelLineError(ValueError):
    """A line is not one of YOLO's labels. `line` is its number."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.line = line


class _LineError(ValueError):
    """A line is not one of YOLO's labels."""


@dataclass(frozen=True)
class LineFormat:
    """The format of the lines of all label files.

    Attributes:
      task: one of YOLO's tasks.
      names: class id -> name; empty if no file names them, so that the ids serve as names.
      keypoints: key points per object.
      dimensions: values per key point: 2, or 3 with its visibility.
      masks: True to keep outlines, from which masks are drawn.
    """

    task: str = DETECT
    names: Mapping[int, str] | None = None
    keypoints: int = 0
    dimensions: int = 2
    masks: bool = False

    @property
    def columns(self) -> tuple[Column, ...]:
        """The label columns."""
        columns: tuple[Column, ...] = object_columns(pixels=False)
        if self.task == SEGMENT and self.masks:
            return (*columns, mask_column(pixels=False))
        if self.task == POSE:
            return (*columns, *keypoint_columns(pixels=False))
        if self.task == OBB:
            return (*columns, point_column("corner", pixels=False))
        return columns

    @property
    def nothing(self) -> tuple[LabelValue, ...]:
        """Returns the values of an image without objects."""
        return ((),) * len(self.columns)

    def parse(self, data: bytes) -> tuple[LabelValue, ...]:
        """Parses a label file to values in the order of the columns; without lines, to no objects.

        Each column is a tuple with one value per object; points of all objects are concatenated.

        Args:
          data: the whole file.

        Raises:
          LabelLineError: a line is not of this format; the error names the first.
        """
        rows = []
        for number, text in enumerate(data.removeprefix(codecs.BOM_UTF8).splitlines(), 1):
            fields = text.split()
            if not fields:
                continue
            try:
                rows.append(self._object(fields, number))
            except _LineError as error:
                raise LabelLineError(str(error), number) from error
        if not rows:
            return self.nothing
        values: list[Any] = []
        for column, items in zip(self.columns, zip(*rows, strict=True), strict=True):
            spread = column.kind is ColumnKind.POINT or column.name == "keypoint/visibility"
            values.append(tuple(part for item in items for part in item) if spread else items)
        return tuple(values)

    def _object(self, fields: Sequence[bytes], line: int) -> tuple[Any, ...]:
        """Returns the values of one object, in the order of the columns."""
        self._check_length(len(fields))
        name = self._class(fields[0])
        numbers = [_number(field) for field in fields[1:]]
        if self.task == POSE:
            return (_centred(numbers[:4], line), name, *self._keypoints(numbers[4:]))
        outline = numbers
        if len(numbers) > 4:
            box = (
                *(min(numbers[::2]), min(numbers[1::2])),
                *(max(numbers[::2]), max(numbers[1::2])),
                line,
            )
        else:
            box = _centred(numbers, line)
            left, top, right, bottom, _ = box
            outline = [left, top, right, top, right, bottom, left, bottom]
        if self.task == OBB:
            return box, name, outline
        if self.task == SEGMENT and self.masks:
            return box, name, json.dumps([outline])
        return box, name

    def _check_length(self, found: int) -> None:
        if self.task == DETECT:
            fits, expected = found == _BOX, f"the {_BOX} of a class and its box"
        elif self.task == OBB:
            fits, expected = found == _CORNERS, f"the {_CORNERS} of a class and four corners"
        elif self.task == POSE:
            length = _BOX + self.keypoints * self.dimensions
            fits = found == length
            expected = (
                f"the {length} of a class, its box and {self.keypoints} key points of "
                f"{self.dimensions} values"
            )
        else:
            fits = found == _BOX or (found >= _LEAST_OUTLINE and found % 2 == 1)
            expected = (
                f"a class and the points of its outline, or the {_BOX} of a class and its box"
            )
        if not fits:
            raise _LineError(f"{counted(found, 'column')}, expected {expected}{self._hint(found)}")

    def _hint(self, found: int) -> str:
        if found == _BOX + 1:
            return "; a label has no column for the confidence of a model's results"
        if self.task == DETECT and found >= _LEAST_OUTLINE and found % 2:
            other = f"{SEGMENT} or {OBB}" if found == _CORNERS else SEGMENT
            return f"; --yolo_task {other} reads such lines"
        return ""

    def _class(self, field: bytes) -> str:
        try:
            number = parse_number(_text(field), ColumnKind.FLOAT)
        except ValueError as error:
            raise _LineError(f"the class is {_text(field)!r}, expected its number") from error
        if number < 0 or number % 1:
            raise _LineError(f"the class is {_text(field)!r}, expected a whole number from 0 on")
        if self.names is None:
            return str(int(number))
        if int(number) not in self.names:
            raise _LineError(
                f"class {int(number)} is not among the {len(self.names)} names, which end at "
                f"{max(self.names)}; add its name to them"
            )
        return self.names[int(number)]

    def _keypoints(self, numbers: Sequence[float]) -> tuple[Any, ...]:
        """Returns (x, y of all points, visibility of each, number of labelled points)."""
        step = self.dimensions
        points = [numbers[i : i + step] for i in range(0, len(numbers), step)]
        if step == 2:  # as Ultralytics does
            visible = [_HIDDEN if min(point) < 0 else _VISIBLE for point in points]
        else:
            visible = [int(point[2]) for point in points]
        coordinates = [value for point in points for value in point[:2]]
        return coordinates, visible, sum(flag > 0 for flag in visible)


def guess_task(lengths: Sequence[int]) -> str:
    """Guesses the task from the numbers of columns; several joined by "or" if it is not certain."""
    found = set(lengths)
    if not found or found == {_BOX}:
        return DETECT
    if found == {_CORNERS}:
        return f"{OBB} or {SEGMENT}"
    if len(found) == 1 and not min(found) % 2:
        return POSE
    return SEGMENT


def line_lengths(data: bytes) -> list[int] | None:
    """Returns the number of columns of each line; None if a line is not YOLO's: a class and fractions."""
    lengths = []
    for text in data.removeprefix(codecs.BOM_UTF8).splitlines():
        fields = text.split()
        if not fields:
            continue
        try:
            numbers = [parse_number(_text(field), ColumnKind.FLOAT) for field in fields]
        except ValueError:
            return None
        if len(fields) < _BOX or numbers[0] < 0 or numbers[0] % 1:
            return None
        if any(not -1 <= number <= 2 for number in numbers[1:_BOX]):
            return None
        lengths.append(len(fields))
    return lengths


def _centred(numbers: Sequence[float], line: int) -> tuple[float, float, float, float, int]:
    x, y, width, height = numbers
    return x - width / 2, y - height / 2, x + width / 2, y + height / 2, line


def _number(field: bytes) -> float:
    try:
        return parse_number(_text(field), ColumnKind.FLOAT)
    except ValueError as error:
        raise _LineError(f"{_text(field)!r} is not a number") from error


def _text(field: bytes) -> str:
    return field.decode("utf-8", "backslashreplace")


YOLO_TASKS = (DETECT, SEGMENT, POSE, OBB)
"""Choices of --yolo_task."""
