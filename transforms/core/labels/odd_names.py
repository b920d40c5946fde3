"""Names of classes that were hardly meant: with a split in their paths, or one class in two spellings."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Sequence

from beam_pipeline.transforms.core.labels.folders import SPLIT_NAMES

_GAPS = re.compile(r"[\s_-]+")


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
