"""COCO's JSON: one file with many images, their annotations, and the categories of these.

    {"images": [{"id": 139, "file_name": "000000000139.jpg", "width": 640, "height": 426, ...}, ...],
     "annotations": [{"id": 1768, "image_id": 139, "category_id": 18, ...}, ...],
     "categories": [{"id": 18, "name": "dog", "supercategory": "animal"}, ...]}

The lists may come in any order, among other members. What an annotation contains beside the id of its
image depends on the task; see `tasks.py`. Source: https://cocodataset.org/#format-data
"""

from __future__ import annotations

import marshal
import posixpath
import struct
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO, ClassVar, NamedTuple, TypeGuard

from beam_pipeline.core.dead_letters import DeadLetter, Reason, Stage, row_dead_letter
from beam_pipeline.core.errors import LabelTableError
from beam_pipeline.core.json_file import JsonFile, JsonFileError
from beam_pipeline.core.labels.cells import BadCellError, parse_cell
from beam_pipeline.core.labels.schema import Column
from beam_pipeline.core.references import LabelRow, LabelValue, Size
from beam_pipeline.core.text import excerpt, is_utf8
from beam_pipeline.core.typed_json import INT64, is_integer
from beam_pipeline.layouts.entries import size_of
from beam_pipeline.layouts.label_files import BadLabelError

IMAGES, ANNOTATIONS, CATEGORIES = "images", "annotations", "categories"
ALL_LISTS = (IMAGES, ANNOTATIONS, CATEGORIES)
EXPECTED = (
    "expected COCO's instances: an object with images, annotations with a bbox, and categories"
)
_SHORT = 64  # bytes; what is shorter is often the same for many images
_LENGTH = struct.Struct("<I")
_MARSHAL = 2  # the last version without references to objects before, so that equal is equal

Id = int | str


class Image(NamedTuple):
    """An entry of the list of images.

    Attributes:
      id, name: as in the file.
      size: width and height; None if the entry does not give them.
      fields: the values of the columns that contain its fields.
    """

    id: Id
    name: str
    size: Size | None
    fields: tuple[LabelValue, ...] = ()


@dataclass(frozen=True)
class Task:
    """What the annotations of a file are about. It is pickled, and keeps no state.

    Attributes:
      fields: columns of fields of images' entries, which have their names.
      lists: the lists that a file must have.
      key: the key that some annotation of a file must have; empty for none.
    """

    fields: tuple[Column, ...] = ()
    lists: ClassVar[Sequence[str]] = ALL_LISTS
    key: ClassVar[str] = ""

    @property
    def own_columns(self) -> tuple[Column, ...]:
        """The columns except images' fields."""
        raise NotImplementedError

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of a row's values."""
        return (*self.own_columns, *self.fields)

    @property
    def all_images(self) -> bool:
        """True if images without annotations have rows as well."""
        return True

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
    ) -> tuple[LabelValue, ...]:
        """The values of an image in the order of `own_columns`. Raises BadLabelError.

        Args:
          image_id: the image.
          parsed: its annotations' content, in the file's order.
          categories: id -> name.
        """
        raise NotImplementedError

    def described(self, parsed: Sequence[Any]) -> str:
        """The annotations of an image, for a message; it has some."""
        return "an annotation"

    def field_values(self, entry: Mapping[str, Any]) -> tuple[LabelValue, ...]:
        """Returns the values of an image's fields; of a list, those that are integers.

        Raises:
          BadLabelError: a value is not of its column's kind.
        """
        values: list[LabelValue] = []
        for column in self.fields:
            value = entry.get(column.name)
            if column.repeated:
                values.append(tuple(filter(is_int64, value if isinstance(value, list) else ())))
                continue
            if isinstance(value, str) and not is_utf8(value):
                raise BadLabelError(f"field {column.name!r}: {excerpt(value)} is not a text")
            try:
                values.append(parse_cell(value, column))
            except BadCellError as error:
                raise BadLabelError(f"field {column.name!r}: {error}") from error
        return tuple(values)


class _Annotations:
    """The content of a file's annotations, as far as a task reads it.

    All of it is held until the end of the file, since the images may follow, and so it is packed: as
    records of one size if the task has them, else as lengths and values.

    Attributes:
      faults: image id -> the fault of its first bad annotation.
    """

    def __init__(self, record: struct.Struct | None) -> None:
        self.faults: dict[Id, str] = {}
        self._record = record
        self._packed: dict[Id, bytes] = {}
        self._equal: dict[bytes, bytes] = {}

    def add(self, image_id: Id, parsed: Any) -> None:
        """Adds what an annotation states."""
        if self._record:
            packed = self._record.pack(*parsed)
        else:
            value = marshal.dumps(parsed, _MARSHAL)
            packed = _LENGTH.pack(len(value)) + value
        packed = self._packed.get(image_id, b"") + packed
        if not self._record and len(packed) < _SHORT:
            packed = self._equal.setdefault(packed, packed)
        self._packed[image_id] = packed

    def of(self, image_id: Id) -> list[Any]:
        """Returns the content of an image's annotations."""
        packed = self._packed.get(image_id, b"")
        if self._record:
            return list(self._record.iter_unpack(packed))
        parsed, start = [], 0
        while start < len(packed):
            start, (length,) = start + _LENGTH.size, _LENGTH.unpack_from(packed, start)
            parsed.append(marshal.loads(packed[start : start + length]))  # noqa: S302, packed above
            start += length
        return parsed

    def image_ids(self) -> dict[Id, None]:
        """The images of all annotations, bad ones included."""
        return dict.fromkeys([*self._packed, *self.faults])


