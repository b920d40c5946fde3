"""Assigning shards as a pipeline: bundles and batches play no part."""

from __future__ import annotations

import apache_beam as beam
import pytest
from apache_beam.testing.util import assert_that, equal_to

from beam_pipeline.core.dataset.plan import Plan
from beam_pipeline.core.dataset.tally import Tally
from beam_pipeline.core.errors import Refusal
from beam_pipeline.core.packing import SampleBatch, unpack
from beam_pipeline.core.records.sharding import ShardDivision, ShardPlan
from beam_pipeline.core.records.tfrecord import TFRecordFormat
from beam_pipeline.core.references import SampleRef
from beam_pipeline.transforms import in_workers
from beam_pipeline.transforms.planning import AssignShards

LAYOUT = ShardPlan("d", (("test", 2), ("train", 5)), TFRecordFormat())
SAMPLES = [
    SampleRef(f"{i}.jpg", f"/photos/{i}.jpg", 5, "train" if i % 3 else "test", ("x",))
    for i in range(60)
]


def _assigned(plan: Plan, expected: dict[int, list[SampleRef]]) -> None:
    batches = [SampleBatch(SAMPLES[first : first + 7]) for first in range(0, len(SAMPLES), 7)]
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        plans = pipeline | "Plan" >> beam.Create([plan])
        shards = pipeline | "Samples" >> beam.Create(batches) | AssignShards(plan=plans, seed=4)
        found = shards | beam.MapTuple(
            lambda number, parts: (number, sorted(s for p in parts for s in unpack(SampleRef, p)))
        )
        assert_that(found, equal_to([(number, sorted(s)) for number, s in expected.items()]))


@pytest.mark.parametrize("held", [1, 10, 1 << 16])
def test_every_sample_goes_to_the_shard_of_its_hash(
    held: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once, however many wait for others; a shard that has none is there, too."""
    monkeypatch.setattr(in_workers, "MOST_HELD", held)
    expected: dict[int, list[SampleRef]] = {number: [] for number in range(7)}
    numbers = ShardDivision(LAYOUT, 4).numbers(SampleBatch(SAMPLES).columns())
    for sample, number in zip(SAMPLES, numbers, strict=True):
        expected[number].append(sample)
        assert (number < 2) == (sample.split == "test")
    _assigned(Plan(LAYOUT, (), Tally(), None), expected)


def test_a_plan_that_refuses_leaves_nothing() -> None:
    """Nothing is written, so nothing is shuffled."""
    _assigned(Plan(LAYOUT, (), Tally(), Refusal("OutputError", "no")), {})
