"""Splits and classes from folder names and cells."""

from __future__ import annotations

import functools
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

FOLDER = "folder"
"""The value of --split_by that means the folder of an image."""

UNLABELLED_FOLDERS = frozenset({"unlabelled", "unlabeled"})
"""Names, in lower case, of folders beside class folders that contain unlabelled images, not a class."""

SPLIT_NAMES = {
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
"""Folder names and values of a `split` column, in lower case -> the split's name."""

_SPLIT_WORDS = frozenset(["split", "splits", "subset", "fold", "folds", "kfold", "partition"])
_AFTER_SPLIT = re.compile(r"id$|(?<=split)[\W_](?:set|name)$|(?<=fold)[\W_](?:no|number)$")
_MOST_SPLITS = 20  # folds of a cross-validation


@dataclass(frozen=True)
class FolderMeaning:
    """Split and class of an image.

    Attributes:
      split: empty if no folder names a split.
      class_name: empty for an image outside the class folders.
    """

    split: str
    class_name: str


def folder_meaning(key: str) -> FolderMeaning:
    """Returns split and class of `[<split>/]<class>/.../file`.

    A first folder with a split's name counts as a split only if a class folder follows it, so a
    class may be called "train".
    """
    return _meaning_of(key.rpartition("/")[0])


@functools.lru_cache(maxsize=1024)
def _meaning_of(folder: str) -> FolderMeaning:
    first, _, rest = folder.partition("/")
    split = SPLIT_NAMES.get(first.lower(), "")
    return FolderMeaning(split, rest) if split and rest else FolderMeaning("", folder)


def without_class(meaning: FolderMeaning) -> FolderMeaning:
    """Adjusts a folder's meaning if images without labels are kept.

    Images directly in a folder with a split's name, and those in a folder `unlabelled`, have no
    class.
    """
    name = meaning.class_name.lower()
    if not meaning.split and name in SPLIT_NAMES:
        return FolderMeaning(SPLIT_NAMES[name], "")
    if name in UNLABELLED_FOLDERS:
        return FolderMeaning(meaning.split, "")
    return meaning


def named_splits(name: str) -> set[str]:
    """The splits that words of a name represent.

    >>> named_splits("imagenet-train-000012")
    {'train'}
    """
    words = re.findall(r"[a-z]+", name.lower())
    return {SPLIT_NAMES[word] for word in words if word in SPLIT_NAMES}


def named_split(name: str) -> str:
    """The only split among the words of a name; empty without one, or with several.

    >>> named_split("labels_val2017")
    'validation'
    """
    splits = named_splits(name)
    return splits.pop() if len(splits) == 1 else ""


def are_splits(column: str, values: Collection[str]) -> bool:
    """True if all values name splits, at least two, or if they are few and the column's name means splits.

    >>> are_splits("part", {"train2017", "val2017"}), are_splits("fold_id", {"1", "2"})
    (True, True)
    >>> are_splits("Split Set", {"TRN", "VLD"}), are_splits("split_ends", {"yes", "no"})
    (True, False)
    """
    if not 1 < len(values) <= _MOST_SPLITS:
        return False
    splits = {named_split(re.sub("(?<=[a-z])(?=[A-Z])", "_", value)) for value in values}
    words = re.findall(r"[a-z]+", _AFTER_SPLIT.sub("", column.lower()))
    means_splits = bool(words) and (words[-1] in SPLIT_NAMES or words[-1] in _SPLIT_WORDS)
    return means_splits or (len(splits) > 1 and "" not in splits)


def split_paths(paths: Sequence[str]) -> tuple[str, ...]:
    """The paths that are called as splits, if they name two splits at least.

    >>> split_paths(["pets/train", "pets/val/", "more"])
    ('pets/train', 'pets/val/')
    >>> split_paths(["a/train", "b/train"])
    ()
    """
    split_of = {path: named_split(path.rstrip("/").rpartition("/")[2]) for path in paths}
    named = tuple(path for path, split in split_of.items() if split)
    return named if len(set(split_of.values()) - {""}) > 1 else ()


def first_folder_split(key: str) -> str:
    """Returns the split named by the first folder, for images whose labels come from a table."""
    first, slash, _ = key.partition("/")
    return SPLIT_NAMES.get(first.lower(), "") if slash else ""
