"""The columns of a label table, and the features they become."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple


class ColumnKind(str, enum.Enum):
    """The kind of the values of a label column."""

    CLASS = "class"
    INT64 = "int64"
    FLOAT = "float"
    BYTES = "bytes"
    JSON = "json"
    BOX = "box"
    POINT = "point"
    MASK = "mask"
    SEGMENTATION = "segmentation"
    SEGMENTATION_16 = "segmentation16"
    PANOPTIC = "panoptic"
    FILE = "file"
    COPY = "copy"
    PICTURE = "picture"
    PICTURE_16 = "picture16"


MASK_KINDS = frozenset({ColumnKind.SEGMENTATION, ColumnKind.SEGMENTATION_16, ColumnKind.PANOPTIC})
FOLLOWING = frozenset({ColumnKind.PICTURE, ColumnKind.PICTURE_16})
"""Kinds of pictures that are changed as the image is; `COPY` is of pictures that never are."""

CELL_FILES = FOLLOWING | {ColumnKind.COPY, ColumnKind.FILE}
"""Kinds of files that cells of tables name; `FILE` is of any bytes."""

FILE_KINDS = MASK_KINDS | CELL_FILES
"""Kinds whose values are files (`FileValue`), which the writer of a shard reads beside the image."""


class WrittenAs(NamedTuple):
    """One of the features that a column becomes.

    Attributes:
      suffix: of its key.
      kind: of its list: "bytes", "float" or "int64".
      pixels: the type of its pixels if it is an image of ids; else empty.
      content: "picture" or "picture16" for another image, "json" for text of JSON; else empty.
    """

    suffix: str
    kind: str
    pixels: str = ""
    content: str = ""


@dataclass(frozen=True)
class Column:
    """One label column.

    Attributes:
      name: its name in the table.
      kind: the kind of its values.
      feature: the feature's key; a class has two, `<feature>/label` and `<feature>/text`, points have
        `<feature>/x` and `<feature>/y`, a box has one per side, a mask in a file has
        `<feature>/encoded` and `<feature>/format`, other files at least `<feature>/encoded`. Empty for a column that only groups samples and
        is not written.
      required: True if an empty value is a fault; otherwise the feature is left out.
      repeated: True if a sample has a list of such values, as always for boxes.
      pixels: for boxes, points and masks: True if coordinates are in pixels, False if in fractions
        of the image.
    """

    name: str
    kind: ColumnKind
    feature: str
    required: bool = False
    repeated: bool = False
    pixels: bool = False

    @property
    def written(self) -> tuple[WrittenAs, ...]:
        """The features it becomes; none if it is not written."""
        return KINDS[self.kind].written if self.feature else ()

    @property
    def feature_keys(self) -> tuple[str, ...]:
        """The keys of the features it becomes."""
        return tuple(self.feature + part.suffix for part in self.written)


OBJECT_PREFIX = "image/object/"
"""The prefix of the keys of features of objects."""

OBJECTS_COLUMN = "objects"
"""The column of tables of JSON with the lists of an image's objects."""

CATEGORY_NAMES = (
    *("categories", "category", "category_id", "labels", "label"),
    *("classes", "class", "class_id", "class_name", "name"),
)
"""Names of the list of their classes, the likelier ones first."""

VISIBILITY = "/visibility"
"""The suffix of the key of points' visibility: 0 for a point without coordinates."""

BOX_SIDES = ("xmin", "ymin", "xmax", "ymax")
"""In the order of `Box`; fractions of the image's width and height, TensorFlow's convention."""


class KindFacts(NamedTuple):
    """What is known of a kind of columns.

    Attributes:
      values: the noun for its values.
      role: of a column in the table of roles.
      expected: a value as a cell has it, for messages.
      written: the features that a column becomes.
    """

    values: str
    role: str
    expected: str
    written: tuple[WrittenAs, ...]


FEATURE = "feature"
_FORMAT = WrittenAs("/format", "bytes")
_LENGTHS = tuple(WrittenAs(f"/{side}", "int64") for side in ("height", "width", "channels"))


def _facts(
    values: str, role: str, expected: str, kind: str, *suffixes: str, **details: str
) -> KindFacts:
    """The facts of a kind whose features are all alike, but for the suffixes of their keys."""
    written = (WrittenAs(suffix, kind, **details) for suffix in suffixes)
    return KindFacts(values, role, expected, tuple(written))


def _mask(values: str, pixels: str) -> KindFacts:
    return KindFacts(values, "mask", "", (WrittenAs("/encoded", "bytes", pixels), _FORMAT))


def _picture(content: str) -> KindFacts:
    encoded = WrittenAs("/encoded", "bytes", content=content)
    return KindFacts("files", "file", "the path of a file", (encoded, _FORMAT, *_LENGTHS))


