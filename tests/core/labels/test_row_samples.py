"""Samples without a table of labels by image: rows, objects and names."""

from __future__ import annotations

import itertools
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_pipeline.core import dead_letters
from beam_pipeline.core.dataset.splits import IMAGE, GroupBy, SplitAssigner
from beam_pipeline.core.labels import join, meeting
from beam_pipeline.core.labels.name_pattern import NamePattern, name_pattern
from beam_pipeline.core.labels.samples import Crops, RowMerger, RowSamples
from beam_pipeline.core.labels.schema import Column, ColumnKind, object_column, object_columns
from beam_pipeline.core.labels.schema import ColumnKind as Kind
from beam_pipeline.core.packing import LabelBatch, chosen_rows
from beam_pipeline.core.records.sharding import SplitFractions
from beam_pipeline.core.references import ImageRef, LabelRow, SampleRef, image_of, row_key
from tests.profiles import examples

IMAGES = [ImageRef(key, f"/p/{key}", 10) for key in ("a.jpg", "b#1.jpg", "c/d.e.jpg", "c/x.jpg")]
NAMES = [*(image.key for image in IMAGES), "gone.jpg", ""]
HALVES = SplitFractions((("train", Fraction(1, 2)), ("test", Fraction(1, 2))))


def row(name: str, value: str, line: int = 0, split: str = "", problem: str = "") -> LabelRow:
    return LabelRow(name, (value,), split, "/l/t.csv", line, problem)


def joined(
    rows: list[LabelRow], samples: RowSamples, parts: int = 1, images: list[ImageRef] | None = None
) -> list[join.Joined]:
    """The outcome of each bucket of rows that travelled as in a job."""
    all_images = IMAGES if images is None else images
    named = samples.with_names(LabelBatch(rows))
    columns = [list(zip(*items, strict=True)) for items in (all_images, list(named))]
    buckets = [meeting.NameDivision(parts).numbers(c) if c else () for c in columns]
    merger = RowMerger(samples=samples, imageless=samples)
    outcomes = []
    for part in range(parts):
        chosen = [[i for i, n in enumerate(numbers) if n == part] for numbers in buckets]
        pair = [chosen_rows(c, i) if i else () for c, i in zip(columns, chosen, strict=True)]
        outcomes.append(join.join_bucket(*pair, merger))
    return outcomes


def keys_of(outcomes: list[join.Joined]) -> tuple[list[str], list[tuple[str, str, int]]]:
    """The keys of samples, and (key, reason, line) of dead letters, sorted."""
    samples = sorted(sample.key for part in outcomes for sample in part.all_samples())
    dead = sorted((d.key, d.reason, d.line) for part in outcomes for d in part.dead_letters)
    return samples, dead


ROWS = st.lists(
    st.builds(
        row,
        st.sampled_from(NAMES),
        st.sampled_from(["x", "y", "#", "a/b", "x.1"]),
        st.integers(1, 3),
        st.just(""),
        st.sampled_from(["", "", "", "column 'n': is empty"]),
    ),
    max_size=12,
)


@settings(max_examples=examples(200))
@given(rows=ROWS, ids=st.sampled_from([None, 0]), parts=st.integers(1, 5), data=st.data())
def test_rows_have_keys_of_their_own_in_any_order(
    rows: list[LabelRow], ids: int | None, parts: int, data: st.DataObject
) -> None:
    """Every image and row is accounted for, keys are unique, and no order or number of buckets matters."""
    samples = RowSamples(ids=ids, folder="/l/")
    outcomes = joined(rows, samples, parts)
    keys, dead = keys_of(outcomes)
    shuffled = data.draw(st.permutations(rows))
    assert keys_of(joined(shuffled, samples)) == (keys, dead)
    assert len(set(keys)) == len(keys)
    orphans = sum(part.orphan_rows for part in outcomes)
    further = sum(part.further_samples for part in outcomes)
    assert orphans == sum(row.name == "gone.jpg" for row in rows)
    assert len(IMAGES) + orphans + further == len(keys) + len(dead)
    without_rows = {image.key for image in IMAGES} - {row.name for row in rows}
    assert len(rows) + len(without_rows) == len(keys) + len(dead)
    assigned, _ = SplitAssigner(HALVES, 3, GroupBy(IMAGE)).assign(
        sample for part in outcomes for sample in part.all_samples()
    )
    for image, of_image in itertools.groupby(
        sorted(assigned, key=lambda sample: sample.uri), key=lambda sample: sample.uri
    ):
        of_image = list(of_image)
        if image:
            assert len({sample.split for sample in of_image}) == 1
            assert {image_of(sample.key) for sample in of_image} == {image.removeprefix("/p/")}


def test_rows_without_an_image_that_say_the_same() -> None:
    """They are numbered without ids, and lost to each other with ids, which must be unique."""
    rows = [row("", "x", line) for line in (5, 3, 3)]
    keys, dead = keys_of(joined(rows, RowSamples(folder="/l/"), images=[]))
    digest = keys[0].removeprefix("t.csv:")
    assert (keys, dead) == ([f"t.csv:{digest}{end}" for end in ("", "-1", "-2")], [])
    keys, dead = keys_of(joined(rows, RowSamples(ids=0, folder="/"), images=[]))
    assert keys == []
    assert dead == [
        (f"l/t.csv:x{end}", "duplicate_key", line) for end, line in (("", 3), ("-1", 3), ("-2", 5))
    ]