@dataclass(frozen=True)
class CocoReader:
    """Reads a file of many images and all of their annotations.

    Attributes:
      task: what the annotations are about.
      splits: URI of a file -> the split of its images.
      folders: URI of a file -> the folder of its images, if images elsewhere may have the same bare
        names. Other names are taken as written.
    """

    task: Task
    splits: Mapping[str, str] = field(default_factory=dict)
    folders: Mapping[str, str] = field(default_factory=dict)

    def read(self, file: BinaryIO, uri: str) -> Iterator[LabelRow | DeadLetter]:
        """Yields a row for each image of a file, in the file's order.

        Raises:
          LabelTableError: the file is broken, or of another task.
        """
        task = self.task.of_file(uri)
        images, annotations = _Images(task, uri), _Annotations(task.record)
        categories: Mapping[int, str] = {}
        missing = dict.fromkeys(task.lists)
        for name, entries in read_lists(file, uri, task.lists):
            missing.pop(name)
            if name == IMAGES:
                images.read(entries)
            elif name == CATEGORIES:
                categories = parse_categories(list(entries), uri)
            else:
                _read_annotations(task, entries, annotations, images)
        if missing:
            raise LabelTableError(f"{uri} has no {' and no '.join(missing)}; {EXPECTED}")
        yield from images.dead_letters
        nothing: tuple[LabelValue, ...] = tuple(
            () if column.repeated else None for column in task.columns
        )
        without_image = annotations.image_ids()
        for image in images.images:
            if not task.all_images and image.id not in without_image:
                continue
            problem = images.problem(image) or annotations.faults.get(image.id, "")
            values = nothing
            if not problem:
                try:
                    parsed = annotations.of(image.id)
                    values = (*task.values(image.id, parsed, categories), *image.fields)
                except BadLabelError as error:
                    problem = str(error)
            name, split = self._path(image.name, uri), self.splits.get(uri, "")
            yield LabelRow(name, values, split, uri, 0, problem, image.size)
        for image_id in images.ids():
            without_image.pop(image_id, None)
        for image_id in without_image:
            parsed = annotations.of(image_id)
            problem = task.described(parsed) if parsed else annotations.faults[image_id]
            yield row_dead_letter(
                stage=Stage.JOIN,
                key=f"image_id {image_id}",
                reason=Reason.MISSING_IMAGE,
                message=f"{problem}: image_id {image_id!r} is not among the {IMAGES} of {uri}",
                file=uri,
                line=0,
            )

    def _path(self, name: str, uri: str) -> str:
        """The name of an image; one without a folder is placed in the folder of the images."""
        folder = self.folders.get(uri, "")
        return f"{folder}/{name}" if folder and not set("/\\") & set(name) else name


def _read_annotations(
    task: Task, entries: Iterator[Any], annotations: _Annotations, images: _Images
) -> None:
    number, is_of_task = 0, not task.key
    for number, entry in enumerate(entries, 1):
        fields = entry if isinstance(entry, dict) else {}
        image_id = fields.get("image_id")
        is_of_task = is_of_task or task.key in fields
        if not is_id(image_id):
            name = _name(fields, number)
            problem = f"is {excerpt(entry)}, expected an object with an image_id"
            images.dead_letters.append(bad_row(name, problem, images.uri))
            continue
        try:
            annotations.add(image_id, task.parse(fields))
        except BadLabelError as error:
            annotations.faults.setdefault(image_id, f"{_name(fields, number)}: {error}")
    if number and not is_of_task:
        raise LabelTableError(f"no annotation of {images.uri} has a {task.key}; {EXPECTED}")


