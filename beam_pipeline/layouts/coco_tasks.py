"""What the annotations of COCO files are about: objects, classes of images, captions, panoptic masks.

| task | an annotation has, beside `image_id` |
|---|---|
| instances | `"id": 1768, "category_id": 18, "bbox": [x, y, width, height], "area": 702.1, "iscrowd": 0` |
| key points | the same and `"keypoints": [x, y, visibility, ...]` |
| classes | `"category_id": 2912` |
| captions | `"caption": "A room with chairs."` |
| panoptic | `"file_name": "000000000139.png", "segments_info": [an instance's fields, ...]` |

Boxes are in pixels from the upper left corner. A pixel of a panoptic PNG is the id of its segment:
R + 256 G + 65536 B, and 0 for none. Source: https://cocodataset.org/#format-data
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, ClassVar, TypeGuard

from beam_pipeline.core import references
from beam_pipeline.core.images.masks import BadShapeError, check_shape
from beam_pipeline.core.labels import schema
from beam_pipeline.core.text import excerpt, is_utf8, quoted
from beam_pipeline.core.typed_json import INT64, is_finite, is_integer
from beam_pipeline.layouts.label_files import BadLabelError
from beam_pipeline.storage import files

IMAGES, ANNOTATIONS, CATEGORIES = "images", "annotations", "categories"
ALL_LISTS = (IMAGES, ANNOTATIONS, CATEGORIES)
CLASS = "category"
"""The name of the column of images' classes."""

_IMAGE_ID = schema.further_column(
    "image_id", schema.ColumnKind.BYTES
)  # a text, as Model Garden reads it
_OBJECT = struct.Struct("<4dqdBq")
_OBJECT_VALUES = 8
"""xmin, ymin, xmax, ymax, id of the category, area, crowd flag, id."""

Id = int | str


def is_id(value: Any) -> TypeGuard[Id]:
    """True if a value can identify an image."""
    return is_text(value) or is_integer(value)


def is_int64(value: Any) -> TypeGuard[int]:
    """True if a value is an integer that a feature can contain."""
    return is_integer(value) and value in INT64


def is_text(value: Any) -> TypeGuard[str]:
    """True if a value is a text that UTF-8 can encode; JSON may contain half a character."""
    return isinstance(value, str) and value != "" and is_utf8(value)


# --- tasks ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Task:
    """What the annotations of a file are about. It is pickled, and keeps no state.

    Attributes:
      fields: columns of fields of images' entries, which have their names.
      all_images: True if images without annotations have rows as well.
      title: names what annotations contain, in messages.
      option_names: the options that affect files of this task.
      lists: the lists that a file must have.
      key: the key that some annotation of a file must have; empty for none.
    """

    fields: tuple[schema.Column, ...] = ()
    all_images: bool = True
    title: ClassVar[str] = ""
    option_names: ClassVar[frozenset[str]] = frozenset()
    lists: ClassVar[Sequence[str]] = ALL_LISTS
    key: ClassVar[str] = ""

    @property
    def own_columns(self) -> tuple[schema.Column, ...]:
        """The columns except images' fields and, before them, the image's id."""
        raise NotImplementedError

    @property
    def columns(self) -> tuple[schema.Column, ...]:
        """The columns of a row's values."""
        return (*self.own_columns, *self.fields)

    @property
    def record(self) -> struct.Struct | None:
        """The form of all that `parse` returns, if it is a tuple of numbers of fixed size."""
        return None

    def of_file(self, uri: str) -> Task:
        """The task with what it needs to know of a file."""
        return self

    def parse(self, annotation: Mapping[str, Any]) -> Any:
        """Returns what an annotation states, of builtin types. Raises BadLabelError."""
        raise NotImplementedError

    def values(
        self, image_id: Id, parsed: Sequence[Any], categories: Mapping[int, str]
    ) -> tuple[references.LabelValue, ...]:
        """The values of an image in the order of `own_columns`. Raises BadLabelError.

        Args:
          image_id: the image.
          parsed: its annotations' content, in the file's order.
          categories: id -> name.
        """
        raise NotImplementedError


