"""Where images and rows meet, and how the largest bucket grows where all images share a name."""

from __future__ import annotations

from collections import Counter

import pytest

from beam_pipeline.core.labels.meeting import (
    MOST_BARE,
    BareNames,
    ByFolder,
    bucket_of,
)

BY_FOLDER = ByFolder.below(["/data/photos", "gs://pets"])
NONE = BareNames()


@pytest.mark.parametrize(
    ("key", "row"),
    [
        ("0001/rgb.png", "0001/rgb"),
        ("0001/rgb.png", "/data/photos/0001/rgb.png"),
        ("0001/rgb.png", "..\\photos\\0001\\rgb.png"),
        ("rgb.png", "photos/rgb.png"),
        ("rgb.png", "gs://pets/rgb.png"),
        ("v1.2/rgb.png", "v1.2/rgb.png"),
    ],
)
def test_an_image_meets_the_rows_that_name_its_folder(key: str, row: str) -> None:
    """In any form that a row may name it; an image of another folder is not there."""
    buckets = 1 << 30
    found = BY_FOLDER.bucket_of(key, buckets, NONE)
    assert BY_FOLDER.bucket_of(row, buckets, NONE) == found
    assert BY_FOLDER.bucket_of("0002/rgb.png", buckets, NONE) != found


@pytest.mark.parametrize("name", ["rgb.png", "photos/rgb.png", "./rgb.png", "../rgb.png", "a//rgb"])
def test_a_bare_name_brings_all_images_of_that_name_together(name: str) -> None:
    """Images of other names still meet by folder."""
    bare = BY_FOLDER.bare_names([name, "0001/depth.png"])
    assert bare == BareNames(frozenset({"rgb"}))
    rgb = {BY_FOLDER.bucket_of(key, 1 << 30, bare) for key in (name, "0001/rgb.png", "0002/rgb")}
    depth = {BY_FOLDER.bucket_of(key, 1 << 30, bare) for key in ("0001/depth.png", "0002/depth")}
    assert (len(rgb), len(depth)) == (1, 2)


def test_with_many_bare_names_all_meet_by_name() -> None:
    """Names that differ divide well, and the names are no longer kept."""
    few = BY_FOLDER.bare_names(f"{n}.jpg" for n in range(MOST_BARE))
    assert (len(few.names), few.too_many) == (MOST_BARE, False)
    many = BareNames(too_many=True)
    assert BY_FOLDER.bare_names(f"{n}.jpg" for n in range(MOST_BARE + 1)) == many
    assert BareNames.sum_of([few, BareNames(frozenset({"more"}))]) == many
    assert BareNames.sum_of([few, many]) == BareNames.sum_of([many]) == many
    assert BareNames.sum_of([]) == NONE
    assert BY_FOLDER.bucket_of("0001/rgb.png", 999, many) == bucket_of("rgb.png", 999)


@pytest.mark.parametrize(
    "count",
    [10_000, 100_000, pytest.param(1_000_000, marks=pytest.mark.slow)],
)
def test_the_largest_bucket_has_its_share_of_images_of_one_name(count: int) -> None:
    """By name alone, one bucket has them all."""
    buckets = count // 100
    by_folder = Counter(BY_FOLDER.bucket_of(f"{n:07}/rgb.png", buckets, NONE) for n in range(count))
    assert max(by_folder.values()) < 200
    assert len({bucket_of(f"{n:07}/rgb.png", buckets) for n in range(100)}) == 1
