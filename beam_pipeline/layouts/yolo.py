"""YOLO in Ultralytics' structure: a text file for each image, with one line per object.

An image in `images/` has a label file of the same name in `labels/`. If no folder of its path is called
`images`, the label file is beside the image. As in Ultralytics, an image without a label file has no
objects. Coordinates are fractions of the image.

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
import os
import posixpath
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from beam_pipeline.core.errors import UsageError
from beam_pipeline.core.labels.cells import parse_number
from beam_pipeline.core.labels.classes import ClassNumbering
from beam_pipeline.core.labels.schema import (
    OBJECT_FEATURES,
    YOLO_TASKS,
    Column,
    ColumnKind,
    keypoint_columns,
    mask_column,
    object_columns,
    point_column,
)
from beam_pipeline.core.listing.filters import ImageRoot
from beam_pipeline.core.listing.folders import SPLIT_NAMES
from beam_pipeline.core.questions import Question
from beam_pipeline.core.records.example_source import LabelledImages
from beam_pipeline.core.text import counted
from beam_pipeline.core.uris import is_remote
from beam_pipeline.layouts.label_files import (
    UNLISTED,
    BadLabelError,
    ImageLabels,
    LabelFileReader,
    LabelFormat,
    Place,
    Splits,
    fields_of_lines,
    label_folders,
    typed_path,
)
from beam_pipeline.layouts.layout import FileLabels, Source, SourceOptions
from beam_pipeline.layouts.paths import image_roots
from beam_pipeline.layouts.tree import beginning, files_of, subfolders
from beam_pipeline.layouts.yolo_data_set import (
    CLASS_FILES,
    LABEL_FILES,
    USUAL_YAML,
    YAML_SUFFIXES,
    DataSet,
    FolderPair,
    description_in,
    folder_pairs_in,
    label_roots,
    roots_of,
    topmost,
)
from beam_pipeline.storage import files
from beam_pipeline.storage.listing import list_local_root

DETECT, SEGMENT, POSE, OBB = YOLO_TASKS
README = "readme"

_BOX = 5  # columns of a class and its box
_CORNERS = 9  # of a class and four corners
_LEAST_OUTLINE = 7  # of a class and three points
_HIDDEN, _VISIBLE = 0, 2  # as in COCO
_TXT = ".txt"
_LOOKED_AT, _LOOKED_AT_REMOTE = 50, 10  # label files for guessing the task
_HEAD_BYTES = 64 << 10
_MASKS = OBJECT_FEATURES[0]
_BATCH = 1 << 16  # files of a listing


class Yolo:
    """Each image has a text file with one line per object."""

    name = "yolo"
    option_names = frozenset({"object_features", "yolo_task"})

    def recognise(self, options: SourceOptions) -> str:
        """Recognises `data.yaml`, or label files with a class and fractions in each line."""
        if options.labels:
            folders = [files.canonical(path) for path in options.labels if path.strip()]
            if len(folders) < len(options.labels) or not all(map(_holds_labels, folders)):
                return ""
            return f"label files of YOLO in {', '.join(map(typed_path, folders, options.labels))}"
        reasons = [_recognise(path) if path.strip() else "" for path in options.images]
        return "; ".join(reasons) if all(reasons) else ""

    def open(self, options: SourceOptions) -> Source:
        """Finds the images, the label files, the classes and the splits.

        Raises:
          UsageError: something is missing, an image is in two splits, or files disagree on classes.
        """
        data = DataSet()
        if options.labels:
            typed = label_folders(options.labels, LABEL_FILES, "label files of YOLO")
            roots = image_roots(options.images)
            data.pairs = [FolderPair("", folder.uri) for folder in typed]
            data.find_class_files([root.uri for root in roots])
        else:
            for path in options.images:
                data.add(path)
            roots = roots_of([pair.images for pair in data.pairs])
        lines, questions = _line_format(options, data)
        reader = LabelFileReader(
            lines,
            places=tuple(Place(pair.labels, pair.images) for pair in data.pairs),
            splits=Splits(
                data.listed, tuple((pair.images, pair.split) for pair in data.pairs if pair.split)
            ),
            skipped=frozenset(data.skipped),
        )
        are_empty = options.unlabelled in ("auto", "empty")
        notes, doubts = _missing_labels(data, roots, are_empty=are_empty)
        if data.names is None:
            notes.append("nothing names the classes, so their numbers are their names")
        if lines.task == SEGMENT and not lines.masks:
            notes.append(
                "of outlines, the boxes around them are written; --object_features masks adds a mask "
                "of each object"
            )
        ids = None if data.names is None else tuple((name, i) for i, name in data.names.items())
        return Source(
            layout=self.name,
            roots=roots,
            labels=FileLabels(reader, folders=label_roots(data.pairs), unnamed=reader),
            examples=LabelledImages(lines.columns),
            numbering=ClassNumbering(from_name=True) if ids is None else ClassNumbering(known=ids),
            notes=(*data.notes, *notes),
            questions=(*questions, *doubts),
        )


def _recognise(path: str) -> str:
    """Returns the reason why a path of --images is YOLO's; empty if it is not."""
    uri = files.canonical(path)
    if uri.lower().endswith(YAML_SUFFIXES):
        return f"{posixpath.basename(uri)} describes a data set of YOLO"
    try:
        description = description_in(uri)
    except UsageError:  # open() reports the fault
        description = None
    if description:
        return f"{posixpath.basename(description.uri)} in {typed_path(uri, path)}"
    pair = next((pair for pair in folder_pairs_in(uri) if _holds_labels(pair.labels)), None)
    if pair is None:
        return ""
    if pair.images == pair.labels:
        return f"label files of YOLO beside the images in {typed_path(pair.images, path)}"
    labels, images = (typed_path(folder, path) for folder in (pair.labels, pair.images))
    return f"label files of YOLO in {labels}, for the images in {images}"


