"""WebDataset: archives where the files of a sample share their name up to its first dot.

    000000.jpg  000000.cls       the class: an integer or a name
    000001.jpg  000001.txt       a caption
    000002.jpg  000002.json      an object: a column for each of its fields
    000003.jpg  000003.depth.png 000003.view.0.png 000003.view.1.png    files and lists of files beside the image
    000004.jpg  000004.talk.json                                        JSON of a column

The image has no name of its own, or that of the first by `pairs.rank`. Shards of `--format webdataset` are such archives:
there the .json has the features of the example, so that columns have their names and types.

Source: https://github.com/webdataset/webdataset
"""

from __future__ import annotations

import posixpath
import re
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, groupby, islice, pairwise
from operator import itemgetter
from typing import Any, NamedTuple

from beam_pipeline.core import errors, uris
from beam_pipeline.core.archives import Entry, Member
from beam_pipeline.core.dead_letters import DeadLetter, Reason, Stage, image_dead_letter
from beam_pipeline.core.labels import further_columns, schema, table_rows, tables, typed_rows
from beam_pipeline.core.labels.samples import labelled
from beam_pipeline.core.listing import filters
from beam_pipeline.core.listing.folders import first_folder_split
from beam_pipeline.core.questions import Question
from beam_pipeline.core.records import example_source, webdataset
from beam_pipeline.core.references import DEFAULT_SPLIT, FileValue, ImageRef, LabelValue, SampleRef
from beam_pipeline.core.text import counted, enumerated, excerpt, printable
from beam_pipeline.layouts import caption_files, layout
from beam_pipeline.layouts.caption_files import CAPTION_COLUMN, CLASS_COLUMN, KEY_COLUMN, json_value
from beam_pipeline.layouts.pairs import column_name, is_mask, rank
from beam_pipeline.layouts.paths import archive_notes, archive_questions, archive_roots
from beam_pipeline.layouts.table import table_numbering
from beam_pipeline.storage import files
from beam_pipeline.storage.listing import MemberFilter, OpenedArchive, opened_archive

CLASS, CAPTION, FIELDS = "cls", "txt", "json"
SIDECARS = (CLASS, CAPTION, FIELDS)
"""Extensions of the files that tell a sample's labels."""

_is_labels = re.compile(r"cls|txt|(?:.*\.)?json", re.DOTALL).fullmatch
_COLUMNS = {CLASS: CLASS_COLUMN, CAPTION: CAPTION_COLUMN}

_MASK = f"{schema.SEGMENTATION.removeprefix('image/')}/"
_FILES_OR_SKIP = (*schema.FILE_TYPES, schema.SKIP_KIND)
_MOST_COLUMNS = 16  # of files; more are names of columns if most samples have them
_NUMBERED = re.compile(r"(.+)\.(\d{1,9})")

_MAX_SIDECAR_BYTES = 16 << 20  # 16 MiB
_RECOGNISED_BY, _LOOKED_AT, _LOOKED_AT_REMOTE = 200, 2_000, 200  # members of an archive
_SHOWN = 5
_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,17}")
_YOLO = re.compile(r"\s*\d+(\s+[0-9.eE+-]+){4,}\s*")

Read = Callable[[Member, int], bytes]
"""(member, bytes of its content) -> the content."""


class _Image(NamedTuple):
    """An image of a sample.

    Attributes:
      extension: of its file, from the first dot of the name on.
      column: the column of further files that it may be of; empty without a name of its own.
      number: its place in a list of that column; None if it is not in a list.
      ref: the reference to it, or why there is none.
    """

    extension: str
    column: str
    number: int | None
    ref: ImageRef | DeadLetter


