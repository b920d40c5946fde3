"""Splits in the paths of classes, and classes in two spellings."""

from __future__ import annotations

import pytest

from beam_pipeline.core.labels.odd_names import (
    folder_above_splits,
    folder_of_images_above,
    folder_of_images_below,
    folders_of_masks_below,
    spellings,
    split_classes,
    split_folders,
    split_pattern,
)


@pytest.mark.parametrize(
    ("classes", "folder"),
    [
        (["a/train/cat", "a/train/dog", "a/test/cat"], "a"),
        (["a/b/TRAIN/cat/small", "a/b/val/dog"], "a/b"),
        (["a/train/cat", "b/train/cat"], ""),
        (["a/train/cat", "a/cat"], ""),
        (["a/train", "a/bus"], ""),
        (["train/cat", "test/cat"], ""),
        (["cat", "dog"], ""),
        ([], ""),
    ],
)
def test_the_folder_above_splits_is_that_of_all_classes(classes: list[str], folder: str) -> None:
    """A class may be called train, and some classes may have folders of their own."""
    assert folder_above_splits(classes) == folder


@pytest.mark.parametrize(
    ("classes", "above", "below"),
    [
        (["images/cat", "images/dog"], "images", ""),
        (["dtd/Images/a/b", "dtd/Images/c"], "dtd/Images", ""),
        (["images/cat", "dog"], "", ""),
        (["a/images/cat", "b/images/cat"], "", ""),
        (["images", "images"], "", ""),
        (["cat/images", "dog/images"], "", "images"),
        (["images/cat/imgs", "images/dog/imgs"], "images", "imgs"),
        (["MOT17-02/img1", "MOT17-04/img1"], "", "img1"),
        (["cat/images", "dog/imgs"], "", ""),
        (["cat/images", "images"], "", ""),
        (["a/abbey", "a/bar"], "", ""),
        ([], "", ""),
    ],
)
def test_folders_of_images_are_no_part_of_classes(
    classes: list[str], above: str, below: str
) -> None:
    """One may hold all class folders, or each class folder may hold one."""
    assert folder_of_images_above(classes) == above
    assert folder_of_images_below(classes) == below


@pytest.mark.parametrize(
    ("classes", "found"),
    [
        (["a/images", "a/masks", "b/images"], ["images", "masks"]),
        (["a/img", "a/Mask"], ["Mask", "img"]),
        (["a/images", "b/images"], []),
        (["a/masks", "b/masks"], []),
        (["a/images", "a/masks", "b"], []),
        (["a/images", "a/masks", "a/faces"], []),
        (["images", "masks"], []),
        ([], []),
    ],
)
def test_folders_of_images_and_masks_are_no_classes(classes: list[str], found: list[str]) -> None:
    """If each sample has both in a folder of its own, as in the Data Science Bowl of 2018."""
    assert folders_of_masks_below(classes) == found


def test_classes_that_are_called_as_splits_are_found() -> None:
    """Beside others; a train is a thing, and a test tube is no split."""
    assert split_classes(["val", "cat", "Test", "train", "test_tube", "dev/cat"]) == ["Test", "val"]
    assert not split_classes(["test", "val"])
    assert not split_classes([])


@pytest.mark.parametrize(
    ("classes", "found"),
    [
        (["cat", "dog"], []),
        (["a", "A", "b"], []),
        (["1", "-1", "0_1", "0-1"], []),
        (["Cat", "cat", "CAT", "dog"], [["CAT", "Cat", "cat"]]),
        (["golden_retriever", "Golden Retriever "], [["Golden Retriever ", "golden_retriever"]]),
        (["Straße", "STRASSE"], [["STRASSE", "Straße"]]),
    ],
)
def test_spellings_of_one_class_are_found(classes: list[str], found: list[list[str]]) -> None:
    """By case, spaces, hyphens and underscores."""
    assert spellings(classes) == found


@pytest.mark.parametrize(
    ("classes", "folders", "pattern"),
    [
        (
            ["training_set/cat", "test_set/cat"],
            {"test_set": "test", "training_set": "training"},
            "(?P<split>test|training)_set/(?P<label>.+)/[^/]+",
        ),
        (
            ["My.TrainData/a/b", "My.TestData/a"],
            {"My.TestData": "Test", "My.TrainData": "Train"},
            r"My\.(?P<split>Test|Train)Data/(?P<label>.+)/[^/]+",
        ),
        (["train_a/cat", "b_test/cat"], {"b_test": "test", "train_a": "train"}, ""),
        (["train_a/cat", "test_a"], {"test_a": "test", "train_a": "train"}, ""),
        (
            ["query", "boxes_train", "boxes_test"],
            {"boxes_test": "test", "boxes_train": "train"},
            "",
        ),
        (
            ["a_test/1", "a_train/1", "b_train/1", *"cdefg", "val_x"],
            {"a_test": "test", "a_train": "train"},
            "",
        ),
        (["a_train/1", "b_test/1", "c", "d", "e"], {}, ""),
        (["train", "test", "bus"], {}, ""),
        (["bullet_train", "bus", "car"], {}, ""),
        (["bullet_train", "bus", "car", "test_tube", "cup"], {}, ""),
        (["train_1/cat", "train_2/cat"], {}, ""),
        (["train_test/a", "b"], {}, ""),
        (["trainer", "tests"], {}, ""),
        ([], {}, ""),
    ],
)
def test_folders_with_splits_in_their_names_are_found(
    classes: list[str], folders: dict[str, str], pattern: str
) -> None:
    """Half of them, of two splits; the pattern is that of all paths."""
    assert split_folders(classes) == folders
    assert split_pattern(classes, folders) == pattern
