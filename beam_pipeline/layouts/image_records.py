"""Files that list many images and what is labelled in each, as labelling tools export them.

A layout of such files tells what an entry of them means (`RecordLayout`). The rest is the same for all: where
the files are, which columns they become, what is asked about them, and how faulty entries are left out.
"""

from __future__ import annotations

import codecs
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, BinaryIO, ClassVar

from beam_pipeline.core.dead_letters import DeadLetter, Reason, Stage, row_dead_letter
from beam_pipeline.core.errors import UsageError, reason_of
from beam_pipeline.core.labels import cells, schema
from beam_pipeline.core.labels.box_columns import object_value
from beam_pipeline.core.labels.classes import ClassNumbering
from beam_pipeline.core.labels.schema import Column, ColumnKind
from beam_pipeline.core.listing.filters import ImageRoot
from beam_pipeline.core.questions import Question
from beam_pipeline.core.records.example_source import LabelledImages
from beam_pipeline.core.references import LabelRow, LabelValue, Size
from beam_pipeline.core.text import counted, enumerated, excerpt, is_utf8, quoted, some
from beam_pipeline.core.uris import is_remote
from beam_pipeline.layouts import label_files, layout, paths, tree
from beam_pipeline.layouts.entries import (
    Bitmap,
    Labelled,
    LabelledObject,
    json_entries,
)
from beam_pipeline.layouts.label_files import BadLabelError, LabelFileReader, Place, typed_path
from beam_pipeline.layouts.named_files import LocalCopy, find_copies
from beam_pipeline.storage import files

_LOOKED_AT = 10_000  # entries of a file, before the job starts
_FEW_FILES = 20  # in a folder; of more, which may be a file for each image, none is read
_EXAMPLES = 5
_FIRST_DETECTION_ID = 1  # 0 is the background's
_MASKS = schema.OBJECT_FEATURES[0]


# --- columns -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RecordColumns:
    """The columns that entries become.

    Attributes:
      label: the class of images; None if they have objects.
      pixels: as of the format.
      strict: True if an object is a fault of an image with a class.
      masks: True for a mask of each object.
      attributes: further values of objects.
      fields: further values of images.
    """

    label: Column | None
    pixels: bool
    strict: bool = True
    masks: bool = False
    attributes: tuple[Column, ...] = ()
    fields: tuple[Column, ...] = ()

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of a row's values."""
        if self.label:
            return self.label, *self.fields
        masks = (schema.mask_column(pixels=self.pixels),) if self.masks else ()
        boxes = schema.object_columns(pixels=self.pixels)
        return *boxes, *masks, *self.attributes, *self.fields

    def is_unlabelled(self, labelled: Labelled) -> bool:
        """True if an image has no labels, as nobody has labelled it or it lacks a class."""
        lacks_class = self.label is not None and not labelled.fields.get(self.label.name)
        return bool(labelled.unlabelled) or lacks_class

    def values(self, labelled: Labelled, line: int) -> tuple[LabelValue, ...]:
        """The values of an image, in the order of the columns. Raises BadLabelError."""
        objects = labelled.objects
        fields = [_field(labelled, column) for column in self.fields]
        if self.label:
            if objects and self.strict:
                raise BadLabelError("an object, in files that begin with classes of images")
            return _field(labelled, self.label), *fields
        try:
            attributes = [
                tuple(object_value(_cell(shape.attributes.get(c.name), c), c) for shape in objects)
                for c in self.attributes
            ]
        except cells.BadCellError as error:
            raise BadLabelError(str(error)) from error
        boxes = tuple([(*shape.box, line) for shape in objects])
        labels = tuple([shape.label for shape in objects])
        if not self.masks:
            return boxes, labels, *attributes, *fields
        masks = tuple(_shape(shape, labelled.size) for shape in objects)
        return boxes, labels, masks, *attributes, *fields


def _shape(shape: LabelledObject, size: Size | None) -> str:
    if isinstance(shape.outline, Bitmap):
        return json.dumps(shape.outline.run_lengths(size))
    xmin, ymin, xmax, ymax = shape.box
    return json.dumps([[*(shape.outline or (xmin, ymin, xmax, ymin, xmax, ymax, xmin, ymax))]])


