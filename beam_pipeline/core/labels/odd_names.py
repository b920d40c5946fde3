"""Names of classes that were hardly meant: with a split in their paths, or one class in two spellings."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence

from beam_pipeline.core.listing.folders import SPLIT_NAMES

IMAGES = frozenset(["images", "image", "imgs", "img", "img1"])
"""Usual names of folders of images, which are no classes; `img1` is that of tracking challenges."""

MASKS = frozenset(["masks", "mask"])
"""Usual names of folders of masks."""

_GAPS = re.compile(r"[\s_-]+")
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")  # those of train_images, and of TrainImages


def folder_above_splits(classes: Collection[str]) -> str:
    """The folder that holds the splits, where each class has one in its path; empty if there is none.

    >>> folder_above_splits(["archive/pets/train/cat", "archive/pets/val/cat"])
    'archive/pets'
    """
    paths = [name.split("/") for name in classes]
    shortest = min(map(len, paths), default=0)
    for depth in range(1, shortest - 1):
        if all(path[depth].lower() in SPLIT_NAMES for path in paths):
            above = {"/".join(path[:depth]) for path in paths}
            return above.pop() if len(above) == 1 else ""
    return ""


def folder_of_images_above(classes: Collection[str]) -> str:
    """The folder of images, by its name, that all classes lie in; empty if there is none.

    >>> folder_of_images_above(["dtd/images/banded", "dtd/images/dotted"])
    'dtd/images'
    """
    paths = [name.split("/") for name in classes]
    shortest = min(map(len, paths), default=0)
    for depth in range(shortest - 1):
        above = {"/".join(path[: depth + 1]) for path in paths}
        if len(above) > 1:
            return ""
        if paths[0][depth].lower() in IMAGES:
            return above.pop()
    return ""


def folder_of_images_below(classes: Collection[str]) -> str:
    """The name of the folder of images that each class ends with; empty if there is none.

    >>> folder_of_images_below(["n01443537/images", "n01629819/images"])
    'images'
    """
    ends = {name.rpartition("/")[2] if "/" in name else "" for name in classes}
    end = ends.pop() if len(ends) == 1 else ""
    return end if end.lower() in IMAGES else ""


def folders_of_masks_below(classes: Collection[str]) -> list[str]:
    """The names of folders of images and of masks that all classes end with, sorted; none unless both do.

    >>> folders_of_masks_below(["0a7e/images", "0a7e/masks", "0acd/images", "0acd/masks"])
    ['images', 'masks']
    >>> folders_of_masks_below(["fabric/masks", "paper/masks"])
    []
    """
    ends = {name.rpartition("/")[2] if "/" in name else "" for name in classes}
    kinds = {end: end.lower() in IMAGES for end in ends}
    both = set(kinds.values()) == {True, False}
    masks = all(kinds[end] or end.lower() in MASKS for end in ends)
    return sorted(ends) if both and masks else []


def split_folders(classes: Collection[str]) -> Mapping[str, str]:
    """Top folders of classes that look like splits -> the word in each that names a split.

    They are if at least half of the folders have such a word, or several that differ in nothing else,
    and there are words of two splits. None if the folders are called as splits themselves, as others
    look at those.

    >>> split_folders(["training_set/cat", "training_set/dog", "test_set/cat"])
    {'test_set': 'test', 'training_set': 'training'}
    >>> split_folders(["bounding_box_test", "bounding_box_train", "gt_bbox", "gt_query", "query"])
    {'bounding_box_test': 'test', 'bounding_box_train': 'train'}
    >>> split_folders(["bus", "car", "cup", "train", "test_tube"])
    {}
    """
    folders = sorted({name.partition("/")[0] for name in classes})
    found = {}
    for folder in folders:
        words = [word for word in _WORDS.findall(folder) if word.lower() in SPLIT_NAMES]
        if len(words) == 1:
            found[folder] = words[0]
    if 2 * len(found) < len(folders):
        found = _same_but_for_the_word(found)
    splits = {SPLIT_NAMES[word.lower()] for word in found.values()}
    if len(splits) < 2:
        return {}
    return {} if all(folder == word for folder, word in found.items()) else found


def _same_but_for_the_word(found: Mapping[str, str]) -> dict[str, str]:
    """Those folders of which another differs in nothing but the word for the split."""
    frames = {folder: folder.partition(word)[::2] for folder, word in found.items()}
    shared = Counter(frames.values())
    return {
        folder: word
        for folder, word in found.items()
        if shared[frames[folder]] > 1 and any(frames[folder])
    }


def folders_of_the_same(classes: Collection[str]) -> list[str]:
    """Top folders, sorted, of which most hold the same folders; none if there is but one.

    So are domains, folds, sessions, or copies of the images in several forms.

    >>> folders_of_the_same(["color/apple", "color/grape", "grey/apple", "grey/grape"])
    ['color', 'grey']
    >>> folders_of_the_same(["bird/owl", "bird/duck", "cat/other", "dog/other", "dog/pug"])
    []
    """
    above: dict[str, set[str]] = defaultdict(set)
    for name in classes:
        folder, _, below = name.partition("/")
        above[below].add(folder)
    if "" in above or len(above) < 2:
        return []
    shared = [folders for folders in above.values() if len(folders) > 1]
    return sorted(set().union(*shared)) if 2 * sum(map(len, shared)) > len(classes) else []


def split_classes(classes: Collection[str]) -> list[str]:
    """The classes that are called as splits, sorted, if there are others; `train` may be a class.

    >>> split_classes(["cat", "train", "val"])
    ['val']
    """
    found = [name for name in classes if SPLIT_NAMES.get(name.lower(), "train") != "train"]
    return sorted(found) if len(found) < len(classes) else []


def split_pattern(classes: Collection[str], folders: Mapping[str, str]) -> str:
    """A pattern for --label_from that takes split and class from paths; empty if no single one does.

    >>> split_pattern(["images_train/cat", "images_val/cat"], {"images_train": "train", "images_val": "val"})
    'images_(?P<split>train|val)/(?P<label>.+)/[^/]+'
    """
    frames = {folder.partition(word)[::2] for folder, word in folders.items()}
    inside = all("/" in name and name.partition("/")[0] in folders for name in classes)
    if len(frames) != 1 or not inside:
        return ""
    ((before, after),) = frames
    words = "|".join(sorted(set(folders.values())))
    return f"{re.escape(before)}(?P<split>{words}){re.escape(after)}/(?P<label>.+)/[^/]+"


def spellings(classes: Collection[str]) -> list[Sequence[str]]:
    """The classes that differ only in case, or in spaces, hyphens and underscores, sorted.

    A single letter may well be another class than its capital, and numbers have signs.

    >>> spellings(["Cat", "cat", "a", "A", "sea_lion", "sea lion", "1", "-1"])
    [['Cat', 'cat'], ['sea lion', 'sea_lion']]
    """
    found: dict[str, list[str]] = defaultdict(list)
    for name in sorted(classes):
        alike = _GAPS.sub(" ", name.casefold()).strip()
        if len(alike) > 1 and any(map(str.isalpha, alike)):
            found[alike].append(name)
    return [names for names in found.values() if len(names) > 1]
