"""Files that list many images and what is labelled in each, as labelling tools export them.

A format says what an entry of its files means (`RecordFormat`). The rest is the same for all: where the
files are, which columns they become, what is asked about them, and what becomes of faulty entries.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from types import MappingProxyType
from typing import Any, BinaryIO, ClassVar, NamedTuple

from beam_pipeline.core.dead_letters import DeadLetter, Reason, Stage, row_dead_letter
from beam_pipeline.core.errors import LabelTableError, UsageError
from beam_pipeline.core.json_file import JsonFile, JsonFileError
from beam_pipeline.core.labels.box_columns import object_value
from beam_pipeline.core.labels.cells import BadCellError, parse_cell
from beam_pipeline.core.labels.classes import ClassNumbering
from beam_pipeline.core.labels.schema import (
    KIND_NAMES,
    OBJECT_FEATURES,
    SKIP_KIND,
    Column,
    ColumnKind,
    further_column,
    mask_column,
    object_column,
    object_columns,
)
from beam_pipeline.core.numbers import is_finite
from beam_pipeline.core.questions import Question
from beam_pipeline.core.records.example_source import LabelledImages
from beam_pipeline.core.references import LabelRow, LabelValue, Size
from beam_pipeline.core.text import counted, enumerated, excerpt, is_utf8, quoted, some
from beam_pipeline.layouts.coco.file import opened
from beam_pipeline.layouts.coco.layout import split_of
from beam_pipeline.layouts.label_files import BadLabelError, typed_path
from beam_pipeline.layouts.layout import FileLabels, Source, SourceOptions
from beam_pipeline.layouts.local_copy import LocalCopy, find_copies
from beam_pipeline.layouts.paths import image_roots, label_files
from beam_pipeline.layouts.tree import beginning, files_of, once
from beam_pipeline.storage import files

_LOOKED_AT = 10_000  # entries of a file, before the job starts
_FEW_FILES = 20  # of a folder, whose beginnings are read
_EXAMPLES = 5
_FIRST_DETECTION_ID = 1  # 0 is the background's
_MASKS = OBJECT_FEATURES[0]
_NOTHING: Mapping[str, Any] = MappingProxyType({})

Corners = tuple[float, float, float, float]
"""xmin, ymin, xmax, ymax"""


class LabelledObject(NamedTuple):
    """An object in an image.

    Attributes:
      label: its class.
      box: the upright box around it.
      outline: x, y of each point of its outline; empty if the box is all that is known.
      attributes: further values, by name.
    """

    label: str
    box: Corners
    outline: Sequence[float] = ()
    attributes: Mapping[str, Any] = _NOTHING


class Labelled(NamedTuple):
    """What an entry states of its image.

    Attributes:
      objects: the objects.
      fields: values of the whole image, such as its classes, by name.
      size: width and height of the image that was labelled.
      split: its split; empty if the entry gives none.
      left_out: the kind of each object without a box, such as `brush mask`.
      unlabelled: why the image counts as unlabelled, such as `skipped`; empty if it is labelled.
    """

    objects: Sequence[LabelledObject] = ()
    fields: Mapping[str, Sequence[Any]] = _NOTHING
    size: Size | None = None
    split: str = ""
    left_out: Sequence[str] = ()
    unlabelled: str = ""


class DisagreementError(BadLabelError):
    """Several people labelled an image differently; `first` is what one of them states."""

    def __init__(self, message: str, first: Labelled) -> None:
        super().__init__(message)
        self.first = first


@dataclass(frozen=True)
class RecordFormat:
    """A kind of files. It is pickled, and keeps no state.

    Attributes:
      title: names it in messages, such as `Label Studio's JSON`.
      head: matches the beginning of a file.
      extensions: of its files, in lower case.
      pixels: True if coordinates are in pixels, False if in fractions of the image.
      member: the member of a JSON object that is the list of entries; empty if the document is the list.
      classes: (name, id) of the classes that the files number themselves.
    """

    title: ClassVar[str]
    head: ClassVar[re.Pattern[bytes]]
    extensions: ClassVar[tuple[str, ...]] = (".json",)
    pixels: ClassVar[bool] = True
    member: ClassVar[str] = ""
    classes: tuple[tuple[str, int], ...] = ()

    def of_files(self, uris: Sequence[str], options: SourceOptions) -> RecordFormat:
        """The format with what files state outside of their entries, and options. Raises UsageError."""
        return self

    def entries(self, file: BinaryIO, uri: str) -> Iterator[tuple[int, Any]]:
        """Yields (line, entry) of each image in a file; an entry may be anything.

        Raises:
          LabelTableError: the file is broken.
        """
        if posixpath.splitext(uri)[1].lower() in (".ndjson", ".jsonl"):
            return json_lines(file)
        return json_elements(file, uri, self.member)

    def image_name(self, entry: Any) -> str:
        """How an entry names its image. Raises BadLabelError if it names none."""
        raise NotImplementedError

    def labelled(self, entry: Any) -> Labelled:
        """What an entry that names an image states of it. Raises BadLabelError."""
        raise NotImplementedError


# --- parts of entries ----------------------------------------------------------------------------


def json_lines(file: BinaryIO) -> Iterator[tuple[int, Any]]:
    """Yields (line, value) of each line that is not empty; of one that is not JSON, its bytes."""
    for number, line in enumerate(file, 1):
        if line.strip():
            try:
                yield number, json.loads(line)
            except (ValueError, RecursionError):
                yield number, line


def json_elements(file: BinaryIO, uri: str, member: str = "") -> Iterator[tuple[int, Any]]:
    """Yields (line, element) of a list in a JSON file, the whole document or a member of it.

    Raises:
      LabelTableError: the file is broken, or lacks the list.
    """
    document, missing = JsonFile(file), bool(member)
    try:
        if not member:
            for element in document.elements():
                yield document.line, element
        for _, value in document.members((member,)) if member else ():
            if isinstance(value, Iterator):
                missing = False
                for element in value:
                    yield document.line, element
    except JsonFileError as error:
        raise LabelTableError(f"{uri} is broken: {error}; export it again") from error
    if missing:
        raise LabelTableError(f"{uri} has no list of {member}; export it again")


def members(value: Any, *keys: str) -> Any:
    """A value inside objects of JSON, by its keys from the outside in; None if there is none."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def text_at(entry: Any, *keys: str) -> str:
    """A text inside an entry. Raises BadLabelError if there is none."""
    text = members(entry, *keys)
    if not isinstance(text, str) or not text.strip() or not is_utf8(text):
        where = ".".join(keys)
        given = excerpt(entry if text is None else text)
        raise BadLabelError(f"{given}: expected a text as {where}")
    return text


