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
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, islice
from typing import Any

from beam_pipeline.core.errors import UsageError
from beam_pipeline.core.labels import classes, schema
from beam_pipeline.core.listing.filters import ImageRoot
from beam_pipeline.core.listing.folders import SPLIT_NAMES
from beam_pipeline.core.questions import Question
from beam_pipeline.core.records.example_source import LabelledImages
from beam_pipeline.core.text import counted
from beam_pipeline.core.uris import is_remote
from beam_pipeline.layouts import label_files, layout, paths, tree, yolo_data_set
from beam_pipeline.storage import files
from beam_pipeline.storage.listing import list_local_root

DETECT, SEGMENT, POSE, OBB = schema.YOLO_TASKS
README = "readme"
_TITLE = "label files of YOLO"

_BOX = 5  # columns of a class and its box
_CORNERS = 9  # of a class and four corners
_LEAST_OUTLINE = 7  # of a class and three points
_ENOUGH_LINES = 5  # of as many columns each, which outlines rarely have
_LOOKED_AT, _LOOKED_AT_REMOTE = 50, 10  # label files for guessing the task
_HEAD_BYTES = 64 << 10
_MASKS = schema.OBJECT_FEATURES[0]


class Yolo:
    """Each image has a text file with one line per object."""

    name = "yolo"
    option_names = frozenset({"object_features", "yolo_task"})

    def recognise(self, options: layout.SourceOptions) -> str:
        """Recognises `data.yaml`, or label files with a class and fractions in each line."""
        if options.labels:
            uris = [*map(files.canonical, options.labels)]
            typed = map(label_files.typed_path, uris, options.labels)
            return f"{_TITLE} in {', '.join(typed)}" if all(map(_holds_labels, uris)) else ""
        reasons = [*map(_recognise, options.images)]
        return "; ".join(reasons) if all(reasons) else ""

    def open(self, options: layout.SourceOptions) -> layout.Source:
        """Finds the images, the label files, the classes and the splits.

        Raises:
          UsageError: something is missing, or an image is in two splits.
          LabelTableError: files disagree on the classes.
        """
        data = yolo_data_set.DataSet()
        if options.labels:
            typed = label_files.label_folders(options.labels, yolo_data_set.LABEL_FILES, _TITLE)
            roots = paths.image_roots(options.images)
            data.pairs = [label_files.FolderPair("", folder.uri) for folder in typed]
            data.find_class_files([root.uri for root in roots])
        else:
            for path in options.images:
                data.add(path)
            roots = yolo_data_set.roots_of([pair.images for pair in data.pairs])
        lines, questions = _line_format(options, data)
        if not any(is_remote(root.uri) for root in roots):
            questions += _unlabelled_images(data, roots, options)
        if not lines.names:
            data.notes.append("nothing names the classes, so their numbers are their names")
        if lines.task == SEGMENT and not lines.masks:
            data.notes.append(
                "of outlines, the boxes around them are written; --object_features masks adds a mask "
                "of each object"
            )
        ids = tuple((name, i) for i, name in sorted(lines.names.items()))
        splits = tuple((pair.images, pair.split) for pair in data.pairs if pair.split)
        reader = label_files.LabelFileReader(
            lines,
            tuple(label_files.Place(pair.labels, pair.images) for pair in data.pairs),
            label_files.Splits(data.listed, splits),
            frozenset(data.skipped),
        )
        folders = yolo_data_set.label_roots(data.pairs)
        return layout.Source(
            layout=self.name,
            roots=roots,
            labels=layout.FileLabels(reader, folders=folders, unnamed=reader),
            examples=LabelledImages(lines.columns),
            numbering=classes.ClassNumbering(known=ids, from_name=not ids),
            notes=tuple(data.notes),
            questions=tuple(questions),
        )


def _recognise(path: str) -> str:
    """Returns the reason why a path of --images is YOLO's; empty if it is not."""
    uri = files.canonical(path)
    if uri.lower().endswith(yolo_data_set.YAML_SUFFIXES):
        return f"{posixpath.basename(uri)} describes a data set of YOLO"
    with suppress(UsageError):  # open() reports the fault
        if description := yolo_data_set.description_in(uri):
            return f"{posixpath.basename(description.uri)} in {label_files.typed_path(uri, path)}"
    for pair in yolo_data_set.folder_pairs_in(uri):
        if _holds_labels(pair.labels):
            return f"{_TITLE} in {label_files.typed_path(pair.labels, path)}"
    return ""


# --- label files ---------------------------------------------------------------------------------


def _first_labels(folder: str) -> Iterator[str]:
    """Returns the URIs of some label files of a folder, the same ones each time."""
    yield from tree.names_in(folder).of_kind(".txt")
    for below in tree.subfolders(folder):
        yield from _first_labels(below)


