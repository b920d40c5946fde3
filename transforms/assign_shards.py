"""Assigns shards: from samples to the packed samples of each shard, keyed by its number."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial

import apache_beam as beam
from apache_beam.pvalue import AsSingleton

from beam_pipeline.core.dataset.plan import Plan
from beam_pipeline.core.packing import pack
from beam_pipeline.core.records.sharding import ShardDivision
from beam_pipeline.transforms.batches import SampleBatch
from beam_pipeline.transforms.in_workers import Divide


def _division(plan: Plan, seed: int) -> ShardDivision | None:
    """The division into shards; None where the plan refuses to write."""
    return None if plan.refusal else ShardDivision(plan.shard_plan, seed)


def _empty_shards(plan: Plan) -> Iterator[tuple[int, bytes]]:
    """An empty part of every shard, so that each is written even if no sample falls into it."""
    if not plan.refusal:
        shards = sum(count for _, count in plan.shard_plan.shards)
        yield from ((number, pack(())) for number in range(shards))


@dataclass(kw_only=True)
class AssignShards(beam.PTransform):
    """Groups samples by shard. Only references are shuffled: no image has been opened yet.

    They stay packed until the shard is written.

    Attributes:
      plan: PCollection of the one `Plan`.
      seed: of the hash that places samples.
    """

    plan: beam.PCollection[Plan]
    seed: int

    def expand(
        self, samples: beam.PCollection[SampleBatch]
    ) -> beam.PCollection[tuple[int, Iterable[bytes]]]:
        parts = samples | "Assign" >> beam.ParDo(
            Divide(partial(_division, seed=self.seed)), AsSingleton(self.plan)
        ).with_output_types(tuple[int, bytes])
        empty = self.plan | "EveryShard" >> beam.FlatMap(_empty_shards).with_output_types(
            tuple[int, bytes]
        )
        return (parts, empty) | beam.Flatten() | "GroupByShard" >> beam.GroupByKey()
