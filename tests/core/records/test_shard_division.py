"""Dividing samples among shards by columns."""

from __future__ import annotations

from beam_pipeline.core.packed_batches import SampleBatch
from beam_pipeline.core.records.sharding import KeyHasher, ShardDivision, ShardPlan, shard_of
from beam_pipeline.core.records.tfrecord import TFRecordFormat
from beam_pipeline.core.references import SampleRef

PLAN = ShardPlan("d", (("test", 2), ("train", 5)), TFRecordFormat())


def test_each_sample_goes_to_the_shard_of_its_hash() -> None:
    """Within the shards of its split, whether samples have one split or several."""
    refs = [
        SampleRef(f"{i}.jpg", f"/photos/{i}.jpg", 5, "train" if i % 3 else "test", ("x",))
        for i in range(60)
    ]
    division, hasher = ShardDivision(PLAN, 4), KeyHasher(4)
    expected = [
        shard_of(hasher.order(ref.key), 2)
        if ref.split == "test"
        else 2 + shard_of(hasher.order(ref.key), 5)
        for ref in refs
    ]
    assert division.parts == 7
    assert division.numbers(SampleBatch(refs).columns()) == expected
    trained = [ref for ref in refs if ref.split == "train"]
    assert division.numbers(SampleBatch.of_columns(SampleBatch(trained).columns()).columns()) == [
        number for number in expected if number >= 2
    ]
