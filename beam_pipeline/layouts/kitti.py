"""KITTI's object detection set, and sets with the same structure: a text file for each image.

    training/image_2/000000.png     training/label_2/000000.txt     ImageSets/train.txt

A label file has one line per object, of 15 columns separated by spaces. Source: the readme of KITTI's object
development kit (http://www.cvlibs.net/datasets/kitti).
"""

from __future__ import annotations

import posixpath
from functools import partial
from typing import Any

from beam_pipeline.core.errors import UsageError
from beam_pipeline.core.labels.classes import ClassNumbering
from beam_pipeline.core.labels.schema import Column, ColumnKind, object_column, object_columns
from beam_pipeline.core.records.example_source import LabelledImages
from beam_pipeline.core.text import counted
from beam_pipeline.layouts import label_files
from beam_pipeline.layouts.layout import FileLabels, Source, SourceOptions
from beam_pipeline.layouts.paths import image_roots
from beam_pipeline.layouts.tree import beginning, files_of, first_folder, has_folder, stems_of
from beam_pipeline.storage import files

_IMAGES, _LABELS, _LISTS = "image_2", "label_2", "ImageSets"
_TXT = ".txt"
_HEAD_BYTES = 4096
_LOOKED_AT = 10  # label files to search for one that is not empty


class Kitti:
    """Each image has a label file with its objects, their boxes and their position in space."""

    name = "kitti"
    option_names = frozenset({"label_base", "label_order"})

    def recognise(self, options: SourceOptions) -> str:
        """Recognises the folders' names, or label files of 15 columns in the folder of --labels."""
        if options.labels:
            locate, kind = partial(_folder, name=_LABELS, or_itself=True), "label files of KITTI"
            return label_files.reason_of_labels(options.labels, _is_label_folder, kind, locate)
        folders = [_folder(path, _IMAGES) for path in options.images]
        if not all(map(_labels_beside, folders)):
            return ""
        where = map(label_files.typed_path, map(posixpath.dirname, folders), options.images)
        return f"{_IMAGES}/ beside {_LABELS}/ in {', '.join(where)}"

    def open(self, options: SourceOptions) -> Source:
        """Finds the folders of the images and of their labels.

        Raises:
          UsageError: one of the two is missing, or label files are.
        """
        images = [_folder(path, _IMAGES) or path for path in options.images]
        labels = [_folder(path, _LABELS) or path for path in options.labels]
        for path in () if labels else images:
            if not (beside := _labels_beside(path)):
                raise UsageError(
                    f"--images {path}: no {_IMAGES}/ beside {_LABELS}/ in it or in its training/; put "
                    "KITTI's label files there, or name their folder with --labels"
                )
            labels.append(beside)
        folders = label_files.label_folders(labels, f"*{_TXT}", f"label files of KITTI (*{_TXT})")
        # beside training/; test.txt is of testing/, whose images lack labels and share their names
        above = [
            posixpath.dirname(posixpath.dirname(files.canonical(path)))
            for path in images
            if posixpath.basename(path) == _IMAGES
        ]
        lists = label_files.read_split_lists(
            [f"{folder}/{_LISTS}" for folder in above], ("train", "val")
        )
        places = tuple(label_files.Place(folder.uri, bare=True) for folder in folders)
        reader = label_files.LabelFileReader(
            KittiFormat(), places, label_files.Splits(lists.splits, bare=True)
        )
        base = options.numbering(base=1).base
        stems = [name for root in folders if lists.names for name in stems_of(root.uri, _TXT)]
        known = tuple((name, i) for i, name in enumerate(OBJECT_TYPES, base))
        return Source(
            layout=self.name,
            roots=image_roots(images),
            labels=FileLabels(reader, folders=folders),
            examples=LabelledImages(COLUMNS),
            numbering=ClassNumbering(base, options.label_order, known=known),
            notes=lists.notes(stems, "label files", _LISTS),
        )


def _folder(path: str, name: str, *, or_itself: bool = False) -> str:
    """The folder of a name that a typed path is, or that is in it or in its training/; else empty, or the path."""
    if not path.strip():
        return ""
    uri = files.canonical(path)
    if posixpath.basename(uri) == name:
        return uri
    return first_folder(f"{uri}/{name}", f"{uri}/training/{name}") or (uri if or_itself else "")


def _labels_beside(images: str) -> str:
    """The folder label_2/ beside a folder image_2/; empty for none, and beside any other folder."""
    labels = f"{posixpath.dirname(images)}/{_LABELS}"
    return labels if posixpath.basename(images) == _IMAGES and has_folder(labels) else ""


def _is_label_folder(uri: str) -> bool:
    """True if a folder is called label_2/, or its first label file with lines is KITTI's."""
    if posixpath.basename(uri) == _LABELS and has_folder(uri):
        return True
    heads = (beginning(each, _HEAD_BYTES).strip() for each in files_of(uri, _TXT)[:_LOOKED_AT])
    first = next(filter(None, heads), b"").partition(b"\n")[0]
    try:
        return bool(label_files.rows_of_lines(first, _row))
    except label_files.BadLabelError:
        return False


# --- label files ---------------------------------------------------------------------------------

OBJECT_TYPES = (
    *("Car", "Van", "Truck", "Pedestrian"),
    *("Person_sitting", "Cyclist", "Tram", "Misc"),
)
"""The types of objects, in the order of the readme."""

IGNORED_TYPE = "dontcare"
"""The type of regions with unlabelled objects, in lower case; KITTI writes DontCare."""

_NUMBERS = (
    *("truncated", "occluded", "alpha", "left", "top", "right", "bottom"),
    *("height", "width", "length", "x", "y", "z", "rotation_y"),
)
_FIELDS = 1 + len(_NUMBERS)

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


class KittiFormat(label_files.LabelFormat):
    """Lines of 15 columns."""

    columns = COLUMNS

    def parse(self, data: bytes, uri: str) -> label_files.ImageLabels:
        """Parses a label file. Boxes are in 0-based pixels, as written; without lines, there are none."""
        objects: list[tuple[Any, ...]] = []
        ignored = []
        for row in label_files.rows_of_lines(data, _row):
            if row[1].lower() == IGNORED_TYPE:
                ignored.append(row[0])
            else:
                objects.append(row)
        columns = zip(*objects, strict=True) if objects else self.nothing[:-1]
        return label_files.ImageLabels((*columns, tuple(ignored)))


def _row(fields: list[str], line: int) -> tuple[Any, ...]:
    """The box, type and further numbers of a line. Raises BadLabelError."""
    if len(fields) != _FIELDS:
        score = "; a 16th is the score of a detector's results, which are not labels"
        raise label_files.BadLabelError(
            f"{counted(len(fields), 'column')}, expected the {_FIELDS} of KITTI's labels: type, "
            f"{', '.join(_NUMBERS)}{score if len(fields) == _FIELDS + 1 else ''}"
        )
    truncated, occluded, alpha, left, top, right, bottom, *box_3d = (
        label_files.number(text, name, ColumnKind.INT64 if name == "occluded" else ColumnKind.FLOAT)
        for name, text in zip(_NUMBERS, fields[1:], strict=True)
    )
    return (left, top, right, bottom, line), fields[0], truncated, occluded, alpha, *box_3d
