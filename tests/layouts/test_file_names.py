"""Labels in the names of images, whole conversions."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from beam_pipeline.cli import main
from tests.harness import NONE_BAD, convert, dead_letters_of, manifest_of, read_all, split_of_each
from tests.pictures import write_pictures

PATTERN = r"(?P<label>.+)_(?P<shot>\d+)\.jpg"
NAMES = ("tawny_owl_1.jpg", "tawny_owl_2.jpg", "night/cat_12.jpg", "test/cat_7.jpg", "notes.jpg")


@pytest.fixture
def named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with photos/, which is the working directory."""
    write_pictures(f"{tmp_path}/photos", NAMES)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_names_of_images_say_their_labels(named: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The class, a number, and the split of the folder; a name that does not match is left out."""
    argv = ("--label_from", PATTERN, "--columns", "shot:int", "--output", "out")
    assert convert("--images", "photos", NONE_BAD, *argv) == 0
    assert "Layout file_names: --label_from is given" in capsys.readouterr().out
    found = {
        key: [
            *features["image/class/text"],
            *features["image/class/label"],
            *features["label/shot"],
        ]
        for key, features in read_all("out").items()
    }
    assert found == {
        "tawny_owl_1.jpg": [b"tawny_owl", 1, 1],
        "tawny_owl_2.jpg": [b"tawny_owl", 1, 2],
        "night/cat_12.jpg": [b"cat", 0, 12],
        "test/cat_7.jpg": [b"cat", 0, 7],
    }
    assert split_of_each("out")["test/cat_7.jpg"] == "test"
    (dead_letter,) = dead_letters_of("out")
    assert (dead_letter["key"], dead_letter["reason"]) == ("notes.jpg", "unlabelled")
    assert dead_letter["message"] == f"its name 'notes.jpg' does not match --label_from {PATTERN}"
    assert manifest_of("out")["options"]["label_from"] == PATTERN


def test_two_folders_may_not_have_an_image_of_the_same_name(named: Path) -> None:
    """As with class folders: both are left out."""
    write_pictures("more", ["tawny_owl_1.jpg", "dog_3.jpg"])
    argv = ("--label_from", PATTERN, "--max_bad_fraction=1", "--output", "out")
    assert convert("--images", "photos", "more", *argv) == 0
    assert sorted(read_all("out")) == [
        *("dog_3.jpg", "night/cat_12.jpg", "tawny_owl_2.jpg", "test/cat_7.jpg"),
    ]


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--label_from", "(?P<label>"], "is not a regular expression: "),
        (["--label_from", r".*\.jpg"], r"'.*\\.jpg' lacks a named group; expected one such as"),
        (
            ["--label_from", "(?P<label>[[a-z]+)"],
            "'(?P<label>[[a-z]+)' may mean something else in a later Python: Possible nested set at "
            "position 11; write \\[ for a bracket",
        ),
        (["--label_from", "(?P<split>.+)"], "has only the group split; expected one called label"),
        (
            ["--label_from", PATTERN, "--columns", "size:int"],
            f"--columns: no group 'size' in --label_from {PATTERN}; its groups are label, shot",
        ),
        (
            ["--label_from", PATTERN, "--labels", "l.csv", "--layout", "file_names"],
            "--layout file_names takes labels from where the images are; leave out --labels",
        ),
        (["--layout", "file_names"], "--layout file_names needs --label_from"),
        (
            ["--label_from", PATTERN, "--layout", "class_folders"],
            "--label_from means nothing for the layout class_folders; it is for file_names",
        ),
    ],
)
def test_what_cannot_be_used_is_an_error(
    named: Path, argv: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before anything is written."""
    assert main(["convert", "--images", "photos", "--output", "out", *argv]) == 2
    assert message in capsys.readouterr().err
    assert not os.path.exists("out")


def test_a_pattern_that_matches_no_name_is_said(
    named: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the first name and the pattern."""
    assert convert("--images", "photos", "--label_from", "(?P<label>x)", "--output", "out") == 1
    assert (
        "Of the first: its name 'cat_12.jpg' does not match --label_from (?P<label>x)"
        in capsys.readouterr().err
    )
