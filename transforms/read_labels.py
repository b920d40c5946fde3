"""Read labels: label files in, batches of typed rows out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import apache_beam as beam
from apache_beam.pvalue import TaggedOutput

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
from beam_pipeline.transforms.list_images import ListImages, list_root
from beam_pipeline.transforms.run_elsewhere import RunElsewhere
from beam_pipeline.work.file_parts import FilePart
from beam_pipeline.work.outcome import BARE_NAMES, DEAD_LETTERS, TALLY
from beam_pipeline.work.rows_task import RowsTask

_FILES_AT_ONCE = 256  # small label files that one element of work names
_UNKNOWN_BYTES = 1024  # of a small label file


class _ListLabelFiles(beam.DoFn):
    """Lists a folder of label files."""

    def process(self, folder: ImageRoot) -> Iterator[list[FilePart] | TaggedOutput]:
        tally = Tally()
        try:
            for listed in list_root(folder, _FILES_AT_ONCE):
                if listed.images:
                    yield [FilePart(found.uri) for found in listed.images]
                if listed.dead_letters:  # names that are not UTF-8, pipes and the like
                    dead_letters = DeadLetterBatch(listed.dead_letters)
                    tally.label_rows += len(dead_letters)
                    tally.orphan_rows += len(dead_letters)
                    tally.add_dead_letters(dead_letters)
                    yield TaggedOutput(DEAD_LETTERS, dead_letters)
        except ListingError as error:
            tally.refusals.append(Refusal.from_error(error))
        yield TaggedOutput(TALLY, tally)


class _ReadFiles(RunElsewhere):
    """Reads small files, or parts of files, elsewhere; large ones that cannot be cut here, bit by bit."""

    def __init__(self, labels: FileLabels, by_folder: ByFolder | None) -> None:
        self._labels = labels
        self._by_folder = by_folder

    def process(self, parts: Sequence[FilePart]) -> Iterator[LabelBatch | TaggedOutput]:
        labels = self._labels
        task = RowsTask(parts, labels.reader, labels.unnamed, self._by_folder)
        if len(parts) > 1 or parts[0].read_at_once:
            yield from self.run(task, sum(part.size or _UNKNOWN_BYTES for part in parts))
            return
        tally, dead_letters = Tally(), DeadLetterBatch()
        for rows in task.read(tally, dead_letters):
            yield rows
            if self._by_folder:
                yield TaggedOutput(BARE_NAMES, task.bare_names([rows]))
        yield from self.outputs(task.outcome((), tally, dead_letters))


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

    Returns (tagged): as `ReadLabels`.
    """

    labels: ListedLabels

    def expand(self, pipeline: beam.Pipeline) -> dict[str, beam.PCollection]:
        listed = pipeline | "ListFiles" >> ListImages(roots=self.labels.folders)
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

    Returns (tagged): main, `LabelBatch`es; "dead_letters", broken rows; "tally", `Tally`s; with
      `by_folder`, "bare_names", the `BareNames` of the rows.
    """

    labels: FileLabels
    by_folder: ByFolder | None = None

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
            >> beam.ParDo(_ListLabelFiles())
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
            beam.ParDo(_ReadFiles(self.labels, self.by_folder))
            .with_output_types(LabelBatch)
            .with_outputs(DEAD_LETTERS, TALLY, BARE_NAMES, main="rows")
        )