@dataclass(frozen=True)
class Instances(Task):
    """Objects with boxes.

    Attributes:
      text_ids: True to take ids of annotations as texts, also integers.
      masks: True to read the outlines of objects.
      keypoints: the names of an object's key points, in order; empty to read none.
    """

    text_ids: bool = False
    masks: bool = False
    keypoints: tuple[str, ...] = ()
    title: ClassVar[str] = "objects"
    option_names: ClassVar[frozenset[str]] = frozenset({"object_features", "columns"})
    key: ClassVar[str] = "bbox"

    @property
    def own_columns(self) -> tuple[schema.Column, ...]:
        """Box, class, area in pixels, crowd flag and annotation id of each object; the image's id.

        Then the outline of each object, and its key points.
        """
        text = schema.object_column("keypoint/text", schema.ColumnKind.BYTES)
        return (
            *schema.object_columns(pixels=True),
            schema.object_column("area", schema.ColumnKind.FLOAT),
            schema.object_column("is_crowd", schema.ColumnKind.INT64),
            schema.object_column(
                "id", schema.ColumnKind.BYTES if self.text_ids else schema.ColumnKind.INT64
            ),
            _IMAGE_ID,
            *((schema.mask_column(pixels=True),) if self.masks else ()),
            *((*schema.keypoint_columns(pixels=True), text) if self.keypoints else ()),
        )

    @property
    def record(self) -> struct.Struct | None:
        """Records take half of the memory of values that are marshalled."""
        return None if self.text_ids or self.masks or self.keypoints else _OBJECT

    def parse(self, annotation: Mapping[str, Any]) -> tuple[Any, ...]:
        values: list[Any] = [*_parse_object(annotation, text_id=self.text_ids)]
        if self.masks:
            shape = annotation.get("segmentation")
            try:
                check_shape(shape)
            except BadShapeError as error:
                raise BadLabelError(f"segmentation {excerpt(shape)} is {error}") from error
            values.append(json.dumps(shape))
        if self.keypoints:
            values += self._points(annotation.get("keypoints"))
        return tuple(values)

    def _points(self, points: Any) -> tuple[Any, ...]:
        """Returns (x, y of all points, visibility of each, number of labelled points, names)."""
        length = 3 * len(self.keypoints)
        if points is None:  # as crowds, and categories that have none
            points = [0] * length
        if not isinstance(points, list) or len(points) != length or not all(map(is_finite, points)):
            raise BadLabelError(
                f"keypoints {excerpt(points)} are not {length} numbers: x, y and visibility of each"
            )
        visible = [int(flag) for flag in points[2::3]]
        coordinates = [float(value) for i, value in enumerate(points) if i % 3 < 2]
        return coordinates, visible, sum(flag > 0 for flag in visible), list(self.keypoints)

    def values(
        self, image_id: Id, parsed: Sequence[Any], categories: Mapping[int, str]
    ) -> tuple[references.LabelValue, ...]:
        further = 1 * self.masks + 4 * bool(self.keypoints)
        columns = list(zip(*parsed, strict=True)) or [()] * (_OBJECT_VALUES + further)
        spread = (
            tuple(chain.from_iterable(column)) if column and isinstance(column[0], list) else column
            for column in columns[_OBJECT_VALUES:]
        )
        objects = columns[:_OBJECT_VALUES]
        return (*_object_values(objects, categories, "annotation"), str(image_id), *spread)


def _parse_object(annotation: Mapping[str, Any], *, text_id: bool = False) -> tuple[Any, ...]:
    i, category, box = (annotation.get(key) for key in ("id", "category_id", "bbox"))
    if not is_int64(i) and not (text_id and is_text(i)):
        expected = "neither a text nor" if text_id else "not"
        raise BadLabelError(f"id {excerpt(i)} is {expected} an integer")
    if not is_int64(category):
        raise BadLabelError(f"category_id {excerpt(category)} is not an integer")
    if not isinstance(box, list) or len(box) != 4 or not all(map(is_finite, box)):
        raise BadLabelError(
            f"bbox {excerpt(box)} is not [x, y, width, height], four numbers of pixels"
        )
    x, y, width, height = map(float, box)
    area, crowd = annotation.get("area"), annotation.get("iscrowd")
    area = width * height if area is None else area
    if not is_finite(area):
        raise BadLabelError(f"area {excerpt(area)} is not a number")
    if crowd is not None and crowd not in (0, 1):
        raise BadLabelError(f"iscrowd {excerpt(crowd)} is neither 0 nor 1")
    own_id = str(i) if text_id else i
    return x, y, x + width, y + height, category, float(area), int(crowd or 0), own_id


def _object_values(
    objects: Sequence[tuple[Any, ...]], categories: Mapping[int, str], kind: str
) -> tuple[references.LabelValue, ...]:
    """Returns the columns of objects with the names of categories. Raises BadLabelError."""
    *corners, category_ids, areas, crowds, ids = objects
    for i, category in zip(ids, category_ids, strict=True):
        if category not in categories:
            raise BadLabelError(
                f"{kind} {excerpt(i)}: category_id {category} is not among the {CATEGORIES}"
            )
    boxes = tuple(zip(*corners, (0,) * len(ids), strict=True))
    return boxes, tuple([categories[category] for category in category_ids]), areas, crowds, ids


