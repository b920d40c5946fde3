"""COCO's instances: one JSON file with many images, the objects in them, and their categories.

    {"images": [{"id": 139, "file_name": "000000000139.jpg", ...}, ...],
     "annotations": [{"id": 1768, "image_id": 139, "category_id": 18, "bbox": [x, y, width, height],
                      "area": 702.1, "iscrowd": 0, "segmentation": ...}, ...],
     "categories": [{"id": 18, "name": "dog", "supercategory": "animal"}, ...]}

The three lists may come in any order, among other members. Boxes are in pixels from the upper left
corner. Source: https://cocodataset.org/#format-data
"""

from __future__ import annotations

import posixpath
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, MutableSequence, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, BinaryIO, NamedTuple, TypeGuard

from beam_pipeline.core.dead_letters import DeadLetter, Reason, Stage, row_dead_letter
from beam_pipeline.core.errors import LabelTableError
from beam_pipeline.core.labels.numbers import INT64, is_finite, is_integer
from beam_pipeline.core.labels.schema import (
    Column,
    ColumnKind,
    further_column,
    object_column,
    object_columns,
)
from beam_pipeline.core.references import LabelRow, LabelValue, Size
from beam_pipeline.core.text import is_utf8, shown
from beam_pipeline.layouts.coco.extras import NO_EXTRAS, BadAnnotationError, Extras
from beam_pipeline.layouts.coco.json_file import (
    JsonFileError,
    first_value,
    json_members,
    values_at,
)
from beam_pipeline.layouts.coco.survey import BOX, Survey, holds_key, survey


def instance_columns(*, text_ids: bool = False) -> tuple[Column, ...]:
    """Returns the columns of instances.

    They are box, class, area in pixels, crowd flag and annotation id of each object, and the id of each
    image, as text, since TensorFlow's Model Garden reads ids of images as text.

    Args:
      text_ids: True if ids of annotations are texts; else they are integers.
    """
    return (
        *object_columns(pixels=True),
        object_column("area", ColumnKind.FLOAT),
        object_column("is_crowd", ColumnKind.INT64),
        object_column("id", ColumnKind.BYTES if text_ids else ColumnKind.INT64),
        further_column("image_id", ColumnKind.BYTES),
    )


_IMAGES, _ANNOTATIONS, _CATEGORIES = "images", "annotations", "categories"
_LISTS = (_IMAGES, _ANNOTATIONS, _CATEGORIES)
_CAPTION = "caption"
_OTHER_KINDS = {_CAPTION: "captions", "segments_info": "a panoptic segmentation"}
"""Keys of annotations without a box -> the kind of annotation."""

_EXPECTED = (
    "expected COCO's instances: an object with images, annotations with a bbox, and categories"
)
_Id = int | str


class CaptionsError(LabelTableError):
    """A file holds captions instead of objects."""


@dataclass(frozen=True)
class Categories:
    """The categories of a file.

    Attributes:
      names: id -> name.
      keypoints: names of the key points of objects; empty if no category has any.
      text_ids: True if the id of the first annotation is a text, as in LILA's files.
      of_images: the first annotations, if all of the file say the classes of whole images.
    """

    names: Mapping[int, str]
    keypoints: tuple[str, ...] = ()
    text_ids: bool = False
    of_images: Survey | None = None


# --- categories, before the job starts -----------------------------------------------------------


def read_categories(
    open_file: Callable[[], AbstractContextManager[BinaryIO]], uri: str
) -> Categories:
    """Reads the categories of a file. It is read up to them, often to its end.

    Args:
      open_file: opens the file at its beginning.
      uri: its URI.

    Raises:
      CaptionsError: the file holds captions.
      LabelTableError: the file has none, or they are faulty.
    """
    try:
        with open_file() as file:
            surveyed = survey(values_at(file, f"{_ANNOTATIONS}.item"))
            _check_kind(surveyed.first, uri)
        with open_file() as file:
            found = first_value(file, _CATEGORIES)
        of_images = surveyed.of_images and not _has_boxes(open_file)
    except JsonFileError as error:
        raise broken_json(uri, error) from error
    if not found:
        raise LabelTableError(f"{uri} has no {_CATEGORIES}; {_EXPECTED}")
    (categories,) = found
    if not isinstance(categories, list):
        raise _not_a_list(categories, _CATEGORIES, uri)
    return Categories(
        names=parse_categories(categories, uri),
        keypoints=_keypoint_names(categories, uri),
        text_ids=isinstance(surveyed.first, dict) and is_text(surveyed.first.get("id")),
        of_images=surveyed if of_images else None,
    )


