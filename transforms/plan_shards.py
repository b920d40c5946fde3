"""Plan shards: the books of listing and join in, the plan of what will be written out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import apache_beam as beam

from transforms import progress
from transforms.core.classes import ClassNumbering
from transforms.core.plan import Plan, Tally, make_plan
from transforms.core.sharding import ShardConfig
from transforms.output_folder import write_note


class SumTallies(beam.CombineFn):
    """Adds the counts of all stages and workers."""

    def create_accumulator(self) -> Tally:
        return Tally()

    def add_input(self, accumulator: Tally, tally: Tally) -> Tally:
        accumulator.add(tally)
        return accumulator

    def merge_accumulators(self, accumulators: Iterable[Tally]) -> Tally:
        total = Tally()
        for accumulator in accumulators:
            total.add(accumulator)
        return total

    def extract_output(self, accumulator: Tally) -> Tally:
        return accumulator


def plan_shards(tally: Tally, output_folder: str, **wishes: Any) -> Plan:
    """Makes the plan and leaves it in the output folder, before anything else is written there.

    The note says which files a run that was killed may have left. `wishes` go to `make_plan`.
    """
    plan = make_plan(tally, **wishes)
    progress.announce(tally.samples.total(), tally.sample_bytes.total())
    write_note(output_folder, plan)
    return plan


@dataclass(kw_only=True)
class PlanShards(beam.PTransform):
    """Makes the one plan of a run from the tallies of listing, labels and join.

    Attributes:
      output_folder: where the plan's note goes.
      name, shards, splits, compression, max_bad_fraction, numbering: as `make_plan` has them.
    """

    output_folder: str
    name: str
    shards: ShardConfig
    splits: tuple[str, ...]
    compression: str
    max_bad_fraction: float
    numbering: ClassNumbering

    def expand(self, tallies: beam.PCollection[Tally]) -> beam.PCollection[Plan]:
        return (
            tallies
            | "Sum" >> beam.CombineGlobally(SumTallies()).without_defaults()
            | "Plan"
            >> beam.Map(
                plan_shards,
                output_folder=self.output_folder,
                name=self.name,
                shards=self.shards,
                splits=self.splits,
                compression=self.compression,
                max_bad_fraction=self.max_bad_fraction,
                numbering=self.numbering,
            ).with_output_types(Plan)
        )
