"""Reads label files and containers, and joins labels with images into samples."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import apache_beam as beam

from beam_pipeline.core.dataset.splits import SplitAssigner
from beam_pipeline.core.dataset.tally import Tally
from beam_pipeline.core.dead_letters import DeadLetter
from beam_pipeline.core.errors import ContainerError, ListingError
from beam_pipeline.core.failures import Refusal
from beam_pipeline.core.labels.exclusion import SampleFilter
from beam_pipeline.core.labels.join import Joined, RowMerger, UnnamedImages
from beam_pipeline.core.labels.meeting import NameDivision
from beam_pipeline.core.labels.name_pattern import NamePattern
from beam_pipeline.core.labels.schema import (
    CLASS_FOLDER_COLUMNS,
    Column,
    class_column,
    file_columns,
    is_list_of_classes,
)
from beam_pipeline.core.labels.unlabelled import KeepUnlabelled
from beam_pipeline.core.listing.cuts import Cut
from beam_pipeline.core.listing.filters import ImageRoot
from beam_pipeline.core.listing.label_files import LabelFiles
from beam_pipeline.core.references import SampleRef
from beam_pipeline.layouts.layout import (
    ContainerLabels,
    ContainerReader,
    FileLabels,
    ListedLabels,
    ListedReader,
    PartReader,
)
from beam_pipeline.transforms.batches import (
    BATCH_SIZE,
    DeadLetterBatch,
    ImageBatch,
    LabelBatch,
    SampleBatch,
)
from beam_pipeline.transforms.in_workers import (
    Divide,
    InWorkers,
    Step,
    Work,
)
from beam_pipeline.transforms.listing import CutFiles, ListImages, list_root
from beam_pipeline.work.label_task import Labelling, join_parts, label_images
from beam_pipeline.work.outcome import DEAD_LETTERS, TALLY, Outcome, step
from beam_pipeline.work.reading import FilePart, RowsTask
from beam_pipeline.work.spill import unspill_all

_FILES_AT_ONCE = 256  # small label files that one element of work names
_UNKNOWN_BYTES = 1024  # of a small label file


def _list_label_files(folder: ImageRoot) -> Iterator[Step]:
    """Lists a folder of label files."""
    tally = Tally()
    try:
        for listed in list_root(folder, _FILES_AT_ONCE):
            parts = [FilePart(file.uri) for file in listed.images]
            dead_letters = DeadLetterBatch(listed.dead_letters)  # names that are not UTF-8, pipes
            tally.label_rows += len(dead_letters)
            tally.orphan_rows += len(dead_letters)
            tally.add_dead_letters(dead_letters)
            yield Outcome([parts] if parts else [], dead_letters=dead_letters)
    except ListingError as error:
        tally.refusals.append(Refusal.from_error(error))
    yield Outcome(tally=tally)


@dataclass(frozen=True)
class _Reading:
    """Reads small files, or parts of files; large ones that cannot be cut here, bit by bit."""

    labels: FileLabels

    def __call__(self, parts: Sequence[FilePart]) -> Iterator[Step]:
        task = RowsTask(parts, self.labels.reader, self.labels.unnamed)
        if len(parts) > 1 or parts[0].read_at_once:
            yield step(sum(part.size or _UNKNOWN_BYTES for part in parts), task.run)
            return
        tally, dead_letters = Tally(), DeadLetterBatch()
        for rows in task.read(tally, dead_letters):
            yield Outcome([rows])
        yield task.outcome((), tally, dead_letters)


class _Rows(beam.DoFn):
    """Turns listed files into the rows that they stand for."""

    def __init__(self, reader: ListedReader) -> None:
        self._reader = reader

    def process(self, found: ImageBatch) -> Iterator[LabelBatch]:
        yield LabelBatch(map(self._reader.row, found))


def _alone(part: FilePart) -> list[FilePart]:
    return [part]


def _of_labels(tally: Tally) -> Tally:
    """The counts of a listing of label files: each is a row, and files that are none do not count."""
    rows = tally.listed
    return replace(
        tally,
        listed=0,
        ignored=Counter(),
        label_files=LabelFiles(),
        label_rows=rows,
        orphan_rows=tally.dead.total(),
    )


@dataclass(kw_only=True)
class ListLabels(beam.PTransform):
    """Lists files that are labels themselves, a row each; none is opened.

    Attributes:
      labels: where the files lie, and what tells their images.
      raises: as `ListImages` has it.

    Returns (tagged): as `ReadLabels`.
    """

    labels: ListedLabels
    raises: bool = True

    def expand(self, pipeline: beam.Pipeline) -> dict[str, beam.PCollection]:
        listed = pipeline | "ListFiles" >> ListImages(roots=self.labels.folders, raises=self.raises)
        rows = beam.ParDo(_Rows(self.labels.reader)).with_output_types(LabelBatch)
        return {
            "rows": listed["images"] | "Rows" >> rows,
            DEAD_LETTERS: listed[DEAD_LETTERS],
            TALLY: listed[TALLY] | "OfLabels" >> beam.Map(_of_labels).with_output_types(Tally),
        }


@dataclass(kw_only=True)
class ReadLabels(beam.PTransform):
    """Reads every row of the label files.

    Attributes:
      labels: the files, and what reads them.
      spread: files are large, so that their parts should go to several workers.
      raises: raise what cannot be read; False where `PlanShards` collects it from the tallies.

    Returns (tagged): main, `LabelBatch`es; "dead_letters", broken rows; "tally", `Tally`s.
    """

    labels: FileLabels
    spread: bool = False
    raises: bool = True

    def expand(self, pipeline: beam.Pipeline) -> dict[str, beam.PCollection]:
        if not self.labels.folders:  # a few tables are not worth a listing's stages
            uris = pipeline | "Files" >> beam.Create(self.labels.files)
            parts = uris | "CutFiles" >> CutFiles(cut_by=self._cut_of, spread=self.spread)
            read = parts | "Alone" >> beam.Map(_alone) | "ReadFiles" >> self._read_files()
            return {tag: read[tag] for tag in ("rows", DEAD_LETTERS, TALLY)}
        listed = (
            pipeline
            | "Folders" >> beam.Create(self.labels.folders, reshuffle=False)
            | "ListLabelFiles"
            >> beam.ParDo(InWorkers(_list_label_files, raises=self.raises))
            .with_output_types(list[FilePart])
            .with_outputs(DEAD_LETTERS, TALLY, main="files")
        )
        read = listed["files"] | "Spread" >> beam.Reshuffle() | "ReadFiles" >> self._read_files()
        return {
            "rows": read["rows"],
            DEAD_LETTERS: (listed[DEAD_LETTERS], read[DEAD_LETTERS])
            | "AllDeadLetters" >> beam.Flatten(),
            TALLY: (listed[TALLY], read[TALLY]) | "AllTallies" >> beam.Flatten(),
        }

    def _cut_of(self, uri: str) -> Cut | None:
        reader = self.labels.reader
        return reader.cut_of(uri) if isinstance(reader, PartReader) else None

    def _read_files(self) -> beam.PTransform:
        return (
            beam.ParDo(InWorkers(_Reading(self.labels), raises=self.raises))
            .with_output_types(LabelBatch)
            .with_outputs(DEAD_LETTERS, TALLY, main="rows")
        )


_BUCKETS = 1024  # of images below several roots


@dataclass(frozen=True)
class _LabellingByPath:
    """Labels images by their folders or names; see `label_images`.

    Where keys may repeat, images come in buckets.
    """

    names: NamePattern | None
    labelling: Labelling
    may_repeat: bool

    def __call__(self, images: ImageBatch | tuple[int, Iterable[bytes]]) -> Iterator[Step]:
        packed = [images.packed()] if isinstance(images, ImageBatch) else unspill_all(images[1])
        size = sum(map(len, packed))
        yield step(size, label_images, packed, self.names, self.labelling, self.may_repeat)


@dataclass(frozen=True)
class _Joining:
    """Joins the images and rows of a bucket."""

    merger: RowMerger
    labelling: Labelling

    def __call__(self, bucket: tuple[int, Mapping[str, Iterable[bytes]]]) -> Iterator[Step]:
        images, rows = unspill_all(bucket[1]["images"]), unspill_all(bucket[1]["rows"])
        size = sum(map(len, (*images, *rows)))
        yield step(size, join_parts, images, rows, self.merger, self.labelling)


def _pack_by_bucket(buckets: int) -> beam.PTransform:
    """(bucket, packed references); an image goes by its key, a row by the name it uses.

    They are packed here since `CoGroupByKey` tags its values and then forgets their coder.
    """
    division = partial(NameDivision, buckets)
    return beam.ParDo(Divide(division)).with_output_types(tuple[int, bytes])


@dataclass(kw_only=True)
class LabelByFolder(beam.PTransform):
    """Takes each image's class from its folder, or its labels from its name.

    Attributes:
      splits: gives each sample its split.
      may_repeat: whether two images may have the same key.
      keep: makes samples of images in no class folder; None makes them dead letters.
      names: how names say labels; None if folders say the class.
      sample_filter: leaves out samples; None keeps all.
      buckets: in how many parts keys that may repeat are compared.

    Returns (tagged): main, `SampleBatch`es; "dead_letters"; "tally".
    """

    splits: SplitAssigner
    may_repeat: bool
    keep: KeepUnlabelled | None = None
    names: NamePattern | None = None
    sample_filter: SampleFilter | None = None
    buckets: int = _BUCKETS

    def expand(self, images: beam.PCollection[ImageBatch]) -> beam.pvalue.DoOutputsTuple:
        if self.may_repeat:
            images = (
                images
                | "ByFileName" >> _pack_by_bucket(max(_BUCKETS, self.buckets))
                | "GroupByFileName" >> beam.GroupByKey()
            )
        columns = self.names.columns if self.names else CLASS_FOLDER_COLUMNS
        labelling = Labelling(
            splits=self.splits,
            class_column=class_column(columns),
            sample_filter=self.sample_filter,
            keep=self.keep,
        )
        return images | "Label" >> _with_outputs(
            _LabellingByPath(self.names, labelling, self.may_repeat)
        )


@dataclass(kw_only=True)
class JoinLabels(beam.PTransform):
    """Joins {"images": ImageBatches, "rows": LabelBatches} into samples.

    Attributes:
      splits: gives each sample its split.
      columns: of the rows' values.
      merge_rows: whether rows of one image add up; else they must agree.
      complete: whether rows of one image are files that complete each other.
      class_by_folder: whether the first column is the class, and is each image's folder.
      unnamed: what images without a row stand for; None to leave them out.
      buckets: in how many parts they are joined.
      keep: makes samples of images without a row; None makes them dead letters.
      sample_filter: leaves out samples; None keeps all.

    Returns (tagged): main, `SampleBatch`es; "dead_letters"; "tally".
    """

    splits: SplitAssigner
    columns: tuple[Column, ...]
    merge_rows: bool
    buckets: int
    keep: KeepUnlabelled | None = None
    sample_filter: SampleFilter | None = None
    unnamed: UnnamedImages | None = None
    complete: bool = False
    class_by_folder: bool = False

    def expand(self, inputs: Mapping[str, beam.PCollection]) -> beam.pvalue.DoOutputsTuple:
        pack = _pack_by_bucket(self.buckets)
        by_file_name = {
            "images": inputs["images"] | "ImagesByFileName" >> pack,
            "rows": inputs["rows"] | "RowsByFileName" >> pack,
        }
        repeated = tuple(self.merge_rows and column.repeated for column in self.columns)
        labelling = Labelling(
            splits=self.splits,
            class_column=class_column(self.columns),
            sample_filter=self.sample_filter,
            keep=self.keep,
            files=file_columns(self.columns),
        )
        unique = tuple(self.merge_rows and is_list_of_classes(column) for column in self.columns)
        merger = RowMerger(repeated, self.unnamed, self.complete, self.class_by_folder, unique)
        return (
            by_file_name
            | "GroupByFileName" >> beam.CoGroupByKey()
            | "JoinBucket" >> _with_outputs(_Joining(merger, labelling))
        )


def _with_outputs(work: Work) -> beam.PTransform:
    return (
        beam.ParDo(InWorkers(work))
        .with_output_types(SampleBatch)
        .with_outputs(DEAD_LETTERS, TALLY, main="samples")
    )


@dataclass(frozen=True)
class _ReadingContainer:
    reader: ContainerReader
    unpack_to: str
    labelling: Labelling

    def __call__(self, uri: str) -> Iterator[Outcome]:
        refused: list[Refusal] = []
        items = self._items(uri, refused)
        while batch := list(itertools.islice(items, BATCH_SIZE)):
            joined = Joined()
            for item in batch:
                if isinstance(item, DeadLetter):
                    joined.dead_letters.append(item)
                else:
                    joined.samples.append(item)
            outcome = self.labelling.of(joined)
            assert outcome.tally
            outcome.tally.listed = len(batch)
            yield outcome
        if refused:
            yield Outcome(tally=Tally(refusals=refused))

    def _items(self, uri: str, refused: list[Refusal]) -> Iterator[SampleRef | DeadLetter]:
        try:
            yield from self.reader.read(uri, self.unpack_to)
        except ContainerError as error:
            refused.append(Refusal.from_error(error))


@dataclass(kw_only=True)
class ReadContainers(beam.PTransform):
    """Refers to every sample of the containers.

    Attributes:
      labels: the containers, and what reads them.
      unpack_to: a folder that every worker sees, for what has to be unpacked; empty if no image will
        be read.
      splits: gives each sample its split.
      class_column: index of the class among the labels, or None.
      sample_filter: leaves out samples; None keeps all.
      raises: raise what cannot be read; False where `PlanShards` collects it from the tallies.

    Returns (tagged): main, `SampleBatch`es; "dead_letters"; "tally".
    """

    labels: ContainerLabels
    unpack_to: str
    splits: SplitAssigner
    class_column: int | None
    sample_filter: SampleFilter | None = None
    raises: bool = True

    def expand(self, pipeline: beam.Pipeline) -> beam.pvalue.DoOutputsTuple:
        labelling = Labelling(
            splits=self.splits,
            class_column=self.class_column,
            sample_filter=self.sample_filter,
            keep=None,
        )
        reading = _ReadingContainer(self.labels.reader, self.unpack_to, labelling)
        return (
            pipeline
            | "Containers" >> beam.Create(self.labels.files)
            | "ReadContainer"
            >> beam.ParDo(InWorkers(reading, raises=self.raises))
            .with_output_types(SampleBatch)
            .with_outputs(DEAD_LETTERS, TALLY, main="samples")
        )