def _has_boxes(open_file: Callable[[], AbstractContextManager[BinaryIO]]) -> bool:
    """True if any annotation of a file has a box, though the first ones have none."""
    with open_file() as file:
        if not holds_key(file, BOX):
            return False
    with open_file() as file:
        return bool(first_value(file, f"{_ANNOTATIONS}.item.{BOX}"))


def _keypoint_names(entries: Sequence[Any], uri: str) -> tuple[str, ...]:
    """Returns the names of key points, which must be the same in all categories that have any."""
    found = {
        tuple(entry["keypoints"])
        for entry in entries
        if isinstance(entry.get("keypoints"), list) and all(map(is_text, entry["keypoints"]))
    } - {()}
    if len(found) > 1:
        sizes = " and ".join(str(len(names)) for names in sorted(found))
        raise LabelTableError(
            f"{uri}: categories with different key points ({sizes} of them), expected the same ones; "
            "convert a file for each category"
        )
    return found.pop() if found else ()


def parse_categories(entries: Sequence[Any], uri: str) -> dict[int, str]:
    """Parses the names of categories by their ids.

    Raises:
      LabelTableError: an id or a name is invalid or occurs twice.
    """
    names: dict[int, str] = {}
    for number, entry in enumerate(entries, 1):
        fields = entry if isinstance(entry, dict) else {}
        category, name = fields.get("id"), fields.get("name")
        if not _is_int64(category) or not is_text(name):
            raise LabelTableError(
                f"{uri}: category number {number} is {shown(entry)}; expected an object with an "
                "integer id and a name"
            )
        if category in names:
            raise LabelTableError(
                f"{uri}: category id {category} is there twice, as {names[category]!r} and {name!r}; "
                "give each category a different id"
            )
        names[category] = name
    twice = [name for name, count in Counter(names.values()).items() if count > 1]
    if twice:
        ids = ", ".join(str(category) for category, name in names.items() if name == twice[0])
        raise LabelTableError(
            f"{uri}: the name {twice[0]!r} is that of several categories, ids {ids}, so it stands for "
            "none of them; rename all but one"
        )
    if not names:
        raise LabelTableError(f"{uri} has an empty list of {_CATEGORIES}, so no object has a class")
    return names


# --- images and objects, in the job --------------------------------------------------------------


def read_instances(
    file: BinaryIO,
    uri: str,
    *,
    split: str = "",
    folder: str = "",
    extras: Extras = NO_EXTRAS,
    text_ids: bool = False,
) -> Iterator[LabelRow | DeadLetter]:
    """Yields a row for each image of a file, in the file's order.

    Its values are those of `instance_columns`, then those of the extras.

    All objects of the file are held until its end, since their images may follow them: 70 bytes per
    object, 450 bytes per image. An id that is a text takes 90 bytes more.

    Args:
      file: open at its beginning.
      uri: its URI.
      split: the split of its images, or empty.
      folder: URI of the folder of the images, if images elsewhere may have the same bare names;
        empty to use names as written.
      extras: the features to read besides boxes and classes.
      text_ids: True to take ids of annotations as texts, also integers.

    Raises:
      LabelTableError: the file is broken, or holds no instances.
    """
    found = _read(file, uri, _Instances(extras, text_ids=text_ids))
    entries = found.entries
    yield from entries.dead_letters
    nothing = (*(() if column.repeated else None for column in instance_columns()), *extras.nothing)
    for image in entries.images:
        problem = found.problem(image)
        values = nothing if problem else found.values(image)
        yield image.row(values, problem, split=split, folder=folder, uri=uri)
    yield from entries.missing(dict(found.objects.named), uri)


class Image(NamedTuple):
    id: _Id
    name: str
    size: Size | None
    extras: tuple[LabelValue, ...] = ()

    def row(
        self, values: tuple[LabelValue, ...], problem: str, *, split: str, folder: str, uri: str
    ) -> LabelRow:
        """Makes the row of an image; a bare name is placed in the folder, if one is given."""
        is_bare = folder and not set("/\\") & set(self.name)
        return LabelRow(
            f"{folder}/{self.name}" if is_bare else self.name,
            values,
            split=split,
            file=uri,
            line=0,
            problem=problem,
            size=self.size,
        )


