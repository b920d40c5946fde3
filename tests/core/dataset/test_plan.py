"""Tallies, plans made from them, and what a plan costs."""

from __future__ import annotations

import dataclasses
import pickle
import random
import re
import tracemalloc
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_pipeline.core.dataset.estimate import (
    Machines,
    Prices,
    Rates,
    Work,
    estimate,
    parse_prices,
    read_seconds,
    workers_for,
)
from beam_pipeline.core.dataset.plan import NOTHING_KEPT, Kept
from beam_pipeline.core.dataset.tally import (
    NOT_COUNTED_AS_BAD,
    Measured,
    Tally,
    Totals,
    mean_seconds,
    measured_samples,
    without_totals,
    written_bytes,
)
from beam_pipeline.core.dead_letters import DeadLetter, Reason
from beam_pipeline.core.errors import Refusal, refusal_order
from beam_pipeline.core.labels.classes import ClassNumbering
from beam_pipeline.core.packing import DeadLetterBatch
from beam_pipeline.core.records.sharding import ImageFigures, ShardConfig, ShardInfo
from beam_pipeline.core.references import SampleRef
from tests.core.dataset.fixtures import dead_letter, label_files, sample
from tests.harness import REPOSITORY
from tests.rows import in_rows

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


@in_rows
def test_samples_are_counted_by_split_and_class(
    samples: list[Any], column: int | None, counts: Any, sizes: Any, classes: Any
) -> None:
    """Bytes are those of the images."""
    tally = Tally()
    tally.add_samples([sample(key, *labels, **more) for key, labels, more in samples], column)
    assert tally == Tally(
        samples=Counter(counts), sample_bytes=Counter(sizes), classes=Counter(classes)
    )


def test_the_first_keys_of_each_reason_are_kept() -> None:
    """Three of them, the first in order, however many dead letters come in however many calls."""
    tally = Tally()
    tally.add_dead_letters([dead_letter(Reason.UNREADABLE, key) for key in "fdeb"])
    tally.add_dead_letters([dead_letter(Reason.UNREADABLE, "c"), dead_letter(Reason.BAD_ROW, "z")])
    assert tally.dead == {"unreadable": 5, "bad_row": 1}
    assert tally.shown == {"unreadable": ["b", "c", "d"], "bad_row": ["z"]}


