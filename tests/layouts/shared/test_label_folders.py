"""Folders with a label file for each image."""

from __future__ import annotations

from pathlib import Path

import pytest

from beam_pipeline.core.errors import UsageError
from beam_pipeline.core.listing.filters import ImageRoot
from beam_pipeline.layouts.shared.label_folders import (
    holds_files,
    label_folders,
    shown,
)
from tests.pictures import write_files

WHAT = "label files (*.txt)"


@pytest.fixture
def folder(working_folder: Path) -> Path:
    """The working directory: two folders of label files and one of other files."""
    names = ("a/1.txt", "a/2.TXT", "a/.3.txt", "a/4.csv", "b/deep/5.txt", "c/6.csv")
    write_files(str(working_folder), dict.fromkeys(names, "x"))
    return working_folder


def test_folders_are_named_once_and_sorted(folder: Path) -> None:
    """However they were typed, they are absolute; one in a bucket is taken as it is."""
    assert label_folders(["b/deep", "a/", f"{folder}/a", "s3://x/labels/"], "*.txt", WHAT) == (
        ImageRoot(f"{folder}/a", ("*.txt",)),
        ImageRoot(f"{folder}/b/deep", ("*.txt",)),
        ImageRoot("s3://x/labels", ("*.txt",)),
    )


@pytest.mark.parametrize(
    ("path", "message"),
    [
        (" ", "--labels: an empty path"),
        ("gone", f"--labels gone does not exist; expected a folder of {WHAT}"),
        ("a/1.txt", f"--labels a/1.txt is a file; expected a folder of {WHAT}"),
        ("c", f"no {WHAT} in {{folder}}/c; expected one for each image, of its name"),
    ],
)
def test_a_folder_that_cannot_be_used_is_an_error(folder: Path, path: str, message: str) -> None:
    """It says what was found and what was expected."""
    with pytest.raises(UsageError) as caught:
        label_folders(["a", path], "*.txt", WHAT)
    assert str(caught.value) == message.format(folder=folder)


def test_a_pattern_says_how_deep_files_may_lie(folder: Path) -> None:
    """`*` stays in the folder, `**/` goes below it."""
    assert holds_files(ImageRoot(f"{folder}/a", ("*.txt",)))
    assert not holds_files(ImageRoot(f"{folder}/b", ("*.txt",)))
    assert holds_files(ImageRoot(f"{folder}/b", ("**/*.txt",)))


def test_a_path_is_shown_as_it_would_be_typed(folder: Path) -> None:
    """Relative where the person typed a relative one."""
    assert shown(f"{folder}/a/b", "a") == "a/b"
    assert shown(f"{folder}/a/b", f"{folder}/a") == f"{folder}/a/b"
    assert shown(f"{folder}/a/b", "~/a") == f"{folder}/a/b"
    assert shown("gs://bucket/a", "a") == "gs://bucket/a"