class ImageEntries:
    """The list of images of a file.

    Attributes:
      images: in the file's order.
      dead_letters: entries that name no image, in this list or in another one.
    """

    def __init__(self, extras: Extras = NO_EXTRAS) -> None:
        self.images: list[Image] = []
        self.dead_letters: list[DeadLetter] = []
        self._extras = extras
        self._left_out: set[_Id] = set()  # ids of images that ended as dead letters
        self._same_id: dict[_Id, list[str]] = {}  # image id -> names, if there are several
        self._same_name: dict[str, list[_Id]] = {}  # name -> image ids, likewise
        self._problems: dict[_Id, str] = {}  # image id -> the fault of its fields

    def read(self, entries: Iterator[Any], uri: str) -> None:
        """Reads the list. LVIS names an image by its URL at COCO's site."""
        names: dict[_Id, str] = {}
        ids: dict[str, _Id] = {}
        sizes: dict[Size | None, Size | None] = {}  # one of equal ones, as most are
        for number, entry in enumerate(entries, 1):
            fields = entry if isinstance(entry, dict) else {}
            image_id, name = fields.get("id"), fields.get("file_name")
            if name is None and is_text(fields.get("coco_url")):
                name = posixpath.basename(fields["coco_url"])
            if not is_id(image_id):
                problem = f"is {shown(entry)}, expected an object with an id and a file_name"
                self.dead_letters.append(
                    bad_row(f"image number {number} of the list", problem, uri)
                )
            elif not is_text(name):
                problem = f"has the file_name {shown(name)}, expected a text"
                self.dead_letters.append(bad_row(f"image_id {image_id!r}", problem, uri))
                self._left_out.add(image_id)
            else:
                if names.setdefault(image_id, name) != name:
                    self._same_id.setdefault(image_id, [names[image_id]]).append(name)
                if ids.setdefault(name, image_id) != image_id:
                    self._same_name.setdefault(name, [ids[name]]).append(image_id)
                extras: tuple[LabelValue, ...] = ()
                try:
                    extras = self._extras.of_image(fields)
                except BadAnnotationError as error:
                    self._problems[image_id] = str(error)
                size = _size(fields)
                size = sizes.setdefault(size, size)
                self.images.append(Image(image_id, name, size, extras))

    def problem(self, image: Image) -> str:
        """Returns the fault of an image's entry, or empty."""
        if image.id in self._same_id:
            names = ", ".join(map(repr, self._same_id[image.id]))
            return f"image id {image.id!r} is that of several images: {names}"
        if image.name in self._same_name:
            ids = ", ".join(map(repr, self._same_name[image.name]))
            return f"several images have this file_name, of ids {ids}"
        return self._problems.get(image.id, "")

    def missing(self, named: Mapping[_Id, str], uri: str) -> Iterator[DeadLetter]:
        """Yields a dead letter for each image that is missing from the list.

        Args:
          named: image ids in annotations -> the name of the annotation, for the message.
          uri: the file.
        """
        there = self._left_out.union(image.id for image in self.images)
        for image_id, what in named.items():
            if image_id not in there:
                yield row_dead_letter(
                    stage=Stage.JOIN,
                    key=f"image_id {image_id}",
                    reason=Reason.MISSING_IMAGE,
                    message=f"{what}: image_id {image_id!r} is not among the {_IMAGES} of {uri}",
                    file=uri,
                    line=0,
                )


class _Objects:
    """All objects of a file, one list per field; dicts would take ten times the memory."""

    def __init__(self, extras: Extras, *, text_ids: bool) -> None:
        self._parse_extras = extras.of_object
        self._parse_id: Callable[[Mapping[str, Any]], _Id] = _text_id if text_ids else _integer_id
        self.extras: list[tuple[Any, ...]] = []
        self.boxes = array("d")  # xmin, ymin, xmax, ymax of each
        self.areas = array("d")
        self.crowds = array("b")
        self.ids: MutableSequence[Any] = [] if text_ids else array("q")
        self.categories = array("q")
        self._previous = array("q")  # index of the object before it in the same image, or -1
        self._last: dict[_Id, int] = {}  # image id -> index of its last object
        self.problems: dict[_Id, str] = {}  # image id -> the fault of its first bad one

    def add(self, annotation: Mapping[str, Any], image_id: _Id, number: int) -> None:
        """Stores an object, or its fault."""
        try:
            object_id = self._parse_id(annotation)
            category, box, area, crowd = _parse_rest(annotation)
            extras = self._parse_extras(annotation)
        except BadAnnotationError as error:
            problem = f"{annotation_name(annotation, number)}: {error}"
            self.problems.setdefault(image_id, problem)
            return
        index = len(self.ids)
        self.ids.append(object_id)
        self.categories.append(category)
        if extras:
            self.extras.append(extras)
        self.boxes.extend(box)
        self.areas.append(area)
        self.crowds.append(crowd)
        self._previous.append(self._last.get(image_id, -1))
        self._last[image_id] = index

    def of(self, image_id: _Id) -> list[int]:
        """Returns the indexes of an image's objects, in the order of the file."""
        indexes = []
        index = self._last.get(image_id, -1)
        while index >= 0:
            indexes.append(index)
            index = self._previous[index]
        return indexes[::-1]

    @property
    def named(self) -> Iterator[tuple[_Id, str]]:
        """Yields each image that annotations name, with the first annotation, for messages."""
        for image_id in self._last:
            ids = [self.ids[index] for index in self.of(image_id)]
            more = f" (and {len(ids) - 1} more)" if len(ids) > 1 else ""
            yield image_id, f"annotation {shown(ids[0])}{more}"
        for image_id, problem in self.problems.items():
            if image_id not in self._last:
                yield image_id, problem


