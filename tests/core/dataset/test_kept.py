"""What a conversion keeps of the earlier data set whose shards it reuses."""

from __future__ import annotations

from typing import Any

import pytest

from beam_pipeline.core.dataset.plan import NOTHING_KEPT, Kept
from beam_pipeline.core.labels.classes import ClassNumbering
from beam_pipeline.core.records.sharding import ShardConfig

KEPT = Kept({"train": 10, "test": 2}, (("cat", 0), ("dog", 1)))


@pytest.mark.parametrize(
    ("train_bytes", "count", "settled"),
    [
        (1000, 10, None),
        (999, 10, None),
        (901, 10, None),
        (850, 10, {"train": 10}),
        (500, 10, {"train": 10}),
        (499, 5, None),
        (2000, 10, {"train": 10}),
        (2001, 21, None),
    ],
)
def test_shards_keep_their_number_from_half_to_double_their_size(
    train_bytes: int, count: int, settled: dict[str, int] | None
) -> None:
    """Of 100 bytes; a number that would be the same anyhow is not settled."""
    found = KEPT.count_shards(ShardConfig(None, 100), {"train": train_bytes})
    assert found.counts == {"train": count}
    assert found.settled == ({"num_shards": settled} if settled else {})
    assert bool(found.notes) == (count != 10)


def test_a_note_says_why_all_shards_are_written() -> None:
    """Their size, or the number that was typed."""
    assert KEPT.count_shards(ShardConfig(None, 100), {"train": 3000}).notes == [
        "train: 30 shards, all of them written, instead of 10, whose average would be 300 bytes, "
        "while --shard_size is 100"
    ]
    found = KEPT.count_shards(ShardConfig({"train": 7}, 100), {"train": 1000, "test": 200})
    assert found.counts == {"train": 7, "test": 2}
    assert found.notes == [
        "train: 7 shards, all of them written, instead of 10, as --num_shards says"
    ]


def test_a_new_split_gets_shards_by_its_size() -> None:
    """Without a note."""
    found = KEPT.count_shards(ShardConfig(None, 100), {"validation": 250})
    assert (found.counts, found.settled, found.notes) == ({"validation": 3}, {}, [])


@pytest.mark.parametrize(
    ("names", "classes", "settled", "notes"),
    [
        (["cat", "dog"], (("cat", 0), ("dog", 1)), {}, ()),
        (
            ["cat", "dog", "emu"],
            (("cat", 0), ("dog", 1), ("emu", 2)),
            {},
            ["1 new class: 2 emu"],
        ),
        (
            ["dog", "bee", "ant"],
            (("cat", 0), ("dog", 1), ("ant", 2), ("bee", 3)),
            {"cat": 0, "dog": 1, "ant": 2, "bee": 3},
            ["2 new classes: 2 ant, 3 bee"],
        ),
        (["dog"], (("cat", 0), ("dog", 1)), {"cat": 0, "dog": 1}, ()),
    ],
)
def test_classes_keep_their_ids_and_new_ones_follow(
    names: list[str], classes: Any, settled: dict[str, int], notes: Any
) -> None:
    """What a conversion from nothing would number otherwise is recorded, as --classes records it."""
    found = KEPT.number_classes(ClassNumbering(), names)
    assert found.classes == classes
    assert found.kept == bool(settled)
    order = {"label_base": 0, "label_order": "code_point", "classes": settled}
    assert found.settled == (order if settled else {})
    assert found.notes == notes


def test_ids_of_the_format_or_of_a_person_stay() -> None:
    """Nothing is kept where ids are known, or are the names."""
    known = ClassNumbering(1, known=(("emu", 5),))
    assert KEPT.number_classes(known, ["emu"]).classes == (("emu", 5),)
    integers = ClassNumbering(from_name=True)
    assert KEPT.number_classes(integers, ["7"]).classes == (("7", 7),)


def test_without_an_earlier_data_set_only_the_order_is_settled() -> None:
    """Integers are sorted as numbers where the order is left open."""
    found = NOTHING_KEPT.number_classes(ClassNumbering(order="auto"), ["10", "2"])
    assert found.classes == (("2", 0), ("10", 1))
    assert found.settled == {"label_order": "numeric"}
    assert not found.kept
