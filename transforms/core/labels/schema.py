"""The columns of a label table, and the features they become."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


class ColumnKind(str, enum.Enum):
    """What the values of a label column are."""

    CLASS = "class"
    INT64 = "int64"
    FLOAT = "float"
    BYTES = "bytes"
    BOX = "box"
    POINT = "point"
    MASK = "mask"
    SEGMENTATION = "segmentation"
    SEGMENTATION_16 = "segmentation16"
    PANOPTIC = "panoptic"


FILE_KINDS = frozenset({ColumnKind.SEGMENTATION, ColumnKind.SEGMENTATION_16, ColumnKind.PANOPTIC})
"""Kinds whose values are files (`FileValue`), which the writer of a shard reads beside the image."""


@dataclass(frozen=True)
class Column:
    """One label column.

    Attributes:
      name: its name in the table.
      kind: what its values are.
      feature: the feature's key; a class has two, `<feature>/label` and `<feature>/text`, points have
        `<feature>/x` and `<feature>/y`, a box has one a side, a mask in a file has `<feature>/encoded`
        and `<feature>/format`. Empty for a column that is not written, but groups samples.
      required: whether an empty value is a fault; else the feature is left out.
      repeated: whether a sample has a list of such values; boxes always are.
      pixels: of boxes, points and masks, whether their places are in pixels; else they are fractions of
        the image.
    """

    name: str
    kind: ColumnKind
    feature: str
    required: bool = False
    repeated: bool = False
    pixels: bool = False

    @property
    def feature_keys(self) -> tuple[str, ...]:
        """The keys of the features it becomes."""
        if not self.feature:
            return ()
        if self.kind is ColumnKind.CLASS:
            return f"{self.feature}/label", f"{self.feature}/text"
        if self.kind is ColumnKind.BOX:
            return tuple(f"{self.feature}/{side}" for side in BOX_SIDES)
        if self.kind is ColumnKind.POINT:
            return f"{self.feature}/x", f"{self.feature}/y"
        if self.kind is ColumnKind.PANOPTIC:
            return f"{self.feature}/category_mask", f"{self.feature}/instance_mask"
        if self.kind in FILE_KINDS:
            return f"{self.feature}/encoded", f"{self.feature}/format"
        return (self.feature,)

    @property
    def list_kinds(self) -> tuple[str, ...]:
        """The kind of list of each of these features."""
        if not self.feature:
            return ()
        if self.kind is ColumnKind.CLASS:
            return "int64", "bytes"
        if self.kind is ColumnKind.BOX:
            return ("float",) * len(BOX_SIDES)
        if self.kind is ColumnKind.POINT:
            return "float", "float"
        if self.kind is ColumnKind.MASK:
            return ("bytes",)
        if self.kind in FILE_KINDS:
            return "bytes", "bytes"
        return (self.kind.value,)

    @property
    def pixel_types(self) -> tuple[str, ...]:
        """The type of the pixels of each of these features, where they are ids; empty without files."""
        if self.kind is ColumnKind.PANOPTIC:
            return "uint8", "uint8"
        if self.kind in FILE_KINDS:
            return "uint16" if self.kind is ColumnKind.SEGMENTATION_16 else "uint8", ""
        return ()


OBJECT_PREFIX = "image/object/"
"""What the keys of features of objects begin with."""

VISIBILITY = "/visibility"
"""What follows the feature of points in that of their visibility: 0 for a point without a place."""

BOX_SIDES = ("xmin", "ymin", "xmax", "ymax")
"""In the order of `Box`; fractions of the image's width and height, as TensorFlow's detectors have it."""


def label_column(name: str, kind: ColumnKind) -> Column:
    """The column that is *the* label: a class, or a number to regress on."""
    if kind is ColumnKind.FLOAT:
        return Column(name, kind, "image/label", required=True)
    return Column(name, ColumnKind.CLASS, "image/class", required=True)


def further_column(name: str, kind: ColumnKind) -> Column:
    """Any other column: the feature `label/<name>`, left out where it is empty."""
    return Column(name, kind, f"label/{name}")


def group_column(name: str) -> Column:
    """The column whose texts keep samples in one split; it is not written, and never empty."""
    return Column(name, ColumnKind.BYTES, "", required=True)


def object_columns(*, pixels: bool) -> tuple[Column, Column]:
    """The two columns of every detection set: boxes, and the class of each.

    Args:
      pixels: whether the boxes' corners are in pixels, else fractions of the image.
    """
    return (
        Column("bbox", ColumnKind.BOX, "image/object/bbox", True, repeated=True, pixels=pixels),
        Column("class", ColumnKind.CLASS, "image/object/class", True, repeated=True),
    )


def object_column(name: str, kind: ColumnKind) -> Column:
    """What else is known of each object: the list feature `image/object/<name>`."""
    return Column(name, kind, f"{OBJECT_PREFIX}{name}", required=True, repeated=True)


def point_column(name: str, *, pixels: bool) -> Column:
    """Points of objects: a flat tuple x, y, x, y, ... of all objects, written as two lists.

    Args:
      name: behind `image/object/`.
      pixels: whether they are in pixels, else fractions of the image; fractions are written.
    """
    feature = f"image/object/{name}"
    return Column(name, ColumnKind.POINT, feature, True, repeated=True, pixels=pixels)


def keypoint_columns(*, pixels: bool) -> tuple[Column, Column, Column]:
    """Key points, the visibility of each (0 not labelled, 1 hidden, 2 visible), and how many of each
    object are labelled. Every object has as many points, in the same order.

    Source: create_coco_tf_record.py of TensorFlow's Object Detection API.
    """
    return (
        point_column("keypoint", pixels=pixels),
        object_column("keypoint/visibility", ColumnKind.INT64),
        object_column("keypoint/num", ColumnKind.INT64),
    )


def mask_column(*, pixels: bool) -> Column:
    """The mask of each object, a PNG of the image's size; `core/images/masks.py` draws it.

    Args:
      pixels: whether outlines are in pixels, else fractions of the image.
    """
    return Column("mask", ColumnKind.MASK, "image/object/mask", True, repeated=True, pixels=pixels)


def segmentation_column(name: str, *, required: bool, bits: int = 8) -> Column:
    """A mask of the image's size in a file of its own: a PNG whose pixels are ids.

    Args:
      name: "class" for a class a pixel, "object" for an object a pixel.
      required: whether an image without it is left out.
      bits: 8 or 16 a pixel.

    Source of the keys: official/vision/dataloaders/segmentation_input.py of TensorFlow Model Garden.
    """
    kind = ColumnKind.SEGMENTATION_16 if bits == 16 else ColumnKind.SEGMENTATION
    return Column(name, kind, f"{SEGMENTATION}/{name}", required)


def panoptic_column() -> Column:
    """A file of segments, of which two masks are made: the category of each pixel and its instance.

    Source of the keys: official/projects/panoptic/dataloaders of TensorFlow Model Garden.
    """
    return Column("panoptic", ColumnKind.PANOPTIC, "image/panoptic", required=True)


def file_columns(columns: Sequence[Column]) -> tuple[int, ...]:
    """The indices of the columns whose values are files."""
    return tuple(index for index, column in enumerate(columns) if column.kind in FILE_KINDS)


SEGMENTATION = "image/segmentation"
"""What the keys of masks begin with."""

OBJECT_FEATURES = ("masks", "keypoints")
"""What --object_features adds to boxes and classes, where the label files have it."""

CLASS_FOLDER_COLUMNS = (label_column("folder", ColumnKind.CLASS),)
"""The columns of a data set whose classes are its folders."""

ENCODED_KEY = "image/encoded"
"""The standard key of the image itself."""


def written_key(key: str, renames: Mapping[str, str]) -> str | None:
    """The key that a standard feature is written under; None if another feature took its place.

    Args:
      key: the feature's standard key.
      renames: written key -> standard key.
    """
    for written, standard in renames.items():
        if standard == key:
            return written
    return None if key in renames else key


def class_column(columns: Sequence[Column]) -> int | None:
    """The index of the class among the columns; None where there are no classes."""
    kinds = [column.kind for column in columns]
    return kinds.index(ColumnKind.CLASS) if ColumnKind.CLASS in kinds else None


def class_label_key(columns: Sequence[Column], renames: Mapping[str, str]) -> str:
    """The key under which class ids are written; empty where there are no classes."""
    index = class_column(columns)
    if index is None:
        return ""
    return written_key(columns[index].feature_keys[0], renames) or ""
