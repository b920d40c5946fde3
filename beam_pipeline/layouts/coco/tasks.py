"""What the annotations of COCO's files are about: objects, classes of images, captions, panoptic masks.

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

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

from beam_pipeline.core.labels.schema import (
    Column,
    ColumnKind,
    further_column,
    object_column,
    object_columns,
    panoptic_column,
)
from beam_pipeline.core.numbers import is_finite, is_integer
from beam_pipeline.core.references import LabelValue
from beam_pipeline.core.text import shown
from beam_pipeline.layouts.coco.extras import Extras
from beam_pipeline.layouts.coco.file import (
    ANNOTATIONS,
    CATEGORIES,
    IMAGES,
    Annotations,
    Id,
    Image,
    Task,
    is_int64,
    is_text,
)
from beam_pipeline.layouts.label_files import BadLabelError
from beam_pipeline.storage import files

CLASS = "category"
"""The name of the column of images' classes."""

_IMAGE_ID = further_column("image_id", ColumnKind.BYTES)  # a text, as the Model Garden reads it


# --- instances and key points --------------------------------------------------------------------


@dataclass(frozen=True)
class Instances(Task):
    """Objects with boxes.

    Attributes:
      text_ids: True to take ids of annotations as texts, also integers.
    """

    text_ids: bool = False
    key: ClassVar[str] = "bbox"

    @property
    def own_columns(self) -> tuple[Column, ...]:
        """Box, class, area in pixels, crowd flag and annotation id of each object; the image's id."""
        return (
            *object_columns(pixels=True),
            object_column("area", ColumnKind.FLOAT),
            object_column("is_crowd", ColumnKind.INT64),
            object_column("id", ColumnKind.BYTES if self.text_ids else ColumnKind.INT64),
            _IMAGE_ID,
        )

    def annotations(self, uri: str) -> _Objects:
        """Collects the objects."""
        return _Objects(self.extras, text_ids=self.text_ids)


_OBJECT = struct.Struct(
    "<4ddqBq"
)  # box, area, category, crowd flag, id; dicts take ten times as much


class _Objects(Annotations[bytearray]):
    """Packed objects: 57 bytes for each, and some 300 for each image. Ids that are texts take more."""

    def __init__(self, extras: Extras, *, text_ids: bool) -> None:
        super().__init__()
        self._extras = extras
        self._text_ids = text_ids
        self._unpacked: dict[Id, list[tuple[Any, ...]]] = {}  # image id -> text ids, extras

    def add(self, image_id: Id, annotation: Mapping[str, Any]) -> None:
        i = _text_id(annotation) if self._text_ids else _integer_id(annotation)
        segment = _parse_object(annotation)
        unpacked = (*((i,) if self._text_ids else ()), *self._extras.of_object(annotation))
        packed = _OBJECT.pack(*segment, 0 if isinstance(i, str) else i)
        self.of.setdefault(image_id, bytearray()).extend(packed)
        if unpacked:
            self._unpacked.setdefault(image_id, []).append(unpacked)

    def values(self, image: Image, categories: Mapping[int, str]) -> tuple[LabelValue, ...]:
        rows = list(_OBJECT.iter_unpack(self.of.get(image.id, b"")))
        *box, areas, ids_of_classes, crowds, _ = zip(*rows, strict=True) if rows else ((),) * 8
        ids = self._ids(image.id)
        for i, category in zip(ids, ids_of_classes, strict=True):
            if category not in categories:
                raise BadLabelError(
                    f"annotation {shown(i)}: category_id {category} is not among the {CATEGORIES}"
                )
        unpacked = [row[self._text_ids :] for row in self._unpacked.get(image.id, ())]
        return (
            tuple(zip(*box, (0,) * len(rows), strict=True)),
            tuple([categories[category] for category in ids_of_classes]),
            areas,
            crowds,
            ids,
            str(image.id),
            *self._extras.of_objects(unpacked),
            *image.extras,
        )

    def described(self, image_id: Id) -> str:
        first, *more = self._ids(image_id)
        return f"annotation {shown(first)}{f' (and {len(more)} more)' if more else ''}"

    def _ids(self, image_id: Id) -> tuple[Any, ...]:
        if self._text_ids:
            return tuple(row[0] for row in self._unpacked.get(image_id, ()))
        return tuple(row[-1] for row in _OBJECT.iter_unpack(self.of.get(image_id, b"")))


def _integer_id(annotation: Mapping[str, Any]) -> int:
    i = annotation.get("id")
    if not is_int64(i):
        raise BadLabelError(f"id {shown(i)} is not an integer")
    return i


def _text_id(annotation: Mapping[str, Any]) -> str:
    i = annotation.get("id")
    if not is_text(i) and not is_int64(i):
        raise BadLabelError(f"id {shown(i)} is neither a text nor an integer")
    return str(i)


def _parse_object(
    annotation: Mapping[str, Any],
) -> tuple[float, float, float, float, float, int, int]:
    """Returns (xmin, ymin, xmax, ymax, area, category, is a crowd). Raises BadLabelError."""
    category = annotation.get("category_id")
    if not is_int64(category):
        raise BadLabelError(f"category_id {shown(category)} is not an integer")
    box = annotation.get("bbox")
    if not isinstance(box, list) or len(box) != 4 or not all(map(is_finite, box)):
        raise BadLabelError(
            f"bbox {shown(box)} is not [x, y, width, height], four numbers of pixels"
        )
    x, y, width, height = map(float, box)
    area = annotation.get("area")
    if area is None:
        area = width * height
    elif not is_finite(area):
        raise BadLabelError(f"area {shown(area)} is not a number")
    crowd = annotation.get("iscrowd")
    if crowd is not None and crowd not in (0, 1):
        raise BadLabelError(f"iscrowd {shown(crowd)} is neither 0 nor 1")
    return x, y, x + width, y + height, float(area), category, int(crowd or 0)


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

    def annotations(self, uri: str) -> _ImageClasses:
        """Collects the categories."""
        return _ImageClasses(several=self.several)


