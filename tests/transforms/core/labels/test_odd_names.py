"""Splits in the paths of classes, and classes in two spellings."""

from __future__ import annotations

import pytest

from beam_pipeline.transforms.core.labels.odd_names import folder_above_splits, spellings


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