def list_at(entry: Any, *keys: str) -> list[Any]:
    """A list inside an entry; empty for none. Raises BadLabelError for any other value."""
    value = members(entry, *keys)
    if value is not None and not isinstance(value, list):
        raise BadLabelError(f"{'.'.join(keys)} is {excerpt(value)}, expected a list")
    return value or []


def numbers(values: Any, expected: str, count: int = 0) -> tuple[float, ...]:
    """Finite numbers in a list, of this count or any. Raises BadLabelError."""
    is_list = isinstance(values, (list, tuple)) and all(map(is_finite, values))
    if not is_list or (count and len(values) != count):
        raise BadLabelError(f"{excerpt(values)}: expected {expected}")
    return tuple(map(float, values))


def size_of(width: Any, height: Any) -> Size | None:
    """The size of an image; None unless both sides are numbers of pixels from 1 on."""
    if not is_finite(width) or not is_finite(height) or min(width, height) < 1:
        return None
    return int(width), int(height)


def outlined(
    label: str, points: Sequence[float], attributes: Mapping[str, Any] = _NOTHING
) -> LabelledObject:
    """The object of an outline x, y, x, y, ... Raises BadLabelError if it lacks three points."""
    if len(points) < 6 or len(points) % 2:
        raise BadLabelError(
            f"an outline of {counted(len(points) // 2, 'point')}, expected 3 or more"
        )
    xs, ys = points[::2], points[1::2]
    return LabelledObject(label, (min(xs), min(ys), max(xs), max(ys)), points, attributes)


def agreed(opinions: Sequence[Labelled], whose: str) -> Labelled:
    """What several people state of an image, if it is the same, whatever the order of objects.

    Raises:
      DisagreementError: they differ.
    """

    def content(labelled: Labelled) -> Any:
        objects = sorted(map(repr, labelled.objects))
        return objects, sorted(map(repr, labelled.fields.items())), sorted(labelled.left_out)

    if any(content(opinion) != content(opinions[0]) for opinion in opinions):
        message = f"{len(opinions)} {whose} that differ; keep one of them"
        raise DisagreementError(message, opinions[0])
    return opinions[0]