@dataclass
class _Sample(webdataset.ExampleColumns):
    """The files of one sample; names and kinds are those of an example that we wrote.

    Attributes:
      files: (extension, reference or why there is none) of its images.
      texts: extension -> JSON of a column.
      hashes: extension -> hash of what a file of labels contains.
      problem: what is wrong with those files, or empty.
    """

    files: list[tuple[str, ImageRef | DeadLetter]] = field(default_factory=list)
    texts: dict[str, str] = field(default_factory=dict)
    hashes: dict[str, int] = field(default_factory=dict)
    problem: str = ""

    def add_labels(self, extension: str, entry: Entry, read: Read) -> None:
        """Adds what a file beside the image states; a class and a caption in files of their own come first."""
        try:
            if entry.member is None:
                raise ValueError(entry.problem)
            if entry.size > _MAX_SIDECAR_BYTES:
                raise ValueError(f"{entry.size} bytes, expected at most {_MAX_SIDECAR_BYTES}")
            text = read(entry.member, entry.size).decode("utf-8-sig")
            if self.hashes.setdefault(extension, hash(text)) != hash(text):
                raise ValueError("its archive has two that differ; pack it again, with one")
            if extension == FIELDS:
                fields = caption_files.json_fields(text)
                if isinstance(fields.get(schema.ENCODED_KEY), dict):
                    self.add_features(fields)
                    return
                ours = {CLASS_COLUMN, CAPTION_COLUMN} & self.fields.keys()
                self.fields |= {name: fields[name] for name in fields if name not in ours}
            elif extension == CAPTION:
                self.fields[CAPTION_COLUMN] = text.strip()
            elif extension != CLASS:
                self.texts[extension] = text
            elif not (self.names and CLASS_COLUMN in self.fields):  # by name, of our example
                name = text.strip()
                self.fields[CLASS_COLUMN] = int(name) if _INTEGER.fullmatch(name) else name
        except (OSError, ValueError, RecursionError) as error:
            self._cannot_use(extension, error)

    def _cannot_use(self, extension: str, error: Exception) -> None:
        self.hashes.setdefault(extension, 0)
        self.problem = self.problem or f"its .{extension} cannot be used: {errors.reason_of(error)}"

    def divided(self, image: str, columns: Collection[str]) -> tuple[list[_Image], list[_Image]]:
        """Its images, of which one is expected, and the further files beside it.

        Args:
          image: the name of the image among several; empty for one without a name.
          columns: the columns of further files.
        """
        if len(self.files) == 1 and "." not in self.files[0][0] and not image:  # as nearly always
            return [_Image(self.files[0][0], "", None, self.files[0][1])], []
        images = []
        for extension, ref in self.files:
            column, number = extension.rpartition(".")[0], None
            if match := _NUMBERED.fullmatch(column):
                column, number = match[1], int(match[2])
            column = self.names.get(extension) or column_name(column)
            images.append(_Image(extension, column, number, ref))
        images.sort(key=lambda each: (each.column, each.number or 0))
        own = [each for each in images if each.extension.rpartition(".")[0] == image]
        if not own and not any(each.column in columns for each in images):
            own = images
        return own, [each for each in images if each not in own]

    def row(self, key: str, beside: Sequence[_Image], as_text: Collection[str]) -> dict[str, Any]:
        """Its columns; JSON of those in `as_text` is a text, and a file is the key of its reference."""
        row = {KEY_COLUMN: key, **self.fields}
        for extension, text in self.texts.items():
            column = self.names.get(extension) or _column_of(extension)
            try:
                row[column] = text if column in as_text else json_value(text)
            except (ValueError, RecursionError) as error:
                self._cannot_use(extension, error)
        for column, of_column in groupby(beside, key=lambda image: image.column):
            images = [*of_column]
            keys: list[Any] = [each.ref.key for each in images]
            is_list = len(keys) > 1 or images[0].number is not None
            row[column] = keys if is_list else keys[0]
        return row


