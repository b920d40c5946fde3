"""Finishes the data set: checks the accounting, writes dead letters, labels and, last, the manifest."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import AsIter, AsSingleton

from beam_pipeline.core.dataset.changes import ShardFate
from beam_pipeline.core.dataset.duplicates import Duplicates
from beam_pipeline.core.dataset.plan import Plan
from beam_pipeline.core.dataset.tally import Totals, without_totals
from beam_pipeline.core.failures import Refusal
from beam_pipeline.core.records.sharding import ImageFigures, ShardInfo
from beam_pipeline.transforms.batches import DeadLetterBatch
from beam_pipeline.transforms.dataset_finisher import DatasetFinisher, Reports
from beam_pipeline.transforms.dead_letters import (
    FEW,
    IN_PARTS,
    DivideDeadLetters,
    SumTotals,
    WriteDeadLetters,
)
from beam_pipeline.work.outcome import DEAD_LETTERS


def _with_parts(
    plan: Plan,
    finisher: DatasetFinisher,
    shards: Iterable[ShardInfo],
    refusals: Iterable[Refusal],
    totals: Totals,
) -> tuple[Plan, list[str]]:
    return plan, finisher.parts_to_write(plan, shards, refusals, totals)


def _finish(plan: Plan, finisher: DatasetFinisher, **reports: Any) -> None:
    finisher.finish(plan, Reports(**reports))


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
    """

    shards: beam.PCollection[ShardInfo]
    dead_letters: beam.PCollection[DeadLetterBatch]
    refusals: beam.PCollection[Refusal]
    finisher: DatasetFinisher
    images: beam.PCollection[ImageFigures] | None = None
    changes: beam.PCollection[ShardFate] | None = None
    duplicates: beam.PCollection[Duplicates] | None = None

    def expand(self, plan: beam.PCollection[Plan]) -> beam.PCollection[None]:
        if not self.finisher.failures.retries:  # one machine, where each further step costs 20 ms
            return plan | "Finish" >> beam.Map(
                _finish,
                self.finisher,
                shards=AsIter(self.shards),
                dead_letters=AsIter(self.dead_letters),
                refusals=AsIter(self.refusals),
                images=() if self.images is None else AsIter(self.images),
                changes=() if self.changes is None else AsIter(self.changes),
                duplicates=None if self.duplicates is None else AsIter(self.duplicates),
            )
        reports = {"shards": self.shards, DEAD_LETTERS: self.dead_letters}
        if self.images is not None:
            reports["images"] = self.images
        totals = AsSingleton(reports | "SumTotals" >> SumTotals(), default_value=Totals())
        shards = AsIter(
            self.shards | "WithoutTotals" >> beam.Map(without_totals).with_output_types(ShardInfo)
        )
        divided = self.dead_letters | "DivideDeadLetters" >> DivideDeadLetters(
            totals=totals, most=self.finisher.most_dead_letters
        )
        # The plan goes on with the names: FnApiRunner would wait for ever for a second reader of it.
        chosen = plan | "ChooseParts" >> beam.Map(
            _with_parts, self.finisher, shards, AsIter(self.refusals), totals
        ).with_output_types(tuple[Plan, list[str]])
        written = divided[IN_PARTS] | "WriteDeadLetters" >> WriteDeadLetters(
            chosen=chosen,
            folder=self.finisher.output_folder,
            failures=self.finisher.failures,
        )
        return (
            chosen
            | "Plan" >> beam.Keys()
            | "Finish"
            >> beam.Map(
                _finish,
                self.finisher,
                shards=shards,
                dead_letters=AsIter(divided[FEW]),
                refusals=AsIter(self.refusals),
                changes=() if self.changes is None else AsIter(self.changes),
                totals=totals,
                in_parts=AsIter(written),
                duplicates=None if self.duplicates is None else AsIter(self.duplicates),
            )
        )
