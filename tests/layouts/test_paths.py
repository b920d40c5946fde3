"""From typed paths to roots of images and files of labels."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from beam_pipeline.core.errors import UsageError
from beam_pipeline.core.listing.filters import ImageRoot
from beam_pipeline.layouts.paths import image_roots, label_files
from tests.layouts.bucket import Bucket
from tests.pictures import write_files


@pytest.fixture
def folder(working_folder: Path) -> Path:
    """The working directory, with photographs and tables in it."""
    names = ("photos/cat/1.jpg", "photos/[1].jpg", "2.jpg", "a.csv", "tables/b.csv", "tables/c.txt")
    write_files(str(working_folder), dict.fromkeys(names, "x"))
    return working_folder


@pytest.mark.parametrize(
    ("path", "root", "patterns"),
    [
        ("photos", "photos", ()),
        ("photos/", "photos", ()),
        ("photos/**", "photos", ()),
        ("photos/*.jpg", "photos", ("*.jpg",)),
        ("photos/cat/../*/*.jpg", "photos", ("*/*.jpg",)),
        ("photos/[1].jpg", "photos", ("[[]1].jpg",)),
        ("2.jpg", "", ("2.jpg",)),
    ],
)
def test_a_local_path_is_a_root_and_perhaps_a_pattern(
    folder: Path, path: str, root: str, patterns: tuple[str, ...]
) -> None:
    """A folder is listed whole; a file is a pattern that matches it alone, whatever its name."""
    assert image_roots([path]) == (ImageRoot(str(folder / root), patterns),)


@pytest.mark.parametrize(
    ("path", "root", "patterns"),
    [
        ("gs://pets/photos/", "gs://pets/photos", ()),
        ("gs://pets/photos/**", "gs://pets/photos", ()),
        ("gs://pets/photos/*.jpg", "gs://pets/photos", ("*.jpg",)),
        ("gs://pets/photos/1.jpg", "gs://pets/photos", ("1.jpg",)),
        ("gs://pets", "gs://pets", ()),
    ],
)
def test_a_path_in_a_bucket_is_told_by_its_name(
    path: str, root: str, patterns: tuple[str, ...]
) -> None:
    """Nothing is asked of the bucket: what ends like an image is one, all else is a folder."""
    assert image_roots([path]) == (ImageRoot(root, patterns),)


def test_patterns_of_one_folder_are_one_root(folder: Path) -> None:
    """They are sorted, each once; a folder that is also named whole needs none."""
    labels = frozenset({"/x.csv"})
    found = image_roots(["photos/*.png", "photos/*.jpg", "photos/*.png"], labels)
    assert found == (ImageRoot(f"{folder}/photos", ("*.jpg", "*.png"), labels),)
    assert image_roots(["photos/*.png", "photos"]) == (ImageRoot(f"{folder}/photos"),)


@pytest.mark.parametrize(
    ("paths", "message"),
    [
        (["  "], "--images: an empty path"),
        (["gone"], "--images gone: no such file or folder"),
        (["gone/*.jpg"], "--images gone/*.jpg: no folder {folder}/gone"),
        (
            ["photos/cat", "photos"],
            "--images: {folder}/photos/cat is inside {folder}/photos, so its images could be listed "
            "twice; name only one of the two, or patterns below the same folder",
        ),
    ],
)
def test_images_that_cannot_be_used_are_an_error(
    folder: Path, paths: list[str], message: str
) -> None:
    """It names the path."""
    with pytest.raises(UsageError) as caught:
        image_roots(paths)
    assert str(caught.value) == message.format(folder=folder)


def test_label_files_are_named_once_and_sorted(folder: Path) -> None:
    """By paths and globs, local ones and those in a bucket."""
    scheme = f"{Bucket.scheme()}://"
    assert label_files(["tables/*.csv", "a.csv", "./a.csv", "**/b.csv"]) == [
        f"{folder}/a.csv",
        f"{folder}/tables/b.csv",
    ]
    assert label_files([f"{scheme}{folder}/tables/*", "gs://pets/labels.csv"]) == [
        f"{scheme}{folder}/tables/b.csv",
        f"{scheme}{folder}/tables/c.txt",
        "gs://pets/labels.csv",
    ]


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("gone.csv", "--inventory gone.csv: no such file"),
        ("gone/*.csv", "--inventory gone/*.csv: no such file"),
        ("tables", "--inventory tables: {folder}/tables is a folder; expected a CSV file"),
        ("t*", "--inventory t*: {folder}/tables is a folder; expected a CSV file"),
    ],
)
def test_label_files_that_cannot_be_used_are_an_error(
    folder: Path, path: str, message: str
) -> None:
    """It names the option and the path as typed."""
    with pytest.raises(UsageError, match=f"^{re.escape(message.format(folder=folder))}$"):
        label_files(["a.csv", path], "--inventory")