# --- label files ---------------------------------------------------------------------------------


def _first_labels(folder: str) -> Iterator[str]:
    """Returns the URIs of some label files of a folder, the same ones each time."""
    yield from files_of(folder, _TXT)
    for below in subfolders(folder):
        yield from _first_labels(below)


def _lengths_of(uri: str) -> list[int] | None:
    """Returns the number of columns of a label file's first lines; None if they are not YOLO's."""
    data = beginning(uri, _HEAD_BYTES)
    if len(data) == _HEAD_BYTES:  # its last line may be incomplete
        data = data.rpartition(b"\n")[0]
    return line_lengths(data)


def _holds_labels(folder: str) -> bool:
    """True if most of the first non-empty label files of a folder are YOLO's."""
    named = (*CLASS_FILES, *(f"{name}{_TXT}" for name in SPLIT_NAMES))
    score = 0
    for uri in islice(
        _first_labels(folder), _LOOKED_AT_REMOTE if is_remote(folder) else _LOOKED_AT
    ):
        name = posixpath.basename(uri).lower()
        if name not in named and not name.startswith(README):
            lengths = _lengths_of(uri)
            score += -1 if lengths is None else bool(lengths)
    return score > 0


def _line_format(options: SourceOptions, data: DataSet) -> tuple[LineFormat, list[Question]]:
    """Returns the format of all lines, and the questions about it.

    Raises:
      UsageError: key points without a description, or masks without outlines.
    """
    questions = []
    task = options.yolo_task or (POSE if data.keypoints else guess_task(_sampled_lengths(data)))
    if " or " in task:
        reason = (
            f"all lines looked at have 9 columns: boxes that are turned ({OBB}) or outlines of "
            f"four points ({SEGMENT}); give --yolo_task {OBB} or --yolo_task {SEGMENT}"
        )
        questions, task = [Question("turned_boxes_or_outlines", reason)], SEGMENT
    masks = _MASKS in options.object_features
    if masks and task != SEGMENT:
        raise UsageError(
            f"--object_features {_MASKS}: the label files lack outlines (--yolo_task is {task})"
        )
    if task == POSE and not data.keypoints:
        raise UsageError(
            "label files of key points need kpt_shape, [number of key points, 2 or 3], in "
            f"{USUAL_YAML[0]}; name that file with --images"
        )
    return LineFormat(task, data.names, *(data.keypoints or (0, 2)), masks=masks), questions


def _sampled_lengths(data: DataSet) -> list[int]:
    lengths: list[int] = []
    for folder in topmost(pair.labels for pair in data.pairs):
        uris = (uri for uri in _first_labels(folder) if uri not in data.skipped)
        for uri in islice(uris, _LOOKED_AT):
            lengths += _lengths_of(uri) or []
    return lengths


def _missing_labels(
    data: DataSet, roots: Sequence[ImageRoot], *, are_empty: bool
) -> tuple[list[str], list[Question]]:
    """Returns (notes, questions) about images without a label file or in no list; none for buckets.

    Args:
      data: the data set.
      roots: the folders of images.
      are_empty: True if images without a label file count as images without objects. If no image of a
        folder has one, the folder may be unlabelled instead.
    """
    notes: list[str] = []
    questions: list[Question] = []
    if any(is_remote(root.uri) for root in roots):
        return notes, questions
    images = missing = unlisted = 0
    for pair in data.pairs:
        stems = _stems([ImageRoot(pair.images)] if pair.images else roots)
        without = len(stems - _stems([ImageRoot(pair.labels, (LABEL_FILES,))]))
        images, missing = images + len(stems), missing + without
        if are_empty and stems and without == len(stems) and pair.images:
            reason = (
                f"none of the {without} images in {pair.images} has a label file in {pair.labels}, "
                "so all of them would count as images without objects; leave the folder out if they "
                "are not labelled, or all such images with --unlabelled drop"
            )
            questions.append(Question("folder_without_labels", reason))
        if data.listed and pair.images and not pair.split:
            unlisted += sum(f"{pair.images}/{stem}" not in data.listed for stem in stems)
    if missing and are_empty:
        notes.append(
            f"{missing} of {images} images lack a label file and count as images without objects, "
            "as in Ultralytics; --unlabelled drop leaves them out"
        )
    if unlisted:
        notes.append(
            f"{unlisted} of {images} images are in no list file, so they go to a split {UNLISTED!r} "
            "unless --splits is given"
        )
    return notes, questions