# --- columns -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RecordColumns:
    """The columns that entries become.

    Attributes:
      label: the class of images; None if they have objects.
      pixels: as of the format.
      alone: True if images that have objects are at fault, where these have classes.
      masks: True for a mask of each object.
      attributes: further values of objects.
      fields: further values of images.
    """

    label: Column | None
    pixels: bool
    alone: bool = True
    masks: bool = False
    attributes: tuple[Column, ...] = ()
    fields: tuple[Column, ...] = ()

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of a row's values."""
        if self.label:
            return self.label, *self.fields
        masks = (mask_column(pixels=self.pixels),) if self.masks else ()
        return *object_columns(pixels=self.pixels), *masks, *self.attributes, *self.fields

    def values(self, labelled: Labelled, line: int) -> tuple[LabelValue, ...]:
        """The values of an image, in the order of the columns. Raises BadLabelError."""
        fields = [_field(labelled, column) for column in self.fields]
        objects = labelled.objects
        if self.label:
            if objects and self.alone:
                raise BadLabelError(
                    "an object, in a file whose beginning has classes of images alone"
                )
            return _field(labelled, self.label), *fields
        masks = (tuple(map(_shape, objects)),) if self.masks else ()
        try:
            attributes = [
                tuple(
                    object_value(_cell(each.attributes.get(column.name), column), column)
                    for each in objects
                )
                for column in self.attributes
            ]
        except BadCellError as error:
            raise BadLabelError(str(error)) from error
        boxes = tuple((*each.box, line) for each in objects)
        return boxes, tuple(each.label for each in objects), *masks, *attributes, *fields


def _shape(labelled: LabelledObject) -> str:
    xmin, ymin, xmax, ymax = labelled.box
    return json.dumps([[*(labelled.outline or (xmin, ymin, xmax, ymin, xmax, ymax, xmin, ymax))]])


def _cell(value: Any, column: Column) -> Any:
    """A value as a cell of a table has it: a flag as a number in a column of numbers, valid text, no lists."""
    if isinstance(value, bool) and column.kind in (ColumnKind.INT64, ColumnKind.FLOAT):
        return int(value)
    if isinstance(value, (list, dict)) or (isinstance(value, str) and not is_utf8(value)):
        raise BadLabelError(f"{column.name} is {excerpt(value)}, expected a text or a number")
    return value


def _field(labelled: Labelled, column: Column) -> LabelValue:
    values = [_cell(value, column) for value in labelled.fields.get(column.name, ())]
    if len(values) > 1 and not column.repeated:
        raise BadLabelError(
            f"the image has several values of {column.name}, {excerpt(values)}; expected one. "
            f"--list_column {column.name}=, writes lists"
        )
    try:
        return parse_cell(values if column.repeated else next(iter(values), None), column)
    except BadCellError as error:
        raise BadLabelError(f"{column.name}: {error}") from error


# --- reading -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RecordReader:
    """Reads the files of a format, entry by entry.

    Attributes:
      format: the format.
      columns: what entries become.
      splits: URI of a file -> the split of its images, unless an entry gives it.
      copies: maps the names of images to those on this machine.
    """

    format: RecordFormat
    columns: RecordColumns
    splits: Mapping[str, str] = field(default_factory=dict)
    copies: LocalCopy = LocalCopy()  # noqa: RUF009, it is frozen

    def read(self, file: BinaryIO, uri: str) -> Iterator[LabelRow | DeadLetter]:
        """Yields a row for each image that somebody has labelled."""
        return self.copies.rename(self._rows(file, uri))

    def _rows(self, file: BinaryIO, uri: str) -> Iterator[LabelRow | DeadLetter]:
        nothing: tuple[LabelValue, ...] = tuple(
            () if column.repeated else None for column in self.columns.columns
        )
        for number, (line, entry) in enumerate(self.format.entries(file, uri), 1):
            try:
                name = self.format.image_name(entry)
            except BadLabelError as error:
                key = f"entry {number}"
                problem = f"{key} names no image: {error}"
                yield row_dead_letter(Stage.LABELS, key, Reason.BAD_ROW, problem, uri, line)
                continue
            labelled, values, problem = Labelled(), nothing, ""
            try:
                labelled = self.format.labelled(entry)
                if labelled.unlabelled or self._lacks_label(labelled):
                    continue
                values = self.columns.values(labelled, line)
            except BadLabelError as error:
                problem = str(error)
            split = labelled.split or self.splits.get(uri, "")
            yield LabelRow(name, values, split, uri, line, problem, labelled.size)

    def _lacks_label(self, labelled: Labelled) -> bool:
        label = self.columns.label
        return label is not None and not labelled.fields.get(label.name)


# --- layouts -------------------------------------------------------------------------------------


