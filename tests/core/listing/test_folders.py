"""Splits and classes from the names of folders, and of members of archives."""

from __future__ import annotations

import pytest

from beam_pipeline.core.listing.filters import Archive, top_folder
from beam_pipeline.core.listing.folders import (
    SPLIT_NAMES,
    FolderMeaning,
    first_folder_split,
    folder_meaning,
    named_split,
    named_splits,
    without_class,
)


@pytest.mark.parametrize(
    ("key", "split", "class_name"),
    [
        ("cat/1.jpg", "", "cat"),
        ("cat/tabby/1.jpg", "", "cat/tabby"),
        ("1.jpg", "", ""),
        ("train/cat/1.jpg", "train", "cat"),
        ("Training/cat/1.jpg", "train", "cat"),
        ("VAL/cat/tabby/1.jpg", "validation", "cat/tabby"),
        ("dev/cat/1.jpg", "validation", "cat"),
        ("eval/cat/1.jpg", "test", "cat"),
        ("train/1.jpg", "", "train"),
        ("train/test/1.jpg", "train", "test"),
        ("cat/train/1.jpg", "", "cat/train"),
        ("trains/cat/1.jpg", "", "trains/cat"),
        ("강아지/1.jpg", "", "강아지"),
    ],
)
def test_a_folder_means_a_class_and_perhaps_a_split(key: str, split: str, class_name: str) -> None:
    """A split's name counts as one only in front of a class folder."""
    assert folder_meaning(key) == FolderMeaning(split, class_name)


@pytest.mark.parametrize(
    ("key", "split"),
    [
        ("train/1.jpg", "train"),
        ("Valid/a/1.jpg", "validation"),
        ("testing/1.jpg", "test"),
        ("cat/train/1.jpg", ""),
        ("train", ""),
        ("train.jpg", ""),
        ("trains/1.jpg", ""),
    ],
)
def test_with_a_label_table_the_first_folder_alone_may_be_a_split(key: str, split: str) -> None:
    """No class folder needs to follow it, but it must be a folder."""
    assert first_folder_split(key) == split


@pytest.mark.parametrize(
    ("key", "split", "class_name"),
    [
        ("Train/1.jpg", "train", ""),
        ("unlabelled/1.jpg", "", ""),
        ("val/Unlabeled/1.jpg", "validation", ""),
        ("val/cat/1.jpg", "validation", "cat"),
        ("val/test/1.jpg", "validation", "test"),
        ("cat/unlabelled/1.jpg", "", "cat/unlabelled"),
        ("1.jpg", "", ""),
    ],
)
def test_some_folders_are_no_class_where_unlabelled_images_are_kept(
    key: str, split: str, class_name: str
) -> None:
    """A split's own folder, and one that says so."""
    assert without_class(folder_meaning(key)) == FolderMeaning(split, class_name)


def test_split_names_are_these() -> None:
    """Three splits, by all the names that people give them."""
    assert SPLIT_NAMES == {
        "train": "train",
        "training": "train",
        "validation": "validation",
        "valid": "validation",
        "val": "validation",
        "dev": "validation",
        "test": "test",
        "testing": "test",
        "eval": "test",
    }


@pytest.mark.parametrize(
    ("name", "splits"),
    [
        ("train", ["train"]),
        ("x-val-0001", ["validation"]),
        ("train2017", ["train"]),
        ("labels_VAL2017", ["validation"]),
        ("my-test-set", ["test"]),
        ("pretrained", []),
        ("latest", []),
        ("2024", []),
        ("", []),
        ("train_test", ["test", "train"]),
        ("training_train", ["train"]),
    ],
)
def test_words_of_a_name_say_splits(name: str, splits: list[str]) -> None:
    """Words, not parts of them; numbers may follow. Two splits are not one."""
    assert sorted(named_splits(name)) == splits
    assert named_split(name) == (splits[0] if len(splits) == 1 else "")


@pytest.mark.parametrize(
    ("archive", "path", "aliases"),
    [
        (
            Archive("zip", "a/photos.zip"),
            "cat/1.jpg",
            ("cat/1.jpg", "cat/1.jpg", "photos/cat/1.jpg", ""),
        ),
        (Archive("zip", "photos.zip"), "1.jpg", ("1.jpg", "1.jpg", "photos/1.jpg", "")),
        (
            Archive("tar", "p.tar", top="x/y/"),
            "x/y/cat/1.jpg",
            ("cat/1.jpg", "x/y/cat/1.jpg", "p/x/y/cat/1.jpg", "y/cat/1.jpg"),
        ),
        (
            Archive("tar", "val.tar", split="validation"),
            "cat/1.jpg",
            ("validation/cat/1.jpg", "cat/1.jpg", "val/cat/1.jpg", ""),
        ),
        (
            Archive("tar", "val.tar", split="validation"),
            "val/cat/1.jpg",
            ("val/cat/1.jpg", "val/cat/1.jpg", "val/val/cat/1.jpg", "cat/1.jpg"),
        ),
    ],
)
def test_a_member_has_names_besides_its_key(
    archive: Archive, path: str, aliases: tuple[str, ...]
) -> None:
    """The first says class and split; rows may use any."""
    assert archive.aliases(path) == aliases
    assert archive.key(path) == f"{archive.name}/{path}"


@pytest.mark.parametrize(
    ("names", "top"),
    [
        ([], ""),
        (["1.jpg"], ""),
        (["cat/1.jpg"], ""),
        (["cat/1.jpg", "dog/1.jpg"], ""),
        (["p/cat/1.jpg", "p/dog/1.jpg"], "p/"),
        (["p/cat/1.jpg", "p/1.jpg"], ""),
        (["p/q/cat/1.jpg", "p/q/dog/1.jpg"], "p/q/"),
        (["p/cat/1.jpg", "px/dog/1.jpg"], ""),
        (["train/cat/1.jpg", "train/dog/1.jpg"], ""),
        (["p/Train/cat/1.jpg", "p/Train/dog/1.jpg"], "p/"),
    ],
)
def test_a_folder_around_all_others_says_no_class(names: list[str], top: str) -> None:
    """Unless it says a split, or images lie in it."""
    assert top_folder(names) == top


def test_words_of_a_file_name_say_a_split() -> None:
    """Not those of the folders around it."""
    names = ["train.tar", "train/x-val-0001.tar", "a/train_test.zip", "2024.tar"]
    assert [sorted(Archive("tar", name).said_splits) for name in names] == [
        ["train"],
        ["validation"],
        ["test", "train"],
        [],
    ]