def _cell(value: Any, column: Column) -> Any:
    """A value as a cell of a table: a flag is a number in a column of numbers. Raises BadLabelError."""
    if isinstance(value, bool) and column.kind in (ColumnKind.INT64, ColumnKind.FLOAT):
        return int(value)
    nested = isinstance(value, (list, dict)) and column.kind is not ColumnKind.JSON
    if nested or (isinstance(value, str) and not is_utf8(value)):
        raise BadLabelError(f"{column.name} is {excerpt(value)}, expected a text or a number")
    return value


def _field(labelled: Labelled, column: Column) -> LabelValue:
    value: Any = [_cell(value, column) for value in labelled.fields.get(column.name, ())]
    if not column.repeated:
        if len(value) > 1:
            several = f"the image has several values of {column.name}, {excerpt(value)}"
            raise BadLabelError(f"{several}; --list_column {column.name}=, writes lists")
        value = value[0] if value else None
    try:
        return cells.parse_cell(value, column)
    except cells.BadCellError as error:
        raise BadLabelError(f"{column.name}: {error}") from error


# --- reading -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RecordReader(label_files.LabelFormat):
    """Reads the files of a layout, entry by entry; or, as a format, files with one entry each.

    Attributes:
      format: the layout.
      row: what entries become.
      splits: URI of a file -> the split of its images, unless an entry gives it.
      copies: maps the names of images to those on this machine.
    """

    format: RecordLayout
    row: RecordColumns
    splits: Mapping[str, str] = field(default_factory=dict)
    copies: LocalCopy = LocalCopy()  # noqa: RUF009, it is frozen

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.row.columns

    def read(self, file: BinaryIO, uri: str) -> Iterator[LabelRow | DeadLetter]:
        """Yields a row for each image that somebody has labelled."""
        return self.copies.rename(self._rows(file, uri))

    def _rows(self, file: BinaryIO, uri: str) -> Iterator[LabelRow | DeadLetter]:
        of_file, nothing = self.splits.get(uri, ""), self.nothing
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
                if self.row.is_unlabelled(labelled):
                    continue
                values = self.row.values(labelled, line)
            except BadLabelError as error:
                problem = str(error)
            split = labelled.split or of_file
            yield LabelRow(name, values, split, uri, line, problem, labelled.size)

    def parse(self, data: bytes, uri: str) -> label_files.ImageLabels | None:
        try:
            entry = json.loads(data)
        except (ValueError, RecursionError) as error:
            problem = f"not JSON, as {self.format.title} is: {reason_of(error)}"
            raise BadLabelError(problem, getattr(error, "lineno", 0)) from error
        labelled = self.format.labelled(entry)
        if self.row.is_unlabelled(labelled):
            return None
        return label_files.ImageLabels(self.row.values(labelled, 0), labelled.size, labelled.split)


