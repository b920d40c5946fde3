"""Previews changes: from the samples of each shard to its fate in a conversion with `--reuse`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import apache_beam as beam
from apache_beam.pvalue import AsSingleton

from beam_pipeline.core.dataset.changes import ShardChanges
from beam_pipeline.core.dataset.plan import Plan
from beam_pipeline.transforms.in_workers import InWorkers
from beam_pipeline.work.earlier_data_set import EarlierDataSet
from beam_pipeline.work.encoding import EncodingOptions
from beam_pipeline.work.outcome import Outcome
from beam_pipeline.work.shard_task import shard_inputs
from beam_pipeline.work.spill import unspill_all


@dataclass(frozen=True)
class _Previewing:
    encoding: EncodingOptions
    earlier: EarlierDataSet

    def __call__(self, shard: tuple[int, Iterable[bytes]], plan: Plan) -> Iterator[Outcome]:
        number, batches = shard
        spec = plan.shard_plan.spec(number)
        inputs = shard_inputs(spec, unspill_all(batches), plan.class_ids, self.encoding)
        yield Outcome([self.earlier.look_up(inputs).expected_changes()])


@dataclass(kw_only=True)
class PreviewChanges(beam.PTransform):
    """Looks up what each shard would be made of in an earlier data set; no image is opened.

    Attributes:
      plan: PCollection of the one `Plan`.
      encoding: what shapes the examples.
      earlier: the data set that shards of the same samples would be taken from.

    Returns: a `ShardChanges` for each shard.
    """

    plan: beam.PCollection[Plan]
    encoding: EncodingOptions
    earlier: EarlierDataSet

    def expand(
        self, shards: beam.PCollection[tuple[int, Iterable[bytes]]]
    ) -> beam.PCollection[ShardChanges]:
        return shards | "PreviewShard" >> beam.ParDo(
            InWorkers(_Previewing(self.encoding, self.earlier)), AsSingleton(self.plan)
        ).with_output_types(ShardChanges)
