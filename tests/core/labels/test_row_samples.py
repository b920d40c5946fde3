"""Samples without a table of labels by image: rows, objects and names."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_pipeline.core.dataset.splits import IMAGE, GroupBy, SplitAssigner
from beam_pipeline.core.labels.join import Joined
from beam_pipeline.core.labels.name_pattern import name_pattern
from beam_pipeline.core.labels.samples import Crops, RowMerger, RowSamples
from beam_pipeline.core.labels.schema import ColumnKind, object_column, object_columns
from beam_pipeline.core.packing import LabelBatch
from beam_pipeline.core.records.sharding import SplitFractions
from beam_pipeline.core.references import ImageRef, LabelRow, SampleRef, image_of, row_key
from tests.core.labels.fixtures import joined
from tests.profiles import examples
from tests.rows import in_rows

IMAGES = [ImageRef(key, f"/p/{key}", 10) for key in ("a.jpg", "b#1.jpg", "c/d.e.jpg", "c/x.jpg")]
HALVES = SplitFractions((("train", Fraction(1, 2)), ("test", Fraction(1, 2))))
NO_VALUE = "column 'n': is empty"


def row(name: str, value: str, line: int = 0, split: str = "", problem: str = "") -> LabelRow:
    return LabelRow(name, (value,), split, "/l/t.csv", line, problem)


def sampled(
    rows: Sequence[LabelRow],
    samples: RowSamples,
    images: Sequence[ImageRef] = IMAGES,
    buckets: int = 1,
) -> Joined:
    merger = RowMerger(samples=samples, imageless=samples)
    return joined(images, samples.with_names(LabelBatch(rows)), merger, buckets)


def keys_of(found: Joined) -> tuple[list[str], list[tuple[str, str, int]]]:
    """The keys of samples, and (key, reason, line) of dead letters."""
    letters = [(letter.key, letter.reason, letter.line) for letter in found.dead_letters]
    return sorted(sample.key for sample in found.samples), letters


@settings(max_examples=examples(200))
@given(
    rows=st.lists(
        st.builds(
            row,
            st.sampled_from([*(image.key for image in IMAGES), "gone.jpg", ""]),
            st.sampled_from(["x", "y", "#", "a/b", "x.1"]),
            st.integers(1, 3),
            st.just(""),
            st.sampled_from(["", "", "", NO_VALUE]),
        ),
        max_size=12,
    ),
    ids=st.sampled_from([None, 0]),
    buckets=st.integers(1, 5),
    data=st.data(),
)
def test_rows_have_keys_of_their_own_in_any_order(
    rows: list[LabelRow], ids: int | None, buckets: int, data: st.DataObject
) -> None:
    """Every image and row is accounted for, keys are unique, and no order or number of buckets matters."""
    samples = RowSamples(ids=ids, folder="/l/")
    found = sampled(rows, samples, buckets=buckets)
    keys, dead = keys_of(found)
    assert keys_of(sampled(data.draw(st.permutations(rows)), samples)) == (keys, dead)
    assert len(set(keys)) == len(keys)
    assert found.orphan_rows == sum(row.name == "gone.jpg" for row in rows)
    assert len(IMAGES) + found.orphan_rows + found.further_samples == len(keys) + len(dead)
    without_rows = {image.key for image in IMAGES} - {row.name for row in rows}
    assert len(rows) + len(without_rows) == len(keys) + len(dead)
    splits = defaultdict(set)
    for sample in SplitAssigner(HALVES, 3, GroupBy(IMAGE)).assign(found.samples)[0]:
        if sample.uri:
            splits[f"/p/{image_of(sample.key)}"].add((sample.uri, sample.split))
    for uri, of_image in splits.items():
        assert [found_at for found_at, _ in of_image] == [uri]


def test_rows_without_an_image_that_say_the_same() -> None:
    """They are numbered without ids, and lost to each other with ids, which must be unique."""
    rows = [row("", "x", line) for line in (5, 3, 3)]
    keys, dead = keys_of(sampled(rows, RowSamples(folder="/l/"), []))
    digest = keys[0].removeprefix("t.csv:")
    assert (keys, dead) == ([f"t.csv:{digest}{end}" for end in ("", "-1", "-2")], [])
    letters = [("", 3), ("-1", 3), ("-2", 5)]
    assert keys_of(sampled(rows, RowSamples(ids=0, folder="/"), [])) == (
        [],
        [(f"l/t.csv:x{end}", "duplicate_key", line) for end, line in letters],
    )


@pytest.mark.parametrize(("splits", "group"), [(("train", "test"), None), (("", ""), 0)])
def test_rows_of_an_image_in_two_splits_are_left_out(splits: Any, group: int | None) -> None:
    """Or two groups: a model would be tested on what it was trained on; a row with a fault does not count."""
    rows = [row("a.jpg", "x", 2, splits[0]), row("a.jpg", "y", 3, splits[1])]
    rows.append(row("a.jpg", "z", 4, "validation", NO_VALUE))
    assert keys_of(sampled(rows, RowSamples(group=group), IMAGES[:1])) == (
        [],
        [
            ("a.jpg#0", "conflicting_labels", 2),
            ("a.jpg#1", "conflicting_labels", 3),
            ("a.jpg#2", "bad_label_value", 4),
        ],
    )


def test_objects_become_samples() -> None:
    """Each has its box, class and values; regions of the image are gone; without objects there is a dead letter."""
    columns = (*object_columns(pixels=True), object_column("difficult", ColumnKind.INT64))
    crops = Crops(columns)
    boxes = ((0.0, 0.0, 4.0, 4.0, 2), (1.0, 1.0, 3.0, 3.0, 3))
    sample = SampleRef("a.jpg", "/p/a.jpg", 10, "train", (boxes, ("cat", "dog"), (0, 1)))
    assert list(crops.of_image(sample)) == [
        sample._replace(key=f"a.jpg#{i}", labels=((boxes[i],), name, (i,)))
        for i, name in enumerate(("cat", "dog"))
    ]
    features = ["image/object/bbox", "image/class", "image/object/difficult"]
    assert [column.feature for column in crops.cropped] == features
    (letter,) = crops.of_image(sample._replace(labels=((), (), ())))
    assert (letter.key, letter.reason) == ("a.jpg", "unlabelled")


@given(image=st.text(), row_id=st.text())
def test_the_image_of_a_key(image: str, row_id: str) -> None:
    """Whatever marks are in the names of image and row."""
    assert image_of(row_key(image, row_id)) == image


# --- names that are labels ----------------------------------------------------------------------


@in_rows
def test_the_groups_of_a_pattern_are_columns(pattern: str, kinds: Any, columns: Any) -> None:
    """The label stands first; others are texts, if nothing else is said; the group split is none of them."""
    chosen = {name: kind and ColumnKind(kind) for name, kind in kinds.items()}
    found = name_pattern(pattern, chosen)
    assert found.pattern == pattern
    assert [(c.name, c.kind, c.feature, c.required) for c in found.columns] == columns


@in_rows
def test_names_say_labels_and_splits(
    pattern: str, kinds: Any, keys: str, samples: Any, letters: Any
) -> None:
    """The pattern is for all of the file's name, or of its path if it has a slash."""
    chosen = {name: ColumnKind(kind) for name, kind in kinds.items()}
    refs = [ImageRef(key, f"/p/{key}", 9) for key in keys.split()]
    found = name_pattern(pattern, chosen).label(refs)
    assert found.samples == [SampleRef(key, f"/p/{key}", 9, *more) for key, *more in samples]
    assert found.dead_letters == [
        (stage, key, f"/p/{key}", reason, message, "", 0) for stage, key, reason, message in letters
    ]
