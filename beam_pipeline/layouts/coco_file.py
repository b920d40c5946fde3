"""COCO's JSON: one file with many images, their annotations, and the categories of these.

    {"images": [{"id": 139, "file_name": "000000000139.jpg", "width": 640, "height": 426, ...}, ...],
     "annotations": [{"id": 1768, "image_id": 139, "category_id": 18, ...}, ...],
     "categories": [{"id": 18, "name": "dog", "supercategory": "animal"}, ...]}

The lists may come in any order, among other members. What an annotation contains beside the id of its
image depends on the task; see `coco_tasks.py`. Source: https://cocodataset.org/#format-data
"""

from __future__ import annotations

import marshal
import posixpath
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from types import MappingProxyType
from typing import Any, BinaryIO, NamedTuple

from beam_pipeline.core.dead_letters import DeadLetter, Reason, Stage, row_dead_letter
from beam_pipeline.core.errors import LabelTableError
from beam_pipeline.core.json_file import JsonFile
from beam_pipeline.core.labels.cells import BadCellError, parse_cell
from beam_pipeline.core.labels.schema import Column
from beam_pipeline.core.references import LabelRow, LabelValue, Size
from beam_pipeline.core.text import counted, excerpt, is_utf8
from beam_pipeline.layouts import coco_tasks
from beam_pipeline.layouts.coco_tasks import ANNOTATIONS, CATEGORIES, IMAGES, is_int64, is_text
from beam_pipeline.layouts.entries import size_of, unbroken
from beam_pipeline.layouts.label_files import BadLabelError, common_categories

_EXPECTED = (
    "expected COCO's instances: an object with images, annotations with a bbox, and categories"
)
_SHORT = 64  # bytes; what is shorter is often the same for many images
_MARSHAL = 2  # the last version without references to objects before, so that equal is equal
_FIRST_IMAGES = 1000
_OF_OBJECTS = frozenset(
    {"bbox", "bbox_relative", "segmentation", "keypoints", "segments_info", "caption"}
)
"""Keys of annotations that describe something else than the class of an image."""


# --- reading -------------------------------------------------------------------------------------


class _Image(NamedTuple):
    """An entry of the list of images.

    Attributes:
      id, name: as in the file.
      size: width and height; None if the entry does not give them.
      fields: the values of the columns that contain its fields.
    """

    id: coco_tasks.Id
    name: str
    size: Size | None
    fields: coco_tasks.Values = ()


class _Content:
    """The images and annotations of a file.

    All annotations are held until the end of the file, since the images may follow. So they are packed.

    Attributes:
      images: in the file's order.
      problems: image id -> a fault of its entry, also of one without a name, which is a dead letter.
      faults: image id -> the fault of its first bad annotation.
      packed: image id -> what `parse` returned of its annotations, one after the other.
      dead_letters: entries that name no image, in this list or in another one.
    """

    def __init__(self, task: coco_tasks.Task, uri: str) -> None:
        self.images: list[_Image] = []
        self.problems: dict[coco_tasks.Id, str] = {}
        self.faults: dict[coco_tasks.Id, str] = {}
        self.packed: dict[coco_tasks.Id, bytes] = {}
        self.dead_letters: list[DeadLetter] = []
        self._task, self._uri = task, uri

    def add_images(self, entries: Iterator[Any]) -> None:
        """Reads the list of images. LVIS names an image by its URL at COCO's site."""
        names: dict[coco_tasks.Id, str] = {}
        sizes: dict[Size | None, Size | None] = {}  # one of equal ones, as most are
        for number, entry in enumerate(entries, 1):
            fields = entry if isinstance(entry, dict) else {}
            i, name = fields.get("id"), fields.get("file_name")
            if name is None and is_text(fields.get("coco_url")):
                name = posixpath.basename(fields["coco_url"])
            if not coco_tasks.is_id(i):
                problem = f"is {excerpt(entry)}, expected an object with an id and a file_name"
                self._reject(f"image number {number} of the list", problem)
                continue
            if not is_text(name):
                problem = f"has the file_name {excerpt(name)}, expected a text"
                self._reject(f"image_id {i!r}", problem)
                self.problems[i] = problem
                continue
            values: coco_tasks.Values = ()
            try:
                values = field_values(fields, self._task.fields)
            except BadLabelError as error:
                self.problems[i] = str(error)
            if (first := names.setdefault(i, name)) != name:
                self.problems[i] = f"image id {i!r} is that of several images: {first!r}, {name!r}"
            size = size_of(fields.get("width"), fields.get("height"))
            self.images.append(_Image(i, name, sizes.setdefault(size, size), values))

    def add_annotations(self, entries: Iterator[Any]) -> None:
        """Reads the list of annotations. Raises LabelTableError if it is of another task."""
        number, is_of_task = 0, not self._task.key
        equal: dict[bytes, bytes] = {}
        for number, entry in enumerate(entries, 1):
            fields = entry if isinstance(entry, dict) else {}
            image_id = fields.get("image_id")
            is_of_task = is_of_task or self._task.key in fields
            if not coco_tasks.is_id(image_id):
                problem = f"is {excerpt(entry)}, expected an object with an image_id"
                self._reject(_name(fields, number), problem)
                continue
            try:
                parsed = marshal.dumps(self._task.parse(fields), _MARSHAL)
            except BadLabelError as error:
                self.faults.setdefault(image_id, f"{_name(fields, number)}: {error}")
                continue
            packed = self.packed.get(image_id, b"") + parsed
            if len(packed) < _SHORT:
                packed = equal.setdefault(packed, packed)
            self.packed[image_id] = packed
        if number and not is_of_task:
            problem = f"no annotation of {self._uri} has a {self._task.key}"
            raise LabelTableError(f"{problem}; {_EXPECTED}")

    def _reject(self, key: str, problem: str) -> None:
        letter = (Stage.LABELS, key, Reason.BAD_ROW, f"{key} {problem}", self._uri, 0)
        self.dead_letters.append(row_dead_letter(*letter))

    def annotations_of(self, image_id: coco_tasks.Id) -> list[Any]:
        """Returns what `parse` returned of the annotations of an image."""
        packed, parsed = memoryview(self.packed.get(image_id, b"")), []
        while packed:  # loads() reads the first value only
            parsed.append(marshal.loads(packed))  # noqa: S302, packed above
            packed = packed[len(marshal.dumps(parsed[-1], _MARSHAL)) :]
        return parsed

    def without_image(self) -> Iterator[DeadLetter]:
        """Yields the dead letters of annotations whose image is not in the list."""
        known = self.problems.keys() | {image.id for image in self.images}
        for image_id in dict.fromkeys([*self.packed, *self.faults]):
            if image_id not in known:
                number = counted(len(self.annotations_of(image_id)), "annotation")
                image = f"image_id {image_id!r} is not among the {IMAGES} of {self._uri}"
                message = f"{self.faults.get(image_id) or number}: {image}"
                letter = (f"image_id {image_id}", Reason.MISSING_IMAGE, message, self._uri, 0)
                yield row_dead_letter(Stage.JOIN, *letter)


