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
    shown,
)
from beam_pipeline.layouts.layout import FileLabels, Source, SourceOptions
from beam_pipeline.layouts.paths import image_roots
from beam_pipeline.layouts.tree import beginning, files_of, subfolders
from beam_pipeline.layouts.yolo.data_set import (
    CLASS_FILES,
    LABEL_FILES,
    USUAL_YAML,
    YAML_SUFFIXES,
    FolderPair,
    Found,
    description_in,
    find,
    find_class_files,
    folder_pairs_in,
    label_roots,
    roots_of,
    topmost,
)
from beam_pipeline.storage import files
from beam_pipeline.storage.local_listing import list_local_root

DETECT, SEGMENT, POSE, OBB = YOLO_TASKS
README = "readme"

_BOX = 5  # columns of a class and its box
_CORNERS = 9  # of a class and four corners
_LEAST_OUTLINE = 7  # of a class and three points
_HIDDEN, _VISIBLE = 0, 2  # as in COCO
_TXT = ".txt"
_LOOKED_AT_REMOTE = 10
_LOOKED_AT = 50  # label files from which the task is guessed
_HEAD_BYTES = 64 << 10
_MASKS = OBJECT_FEATURES[0]


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
            where = ", ".join(map(shown, folders, options.labels))
            return f"label files of YOLO in {where}"
        reasons = []
        for path in options.images:
            reason = _recognise(path) if path.strip() else ""
            if not reason:
                return ""
            reasons.append(reason)
        return "; ".join(reasons)

    def open(self, options: SourceOptions) -> Source:
        """Finds the images, the label files, the classes and the splits.

        Raises:
          UsageError: something is missing, an image is in two splits, or files disagree on classes.
        """
        if options.labels:
            typed = label_folders(options.labels, LABEL_FILES, "label files of YOLO")
            roots = image_roots(options.images)
            found = Found([FolderPair("", folder.uri) for folder in typed])
            find_class_files(found, [root.uri for root in roots])
        else:
            found = Found()
            for path in options.images:
                find(path, found)
            roots = roots_of([pair.images for pair in found.pairs])
        lines, questions = _line_format(options, found)
        folders = tuple((pair.images, pair.split) for pair in found.pairs if pair.split)
        places = tuple(Place(pair.labels, pair.images) for pair in found.pairs)
        splits = Splits(found.listed, folders)
        reader = LabelFileReader(lines, places, splits, frozenset(found.skipped))
        notes, more_questions = _missing_labels(found, roots)
        if found.names is None:
            notes = (*notes, "nothing names the classes, so their numbers are their names")
        if lines.task == SEGMENT and not lines.masks:
            notes = (
                *notes,
                "of outlines, the boxes around them are written; --object_features masks adds a mask "
                "of each object",
            )
        return Source(
            layout=self.name,
            roots=roots,
            labels=FileLabels(reader, folders=label_roots(found.pairs), unnamed=reader),
            examples=LabelledImages(lines.columns),
            numbering=_numbering(found.names),
            notes=(*found.notes, *notes),
            questions=(*questions, *more_questions),
        )


def _numbering(names: Mapping[int, str] | None) -> ClassNumbering:
    """Numbers the classes by the ids in the label files."""
    if names is None:
        return ClassNumbering(from_name=True)
    return ClassNumbering(known=tuple((name, i) for i, name in names.items()))


def _recognise(path: str) -> str:
    """Returns the reason why a path of --images is YOLO's; empty if it is not."""
    uri = files.canonical(path)
    if uri.lower().endswith(YAML_SUFFIXES):
        return f"{posixpath.basename(uri)} describes a data set of YOLO"
    pairs = folder_pairs_in(uri)
    try:
        description = description_in(uri)
    except UsageError:  # open() reports the fault
        description = None
    if description:
        return f"{posixpath.basename(description.uri)} in {shown(uri, path)}"
    for pair in pairs:
        if not _holds_labels(pair.labels):
            continue
        if pair.images == pair.labels:
            return f"label files of YOLO beside the images in {shown(pair.images, path)}"
        labels, images = (shown(folder, path) for folder in (pair.labels, pair.images))
        return f"label files of YOLO in {labels}, for the images in {images}"
    return ""


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
    most = _LOOKED_AT_REMOTE if is_remote(folder) else _LOOKED_AT
    for uri in islice(_first_labels(folder), most):
        name = posixpath.basename(uri).lower()
        if name in named or name.startswith(README):
            continue
        lengths = _lengths_of(uri)
        if lengths != []:
            score += -1 if lengths is None else 1
    return score > 0