class RecordLayout:
    """A layout whose label files are of a `RecordFormat`, which a subclass names.

    Attributes:
      format: the format.
    """

    name: str
    format: RecordFormat
    option_names = frozenset(
        {"label_column", "columns", "list_column", "object_features"}
        | {"label_base", "label_order", "class_ids"}
    )

    def recognise(self, options: SourceOptions) -> str:
        """Recognises the beginnings of --labels, or of files in --images or its `annotations`."""
        paths = self._paths(options)
        return f"{self.format.title} in {some(paths)}" if paths else ""

    def _paths(self, options: SourceOptions) -> list[str]:
        """The label files as typed; none unless all of --labels are of this format."""
        head = self.format.head
        if options.labels:
            try:
                uris = label_files(options.labels)
            except (UsageError, OSError):
                return []
            return list(options.labels) if all(head.match(_beginning(uri)) for uri in uris) else []
        found: list[str] = []
        for path in options.images:
            folder = files.canonical(path) if path.strip() else ""
            here = [
                uri
                for place in (folder, f"{folder}/annotations")
                for extension in self.format.extensions
                for uri in _few(files_of(place, extension) if folder else [])
                if head.match(_beginning(uri))
            ]
            if not here:
                return []
            found += [typed_path(uri, path) for uri in here]
        return found

    def open(self, options: SourceOptions) -> Source:
        """Looks at the first entries of all files, and finds out what they are about.

        Raises:
          UsageError: there are no files, they label nothing, or an option does not fit them.
          LabelTableError: a file is broken.
        """
        paths = options.labels or self._paths(options)
        if not paths:
            raise UsageError(f"--layout {self.name} needs --labels: {self.format.title}")
        uris = label_files(paths)
        roots = image_roots(options.images, frozenset(uris))
        form = self.format.of_files(uris, options)
        survey = _survey(form, uris)
        columns, questions = _columns(options, survey, form)
        copies = find_copies(survey.names, roots, uris)
        splits = {uri: split for uri in uris if (split := split_of(uri))}
        numbering = options.numbering(0 if columns.label else _FIRST_DETECTION_ID)
        if form.classes:
            if options.label_base is not None or numbering.from_name:
                raise UsageError(
                    f"--label_base and --class_ids mean nothing for {self.format.title}, which gives "
                    "classes their ids; leave them out"
                )
            numbering = ClassNumbering(known=form.classes)
        return Source(
            layout=self.name,
            roots=roots,
            labels=FileLabels(RecordReader(form, columns, splits, copies), tuple(uris)),
            examples=LabelledImages(columns.columns),
            numbering=numbering,
            notes=(*survey.notes(options, columns), *copies.notes),
            questions=questions,
        )


def _few(uris: list[str]) -> list[str]:
    """Files of a folder; none if it has as many as a file for each image would be."""
    return uris if len(uris) <= _FEW_FILES else []


def _beginning(uri: str) -> bytes:
    return once(("beginning", uri), lambda: beginning(uri))


# --- what the files are about --------------------------------------------------------------------


@dataclass
class _Survey:
    """What the first entries of all files contain.

    Attributes:
      names: the images that they name.
      objects: the number of objects.
      empty: the number of labelled images without objects and values.
      differing: the number of images that several people labelled differently.
      fields, attributes: names of the values of images and objects.
      several: name -> several values that an image has of it.
      left_out: kinds of objects without a box.
      unlabelled: why images are not labelled.
    """

    names: list[str] = field(default_factory=list)
    objects: int = 0
    empty: int = 0
    differing: int = 0
    fields: Counter[str] = field(default_factory=Counter)
    attributes: Counter[str] = field(default_factory=Counter)
    several: dict[str, Sequence[Any]] = field(default_factory=dict)
    left_out: Counter[str] = field(default_factory=Counter)
    unlabelled: Counter[str] = field(default_factory=Counter)

    def add(self, form: RecordFormat, entry: Any) -> None:
        """Adds an entry, unless it is faulty."""
        try:
            self.names.append(form.image_name(entry))
            labelled = form.labelled(entry)
        except DisagreementError as error:
            self.differing += 1
            labelled = error.first
        except BadLabelError:  # reported by the job
            return
        self.objects += len(labelled.objects)
        self.left_out.update(labelled.left_out)
        self.unlabelled.update([labelled.unlabelled] if labelled.unlabelled else [])
        self.empty += not (
            labelled.objects or labelled.fields or labelled.left_out or labelled.unlabelled
        )
        for each in labelled.objects:
            self.attributes.update(each.attributes.keys())
        for name, values in labelled.fields.items():
            self.fields[name] += 1
            if len(values) > 1:
                self.several.setdefault(name, values)

    def notes(self, options: SourceOptions, columns: RecordColumns) -> Iterator[str]:
        """Notes on what is not used."""
        of = f"of {counted(len(self.names), 'image')} looked at"
        for reason, number in sorted(self.unlabelled.items()):
            yield f"{reason} and counted as unlabelled: {number} {of}"
        if self.empty and not columns.label:
            yield f"labelled as images without objects: {self.empty} {of}"
        used = {column.name for column in columns.columns} | options.columns.keys()
        unused = sorted((self.fields.keys() | self.attributes.keys()) - used)
        if unused:
            yield (
                f"not used: {enumerated(unused, _EXAMPLES)}; --columns {unused[0]}:str writes "
                f"{unused[0]} as a feature"
            )

    def questions(self) -> Iterator[Question]:
        """Questions on images whose labels would be incomplete."""
        images = counted(len(self.names), "image")
        if self.left_out:
            kinds = [counted(number, kind) for kind, number in sorted(self.left_out.items())]
            yield Question(
                "objects_left_out",
                f"the {images} looked at have {enumerated(kinds, _EXAMPLES)}, of which no boxes are made, so "
                f"these objects would be missing beside {counted(self.objects, 'other')}.",
                "Convert them to boxes or polygons in the tool, or leave them out with --yes.",
            )
        if self.differing:
            yield Question(
                "annotators_differ",
                f"several people labelled {self.differing} of the {images} looked at, and differ, so these "
                "images would be left out as bad_label_value.",
                "Export one annotation for each image, or accept that with --yes.",
            )