def _stems(roots: Sequence[ImageRoot]) -> set[str]:
    """Returns the paths of the files in local folders, without extension."""
    return {
        posixpath.splitext(image.key)[0]
        for root in roots
        if os.path.isdir(root.uri)
        for listed in list_local_root(root, _BATCH)
        for image in listed.images
    }


# --- lines ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LineFormat(LabelFormat):
    """The format of the lines of all label files.

    Attributes:
      task: a YOLO task.
      names: class id -> name; empty if no file names them, so that the ids serve as names.
      keypoints: key points per object.
      dimensions: values per key point: 2, or 3 with its visibility.
      masks: True to keep outlines and draw masks from them.
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
        """Parses a label file; without lines, the image is without objects. Points of all are concatenated."""
        rows = []
        for number, fields in fields_of_lines(data):
            try:
                rows.append(self._object(fields, number))
            except BadLabelError as error:
                raise BadLabelError(str(error), number) from error
        values = [
            tuple(part for item in items for part in item) if isinstance(items[0], list) else items
            for items in zip(*rows, strict=True)
        ]
        return ImageLabels(tuple(values) or self.nothing)

    def _object(self, fields: Sequence[bytes], line: int) -> tuple[Any, ...]:
        """Returns the values of one object, in the order of the columns; points are lists."""
        self._check_length(len(fields))
        name = self._class(fields[0])
        numbers = [_number(field) for field in fields[1:]]
        if self.task == POSE:
            return (_centred(numbers[:4], line), name, *self._keypoints(numbers[4:]))
        if len(numbers) == 4:
            box = _centred(numbers, line)
            left, top, right, bottom, _ = box
            numbers = [left, top, right, top, right, bottom, left, bottom]
        else:
            xs, ys = numbers[::2], numbers[1::2]
            box = (min(xs), min(ys), max(xs), max(ys), line)
        if self.task == OBB:
            return box, name, numbers
        return (box, name, json.dumps([numbers])) if self.masks else (box, name)

    def _check_length(self, length: int) -> None:
        is_outline = length >= _LEAST_OUTLINE and length % 2 == 1
        right, expected = _BOX, f"the {_BOX} of a class and its box"
        if self.task == OBB:
            right, expected = _CORNERS, f"the {_CORNERS} of a class and four corners"
        elif self.task == POSE:
            values = f"{self.keypoints} key points of {self.dimensions} values"
            right = _BOX + self.keypoints * self.dimensions
            expected = f"the {right} of a class, its box and {values}"
        elif self.task == SEGMENT:
            right = length if is_outline else _BOX
            expected = f"a class and the points of its outline, or {expected}"
        if length == right:
            return
        hint = ""
        if length == _BOX + 1:
            hint = "; a label lacks a column for the confidence of a model's results"
        elif self.task == DETECT and is_outline:
            tasks = f"{SEGMENT} or {OBB}" if length == _CORNERS else SEGMENT
            hint = f"; --yolo_task {tasks} reads such lines"
        raise BadLabelError(f"{counted(length, 'column')}, expected {expected}{hint}")

    def _class(self, field: bytes) -> str:
        number = _parsed(field)
        if number is None:
            raise BadLabelError(f"the class is {_text(field)!r}, expected its number")
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
        numbers = list(map(_parsed, fields))
        if len(fields) < _BOX or None in numbers:
            return None
        number, *box = (value for value in numbers[:_BOX] if value is not None)
        if number < 0 or number % 1 or any(not -1 <= value <= 2 for value in box):
            return None
        lengths.append(len(fields))
    return lengths


def _centred(numbers: Sequence[float], line: int) -> tuple[float, float, float, float, int]:
    x, y, width, height = numbers
    return x - width / 2, y - height / 2, x + width / 2, y + height / 2, line


def _number(field: bytes) -> float:
    number = _parsed(field)
    if number is None:
        raise BadLabelError(f"{_text(field)!r} is not a number")
    return number


def _parsed(field: bytes) -> float | None:
    try:
        return parse_number(_text(field), ColumnKind.FLOAT)
    except ValueError:
        return None


def _text(field: bytes) -> str:
    return field.decode("utf-8", "backslashreplace")