class _Images:
    """The list of images of a file.

    Attributes:
      uri: the file.
      images: in the file's order.
      dead_letters: entries that name no image, in this list or in another one.
    """

    def __init__(self, task: Task, uri: str) -> None:
        self.uri = uri
        self.images: list[Image] = []
        self.dead_letters: list[DeadLetter] = []
        self._task = task
        self._nameless: set[Id] = set()
        self._same_id: dict[Id, list[str]] = {}  # image id -> names, if there are several
        self._same_name: dict[str, list[Id]] = {}  # name -> image ids, likewise
        self._problems: dict[Id, str] = {}  # image id -> the fault of its fields

    def read(self, entries: Iterator[Any]) -> None:
        """Reads the list. LVIS names an image by its URL at COCO's site."""
        names: dict[Id, str] = {}
        ids: dict[str, Id] = {}
        sizes: dict[Size | None, Size | None] = {}  # one of equal ones, as most are
        for number, entry in enumerate(entries, 1):
            fields = entry if isinstance(entry, dict) else {}
            image_id, name = fields.get("id"), fields.get("file_name")
            if name is None and is_text(fields.get("coco_url")):
                name = posixpath.basename(fields["coco_url"])
            if not is_id(image_id):
                problem = f"is {excerpt(entry)}, expected an object with an id and a file_name"
                letter = bad_row(f"image number {number} of the list", problem, self.uri)
                self.dead_letters.append(letter)
                continue
            if not is_text(name):
                problem = f"has the file_name {excerpt(name)}, expected a text"
                self.dead_letters.append(bad_row(f"image_id {image_id!r}", problem, self.uri))
                self._nameless.add(image_id)
                continue
            if names.setdefault(image_id, name) != name:
                self._same_id.setdefault(image_id, [names[image_id]]).append(name)
            if ids.setdefault(name, image_id) != image_id:
                self._same_name.setdefault(name, [ids[name]]).append(image_id)
            values: tuple[LabelValue, ...] = ()
            try:
                values = self._task.field_values(fields)
            except BadLabelError as error:
                self._problems[image_id] = str(error)
            size = size_of(fields.get("width"), fields.get("height"))
            self.images.append(Image(image_id, name, sizes.setdefault(size, size), values))

    def problem(self, image: Image) -> str:
        """The fault of an image's entry, or empty."""
        if image.id in self._same_id:
            names = ", ".join(map(repr, self._same_id[image.id]))
            return f"image id {image.id!r} is that of several images: {names}"
        if image.name in self._same_name:
            ids = ", ".join(map(repr, self._same_name[image.name]))
            return f"several images have this file_name, of ids {ids}"
        return self._problems.get(image.id, "")

    def ids(self) -> set[Id]:
        """The ids of all entries, those without a name included."""
        return self._nameless.union(image.id for image in self.images)


# --- lists and their entries ---------------------------------------------------------------------


def read_lists(
    file: BinaryIO, uri: str, names: Sequence[str]
) -> Iterator[tuple[str, Iterator[Any]]]:
    """Yields (name, elements) of those lists of a file that it has, in the file's order.

    Raises:
      LabelTableError: the file is broken, or one of them is not a list, or there twice.
    """
    seen: set[str] = set()
    try:
        for name, value in JsonFile(file).members(names):
            if name in seen:
                raise LabelTableError(f"{uri} has two lists of {name}, expected one")
            if not isinstance(value, Iterator):
                raise LabelTableError(
                    f"{uri}: {name} is {excerpt(value)}, expected a list; {EXPECTED}"
                )
            seen.add(name)
            yield name, _located(value, uri)
    except JsonFileError as error:
        raise _broken(uri, error) from error


def _located(elements: Iterator[Any], uri: str) -> Iterator[Any]:
    try:
        yield from elements
    except JsonFileError as error:
        raise _broken(uri, error) from error


def _broken(uri: str, error: JsonFileError) -> LabelTableError:
    return LabelTableError(f"{uri} is not the JSON of COCO: {error}; mend it or fetch it again")


def parse_categories(entries: Sequence[Any], uri: str) -> dict[int, str]:
    """Parses the names of categories by their ids.

    Raises:
      LabelTableError: an id or a name is invalid or occurs twice.
    """
    names: dict[int, str] = {}
    for number, entry in enumerate(entries, 1):
        fields = entry if isinstance(entry, dict) else {}
        category, name = fields.get("id"), fields.get("name")
        if not is_int64(category) or not is_text(name):
            raise LabelTableError(
                f"{uri}: category number {number} is {excerpt(entry)}; expected an object with an "
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
            f"{uri}: the name {twice[0]!r} belongs to several categories, ids {ids}, so it names "
            "none of them; rename all but one"
        )
    if not names:
        raise LabelTableError(f"{uri} has an empty list of {CATEGORIES}, so no object has a class")
    return names


def bad_row(key: str, problem: str, uri: str) -> DeadLetter:
    """The dead letter of an entry that names no image."""
    return row_dead_letter(Stage.LABELS, key, Reason.BAD_ROW, f"{key} {problem}", uri, 0)


def _name(fields: Mapping[str, Any], number: int) -> str:
    """The name of an annotation in messages: its id, or else its number in the file."""
    own = fields.get("id")
    if is_text(own) or is_int64(own):
        return f"annotation {excerpt(own)}"
    return f"annotation number {number} of the list"


def is_id(value: Any) -> TypeGuard[Id]:
    """True if a value can identify an image."""
    return is_text(value) or is_integer(value)


def is_int64(value: Any) -> TypeGuard[int]:
    """True if a value is an integer that a feature can contain."""
    return is_integer(value) and value in INT64


def is_text(value: Any) -> TypeGuard[str]:
    """True if a value is a text that UTF-8 can encode; JSON may contain half a character."""
    return isinstance(value, str) and value != "" and is_utf8(value)
