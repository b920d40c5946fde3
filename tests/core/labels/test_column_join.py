"""Joining by columns: the samples of the general way, or none where it has to decide."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_pipeline.core.labels.column_join import (
    images_in,
    join_columns_by_key,
    label_columns_by_folder,
)
from beam_pipeline.core.labels.join import AGREE, Joined, join_bucket, label_by_folder
from beam_pipeline.core.packed_batches import ImageBatch, LabelBatch
from beam_pipeline.core.packing import items_of
from beam_pipeline.core.references import ImageRef, LabelRow, SampleRef

KEYS = ["a.jpg", "cat/a.jpg", "train/b.jpg", "val/cat/c.jpg", "é.jpg", "x/../a.jpg"]
NAMES = [*KEYS, "a", "./a.jpg", "cat\\a.jpg", "/photos/a.jpg", "gs://b/a.jpg", "gone.jpg"]
IMAGES = st.lists(st.sampled_from(KEYS), min_size=1, max_size=5).map(
    lambda keys: [ImageRef(key, f"/photos/{key}", n, n % 2) for n, key in enumerate(keys)]
)
ROWS = st.lists(
    st.tuples(
        st.sampled_from(NAMES),
        st.sampled_from(["", "test"]),
        st.sampled_from(["", "", "", "", "bad"]),
        st.sampled_from([None, None, (3, 4), (0, 0)]),
    ),
    min_size=1,
    max_size=5,
).map(
    lambda rows: [
        LabelRow(name, ("cat", n), split, "/labels.csv", n + 2, problem, size)
        for n, (name, split, problem, size) in enumerate(rows)
    ]
)


@given(images=IMAGES, rows=ROWS)
def test_joined_by_columns_or_one_by_one_samples_are_the_same(
    images: list[ImageRef], rows: list[LabelRow]
) -> None:
    """Images that no row names are left to the general way."""
    found = join_columns_by_key(ImageBatch(images).columns(), LabelBatch(rows).columns())
    if found is None:
        return
    columns, without = found
    joined = Joined()
    for image in images_in(ImageBatch(images).columns(), without):
        joined.add(image, (), AGREE)
    expected = join_bucket(images, rows)
    assert sorted(items_of(SampleRef, columns)) == sorted(expected.samples)
    assert sorted(joined.dead_letters) == sorted(expected.dead_letters)
    assert expected.orphan_rows == expected.repeated_rows == 0


@pytest.mark.parametrize(
    ("keys", "names", "joins"),
    [
        (["a.jpg", "b.jpg"], ["b.jpg", "a.jpg"], True),
        (["a.jpg", "b.jpg"], ["b.jpg"], True),
        (["a.jpg", "b.jpg"], ["b.jpg", "b.jpg"], False),
        (["a.jpg", "a.jpg"], ["a.jpg"], False),
        (["a.jpg"], ["a"], False),
        (["cat/a.jpg"], ["a.jpg"], False),
        (["./a.jpg"], ["./a.jpg"], False),
        (["é.jpg"], ["é.jpg"], False),
    ],
)
def test_every_row_must_name_an_image_of_its_own_by_its_key(
    keys: list[str], names: list[str], joins: bool
) -> None:
    """In ASCII, and by nothing but its key."""
    images = ImageBatch(ImageRef(key, f"/{key}", 1) for key in keys).columns()
    rows = LabelBatch(LabelRow(name, ("cat",), "", "l.csv", 1) for name in names).columns()
    assert (join_columns_by_key(images, rows) is not None) is joins


@given(images=IMAGES)
def test_folders_say_the_same_by_columns(images: list[ImageRef]) -> None:
    """Class and split; an image in no class folder is left to the general way."""
    columns = label_columns_by_folder(ImageBatch(images).columns())
    expected = label_by_folder(images)
    assert (columns is None) is bool(expected.dead_letters)
    if columns is not None:
        assert list(items_of(SampleRef, columns)) == expected.samples


def test_members_of_archives_are_left_to_the_general_way() -> None:
    """Their aliases say class and split."""
    image = ImageRef("a.zip/cat/1.jpg", "/a.zip", 1, 0, ("cat/1.jpg",))
    row = LabelRow("a.zip/cat/1.jpg", ("cat",), "", "l.csv", 1)
    assert label_columns_by_folder(ImageBatch([image]).columns()) is None
    images, rows = ImageBatch([image]).columns(), LabelBatch([row]).columns()
    assert join_columns_by_key(images, rows) is None
