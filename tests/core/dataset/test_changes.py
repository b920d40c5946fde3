"""Changes between data sets: of samples, of shards, and in their file."""

from __future__ import annotations

import json

import pytest

from beam_pipeline.core.dataset.changes import (
    NO_CHANGES,
    SampleChanges,
    ShardFate,
    changes_file,
    compare_samples,
    parse_changes,
    samples_between,
    shards_meeting,
    written_samples,
)
from beam_pipeline.core.dataset.receipts import Receipt, ShardInputs
from beam_pipeline.core.dead_letters import DeadLetter
from beam_pipeline.core.errors import ConversionError
from beam_pipeline.core.records.sharding import (
    KeyHasher,
    ShardInfo,
    ShardPlan,
    ShardSpec,
    shard_of,
)
from beam_pipeline.core.records.tfrecord import TFRecordFormat
from beam_pipeline.core.references import SampleRef

A = SampleRef("a", "/old/a", 3, "train", ("cat",), version=1)


@pytest.mark.parametrize(
    ("then", "now", "changed", "relabelled"),
    [
        (A, A._replace(uri="/new/a", origin="labels2.csv"), False, False),
        (A, A._replace(version=2), True, False),
        (A, A._replace(size=4), True, False),
        (A, A._replace(split="test"), True, False),
        (A, A._replace(labels=("dog",)), False, True),
        (A, A._replace(version=2, labels=("dog",)), True, True),
        (A._replace(labels=(float("nan"),)), A._replace(labels=(float("nan"),)), False, False),
        (
            A._replace(labels=(((0.0, 0.0, 1.0, 1.0, 4),), ("x",))),
            A._replace(labels=(((0.0, 0.0, 1.0, 1.0, 9),), ("x",))),
            False,
            False,
        ),
        (
            A._replace(labels=(((0.0, 0.0, 1.0, 1.0, 4),),)),
            A._replace(labels=(((0.0, 0.5, 1.0, 1.0, 4),),)),
            False,
            True,
        ),
    ],
)
def test_a_sample_changes_with_its_image_or_its_labels(
    then: SampleRef, now: SampleRef, changed: bool, relabelled: bool
) -> None:
    """Where files lie does not count, nor the line of a box in its table."""
    keys = (("a",) if changed else (), ("a",) if relabelled else ())
    assert compare_samples([then], [now]) == SampleChanges((), (), *keys)


def test_samples_of_one_side_alone_are_added_or_removed() -> None:
    """Sorted by key."""
    after = [A._replace(key=key) for key in ("d", "a", "c")]
    before = [A._replace(key=key) for key in ("z", "a", "y")]
    found = compare_samples(before, after)
    assert found == SampleChanges(added=("c", "d"), removed=("y", "z"))
    assert found.counts == {"added": 2, "removed": 2, "changed": 0, "relabelled": 0}
    assert found.summary == "2 added, 2 removed"
    assert NO_CHANGES.summary == "no changes"


def test_a_sample_that_left_one_part_for_another_has_changed() -> None:
    """Shard by shard, it was removed and added."""
    parts = [SampleChanges(added=("a", "b")), SampleChanges(removed=("b", "c"), changed=("d",))]
    assert SampleChanges.sum_of(parts) == SampleChanges(("a",), ("c",), ("b", "d"))
    assert SampleChanges.sum_of([]) == NO_CHANGES


def _plan(of: int) -> ShardPlan:
    return ShardPlan("d", (("test", 2), ("train", of)), TFRecordFormat())


@pytest.mark.parametrize(
    ("number", "of", "others", "meeting"),
    [
        (1, 2, 4, [2, 3]),
        (1, 2, 3, [1, 2]),
        (0, 3, 1, [0]),
        (2, 4, 4, [2]),
        (3, 7, 5, [2]),
        (1, 2, 7, [3, 4, 5, 6]),
    ],
)
def test_shards_meet_those_with_common_hashes(
    number: int, of: int, others: int, meeting: list[int]
) -> None:
    """Of the same split."""
    spec = ShardSpec("train", number, of, "x")
    found = shards_meeting(spec, _plan(others))
    assert [(other.split, other.number) for other in found] == [("train", n) for n in meeting]


def test_no_shard_meets_one_of_a_new_split() -> None:
    """An earlier data set without the split has none."""
    assert shards_meeting(ShardSpec("validation", 0, 1, "x"), _plan(4)) == []


def _receipt(spec: ShardSpec, keys: list[str], dead: tuple[str, ...] = ()) -> Receipt:
    refs = [A._replace(key=key) for key in keys]
    letters = [DeadLetter("check", key, "/x", "not_an_image", "no") for key in dead]
    info = ShardInfo(spec.split, spec.number, spec.file_name, len(keys) - len(dead), 9, 0, ())
    return Receipt(ShardInputs(spec, refs, {}, {}), info, letters)


def test_dead_letters_are_no_samples() -> None:
    """A shard's receipt lists them, too."""
    receipt = _receipt(ShardSpec("train", 0, 1, "x"), ["a", "b"], dead=("b",))
    assert [ref.key for ref in written_samples(receipt)] == ["a"]


def test_samples_are_picked_from_shards_that_are_cut_elsewhere() -> None:
    """All of them together are in one range or another, once."""
    hasher = KeyHasher(0)
    keys = [f"{i}.jpg" for i in range(30)]
    receipts = [
        _receipt(spec, [key for key in keys if shard_of(hasher.order(key), 3) == spec.number])
        for spec in _plan(3).specs[2:]
    ]
    picked = [
        [ref.key for ref in samples_between(receipts, spec, hasher)] for spec in _plan(2).specs[2:]
    ]
    assert sorted(key for part in picked for key in part) == sorted(keys)
    assert picked[0] == [key for key in picked[0] if shard_of(hasher.order(key), 2) == 0]


def test_the_file_adds_shards_up() -> None:
    """And is read back."""
    shards = [
        ShardFate(NO_CHANGES, True, 100),
        ShardFate(SampleChanges(added=("a",)), False, 20, ("x is damaged",)),
    ]
    gone = SampleChanges(removed=("z",))
    content = changes_file("gs://sets/1", shards, gone=gone, notes=["1 new class: 3 bee"])
    assert content == {
        "format": "beam-tfrecord-changes",
        "format_version": 1,
        "since": "gs://sets/1",
        "samples": {"added": 1, "removed": 1, "changed": 0, "relabelled": 0},
        "shards": {"reused": 1, "written": 1},
        "bytes": {"reused": 100, "written": 20},
        "notes": ["1 new class: 3 bee", "x is damaged"],
    }
    assert parse_changes(json.dumps(content).encode(), "x") == {
        **content,
        "notes": tuple(content["notes"]),
    }


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b'{"format": "mine", "format_version": 1}',
        b'{"format": "beam-tfrecord-changes", "format_version": 1, "samples": 3}',
        b'{"format": "beam-tfrecord-changes", "format_version": 1}',
        b"\xff",
    ],
)
def test_another_file_is_none(data: bytes) -> None:
    """The error names it."""
    with pytest.raises(ConversionError, match=r"^out/changes\.json does not list"):
        parse_changes(data, "out/changes.json")
