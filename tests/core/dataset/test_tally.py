"""Tallies: what stages count, and how it adds up."""

from __future__ import annotations

import pickle
import random
import tracemalloc
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_pipeline.core.dataset.tally import (
    NOT_COUNTED_AS_BAD,
    Measured,
    Tally,
    Totals,
    mean_seconds,
    measured_samples,
    most_measured,
    without_totals,
    written_bytes,
)
from beam_pipeline.core.dead_letters import DeadLetter, Reason
from beam_pipeline.core.failures import Refusal, refusal_order
from beam_pipeline.core.records.sharding import ImageFigures, ShardInfo
from beam_pipeline.core.references import SampleRef
from tests.core.dataset.tallies import dead_letter, label_files, sample

COUNTS = st.dictionaries(st.sampled_from("abcd"), st.integers(1, 9), max_size=3).map(Counter)
TALLIES = st.builds(
    Tally,
    listed=st.integers(0, 99),
    ignored=COUNTS,
    label_files=st.lists(st.sampled_from(["a.csv", "b.csv", "c.csv", "d.xml"])).map(label_files),
    label_rows=st.integers(0, 99),
    orphan_rows=st.integers(0, 99),
    repeated_rows=st.integers(0, 99),
    unlabelled=st.integers(0, 99),
    samples=COUNTS,
    sample_bytes=COUNTS,
    classes=COUNTS,
    dead=COUNTS,
    shown=st.dictionaries(
        st.sampled_from("ab"), st.lists(st.text(max_size=3), min_size=1, max_size=3).map(sorted)
    ),
    refusals=st.lists(
        st.builds(Refusal, st.sampled_from(["UsageError", "ListingError"]), st.text(max_size=3)),
        max_size=2,
    ).map(lambda found: sorted(found, key=refusal_order)),
    first=st.dictionaries(
        st.sampled_from("ab"),
        st.tuples(st.text(max_size=2), st.just("m"), st.just("f"), st.integers(0, 2)),
    ),
)


def total(*tallies: Tally) -> Tally:
    whole = Tally()
    for tally in tallies:
        whole.add(tally)
    return whole


@given(one=TALLIES, other=TALLIES, third=TALLIES)
def test_tallies_add_up_in_any_order(one: Tally, other: Tally, third: Tally) -> None:
    """Whichever worker's counts come first, and whichever are added together first."""
    assert total(one, other) == total(other, one)
    assert total(total(one, other), third) == total(one, total(other, third))
    assert total(one, Tally()) == one


@given(one=TALLIES, other=TALLIES)
def test_adding_a_tally_leaves_it_as_it_is(one: Tally, other: Tally) -> None:
    """An element of a pipeline is not changed by what is made of it."""
    before = total(other)
    whole = total(one, other)
    whole.add_dead_letters([dead_letter(Reason.UNREADABLE, "x")])
    whole.add_samples([sample("x", "cat")], 0)
    whole.ignored["a"] += 1
    assert other == before


@given(one=TALLIES, other=TALLIES)
def test_every_count_is_added(one: Tally, other: Tally) -> None:
    """Each figure of the sum is the sum of the figures; of keys and refusals, the first three."""
    whole = total(one, other)
    for name in ("listed", "label_rows", "orphan_rows", "repeated_rows", "unlabelled"):
        assert getattr(whole, name) == getattr(one, name) + getattr(other, name)
    for name in ("ignored", "samples", "sample_bytes", "classes", "dead"):
        assert getattr(whole, name) == getattr(one, name) + getattr(other, name)
    assert whole.shown == {
        reason: sorted([*one.shown.get(reason, []), *other.shown.get(reason, [])])[:3]
        for reason in {*one.shown, *other.shown}
    }
    assert whole.refusals == sorted([*one.refusals, *other.refusals], key=refusal_order)[:3]


def test_samples_are_counted_by_split_and_class() -> None:
    """Bytes are those of the images, and without a class column there are no classes."""
    samples = [
        sample("a", 3, "cat", size=10),
        sample("b", 4, "dog", size=20),
        sample("c", None, "cat", size=5, split="test"),
    ]
    tally = Tally()
    tally.add_samples(samples, 1)
    assert tally == Tally(
        samples=Counter({"train": 2, "test": 1}),
        sample_bytes=Counter({"train": 30, "test": 5}),
        classes=Counter({"cat": 2, "dog": 1}),
    )
    without = Tally()
    without.add_samples(samples, None)
    assert without.classes == Counter()