def _survey(form: RecordFormat, uris: Sequence[str]) -> _Survey:
    survey = _Survey()
    for uri in uris:
        with opened(uri) as file:
            for _, entry in islice(form.entries(file, uri), _LOOKED_AT):
                survey.add(form, entry)
    return survey


def _columns(
    options: SourceOptions, survey: _Survey, form: RecordFormat
) -> tuple[RecordColumns, tuple[Question, ...]]:
    """The columns of entries, and questions about them. Raises UsageError for options that do not fit."""
    name, further = options.label_column, options.columns
    for option, given in (("label_column", {name} - {""}), ("list_column", {*options.list_column})):
        if given - survey.fields.keys():
            raise UsageError(
                f"--{option} {', '.join(sorted(given))}: images have {quoted(sorted(survey.fields))}"
            )
    missing = further.keys() - survey.fields.keys() - survey.attributes.keys()
    if missing:
        there = sorted(survey.fields.keys() | survey.attributes.keys())
        raise UsageError(f"--columns {min(missing)}: images and objects have {quoted(there)}")
    kinds = {key: KIND_NAMES[kind] for key, kind in further.items() if kind != SKIP_KIND}
    fields = tuple(
        replace(further_column(key, kind), repeated=key in options.list_column)
        for key, kind in kinds.items()
        if key in survey.fields and key != name
    )
    if name or not (survey.objects or survey.left_out):
        label, questions = _label(options, survey, form)
        return RecordColumns(label, form.pixels, not name, fields=fields), questions
    unknown = {*options.object_features} - {_MASKS}
    if unknown:
        raise UsageError(f"--object_features {min(unknown)}: {form.title} is read without them")
    attributes = tuple(
        object_column(key, kind) for key, kind in kinds.items() if key not in survey.fields
    )
    masks = _MASKS in options.object_features
    return (
        RecordColumns(None, form.pixels, masks=masks, attributes=attributes, fields=fields),
        (*survey.questions(),),
    )


def _label(
    options: SourceOptions, survey: _Survey, form: RecordFormat
) -> tuple[Column, tuple[Question, ...]]:
    """The column of the class of images, and questions about it. Raises UsageError without any."""
    names = sorted(survey.fields, key=lambda name: (-survey.fields[name], name))
    if not names:
        raise UsageError(
            f"nothing is labelled in the first {counted(len(survey.names), 'image')} of {form.title}"
        )
    name = options.label_column or names[0]
    questions = []
    if not options.label_column and len(names) > 1:
        further = tuple(
            (f"If it is {other}:", {"label_column": other}) for other in names[1:_EXAMPLES]
        )
        questions.append(
            Question(
                "several_labels",
                f"images have values of {enumerated(names, _EXAMPLES)}.",
                f"If {name} is their class:",
                {"label_column": name},
                further,
            )
        )
    if name in survey.several and name not in options.list_column:
        questions.append(
            Question(
                "several_categories",
                f"images have several values of {name}, such as {excerpt(survey.several[name])}.",
                "--yes leaves these images out. To write lists of classes:",
                {"list_column": {name: ","}},
            )
        )
    label = Column(
        name, ColumnKind.CLASS, "image/class", True, repeated=name in options.list_column
    )
    return label, (*questions, *survey.questions())
