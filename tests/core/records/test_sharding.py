from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from beam_pipeline.core import packing
from beam_pipeline.core.records import shard_writer, sharding
from beam_pipeline.core.records.tfrecord import TFRecordFormat
from beam_pipeline.core.references import SampleRef
from tests.rows import in_rows

EIGHTY_TEN_TEN = sharding.SplitFractions(
    (("train", Fraction(8, 10)), ("validation", Fraction(1, 10)), ("test", Fraction(1, 10)))
)


@in_rows
def test_a_key_has_this_hash(
    seed: int, key: str, split: str, of_4: int, of_16: int, order: str
) -> None:
    """Split, shard and order of a key are these, in every version and on every machine."""
    placement = sharding.KeyHasher(seed).hash(key)
    assert placement.order.hex() == order
    assert EIGHTY_TEN_TEN.split_of(placement.split_hash) == split
    assert sharding.shard_of(placement.order, 4) == of_4
    assert sharding.shard_of(placement.order, 16) == of_16


def test_samples_stand_in_this_order() -> None:
    """Twelve keys in the order in which the shards of seed 0 hold them."""
    order = "dog/2.jpg cat/2.jpg f c cat/1.jpg g e 강아지/사진_1.jpg dog/1.jpg b d a"
    keys = [key.replace("_", " ") for key in order.split()]
    refs = [SampleRef(key, f"/photos/{key}", 1, "train", ()) for key in sorted(keys)]
    assert [ref.key for ref in shard_writer.sort_by_key_hash(refs, sharding.KeyHasher(0))] == keys


@given(seed=st.integers(-(10**30), 10**30), key=st.text())
def test_a_hash_depends_on_seed_and_key_only(seed: int, key: str) -> None:
    """Whatever was hashed before, with this hasher or another, the hash is the same."""
    hasher = sharding.KeyHasher(seed)
    first = hasher.hash(key)
    hasher.hash(key + "x")
    assert hasher.hash(key) == first == sharding.KeyHasher(seed).hash(key)
    assert sharding.KeyHasher(seed + 1).hash(key) != first
    assert 0 <= first.split_hash < 1 << 64
    assert len(first.order) == 16


@in_rows
def test_a_seed_may_be_any_integer(seed: int) -> None:
    """A seed of many digits hashes keys, too, and differently from its neighbour."""
    assert sharding.KeyHasher(seed).hash("a") != sharding.KeyHasher(seed + 1).hash("a")


@given(order=st.binary(min_size=16, max_size=16), shards=st.integers(1, 1 << 40))
@example(order=b"\xff" * 16, shards=1 << 40)
@example(order=b"\0" * 16, shards=7)
def test_a_shard_is_one_of_those_there_are(order: bytes, shards: int) -> None:
    """The shard lies between 0 and the number of shards, and its range of hashes is equal."""
    shard = sharding.shard_of(order, shards)
    assert 0 <= shard < shards
    position = Fraction(int.from_bytes(order[:8], "big"), 1 << 64)
    assert Fraction(shard, shards) <= position < Fraction(shard + 1, shards)


@in_rows
def test_splits_have_their_share_to_the_last_hash(
    shares: dict[str, str], splits: dict[int, str]
) -> None:
    """In the order in which they were given; thirds add up to one exactly, and a share of 0 gets nothing."""
    fractions = sharding.SplitFractions(
        tuple((name, Fraction(share)) for name, share in shares.items())
    )
    assert {split_hash: fractions.split_of(split_hash) for split_hash in splits} == splits


@in_rows
def test_shares_that_do_not_add_up_to_one_are_an_error(shares: list[str], total: str) -> None:
    """The message tells their sum from 1."""
    with pytest.raises(ValueError, match=f"add up to {total}.*, not to 1"):
        sharding.SplitFractions(
            tuple((f"split {i}", Fraction(share)) for i, share in enumerate(shares))
        )


@in_rows
def test_a_split_gets_the_shards_that_were_asked_for(
    config: Any, total_bytes: int, count: int
) -> None:
    """A number counts before a size, a split without a number goes by size, and one is the least."""
    assert sharding.ShardConfig(**config).count_for("train", total_bytes) == count


def test_shares_and_numbers_are_told_as_they_were_given() -> None:
    """A share that is no decimal is a fraction; a number of shards counts for its split alone."""
    thirds = sharding.SplitFractions((("a", Fraction(1, 3)), ("b", Fraction(2, 3))))
    assert [str(thirds), str(EIGHTY_TEN_TEN)] == [
        "a=1/3,b=2/3",
        "train=0.8,validation=0.1,test=0.1",
    ]
    assert sharding.ShardConfig(5).is_counted("test")
    assert sharding.ShardConfig({"test": 1}).is_counted("test")
    assert not sharding.ShardConfig({"test": 1}).is_counted("train")
    assert not sharding.ShardConfig().is_counted("train")


def test_shards_are_numbered_through_the_splits() -> None:
    """The index of a spec in the list is the number that its samples are grouped by."""
    layout = sharding.ShardPlan("birds", (("test", 1), ("train", 2)), TFRecordFormat("gzip"))
    assert layout.specs == [
        sharding.ShardSpec("test", 0, 1, "birds-test.tfrecord-00000-of-00001.gz"),
        sharding.ShardSpec("train", 0, 2, "birds-train.tfrecord-00000-of-00002.gz"),
        sharding.ShardSpec("train", 1, 2, "birds-train.tfrecord-00001-of-00002.gz"),
    ]
    assert layout.first_shard == {"test": (0, 1), "train": (1, 2)}


def test_a_shard_can_be_had_by_its_number() -> None:
    """It is the one at this index of all; a number beyond them is an error."""
    layout = sharding.ShardPlan(
        "x", (("test", 2), ("train", 3), ("validation", 1)), TFRecordFormat("gzip")
    )
    assert [layout.spec(number) for number in range(6)] == list(layout.specs)
    with pytest.raises(IndexError):
        layout.spec(6)


# --- Dividing samples among shards by columns


PLAN = sharding.ShardPlan("d", (("test", 2), ("train", 5)), TFRecordFormat())


def test_each_sample_goes_to_the_shard_of_its_hash() -> None:
    """Within the shards of its split, whether samples have one split or several."""
    refs = [
        SampleRef(f"{i}.jpg", f"/photos/{i}.jpg", 5, "train" if i % 3 else "test", ("x",))
        for i in range(60)
    ]
    division, hasher = sharding.ShardDivision(PLAN, 4), sharding.KeyHasher(4)
    expected = [
        sharding.shard_of(hasher.order(ref.key), 2)
        if ref.split == "test"
        else 2 + sharding.shard_of(hasher.order(ref.key), 5)
        for ref in refs
    ]
    assert division.parts == 7
    assert division.numbers(packing.SampleBatch(refs).columns()) == expected
    trained = [ref for ref in refs if ref.split == "train"]
    assert division.numbers(
        packing.SampleBatch.of_columns(packing.SampleBatch(trained).columns()).columns()
    ) == [number for number in expected if number >= 2]
