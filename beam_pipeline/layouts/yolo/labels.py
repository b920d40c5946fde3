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
from beam_pipeline.core.text import counted
from beam_pipeline.layouts.label_files import (
    BadLabelError,
    ImageLabels,
    LabelFormat,
    fields_of_lines,
)

DETECT, SEGMENT, POSE, OBB = "detect", "segment", "pose", "obb"
README = "readme"

_BOX = 5  # columns of a class and its box
_CORNERS = 9  # of a class and four corners
_LEAST_OUTLINE = 7  # of a class and three points
_HIDDEN, _VISIBLE = 0, 2  # as in COCO


@dataclass(frozen=True)
class LineFormat(LabelFormat):
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

    def skips(self, name: str) -> bool:
        return name.lower().startswith(README)

    def parse(self, data: bytes, uri: str) -> ImageLabels:
        """Parses a label file; without lines, there are no objects. Points of all are concatenated."""
        rows = []
        for number, fields in fields_of_lines(data):
            try:
                rows.append(self._object(fields, number))
            except BadLabelError as error:
                raise BadLabelError(str(error), number) from error
        if not rows:
            return ImageLabels(self.nothing)
        values: list[Any] = []
        for column, items in zip(self.columns, zip(*rows, strict=True), strict=True):
            spread = column.kind is ColumnKind.POINT or column.name == "keypoint/visibility"
            values.append(tuple(part for item in items for part in item) if spread else items)
        return ImageLabels(tuple(values))

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

    def _check_length(self, length: int) -> None:
        pose = _BOX + self.keypoints * self.dimensions
        wanted, expected = {
            DETECT: (_BOX, f"the {_BOX} of a class and its box"),
            OBB: (_CORNERS, f"the {_CORNERS} of a class and four corners"),
            POSE: (
                pose,
                f"the {pose} of a class, its box and {self.keypoints} key points of "
                f"{self.dimensions} values",
            ),
            SEGMENT: (
                _BOX,
                f"a class and the points of its outline, or the {_BOX} of a class and its box",
            ),
        }[self.task]
        is_outline = length >= _LEAST_OUTLINE and length % 2 == 1
        if length == wanted or (is_outline and self.task == SEGMENT):
            return
        hint = ""
        if length == _BOX + 1:
            hint = "; a label has no column for the confidence of a model's results"
        elif self.task == DETECT and is_outline:
            tasks = f"{SEGMENT} or {OBB}" if length == _CORNERS else SEGMENT
            hint = f"; --yolo_task {tasks} reads such lines"
        raise BadLabelError(f"{counted(length, 'column')}, expected {expected}{hint}")

    def _class(self, field: bytes) -> str:
        try:
            number = parse_number(_text(field), ColumnKind.FLOAT)
        except ValueError as error:
            raise BadLabelError(f"the class is {_text(field)!r}, expected its number") from error
        if number < 0 or number % 1:
            raise BadLabelError(f"the class is {_text(field)!r}, expected a whole number from 0 on")
        if self.names is None:
            return str(int(number))
        if int(number) not in self.names:
            raise BadLabelError(
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
    lines = set(lengths)
    if not lines or lines == {_BOX}:
        return DETECT
    if lines == {_CORNERS}:
        return f"{OBB} or {SEGMENT}"
    return POSE if len(lines) == 1 and not min(lines) % 2 else SEGMENT


def line_lengths(data: bytes) -> list[int] | None:
    """Returns the number of columns of each line; None if a line is not YOLO's: a class and fractions."""
    lengths = []
    for _, fields in fields_of_lines(data):
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
        raise BadLabelError(f"{_text(field)!r} is not a number") from error


def _text(field: bytes) -> str:
    return field.decode("utf-8", "backslashreplace")


YOLO_TASKS = (DETECT, SEGMENT, POSE, OBB)
"""Choices of --yolo_task."""