class _Instances:
    """The content of a file."""

    def __init__(self, extras: Extras, *, text_ids: bool) -> None:
        self.entries = ImageEntries(extras)
        self.objects = _Objects(extras, text_ids=text_ids)
        self.categories: dict[int, str] = {}
        self._extras = extras

    def problem(self, image: Image) -> str:
        """Returns the fault of an image's labels, or empty."""
        problem = self.entries.problem(image) or self.objects.problems.get(image.id, "")
        if problem:
            return problem
        for index in self.objects.of(image.id):
            category = self.objects.categories[index]
            if category not in self.categories:
                return (
                    f"annotation {shown(self.objects.ids[index])}: category_id {category} is not among "
                    f"the {_CATEGORIES}"
                )
        return ""

    def values(self, image: Image) -> tuple[LabelValue, ...]:
        """The values of all columns."""
        objects = self.objects
        indexes = objects.of(image.id)
        left, top, right, bottom = (
            [objects.boxes[4 * index + side] for index in indexes] for side in range(4)
        )
        return (
            tuple(zip(left, top, right, bottom, [0] * len(indexes), strict=True)),
            tuple([self.categories[objects.categories[index]] for index in indexes]),
            tuple([objects.areas[index] for index in indexes]),
            tuple([objects.crowds[index] for index in indexes]),
            tuple([objects.ids[index] for index in indexes]),
            str(image.id),
            *self._extras.of_objects(
                [objects.extras[index] for index in indexes if objects.extras]
            ),
            *image.extras,
        )


def _read(file: BinaryIO, uri: str, found: _Instances) -> _Instances:
    for key, elements in read_lists(file, uri, _LISTS):
        if key == _IMAGES:
            found.entries.read(elements, uri)
        elif key == _ANNOTATIONS:
            _read_annotations(elements, uri, found)
        else:
            found.categories = parse_categories(list(elements), uri)
    return found


def read_lists(
    file: BinaryIO, uri: str, keys: Sequence[str]
) -> Iterator[tuple[str, Iterator[Any]]]:
    """Yields (key, elements) of the lists of a file, in the file's order.

    Raises:
      LabelTableError: the file is broken, or a list is missing, not a list, or there twice.
    """
    seen = set()
    try:
        for key, value in json_members(file, keys):
            if key in seen:
                raise LabelTableError(f"{uri} has two lists of {key}, expected one")
            seen.add(key)
            yield key, _told(_elements(value, key, uri), uri)
    except JsonFileError as error:
        raise broken_json(uri, error) from error
    missing = [key for key in keys if key not in seen]
    if missing:
        raise LabelTableError(f"{uri} has no {' and no '.join(missing)}; {_EXPECTED}")


def _told(elements: Iterator[Any], uri: str) -> Iterator[Any]:
    """Yields the elements of a list; an error among them names the file."""
    try:
        yield from elements
    except JsonFileError as error:
        raise broken_json(uri, error) from error


def _size(fields: Mapping[str, Any]) -> Size | None:
    """Width and height of an image; None unless both are whole numbers of pixels from 1 on."""
    width, height = fields.get("width"), fields.get("height")
    if not is_finite(width) or not is_finite(height) or min(width, height) < 1:
        return None
    return int(width), int(height)