def sample_name(path: str) -> tuple[str, str]:
    """The name that a file shares with others of its sample, and the rest of its own, in lower case.

    >>> sample_name("a.b/000.Seg.PNG")
    ('a.b/000', 'seg.png')
    """
    folder, slash, name = path.rpartition("/")
    base, _, extension = name.partition(".")
    return f"{folder}{slash}{base}", extension.lower()


def _column_of(extension: str) -> str:
    """The column of a file of labels, or of JSON."""
    return _COLUMNS.get(extension, extension.removesuffix(f".{FIELDS}"))


def _members(images: MemberFilter, entries: Iterable[Entry]) -> Iterator[tuple[str, str, Entry]]:
    """Yields (sample, extension, file) of images and of what may tell their labels."""
    for entry in entries:
        name, extension = sample_name(entry.name)
        if posixpath.basename(name).startswith(".") or not posixpath.basename(name):
            continue  # hidden, as what macOS adds
        of_macos = entry.name.startswith(f"{filters.MACOS_FOLDER}/")
        if not of_macos if _is_labels(extension) else images.lists(entry):
            yield name, extension, entry


def _collect(
    archive: OpenedArchive,
    images: MemberFilter,
    skipped: Collection[str],
    scattered: Collection[int] | None = None,
    most: int | None = None,
) -> Iterator[tuple[str, _Sample]]:
    """Yields (name, sample) of files that follow each other, then of samples whose files do not.

    Args:
      archive: what is read.
      images: tells which files are images.
      skipped: columns whose files are left out.
      scattered: hashes of the names of such samples; None for all.
      most: how many files are looked at; None for all.
    """
    apart: dict[str, _Sample] = defaultdict(_Sample)
    members = _members(images, islice(archive.entries(), most))
    for name, of_name in groupby(members, key=itemgetter(0)):
        is_apart = scattered is None or hash(name) in scattered
        sample = apart[name] if is_apart else _Sample()
        for _, extension, entry in of_name:
            if not _is_labels(extension):
                sample.files.append((extension, images.reference(entry, archive.version)))
            elif extension != FIELDS and _column_of(extension) in skipped:
                sample.texts[extension] = "null"  # never read
            else:
                sample.add_labels(extension, entry, archive.content)
        if not is_apart:
            yield name, sample
    yield from apart.items()


