"""Groups fall to one side, classes are divided exactly, and no order of anything plays a part."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Iterable, Mapping
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_pipeline.core.dataset.splits import (
    NO_CLASS,
    Cut,
    GroupBy,
    Rank,
    SplitAssigner,
    apportion,
    check_strata,
    divide_groups,
    find_boundaries,
    find_cuts,
    group_by,
    rank_of,
    split_behind,
    stratum_of,
)
from beam_pipeline.core.dead_letters import DeadLetter
from beam_pipeline.core.errors import UsageError
from beam_pipeline.core.labels import schema
from beam_pipeline.core.records.sharding import KeyHasher, SplitFractions
from beam_pipeline.core.references import LabelValue, SampleRef
from tests.profiles import examples


def fractions(**shares: str) -> SplitFractions:
    return SplitFractions(tuple((name, Fraction(share)) for name, share in shares.items()))


USUAL = fractions(train="0.8", validation="0.1", test="0.1")
HALVES = fractions(a="1/2", b="1/2")
SHARES = st.lists(st.integers(1, 9), min_size=1, max_size=5).map(
    lambda parts: SplitFractions(
        tuple((f"s{i}", Fraction(part, sum(parts))) for i, part in enumerate(parts))
    )
)


def sample(key: str, *labels: LabelValue, split: str = "train", origin: str = "") -> SampleRef:
    return SampleRef(key, f"/photos/{key}", 5, split, labels, origin=origin)


def stratify(keys: Iterable[str], shares: SplitFractions, seed: int = 0) -> dict[str, str]:
    """Key -> split of the samples of one class, by the steps that workers take."""
    hasher = KeyHasher(seed)
    ranks = [rank_of(key, hasher) for key in keys]
    counts = apportion("cat", len(ranks), shares, hasher)
    cuts = find_cuts(Counter(rank.prefix for rank in ranks), counts)
    near = [rank for rank in ranks if rank.prefix in {cut.prefix for cut in cuts}]
    boundaries = find_boundaries(cuts, near)
    return {rank.key: split_behind(boundaries, rank, shares) for rank in ranks}


# --- groups -----------------------------------------------------------------------------------------


def test_the_group_of_a_sample_is_a_text() -> None:
    """A value's text, or the folder's path; nothing is no group."""
    by_patient = GroupBy("patient", 1)
    assert by_patient.group_of(sample("a/1.jpg", "cat", "P7")) == "P7"
    assert by_patient.group_of(sample("a/1.jpg", "cat", 7)) == "7"
    assert by_patient.group_of(sample("a/1.jpg", "cat", None)) is None
    assert by_patient.group_of(sample("a/1.jpg", "cat", "")) is None
    assert GroupBy("folder").group_of(sample("a/b/1.jpg")) == "a/b"
    assert GroupBy("folder").group_of(sample("1.jpg")) == ""


def test_a_sample_without_a_group_is_a_dead_letter() -> None:
    """It could be of a patient on the other side, so it goes to neither."""
    assigner = SplitAssigner(USUAL, 0, GroupBy("patient", 0))
    samples = [sample("1.jpg", "P1"), sample("2.jpg", None, origin="/labels.json")]
    expected = [
        DeadLetter(
            "join",
            "2.jpg",
            "/photos/2.jpg",
            "bad_label_value",
            "column 'patient': is empty, so its side of --split_by is unknown",
            "/labels.json",
        )
    ]
    for stratified in (False, True):
        assigned, dead_letters = SplitAssigner(USUAL, 0, assigner.group_by, stratified).assign(
            samples
        )
        assert [ref.key for ref in assigned] == ["1.jpg"]
        assert dead_letters == expected


def test_images_outside_of_folders_are_a_group() -> None:
    """Its name is empty, and none of its samples is left out."""
    samples = [sample("a.jpg"), sample("b.jpg")]
    assigned, dead_letters = SplitAssigner(HALVES, 0, GroupBy("folder")).assign(samples)
    assert [ref.key for ref in assigned] == ["a.jpg", "b.jpg"]
    assert (len({ref.split for ref in assigned}), dead_letters) == (1, [])


def test_without_fractions_samples_keep_their_splits() -> None:
    """Folder or row named them."""
    samples = [sample("1.jpg", split="test"), sample("2.jpg", split="x")]
    assert SplitAssigner(None, 0).assign(samples) == (samples, [])


def test_where_the_groups_are_named() -> None:
    """A column for grouping alone comes first, then one that is written, then the folder."""
    columns = (
        schema.label_column("kind", schema.ColumnKind.BYTES),
        schema.further_column("patient", schema.ColumnKind.INT64),
        schema.group_column("patient"),
    )
    assert group_by("", columns, "table") is None
    assert group_by("patient", columns, "table") == GroupBy("patient", 2)
    assert group_by("patient", columns[:2], "table") == GroupBy("patient", 1)
    assert group_by("folder", columns, "table") == GroupBy("folder")
    named = (schema.further_column("folder", schema.ColumnKind.BYTES),)
    assert group_by("folder", named, "table") == GroupBy("folder", 0)


def test_groups_that_cannot_be_told() -> None:
    """The error names the columns that there are."""
    columns = (
        *schema.object_columns(pixels=True),
        schema.further_column("camera", schema.ColumnKind.BYTES),
    )
    with pytest.raises(UsageError) as caught:
        group_by("patient", columns, "coco")
    assert str(caught.value) == (
        "--split_by patient: the layout coco has no column 'patient'; expected one of camera, folder"
    )
    with pytest.raises(UsageError, match="--split_by class: a sample has a list of such values"):
        group_by("class", columns, "coco")


# --- classes ----------------------------------------------------------------------------------------


@given(total=st.integers(0, 10**9), shares=SHARES, stratum=st.text())
def test_numbers_are_as_near_to_the_shares_as_can_be(
    total: int, shares: SplitFractions, stratum: str
) -> None:
    """They add up, none is 1 or more away, and no one sample elsewhere would bring them nearer."""
    counts = apportion(stratum, total, shares, KeyHasher(0))
    exact = [total * share for _, share in shares.fractions]
    assert sum(counts) == total
    assert all(abs(count - share) < 1 for count, share in zip(counts, exact, strict=True))
    over = [count - share for count, share in zip(counts, exact, strict=True)]
    assert max(over) - min(over) <= 1  # else moving a sample from the one to the other would help


def test_odd_samples_of_many_classes_do_not_all_go_one_way() -> None:
    """Of 1,000 classes with five samples, about half give validation's tenth its one sample."""
    shares = fractions(train="0.9", validation="0.1")
    found = Counter(apportion(f"c{i}", 5, shares, KeyHasher(0))[1] for i in range(1000))
    assert found.keys() == {0, 1}
    assert 450 < found[1] < 550