def _holds_labels(folder: str) -> bool:
    """True if most of the first non-empty label files of a folder are YOLO's."""
    named = (*yolo_data_set.CLASS_FILES, *(f"{name}.txt" for name in SPLIT_NAMES))
    most = _LOOKED_AT_REMOTE if is_remote(folder) else _LOOKED_AT
    score = 0
    for uri in islice(_first_labels(folder), most):
        name = posixpath.basename(uri).lower()
        if name not in named and not name.startswith(README):
            lengths = _first_lengths(uri)
            score += -1 if lengths is None else bool(lengths)
    return score > 0


def _first_lengths(uri: str) -> list[int] | None:
    data = tree.beginning(uri, _HEAD_BYTES)
    if len(data) == _HEAD_BYTES:  # its last line may be incomplete
        data = data.rpartition(b"\n")[0]
    return line_lengths(data)


def line_lengths(data: bytes) -> list[int] | None:
    """Returns the number of columns of each line; None if a line is not YOLO's: a class and fractions."""

    def length(fields: list[str], line: int) -> int:
        number_, *box = [label_files.number(text, "") for text in fields][:_BOX]
        if len(fields) < _BOX or number_ < 0 or number_ % 1 or not all(-1 <= v <= 2 for v in box):
            raise label_files.BadLabelError("not of YOLO", line)
        return len(fields)

    try:
        return label_files.rows_of_lines(data, length)
    except label_files.BadLabelError:
        return None


def _line_format(
    options: layout.SourceOptions, data: yolo_data_set.DataSet
) -> tuple[LineFormat, list[Question]]:
    """Returns the format of all lines, and the questions about it.

    Raises:
      UsageError: key points without a description, or masks without outlines.
      LabelTableError: files disagree on the classes.
    """
    questions = []
    masks = _MASKS in options.object_features
    task = options.yolo_task or (POSE if data.keypoints else "")
    if not task:
        folders = yolo_data_set.topmost(pair.labels for pair in data.pairs)
        labels = ((uri for uri in _first_labels(f) if uri not in data.skipped) for f in folders)
        first = chain.from_iterable(islice(uris, _LOOKED_AT) for uris in labels)
        every = [length for uri in first for length in _first_lengths(uri) or ()] or [_BOX]
        lengths, longest = {*every}, max(every)
        is_pose = len(lengths) == 1 and not longest % 2
        task = DETECT if longest < _LEAST_OUTLINE else POSE if is_pose else SEGMENT
        named_by = (uri.lower() for uri, names in data.class_names.items() if names)
        described = any(uri.endswith(yolo_data_set.YAML_SUFFIXES) for uri in named_by)
        enough = len(every) >= _ENOUGH_LINES and not (masks or described)
        if task == SEGMENT and len(lengths) == 1 and (enough or longest == _CORNERS):
            boxes = f"boxes with key points, which need kpt_shape in {yolo_data_set.USUAL_YAML[0]}"
            boxes = f"turned boxes (--yolo_task {OBB})" if longest == _CORNERS else boxes
            reason = f"all lines looked at have {longest} columns: outlines of {longest // 2} points, or {boxes}."
            advice = f"--yolo_task {SEGMENT} confirms outlines."
            questions = [Question("boxes_or_outlines", reason, advice)]
    if masks and task != SEGMENT:
        raise UsageError(
            f"--object_features {_MASKS}: the label files lack outlines (--yolo_task is {task})"
        )
    if task == POSE and not data.keypoints:
        raise UsageError(
            "label files of key points need kpt_shape, [number of key points, 2 or 3], in "
            f"{yolo_data_set.USUAL_YAML[0]}; name that file with --images"
        )
    names = label_files.common_categories(data.class_names)
    return LineFormat(task, names, *(data.keypoints or (0, 2)), masks=masks), questions


def _unlabelled_images(
    data: yolo_data_set.DataSet, roots: Sequence[ImageRoot], options: layout.SourceOptions
) -> Iterator[Question]:
    """Notes images in local folders that have no label file, if they count as images without objects.

    Yields: a question for each folder none of whose images has a label file; it may be unlabelled.
    """
    images = missing = 0
    for pair in data.pairs if options.unlabelled in ("auto", "empty") else ():
        stems = _stems([ImageRoot(pair.images)] if pair.images else roots)
        without = len(stems - _stems([ImageRoot(pair.labels, (yolo_data_set.LABEL_FILES,))]))
        images, missing = images + len(stems), missing + without
        if stems and without == len(stems) and pair.images:
            yield Question(
                "folder_without_labels",
                f"none of the {without} images in {pair.images} has a label file in {pair.labels}, "
                "so all of them would count as images without objects; leave the folder out if they "
                "are not labelled, or all such images with --unlabelled drop",
            )
    if missing:
        data.notes.append(
            f"{missing} of {images} images lack a label file and count as images without objects, as in Ultralytics; "
            "--unlabelled drop leaves them out"
        )


