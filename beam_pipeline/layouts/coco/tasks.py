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
from typing import Any, ClassVar

from beam_pipeline.core.images.masks import BadShapeError, check_shape
from beam_pipeline.core.labels.schema import (
    Column,
    ColumnKind,
    further_column,
    keypoint_columns,
    mask_column,
    object_column,
    object_columns,
    panoptic_column,
)
from beam_pipeline.core.references import LabelValue
from beam_pipeline.core.text import excerpt
from beam_pipeline.core.typed_json import is_finite, is_integer
from beam_pipeline.layouts.coco.file import (
    ANNOTATIONS,
    CATEGORIES,
    IMAGES,
    Id,
    Task,
    is_int64,
    is_text,
)
from beam_pipeline.layouts.label_files import BadLabelError
from beam_pipeline.storage import files

CLASS = "category"
"""The name of the column of images' classes."""

_IMAGE_ID = further_column("image_id", ColumnKind.BYTES)  # a text, as Model Garden reads it


# --- instances and key points --------------------------------------------------------------------


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
    key: ClassVar[str] = "bbox"

    @property
    def own_columns(self) -> tuple[Column, ...]:
        """Box, class, area in pixels, crowd flag and annotation id of each object; the image's id.

        Then the outline of each object, and its key points.
        """
        text = object_column("keypoint/text", ColumnKind.BYTES)
        return (
            *object_columns(pixels=True),
            object_column("area", ColumnKind.FLOAT),
            object_column("is_crowd", ColumnKind.INT64),
            object_column("id", ColumnKind.BYTES if self.text_ids else ColumnKind.INT64),
            _IMAGE_ID,
            *((mask_column(pixels=True),) if self.masks else ()),
            *((*keypoint_columns(pixels=True), text) if self.keypoints else ()),
        )

    @property
    def record(self) -> struct.Struct | None:
        """Records take half of the memory of values that are marshalled."""
        return None if self.text_ids or self.masks or self.keypoints else _RECORD

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
        if points is None:  # as crowds, and categories that have none
            points = [0] * (3 * len(self.keypoints))
        if not isinstance(points, list) or not all(map(is_finite, points)):
            raise BadLabelError(f"keypoints {excerpt(points)} are not a list of numbers")
        if len(points) != 3 * len(self.keypoints):
            raise BadLabelError(
                f"{len(points)} numbers of keypoints, expected x, y and visibility of "
                f"{len(self.keypoints)}"
            )
        visible = [int(flag) for flag in points[2::3]]
        coordinates = [
            float(value) for i in range(0, len(points), 3) for value in points[i : i + 2]
        ]
        return coordinates, visible, sum(flag > 0 for flag in visible), list(self.keypoints)

    def values(
        self, image_id: Id, parsed: Sequence[Any], categories: Mapping[int, str]
    ) -> tuple[LabelValue, ...]:
        columns = _columns(parsed, _OBJECT + self.masks + 4 * bool(self.keypoints))
        objects, more = columns[:_OBJECT], columns[_OBJECT:]
        spread = (
            tuple(part for item in column for part in item)
            if column and isinstance(column[0], list)
            else column
            for column in more
        )
        return (*_values_of(objects, categories, "annotation"), str(image_id), *spread)

    def described(self, parsed: Sequence[Any]) -> str:
        more = f" (and {len(parsed) - 1} more)" if len(parsed) > 1 else ""
        return f"annotation {excerpt(parsed[0][_OBJECT - 1])}{more}"


_OBJECT = 8
"""Values of an object: xmin, ymin, xmax, ymax, id of the category, area, crowd flag, id."""

_RECORD = struct.Struct("<4dqdBq")


def _parse_object(annotation: Mapping[str, Any], *, text_id: bool = False) -> tuple[Any, ...]:
    i, category, box = (annotation.get(key) for key in ("id", "category_id", "bbox"))
    if not is_int64(i) and not (text_id and is_text(i)):
        raise BadLabelError(
            f"id {excerpt(i)} is {'neither a text nor' if text_id else 'not'} an integer"
        )
    if not is_int64(category):
        raise BadLabelError(f"category_id {excerpt(category)} is not an integer")
    if not isinstance(box, list) or len(box) != 4 or not all(map(is_finite, box)):
        raise BadLabelError(
            f"bbox {excerpt(box)} is not [x, y, width, height], four numbers of pixels"
        )
    x, y, width, height = map(float, box)
    area = annotation.get("area")
    if area is None:
        area = width * height
    elif not is_finite(area):
        raise BadLabelError(f"area {excerpt(area)} is not a number")
    crowd = annotation.get("iscrowd")
    if crowd is not None and crowd not in (0, 1):
        raise BadLabelError(f"iscrowd {excerpt(crowd)} is neither 0 nor 1")
    own_id = str(i) if text_id else i
    return x, y, x + width, y + height, category, float(area), int(crowd or 0), own_id


def _columns(rows: Sequence[tuple[Any, ...]], width: int) -> list[tuple[Any, ...]]:
    return list(zip(*rows, strict=True)) if rows else [()] * width