@dataclass(frozen=True)
class WebDatasetReader:
    """Reads archives of samples.

    Attributes:
      archives: all of them.
      table: the samples' columns, like a table's.
      schema: what they are.
      image: the name of the image among several of a sample; empty for one without a name.
      skipped: columns that are left out.
    """

    archives: tuple[filters.ImageRoot, ...]
    table: table_rows.LabelTable
    schema: tables.LabelSchema
    image: str = ""
    skipped: frozenset[str] = frozenset()

    @cached_property
    def _columns(self) -> frozenset[str]:
        """Those that are known, of whatever kind."""
        return self.skipped.union(column.name for column in self.schema.columns)

    @cached_property
    def _as_text(self) -> Collection[str]:
        return {c.name for c in self.schema.columns if c.kind is schema.ColumnKind.JSON}

    def read(self, uri: str, unpack_to: str) -> Iterator[SampleRef | DeadLetter]:
        """Yields a reference to the image of each sample of an archive.

        Raises:
          ContainerError: it cannot be read, or is damaged.
        """
        (root,) = (archive for archive in self.archives if archive.uri == uri)
        names = array("q")  # hashes; one that is there twice has files in several places
        first = self._outcomes_of(root, names, frozenset())
        outcomes: Sequence[Iterable[SampleRef | DeadLetter]] = layout.held(first)
        scattered = {a for a, b in pairwise(sorted(names)) if a == b}
        if scattered:
            outcomes = [self._outcomes_of(root, names, scattered)]
        yield from chain.from_iterable(outcomes)

    def _outcomes_of(
        self, root: filters.ImageRoot, names: array[int], scattered: Collection[int]
    ) -> Iterator[SampleRef | DeadLetter]:
        """Yields the outcomes of an archive's samples, and adds hashes of their names. Raises ContainerError."""
        assert root.archive
        images = MemberFilter(root)
        try:
            with opened_archive(root) as archive:
                for name, sample in _collect(archive, images, self.skipped, scattered):
                    names.append(hash(name))
                    yield from self._outcomes(root.archive.key(name), sample, root.uri)
        except errors.ListingError as error:
            raise errors.ContainerError(str(error)) from error

    def _outcomes(self, key: str, sample: _Sample, uri: str) -> Iterator[SampleRef | DeadLetter]:
        """A reference to the image of a sample; or why there is none, for each image that may be it."""
        images, beside = sample.divided(self.image, self._columns)
        if not images:
            labels = ", ".join([*sample.fields, *(f".{each.extension}" for each in beside)])
            message = f"there are labels, {labels or 'broken'}, and no image beside them"
            yield image_dead_letter(Stage.JOIN, key, uri, Reason.MISSING_IMAGE, message)
            return
        fields = sample.row(key, beside, self._as_text)
        row = typed_rows.typed_row(key, fields, self.table, self.schema, line=0)
        reason, message, file = self._fault(sample, images, beside)
        stage = Stage.JOIN
        if not message:
            stage, reason, file = Stage.LABELS, Reason.BAD_LABEL_VALUE, uri
            message = sample.problem or row.problem
        for image in (each.ref for each in images):
            if isinstance(image, DeadLetter):
                yield image
            elif message:
                yield image_dead_letter(stage, image.key, image.uri, reason, message, file=file)
            else:
                split = row.split or first_folder_split(image.path) or DEFAULT_SPLIT
                yield labelled(image, split, self._with_files(row.values, beside), uri)

    def _fault(
        self, sample: _Sample, images: Sequence[_Image], beside: Sequence[_Image]
    ) -> tuple[Reason, str, str]:
        """What is wrong with the images of a sample: reason, message and file; a message is empty for none."""
        extensions = sorted({each.extension for each in images})
        if len(extensions) > 1:
            count = f"{len(images)} images, .{', .'.join(extensions)}"
            return Reason.AMBIGUOUS_KEY, f"the sample has {count}; expected one", ""
        if len(images) > 1:
            return Reason.DUPLICATE_KEY, f"its archive contains this path {len(images)} times", ""
        if not (sample.fields or sample.texts or sample.problem or beside):
            return Reason.UNLABELLED, f"no .{', .'.join(SIDECARS)} beside it", ""
        places = Counter((each.column, each.number) for each in beside)
        for _, column, number, ref in beside:
            if column in self.skipped:
                continue
            if places[column, number] > 1 or column in sample.fields:
                several = f"the sample has several {column}; expected one"
                return Reason.AMBIGUOUS_KEY, several, ""
            if column not in self._columns:
                answer = f"--columns {column}:file writes it, {column}:skip leaves it out"
                unknown = f"the first samples make no column {column} of their images; {answer}"
                return Reason.AMBIGUOUS_KEY, unknown, ""
            if isinstance(ref, DeadLetter):
                return Reason(ref.reason), f"its {column}: {ref.message}", ref.uri
        return Reason.UNLABELLED, "", ""

    def _with_files(
        self, values: tuple[LabelValue, ...], beside: Sequence[_Image]
    ) -> tuple[LabelValue, ...]:
        """The values of a row, with the places of files for their keys."""
        if not beside:
            return values
        refs = (each.ref for each in beside if isinstance(each.ref, ImageRef))
        places: dict[Any, FileValue] = {ref.key: (ref.uri, ref.size, ref.version) for ref in refs}
        filled: list[Any] = [*values]
        for index in schema.file_columns(self.schema.columns):
            value = filled[index]
            keys = value if isinstance(value, tuple) else (value,)
            located = tuple(places.get(key, key) for key in keys)
            filled[index] = located if isinstance(value, tuple) else located[0]
        return tuple(filled)


