"""Finishes the data set: checks the accounting, writes dead letters, labels and, last, the manifest.

On several machines, dead letters that are too many for one worker to sort are written in parts:

    dead letters -+-> too few for parts: as they are -> dead_letters.jsonl
                  `-> many: by a hash -> group -> sort each part -> dead_letters-00000-of-00010.jsonl

The names of the parts are noted before they are written, so that a later run may replace the files.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import AsIter, AsSingleton

from beam_pipeline.core.dataset.changes import ShardFate
from beam_pipeline.core.dataset.duplicates import Duplicates
from beam_pipeline.core.dataset.names import MANIFEST_NAME, parts_for
from beam_pipeline.core.dataset.plan import Plan
from beam_pipeline.core.dataset.tally import Totals, without_totals
from beam_pipeline.core.dead_letters import DeadLetter
from beam_pipeline.core.errors import OutputError, Refusal
from beam_pipeline.core.packing import DeadLetterBatch, pack, unpack
from beam_pipeline.core.records.sharding import ImageFigures, ShardInfo
from beam_pipeline.storage import files
from beam_pipeline.transforms.in_workers import Divide, InWorkers, Sum
from beam_pipeline.transforms.output import CommittedDataset
from beam_pipeline.work.dead_letter_files import PartDivision, WrittenPart, write_lines
from beam_pipeline.work.finishing import DatasetFinisher, Reports
from beam_pipeline.work.outcome import DEAD_LETTERS, Outcome
from beam_pipeline.work.spill import unspill_all

SHARDS, IMAGES = "shards", "images"
_FEW, _IN_PARTS = "few", "in_parts"


def sum_totals(reports: Mapping[str, beam.PCollection]) -> beam.PCollection[Totals]:
    """Sums {"shards": ShardInfos, "dead_letters": DeadLetterBatches, "images": ImageFigures}.

    "images" may be missing. Returns a PCollection of the one `Totals`, or of none if nothing was
    reported.
    """
    of_each = {
        SHARDS: Totals.add_shard,
        DEAD_LETTERS: Totals.add_dead_letters,
        IMAGES: Totals.add_images,
    }
    totals = (
        report | f"Totals of {name}" >> beam.Map(_totals, of_each[name]).with_output_types(Totals)
        for name, report in reports.items()
    )
    total = beam.CombineGlobally(Sum(Totals, Totals.add)).without_defaults()
    return tuple(totals) | "AllTotals" >> beam.Flatten() | "SumTotals" >> total


def _totals(report: Any, add: Callable[[Totals, Any], None]) -> Totals:
    totals = Totals()
    add(totals, report)
    return totals


def _division(totals: Totals, most: int) -> PartDivision | None:
    """The division into parts; None where one file lists all dead letters."""
    parts = parts_for(totals.dead.dead.total(), most)
    return PartDivision(parts) if parts else None


def _with_parts(plan: Plan, finisher: DatasetFinisher, **reports: Any) -> tuple[Plan, list[str]]:
    return plan, finisher.parts_to_write(plan, Reports(**reports))


def _every_part(chosen: tuple[Plan, Sequence[str]]) -> Iterator[tuple[int, bytes]]:
    """An empty piece of every part, so that each is written even if nothing falls into it."""
    yield from ((part, pack(())) for part in range(len(chosen[1])))


def _write_part(
    part: tuple[int, Iterable[bytes]], chosen: tuple[Plan, Sequence[str]], finisher: DatasetFinisher
) -> Iterator[Outcome]:
    """Sorts a part of the dead letters and writes it; none where nothing may be written."""
    names = chosen[1]
    if not names:
        return
    uri = files.join(finisher.output_folder, names[part[0]])
    packed = unspill_all(part[1])
    letters = sorted(itertools.chain.from_iterable(unpack(DeadLetter, p) for p in packed))
    crc, refusal = 0, None
    try:
        crc = write_lines(uri, letters)
    except OSError as error:
        if finisher.failures.retries:
            raise
        refusal = Refusal.from_error(OutputError(f"{uri} cannot be written: {error}"), error)
    yield Outcome([WrittenPart(len(letters), refusal, crc)])


def _finish(plan: Plan, finisher: DatasetFinisher, **given: Any) -> Iterator[CommittedDataset]:
    reports = Reports(**given)
    if not finisher.finish(plan, reports):
        return
    shards, bad = list(reports.shards), reports.summed().dead.dead.total()
    yield CommittedDataset(
        files.join(finisher.output_folder, MANIFEST_NAME),
        examples=sum(shard.examples for shard in shards),
        bytes=sum(shard.bytes for shard in shards),
        shards=len(shards),
        bad=bad,
    )


@dataclass(kw_only=True)
class FinishDataset(beam.PTransform):
    """Ends a run: checks the accounting, writes dead letters, labels and, last, the manifest.

    Attributes:
      shards: PCollection of `ShardInfo`.
      dead_letters: PCollection of `DeadLetterBatch`.
      refusals: PCollection of `Refusal`, the reasons why shards were not written.
      finisher: writes the files.
      images: PCollection of `ImageFigures`; None where each `ShardInfo` has its own.
      changes: PCollection of `ShardFate`; None without an earlier data set.
      duplicates: PCollection of `Duplicates`; None where images were not compared.

    Returns: the one `CommittedDataset`; none if the data set is not complete.
    """

    shards: beam.PCollection[ShardInfo]
    dead_letters: beam.PCollection[DeadLetterBatch]
    refusals: beam.PCollection[Refusal]
    finisher: DatasetFinisher
    images: beam.PCollection[ImageFigures] | None = None
    changes: beam.PCollection[ShardFate] | None = None
    duplicates: beam.PCollection[Duplicates] | None = None

    def expand(self, plan: beam.PCollection[Plan]) -> beam.PCollection[CommittedDataset]:
        collections = {
            SHARDS: self.shards,
            DEAD_LETTERS: self.dead_letters,
            "refusals": self.refusals,
            IMAGES: self.images,
            "changes": self.changes,
            "duplicates": self.duplicates,
        }
        given = {name: reports for name, reports in collections.items() if reports is not None}
        sides = {name: AsIter(reports) for name, reports in given.items()}
        if self.finisher.failures.retries:  # on one machine, each further step costs 20 ms
            plan, in_parts = self._in_parts(plan, given)
            sides = {name: side for name, side in sides.items() if name != IMAGES} | in_parts
        finish = beam.FlatMap(_finish, self.finisher, **sides)
        return plan | "Finish" >> finish.with_output_types(CommittedDataset)

    def _in_parts(
        self, plan: beam.PCollection[Plan], given: Mapping[str, beam.PCollection]
    ) -> tuple[beam.PCollection[Plan], dict[str, Any]]:
        """The plan, and the reports; a worker needs memory for a few parts only."""
        summed = sum_totals({k: given[k] for k in (SHARDS, DEAD_LETTERS, IMAGES) if k in given})
        totals = AsSingleton(summed, default_value=Totals())
        shards = self.shards | "WithoutTotals" >> beam.Map(without_totals).with_output_types(
            ShardInfo
        )
        division = partial(_division, most=self.finisher.most_dead_letters)
        divided = self.dead_letters | "DivideDeadLetters" >> beam.ParDo(
            Divide(division, undivided=_FEW), totals
        ).with_output_types(tuple[int, bytes]).with_outputs(_FEW, main=_IN_PARTS)
        reports = {
            SHARDS: AsIter(shards),
            DEAD_LETTERS: AsIter(divided[_FEW]),
            "totals": totals,
        }
        # The plan continues with the names: FnApiRunner would wait for ever for a second reader of it.
        chosen = plan | "ChooseParts" >> beam.Map(
            _with_parts,
            self.finisher,
            **{**reports, DEAD_LETTERS: (), "refusals": AsIter(self.refusals)},
        ).with_output_types(tuple[Plan, list[str]])
        every = chosen | "EveryPart" >> beam.FlatMap(_every_part).with_output_types(
            tuple[int, bytes]
        )
        writing = InWorkers(partial(_write_part, finisher=self.finisher))
        written = (
            (divided[_IN_PARTS], every)
            | "AllParts" >> beam.Flatten()
            | "GroupByPart" >> beam.GroupByKey()
            | "WritePart" >> beam.ParDo(writing, AsSingleton(chosen)).with_output_types(WrittenPart)
        )
        return chosen | "Plan" >> beam.Keys(), {**reports, _IN_PARTS: AsIter(written)}
