"""Dividing classes as a pipeline: exact, and the same in batches and bundles of any size."""

from __future__ import annotations

from collections import Counter, defaultdict
from fractions import Fraction

import apache_beam as beam
import pytest
from apache_beam.testing.util import assert_that, equal_to

from beam_pipeline.core.dataset.splits import GroupBy, divide_groups, rank_of
from beam_pipeline.core.dataset.tally import Tally
from beam_pipeline.core.packing import SampleBatch
from beam_pipeline.core.records.sharding import KeyHasher, SplitFractions
from beam_pipeline.core.references import LabelValue, SampleRef
from beam_pipeline.transforms.in_workers import Sum
from beam_pipeline.transforms.splits import AssignSplits
from beam_pipeline.work.outcome import TALLY

SHARES = SplitFractions(
    (("train", Fraction(3, 4)), ("validation", Fraction(1, 8)), ("test", Fraction(1, 8)))
)
NAMES = [name for name, _ in SHARES.fractions]


def samples(classes: dict[LabelValue, int]) -> list[SampleRef]:
    """So many of each class, of some thirteen patients."""
    return [
        SampleRef(f"{number}/{i}.jpg", "u", 3, "", (label, f"P{i % 13}"))
        for number, (label, count) in enumerate(classes.items())
        for i in range(count)
    ]


def expected_splits(refs: list[SampleRef], counts: dict[LabelValue, list[int]]) -> list[SampleRef]:
    """Each class in the order of its hashes, cut at these numbers."""
    by_class: dict[LabelValue, list[SampleRef]] = defaultdict(list)
    for ref in sorted(refs, key=lambda ref: rank_of(ref.key, KeyHasher(3))):
        by_class[ref.labels[0]].append(ref)
    found = []
    for label, same in by_class.items():
        splits = [n for n, count in zip(NAMES, counts[label], strict=True) for _ in range(count)]
        found += [ref._replace(split=s) for ref, s in zip(same, splits, strict=True)]
    return found


def assert_assigned(
    refs: list[SampleRef], expected: list[SampleRef], size: int, group_by: GroupBy | None = None
) -> None:
    tally = Tally()
    tally.add_samples(expected, 0)
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        batches = [SampleBatch(refs[first : first + size]) for first in range(0, len(refs), size)]
        assigned = (
            pipeline
            | beam.Create(batches)
            | AssignSplits(fractions=SHARES, seed=3, column=0, group_by=group_by)
        )
        each = assigned["samples"] | "Each" >> beam.FlatMap(list)
        total = assigned[TALLY] | beam.CombineGlobally(Sum(Tally, Tally.add))
        assert_that(each, equal_to(expected), label="samples")
        assert_that(total, equal_to([tally]), label="tally")


@pytest.mark.parametrize(
    "size", [10, *(pytest.param(size, marks=pytest.mark.slow) for size in (1, 5000))]
)
def test_each_class_is_divided_exactly(size: int) -> None:
    """Whatever the batches: 3/4, 1/8 and 1/8 of 16, of 80, of those without a class, and of one."""
    refs = samples({"cat": 16, "dog": 80, None: 8, "bird": 1})
    counts: dict[LabelValue, list[int]] = {
        "cat": [12, 2, 2],
        "dog": [60, 10, 10],
        None: [6, 1, 1],
        "bird": [1, 0, 0],
    }
    assert_assigned(refs, expected_splits(refs, counts), size)
    assert_assigned(refs[::-1], expected_splits(refs, counts), size)


@pytest.mark.slow
def test_a_large_class_is_divided_exactly() -> None:
    """Many samples of every prefix of the hash."""
    refs = samples({"cat": 20_000})
    assert_assigned(refs, expected_splits(refs, {"cat": [15_000, 2500, 2500]}), 4096)


def test_several_classes_count_as_the_rarest() -> None:
    """`cat, dog` is divided among the dogs, which are fewer."""
    refs = samples({("cat",): 24, ("cat", "dog"): 8, (): 8})
    counts: dict[LabelValue, list[int]] = {
        ("cat",): [18, 3, 3],
        ("cat", "dog"): [6, 1, 1],
        (): [6, 1, 1],
    }
    assert_assigned(refs, expected_splits(refs, counts), 7)


def test_groups_are_divided_whole() -> None:
    """As `divide_groups` shares them out, of all batches together."""
    refs = samples({"cat": 60, "dog": 40})
    groups: dict[str, Counter[str]] = defaultdict(Counter)
    for ref in refs:
        groups[str(ref.labels[1])][str(ref.labels[0])] += 1
    splits = divide_groups(groups, SHARES, KeyHasher(3))
    assert set(splits.values()) == set(NAMES)
    expected = [ref._replace(split=splits[str(ref.labels[1])]) for ref in refs]
    assert_assigned(refs, expected, 9, GroupBy("patient", 1))


def test_no_samples_are_no_fault_here() -> None:
    """The plan says what is wrong then."""
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        nothing = pipeline | beam.Create([]).with_output_types(SampleBatch)
        assigned = nothing | AssignSplits(fractions=SHARES, seed=0, column=0, group_by=None)
        assert_that(assigned["samples"], equal_to([]))