@pytest.mark.parametrize(
    ("rows", "group"),
    [
        ([row("a.jpg", "x", 2, "train"), row("a.jpg", "y", 3, "test")], None),
        ([row("a.jpg", "x", 2), row("a.jpg", "y", 3)], 0),
    ],
    ids=["splits", "groups"],
)
def test_rows_of_an_image_in_two_splits_are_left_out(
    rows: list[LabelRow], group: int | None
) -> None:
    """A model would be tested on an image that it was trained on; a row with a fault does not count."""
    broken = row("a.jpg", "z", 4, "validation", "column 'n': is empty")
    keys, dead = keys_of(joined([*rows, broken], RowSamples(group=group), images=IMAGES[:1]))
    assert keys == []
    assert dead == [
        ("a.jpg#0", "conflicting_labels", 2),
        ("a.jpg#1", "conflicting_labels", 3),
        ("a.jpg#2", "bad_label_value", 4),
    ]


def test_objects_become_samples() -> None:
    """Each has its box, class and values; regions of the image are gone; without objects there is a dead letter."""
    columns = (*object_columns(pixels=True), object_column("difficult", Kind.INT64))
    crops = Crops(columns)
    boxes = ((0.0, 0.0, 4.0, 4.0, 2), (1.0, 1.0, 3.0, 3.0, 3))
    sample = SampleRef("a.jpg", "/p/a.jpg", 10, "train", (boxes, ("cat", "dog"), (0, 1)))
    assert list(crops.of_image(sample)) == [
        sample._replace(key=f"a.jpg#{i}", labels=((boxes[i],), name, (i,)))
        for i, name in enumerate(("cat", "dog"))
    ]
    assert [c.feature for c in crops.cropped] == [
        "image/object/bbox",
        "image/class",
        "image/object/difficult",
    ]
    (letter,) = crops.of_image(sample._replace(labels=((), (), ())))
    assert (letter.key, letter.reason) == ("a.jpg", "unlabelled")


@given(image=st.text(), row_id=st.text())
def test_the_image_of_a_key(image: str, row_id: str) -> None:
    """Whatever marks are in the names of image and row."""
    assert image_of(row_key(image, row_id)) == image


# --- name pattern


def images(*keys: str) -> list[ImageRef]:
    return [ImageRef(key, f"/photos/{key}", 9) for key in keys]


def test_the_label_stands_first_and_other_groups_are_columns() -> None:
    """Texts, if nothing else is said; the group split is none of them."""
    pattern = r"(?P<camera>\d+)_(?P<split>\w)_(?P<label>.+)\.jpg"
    assert name_pattern(pattern, {"camera": ColumnKind.INT64}) == NamePattern(
        pattern,
        (
            Column("label", ColumnKind.CLASS, "image/class", required=True),
            Column("camera", ColumnKind.INT64, "label/camera"),
        ),
    )
    assert [column.name for column in name_pattern(pattern, {"camera": None}).columns] == ["label"]
    assert name_pattern("(?P<label>.+)", {"label": ColumnKind.FLOAT}).columns == (
        Column("label", ColumnKind.FLOAT, "image/label", required=True),
    )


def test_names_say_labels_and_splits() -> None:
    """The pattern is for all of the file's name; what has none of it is left out with the reason."""
    pattern = name_pattern(r"((?P<split>[a-z]+)-)?(?P<label>.+)_\d+\.jpg", {})
    joined = pattern.label(
        images("a/tawny_owl_1.jpg", "val-cat_2.jpg", "test/x_3.jpg", "cat_4.jpeg")
    )
    assert joined.samples == [
        SampleRef("a/tawny_owl_1.jpg", "/photos/a/tawny_owl_1.jpg", 9, "train", ("tawny_owl",)),
        SampleRef("val-cat_2.jpg", "/photos/val-cat_2.jpg", 9, "validation", ("cat",)),
        SampleRef("test/x_3.jpg", "/photos/test/x_3.jpg", 9, "test", ("x",)),
    ]
    assert joined.dead_letters == [
        dead_letters.DeadLetter(
            "join",
            "cat_4.jpeg",
            "/photos/cat_4.jpeg",
            "unlabelled",
            r"its name 'cat_4.jpeg' does not match --label_from "
            r"((?P<split>[a-z]+)-)?(?P<label>.+)_\d+\.jpg",
        )
    ]


def test_a_pattern_with_a_slash_is_for_the_whole_path() -> None:
    """So a folder can be part of the label."""
    pattern = name_pattern(r"(?P<label>[^/]+)/.*", {})
    joined = pattern.label(images("cat/1.jpg", "2.jpg"))
    assert [sample.labels for sample in joined.samples] == [("cat",)]
    assert [dead_letter.key for dead_letter in joined.dead_letters] == ["2.jpg"]


def test_a_group_that_is_not_of_its_kind_is_a_bad_value() -> None:
    """The group is named; one that took no part is empty."""
    pattern = name_pattern(
        r"(?P<label>[a-z]*)_(?P<age>\w+)?(?P<split>!)?\.jpg", {"age": ColumnKind.INT64}
    )
    joined = pattern.label(images("cat_x.jpg", "cat_.jpg", "_3.jpg", "cat_3!.jpg"))
    assert [(sample.key, sample.labels) for sample in joined.samples] == [
        ("cat_.jpg", ("cat", None))
    ]
    assert [
        (dead_letter.key, dead_letter.reason, dead_letter.message)
        for dead_letter in joined.dead_letters
    ] == [
        ("cat_x.jpg", "bad_label_value", "group 'age': 'x' is not an integer of 64 bits"),
        ("_3.jpg", "bad_label_value", "group 'label': is empty"),
        ("cat_3!.jpg", "bad_label_value", "group 'split': '!' names no split"),
    ]