def test_objects_are_counted_where_samples_have_lists_of_classes() -> None:
    """A sample counts once for each of its objects, and one without objects for none."""
    tally = Tally()
    tally.add_samples(
        [sample("a", ("cat", "dog", "cat")), sample("b", ()), sample("c", ("dog",))], 0
    )
    assert tally.classes == {"cat": 2, "dog": 2}
    assert tally.samples == {"train": 3}


def test_the_first_keys_of_each_reason_are_kept() -> None:
    """Three of them, the first in order, however many dead letters come in however many calls."""
    tally = Tally()
    tally.add_dead_letters([dead_letter(Reason.UNREADABLE, key) for key in "fdeb"])
    tally.add_dead_letters([dead_letter(Reason.UNREADABLE, "c"), dead_letter(Reason.BAD_ROW, "z")])
    assert tally.dead == {"unreadable": 5, "bad_row": 1}
    assert tally.shown == {"unreadable": ["b", "c", "d"], "bad_row": ["z"]}


def test_an_image_without_a_label_of_use_is_not_held_against_the_run() -> None:
    """Nor one that --classes, --exclude, --duplicates or a filter leaves out; every other is."""
    tally = Tally()
    tally.add_dead_letters([dead_letter(reason, "x") for reason in Reason])
    tally.add_dead_letters([dead_letter(Reason.UNLABELLED, "y")])
    assert tally.dead.total() == len(Reason) + 1
    assert tally.bad == len(Reason) - 8
    assert sorted(NOT_COUNTED_AS_BAD) == [
        "duplicate",
        "excluded",
        "filtered_max_aspect",
        "filtered_max_image_bytes",
        "filtered_max_pixels",
        "filtered_min_side",
        "unknown_class",
        "unlabelled",
    ]


def test_unlabelled_samples_have_no_class() -> None:
    """They are counted as such, and their first keys are shown."""
    tally = Tally()
    refs = [SampleRef(f"{i}.jpg", "u", 3, "train", (label,)) for i, label in enumerate("ab")]
    refs += [SampleRef(f"{i}.jpg", "u", 3, "train", (None,)) for i in range(9, 4, -1)]
    tally.add_samples(refs, 0)
    tally.add_unlabelled([ref.key for ref in refs[2:]])
    tally.add_unlabelled([])
    total = Tally(unlabelled=1)
    total.add(tally)
    assert total.classes == {"a": 1, "b": 1}
    assert total.samples == {"train": 7}
    assert total.unlabelled == 6
    assert total.shown == {"unlabelled": ["5.jpg", "6.jpg", "7.jpg"]}


# --- Sums of what shards report: their size does not depend on the number of shards


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


# --- The estimate of a data set's size from some of its samples


def measured(sizes: list[tuple[int, int]]) -> list[Measured]:
    return [Measured(bytes((i,)), size, written, 0.5) for i, (size, written) in enumerate(sizes)]


@pytest.mark.parametrize(
    ("sizes", "samples", "image_bytes", "expected"),
    [
        ([(100, 10), (900, 10), (500, 10)], 1000, 77, 10_000),  # scaled to one size
        ([(100, 350), (900, 1150), (500, 750)], 1000, 400_000, 650_000),  # left as they are
        ([(100, 30)], 10, 5, 300),  # no line through them: their mean
        ([(100, 30), (100, 50)], 10, 5, 400),
    ],
)
def test_the_size_is_estimated_by_least_squares(
    sizes: list[tuple[int, int]], samples: int, image_bytes: int, expected: int
) -> None:
    """From the sizes of some files and their records."""
    assert written_bytes(measured(sizes), samples, image_bytes) == expected


@given(
    st.lists(st.tuples(st.integers(0, 10**9), st.integers(0, 10**9)), min_size=1, max_size=50),
    st.integers(0, 10**6),
    st.integers(0, 10**12),
    st.integers(),
)
def test_the_order_of_samples_does_not_matter(
    sizes: list[tuple[int, int]], samples: int, image_bytes: int, seed: int
) -> None:
    """Nor does anything else make it negative."""
    found = measured(sizes)
    estimate = written_bytes(found, samples, image_bytes)
    assert estimate >= 0
    random.Random(seed).shuffle(found)
    assert written_bytes(found, samples, image_bytes) == estimate


def test_a_few_hundred_samples_at_most_are_measured() -> None:
    """And one in twenty of a small data set, so that it takes little of the time."""
    assert [measured_samples(n) for n in (0, 10, 400, 2000, 10**9)] == [16, 16, 20, 100, 256]
    assert most_measured() == 256
    assert mean_seconds(measured([(1, 1), (2, 2)])) == 0.5