KINDS: Mapping[ColumnKind, KindFacts] = {
    ColumnKind.CLASS: KindFacts(
        *("texts", "class", "a class name"),
        (WrittenAs("/label", "int64"), WrittenAs("/text", "bytes")),
    ),
    ColumnKind.INT64: _facts("integers", FEATURE, "an integer of 64 bits", "int64", ""),
    ColumnKind.FLOAT: _facts("numbers", FEATURE, "a number", "float", ""),
    ColumnKind.BYTES: _facts("texts", FEATURE, "one text", "bytes", ""),
    ColumnKind.JSON: _facts("texts of JSON", FEATURE, "", "bytes", "", content="json"),
    ColumnKind.BOX: _facts("boxes", "box", "", "float", *(f"/{side}" for side in BOX_SIDES)),
    ColumnKind.POINT: _facts("points", "point", "", "float", "/x", "/y"),
    ColumnKind.MASK: _facts("masks", "mask", "", "bytes", ""),
    ColumnKind.SEGMENTATION: _mask("masks", "uint8"),
    ColumnKind.SEGMENTATION_16: _mask("masks of 16 bits", "uint16"),
    ColumnKind.PANOPTIC: _facts(
        *("masks of segments", "mask", "", "bytes", "/category_mask", "/instance_mask"),
        pixels="uint8",
    ),
    ColumnKind.FILE: _facts("files", "file", "the path of a file", "bytes", "/encoded"),
    ColumnKind.COPY: _picture("picture"),
    ColumnKind.PICTURE: _picture("picture"),
    ColumnKind.PICTURE_16: _picture("picture16"),
}


LIST_FORMS = ("xyxy", "xywh")
"""Types of --columns for lists of a box's numbers: its corners, or a corner and its size."""

KIND_NAMES = {
    **dict.fromkeys(("int", "int64"), ColumnKind.INT64),
    **dict.fromkeys(("float", "float32"), ColumnKind.FLOAT),
    **dict.fromkeys(("str", "string", "bytes"), ColumnKind.BYTES),
    "json": ColumnKind.JSON,
    "file": ColumnKind.FILE,
    "copy": ColumnKind.COPY,
    "point": ColumnKind.POINT,
    **dict.fromkeys(LIST_FORMS, ColumnKind.BOX),
}
"""Type names of --columns; a point describes two columns, see `further_columns`."""

SKIP_KIND = "skip"
POINT_KIND = "point"
JSON_KIND = "json"
FILE_TYPES = ("file", "copy")
"""Types of --columns for files; `ColumnKind` tells pictures of the first from other bytes."""
TEXT_KIND = "str"


NO_LABEL_COLUMN = "none"
"""The value of --label_column for a table without a label."""


@dataclass(frozen=True, kw_only=True)
class ColumnChoices:
    """The options on columns, which override guesses, and what the layout expects of tables.

    Attributes:
      key_column: name of the key column, or empty.
      label_column: name of the label column, "none" for none, or empty.
      columns: name -> type name of `KIND_NAMES`, or "skip" to leave the column out. Of a list of
        objects, the name is "objects.<list>".
      list_column: name -> the separator of values in a cell, of columns of lists; empty if each
        row of an image has one of its values.
      one_hot: columns with 1 where the image is of their class, or `prefix_*`.
      labels_encoding: of all files that are text; empty to find it out.
      label_needed: whether it is an error that no column can be told to be the label.
      may_be_lists: whether tables may name images without labels; their classes are then folders.
      split_by: name of the column that keeps images in one split, "folder", or empty.
      unlabelled: a name in `UNLABELLED_CHOICES`; with "keep", an empty label is no fault.
      sample: whether a sample is an image or a row, a name in `SAMPLES`.
      row_id: name of the column with the ids of rows, or empty.
    """

    key_column: str = ""
    label_column: str = ""
    columns: Mapping[str, str] = field(default_factory=dict)
    list_column: Mapping[str, str] = field(default_factory=dict)
    one_hot: tuple[str, ...] = ()
    labels_encoding: str = ""
    label_needed: bool = True
    may_be_lists: bool = False
    split_by: str = ""
    unlabelled: str = "auto"
    sample: str = "image"
    row_id: str = ""


def label_column(name: str, kind: ColumnKind) -> Column:
    """Returns the column of *the* label: a class, or a number to regress on."""
    if kind is ColumnKind.FLOAT:
        return Column(name, kind, "image/label", required=True)
    return Column(name, ColumnKind.CLASS, "image/class", required=True)


def is_list_of_classes(column: Column) -> bool:
    """True for the label of images with several classes, each once per image."""
    return column.repeated and column.feature == "image/class"