def _line_format(options: SourceOptions, found: Found) -> tuple[LineFormat, tuple[Question, ...]]:
    """Returns the format of all lines, and the questions about it.

    Raises:
      UsageError: key points without a description, or masks without outlines.
    """
    questions: tuple[Question, ...] = ()
    task = options.yolo_task or (POSE if found.keypoints else "")
    if not task:
        task = guess_task(_sampled_lengths(found))
        if " or " in task:
            question = Question(
                "turned_boxes_or_outlines",
                f"all lines looked at have 9 columns: boxes that are turned ({OBB}) or outlines of "
                f"four points ({SEGMENT}); say which with --yolo_task {OBB} or --yolo_task {SEGMENT}",
            )
            questions, task = (question,), SEGMENT
    masks = _MASKS in options.object_features
    if masks and task != SEGMENT:
        raise UsageError(
            f"--object_features {_MASKS}: the label files have no outlines (--yolo_task is {task})"
        )
    if task == POSE and not found.keypoints:
        raise UsageError(
            "label files of key points need kpt_shape, [number of key points, 2 or 3], in "
            f"{USUAL_YAML[0]}; name that file with --images"
        )
    keypoints, dimensions = found.keypoints or (0, 2)
    return LineFormat(
        task=task, names=found.names, keypoints=keypoints, dimensions=dimensions, masks=masks
    ), questions


def _sampled_lengths(found: Found) -> list[int]:
    lengths: list[int] = []
    for folder in topmost(pair.labels for pair in found.pairs):
        uris = (uri for uri in _first_labels(folder) if uri not in found.skipped)
        for uri in islice(uris, _LOOKED_AT):
            lengths += _lengths_of(uri) or []
    return lengths


def _missing_labels(
    found: Found, roots: Sequence[ImageRoot]
) -> tuple[tuple[str, ...], tuple[Question, ...]]:
    """Returns (notes, questions) about images without a label file; none for remote folders.

    If no image of a folder has one, the folder may be unlabelled instead.
    """
    notes: list[str] = []
    questions: list[Question] = []
    if any(is_remote(root.uri) for root in roots):
        return (), ()
    images = missing = unlisted = 0
    for pair in found.pairs:
        folders = [ImageRoot(pair.images)] if pair.images else roots
        stems = _stems(folders)
        labelled = _stems([ImageRoot(pair.labels, (LABEL_FILES,))])
        without = len(stems - labelled)
        images, missing = images + len(stems), missing + without
        if stems and without == len(stems) and pair.images:
            reason = (
                f"none of the {without} images in {pair.images} has a label file in {pair.labels}, "
                "so all of them would count as images without objects; leave the folder out if they "
                "are not labelled"
            )
            questions.append(Question("folder_without_labels", reason))
        if found.listed and pair.images and not pair.split:
            unlisted += sum(f"{pair.images}/{stem}" not in found.listed for stem in stems)
    if missing:
        notes.append(
            f"{missing} of {images} images have no label file and count as images without objects, "
            "as in Ultralytics"
        )
    if unlisted:
        notes.append(
            f"{unlisted} of {images} images are in no list file, so they go to a split {UNLISTED!r} "
            "unless --splits is given"
        )
    return tuple(notes), tuple(questions)


def _stems(roots: Sequence[ImageRoot]) -> set[str]:
    """Returns the paths of the files in local folders, without extension."""
    return {
        posixpath.splitext(found.key)[0]
        for root in roots
        if os.path.isdir(root.uri)
        for listed in list_local_root(root, _HEAD_BYTES)
        for found in listed.images
    }


# --- lines ---------------------------------------------------------------------------------------


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
