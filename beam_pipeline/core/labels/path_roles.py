"""What each level of folders in the paths of classes is for: a split, images, masks, a date, a group, the class.

| paths | segments |
|---|---|
| `train_set/cat`, `test_set/cat` | split, class |
| `color/apple`, `gray/fig` | group, class |
| `oak/40X`, `elm/100X` | class, group |
| `2021-05-03/cat`, `2021-05-04/dog` | date, class |
| `dtd/images/banded`, `dtd/images/dotted` | wrapper, images, class |
| `n01/images`, `n02/images` | class, images |
"""

from __future__ import annotations

import enum
import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from beam_pipeline.core.listing.folders import SPLIT_NAMES

IMAGES = frozenset(["images", "image", "imgs", "img", "img1", "jpegimages"])
"""Usual names of folders of images, which are not classes; tracking challenges use `img1`."""

MASKS = frozenset(["masks", "mask", "ground_truth", "groundtruth", "gt"])
"""Usual names of folders of masks."""

_LABELS = MASKS | {"annotation", "annotations", "label", "labels"}

_PARTS = re.compile(
    "(?:batch|case|chunk|clip|episode|folder|frame|image|img|part|patient|scan|scene|seq|sequence|session"
    "|shard|slide|subject|video|volume)s?"
)
"""Words that folders of numbered parts end in."""

WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")  # train_images, and TrainImages
_MONTH = r"(?:0?[1-9]|1[0-2])"
_DAY = r"(?:0?[1-9]|[12]\d|3[01])"
DATE = re.compile(
    rf"(?<![^\W_])(?:19|20)\d\d(?:([-_./]){_MONTH}\1{_DAY}|[-/]{_MONTH}|(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01]))"
    r"(?![^\W_])"
)
"""A day, as 2021-05-03, 2021/5/3 or 20210503, or a month, as 2021-05."""


class Role(enum.Enum):
    """What a level of folders is for."""

    SPLIT = "split"
    IMAGES = "images"
    MASKS = "images and masks"
    DATE = "date"
    PART = "numbered parts"
    GROUP = "group"
    WRAPPER = "wrapper"
    CLASS = "class"


class Segment(NamedTuple):
    """A level of folders, or all levels from one on.

    Attributes:
      role: what it is for.
      names: the different folders, sorted; a date may be in several levels, as 2021/05/03.
      pattern: a regular expression for them; empty if no single one fits.
    """

    role: Role
    names: Sequence[str]
    pattern: str = ""


def segments_of(classes: Collection[str]) -> list[Segment]:
    """The levels of folders in the paths of classes, from the top; the last one has the rest of longer paths.

    The class is the last level that has no other role and differs in more than numbers.

    >>> [(s.role.value, s.names) for s in segments_of(["a/train/cat", "a/train/dog", "a/val/cat"])]
    [('wrapper', ['a']), ('split', ['train', 'val']), ('class', ['cat', 'dog'])]
    """
    joined = [DATE.sub(lambda date: date[0].replace("/", "\0"), name) for name in classes]
    last = min((name.count("/") for name in joined), default=0)
    levels = zip(*(name.split("/", last) for name in joined), strict=True)
    segments = [
        _segment(sorted({name.replace("\0", "/") for name in level}), alone=not last)
        for level in levels
    ]
    may_be = [i for i, segment in enumerate(segments) if segment.role is Role.CLASS]
    named = [i for i in may_be if not differ_in_numbers(segments[i].names)] or may_be
    for i in may_be:
        if i != named[-1]:
            segments[i] = segments[i]._replace(role=Role.GROUP)
    return segments


_GROUPS = {Role.CLASS: "label", Role.DATE: "date", Role.GROUP: "group", Role.PART: "group"}


