"""Read labels: label files in, batches of typed rows out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import apache_beam as beam

from beam_pipeline.core.dataset.tally import Tally
from beam_pipeline.core.errors import ListingError
from beam_pipeline.core.failures import Refusal
from beam_pipeline.core.labels.meeting import ByFolder
from beam_pipeline.core.listing.cuts import Cut
from beam_pipeline.core.listing.filters import ImageRoot
from beam_pipeline.core.listing.label_files import LabelFiles
from beam_pipeline.layouts.layout import (
    FileLabels,
    ListedLabels,
    ListedReader,
    PartReader,
)
from beam_pipeline.transforms.batches import DeadLetterBatch, ImageBatch, LabelBatch
from beam_pipeline.transforms.cut_files import CutFiles
from beam_pipeline.transforms.in_workers import InWorkers, Step, task_or_outcome
from beam_pipeline.transforms.list_images import ListImages, list_root
from beam_pipeline.work.file_parts import FilePart
from beam_pipeline.work.outcome import BARE_NAMES, DEAD_LETTERS, TALLY, Outcome
from beam_pipeline.work.rows_task import RowsTask

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
    by_folder: ByFolder | None

    def __call__(self, parts: Sequence[FilePart]) -> Iterator[Step]:
        task = RowsTask(parts, self.labels.reader, self.labels.unnamed, self.by_folder)
        if len(parts) > 1 or parts[0].read_at_once:
            yield task_or_outcome(task, sum(part.size or _UNKNOWN_BYTES for part in parts))
            return
        tally, dead_letters = Tally(), DeadLetterBatch()
        for rows in task.read(tally, dead_letters):
            bare = [(BARE_NAMES, task.bare_names([rows]))] if self.by_folder else []
            yield Outcome([rows], tagged=bare)
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
      by_folder: brings rows and images together by folder; None for names alone.
      raises: raise what cannot be read; False where `PlanShards` collects it from the tallies.

    Returns (tagged): main, `LabelBatch`es; "dead_letters", broken rows; "tally", `Tally`s; with
      `by_folder`, "bare_names", the `BareNames` of the rows.
    """

    labels: FileLabels
    by_folder: ByFolder | None = None
    raises: bool = True

    def expand(self, pipeline: beam.Pipeline) -> dict[str, beam.PCollection]:
        if not self.labels.folders:  # a few tables are not worth a listing's stages
            uris = pipeline | "Files" >> beam.Create(self.labels.files)
            parts = uris | "CutFiles" >> CutFiles(
                cut_by=self._cut_of, spread=self.by_folder is not None
            )
            read = parts | "Alone" >> beam.Map(_alone) | "ReadFiles" >> self._read_files()
            return {tag: read[tag] for tag in ("rows", DEAD_LETTERS, TALLY, BARE_NAMES)}
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
            BARE_NAMES: read[BARE_NAMES],
        }

    def _cut_of(self, uri: str) -> Cut | None:
        reader = self.labels.reader
        return reader.cut_of(uri) if isinstance(reader, PartReader) else None

    def _read_files(self) -> beam.PTransform:
        return (
            beam.ParDo(InWorkers(_Reading(self.labels, self.by_folder), raises=self.raises))
            .with_output_types(LabelBatch)
            .with_outputs(DEAD_LETTERS, TALLY, BARE_NAMES, main="rows")
        )
