"""KITTI's object detection set, and sets with the same structure: a text file for each image.

    training/image_2/000000.png     training/label_2/000000.txt     ImageSets/train.txt

A label file has one line per object, of 15 columns separated by spaces. Source: the readme of KITTI's object
development kit (http://www.cvlibs.net/datasets/kitti).
"""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from beam_pipeline.core.errors import UsageError
from beam_pipeline.core.labels.cells import parse_number
from beam_pipeline.core.labels.classes import ClassNumbering
from beam_pipeline.core.labels.schema import Column, ColumnKind, object_column, object_columns
from beam_pipeline.core.records.example_source import LabelledImages
from beam_pipeline.core.references import Box
from beam_pipeline.core.text import counted
from beam_pipeline.layouts.label_files import (
    BadLabelError,
    ImageLabels,
    LabelFileReader,
    LabelFormat,
    Place,
    Splits,
    fields_of_lines,
    label_folders,
    read_split_lists,
    typed_path,
)
from beam_pipeline.layouts.layout import FileLabels, Source, SourceOptions
from beam_pipeline.layouts.paths import image_roots
from beam_pipeline.layouts.tree import beginning, files_of, first_folder, has_folder, stems_of
from beam_pipeline.storage import files

_IMAGES, _LABELS, _TRAINING = "image_2", "label_2", "training"
_TXT = ".txt"
_LABEL_FILES = f"*{_TXT}"
_LISTS = "ImageSets"
_LISTED = ("train", "val")
_HEAD_BYTES = 4096
_LOOKED_AT = 10  # label files to search for one that is not empty


class Kitti:
    """Each image has a label file with its objects, their boxes and their position in space."""

    name = "kitti"
    option_names = frozenset({"label_base", "label_order"})

    def recognise(self, options: SourceOptions) -> str:
        """Recognises the folders' names, or label files of 15 columns in the folder of --labels."""
        if options.labels:
            labels = [_label_folder(path) for path in options.labels]
            if not all(map(_is_label_folder, labels)):
                return ""
            where = ", ".join(map(typed_path, map(files.canonical, labels), options.labels))
            return f"label files of KITTI in {where}"
        folders = [_training_folder(path) for path in options.images]
        if not all(folder and has_folder(f"{folder}/{_LABELS}") for folder in folders):
            return ""
        return (
            f"{_IMAGES}/ beside {_LABELS}/ in {', '.join(map(typed_path, folders, options.images))}"
        )

    def open(self, options: SourceOptions) -> Source:
        """Finds the folders of the images and of their labels.

        Raises:
          UsageError: one of the two is missing, or label files are.
        """
        images = [_image_folder(path, required=not options.labels) for path in options.images]
        if options.labels:
            typed = [_label_folder(path) for path in options.labels]
        else:
            typed = [f"{posixpath.dirname(folder)}/{_LABELS}" for folder in images]
            for folder in typed:
                if not has_folder(folder):
                    raise UsageError(
                        f"--layout kitti: no {_LABELS}/ beside {posixpath.dirname(folder)}/"
                        f"{_IMAGES}; put KITTI's label files there, or name their folder with "
                        "--labels"
                    )
        folders = label_folders(typed, _LABEL_FILES, f"label files of KITTI ({_LABEL_FILES})")
        lists = read_split_lists([_list_folder(folder) for folder in images], _LISTED)
        places = tuple(Place(folder.uri, bare=True) for folder in folders)
        reader = LabelFileReader(KittiFormat(), places, Splits(lists.splits, bare=True))
        base = options.numbering(base=1).base
        stems = [name for root in folders if lists.names for name in stems_of(root.uri, _TXT)]
        return Source(
            layout=self.name,
            roots=image_roots(images),
            labels=FileLabels(reader, folders=folders),
            examples=LabelledImages(COLUMNS),
            numbering=ClassNumbering(
                base,
                options.label_order,
                known=tuple(zip(OBJECT_TYPES, range(base, base + len(OBJECT_TYPES)), strict=True)),
            ),
            notes=lists.notes(stems, "label files", _LISTS),
        )


def _training_folder(path: str) -> str:
    """Returns the URI of the folder that contains image_2/, or empty."""
    if not path.strip():
        return ""
    uri = files.canonical(path)
    if posixpath.basename(uri) == _IMAGES:
        return posixpath.dirname(uri)
    return posixpath.dirname(first_folder(f"{uri}/{_IMAGES}", f"{uri}/{_TRAINING}/{_IMAGES}"))