@settings(max_examples=examples(60))
@given(total=st.integers(0, 3000), shares=SHARES, seed=st.integers(0, 9), order=st.randoms())
def test_a_class_is_cut_at_exact_numbers(
    total: int, shares: SplitFractions, seed: int, order: random.Random
) -> None:
    """Each split has its number, in the order of hashes, and the order of listing plays no part."""
    keys = [f"cat/{i}.jpg" for i in range(total)]
    splits = stratify(keys, shares, seed)
    counts = Counter(splits.values())
    hasher = KeyHasher(seed)
    expected = apportion("cat", total, shares, hasher)
    assert [counts[name] for name, _ in shares.fractions] == list(expected)
    by_rank = sorted(keys, key=lambda key: rank_of(key, hasher))
    names = [name for name, _ in shares.fractions]
    assert [splits[key] for key in by_rank] == [
        name for name, count in zip(names, expected, strict=True) for _ in range(count)
    ]
    order.shuffle(keys)
    assert stratify(keys, shares, seed) == splits


def test_a_class_whose_hashes_share_a_prefix_is_cut_among_them() -> None:
    """Two cuts in one prefix, and hashes that are equal but for the key."""
    ranks = [Rank(5, b"x", key) for key in "edcba"]
    cuts = find_cuts(Counter(rank.prefix for rank in ranks), [2, 2, 1])
    assert cuts == [Cut(0, 2), Cut(0, 4)]
    boundaries = find_boundaries(cuts, ranks)
    assert [rank.key for rank in boundaries] == ["c", "e"]
    assert "".join(split_behind(boundaries, rank, USUAL)[0] for rank in ranks) == "tvvtt"