def _values_of(
    objects: Sequence[tuple[Any, ...]], categories: Mapping[int, str], kind: str
) -> tuple[LabelValue, ...]:
    """Returns the columns of objects with the names of categories. Raises BadLabelError."""
    *corners, category_ids, areas, crowds, ids = objects
    for i, category in zip(ids, category_ids, strict=True):
        if category not in categories:
            raise BadLabelError(
                f"{kind} {excerpt(i)}: category_id {category} is not among the {CATEGORIES}"
            )
    boxes = tuple(zip(*corners, (0,) * len(ids), strict=True))
    return boxes, tuple([categories[category] for category in category_ids]), areas, crowds, ids


# --- classes of images ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Classes(Task):
    """Classes of whole images.

    Attributes:
      several: True for a list of classes per image, each once, in the order of the annotations;
        otherwise an image with several categories is faulty.
      unlabelled: True for rows of images without annotations as well, without a class.
    """

    several: bool = False
    unlabelled: bool = False

    @property
    def own_columns(self) -> tuple[Column, ...]:
        """The class of an image, and its id."""
        label = Column(CLASS, ColumnKind.CLASS, "image/class", required=True, repeated=self.several)
        return label, _IMAGE_ID

    @property
    def all_images(self) -> bool:
        return self.unlabelled

    def parse(self, annotation: Mapping[str, Any]) -> int:
        category = annotation.get("category_id")
        if not is_integer(category):
            raise BadLabelError(f"category_id {excerpt(category)} is not an integer")
        return category

    def values(
        self, image_id: Id, parsed: Sequence[int], categories: Mapping[int, str]
    ) -> tuple[LabelValue, ...]:
        ids = dict.fromkeys(parsed)
        for category in ids:
            if category not in categories:
                raise BadLabelError(f"category_id {category} is not among the {CATEGORIES}")
        classes = tuple(categories[category] for category in ids)
        if len(classes) > 1 and not self.several:
            raise BadLabelError(
                f"the image has several categories, {', '.join(map(repr, classes))}; expected one. "
                f"--list_column {CLASS}=, writes lists of classes"
            )
        label = classes if self.several and classes else next(iter(classes), None)
        return label, str(image_id)


# --- captions ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Captions(Task):
    """Sentences that describe an image, in the order of the file."""

    lists: ClassVar[Sequence[str]] = (IMAGES, ANNOTATIONS)

    @property
    def own_columns(self) -> tuple[Column, ...]:
        """The captions of an image, and its id."""
        caption = Column("caption", ColumnKind.BYTES, "image/caption", True, repeated=True)
        return caption, _IMAGE_ID

    def parse(self, annotation: Mapping[str, Any]) -> str:
        caption = annotation.get("caption")
        if not is_text(caption):
            raise BadLabelError(f"caption {excerpt(caption)} is not a text")
        return caption

    def values(
        self, image_id: Id, parsed: Sequence[str], categories: Mapping[int, str]
    ) -> tuple[LabelValue, ...]:
        return tuple(parsed), str(image_id)

    def described(self, parsed: Sequence[str]) -> str:
        return "a caption"


# --- panoptic segmentation -----------------------------------------------------------------------


@dataclass(frozen=True)
class Panoptic(Task):
    """A PNG of segments for each image; the PNGs are listed, and none is opened.

    Attributes:
      masks: URI of a file -> the folder of its PNGs.
      folder: the folder of one file.
      pngs: the PNGs in it, by name.
    """

    masks: Mapping[str, str] = field(default_factory=dict)
    folder: str = ""
    pngs: Mapping[str, Any] = field(default_factory=dict)

    @property
    def own_columns(self) -> tuple[Column, ...]:
        """The mask; box, class, area in pixels, crowd flag and id of each segment; the image's id."""
        kinds = {
            "bbox": ColumnKind.BOX,
            "class": ColumnKind.CLASS,
            "area": ColumnKind.FLOAT,
            "is_crowd": ColumnKind.INT64,
            "id": ColumnKind.INT64,
        }
        segments = (
            Column(name, kind, f"image/panoptic/{name}", True, True, name == "bbox")
            for name, kind in kinds.items()
        )
        return (panoptic_column(), *segments, _IMAGE_ID)

    @property
    def all_images(self) -> bool:
        return False

    def of_file(self, uri: str) -> Panoptic:
        folder = self.masks[uri]
        return replace(self, folder=folder, pngs=files.files_in(folder))

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
    ) -> tuple[LabelValue, ...]:
        if len(parsed) > 1:
            raise BadLabelError(f"the image has {len(parsed)} masks, expected one")
        ((name, segments),) = parsed
        columns = _columns(segments, _OBJECT)
        values = _values_of(columns, categories, "segment")
        category_ids, _, crowds, ids = columns[4:]
        png = self.pngs.get(name)
        if png is None:
            raise BadLabelError(f"its mask {name} is not in {self.folder}")
        segments_of_png = tuple(zip(ids, category_ids, crowds, strict=True))
        uri = files.join(self.folder, name)
        return (uri, png.size, png.version, segments_of_png), *values, str(image_id)

    def described(self, parsed: Sequence[Any]) -> str:
        return f"mask {parsed[0][0]!r}"