# --- layouts -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RecordLayout:
    """A layout whose files list images. It is pickled with their reader, and keeps no state.

    Attributes:
      name: as of `Layout`.
      title: names the files in messages, such as `Label Studio's JSON`.
      expected: their content, in messages.
      head: matches the beginning of a file, from its first character that is not white space.
      extensions: of its files, in lower case.
      pixels: True if coordinates are in pixels, False if in fractions of the image.
      member: the member of a JSON document that is the list of entries; see `json_entries`.
      classes: id -> name of the classes that the files number themselves, sorted.
      annotator: the person whose labels alone count; empty for all.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    expected: ClassVar[str] = "images with labels"
    head: ClassVar[re.Pattern[bytes]]
    extensions: ClassVar[tuple[str, ...]] = (".json",)
    pixels: ClassVar[bool] = True
    member: ClassVar[str] = ""
    option_names: ClassVar[frozenset[str]] = frozenset(
        {
            *("label_column", "columns", "list_column", "object_features"),
            *("label_base", "label_order", "class_ids"),
        }
    )
    classes: Mapping[int, str] = field(default_factory=dict)
    annotator: str = ""

    def entries(self, file: BinaryIO, uri: str) -> Iterator[tuple[int, Any]]:
        """Yields (line, entry) of each image in a file; an entry may be anything.

        Raises:
          LabelTableError: the file is broken.
        """
        return json_entries(file, uri, self.member)

    def image_name(self, entry: Any) -> str:
        """How an entry names its image. Raises BadLabelError if it names none.

        It is empty in formats with a file for each image, whose name is the image's.
        """
        return ""

    def labelled(self, entry: Any) -> Labelled:
        """What an entry that names an image states of it. Raises BadLabelError."""
        raise NotImplementedError

    def class_names(self, uri: str) -> Mapping[int, str]:
        """The classes that a file numbers, by their ids. Raises LabelTableError."""
        return {}

    def class_of(self, number: Any) -> str:
        """The name of such a class. Raises BadLabelError."""
        if not isinstance(number, (int, float)) or number not in self.classes:
            of = f"the {len(self.classes)} classes"
            raise BadLabelError(f"class {excerpt(number)} is not among {of}")
        return self.classes[int(number)]

    def recognise(self, options: layout.SourceOptions) -> str:
        """Recognises the beginnings of --labels, or of files in --images or its `annotations`."""
        typed = self._paths(options)
        return f"{self.title} in {some(typed)}" if typed else ""

    def _paths(self, options: layout.SourceOptions) -> list[str]:
        """The label files as typed; none unless all of --labels are of this format."""
        if options.labels:
            try:
                known = all(map(self._fits, paths.label_files(options.labels)))
            except (UsageError, OSError):
                return []
            return list(options.labels) if known else []
        typed: list[str] = []
        for path in options.images:
            folder = files.canonical(path)
            places = (folder, f"{folder}/annotations")
            lists = [tree.names_in(place).of_kind(*self.extensions) for place in places]
            few = (uri for uris in lists if len(uris) <= _FEW_FILES for uri in uris)
            uris = list(filter(self._fits, few))
            if not uris:
                return []
            typed += [typed_path(uri, path) for uri in uris]
        return typed

    def _fits(self, uri: str) -> bool:
        head = tree.once(("beginning", uri), lambda: tree.beginning(uri))
        return self.head.match(head.removeprefix(codecs.BOM_UTF8).lstrip()) is not None

    def open(self, options: layout.SourceOptions) -> layout.Source:
        """Looks at the first entries of all files, and finds out what they are about.

        Raises:
          UsageError: there are no files, they label nothing, or an option does not fit them.
          LabelTableError: a file is broken.
        """
        typed = options.labels or self._paths(options)
        if not typed:
            raise UsageError(f"--layout {self.name} needs --labels: {self.title}")
        uris = paths.label_files(typed)
        return self.source(options, uris, paths.image_roots(options.images, frozenset(uris)))

    def source(
        self, options: layout.SourceOptions, uris: Sequence[str], roots: tuple[ImageRoot, ...]
    ) -> layout.Source:
        """The source of some label files and images; raises as `open` does."""
        names = label_files.common_categories({uri: self.class_names(uri) for uri in uris})
        form = replace(self, classes=dict(sorted(names.items())), annotator=options.annotator)
        survey = Survey(form, uris)
        columns = _columns(options, survey, form)
        copies = find_copies(survey.names, roots, uris) if any(survey.names) else LocalCopy()
        splits = {uri: label_files.split_of(uri) for uri in uris}
        numbering = options.numbering(0 if columns.label else _FIRST_DETECTION_ID)
        if form.classes:
            if options.label_base is not None or numbering.from_name:
                given = f"{form.title} gives classes their ids"
                raise UsageError(f"--label_base and --class_ids mean nothing: {given}")
            numbering = ClassNumbering(known=tuple((n, i) for i, n in form.classes.items()))
        return layout.Source(
            layout=self.name,
            roots=roots,
            labels=layout.FileLabels(RecordReader(form, columns, splits, copies), tuple(uris)),
            examples=LabelledImages(columns.columns),
            numbering=numbering,
            notes=(*survey.notes(options, columns), *copies.notes),
            questions=tuple(survey.questions(columns)),
        )


# --- what the files are about --------------------------------------------------------------------


class Survey:
    """What the first entries of all files contain.

    Attributes:
      uris: the files.
      names: the images that they name.
      problem: the first fault.
      objects, outlines: the number of objects, and of those with an outline.
      fields, attributes: names of the values of images and objects.
      left_out: kinds of objects without a box.
      states: kinds of images without labels.
    """

    def __init__(self, form: RecordLayout, uris: Sequence[str]) -> None:
        self.uris, self.problem = uris, ""
        self.names: list[str] = []
        self.objects = self.outlines = 0
        self.fields, self.attributes = Counter[str](), Counter[str]()
        self.left_out, self.states = Counter[str](), Counter[str]()
        for uri in uris:
            with label_files.opened(uri) as file:
                for _, entry in islice(form.entries(file, uri), _LOOKED_AT):
                    try:
                        self.names.append(form.image_name(entry))
                        self._add(form.labelled(entry))
                    except BadLabelError as error:  # reported by the job
                        self.problem = self.problem or f", and a fault: {error}"

    def _add(self, labelled: Labelled) -> None:
        self.objects += len(labelled.objects)
        self.outlines += sum(bool(shape.outline) for shape in labelled.objects)
        self.left_out.update(labelled.left_out)
        self.fields.update(labelled.fields.keys())
        for shape in labelled.objects:
            self.attributes.update(shape.attributes.keys())
        if labelled.unlabelled:
            self.states[f"{labelled.unlabelled} (unlabelled)"] += 1
        elif not (labelled.objects or labelled.left_out or labelled.fields):
            self.states["empty"] += 1

    def notes(self, options: layout.SourceOptions, columns: RecordColumns) -> Iterator[str]:
        """Notes on images without labels, and on what is not used."""
        if self.states:
            states = [f"{number} {state}" for state, number in sorted(self.states.items())]
            yield f"of the {counted(len(self.names), 'image')} looked at: {', '.join(states)}"
        if self.outlines and not (columns.label or columns.masks):
            boxes = f"of {counted(self.outlines, 'outline')}, the boxes around them are written"
            yield f"{boxes}; --object_features masks adds a mask of each object"
        used = {column.name for column in columns.columns} | options.columns.keys()
        unused = sorted((self.fields.keys() | self.attributes.keys()) - used)
        if unused:
            names = enumerated(unused, _EXAMPLES)
            yield f"not used: {names}; --columns {unused[0]}:str writes a feature"

    def questions(self, columns: RecordColumns) -> Iterator[Question]:
        """A question about objects that would be missing."""
        if self.left_out and not columns.label:
            kinds = [counted(number, kind) for kind, number in sorted(self.left_out.items())]
            yield Question(
                "objects_left_out",
                f"the {counted(len(self.names), 'image')} looked at have {enumerated(kinds, _EXAMPLES)}, which become no "
                f"boxes, so these objects would be missing beside the {self.objects} that do.",
                "Convert them to polygons in the tool, or accept that with --yes.",
            )


def _columns(options: layout.SourceOptions, survey: Survey, form: RecordLayout) -> RecordColumns:
    """The columns of entries. Raises UsageError for options that do not fit."""
    label, lists = options.label_column, options.list_column
    of_images, of_objects = survey.fields.keys(), survey.attributes.keys()
    places = (*schema.LIST_FORMS, schema.POINT_KIND)
    located = {name for name, kind in options.columns.items() if kind in places}
    for option, given, there in (
        ("label_column", {label} - {""}, of_images),
        ("list_column", lists.keys(), of_images),
        ("columns", options.columns.keys(), (of_images | of_objects) - located),
        ("object_features", {*options.object_features}, {_MASKS}),
    ):
        if given - there:
            expected = quoted(sorted(there))
            raise UsageError(f"--{option} {min(given - there)}: there is only {expected}")
    kinds = {
        name: schema.KIND_NAMES[kind]
        for name, kind in options.columns.items()
        if kind != schema.SKIP_KIND and name != label
    }
    further = (schema.further_column(name, kinds[name]) for name in kinds if name in of_images)
    fields = tuple(replace(column, repeated=column.name in lists) for column in further)
    if not label and (survey.objects or survey.left_out):
        masks = _MASKS in options.object_features
        named = [name for name in kinds if name not in of_images]
        attributes = tuple(schema.object_column(name, kinds[name]) for name in named)
        return RecordColumns(None, form.pixels, masks=masks, attributes=attributes, fields=fields)
    if not of_images:
        entries = counted(len(survey.names), "image")
        states = "".join(f", {number} {state}" for state, number in sorted(survey.states.items()))
        reason = f"no label in the first {entries}{survey.problem}{states}"
        where = f"{form.title} in {some(survey.uris)}"
        raise UsageError(f"{where}: {reason}; expected {form.expected}")
    if not label and len(of_images) > 1:
        names = quoted(sorted(of_images))
        raise UsageError(f"which is the class of an image? Give --label_column, one of {names}")
    name = label or next(iter(of_images))
    column = Column(name, ColumnKind.CLASS, "image/class", True, repeated=name in lists)
    return RecordColumns(column, form.pixels, not label, fields=fields)


# --- a file for each image -----------------------------------------------------------------------

_FIRST_LABELS, _FIRST_LABELS_REMOTE = 100, 10  # label files, before the job starts
_FOLDERS = 20  # that are searched for one
_FIRST = 3  # files of each
_LABEL_FILES = "**/*.json"

Places = tuple[tuple[ImageRoot, ...], tuple[ImageRoot, ...], tuple[Place, ...]]
"""The folders to list for images, those to list for label files, and which images these are for."""


class ImageFileLayout(RecordLayout):
    """A layout whose label files are of JSON, each about one image."""

    def entries(self, file: BinaryIO, uri: str) -> Iterator[tuple[int, Any]]:
        """Yields the file; None if it is not JSON."""
        try:
            yield 0, json.load(file)
        except (ValueError, RecursionError):
            yield 0, None

    def recognise(self, options: layout.SourceOptions) -> str:
        """Recognises the beginning of a file in each path of --labels, or else of --images."""
        typed = options.labels or options.images
        folders = [typed_path(uri, path) for path in typed if (uri := self._first_folder(path))]
        return f"{self.title} in {some(folders)}" if len(folders) == len(typed) else ""

    def _first_folder(self, path: str) -> str:
        """The first folder in a typed path with a label file of the format, or empty."""
        for folder in tree.walk(files.canonical(path), _FOLDERS):
            if any(map(self._fits, folder.of_kind(".json")[:_FIRST])):
                return folder.path
        return ""

    def open(self, options: layout.SourceOptions) -> layout.Source:
        """Looks at the first label files.

        Raises:
          UsageError: there are none, they label nothing, or an option does not fit them.
        """
        images, labels, pairs = self.places(options)
        first: list[str] = []
        for pair in pairs:
            most = _FIRST_LABELS_REMOTE if is_remote(pair.labels) else _FIRST_LABELS
            below = (folder.of_kind(".json") for folder in tree.walk(pair.labels, _FOLDERS))
            first += islice((uri for uris in below for uri in uris), most)
        source = self.source(options, first, images)
        labels_of: Any = source.labels
        reader = LabelFileReader(labels_of.reader, pairs)
        return replace(source, labels=layout.FileLabels(reader, folders=labels))

    def places(self, options: layout.SourceOptions) -> Places:
        """Finds images and label files. Raises UsageError."""
        if options.labels:
            kind = f"files of {self.title}"
            labels = label_files.label_folders(options.labels, _LABEL_FILES, kind)
            return paths.image_roots(options.images), labels, tuple(Place(f.uri) for f in labels)
        images, folders = [], {}
        for path in options.images:
            first, root = self._first_folder(path), files.canonical(path)
            if not first:
                problem = f"no file of {self.title} in its folders"
                raise UsageError(f"--images {path}: {problem}; name their folder with --labels")
            if first != root and not tree.names_in(first).images:
                below = tree.subfolders(root)
                named = [f for f in below if f.rpartition("/")[2].lower() in tree.IMAGE_FOLDERS]
                path = named[0] if named else path
                root = f"{root}/{first[len(root) + 1 :].partition('/')[0]}"
            images.append(path)
            folders[root] = ImageRoot(root, (_LABEL_FILES,))
        return paths.image_roots(images), tuple(folders.values()), tuple(map(Place, folders))