@dataclass(frozen=True)
class CocoReader:
    """Reads a file of many images and all of their annotations.

    Attributes:
      task: what the annotations are about.
      splits: URI of a file -> the split of its images.
      folders: URI of a file -> the folder of its images, if images elsewhere may have the same bare
        names. Other names are taken as written.
    """

    task: coco_tasks.Task
    splits: Mapping[str, str] = field(default_factory=dict)
    folders: Mapping[str, str] = field(default_factory=dict)

    def read(self, file: BinaryIO, uri: str) -> Iterator[LabelRow | DeadLetter]:
        """Yields a row for each image of a file, in the file's order.

        Raises:
          LabelTableError: the file is broken, or of another task.
        """
        task = self.task.of_file(uri)
        content = _Content(task, uri)
        categories: Mapping[int, str] = {}
        missing = dict.fromkeys(task.lists)
        with unbroken(uri):
            for name, entries in read_lists(file, uri, task.lists):
                missing.pop(name)
                if name == IMAGES:
                    content.add_images(entries)
                elif name == CATEGORIES:
                    categories = parse_categories(list(entries), uri)
                else:
                    content.add_annotations(entries)
        if missing:
            raise LabelTableError(f"{uri} has no {' and no '.join(missing)}; {_EXPECTED}")
        yield from content.dead_letters
        nothing = tuple(() if column.repeated else None for column in task.columns)
        folder, split = self.folders.get(uri, ""), self.splits.get(uri, "")
        for i, name, size, fields in content.images:
            if not (task.all_images or i in content.packed or i in content.faults):
                continue
            problem = content.problems.get(i) or content.faults.get(i, "")
            values: coco_tasks.Values = nothing
            try:
                if not problem:
                    values = (*task.values(i, content.annotations_of(i), categories), *fields)
            except BadLabelError as error:
                problem = str(error)
            path = f"{folder}/{name}" if folder and not set("/\\") & set(name) else name
            yield LabelRow(path, values, split, uri, 0, problem, size)
        yield from content.without_image()


# --- lists and their entries ---------------------------------------------------------------------


