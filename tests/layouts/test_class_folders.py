"""A folder a class: splits above, classes in classes, ids in numeric order or from the names."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from beam_pipeline.cli import main
from beam_pipeline.layouts.class_folders import ClassFolders
from beam_pipeline.layouts.layout import SourceOptions
from tests.harness import (
    NONE_BAD,
    convert,
    dead_letters_of,
    manifest_of,
    read_all,
    read_shard,
    shard_names,
    split_of_each,
)
from tests.layouts.make_class_folders import make
from tests.pictures import write_files, write_pictures


@pytest.fixture
def folders(working_folder: Path) -> Path:
    """A folder with pets/, cars/ and digits/ in it, which is the working directory."""
    make(str(working_folder))
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


def test_a_folder_is_a_class(folders: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder in a folder is a class by its whole path; ids follow the names."""
    assert convert("--images", "pets", "--output", "out", "--writers=0", NONE_BAD) == 0
    assert (
        "Layout class_folders: no --labels and no other layout's files\n" in capsys.readouterr().out
    )
    ids = {"bird/owl": 0, "cat": 1, "dog": 2}
    assert classes_of("out") == {
        f"{name}/{i:02d}.jpg": (ids[name], name) for name in ids for i in range(8)
    }
    assert Path("out/labels.txt").read_text() == "bird/owl\ncat\ndog\n"
    assert main(["verify", "out"]) == 0


def test_folders_of_splits_stand_above_those_of_classes(folders: Path) -> None:
    """They are no part of the class; `--splits` counts before them."""
    assert convert("--images", "cars", "--output", "out", "--writers=0", NONE_BAD) == 0
    expected = {
        f"{split}/{name}/{i}.png": (("bus", "van").index(name), name)
        for split, images in (("train", 6), ("val", 2), ("test", 2))
        for name in ("bus", "van")
        for i in range(images)
    }
    assert classes_of("out") == expected
    splits = manifest_of("out")["splits"]
    assert {name: split["examples"] for name, split in splits.items()} == {
        "test": 4,
        "train": 12,
        "validation": 4,
    }
    argv = ["--images", "cars", "--splits", "all=1", "--writers=0", "--output", "one"]
    assert convert(*argv) == 0
    assert classes_of("one") == expected
    assert list(manifest_of("one")["splits"]) == ["all"]


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


def test_words_stand_behind_numbers_in_numeric_order(tmp_path: Path) -> None:
    """Negative numbers first; numbers that are equal stand by their texts."""
    names = ["10", "9", "-1", "b", "a10", "a9", "009"]
    write_pictures(f"{tmp_path}/p", [f"{name}/1.jpg" for name in names])
    argv = ["--images", f"{tmp_path}/p", "--output", f"{tmp_path}/out", "--writers=0"]
    assert convert(*argv, "--label_order=numeric") == 0
    assert Path(f"{tmp_path}/out/labels.txt").read_text().split() == [
        *("-1", "009", "9", "10", "a10", "a9", "b"),
    ]


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


# --- the class id under another key -------------------------------------------------------------


def test_the_class_id_can_take_the_place_of_the_source_id(folders: Path) -> None:
    """As an int64, and nothing is left under its own key; verify reads the manifest for it."""
    argv = ["--images", "digits", "--output", "out", "--writers=0", "--class_ids=keep"]
    assert convert(*argv, "--features", "image/source_id=label") == 0
    examples = [features for name in shard_names("out") for features in read_shard("out", name)]
    assert len(examples) == 16
    for features in examples:
        name = features["image/filename"][0].decode().partition("/")[0]
        assert features["image/source_id"] == [int(name)]
        assert features["image/class/text"] == [name.encode()]
        assert "image/class/label" not in features
    manifest = manifest_of("out")
    assert manifest["features"]["image/source_id"]["kind"] == "int64"
    assert "image/class/label" not in manifest["features"]
    assert manifest["options"]["features"] == {"image/source_id": "image/class/label"}
    assert {c["id"]: c["examples"] for c in manifest["classes"]} == {0: 4, 1: 4, 2: 4, 10: 4}
    assert main(["verify", "out"]) == 0


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (
            "image/source_id=lable",
            "--features image/source_id=lable: there is no feature or column 'lable'",
        ),
        ("a=label,b=label", "--features writes image/class/label twice; give it one key"),
        (
            "image/encoded=label",
            "--features image/encoded=label: the image would be left out",
        ),
        ("label", "--features: 'label' in 'label': expected KEY=WHAT"),
    ],
)
def test_a_feature_that_cannot_be_renamed_is_an_error(
    folders: Path, features: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before anything is written."""
    assert main(["convert", "--images", "digits", "--output", "out", "--features", features]) == 2
    assert message in capsys.readouterr().err
    assert not os.path.exists("out")


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (
            ["--layout", "class_folders", "--labels", "l.csv"],
            "--layout class_folders takes labels from where the images are; leave out --labels",
        ),
        (
            ["--label_column", "x"],
            "--label_column means nothing for the layout class_folders (no --labels and no other",
        ),
        (["--label_order", "alphabetic"], "--label_order is 'alphabetic', expected one of "),
        (["--label_base", "2"], "--label_base is 2, expected one of (0, 1)"),
    ],
)
def test_what_cannot_be_used_is_an_error(
    folders: Path, argv: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """With what was found and expected."""
    write_files(".", {"l.csv": "filename,label\n"})
    assert main(["convert", "--images", "pets", "--output", "out", *argv]) == 2
    assert message in capsys.readouterr().err


def test_class_folders_are_what_is_left(folders: Path) -> None:
    """Whatever has labels is something else."""
    assert ClassFolders().recognise(SourceOptions(("pets",)))
    assert not ClassFolders.reads_labels


# --- labels in the names of images ---------------------------------------------------------------

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
def test_patterns_that_cannot_be_used(
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
