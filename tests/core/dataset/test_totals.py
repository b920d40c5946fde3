"""Sums of what shards report: their size does not depend on the number of shards."""

from __future__ import annotations

import pickle
import tracemalloc
from collections import Counter

import pytest

from beam_pipeline.core.dataset.tally import Totals, without_totals
from beam_pipeline.core.dead_letters import DeadLetter
from beam_pipeline.core.records.sharding import ImageFigures, ShardInfo

CLASSES = 100


def shard(number: int, classes: int = CLASSES) -> ShardInfo:
    """A shard that has examples of every class."""
    return ShardInfo(
        "train",
        number,
        f"d-train.tfrecord-{number:05d}-of-99999",
        *(classes, 10**8, 7),
        tuple((i, 1) for i in range(classes)),
        (("resized", 2),),
        "codec 1",
    )


def test_totals_add_up() -> None:
    """In any order, and by split."""
    parts = [Totals.of_shards([one]) for one in (shard(0, 2), shard(1, 1)._replace(split="test"))]
    parts[0].add_dead_letters([DeadLetter("read", "b", "/b", "unreadable", "gone")])
    parts[1].add_images(ImageFigures((("turned", 1),)))
    for order in (parts, parts[::-1]):
        total = Totals()
        for part in order:
            total.add(part)
        assert total.classes == {"train": Counter({0: 1, 1: 1}), "test": Counter({0: 1})}
        assert total.images == ImageFigures((("resized", 4), ("turned", 1)), ("codec 1",))
        assert total.dead.dead == Counter({"unreadable": 1})


def test_a_report_without_totals_has_a_bounded_size() -> None:
    """A shard with a thousand classes reports no more than one with ten."""
    few, many = (len(pickle.dumps(without_totals(shard(1, n)))) for n in (10, 1000))
    assert abs(few - many) < 10  # bytes: the number of examples has more digits
    assert len(pickle.dumps(shard(1, 1000))) > 10 * many


@pytest.mark.parametrize("shards", [1000, pytest.param(10_000, marks=pytest.mark.slow)])
def test_the_sum_does_not_grow_with_the_shards(shards: int) -> None:
    """Neither what travels nor the memory that the sum takes."""
    tracemalloc.start()
    try:
        total = Totals()
        for number in range(shards):
            total.add(Totals.of_shards([shard(number)]))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert total.classes["train"] == Counter(dict.fromkeys(range(CLASSES), shards))
    assert len(pickle.dumps(total)) < 2000
    assert peak < 200_000
