"""A folder a class: splits above, classes in classes, ids in numeric order or from the names."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from beam_pipeline.cli import main
from beam_pipeline.layouts.class_folders import ClassFolders
from beam_pipeline.layouts.layout import SourceOptions
from tests.harness import NONE_BAD, convert, dead_letters_of, manifest_of, read_all
from tests.layouts.make_tables import make_class_folders
from tests.pictures import write_pictures


@pytest.fixture
def folders(working_folder: Path) -> Path:
    """A folder with pets/, cars/ and digits/ in it, which is the working directory."""
    make_class_folders(str(working_folder))
    return working_folder


def test_groups_by_folder_are_whole_classes(folders: Path) -> None:
    """Which hardly anybody wants, so it is asked before anything is read."""
    layout = ClassFolders()
    assert layout.open(SourceOptions(images=("pets",))).questions == ()
    (question,) = layout.open(SourceOptions(images=("pets",), split_by="folder")).questions
    assert question.reason.startswith("--split_by folder puts whole classes into one split")


def classes_of(folder: str) -> dict[str, tuple[int, str]]:
    """source_id -> (id, text) of every example."""
    return {
        key: (features["image/class/label"][0], features["image/class/text"][0].decode())
        for key, features in read_all(folder).items()
    }


NUMBERS = {
    (("0", 0), ("1", 1), ("2", 2), ("10", 3)): (
        "  note: class names are integers and get other ids: 0 -> 0, 1 -> 1, 2 -> 2, 10 -> 3; they "
        "are sorted as numbers, and --label_order code_point sorts them as text; --class_ids keep "
        "writes the integers themselves"
    ),
    (("0", 0), ("1", 1), ("10", 2), ("2", 3)): (
        "  note: class names are integers and get other ids: 0 -> 0, 1 -> 1, 10 -> 2, 2 -> 3; they "
        "are sorted as text, and --label_order numeric sorts them as numbers; --class_ids keep writes "
        "the integers themselves"
    ),
    (("0", 1), ("1", 2), ("2", 3), ("10", 4)): (
        "  note: class names are integers and get other ids: 0 -> 1, 1 -> 2, 2 -> 3, 10 -> 4; they "
        "are sorted as numbers, and --label_order code_point sorts them as text; --class_ids keep "
        "writes the integers themselves"
    ),
}


"""(class, id) of each -> the line of the summary."""


@pytest.mark.parametrize(
    ("options", "ids"),
    [
        ([], {"0": 0, "1": 1, "2": 2, "10": 3}),
        (["--label_order=code_point"], {"0": 0, "1": 1, "10": 2, "2": 3}),
        (["--label_order=numeric"], {"0": 0, "1": 1, "2": 2, "10": 3}),
        (["--label_order=numeric", "--label_base=1"], {"0": 1, "1": 2, "2": 3, "10": 4}),
        (["--class_ids=keep"], {"0": 0, "1": 1, "2": 2, "10": 10}),
    ],
)
def test_ids_of_classes_that_are_numbers(
    folders: Path, options: list[str], ids: dict[str, int], capsys: pytest.CaptureFixture[str]
) -> None:
    """By the order of numbers or of texts, which is said, or as the folders are called."""
    assert convert("--images", "digits", "--output", "out", "--writers=0", *options) == 0
    assert classes_of("out") == {
        f"{name}/{i}.png": (label, name) for name, label in ids.items() for i in range(4)
    }
    classes = manifest_of("out")["classes"]
    assert [(c["name"], c["id"], c["examples"]) for c in classes] == [
        (name, label, 4) for name, label in sorted(ids.items(), key=lambda item: item[1])
    ]
    said = [line for line in capsys.readouterr().out.splitlines() if "integers" in line]
    assert said == ([NUMBERS[tuple(ids.items())]] if tuple(ids.items()) in NUMBERS else [])
    gaps = ids["10"] == 10
    assert ("labels.txt" in os.listdir("out")) == (not gaps)
    assert main(["verify", "out"]) == 0


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("cat", "--class_ids keep: class 'cat' is not an integer, so it cannot be an id"),
        ("1/2", "--class_ids keep: class '1/2' is not an integer, so it cannot be an id"),
        ("01", "--class_ids keep: classes '01' and '1' are the same integer"),
    ],
)
def test_a_folder_that_is_no_integer_cannot_be_an_id(
    folders: Path, name: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The run ends with what to do, and without a manifest."""
    write_pictures("digits", [f"{name}/x.jpg"])
    argv = ["--images", "digits", "--output", "out", "--writers=0", "--class_ids=keep"]
    assert main(["convert", *argv]) == 2
    assert capsys.readouterr().err.strip().splitlines()[-1] == (
        f"beam-tfrecord: error: {message}; rename it or leave the option out"
    )
    assert "manifest.json" not in os.listdir("out")


def test_an_image_in_no_class_folder_is_a_dead_letter(folders: Path) -> None:
    """It is reported, and not held against the run."""
    write_pictures("pets", ["stray.jpg"])
    assert convert("--images", "pets", "--output", "out", "--writers=0", NONE_BAD) == 0
    assert dead_letters_of("out") == [
        {
            "stage": "join",
            "key": "stray.jpg",
            "uri": f"{folders}/pets/stray.jpg",
            "reason": "unlabelled",
            "message": "is in no class folder; move it into one, or give --labels",
        }
    ]


# --- labels in the names of images ---------------------------------------------------------------

NAMES = ("tawny_owl_1.jpg", "tawny_owl_2.jpg", "night/cat_12.jpg", "test/cat_7.jpg", "notes.jpg")


@pytest.fixture
def named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with photos/, which is the working directory."""
    write_pictures(f"{tmp_path}/photos", NAMES)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_pattern_that_matches_no_name_is_said(
    named: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the first name and the pattern."""
    assert convert("--images", "photos", "--label_from", "(?P<label>x)", "--output", "out") == 1
    assert (
        "Of the first: its name 'cat_12.jpg' does not match --label_from (?P<label>x)"
        in capsys.readouterr().err
    )