class WebDataset:
    """Archives of samples whose files share a name."""

    name = "webdataset"
    option_names = caption_files.SIDECAR_OPTIONS | {"key_column"}
    reads_labels = False

    def recognise(self, options: layout.SourceOptions) -> str:
        """Archives; the first contains a .cls, .txt or .json beside an image."""
        archives, unusable = archive_roots(options.images)
        if unusable or not archives:
            return ""
        root = archives[0]
        with opened_archive(root) as archive:
            samples = _collect(archive, MemberFilter(root), (), most=_RECOGNISED_BY)
            for name, sample in samples:
                labels = [extension for extension in SIDECARS if extension in sample.hashes]
                if labels and sample.files:
                    base = printable(posixpath.basename(name))
                    return f"{base}.{labels[0]} beside {base}.{sample.files[0][0]} in {root.uri}"
        return ""

    def open(self, options: layout.SourceOptions) -> layout.Source:
        """Looks at the beginnings of the first archive and of the last.

        Raises:
          UsageError: a path does not exist or is not an archive, or nothing states labels.
          ListingError: an archive cannot be read.
        """
        archives, unusable = archive_roots(options.images)
        if unusable or not archives:
            typed = f"not {', '.join(unusable) or 'nothing'}"
            raise errors.UsageError(f"--layout {self.name} reads archives (.tar, .zip), {typed}")
        given = [n for n, kind in options.columns.items() if kind in _FILES_OR_SKIP]
        skipped = frozenset(n for n in given if options.columns[n] == schema.SKIP_KIND)
        first, ignored = _beginnings(archives, skipped)
        image, columns, questions = _image_among([*first.values()], options)
        rows, kinds, refs = [], dict[str, str](), dict[Any, ImageRef]()
        for key, sample in first.items():
            own, beside = sample.divided(image, columns)
            beside = [each for each in beside if each.column in columns]
            if own and (sample.fields or sample.texts or beside):
                kinds |= sample.kinds
                rows.append(sample.row(key, beside, sample.kinds))
                refs |= {e.ref.key: e.ref for e in beside if isinstance(e.ref, ImageRef)}
        if not rows:
            broken = (f"of {key}, {each.problem}" for key, each in first.items() if each.problem)
            problem = next(broken, f"no .{', .'.join(SIDECARS)} beside an image")
            raise errors.UsageError(
                f"--images {archives[0].uri}: no sample looked at has labels that can be used: {problem}; for class "
                "folders in archives give --layout class_folders"
            )
        if kinds and all(CLASS_COLUMN not in row for row in rows):  # of examples that we wrote
            options = replace(options, label_column=options.label_column or schema.NO_LABEL_COLUMN)
        rows[0] = {**{name: f"{name}.png" for name in given}, **rows[0]}  # of later samples only
        kinds |= {n: schema.FILE_TYPES[is_mask(n) and not n.startswith(_MASK)] for n in columns}

        def head_of(key: str) -> bytes | None:
            try:
                return files.read_image(refs[key].uri, refs[key].size)[: further_columns.HEAD_BYTES]
            except (errors.ConversionError, OSError, KeyError):  # the job tells what is wrong
                return None

        uri = archives[0].uri
        labels, table, left_out = caption_files.inspect_sidecars(uri, rows, options, kinds, head_of)
        notes = [*labels.notes, *left_out]
        if columns - skipped:
            names = enumerated(sorted(columns - skipped), _SHOWN)
            own_image = f"{image} is the image" if image else "a sample is an image"
            notes.append(f"{own_image}, with {names} beside it")
        if ignored:
            notes.append(f"files of other kinds are left out: {enumerated(ignored, _SHOWN)}")
        reader = WebDatasetReader(archives, table, labels, image, skipped)
        return layout.Source(
            self.name,
            (),
            layout.ContainerLabels(reader, tuple(root.uri for root in archives)),
            example_source.LabelledImages(tuple(map(_as_mask, labels.columns))),
            table_numbering(options, labels),
            (*archive_notes(archives), *notes),
            (*questions, *labels.questions, *archive_questions(archives), *_yolo_question(rows)),
            roles=labels.roles,
        )


