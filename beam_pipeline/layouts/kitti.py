"""KITTI's object detection set, and sets with the same structure: a text file for each image.

    training/image_2/000000.png     training/label_2/000000.txt     ImageSets/train.txt

A label file has one line per object, of 15 columns separated by spaces. Source: the readme of KITTI's object
development kit (http://www.cvlibs.net/datasets/kitti).
"""

from __future__ import annotations

import posixpath
from typing import Any

from beam_pipeline.core.labels.schema import Column, ColumnKind, object_column, object_columns
from beam_pipeline.core.text import counted
from beam_pipeline.layouts import label_files, tree

_IMAGES, _LABELS, _LISTS = "image_2", "label_2", "ImageSets"
_PLACES = ("", "training")


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
        rows = label_files.rows_of_lines(data, _row)
        objects = [row for row in rows if row[1].lower() != IGNORED_TYPE]
        ignored = tuple(row[0] for row in rows if row[1].lower() == IGNORED_TYPE)
        columns = zip(*objects, strict=True) if objects else self.nothing[:-1]
        return label_files.ImageLabels((*columns, ignored))


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


# --- layout --------------------------------------------------------------------------------------


class Kitti(label_files.FolderLayout):
    """Each image has a label file with its objects, their boxes and their position in space."""

    name = "kitti"
    option_names = frozenset({"label_base", "label_order"})
    title = ".txt files of KITTI"
    expected = f"{_IMAGES}/ beside {_LABELS}/ in it or in its training/"
    format, classes = KittiFormat(), OBJECT_TYPES
    pattern, suffix = "*.txt", ".txt"
    listed = ("train", "val")

    def pairs(self, uri: str) -> list[label_files.FolderPair]:
        return [
            label_files.FolderPair(
                f"{home}/{_IMAGES}",
                f"{home}/{_LABELS}" if tree.has_folder(f"{home}/{_LABELS}") else "",
                # beside training/; test.txt is of testing/, whose images lack labels and share their names
                f"{posixpath.dirname(home)}/{_LISTS}",
            )
            for home in tree.homes(_IMAGES, uri, _PLACES)[:1]
        ]

    def label_folder(self, path: str) -> str:
        uri = super().label_folder(path)
        return next((f"{home}/{_LABELS}" for home in tree.homes(_LABELS, uri, _PLACES)), uri)

    def begins(self, head: bytes) -> bool:
        try:
            return bool(label_files.rows_of_lines(head.partition(b"\n")[0], _row))
        except label_files.BadLabelError:
            return False

    def fits(self, folder: str) -> bool:
        """True if a folder is called label_2/, or has label files of KITTI."""
        is_usual = posixpath.basename(folder) == _LABELS and tree.has_folder(folder)
        return is_usual or super().fits(folder)
