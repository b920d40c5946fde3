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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import Any, ClassVar, TypeGuard

from beam_pipeline.core import references, text
from beam_pipeline.core.images.masks import BadShapeError, check_shape
from beam_pipeline.core.labels import schema
from beam_pipeline.core.labels.schema import Column, ColumnKind
from beam_pipeline.core.typed_json import INT64, is_finite, is_integer
from beam_pipeline.layouts.label_files import BadLabelError
from beam_pipeline.storage import files

Annotation = Mapping[str, Any]
Categories = Mapping[int, str]
"""id -> name"""

Values = tuple[references.LabelValue, ...]

IMAGES, ANNOTATIONS, CATEGORIES = "images", "annotations", "categories"
ALL_LISTS = (IMAGES, ANNOTATIONS, CATEGORIES)
CLASS = "category"
"""The name of the column of images' classes."""

_IMAGE_ID = schema.further_column("image_id", ColumnKind.BYTES)  # a text, as Model Garden reads it
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
    return isinstance(value, str) and value != "" and text.is_utf8(value)


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

    fields: tuple[Column, ...] = ()
    all_images: bool = True
    title: ClassVar[str] = ""
    option_names: ClassVar[frozenset[str]] = frozenset()
    lists: ClassVar[Sequence[str]] = ALL_LISTS
    key: ClassVar[str] = ""

    @property
    def own_columns(self) -> tuple[Column, ...]:
        """The columns except images' fields and, before them, the image's id."""
        raise NotImplementedError

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of a row's values."""
        return (*self.own_columns, *self.fields)

    def of_file(self, uri: str) -> Task:
        """The task with what it needs to know of a file."""
        return self

    def parse(self, annotation: Annotation) -> Any:
        """Returns what an annotation states, of builtin types. Raises BadLabelError."""
        raise NotImplementedError

    def values(self, image_id: Id, parsed: Sequence[Any], categories: Categories) -> Values:
        """The values of an image in the order of `own_columns`. Raises BadLabelError.

        Args:
          image_id: the image.
          parsed: its annotations' content, in the file's order.
          categories: those of the file.
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
    def own_columns(self) -> tuple[Column, ...]:
        """Box, class, area in pixels, crowd flag and annotation id of each object; the image's id.

        Then the outline of each object, and its key points.
        """
        columns: tuple[Column, ...] = (
            *schema.object_columns(pixels=True),
            schema.object_column("area", ColumnKind.FLOAT),
            schema.object_column("is_crowd", ColumnKind.INT64),
            schema.object_column("id", ColumnKind.BYTES if self.text_ids else ColumnKind.INT64),
            _IMAGE_ID,
        )
        if self.masks:
            columns += (schema.mask_column(pixels=True),)
        if self.keypoints:
            names = schema.object_column("keypoint/text", ColumnKind.BYTES)
            columns += (*schema.keypoint_columns(pixels=True), names)
        return columns

    def parse(self, annotation: Annotation) -> tuple[Any, ...]:
        values = [*_parse_object(annotation, text_id=self.text_ids)]
        if self.masks:
            shape = annotation.get("segmentation")
            try:
                check_shape(shape)
            except BadShapeError as error:
                raise BadLabelError(f"segmentation {text.excerpt(shape)} is {error}") from error
            values.append(json.dumps(shape))
        if self.keypoints:
            length = 3 * len(self.keypoints)
            fault = f"not {length} numbers: x, y and visibility of each"
            unlabelled = [0] * length  # crowds, and categories without key points
            are_points = partial(_are_numbers, length)
            points = _checked(annotation, "keypoints", are_points, fault, unlabelled)
            visible = [int(flag) for flag in points[2::3]]
            coordinates = [float(value) for i, value in enumerate(points) if i % 3 < 2]
            values += [coordinates, visible, sum(flag > 0 for flag in visible), [*self.keypoints]]
        return tuple(values)

    def values(self, image_id: Id, parsed: Sequence[Any], categories: Categories) -> Values:
        further = 1 * self.masks + 4 * bool(self.keypoints)
        columns = list(zip(*parsed, strict=True)) or [()] * (_OBJECT_VALUES + further)
        spread = (
            tuple(chain.from_iterable(column)) if column and isinstance(column[0], list) else column
            for column in columns[_OBJECT_VALUES:]
        )
        return (*_object_values(columns, categories, "annotation"), str(image_id), *spread)


def _checked(
    fields: Annotation, key: str, fits: Callable[[Any], bool], fault: str, default: Any = None
) -> Any:
    """A value of an annotation, or a default for none. Raises BadLabelError with the fault if it does not fit."""
    value = default if fields.get(key) is None else fields[key]
    if not fits(value):
        raise BadLabelError(f"{key} {text.excerpt(value)} is {fault}")
    return value


def _are_numbers(count: int, values: Any) -> bool:
    return isinstance(values, list) and len(values) == count and all(map(is_finite, values))


def _parse_object(annotation: Annotation, *, text_id: bool = False) -> tuple[Any, ...]:
    fault = "neither a text nor an integer" if text_id else "not an integer"
    i = _checked(annotation, "id", is_id if text_id else is_int64, fault)
    category = _checked(annotation, "category_id", is_int64, "not an integer")
    sides = "not [x, y, width, height], four numbers of pixels"
    box = _checked(annotation, "bbox", partial(_are_numbers, 4), sides)
    x, y, width, height = map(float, box)
    area = float(_checked(annotation, "area", is_finite, "not a number", width * height))
    crowd = int(_checked(annotation, "iscrowd", (0, 1).__contains__, "neither 0 nor 1", 0))
    return x, y, x + width, y + height, category, area, crowd, str(i) if text_id else i


def _object_values(columns: Sequence[Any], categories: Categories, kind: str) -> Values:
    """The values of objects, by the columns of `_parse_object`. Raises BadLabelError for an unknown category."""
    *corners, category_ids, areas, crowds, ids = columns[:_OBJECT_VALUES]
    for i, category in zip(ids, category_ids, strict=True):
        if category not in categories:
            raise BadLabelError(
                f"{kind} {text.excerpt(i)}: category_id {category} is not among the {CATEGORIES}"
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
    def own_columns(self) -> tuple[Column, ...]:
        """The class of an image, and its id."""
        label = Column(CLASS, ColumnKind.CLASS, "image/class", required=True, repeated=self.several)
        return label, _IMAGE_ID

    def parse(self, annotation: Annotation) -> Any:
        return _checked(annotation, "category_id", is_integer, "not an integer")

    def values(self, image_id: Id, parsed: Sequence[int], categories: Categories) -> Values:
        if unknown := [category for category in parsed if category not in categories]:
            raise BadLabelError(f"category_id {unknown[0]} is not among the {CATEGORIES}")
        classes = tuple(categories[category] for category in dict.fromkeys(parsed))
        if len(classes) > 1 and not self.several:
            raise BadLabelError(
                f"the image has several categories, {text.quoted(classes)}; expected one. --list_column "
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
    def own_columns(self) -> tuple[Column, ...]:
        """The captions of an image, and its id."""
        caption = Column("caption", ColumnKind.BYTES, "image/caption", True, repeated=True)
        return caption, _IMAGE_ID

    def parse(self, annotation: Annotation) -> Any:
        return _checked(annotation, "caption", is_text, "not a text")

    def values(self, image_id: Id, parsed: Sequence[str], categories: Categories) -> Values:
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
    def own_columns(self) -> tuple[Column, ...]:
        """The mask; box, class, area in pixels, crowd flag and id of each segment; the image's id."""
        objects = Instances().own_columns[:-1]
        segments = (replace(c, feature=c.feature.replace("object", "panoptic")) for c in objects)
        return (schema.panoptic_column(), *segments, _IMAGE_ID)

    def of_file(self, uri: str) -> Panoptic:
        return replace(self, folder=self.masks[uri], pngs=files.files_in(self.masks[uri]))

    def parse(self, annotation: Annotation) -> tuple[Any, ...]:
        name = _checked(annotation, "file_name", is_text, "not a text")
        infos = annotation.get("segments_info")
        if not isinstance(infos, list) or not all(isinstance(info, dict) for info in infos):
            raise BadLabelError("segments_info is not a list of objects")
        try:
            return name, tuple(map(_parse_object, infos))
        except BadLabelError as error:
            raise BadLabelError(f"a segment's {error}") from error

    def values(self, image_id: Id, parsed: Sequence[Any], categories: Categories) -> Values:
        if len(parsed) > 1:
            raise BadLabelError(f"the image has {len(parsed)} masks, expected one")
        ((name, segments),) = parsed
        columns = list(zip(*segments, strict=True)) or [()] * _OBJECT_VALUES
        values = _object_values(columns, categories, "segment")
        png = self.pngs.get(name)
        if png is None:
            raise BadLabelError(f"its mask {name} is not in {self.folder}")
        category_ids, _, crowds, ids = columns[4:]
        of_png = tuple(zip(ids, category_ids, crowds, strict=True))
        mask = files.join(self.folder, name), png.size, png.version, of_png
        return mask, *values, str(image_id)