def _read_annotations(entries: Iterator[Any], uri: str, found: _Instances) -> None:
    with_box = 0
    first = None
    for number, entry in enumerate(entries, 1):
        first = first or entry
        fields = entry if isinstance(entry, dict) else {}
        image_id = fields.get("image_id")
        with_box += "bbox" in fields
        if is_id(image_id):
            found.objects.add(fields, image_id, number)
        else:
            problem = f"is {shown(entry)}, expected an object with an image_id"
            found.entries.dead_letters.append(
                bad_row(annotation_name(fields, number), problem, uri)
            )
    if first is not None and not with_box:
        _check_kind(first, uri)
        raise LabelTableError(f"no annotation of {uri} has a bbox; {_EXPECTED}")


def annotation_name(fields: Mapping[str, Any], number: int) -> str:
    """Returns the name of an annotation in messages: its id, or else its number in the file."""
    found = fields.get("id")
    if is_text(found) or _is_int64(found):
        return f"annotation {shown(found)}"
    return f"annotation number {number} of the list"


def parse_object(annotation: Mapping[str, Any]) -> tuple[int, int, tuple[float, ...], float, int]:
    """Returns (id, category, box, area, is a crowd) of an annotation.

    Raises:
      BadAnnotationError: one of them is wrong; the message names it.
    """
    return (_integer_id(annotation), *_parse_rest(annotation))


def _integer_id(annotation: Mapping[str, Any]) -> int:
    found = annotation.get("id")
    if not _is_int64(found):
        raise BadAnnotationError(f"id {shown(found)} is not an integer")
    return found


def _text_id(annotation: Mapping[str, Any]) -> str:
    found = annotation.get("id")
    if not is_text(found) and not _is_int64(found):
        raise BadAnnotationError(f"id {shown(found)} is neither a text nor an integer")
    return str(found)


def _parse_rest(annotation: Mapping[str, Any]) -> tuple[int, tuple[float, ...], float, int]:
    """Returns (category, box, area, is a crowd) of an annotation. Raises as `parse_object`."""
    category = annotation.get("category_id")
    if not _is_int64(category):
        raise BadAnnotationError(f"category_id {shown(category)} is not an integer")
    box = annotation.get("bbox")
    if not isinstance(box, list) or len(box) != 4 or not all(map(is_finite, box)):
        raise BadAnnotationError(
            f"bbox {shown(box)} is not [x, y, width, height], four numbers of pixels"
        )
    x, y, width, height = map(float, box)
    area = annotation.get("area")
    if area is None:
        area = width * height
    elif not is_finite(area):
        raise BadAnnotationError(f"area {shown(area)} is not a number")
    crowd = annotation.get("iscrowd")
    if crowd is not None and crowd not in (0, 1):
        raise BadAnnotationError(f"iscrowd {shown(crowd)} is neither 0 nor 1")
    return category, (x, y, x + width, y + height), float(area), int(crowd or 0)


# --- both ----------------------------------------------------------------------------------------


def _elements(value: Any, key: str, uri: str) -> Iterator[Any]:
    """Yields the elements of a member, which must be a list."""
    if not isinstance(value, Iterator):
        raise _not_a_list(value, key, uri)
    return value


def _not_a_list(value: Any, key: str, uri: str) -> LabelTableError:
    return LabelTableError(f"{uri}: {key} is {shown(value)}, expected a list; {_EXPECTED}")


def _check_kind(annotation: Any, uri: str) -> None:
    """Raises LabelTableError if a file's first annotation is of another task of COCO's."""
    if not isinstance(annotation, dict) or "bbox" in annotation:
        return
    for key, what in _OTHER_KINDS.items():
        if key in annotation:
            error = CaptionsError if key == _CAPTION else LabelTableError
            raise error(
                f"{uri} holds {what}, not objects with a bbox; leave it out, and name COCO's "
                "instances_*.json instead"
            )


def broken_json(uri: str, error: JsonFileError) -> LabelTableError:
    """The error for a file that is no JSON."""
    return LabelTableError(f"{uri} is not the JSON of COCO: {error}; mend it or fetch it again")


def bad_row(what: str, problem: str, uri: str) -> DeadLetter:
    return row_dead_letter(
        stage=Stage.LABELS,
        key=what,
        reason=Reason.BAD_ROW,
        message=f"{what} {problem}",
        file=uri,
        line=0,
    )


def is_id(value: Any) -> TypeGuard[_Id]:
    """True if a value can identify an image."""
    return is_text(value) or is_integer(value)


def _is_int64(value: Any) -> TypeGuard[int]:
    return is_integer(value) and value in INT64


def is_text(value: Any) -> TypeGuard[str]:
    """True if a value is a text that UTF-8 can encode; JSON may contain half a character."""
    return isinstance(value, str) and value != "" and is_utf8(value)