def test_an_image_without_a_label_of_use_is_not_held_against_the_run() -> None:
    """Nor one that --classes, --exclude, --duplicates or a filter leaves out, nor objects, if they are few."""
    tally = Tally()
    tally.add_dead_letters([dead_letter(reason, "x") for reason in Reason])
    tally.add_dead_letters([dead_letter(Reason.UNLABELLED, "y")])
    assert tally.dead.total() == len(Reason) + 1
    assert sum(tally.bad.values()) == len(Reason) - 10 + 1
    tally.classes["cat"] = 2
    assert "empty_box" not in tally.bad
    assert sorted(NOT_COUNTED_AS_BAD) == [
        "duplicate",
        "empty_box",
        "excluded",
        "filtered_max_aspect",
        "filtered_max_image_bytes",
        "filtered_max_pixels",
        "filtered_min_side",
        "small_box",
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
    dead = DeadLetterBatch([DeadLetter("read", "b", "/b", "unreadable", "gone")])
    turned = ImageFigures((("turned", 1),))
    test = shard(1, 1)._replace(split="test")
    reports = [shard(0, 2), dead, test, turned]
    for order in (reports, reports[::-1]):
        total = Totals.of(order)
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
    """Neither its size nor the memory that it takes."""
    tracemalloc.start()
    try:
        total = Totals.of(map(shard, range(shards)))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert total.classes["train"] == Counter(dict.fromkeys(range(CLASSES), shards))
    assert len(pickle.dumps(total)) < 2000
    assert peak < 200_000


# --- The estimate of a data set's size from some of its samples


def measured(sizes: list[tuple[int, int]]) -> list[Measured]:
    return [Measured(bytes((i,)), size, written, 0.5) for i, (size, written) in enumerate(sizes)]


@in_rows
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
    assert mean_seconds(measured([(1, 1), (2, 2)])) == 0.5


# --- What a conversion keeps of the earlier data set whose shards it reuses


KEPT = Kept({"train": 10, "test": 2}, (("cat", 0), ("dog", 1)))


@in_rows
def test_shards_keep_their_number_from_half_to_double_their_size(
    numbers: Any, split_bytes: Any, value: Any, options: Any, notes: list[str]
) -> None:
    """Of 100 bytes; a number that would be the same anyhow is not settled."""
    choice = KEPT.count_shards(ShardConfig(numbers, 100), split_bytes)
    assert (choice.value, choice.options, choice.notes) == (value, options, notes)


@in_rows
def test_classes_keep_their_ids_and_new_ones_follow(
    kept: bool, numbering: Any, names: list[str], classes: Any, options: Any, notes: Any
) -> None:
    """What a conversion from nothing would number otherwise is recorded, as --classes records it."""
    choice = (KEPT if kept else NOTHING_KEPT).number_classes(ClassNumbering(**numbering), names)
    assert (choice.value, choice.options, list(choice.notes)) == (classes, options, notes)


# --- estimate


IMAGENET = Work(
    samples=1_281_167,
    image_bytes=147_000_000_000,
    reference_bytes=20_000_000,
    listed=1_281_168,
    joined=False,
    shards=1024,
)
PRICES = Prices(
    vcpu_hour=1.0, memory_gb_hour=0.1, shuffle_gb=2.0, class_a_1000=3.0, class_b_1000=4.0
)
RATES = Rates(read_s=0.001, byte_s=1e-8, plan_s=0.0001, start_s=100.0)


def test_every_figure_by_hand() -> None:
    """A job small enough to reckon on paper."""
    work = Work(10_000, 10**9, 50_000, listed=20_001, joined=True, shards=4)
    found = estimate(work, Machines(workers=2, vcpus=4, memory_gb=8.0), PRICES, RATES)
    assert found.shuffle_bytes == 300_000
    assert found.records_shuffle_bytes == 300_000 + 10**9 + 2_500_000
    assert (found.class_a, found.class_b) == (21 + 8, 10_000)
    # 3.0001 s of planning on 8 vCPUs, 10 + 10 s of writing on the 4 that have a shard.
    seconds = 100 + 3.0001 / 8 + 20 / 4
    assert found.seconds == pytest.approx(seconds)
    assert found.vcpu_hours == pytest.approx(seconds * 8 / 3600)
    dollars = seconds / 3600 * (8 * 1.0 + 2 * 8.0 * 0.1) + 29 * 0.003 + 10_000 * 0.004
    assert found.dollars == pytest.approx(dollars + 0.0003 * 2)
    assert found.records_dollars == pytest.approx(dollars + 1.0028 * 2)
    assert found.idle_workers == 1


def test_nothing_to_do_takes_the_start() -> None:
    """No samples, no division by nothing."""
    found = estimate(Work(0, 0, 0, 0, False, 0), Machines(), PRICES, RATES)
    assert found.seconds == 100.0
    assert found.idle_workers == 10


def test_prices_may_be_given_in_part() -> None:
    """The rest stays as it is."""
    assert parse_prices('{"vcpu_hour": 0.07}', "p") == Prices(vcpu_hour=0.07)
    assert parse_prices("{}", "p") == Prices()


def test_the_documented_prices_are_the_defaults() -> None:
    """The table of docs/scale.md says what is reckoned with."""
    text = Path(REPOSITORY, "docs/scale.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| ([\d.]+) \|", text, re.MULTILINE)
    assert {name: float(price) for name, price in rows} == dataclasses.asdict(Prices())


@in_rows
def test_a_bucket_takes_twice_as_many_reads_every_20_minutes(
    reads: int, rate: float, buckets: int, minutes: int
) -> None:
    """From 5,000 a second, as Google documents; workers that read fewer do not wait."""
    assert round(read_seconds(reads, rate, buckets) / 60) == minutes
    work = Work(reads, 0, 0, 0, False, 10**6, buckets=buckets)
    lanes = round(rate * Rates().read_s)
    found = estimate(work, Machines(workers=lanes, vcpus=1), Prices(), Rates(start_s=0, plan_s=0))
    assert found.seconds == pytest.approx(60 * minutes, rel=0.02)
    assert found.ramp_s == pytest.approx(found.seconds - reads * Rates().read_s / lanes)


def test_workers_are_as_many_as_the_work_is_worth() -> None:
    """Half an hour of writing, or a quarter of that at most; each thread has a shard."""
    work = Work(10**8, 10**13, 0, 0, True, 50_000)
    assert workers_for(work, vcpus=4, threads=2) == (14, 56)
    assert workers_for(dataclasses.replace(work, encode_s=0.01), 4, 2) == (153, 611)
    assert workers_for(dataclasses.replace(work, shards=80), 4, 2) == (10, 10)
    assert workers_for(IMAGENET, 4, 2) == (1, 1)