def further_column(name: str, kind: ColumnKind) -> Column:
    """Returns any other column: the feature `label/<name>`, absent if the cell is empty; of files, `<name>`."""
    return Column(name, kind, name if kind in CELL_FILES else f"label/{name}")


def group_column(name: str) -> Column:
    """Returns the column that keeps samples with equal texts in one split; not written, never empty."""
    return Column(name, ColumnKind.BYTES, "", required=True)


def object_columns(*, pixels: bool) -> tuple[Column, Column]:
    """Returns the two columns of every detection set: boxes, and the class of each.

    Args:
      pixels: True if the boxes' corners are in pixels, False if in fractions of the image.
    """
    boxes = object_column("bbox", ColumnKind.BOX, pixels=pixels)
    return boxes, object_column("class", ColumnKind.CLASS)


def object_column(name: str, kind: ColumnKind, *, pixels: bool = False) -> Column:
    """Returns a column with a value per object: the list feature `image/object/<name>`.

    Points are a flat tuple x, y, x, y, ... of all objects, written as two lists.

    Args:
      name: the part of the key after `image/object/`.
      kind: of the values.
      pixels: of places: True if they are in pixels, False if in fractions of the image; fractions are written.
    """
    return Column(name, kind, f"{OBJECT_PREFIX}{name}", True, repeated=True, pixels=pixels)


def keypoint_columns(*, pixels: bool) -> tuple[Column, Column, Column]:
    """Returns the columns of key points, the visibility of each, and the number labelled per object.

    Visibility is 0 for not labelled, 1 for hidden, 2 for visible. Every object has the same number
    of points, in the same order.

    Source: create_coco_tf_record.py of TensorFlow's Object Detection API.
    """
    return (
        object_column("keypoint", ColumnKind.POINT, pixels=pixels),
        object_column("keypoint/visibility", ColumnKind.INT64),
        object_column("keypoint/num", ColumnKind.INT64),
    )


def mask_column(*, pixels: bool) -> Column:
    """Returns the column of masks, a PNG of the image's size per object; `core/images/masks.py` draws it.

    Args:
      pixels: True if outlines are in pixels, False if in fractions of the image.
    """
    return object_column("mask", ColumnKind.MASK, pixels=pixels)


def segmentation_column(name: str, *, required: bool, bits: int = 8) -> Column:
    """A mask of the image's size in a separate file: a PNG whose pixels are ids.

    Args:
      name: "class" for a class a pixel, "object" for an object a pixel.
      required: whether an image without it is left out.
      bits: 8 or 16 a pixel.

    Source of the keys: official/vision/dataloaders/segmentation_input.py of TensorFlow Model Garden.
    """
    kind = ColumnKind.SEGMENTATION_16 if bits == 16 else ColumnKind.SEGMENTATION
    return Column(name, kind, f"{SEGMENTATION}/{name}", required)


def panoptic_column() -> Column:
    """A file of segments that gives two masks: the category of each pixel and its instance.

    Source of the keys: official/projects/panoptic/dataloaders of TensorFlow Model Garden.
    """
    return Column("panoptic", ColumnKind.PANOPTIC, "image/panoptic", required=True)


def file_columns(columns: Sequence[Column]) -> tuple[int, ...]:
    """The indices of the columns whose values are files."""
    return tuple(index for index, column in enumerate(columns) if column.kind in FILE_KINDS)


def cell_files(columns: Sequence[Column]) -> tuple[int, ...]:
    """The indices of the columns whose cells name files."""
    return tuple(index for index, column in enumerate(columns) if column.kind in CELL_FILES)


SEGMENTATION = "image/segmentation"
"""The prefix of the keys of masks."""

OBJECT_FEATURES = ("masks", "keypoints")
"""Choices of --object_features: features besides boxes and classes, if the label files have them."""

YOLO_TASKS = ("detect", "segment", "pose", "obb")
"""Choices of --yolo_task."""

CLASS_FOLDER_COLUMNS = (label_column("folder", ColumnKind.CLASS),)
"""The columns of a data set whose classes are its folders."""

ENCODED_KEY = "image/encoded"
"""The standard key of the image itself."""


def written_key(key: str, renames: Mapping[str, str]) -> str | None:
    """Returns the key that a standard feature is written under; None if another feature replaces it.

    Args:
      key: the feature's standard key.
      renames: written key -> standard key.
    """
    own = None if key in renames else key
    return next((written for written, standard in renames.items() if standard == key), own)


def class_column(columns: Sequence[Column]) -> int | None:
    """Returns the index of the class among the columns; None without classes."""
    return next((i for i, column in enumerate(columns) if column.kind is ColumnKind.CLASS), None)
