"""Assign shards: samples in, parts of shards out, keyed by the number of the shard."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import apache_beam as beam
from apache_beam.pvalue import AsSingleton

from transforms.batches import SampleBatch
from transforms.core.plan import Plan
from transforms.core.references import SampleRef, pack
from transforms.core.sharding import Placer, shard_of


def assign_shards(samples: SampleBatch, plan: Plan, seed: int) -> Iterator[tuple[int, bytes]]:
    """Splits a batch by shard, packed; yields nothing where the plan refuses to write."""
    if plan.refusal:
        return
    placer = Placer(seed)
    first_shard = plan.layout.first_shard
    parts: dict[int, list[SampleRef]] = defaultdict(list)
    for sample in samples:
        first, count = first_shard[sample.split]
        parts[first + shard_of(placer.order(sample.key), count)].append(sample)
    for number, part in parts.items():
        yield number, pack(part)


def _empty_shards(plan: Plan) -> Iterator[tuple[int, bytes]]:
    """An empty part of every shard, so that each is written even if no sample falls into it."""
    if not plan.refusal:
        yield from ((number, pack(())) for number in range(len(plan.layout.specs)))


@dataclass(kw_only=True)
class AssignShards(beam.PTransform):
    """Groups samples by shard. What is shuffled is references: no image has been opened yet.

    They come out packed, as they went in: whoever writes the shard unpacks them.

    Attributes:
      plan: PCollection of the one `Plan`.
      seed: of the hash that places samples.
    """

    plan: beam.PCollection[Plan]
    seed: int

    def expand(
        self, samples: beam.PCollection[SampleBatch]
    ) -> beam.PCollection[tuple[int, Iterable[bytes]]]:
        parts = samples | "Assign" >> beam.FlatMap(
            assign_shards, AsSingleton(self.plan), self.seed
        ).with_output_types(tuple[int, bytes])
        empty = self.plan | "EveryShard" >> beam.FlatMap(_empty_shards).with_output_types(
            tuple[int, bytes]
        )
        return (parts, empty) | beam.Flatten() | "GroupByShard" >> beam.GroupByKey()