def _stems(roots: Sequence[ImageRoot]) -> set[str]:
    """Returns the paths of the files in local folders, without extension."""
    listed = chain.from_iterable(list_local_root(r, 1 << 16) for r in roots if os.path.isdir(r.uri))
    return {posixpath.splitext(image.key)[0] for batch in listed for image in batch.images}


# --- lines ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LineFormat(label_files.LabelFormat):
    """The format of the lines of all label files.

    Attributes:
      task: a YOLO task.
      names: class id -> name; empty if no file names them, so that the ids serve as names.
      keypoints: key points per object.
      dimensions: values per key point: 2, or 3 with its visibility.
      masks: True to keep outlines and draw masks from them.
    """

    task: str = DETECT
    names: Mapping[int, str] = field(default_factory=dict)
    keypoints: int = 0
    dimensions: int = 2
    masks: bool = False

    @property
    def columns(self) -> tuple[schema.Column, ...]:
        """The label columns."""
        further: tuple[schema.Column, ...] = ()
        if self.task == SEGMENT and self.masks:
            further = (schema.mask_column(pixels=False),)
        elif self.task == POSE:
            further = schema.keypoint_columns(pixels=False)
        elif self.task == OBB:
            further = (schema.object_column("corner", schema.ColumnKind.POINT, pixels=False),)
        return (*schema.object_columns(pixels=False), *further)

    def skips(self, name: str) -> bool:
        return name.lower().startswith(README)

    def parse(self, data: bytes, uri: str) -> label_files.ImageLabels:
        """Parses a label file; without lines, the image is without objects. Points of all are concatenated."""
        values = [
            tuple(chain.from_iterable(items)) if isinstance(items[0], list) else items
            for items in zip(*label_files.rows_of_lines(data, self._object), strict=True)
        ]
        return label_files.ImageLabels(tuple(values) or self.nothing)

    def _object(self, fields: list[str], line: int) -> tuple[Any, ...]:
        """Returns the values of one object, in the order of the columns; points are lists."""
        self._check_length(len(fields))
        name = self._class(fields[0])
        numbers = [label_files.number(field, "a value") for field in fields[1:]]
        if len(numbers) == 4 or self.task == POSE:
            x, y, width, height = numbers[:4]
            left, top, right, bottom = x - width / 2, y - height / 2, x + width / 2, y + height / 2
            points = [left, top, right, top, right, bottom, left, bottom]
        else:
            points, xs, ys = numbers, numbers[::2], numbers[1::2]
            left, top, right, bottom = min(xs), min(ys), max(xs), max(ys)
        box = (left, top, right, bottom, line)
        if self.task == POSE:
            return (box, name, *self._keypoints(numbers[4:]))
        if self.task == OBB:
            return box, name, points
        return (box, name, json.dumps([points])) if self.masks else (box, name)

    @cached_property
    def _length(self) -> tuple[int, str]:
        """The number of columns of a line that is not an outline, and what they are."""
        points = f"{self.keypoints} key points of {self.dimensions} values"
        of_box = f"the {_BOX} of a class and its box"
        of_points = _BOX + self.keypoints * self.dimensions
        return {
            DETECT: (_BOX, of_box),
            SEGMENT: (_BOX, f"a class and the points of its outline, or {of_box}"),
            POSE: (of_points, f"the {of_points} of a class, its box and {points}"),
            OBB: (_CORNERS, f"the {_CORNERS} of a class and four corners"),
        }[self.task]

    def _check_length(self, length: int) -> None:
        right, expected = self._length
        is_outline = length >= _LEAST_OUTLINE and length % 2 == 1
        if length == right or (is_outline and self.task == SEGMENT):
            return
        hint = ""
        if length == _BOX + 1:
            hint = "; a label lacks a column for the confidence of a model's results"
        elif is_outline and self.task == DETECT:
            hint = f"; --yolo_task {SEGMENT} or {OBB} reads outlines"
        raise label_files.BadLabelError(f"{counted(length, 'column')}, expected {expected}{hint}")

    def _class(self, field: str) -> str:
        i = label_files.number(field, "the class")
        if i < 0 or i % 1:
            expected = "expected a whole number from 0 on"
            raise label_files.BadLabelError(f"the class is {field!r}, {expected}")
        if self.names and int(i) not in self.names:
            raise label_files.BadLabelError(
                f"class {int(i)} is not among the {len(self.names)} names, which end at "
                f"{max(self.names)}; add its name to them"
            )
        return self.names.get(int(i), str(int(i)))

    def _keypoints(self, numbers: Sequence[float]) -> tuple[Any, ...]:
        """Returns (x, y of all points, visibility of each as in COCO, number of labelled points)."""
        step = self.dimensions
        points = [numbers[i : i + step] for i in range(0, len(numbers), step)]
        if step == 2:  # as Ultralytics does
            visible = [0 if min(point) < 0 else 2 for point in points]
        else:
            visible = [int(point[2]) for point in points]
        coordinates = [value for point in points for value in point[:2]]
        return coordinates, visible, sum(flag > 0 for flag in visible)