def label_pattern(segments: Sequence[Segment], splits: Sequence[str] = ()) -> str:
    """The --label_from that takes each part by its role from an image's path; empty if none is the class, or one unclear.

    Args:
      segments: the levels of folders.
      splits: names of folders of splits that may surround them; if empty, usual ones.

    >>> label_pattern(segments_of(["images_train/cat", "images_val/cat"]))
    'images_(?P<split>train|val)/(?P<label>[^/]+)/[^/]+'
    """
    roles = [segment.role for segment in segments]
    if not all(segment.pattern for segment in segments) or Role.CLASS not in roles:
        return ""
    parts, named = [], set()
    for role, _, pattern in segments:
        name = "split" if role is Role.SPLIT else _GROUPS.get(role, "")
        if role is Role.SPLIT:
            pattern = pattern.replace("(?P<split>", "(?:") if name in named else pattern
        elif name and name not in named:
            pattern = f"(?P<{name}>{pattern})"
        parts.append(pattern)
        named.add(name)
    above = "" if "split" in named else _maybe_split(splits or ("train", "val", "test"))
    return above + "/".join([*parts, "[^/]+"])


def last_folder_pattern(splits: Iterable[str]) -> str:
    """The --label_from whose label is the last folder, and whose split is the one above it, if it is one of some.

    >>> last_folder_pattern(["train", "test"])
    '(?:.*?/)??(?:(?P<split>train|test)/)?(?P<label>[^/]+)/[^/]+'
    """
    return f"(?:.*?/)??{_maybe_split(dict.fromkeys(splits))}(?P<label>[^/]+)/[^/]+"


def _maybe_split(names: Iterable[str]) -> str:
    return f"(?:(?P<split>{'|'.join(names)})/)?" if names else ""


def differ_in_numbers(names: Collection[str]) -> bool:
    """True for several names that differ in numbers alone.

    >>> differ_in_numbers({"images_part_1", "images_part_2"}), differ_in_numbers({"ok", "ill"})
    (True, False)
    """
    return len({*names}) > 1 and len({re.sub(r"\d+", "0", name) for name in names}) == 1


def _segment(names: Sequence[str], *, alone: bool) -> Segment:
    """A level of folders; `alone` if it is the only one, so that a name may as well be a class."""
    lower = {name.lower() for name in names}
    pattern = ".+" if any("/" in name for name in names) else "[^/]+"
    if split := _splits_in_names(names):
        return split
    dates = [name for name in names if DATE.search(name)]
    if 2 * len(dates) > len(names):
        return Segment(Role.DATE, dates, pattern)
    words = {word.lower() for name in names for word in WORDS.findall(name)[-1:]}
    if words and differ_in_numbers(names) and all(map(_PARTS.fullmatch, words)):
        return Segment(Role.PART, names, pattern)
    if alone:
        return Segment(Role.CLASS, names, pattern)
    if lower <= SPLIT_NAMES.keys():
        return Segment(Role.SPLIT, names, f"(?P<split>{'|'.join(names)})")
    if lower <= IMAGES | _LABELS:
        images = "" if lower & _LABELS else f"(?:{'|'.join(names)})" if names[1:] else names[0]
        return Segment(Role.IMAGES if images else Role.MASKS, names, images)
    if len(names) == 1:
        return Segment(Role.WRAPPER, names, re.escape(names[0]))
    return Segment(Role.CLASS, names, pattern)


def _splits_in_names(names: Sequence[str]) -> Segment | None:
    """Folders with words of two splits at least: half of all, or several that differ in nothing else."""
    words = {name: [w for w in WORDS.findall(name) if w.lower() in SPLIT_NAMES] for name in names}
    word_of = {name: in_name[0] for name, in_name in words.items() if len(in_name) == 1}
    frames = {name: name.partition(word)[::2] for name, word in word_of.items()}
    if 2 * len(word_of) < len(names):
        shared = Counter(frames.values())
        frames = {n: frame for n, frame in frames.items() if shared[frame] > 1 and any(frame)}
    splits = {SPLIT_NAMES[word_of[name].lower()] for name in frames}
    if len(splits) < 2 or not any(map(any, frames.values())):
        return None
    pattern = ""
    if len({*frames.values()}) == 1 and len(frames) == len(names):
        before, after = map(re.escape, next(iter(frames.values())))
        pattern = f"{before}(?P<split>{'|'.join(sorted({*word_of.values()}))}){after}"
    return Segment(Role.SPLIT, sorted(frames), pattern)
