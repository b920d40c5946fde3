"""Read labels: label files in, batches of typed rows out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import apache_beam as beam
from apache_beam.pvalue import TaggedOutput

from beam_pipeline.transforms.batches import (
    BATCH_SIZE,
    DEAD_LETTERS,
    TALLY,
    DeadLetterBatch,
    ImageBatch,
    LabelBatch,
)
from beam_pipeline.transforms.core.dataset.plan import Tally
from beam_pipeline.transforms.core.dead_letters import DeadLetter, Reason, Stage, row_dead_letter
from beam_pipeline.transforms.core.errors import LabelTableError, ListingError
from beam_pipeline.transforms.core.failures import Refusal
from beam_pipeline.transforms.core.listing.filters import ImageRoot
from beam_pipeline.transforms.core.listing.label_files import LabelFiles
from beam_pipeline.transforms.core.references import LabelRow
from beam_pipeline.transforms.layouts.layout import FileLabels, ListedLabels, ListedReader
from beam_pipeline.transforms.list_images import ListImages, list_root
from beam_pipeline.transforms.storage import files

_FILES_AT_ONCE = 256  # small label files that one element of work names


class _ListLabelFiles(beam.DoFn):
    """Lists a folder of label files."""

    def process(self, folder: ImageRoot) -> Iterator[list[str] | TaggedOutput]:
        tally = Tally()
        try:
            for listed in list_root(folder, _FILES_AT_ONCE):
                if listed.images:
                    yield [found.uri for found in listed.images]
                if listed.dead_letters:  # names that are not UTF-8, pipes and the like
                    dead_letters = DeadLetterBatch(listed.dead_letters)
                    tally.label_rows += len(dead_letters)
                    tally.orphan_rows += len(dead_letters)
                    tally.add_dead_letters(dead_letters)
                    yield TaggedOutput(DEAD_LETTERS, dead_letters)
        except ListingError as error:
            tally.refusals.append(Refusal.from_error(error))
        yield TaggedOutput(TALLY, tally)


class _ReadFiles(beam.DoFn):
    def __init__(self, labels: FileLabels) -> None:
        self._reader = labels.reader
        self._unnamed = labels.unnamed

    def process(self, uris: Sequence[str]) -> Iterator[LabelBatch | TaggedOutput]:
        tally = Tally()
        rows, dead_letters = LabelBatch(), DeadLetterBatch()
        for uri in uris:
            for row in self._read(uri, tally):
                tally.label_rows += 1
                if isinstance(row, DeadLetter):
                    dead_letters.append(row)
                else:
                    rows.append(row)
                if len(rows) >= BATCH_SIZE:
                    yield rows
                    rows = LabelBatch()
        if rows:
            yield rows
        tally.orphan_rows = len(dead_letters)
        tally.add_dead_letters(dead_letters)
        yield TaggedOutput(DEAD_LETTERS, dead_letters)
        yield TaggedOutput(TALLY, tally)

    def _read(self, uri: str, tally: Tally) -> Iterator[LabelRow | DeadLetter]:
        try:
            file = files.open_input(uri)
        except OSError as error:
            what = f"cannot be read: {error.strerror or error}"
            if self._unnamed:
                yield self._unnamed.unread(uri, what)
            else:
                yield row_dead_letter(
                    stage=Stage.LABELS,
                    key=uri,
                    reason=Reason.BAD_ROW,
                    message=what,
                    file=uri,
                    line=0,
                )
            return
        try:
            with file:
                yield from self._reader.read(file, uri)
        except LabelTableError as error:
            tally.refusals.append(Refusal.from_error(error))


class _Rows(beam.DoFn):
    """Turns listed files into the rows that they stand for."""

    def __init__(self, reader: ListedReader) -> None:
        self._reader = reader

    def process(self, found: ImageBatch) -> Iterator[LabelBatch]:
        yield LabelBatch(map(self._reader.row, found))


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

    Returns (tagged): main, `LabelBatch`es; "dead_letters", broken rows; "tally", `Tally`s.
    """

    labels: FileLabels

    def expand(self, pipeline: beam.Pipeline) -> dict[str, beam.PCollection]:
        if not self.labels.folders:  # a few tables are not worth a listing's stages
            named = pipeline | "Files" >> beam.Create([[uri] for uri in self.labels.files])
            read = named | "ReadFiles" >> self._read_files()
            return {tag: read[tag] for tag in ("rows", DEAD_LETTERS, TALLY)}
        listed = (
            pipeline
            | "Folders" >> beam.Create(self.labels.folders, reshuffle=False)
            | "ListLabelFiles"
            >> beam.ParDo(_ListLabelFiles())
            .with_output_types(list[str])
            .with_outputs(DEAD_LETTERS, TALLY, main="files")
        )
        read = listed["files"] | "Spread" >> beam.Reshuffle() | "ReadFiles" >> self._read_files()
        return {
            "rows": read["rows"],
            DEAD_LETTERS: (listed[DEAD_LETTERS], read[DEAD_LETTERS])
            | "AllDeadLetters" >> beam.Flatten(),
            TALLY: (listed[TALLY], read[TALLY]) | "AllTallies" >> beam.Flatten(),
        }

    def _read_files(self) -> beam.PTransform:
        return (
            beam.ParDo(_ReadFiles(self.labels))
            .with_output_types(LabelBatch)
            .with_outputs(DEAD_LETTERS, TALLY, main="rows")
        )
