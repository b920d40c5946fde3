"""Rows of label files and of any PCollection, joined with images into samples."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial
from typing import Any, NamedTuple, Optional

import apache_beam as beam
from apache_beam import coders
from apache_beam.pvalue import TaggedOutput
from apache_beam.transforms.window import GlobalWindows

from beam_pipeline.core.dataset.splits import SplitAssigner
from beam_pipeline.core.dead_letters import DeadLetter, Reason, Stage, row_dead_letter
from beam_pipeline.core.errors import SampleError, UsageError
from beam_pipeline.core.labels import further_columns, schema
from beam_pipeline.core.labels.samples import RowMerger
from beam_pipeline.core.listing.filters import ImageRoot
from beam_pipeline.core.listing.folders import first_folder_split
from beam_pipeline.core.packing import BATCH_SIZE, Batch, DeadLetterBatch, ImageBatch, LabelBatch
from beam_pipeline.core.questions import Question, question_error
from beam_pipeline.core.references import DEFAULT_SPLIT, ImageRef, SampleRef
from beam_pipeline.core.references import LabelRow as RowRef
from beam_pipeline.core.text import excerpt
from beam_pipeline.layouts.layout import FileLabels, ListedLabels, Source, SourceOptions
from beam_pipeline.layouts.opening import open_source
from beam_pipeline.layouts.paths import expanded, image_roots
from beam_pipeline.options import ConvertOptions, speaking_of_arguments
from beam_pipeline.transforms.labels import ROWS, JoinLabelBatches, ReadLabelFiles
from beam_pipeline.transforms.listing import IMAGES, ListImages
from beam_pipeline.transforms.output import BadSample, public_bad
from beam_pipeline.work.label_columns import LabelColumns, plain
from beam_pipeline.work.labels import JoinRows, Labelling, row_merger
from beam_pipeline.work.outcome import DEAD_LETTERS
from beam_pipeline.work.records import split_of

_BAD = "bad"
UNLABELLED = ("auto", "drop", "keep")
_BUCKETS = 1024
ANY_LABELS = schema.Column("labels", schema.ColumnKind.BYTES, "")


class LabelRow(NamedTuple):
    """A row of a label file.

    Attributes:
      image: how the row names its image.
      labels: column -> value; a missing one is left out. Lists are tuples.
      split: the split in the row, or empty.
      file: the label file.
      line: its line there, from 1.
      problem: the fault in a value, or empty; `JoinLabels` makes a `BadSample` of it.
      size: width and height of the image, as given in the row.
    """

    image: str
    labels: Mapping[str, Any]
    split: str = ""
    file: str = ""
    line: int = 0
    problem: str = ""
    size: Optional[Sequence[int]] = None  # noqa: UP045 - Beam's schemas


class ImageSample(NamedTuple):
    """An image with its labels; `sample._replace(labels={...})` gives it others.

    Attributes:
      key: path relative to its folder; identifies it everywhere.
      uri: of the file.
      size: bytes, as listed.
      labels: name -> value; a missing one is left out. Lists are tuples.
      split: "train", "validation", ...
      version: changes with the file; 0 if unknown.
      file: its label file; empty without one.
      claimed_size: width and height that labels give.
    """

    key: str
    uri: str
    size: int
    labels: Mapping[str, Any]
    split: str = DEFAULT_SPLIT
    version: int = 0
    file: str = ""
    claimed_size: Optional[Sequence[int]] = None  # noqa: UP045 - Beam's schemas


for _kind in (LabelRow, ImageSample):
    coders.registry.register_coder(_kind, coders.RowCoder)


class LabelRows(NamedTuple):
    """The rows of label files.

    Attributes:
      rows: PCollection of `LabelRow`.
      bad: PCollection of `BadSample`, of rows that cannot be read.
    """

    rows: beam.PCollection[LabelRow]
    bad: beam.PCollection[BadSample]


class JoinedSamples(NamedTuple):
    """Images joined with labels. `WriteImageShards` takes it as it is.

    Attributes:
      samples: PCollection of `ImageSample`.
      bad: PCollection of `BadSample`, of the other images and rows.
    """

    samples: beam.PCollection[ImageSample]
    bad: beam.PCollection[BadSample]


class ReadLabels(beam.PTransform):
    """Reads label files at the beginning of a pipeline: PBegin -> `LabelRows`.

    `JoinLabels` and `Images` take it as their `labels`, for the kinds of its columns.

    Example::

        labels = ReadLabels("labels.csv", label_column="species")
        read = pipeline | labels
    """

    def __init__(
        self,
        tables: Paths,
        *,
        layout: str = "table",
        images: Paths | None = None,
        yes: bool = False,
        **options: Any,
    ) -> None:
        """Takes the files.

        Args:
          tables: paths or globs of label files.
          layout: one of `beam-tfrecord convert --layout` with label files.
          images: folders of images, for layouts that look into them, for rows with paths of another machine, and
            to tell what the files are that cells name.
          yes: accept guesses about the labels that are not safe.
          **options: options of the command on labels (`label_column`, `key_column`, `columns`, `list_column`,
            `one_hot`, `label_base`, ...) as Python values.

        Raises:
          UsageError: an option does not exist; in `expand`: a file cannot be used, or a guess is not safe.
          ConversionError: when the pipeline runs: a file is broken as a whole.
        """
        super().__init__()
        self._layout, self._yes = layout, yes
        read = {field.name for field in fields(SourceOptions)} - {"images", "labels"}
        known = read & {option.name for option in ConvertOptions.options()} | {"file_columns"}
        if unknown := sorted(options.keys() - known):
            raise UsageError(
                f"ReadLabels has no argument {unknown[0]!r}; its options are {', '.join(sorted(known))}"
            )
        given = {**({"layout": layout} if layout != "table" else {}), "images": images}
        self._given = {name: value for name, value in (given | options).items() if value}
        with speaking_of_arguments():
            typed = {"images": images, "labels": tables, **options}
            self._options = ConvertOptions.of_python(typed).source
        if not self._options.labels:
            raise UsageError("ReadLabels is given no label file, expected a path or several")

    def command(self, **changes: Any) -> str:
        """The call that gives these arguments with others in their place."""
        arguments = {**self._given, **changes}
        tables = [*arguments.pop("labels", self._options.labels)]
        return f"ReadLabels({', '.join([repr(tables), *(f'{n}={v!r}' for n, v in arguments.items())])})"

    @cached_property
    def source(self) -> Source:
        """The files as their layout understands them; their beginnings are read."""
        with speaking_of_arguments():
            source, _ = open_source(self._layout, self._options)
            self._ask(source.questions)
        return source

    def check_resize(self) -> None:
        """Asks about numbers that may be places in images that are resized. Raises QuestionError."""
        with speaking_of_arguments():
            columns, answers = self.source.columns, self._options.columns
            self._ask(tuple(further_columns.resize_questions(columns, answers, answered=False)))

    def _ask(self, questions: Sequence[Question]) -> None:
        if questions and not self._yes:
            raise question_error(questions, self)

    @property
    def columns(self) -> LabelColumns:
        """The labels of the rows; the beginnings of the files are read."""
        source = self.source
        return LabelColumns(source.columns, row_merger(source, source.columns), source.numbering)

    def expand(self, pipeline: beam.Pipeline) -> LabelRows:
        labels = self.source.labels
        assert isinstance(labels, FileLabels | ListedLabels)
        read = pipeline | "ReadFiles" >> ReadLabelFiles(labels=labels, spread=True)
        rows = beam.FlatMap(_public_rows, self.columns).with_output_types(LabelRow)
        return LabelRows(read[ROWS] | "Rows" >> rows, read[DEAD_LETTERS] | "Bad" >> public_bad())


def check_choice(argument: str, value: str, choices: Sequence[str]) -> None:
    """Raises UsageError if the value of an argument is not one of its choices."""
    if value not in choices:
        raise UsageError(f"{argument} is {value!r}, expected one of {', '.join(choices)}")


Labels = Mapping[str, Any] | ReadLabels


def columns_of(labels: Labels | LabelColumns | None) -> LabelColumns:
    """The labels that a public transform was given."""
    if isinstance(labels, ReadLabels):
        return labels.columns
    if isinstance(labels, LabelColumns):
        return labels
    return LabelColumns.of_kinds(labels or {})


class JoinLabels(beam.PTransform):
    """Joins images with rows by name: {"images", "rows"} -> `JoinedSamples`.

    Images are of the type `ImageFile`. Rows are of the type `LabelRow`, or dicts, NamedTuples or rows of Beam of any
    PCollection, such as a query's. They name images as the rows of label files do: by path, by file name, or by either without
    extension. Every image and every row ends in a sample or as a bad one. "bad" may have further bad samples,
    such as those of `ReadLabels`. Windows end here.

    Example::

        joined = {"images": images, "rows": rows} | JoinLabels({"species": "class", "age": "int"}, key="file")
    """

    def __init__(
        self,
        labels: Labels | None = None,
        *,
        key: str = "image",
        split: str = "",
        unlabelled: str = "auto",
    ) -> None:
        """Takes what rows are.

        Args:
          labels: field -> "class", "int", "float", "str", or "picture", "picture16" (of 16 bits), "copy" and
            "file" for paths of further files, or a list of one of them, as `["class"]`, of which the rows of an
            image are put together; or the `ReadLabels` of the rows. Other fields are left out.
            By default all fields are labels, and the rows of an image must agree.
          key: the field that names the image.
          split: the field that names the split; empty for the first folder of the image's path, if it is called
            as a split is.
          unlabelled: what images without a row are: "drop" for bad samples; "keep" for samples with the label
            `labelled` of 0; "auto" for "drop", except where files without objects have no rows.

        Raises:
          UsageError: an argument cannot be used.
          ValueError: in `expand`: a PCollection is unbounded.
        """
        super().__init__()
        check_choice("unlabelled", unlabelled, UNLABELLED)
        self._labels = labels
        self._key, self._split, self._unlabelled = key, split, unlabelled
        if labels is None or isinstance(labels, Mapping):
            columns_of(labels)  # for its errors

    def expand(self, inputs: Mapping[str, beam.PCollection]) -> JoinedSamples:
        given = [inputs.get(name) for name in (IMAGES, ROWS)] if isinstance(inputs, Mapping) else []
        if not given or not all(isinstance(part, beam.PCollection) for part in given):
            raise UsageError(
                'JoinLabels takes two PCollections, {"images": images, "rows": rows}; of the LabelRows that '
                'ReadLabels returns, {"images": images, "rows": read.rows, "bad": read.bad}'
            )
        columns = columns_of(self._labels)
        merger = columns.merger
        if self._labels is None:
            columns, merger = LabelColumns((ANY_LABELS,)), RowMerger()
        keep = columns.keeping if self._unlabelled == "keep" else None
        if self._unlabelled != "auto":
            merger = replace(merger, unnamed=None)
        typed = replace(columns, columns=keep.label_columns) if keep else columns
        typed_by = None if self._labels is None else typed
        row_of = partial(_row, key=self._key, split=self._split, columns=typed_by)
        images = batched(inputs[IMAGES], "Images", ImageBatch, _image)
        rows = batched(inputs[ROWS], "Rows", LabelBatch, row_of)
        labelling = Labelling(SplitAssigner(None, 0), columns.columns, keep=keep)
        join = JoinLabelBatches(work=JoinRows(merger, labelling), buckets=_BUCKETS)
        joined = {IMAGES: images["items"], ROWS: rows["items"]} | "Join" >> join
        letters = [stage[DEAD_LETTERS] for stage in (images, rows, joined)]
        if _BAD in inputs:
            letters.append(batched(inputs[_BAD], "Bad", ImageBatch, dead_letter)[DEAD_LETTERS])
        if keep and self._labels is not None:
            columns = columns.with_unlabelled()
        samples = beam.FlatMap(_samples, columns, self._labels is None)
        return JoinedSamples(
            joined["samples"] | "Samples" >> samples.with_output_types(ImageSample),
            letters | "AllBad" >> beam.Flatten() | "BadSamples" >> public_bad(),
        )


class _Batched(beam.DoFn):
    """Makes batches of elements, and of dead letters."""

    def __init__(self, batch: type[Batch[Any]], convert: Callable[[Any], Any]) -> None:
        self._batch, self._convert = batch, convert

    def start_bundle(self) -> None:
        self._items, self._letters = self._batch(), DeadLetterBatch()

    def process(self, element: Any) -> Iterator[Any]:
        item = self._convert(element)
        (self._letters if isinstance(item, DeadLetter) else self._items).append(item)
        if len(self._items) >= BATCH_SIZE:
            yield self._items
            self._items = self._batch()

    def finish_bundle(self) -> Iterator[Any]:
        if self._items:
            yield GlobalWindows.windowed_value(self._items)
        if self._letters:
            yield TaggedOutput(DEAD_LETTERS, GlobalWindows.windowed_value(self._letters))


def batched(
    elements: beam.PCollection, label: str, batch: type[Batch[Any]], convert: Callable[[Any], Any]
) -> beam.pvalue.DoOutputsTuple:
    """Batches of the elements of a bounded PCollection, whatever their windows.

    Args:
      elements: of any kind.
      label: begins those of the stages.
      batch: the kind of batches.
      convert: makes an item or a dead letter of an element.

    Returns (tagged): "items", and "dead_letters".
    """
    if not elements.is_bounded:
        raise ValueError(f"{label}: an unbounded PCollection has no end to join or shuffle it at")
    made = elements | f"{label}InOneWindow" >> beam.WindowInto(GlobalWindows())
    batches = beam.ParDo(_Batched(batch, convert)).with_output_types(batch)
    return made | f"{label}InBatches" >> batches.with_outputs(DEAD_LETTERS, main="items")


def _image(image: Any) -> ImageRef | DeadLetter:
    if image.reason:
        return unusable(image)
    return ImageRef(image.key, image.uri, image.size, image.version, tuple(image.aliases))


def unusable(image: Any) -> DeadLetter:
    """The dead letter of an `ImageFile` with a reason."""
    return DeadLetter(Stage.LIST.value, image.key, image.uri, image.reason, image.message)


def dead_letter(bad: Any) -> DeadLetter:
    """The dead letter of a `BadSample`."""
    return DeadLetter(bad.stage, bad.key, bad.uri, bad.reason, bad.message, bad.file, bad.line)


def _row(element: Any, key: str, split: str, columns: LabelColumns | None) -> RowRef | DeadLetter:
    """Takes an element of any PCollection for a row.

    Args:
      element: the element.
      key: the field that names the image.
      split: the field that names the split; empty for none.
      columns: the labels; None for all other fields as one.
    """
    row = element
    if not all(hasattr(element, name) for name in LabelRow._fields):
        given = element._asdict() if hasattr(element, "_asdict") else element
        if not isinstance(given, Mapping) or not given.get(key):
            problem = f"{excerpt(element)} does not name its image in a field {key!r}"
            return row_dead_letter(Stage.LABELS, "", Reason.BAD_ROW, problem, "", 0)
        left = {name: value for name, value in given.items() if name not in (key, split)}
        known = not split or split in given
        problem = "" if known else f"the row lacks the field {split!r} of the split"
        of_split = str(given.get(split) or "") if split else ""
        row = LabelRow(str(given[key]), left, of_split, problem=problem)
    values: tuple[Any, ...] = (None,) * len(columns.columns if columns else (0,))
    problem = row.problem
    try:
        if columns is None:
            values = (tuple((n, plain(n, v)) for n, v in sorted(row.labels.items())),)
        else:
            values = columns.values(row.labels)
            problem = problem or columns.fault(values)
    except SampleError as error:
        problem = problem or str(error)
    return RowRef(row.image, values, row.split, row.file, row.line, problem, _size_of(row.size))


def _size_of(given: Sequence[int] | None) -> tuple[int, int] | None:
    return None if given is None else (int(given[0]), int(given[1]))


def _public_rows(rows: Iterable[RowRef], columns: LabelColumns) -> Iterator[LabelRow]:
    for row in rows:
        yield LabelRow(row.name, columns.labels(row.values), *row[2:])


def _samples(
    refs: Iterable[SampleRef], columns: LabelColumns, any_labels: bool
) -> Iterator[ImageSample]:
    """Public samples.

    Args:
      refs: references.
      columns: of their labels.
      any_labels: whether the first label has all labels as pairs.
    """
    for ref in refs:
        values: Any = ref.labels
        labels = dict(values[0] or ()) if any_labels else columns.labels(values)
        if any_labels and len(values) > 1:
            labels["labelled"] = values[1]
        yield public_sample(ref, labels)


def public_sample(ref: SampleRef, labels: Mapping[str, Any]) -> ImageSample:
    """The public form of a reference."""
    fields = (ref.key, ref.uri, ref.size, labels, ref.split, ref.version, ref.origin)
    return ImageSample(*fields, claimed_size=ref.claimed_size)


@dataclass(frozen=True)
class SampleReader:
    """Takes `ImageSample`s and `ImageFile`s for references.

    Attributes:
      columns: the labels.
      rest: the last value has all other labels, as pairs; else a sample with others is bad.
    """

    columns: LabelColumns
    rest: bool = False

    def __call__(self, element: Any) -> SampleRef | DeadLetter:
        """Reads one."""
        given = element._asdict() if hasattr(element, "_asdict") else element
        get: Callable[[str], Any] = dict(given if isinstance(given, Mapping) else {}).get
        key, uri, size, file = get("key"), get("uri"), get("size"), get("file") or ""
        if not (isinstance(key, str) and isinstance(uri, str) and isinstance(size, int) and key):
            problem = f"{excerpt(element)} is not an ImageSample: it needs key, uri and size"
            return DeadLetter(Stage.LABELS.value, "", "", Reason.BAD_ROW.value, problem)
        if get("reason"):
            return unusable(element)
        folder_split = first_folder_split(next(iter(get("aliases") or ()), key))
        try:
            return SampleRef(
                key=key,
                uri=uri,
                size=size,
                split=split_of(element, get("split") or folder_split or DEFAULT_SPLIT),
                labels=self._values(get("labels") or {}),
                origin=file,
                version=get("version") or 0,
                claimed_size=_size_of(get("claimed_size")),
            )
        except SampleError as error:
            reason = Reason.BAD_LABEL_VALUE.value
            return DeadLetter(Stage.LABELS.value, key, uri, reason, str(error), file)

    def _values(self, labels: Mapping[str, Any]) -> tuple[Any, ...]:
        if not self.rest:
            return self.columns.checked(labels)
        names = {column.name for column in self.columns.columns}
        known = {name: value for name, value in labels.items() if name in names}
        rest = [(n, plain(n, v)) for n, v in sorted(labels.items()) if n not in names]
        for name, value in rest:
            if any(isinstance(v, bytes) for v in (value if isinstance(value, tuple) else (value,))):
                raise SampleError(
                    f"label {name!r} contains bytes, which an encoder has to make itself"
                )
        return (*self.columns.checked(known), tuple(rest))

    def labels(self, values: tuple[Any, ...]) -> dict[str, Any]:
        """The labels of a reference."""
        return {**self.columns.labels(values[:-1]), **dict(values[-1])}


Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


class ImageFile(NamedTuple):
    """A listed file that was not opened.

    Attributes:
      key: path relative to its folder, with `/`; identifies the image everywhere.
      uri: of the file.
      size: bytes, as listed.
      version: changes with the file; 0 if unknown.
      aliases: of a member of an archive, further paths by which label rows may name it.
      reason: why the name cannot be an image, such as `not_a_file`; empty for a usable file.
      message: explains the reason.
    """

    key: str
    uri: str
    size: int
    version: int = 0
    aliases: Sequence[str] = ()
    reason: str = ""
    message: str = ""


coders.registry.register_coder(ImageFile, coders.RowCoder)


class ReadImages(beam.PTransform):
    """Lists images at the beginning of a pipeline: PBegin -> PCollection of `ImageFile`.

    Lists the files that `beam-tfrecord convert` lists. A name that cannot be an image, such as a pipe's, is an
    element with a `reason`, for `JoinLabels` and `WriteImageShards` to report.

    Example::

        images = pipeline | ReadImages("gs://bucket/photos", patterns=["**/*_rgb.png"])
    """

    _yaml_requires_inputs = False

    def __init__(self, images: Paths, patterns: Sequence[str] = ()) -> None:
        """Takes the images.

        Args:
          images: folder, glob, file or archive, or several of them.
          patterns: globs relative to each folder; by default all files that are called as images are.

        Raises:
          UsageError: in `expand`: a path does not exist, or is inside another.
          ListingError: when the pipeline runs: a folder cannot be listed.
        """
        super().__init__()
        self._images, self._patterns = paths_of(images), paths_of(patterns)

    def expand(self, pipeline: beam.Pipeline) -> beam.PCollection[ImageFile]:
        listed = pipeline | "ListImages" >> ListImages(roots=_roots(self._images, self._patterns))
        return _files(listed)


class ReadAllImages(beam.PTransform):
    """Lists images of a PCollection of paths, each a folder, glob, file or archive: -> `ImageFile`.

    Keys are relative to their folder, so paths must not overlap.

    Example::

        images = folders | ReadAllImages()
    """

    def __init__(self, patterns: Sequence[str] = ()) -> None:
        """Takes globs relative to each folder; by default all files that are called as images are.

        Raises:
          UsageError: when the pipeline runs: a path does not exist.
          ListingError: when the pipeline runs: a folder cannot be listed.
        """
        super().__init__()
        self._patterns = paths_of(patterns)

    def expand(self, paths: beam.PCollection[str]) -> beam.PCollection[ImageFile]:
        patterns = self._patterns
        roots = beam.FlatMap(lambda path: _roots(paths_of(path), patterns))
        listed = paths | "Roots" >> roots.with_output_types(ImageRoot) | "ListRoots" >> ListImages()
        return _files(listed)


def paths_of(paths: Paths) -> tuple[str, ...]:
    """One path, or several, as texts."""
    several = (paths,) if isinstance(paths, str | os.PathLike) else paths
    return tuple(os.fspath(path) for path in several)


def _roots(paths: Sequence[str], patterns: Sequence[str]) -> tuple[ImageRoot, ...]:
    with speaking_of_arguments():
        roots = image_roots(expanded(paths))
    return tuple(
        root if root.archive or root.patterns else replace(root, patterns=tuple(patterns))
        for root in roots
    )


def _files(listed: Mapping[str, beam.PCollection]) -> beam.PCollection[ImageFile]:
    usable = listed[IMAGES] | "Images" >> beam.FlatMap(_usable).with_output_types(ImageFile)
    bad = listed[DEAD_LETTERS] | "Unusable" >> beam.FlatMap(_unusable).with_output_types(ImageFile)
    return (usable, bad) | "AllFiles" >> beam.Flatten()


def _usable(images: Iterable[ImageRef]) -> Iterator[ImageFile]:
    for image in images:
        yield ImageFile(image.key, image.uri, image.size, image.version, image.aliases)


def _unusable(letters: DeadLetterBatch) -> Iterator[ImageFile]:
    for letter in letters:
        yield ImageFile(letter.key, letter.uri, 0, reason=letter.reason, message=letter.message)