class _ImageClasses(Annotations[tuple[int, ...]]):
    def __init__(self, *, several: bool) -> None:
        super().__init__()
        self._several = several
        self._equal: dict[tuple[int, ...], tuple[int, ...]] = {}  # one of equal ones, as most are

    def add(self, image_id: Id, annotation: Mapping[str, Any]) -> None:
        category = annotation.get("category_id")
        if not is_integer(category):
            raise BadLabelError(f"category_id {shown(category)} is not an integer")
        categories = self.of.get(image_id, ())
        if category not in categories:
            categories = (*categories, category)
            self.of[image_id] = self._equal.setdefault(categories, categories)

    def values(self, image: Image, categories: Mapping[int, str]) -> tuple[LabelValue, ...]:
        ids = self.of.get(image.id, ())
        for category in ids:
            if category not in categories:
                raise BadLabelError(f"category_id {category} is not among the {CATEGORIES}")
        classes = tuple(categories[category] for category in ids)
        if len(classes) > 1 and not self._several:
            raise BadLabelError(
                f"the image has several categories, {', '.join(map(repr, classes))}; expected one. "
                f"--list_column {CLASS}=, writes lists of classes"
            )
        label = classes if self._several and classes else next(iter(classes), None)
        return label, str(image.id), *image.extras


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

    def annotations(self, uri: str) -> _Sentences:
        """Collects the captions."""
        return _Sentences()


class _Sentences(Annotations[list[str]]):
    def add(self, image_id: Id, annotation: Mapping[str, Any]) -> None:
        caption = annotation.get("caption")
        if not is_text(caption):
            raise BadLabelError(f"caption {shown(caption)} is not a text")
        self.of.setdefault(image_id, []).append(caption)

    def values(self, image: Image, categories: Mapping[int, str]) -> tuple[LabelValue, ...]:
        return tuple(self.of.get(image.id, ())), str(image.id)

    def described(self, image_id: Id) -> str:
        return "a caption"


# --- panoptic segmentation -----------------------------------------------------------------------


@dataclass(frozen=True)
class Panoptic(Task):
    """A PNG of segments for each image; the PNGs are listed, and none is opened.

    Attributes:
      masks: URI of a file -> the folder of its PNGs.
    """

    masks: Mapping[str, str] = field(default_factory=dict)

    @property
    def own_columns(self) -> tuple[Column, ...]:
        """The mask; box, class, area in pixels, crowd flag and id of each segment; the image's id."""
        return (
            panoptic_column(),
            _of_segments("bbox", ColumnKind.BOX, pixels=True),
            _of_segments("class", ColumnKind.CLASS),
            _of_segments("area", ColumnKind.FLOAT),
            _of_segments("is_crowd", ColumnKind.INT64),
            _of_segments("id", ColumnKind.INT64),
            _IMAGE_ID,
        )

    @property
    def all_images(self) -> bool:
        return False

    def annotations(self, uri: str) -> _Masks:
        """Collects the masks."""
        return _Masks(self.masks[uri])


def _of_segments(name: str, kind: ColumnKind, *, pixels: bool = False) -> Column:
    return Column(name, kind, f"image/panoptic/{name}", True, repeated=True, pixels=pixels)


class _Mask(NamedTuple):
    """Attributes: name of the file; (id, values of `_parse_object`) of each segment."""

    name: str
    segments: Sequence[tuple[int, tuple[float, float, float, float, float, int, int]]]


class _Masks(Annotations[_Mask]):
    def __init__(self, folder: str) -> None:
        super().__init__()
        self._folder = folder
        self._files = files.files_in(folder)

    def add(self, image_id: Id, annotation: Mapping[str, Any]) -> None:
        name, infos = annotation.get("file_name"), annotation.get("segments_info")
        if not is_text(name):
            raise BadLabelError(f"file_name {shown(name)} is no text")
        if not isinstance(infos, list) or not all(isinstance(info, dict) for info in infos):
            raise BadLabelError("segments_info is no list of objects")
        if image_id in self.of:
            raise BadLabelError("the image has two masks, expected one")
        try:
            segments = [(_integer_id(info), _parse_object(info)) for info in infos]
        except BadLabelError as error:
            raise BadLabelError(f"a segment's {error}") from error
        self.of[image_id] = _Mask(name, segments)

    def values(self, image: Image, categories: Mapping[int, str]) -> tuple[LabelValue, ...]:
        mask = self.of[image.id]
        ids = tuple(i for i, _ in mask.segments)
        rows = [row for _, row in mask.segments]
        *box, areas, ids_of_classes, crowds = zip(*rows, strict=True) if rows else ((),) * 7
        for i, category in zip(ids, ids_of_classes, strict=True):
            if category not in categories:
                raise BadLabelError(
                    f"segment {i}: category_id {category} is not among the {CATEGORIES}"
                )
        png = self._files.get(mask.name)
        if png is None:
            raise BadLabelError(f"its mask {mask.name} is not in {self._folder}")
        place = files.join(self._folder, mask.name), png.size, png.version
        return (
            (*place, tuple(zip(ids, ids_of_classes, crowds, strict=True))),
            tuple(zip(*box, (0,) * len(rows), strict=True)),
            tuple(categories[category] for category in ids_of_classes),
            areas,
            crowds,
            ids,
            str(image.id),
        )

    def described(self, image_id: Id) -> str:
        return f"mask {self.of[image_id].name!r}"