@dataclass(frozen=True)
class Classes(Task):
    """Classes of whole images.

    Attributes:
      several: True for a list of classes per image, each once, in the order of the annotations;
        otherwise an image with several categories is faulty.
    """

    several: bool = False
    title: ClassVar[str] = "the classes of whole images"
    option_names: ClassVar[frozenset[str]] = frozenset(
        {"columns", "list_column", "label_base", "label_order", "class_ids"}
    )

    @property
    def own_columns(self) -> tuple[schema.Column, ...]:
        """The class of an image, and its id."""
        label = schema.Column(
            CLASS, schema.ColumnKind.CLASS, "image/class", required=True, repeated=self.several
        )
        return label, _IMAGE_ID

    def parse(self, annotation: Mapping[str, Any]) -> int:
        category = annotation.get("category_id")
        if not is_integer(category):
            raise BadLabelError(f"category_id {excerpt(category)} is not an integer")
        return category

    def values(
        self, image_id: Id, parsed: Sequence[int], categories: Mapping[int, str]
    ) -> tuple[references.LabelValue, ...]:
        unknown = [category for category in parsed if category not in categories]
        if unknown:
            raise BadLabelError(f"category_id {unknown[0]} is not among the {CATEGORIES}")
        classes = tuple(categories[category] for category in dict.fromkeys(parsed))
        if len(classes) > 1 and not self.several:
            raise BadLabelError(
                f"the image has several categories, {quoted(classes)}; expected one. --list_column "
                f"{CLASS}=, writes lists of classes"
            )
        label = classes if self.several and classes else next(iter(classes), None)
        return label, str(image_id)


@dataclass(frozen=True)
class Captions(Task):
    """Sentences that describe an image, in the order of the file."""

    title: ClassVar[str] = "captions"
    lists: ClassVar[Sequence[str]] = (IMAGES, ANNOTATIONS)

    @property
    def own_columns(self) -> tuple[schema.Column, ...]:
        """The captions of an image, and its id."""
        caption = schema.Column(
            "caption", schema.ColumnKind.BYTES, "image/caption", True, repeated=True
        )
        return caption, _IMAGE_ID

    def parse(self, annotation: Mapping[str, Any]) -> str:
        caption = annotation.get("caption")
        if not is_text(caption):
            raise BadLabelError(f"caption {excerpt(caption)} is not a text")
        return caption

    def values(
        self, image_id: Id, parsed: Sequence[str], categories: Mapping[int, str]
    ) -> tuple[references.LabelValue, ...]:
        return tuple(parsed), str(image_id)


@dataclass(frozen=True)
class Panoptic(Task):
    """A PNG of segments for each image; the PNGs are listed, and none is opened.

    Attributes:
      masks: URI of a file -> the folder of its PNGs.
      folder: the folder of one file.
      pngs: the PNGs in it, by name.
    """

    all_images: bool = False
    masks: Mapping[str, str] = field(default_factory=dict)
    folder: str = ""
    pngs: Mapping[str, Any] = field(default_factory=dict)
    title: ClassVar[str] = "a panoptic segmentation"

    @property
    def own_columns(self) -> tuple[schema.Column, ...]:
        """The mask; box, class, area in pixels, crowd flag and id of each segment; the image's id."""
        kinds = {
            "bbox": schema.ColumnKind.BOX,
            "class": schema.ColumnKind.CLASS,
            "area": schema.ColumnKind.FLOAT,
            "is_crowd": schema.ColumnKind.INT64,
            "id": schema.ColumnKind.INT64,
        }
        segments = (
            schema.Column(name, kind, f"image/panoptic/{name}", True, True, name == "bbox")
            for name, kind in kinds.items()
        )
        return (schema.panoptic_column(), *segments, _IMAGE_ID)

    def of_file(self, uri: str) -> Panoptic:
        return replace(self, folder=self.masks[uri], pngs=files.files_in(self.masks[uri]))

    def parse(self, annotation: Mapping[str, Any]) -> tuple[Any, ...]:
        name, infos = annotation.get("file_name"), annotation.get("segments_info")
        if not is_text(name):
            raise BadLabelError(f"file_name {excerpt(name)} is not text")
        if not isinstance(infos, list) or not all(isinstance(info, dict) for info in infos):
            raise BadLabelError("segments_info is not a list of objects")
        try:
            return name, tuple(map(_parse_object, infos))
        except BadLabelError as error:
            raise BadLabelError(f"a segment's {error}") from error

    def values(
        self, image_id: Id, parsed: Sequence[Any], categories: Mapping[int, str]
    ) -> tuple[references.LabelValue, ...]:
        if len(parsed) > 1:
            raise BadLabelError(f"the image has {len(parsed)} masks, expected one")
        ((name, segments),) = parsed
        columns = list(zip(*segments, strict=True)) or [()] * _OBJECT_VALUES
        values = _object_values(columns, categories, "segment")
        if name not in self.pngs:
            raise BadLabelError(f"its mask {name} is not in {self.folder}")
        png, uri = self.pngs[name], files.join(self.folder, name)
        category_ids, _, crowds, ids = columns[4:]
        of_png = tuple(zip(ids, category_ids, crowds, strict=True))
        return (uri, png.size, png.version, of_png), *values, str(image_id)