def read_lists(file: BinaryIO, uri: str, names: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """Yields (name, elements) of those lists of a file that it has, in the file's order.

    Raises:
      LabelTableError: one of them is not a list, or there twice.
      JsonFileError: the file is broken.
    """
    seen: set[str] = set()
    for name, value in JsonFile(file).members(names):
        if name in seen:
            raise LabelTableError(f"{uri} has two lists of {name}, expected one")
        if not isinstance(value, Iterator):
            problem = f"{uri}: {name} is {excerpt(value)}, expected a list"
            raise LabelTableError(f"{problem}; {_EXPECTED}")
        seen.add(name)
        yield name, value


def parse_categories(entries: Sequence[Any], uri: str) -> dict[int, str]:
    """Parses the names of categories by their ids.

    Raises:
      LabelTableError: an id or a name is invalid, or two categories share one.
    """
    named: dict[str, dict[int, str]] = {}
    for number, entry in enumerate(entries, 1):
        fields = entry if isinstance(entry, dict) else {}
        i, name = fields.get("id"), fields.get("name")
        if not is_int64(i) or not is_text(name):
            problem = f"category number {number} is {excerpt(entry)}"
            expected = "expected an object with an integer id and a name"
            raise LabelTableError(f"{uri}: {problem}; {expected}")
        named[f"category number {number} of {uri}"] = {i: name}
    if not named:
        raise LabelTableError(f"{uri} has an empty list of {CATEGORIES}, so no object has a class")
    return common_categories(named)


def field_values(entry: Mapping[str, Any], fields: Sequence[Column]) -> coco_tasks.Values:
    """Returns the values of an image's fields; of a list, those that are integers. Raises BadLabelError."""
    values: list[LabelValue] = []
    for column in fields:
        value = entry.get(column.name)
        try:
            if isinstance(value, str) and not is_utf8(value):
                raise BadCellError(f"{excerpt(value)} is not a text")
            integers = filter(is_int64, value if isinstance(value, list) else ())
            values.append(tuple(integers) if column.repeated else parse_cell(value, column))
        except BadCellError as error:
            raise BadLabelError(f"field {column.name!r}: {error}") from error
    return tuple(values)


def _name(fields: Mapping[str, Any], number: int) -> str:
    """The name of an annotation in messages: its id, or else its number in the file."""
    own = fields.get("id")
    if is_text(own) or is_int64(own):
        return f"annotation {excerpt(own)}"
    return f"annotation number {number} of the list"


# --- before the job starts -----------------------------------------------------------------------


class Description(NamedTuple):
    """A file.

    Attributes:
      task: what its first annotations are about.
      text_ids: True if the id of the first one is a text, which LILA uses.
      names: category id -> name; none for captions.
      keypoints: names of the key points of objects, of each category that has other ones.
      fields: names of the fields of the first images.
    """

    task: type[coco_tasks.Task] = coco_tasks.Instances
    text_ids: bool = False
    names: Mapping[int, str] = MappingProxyType({})
    keypoints: frozenset[tuple[str, ...]] = frozenset()
    fields: tuple[str, ...] = ()


def describe(file: BinaryIO, uri: str, *, with_fields: bool = False) -> Description:
    """Reads a file up to its categories and first annotations, often to its end.

    Args:
      file: open at its beginning.
      uri: its URI.
      with_fields: True to look for the fields of images as well.

    Raises:
      LabelTableError: the file is broken, or lacks categories.
    """
    described, categories = Description(), None
    unseen = {CATEGORIES, ANNOTATIONS, *([IMAGES] * with_fields)}
    with unbroken(uri):
        for name, elements in read_lists(file, uri, coco_tasks.ALL_LISTS):
            unseen.discard(name)
            if name == CATEGORIES:
                categories = list(elements)
            elif name == ANNOTATIONS:
                described = survey_annotations(elements)._replace(fields=described.fields)
                if described.task is coco_tasks.Captions:
                    return described
            elif with_fields:
                images = (i for i in islice(elements, _FIRST_IMAGES) if isinstance(i, dict))
                fields = dict.fromkeys(chain.from_iterable(images))
                described = described._replace(fields=tuple(fields))
            if not unseen:
                break
    if categories is None:
        raise LabelTableError(f"{uri} has no {CATEGORIES}; {_EXPECTED}")
    lists = [entry.get("keypoints") for entry in categories if isinstance(entry, dict)]
    points = {tuple(each) for each in lists if isinstance(each, list) and all(map(is_text, each))}
    names = parse_categories(categories, uri)
    return described._replace(names=names, keypoints=frozenset(points - {()}))


def survey_annotations(annotations: Iterator[Any]) -> Description:
    """Looks at the annotations of a file, up to the first one of an object.

    An annotation that gives the class of its whole image has neither a box nor an outline. iNaturalist's
    challenges and camera traps have such files. Sources: https://github.com/visipedia/inat_comp and
    https://lila.science/coco-camera-traps
    """
    first = next(annotations, None)
    if isinstance(first, dict) and "bbox" not in first:
        if "caption" in first:
            return Description(coco_tasks.Captions)
        if "segments_info" in first:
            return Description(coco_tasks.Panoptic)
    objects = Description(text_ids=isinstance(first, dict) and is_text(first.get("id")))
    of_classes = False
    for annotation in chain((first,), annotations):
        if isinstance(annotation, dict):
            if not _OF_OBJECTS.isdisjoint(annotation):
                return objects
            of_classes = of_classes or isinstance(annotation.get("category_id"), int)
    return objects._replace(task=coco_tasks.Classes) if of_classes else objects