def test_behind_the_last_sample_there_is_no_cut() -> None:
    """So a split without samples has none, wherever it stands."""
    assert find_cuts({3: 4}, [4, 0, 0]) == []
    assert find_cuts({3: 4}, [0, 4, 0]) == [Cut(3, 0)]
    assert find_cuts({3: 4}, [0, 0, 4]) == [Cut(3, 0), Cut(3, 0)]
    rank = Rank(3 << 54, b"", "a")
    assert split_behind([rank, rank], rank, USUAL) == "test"
    assert find_cuts({}, [0, 0, 0]) == []


def test_a_sample_is_divided_by_its_rarest_class() -> None:
    """Of two as rare, the first by name; without a class it is with its like."""
    counts = {"cat": 9, "dog": 4, "bird": 4}
    assert stratum_of("cat", {}) == "cat"
    assert stratum_of(("cat", "dog", "bird"), counts) == "bird"
    assert stratum_of(("cat",), counts) == "cat"
    assert stratum_of((), counts) == stratum_of(None, {}) == NO_CLASS


def test_what_has_no_classes_cannot_be_divided() -> None:
    """Neither numbers nor objects."""
    assert check_strata((schema.label_column("kind", schema.ColumnKind.BYTES),)) == 0
    with pytest.raises(UsageError, match="a column of classes is missing"):
        check_strata((schema.label_column("size", schema.ColumnKind.FLOAT),))
    with pytest.raises(UsageError, match="these contain objects of several classes"):
        check_strata(schema.object_columns(pixels=True))


# --- groups of several classes -----------------------------------------------------------------------

GROUPS = st.dictionaries(
    st.text(min_size=1, max_size=3),
    st.dictionaries(st.sampled_from(["cat", "dog", "bird"]), st.integers(1, 20), min_size=1),
    max_size=12,
)


def distance(
    groups: Mapping[str, Mapping[str, int]], splits: Mapping[str, str], shares: SplitFractions
) -> float:
    """(found - wanted)**2 / wanted, over all splits and classes."""
    totals: Counter[str] = Counter()
    found: Counter[tuple[str, str]] = Counter()
    for group, counts in groups.items():
        for name, number in counts.items():
            totals[name] += number
            found[splits[group], name] += number
    return sum(
        float((found[split, name] - total * share) ** 2 / (total * share))
        for split, share in shares.fractions
        for name, total in totals.items()
    )


@given(groups=GROUPS, shares=SHARES, order=st.randoms())
def test_no_group_alone_would_be_better_elsewhere(
    groups: dict[str, dict[str, int]], shares: SplitFractions, order: random.Random
) -> None:
    """Every group has one split, no single move brings the classes nearer, and order plays no part."""
    splits = divide_groups(groups, shares, KeyHasher(0))
    assert splits.keys() == groups.keys()
    here = distance(groups, splits, shares)
    for group, (name, _) in itertools.product(groups, shares.fractions):
        assert distance(groups, {**splits, group: name}, shares) > here - 1e-6
    items = list(groups.items())
    order.shuffle(items)
    assert divide_groups(dict(items), shares, KeyHasher(0)) == splits


def test_groups_of_one_sample_each_are_divided_exactly() -> None:
    """As classes without groups are."""
    groups = {f"P{i}": {"cat" if i % 4 else "dog": 1} for i in range(40)}
    splits = divide_groups(groups, USUAL, KeyHasher(0))
    found = Counter((splits[group], *counts) for group, counts in groups.items())
    assert found == {
        ("train", "cat"): 24,
        ("validation", "cat"): 3,
        ("test", "cat"): 3,
        ("train", "dog"): 8,
        ("validation", "dog"): 1,
        ("test", "dog"): 1,
    }
