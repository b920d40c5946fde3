"""Labelling and joining as tasks: by columns where they allow it, with the same outcome."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any

import pytest

from beam_pipeline.core.dataset.splits import GroupBy, SplitAssigner
from beam_pipeline.core.dataset.tally import Tally
from beam_pipeline.core.labels.samples import AGREE, KeepUnlabelled, RowMerger
from beam_pipeline.core.labels.schema import ColumnKind, label_column
from beam_pipeline.core.packing import pack
from beam_pipeline.core.records.sharding import SplitFractions
from beam_pipeline.core.references import ImageRef, LabelRow
from beam_pipeline.work import labels as label_work
from beam_pipeline.work.labels import Labelling, join_parts, label_images
from beam_pipeline.work.outcome import Outcome

IMAGES = [
    ImageRef(f"{folder}/{n}.jpg", f"/photos/{folder}/{n}.jpg", n)
    for folder in ("cat", "train/dog")
    for n in range(9)
]
ROWS = [
    LabelRow(image.key, (f"class {n % 3}",), "test" if n % 4 == 0 else "", "/labels.csv", n + 2)
    for n, image in enumerate(IMAGES[:-2])
]
SHARES = SplitFractions((("a", Fraction(1, 2)), ("b", Fraction(1, 2))))
FOLDER = GroupBy("folder")


class UnnamedCats:
    """Images that no row names are cats."""

    def row(self, image: ImageRef) -> LabelRow:
        return LabelRow(image.key, ("cat",), "", "", 0)

    def unread(self, uri: str, problem: str) -> LabelRow:
        return LabelRow(uri, ("cat",), "", uri, 0, problem)


def shown(label: Callable[[], Outcome]) -> Any:
    """Samples, dead letters and counts of an outcome."""
    outcome = label()
    samples = sorted(ref for batch in outcome.main for ref in batch)
    return samples, sorted(outcome.dead_letters), outcome.tally


@pytest.mark.parametrize(
    "splits",
    [
        SplitAssigner(None, 0),
        SplitAssigner(SHARES, 3),
        SplitAssigner(SHARES, 3, stratified=True),
        SplitAssigner(SHARES, 3, FOLDER),
    ],
)
@pytest.mark.parametrize("merger", [AGREE, RowMerger(unnamed=UnnamedCats())])
def test_by_columns_or_one_by_one_the_outcome_is_the_same(
    splits: SplitAssigner, merger: RowMerger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Samples, their splits, dead letters and counts."""
    labelling = Labelling(splits)
    label = partial(label_images, [pack(IMAGES[:5]), pack(IMAGES[5:])], None, labelling)
    join = partial(join_parts, [pack(IMAGES)], [pack(ROWS[3:]), pack(ROWS[:3])], merger, labelling)
    assert labelling.takes_columns is (splits.group_by is None)
    by_columns = shown(label), shown(join)
    assert len(by_columns[0][0]) == 18
    assert len(by_columns[1][0]) == (18 if merger.unnamed else 16)
    monkeypatch.setattr(Labelling, "takes_columns", False)
    assert by_columns == (shown(label), shown(join))


def test_unlabelled_images_may_be_kept() -> None:
    """Then samples are marked, and looked at one by one."""
    keep = KeepUnlabelled.of((label_column("label", ColumnKind.BYTES),))
    labelling = Labelling(SplitAssigner(None, 0), keep=keep)
    assert not labelling.takes_columns
    samples, dead_letters, tally = shown(
        partial(join_parts, [pack(IMAGES)], [pack(ROWS)], AGREE, labelling)
    )
    assert (len(samples), dead_letters, tally.unlabelled) == (18, [], 2)


def test_images_of_one_key_are_dead_letters_where_keys_may_repeat() -> None:
    """The others are labelled."""
    labelling = Labelling(SplitAssigner(None, 0))
    twice = ImageRef("cat/0.jpg", "/more/cat/0.jpg", 0)
    label = partial(label_images, [pack(IMAGES), pack([twice])], None, labelling, may_repeat=True)
    samples, dead_letters, _ = shown(label)
    assert (len(samples), [letter.key for letter in dead_letters]) == (17, ["cat/0.jpg"] * 2)


def test_large_buckets_become_several_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches of a bounded size."""
    monkeypatch.setattr(label_work, "_MOST_SAMPLES", 7)
    labelling = Labelling(SplitAssigner(None, 0))
    outcome = label_images([pack(IMAGES)], None, labelling)
    assert [len(batch) for batch in outcome.main] == [7, 7, 4]


def test_nothing_is_labelled_where_there_is_nothing() -> None:
    """Empty parts, and a bucket without images or rows."""
    labelling = Labelling(SplitAssigner(None, 0))
    assert shown(partial(label_images, [pack(())], None, labelling)) == ([], [], Tally())
    assert shown(partial(join_parts, [], [], AGREE, labelling)) == ([], [], Tally())
    _, dead_letters, tally = shown(partial(join_parts, [], [pack(ROWS)], AGREE, labelling))
    assert len(dead_letters) == tally.orphan_rows == 16


@pytest.mark.parametrize("packed", [1 << 24, 400, 40])
def test_large_buckets_are_worked_on_in_portions(
    packed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the same outcome: samples, dead letters of images and rows without the other, repeated keys, counts."""
    images = [
        ImageRef(f"{n % 50:03d}/{n}.jpg", f"/photos/{n % 50:03d}/{n}.jpg", n) for n in range(999)
    ]
    rows = [LabelRow(image.key, ("cat",), "", "/labels.csv", n) for n, image in enumerate(images)]
    labelling = Labelling(SplitAssigner(SHARES, 3))
    twice = [pack(images), pack(images[:9])]
    label = partial(label_images, twice, None, labelling, may_repeat=True)
    join = partial(
        join_parts, [pack(images[9:])], [pack(rows[5:]), pack(rows[:3])], AGREE, labelling
    )
    usual = shown(label), shown(join)
    assert [(len(samples), len(letters)) for samples, letters, _ in usual] == [(990, 18), (990, 7)]
    monkeypatch.setattr(label_work, "_MOST_PACKED", packed)
    monkeypatch.setattr(label_work, "_DIVIDED_AT_ONCE", packed)
    assert (shown(label), shown(join)) == usual
