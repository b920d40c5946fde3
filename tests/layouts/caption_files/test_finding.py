"""Captions are found by their names, and told from labels of objects by their content."""

from __future__ import annotations

from pathlib import Path

import pytest

from beam_pipeline.layouts.caption_files import (
    Captions,
    is_of_numbers,
    look_for_captions,
)
from tests.layouts import bucket
from tests.pictures import write_files


def found_in(folder: Path, *files: str) -> Captions:
    """What is found in a folder of empty files."""
    write_files(str(folder), dict.fromkeys(files, ""))
    return look_for_captions([str(folder)])


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("0 0.5 0.5 0.25 0.25", True),
        (
            "Car 0.00 0 -1.58 587.01 173.33 614.12 200.12 1.65 1.67 3.64 -0.65 1.71 46.70 -1.59",
            True,
        ),
        ("10.0, 20.0, 30.0, 20.0, 30.0, 40.0, 10.0, 40.0, plane, 0", True),
        ("7", True),
        ("1girl, solo, 2 cats", False),
        ("3 cats", False),
        ("nan and infinity", False),
        ("", False),
    ],
)
def test_lines_of_labels_are_mostly_numbers(line: str, expected: bool) -> None:
    """In all formats; words that Python would read as numbers are words."""
    assert is_of_numbers(line) is expected


def test_a_caption_has_the_name_of_an_image_in_its_folder(tmp_path: Path) -> None:
    """Dots are part of names; notes and lists of classes are no captions, even beside such images."""
    found = found_in(
        tmp_path,
        *("a.jpg", "a.txt", "v1.5.PNG", "v1.5.TXT", "v1.txt", "b/c.jpg", "c.txt", "b/a.txt"),
        *("README.txt", "readme.jpg", "labels.txt", "labels.png", ".d.jpg", ".d.txt"),
    )
    assert found.uris == {".txt": [f"{tmp_path}/a.txt", f"{tmp_path}/v1.5.TXT"], ".caption": []}
    assert (found.images, found.ending, found.cover_images) == (5, ".txt", False)


def test_captions_may_lie_in_a_folder_of_their_own(tmp_path: Path) -> None:
    """By the images' names alone."""
    write_files(str(tmp_path), dict.fromkeys(["i/x/a.jpg", "i/b.jpg", "t/a.txt", "t/z.txt"], ""))
    found = look_for_captions([f"{tmp_path}/i"], [f"{tmp_path}/t"])
    assert found.uris[".txt"] == [f"{tmp_path}/t/a.txt"]
    assert found.images == 2


def test_the_ending_is_that_of_most_captions(tmp_path: Path) -> None:
    """If half of the images have both, the other one is told, too."""
    names = [f"{i}.jpg" for i in range(4)] + [f"{i}.caption" for i in range(4)]
    found = found_in(tmp_path, *names, "0.txt")
    assert (found.ending, found.second_ending, found.cover_images) == (".caption", "", True)
    assert found_in(tmp_path, "1.txt").second_ending == ".txt"
    assert Captions().ending == ""
    assert not Captions().cover_images


def test_json_beside_a_caption_is_found(tmp_path: Path) -> None:
    """Other JSON is none of an image's."""
    found = found_in(tmp_path, "a.jpg", "a.txt", "a.json", "00000_stats.json", "b.jpg", "b.txt")
    assert found.with_fields == [f"{tmp_path}/a.txt"]


@pytest.mark.parametrize(
    ("contents", "expected"),
    [
        (["a dog", "", "two\nlines"], True),
        (["", "\n"], False),
        (["0 0.5 0.5 0.1 0.1\n", "", "0 0.5 0.5 0.1 0.1\n1 0.2 0.2 0.1 0.1"], False),
        (["a dog"] * 4 + ["3"], False),
        (["a dog"] * 19 + ["1999"], True),
        (["\ufeff一只狗"], True),
    ],
)
def test_some_captions_are_read(contents: list[str], expected: bool, tmp_path: Path) -> None:
    """Nearly all of those that are not empty have to hold words."""
    write_files(str(tmp_path), {f"{i}.jpg": "" for i in range(len(contents))})
    write_files(str(tmp_path), {f"{i}.txt": text for i, text in enumerate(contents)})
    assert look_for_captions([str(tmp_path)]).are_texts() is expected


def test_a_bucket_is_looked_at_by_its_names(tmp_path: Path) -> None:
    """As a folder on this machine."""
    assert bucket.Bucket.scheme() == "bucket"
    files = ("a/0.jpg", "a/0.caption", "a/0.json", "a/1.jpg", "b/1.caption")
    write_files(str(tmp_path), dict.fromkeys(files, "x"))
    found = look_for_captions([f"bucket://{tmp_path}"])
    assert found.uris[".caption"] == [f"bucket://{tmp_path}/a/0.caption"] == found.with_fields
    assert found.images == 2