def _beginnings(
    archives: Sequence[filters.ImageRoot], skipped: Collection[str]
) -> tuple[dict[str, _Sample], Sequence[str]]:
    """The samples at the beginnings of the first and the last archive, by their keys, and other files."""
    first: dict[str, _Sample] = {}
    further: set[str] = set()
    for root in {archives[0].uri: archives[0], archives[-1].uri: archives[-1]}.values():
        assert root.archive
        images = MemberFilter(root)
        most = _LOOKED_AT_REMOTE if uris.is_remote(root.uri) else _LOOKED_AT
        with opened_archive(root) as archive:
            samples = dict(_collect(archive, images, skipped, most=most))
        first |= {root.archive.key(name): sample for name, sample in samples.items()}
        further.update(images.ignored)
    return first, sorted(further)


def _image_among(
    samples: Sequence[_Sample], options: layout.SourceOptions
) -> tuple[str, Set[str], list[Question]]:
    """The name of the image among several of a sample, the columns of the others, and a doubt about it."""
    columns = {name for name, kind in options.columns.items() if kind in schema.FILE_TYPES}
    several = [sample for sample in samples if len(sample.files) > 1]
    names = {extension.rpartition(".")[0] for sample in several for extension, _ in sample.files}
    images = (each for sample in several for part in sample.divided("", ()) for each in part)
    counts = Counter(each.column for each in images if "." in each.extension)
    beside = counts.keys()
    rare = 2 * len(several) < sum(bool(sample.files) for sample in samples)
    typed, questions = options.key_column, []
    likeliest = sorted(names, key=rank)
    if typed and (typed not in names or "" in names):
        given = enumerated([name or "one without a name" for name in likeliest], _SHOWN)
        images_are = f"the images of samples are {given or 'not several'}"
        raise errors.UsageError(f"--key_column {typed}: {images_are}")
    unsteady = len(beside) > _MOST_COLUMNS and 2 * counts.total() < len(beside) * len(several)
    of_files = unsteady or (rare and "" not in names)
    if of_files and not typed:  # they are no names of columns
        return "", columns, []
    image = typed or ("" if "" in names else next(iter(likeliest), ""))
    if image and not typed and any(rank(name)[:-1] == rank(image)[:-1] for name in likeliest[1:]):
        reason = f"Samples have the images {enumerated(likeliest, _SHOWN)}; no name tells which one is the image."
        advice = "The others would be written beside it. If it is the first:"
        questions.append(Question("image_of_several", reason, advice, {"key_column": image}))
    return image, (columns | beside) - {image}, questions


def _as_mask(column: schema.Column) -> schema.Column:
    """The column of a mask that we wrote, as masks have it; others as they are."""
    name = column.name.removeprefix(_MASK)
    if name == column.name or column.kind not in schema.CELL_FILES:
        return column
    bits = 16 if column.kind is schema.ColumnKind.PICTURE_16 else 8
    return schema.segmentation_column(name, required=False, bits=bits)


def _yolo_question(rows: Sequence[Mapping[str, Any]]) -> Iterator[Question]:
    """Asks whether what would be captions are boxes."""
    texts = [row[CAPTION_COLUMN] for row in rows if isinstance(row.get(CAPTION_COLUMN), str)]
    lines = [line for text in texts for line in text.splitlines() if line.strip()]
    if lines and all(map(_YOLO.fullmatch, lines)):
        yield Question(
            "boxes_as_captions",
            f"The .txt files contain lines such as {excerpt(lines[0])} in {counted(len(texts), 'sample')}, "
            "which look like YOLO's boxes, not captions; unpack the archives, and name the folder.",
        )
