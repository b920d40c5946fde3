"""Sums what shards and stages report, and writes dead letters in parts where they are too many for one worker to sort.

    dead letters -+-> too few for parts: as they are -> FinishDataset writes dead_letters.jsonl
                  `-> many: by a hash -> group -> sort each part -> dead_letters-00000-of-00010.jsonl

The names of the parts are noted before they are written, so that a later run may replace the files.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import apache_beam as beam
from apache_beam.pvalue import AsSingleton

from beam_pipeline.core.dataset.manifest import line_crc
from beam_pipeline.core.dataset.names import part_of, parts_for
from beam_pipeline.core.dataset.plan import Plan
from beam_pipeline.core.dataset.tally import Totals
from beam_pipeline.core.dead_letters import DeadLetter
from beam_pipeline.core.errors import OutputError
from beam_pipeline.core.failures import FailurePolicy, Refusal
from beam_pipeline.core.packing import pack, unpack
from beam_pipeline.core.records.sharding import ImageFigures, ShardInfo
from beam_pipeline.storage import files
from beam_pipeline.transforms.batches import DeadLetterBatch
from beam_pipeline.transforms.in_workers import Divide, InWorkers
from beam_pipeline.work.dead_letter_files import PartDivision
from beam_pipeline.work.outcome import Outcome
from beam_pipeline.work.spill import unspill_all


class AddTotals(beam.CombineFn):
    """Adds the totals of all parts."""

    def create_accumulator(self) -> Totals:
        return Totals()

    def add_input(self, accumulator: Totals, totals: Totals) -> Totals:
        accumulator.add(totals)
        return accumulator

    def merge_accumulators(self, accumulators: Iterable[Totals]) -> Totals:
        total = Totals()
        for accumulator in accumulators:
            total.add(accumulator)
        return total

    def extract_output(self, accumulator: Totals) -> Totals:
        return accumulator


def _of_shard(shard: ShardInfo) -> Totals:
    return Totals.of_shards([shard])


def _of_dead_letters(batch: DeadLetterBatch) -> Totals:
    totals = Totals()
    totals.add_dead_letters(batch)
    return totals


def _of_images(figures: ImageFigures) -> Totals:
    totals = Totals()
    totals.add_images(figures)
    return totals


class SumTotals(beam.PTransform):
    """Sums {"shards": ShardInfos, "dead_letters": DeadLetterBatches, "images": ImageFigures}.

    "images" may be missing. Returns a PCollection of the one `Totals`, or of none if nothing was
    reported.
    """

    def expand(self, inputs: Mapping[str, beam.PCollection]) -> beam.PCollection[Totals]:
        of_each = {"shards": _of_shard, "dead_letters": _of_dead_letters, "images": _of_images}
        return (
            [
                found | f"Totals of {name}" >> beam.Map(of_each[name]).with_output_types(Totals)
                for name, found in inputs.items()
            ]
            | beam.Flatten()
            | "Add" >> beam.CombineGlobally(AddTotals()).without_defaults()
        )


FEW, IN_PARTS = "few", "in_parts"


def _division(totals: Totals, most: int) -> PartDivision | None:
    """The division into parts; None where one file lists all dead letters."""
    parts = parts_for(totals.dead.dead.total(), most)
    return PartDivision(parts) if parts else None


def _every_part(chosen: tuple[Plan, Sequence[str]]) -> Iterator[tuple[int, bytes]]:
    """An empty piece of every part, so that each is written even if nothing falls into it."""
    yield from ((part, pack(())) for part in range(len(chosen[1])))


class WrittenPart(NamedTuple):
    """A part that was written.

    Attributes:
      letters: the number of its dead letters.
      refusal: why it could not be written, or None.
      crc: the sum of `line_crc` over their lines.
    """

    letters: int
    refusal: Refusal | None = None
    crc: int = 0


def write_lines(uri: str, dead_letters: Iterable[DeadLetter]) -> int:
    """Writes a file with a line for each dead letter; returns the sum of `line_crc`. Raises OSError."""
    crc = 0
    with files.open_output(uri) as sink:
        for letter in dead_letters:
            line = letter.to_json().encode()
            crc += line_crc(line)
            sink.write(line + b"\n")
    return crc


def write_parts(
    folder: str, names: Sequence[str], dead_letters: Iterable[DeadLetter]
) -> Iterator[WrittenPart]:
    """Writes all parts in one process.

    Args:
      folder: the output folder.
      names: of all parts; if there is none, nothing is written.
      dead_letters: sorted.

    Raises:
      OSError: a file cannot be written.
    """
    parts: list[list[DeadLetter]] = [[] for _ in names]
    for one in dead_letters if names else ():
        parts[part_of(one, len(names))].append(one)
    for name, part in zip(names, parts, strict=True):
        yield WrittenPart(len(part), crc=write_lines(files.join(folder, name), part))


@dataclass(frozen=True)
class _WritingPart:
    """Sorts a part and writes it."""

    folder: str
    failures: FailurePolicy

    def __call__(
        self, part: tuple[int, Iterable[bytes]], chosen: tuple[Plan, Sequence[str]]
    ) -> Iterator[Outcome]:
        names = chosen[1]
        if not names:
            return
        uri = files.join(self.folder, names[part[0]])
        packed = unspill_all(part[1])
        letters = sorted(itertools.chain.from_iterable(unpack(DeadLetter, p) for p in packed))
        crc, refusal = 0, None
        try:
            crc = write_lines(uri, letters)
        except OSError as error:
            if self.failures.retries:
                raise
            refusal = Refusal.from_error(OutputError(f"{uri} cannot be written: {error}"))
        yield Outcome([WrittenPart(len(letters), refusal, crc)])


@dataclass(kw_only=True)
class DivideDeadLetters(beam.PTransform):
    """Divides dead letters by parts if they are many.

    Attributes:
      totals: PCollection of the one `Totals`.
      most: the most that one file lists.

    Returns (tagged): main, (part, packed dead letters); "few", the batches where there are no parts.
    """

    totals: AsSingleton
    most: int

    def expand(self, batches: beam.PCollection[DeadLetterBatch]) -> beam.pvalue.DoOutputsTuple:
        return batches | "Divide" >> beam.ParDo(
            Divide(partial(_division, most=self.most), undivided=FEW), self.totals
        ).with_output_types(tuple[int, bytes]).with_outputs(FEW, main=IN_PARTS)


@dataclass(kw_only=True)
class WriteDeadLetters(beam.PTransform):
    """Writes the parts of `DivideDeadLetters`.

    Attributes:
      chosen: PCollection of the plan and the names of the parts; none where nothing may be written.
      folder: the output folder.
      failures: says whether the engine tries again.

    Returns a PCollection of a `WrittenPart` each.
    """

    chosen: beam.PCollection[tuple[Plan, list[str]]]
    folder: str
    failures: FailurePolicy

    def expand(self, parts: beam.PCollection[tuple[int, bytes]]) -> beam.PCollection[WrittenPart]:
        every = self.chosen | "EveryPart" >> beam.FlatMap(_every_part).with_output_types(
            tuple[int, bytes]
        )
        return (
            (parts, every)
            | beam.Flatten()
            | "GroupByPart" >> beam.GroupByKey()
            | "WritePart"
            >> beam.ParDo(
                InWorkers(_WritingPart(self.folder, self.failures)), AsSingleton(self.chosen)
            ).with_output_types(WrittenPart)
        )