def _image_folder(path: str, *, required: bool) -> str:
    """Returns the folder of images for a path of --images; the path itself without image_2/.

    Raises:
      UsageError: it has none, although one is required.
    """
    folder = _training_folder(path)
    if folder:
        return f"{folder}/{_IMAGES}"
    if required:
        raise UsageError(
            f"--images {path}: no folder {_IMAGES}/ or {_TRAINING}/{_IMAGES}/ in it; --layout kitti "
            f"expects {_IMAGES}/ beside {_LABELS}/, or the folder of label files with --labels"
        )
    return path


def _list_folder(images: str) -> str:
    """Returns the folder of lists beside training/ for a folder image_2/; empty for any other folder.

    Its test.txt is of testing/, whose images lack labels and share their names with those in training/.
    """
    uri = files.canonical(images)
    if posixpath.basename(uri) != _IMAGES:
        return ""
    return f"{posixpath.dirname(posixpath.dirname(uri))}/{_LISTS}"


def _label_folder(path: str) -> str:
    """Returns the folder of label files for a path of --labels; the path itself if it has none."""
    if not path.strip():
        return path
    uri = files.canonical(path)
    return first_folder(f"{uri}/{_LABELS}", f"{uri}/{_TRAINING}/{_LABELS}") or path


def _is_label_folder(path: str) -> bool:
    """True if a folder is called label_2/, or its first label file with lines is KITTI's."""
    if not path.strip():
        return False
    uri = files.canonical(path)
    if posixpath.basename(uri) == _LABELS and has_folder(uri):
        return True
    for label_file in files_of(uri, _TXT)[:_LOOKED_AT]:
        lines = [fields for _, fields in fields_of_lines(beginning(label_file, _HEAD_BYTES))]
        if lines:
            return _is_label(lines[0])
    return False


def _is_label(fields: Sequence[bytes]) -> bool:
    try:
        _parse_line(fields)
    except ValueError:
        return False
    return True


# --- label files ---------------------------------------------------------------------------------

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
"""The label columns; rotation_y is called rot_y, like in the TensorFlow Model Garden."""


@dataclass(frozen=True)
class KittiFormat(LabelFormat):
    """Lines of 15 columns."""

    @property
    def columns(self) -> tuple[Column, ...]:
        return COLUMNS

    def parse(self, data: bytes, uri: str) -> ImageLabels:
        """Parses a label file. Boxes are in 0-based pixels, as written; without lines, there are none."""
        objects: list[tuple[Any, ...]] = []
        ignored: list[Box] = []
        for line, fields in fields_of_lines(data):
            try:
                kind, numbers = _parse_line(fields)
            except ValueError as error:
                raise BadLabelError(str(error), line) from error
            truncated, occluded, alpha, left, top, right, bottom, *box_3d = numbers
            box = (left, top, right, bottom, line)
            if kind.lower() == IGNORED_TYPE:
                ignored.append(box)
            else:
                objects.append((box, kind, truncated, occluded, alpha, *box_3d))
        columns = zip(*objects, strict=True) if objects else ((),) * (len(COLUMNS) - 1)
        return ImageLabels((*columns, tuple(ignored)))


def _parse_line(fields: Sequence[bytes]) -> tuple[str, list[float]]:
    """Returns (type, the 14 numbers) of a line."""
    if len(fields) != _FIELDS:
        hint = (
            "; a 16th is the score of a detector's results, which are not labels"
            if len(fields) == _WITH_SCORE
            else ""
        )
        raise ValueError(
            f"{counted(len(fields), 'column')}, expected the {_FIELDS} of KITTI's labels: type, "
            f"{', '.join(_NUMBERS)}{hint}"
        )
    try:
        kind = fields[0].decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"the type {fields[0]!r} is not UTF-8; save the file as UTF-8") from error
    return kind, [
        _parse_number(name, field) for name, field in zip(_NUMBERS, fields[1:], strict=True)
    ]


def _parse_number(name: str, field: bytes) -> float:
    integer = name in _INTEGERS
    try:
        return parse_number(field.decode(), ColumnKind.INT64 if integer else ColumnKind.FLOAT)
    except ValueError as error:
        expected = "an integer" if integer else "a number"
        raise ValueError(
            f"{name} is {field.decode('utf-8', 'backslashreplace')!r}, expected {expected}"
        ) from error
