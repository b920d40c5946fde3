"""Divides samples among shards by the hashes of their keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from beam_pipeline.core.dataset.sharding import KeyHasher, ShardPlan, shard_of
from beam_pipeline.core.packing import Columns
from beam_pipeline.core.references import SampleRef

_KEY, _SPLIT = map(SampleRef._fields.index, ("key", "split"))


@dataclass(frozen=True)
class ShardDivision:
    """The shards of samples.

    Attributes:
      shard_plan: all shards.
      seed: of the hash that places samples.
    """

    shard_plan: ShardPlan
    seed: int

    @property
    def parts(self) -> int:
        """The number of shards."""
        return sum(count for _, count in self.shard_plan.shards)

    def numbers(self, columns: Columns) -> Sequence[int]:
        """The shard of each sample, by the hash of its key."""
        order = KeyHasher(self.seed).order
        first_shard = self.shard_plan.first_shard
        keys, splits = columns[_KEY], columns[_SPLIT]
        if splits.count(splits[0]) == len(splits):
            first, count = first_shard[splits[0]]
            return [first + shard_of(order(key), count) for key in keys]
        numbers = []
        for key, split in zip(keys, splits, strict=True):
            first, count = first_shard[split]
            numbers.append(first + shard_of(order(key), count))
        return numbers
