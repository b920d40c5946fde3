"""Reads label files and containers, and joins labels with images into samples."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import apache_beam as beam

from beam_pipeline.core import errors, packing, references
from beam_pipeline.core.dataset.tally import Tally
from beam_pipeline.core.dead_letters import DeadLetter
from beam_pipeline.core.labels import join, matching, schema
from beam_pipeline.core.listing.filters import ImageRoot, LabelFiles
from beam_pipeline.layouts.layout import ContainerLabels, FileLabels, ListedLabels, PartReader
from beam_pipeline.layouts.named_files import named_files
from beam_pipeline.storage.listing import list_root
from beam_pipeline.transforms.in_workers import PARTS, Divide, Group, Step, Work, stage
from beam_pipeline.transforms.listing import IMAGES, ListImages, cut_files
from beam_pipeline.transforms.output import after
from beam_pipeline.work import file_parts
from beam_pipeline.work.job import unspill_all
from beam_pipeline.work.labels import JoinRows, LabelImages, Labelling, RowsTask, in_portions
from beam_pipeline.work.outcome import DEAD_LETTERS, TALLY, Outcome, step

ROWS = "rows"
_FILES = "files"

_FILES_AT_ONCE = 256  # small label files that one element of work names
_UNKNOWN_BYTES = 1024  # of a small label file
_BUCKETS = 1024  # of images below several roots

_Outputs = dict[str, beam.PCollection]


@dataclass(kw_only=True)
class ReadLabelFiles(beam.PTransform):
    """Reads every row of the label files; files that are labels themselves are one row each, and not opened.

    Attributes:
      labels: the files, and what reads them.
      spread: files are large, so that their parts should go to several workers.
      raises: raise what cannot be read; False where `plan_shards` collects it from the tallies.

    Returns (tagged): "rows", `LabelBatch`es; "dead_letters", broken rows; "tally", `Tally`s.
    """

    labels: FileLabels | ListedLabels
    spread: bool = False
    raises: bool = True

    def expand(self, pipeline: beam.Pipeline) -> _Outputs:
        labels = self.labels
        if isinstance(labels, ListedLabels):
            return self._listed(pipeline, labels)
        work, tags = partial(_read_rows, labels=labels), (DEAD_LETTERS, TALLY)
        read = stage(work, packing.LabelBatch, *tags, main=ROWS, raises=self.raises)
        if not labels.folders:  # a few tables are not worth a listing's stages
            cut_by = labels.reader.cut_of if isinstance(labels.reader, PartReader) else _not_cut
            uris = pipeline | "Files" >> beam.Create(labels.files)
            parts = uris | "CutFiles" >> cut_files(cut_by, spread=self.spread)
            in_lists = beam.Map(lambda part: [part]).with_output_types(list[file_parts.FilePart])
            rows = parts | "EachPart" >> in_lists | "ReadFiles" >> read
            return {tag: rows[tag] for tag in (ROWS, *tags)}
        folders = pipeline | "Folders" >> beam.Create(labels.folders, reshuffle=False)
        listing = stage(_list_label_files, list[file_parts.FilePart], *tags, raises=self.raises)
        files = folders | "ListLabelFiles" >> listing
        rows = files["main"] | "Spread" >> beam.Reshuffle() | "ReadFiles" >> read
        both = {tag: (files[tag], rows[tag]) | f"All{tag}" >> beam.Flatten() for tag in tags}
        return {ROWS: rows[ROWS], **both}

    def _listed(self, pipeline: beam.Pipeline, labels: ListedLabels) -> _Outputs:
        listed = pipeline | "ListFiles" >> ListImages(roots=labels.folders, raises=self.raises)
        rows = beam.Map(_rows_of, labels).with_output_types(packing.LabelBatch)
        return {
            ROWS: listed[IMAGES] | "Rows" >> rows,
            DEAD_LETTERS: listed[DEAD_LETTERS],
            TALLY: listed[TALLY] | "OfLabels" >> beam.Map(_of_labels).with_output_types(Tally),
        }


def _not_cut(_: str) -> None:
    """A file that is read as a whole."""


def _list_label_files(folder: ImageRoot) -> Iterator[Step]:
    """Lists a folder of label files."""
    tally = Tally()
    try:
        for listed in list_root(folder, _FILES_AT_ONCE):
            parts = [file_parts.FilePart(file.uri) for file in listed.images]
            # Of names that are not UTF-8, and of pipes.
            dead_letters = packing.DeadLetterBatch(listed.dead_letters)
            tally.label_rows += len(dead_letters)
            tally.orphan_rows += len(dead_letters)
            tally.add_dead_letters(dead_letters)
            yield Outcome([parts] if parts else [], dead_letters=dead_letters)
    except errors.ListingError as error:
        tally.refusals.append(errors.Refusal.from_error(error))
    yield Outcome(tally=tally)


def _read_rows(parts: Sequence[file_parts.FilePart], labels: FileLabels) -> Iterator[Step]:
    """Reads small files, or parts of files; large ones that cannot be cut here, bit by bit."""
    task = RowsTask(parts, labels.reader, labels.unnamed)
    if len(parts) > 1 or parts[0].read_at_once:
        yield step(sum(part.size or _UNKNOWN_BYTES for part in parts), task.run)
        return
    yield from task.read()


def _rows_of(files: packing.ImageBatch, labels: ListedLabels) -> packing.LabelBatch:
    """The rows that listed files represent."""
    return packing.LabelBatch(map(labels.reader.row, files))


def _of_labels(tally: Tally) -> Tally:
    """The counts of a listing of label files: each is a row, and files that are none do not count."""
    return replace(
        tally,
        listed=0,
        ignored=Counter(),
        label_files=LabelFiles(),
        label_rows=tally.listed,
        orphan_rows=tally.dead.total(),
    )


def label_by_folder(work: LabelImages) -> beam.PTransform:
    """Takes each image's class from its folder, or its labels from its name.

    Returns (tagged): main, `SampleBatch`es; "dead_letters"; "tally".
    """
    label = "Label" >> _to_samples(partial(_label_images, work=work))
    if work.may_repeat or work.inventoried:
        label = "GroupByFileName" >> beam.GroupByKey() | label
    if work.may_repeat and not work.inventoried:
        label = "ByFileName" >> _by_bucket(_BUCKETS) | label
    return label


def _label_images(images: packing.ImageBatch | Group, work: LabelImages) -> Iterator[Step]:
    """Labels a batch; where keys may repeat, images come in buckets."""
    packed = [images.packed()] if isinstance(images, packing.ImageBatch) else unspill_all(images[1])
    yield step(sum(map(packing.unpacked_size, packed)), in_portions, work, packed)


@dataclass(kw_only=True)
class JoinLabelBatches(beam.PTransform):
    """Joins {"images": ImageBatches, "rows": LabelBatches} into samples.

    Attributes:
      work: joins those of a part.
      buckets: in how many parts they are joined; images from `read_inventory` come in these.

    Returns (tagged): main, `SampleBatch`es; "dead_letters"; "tally".
    """

    work: JoinRows
    buckets: int

    def expand(self, inputs: Mapping[str, beam.PCollection]) -> beam.pvalue.DoOutputsTuple:
        level, labelling = self.work.merger.level, self.work.labelling
        pack = _by_bucket(self.buckets, level)
        images = inputs[IMAGES]
        by_file_name = {
            IMAGES: images if self.work.inventoried else images | "ImagesByFileName" >> pack,
            ROWS: inputs[ROWS] | "RowsByFileName" >> _by_bucket(self.buckets, level and 0),
        }
        if not level and (columns := schema.cell_files(labelling.columns)):
            named = beam.Map(_files_named, columns).with_output_types(packing.LabelBatch)
            files = inputs[ROWS] | "FilesInCells" >> named
            by_file_name[_FILES] = files | "FilesByName" >> pack
        return (
            by_file_name
            | "GroupByFileName" >> beam.CoGroupByKey()
            | "JoinBucket" >> _to_samples(partial(_join_bucket, work=self.work))
        )


def _by_bucket(buckets: int, level: int | None = None) -> beam.PTransform:
    """(bucket, packed references); an image goes by its key, or a folder of it, a row by the name it uses.

    They are packed here since `CoGroupByKey` tags its values and then forgets their coder.
    """
    return stage(Divide(partial(matching.NameDivision, buckets, level)), PARTS)


def _files_named(rows: packing.LabelBatch, columns: Sequence[int]) -> packing.LabelBatch:
    """A row without values for each path under which a file of a cell may be listed as an image."""
    names = named_files(((row.values, row.file) for row in rows), columns)
    return packing.LabelBatch(references.LabelRow(name, (), "", "", 0) for name in names)


def _join_bucket(
    bucket: tuple[int, Mapping[str, Iterable[bytes]]], work: JoinRows
) -> Iterator[Step]:
    """Joins the images and rows of a bucket."""
    kinds = [unspill_all(bucket[1].get(kind, ())) for kind in (IMAGES, ROWS, _FILES)]
    size = sum(packing.unpacked_size(part) for parts in kinds[:2] for part in parts)
    yield step(size, partial(in_portions, level=work.merger.level), work, *kinds)


def read_containers(
    labels: ContainerLabels,
    unpack_to: str,
    labelling: Labelling,
    prepared: beam.PCollection[str] | None = None,
) -> beam.PTransform:
    """Refers to every sample of the containers.

    Args:
      labels: the containers, and what reads them.
      unpack_to: a folder that every worker sees, for what has to be unpacked; empty if no image will
        be read.
      labelling: what happens to the samples.
      prepared: as `plan_shards` has it.

    Returns (tagged): main, `SampleBatch`es; "dead_letters"; "tally".
    """
    reading = partial(_read_container, read=labels.reader.read, to=unpack_to, by=labelling)
    files = after(prepared, "Containers" >> beam.Create(labels.files), str)
    return files | "ReadContainer" >> _to_samples(reading)


def _read_container(
    uri: str, read: Callable[[str, str], Iterable[Any]], to: str, by: Labelling
) -> Iterator[Outcome]:
    refusals: list[errors.Refusal] = []

    def items() -> Iterator[references.SampleRef | DeadLetter]:
        try:
            yield from read(uri, to)
        except errors.ContainerError as error:
            refusals.append(errors.Refusal.from_error(error))

    outcomes = items()
    while some := [*itertools.islice(outcomes, packing.BATCH_SIZE)]:
        letters = [each for each in some if isinstance(each, DeadLetter)]
        samples = [each for each in some if not isinstance(each, DeadLetter)]
        outcome = by.of(join.Joined(samples, letters))
        assert outcome.tally
        outcome.tally.listed = len(some)
        yield outcome
    if refusals:
        yield Outcome(tally=Tally(refusals=refusals))


def _to_samples(work: Work) -> beam.PTransform:
    return stage(work, packing.SampleBatch, DEAD_LETTERS, TALLY, main="samples")
