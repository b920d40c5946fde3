"""What each level of folders in the paths of classes is for: a split, images, masks, a date, a repeated set, the class.

| paths | segments |
|---|---|
| `train_set/cat`, `test_set/cat` | split, class |
| `color/apple`, `gray/apple`, `color/fig`, `gray/fig` | group, class |
| `2021-05-03/cat`, `2021-05-04/dog` | date, class |
| `dtd/images/banded`, `dtd/images/dotted` | wrapper, images, class |
| `n01/images`, `n02/images` | class, images |
"""

from __future__ import annotations

import enum
import math
import re
from collections import Counter, defaultdict
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
    MASKS = "masks"
    DATE = "date"
    GROUP = "group"
    PART = "part"
    WRAPPER = "wrapper"
    CLASS = "class"


class Segment(NamedTuple):
    """A level of folders, or all levels of the class.

    Attributes:
      role: what it is for.
      names: the different folders, sorted; a date may be in several levels, as 2021/05/03.
      pattern: a regular expression for them; empty if no single one fits.
    """

    role: Role
    names: Sequence[str]
    pattern: str = ""


def segments_of(classes: Collection[str]) -> list[Segment]:
    """The levels of folders in the paths of classes, from the top.

    >>> [(s.role.value, s.names) for s in segments_of(["a/train/cat", "a/train/dog", "a/val/cat"])]
    [('wrapper', ['a']), ('split', ['train', 'val']), ('class', ['cat', 'dog'])]
    """
    joined = [DATE.sub(lambda date: date[0].replace("/", "\0"), name) for name in sorted(classes)]
    paths = [[part.replace("\0", "/") for part in name.split("/")] for name in joined]
    segments = _segments(paths, from_below=True)
    names = next((segment.names for segment in segments if segment.role is Role.CLASS), ())
    if len(names) < 2 and all(segment.role is not Role.DATE for segment in segments):
        return _segments(paths, from_below=False)  # one class, which all paths end with
    return segments


def _segments(paths: Sequence[Sequence[str]], *, from_below: bool) -> list[Segment]:
    above: list[Segment] = []
    below: list[Segment] = []
    depth = min(map(len, paths), default=0)
    while from_below and depth > 1 and (last := _last([path[-1] for path in paths])):
        below.insert(0, last)
        paths, depth = [path[:-1] for path in paths], depth - 1
    while depth and (first := _first(paths, at_top=not above)):
        above.append(first)
        paths, depth = [path[1:] for path in paths], depth - 1
    if not any(paths):
        return [*above, *below]
    names = sorted({"/".join(path) for path in paths})
    lengths = set(map(len, paths))
    pattern = "" if 0 in lengths else "[^/]+" if lengths == {1} else ".+"
    return [*above, Segment(Role.CLASS, names, pattern), *below]


_GROUPS = {Role.CLASS: "label", Role.DATE: "date", Role.GROUP: "group", Role.PART: "group"}


def label_pattern(segments: Sequence[Segment], splits: Sequence[str] = ()) -> str:
    """The --label_from that takes each part by its role from an image's path; empty if no single one does.

    Args:
      segments: the levels of folders.
      splits: names of folders of splits that may surround them; if empty, usual ones.

    >>> label_pattern(segments_of(["images_train/cat", "images_val/cat"]))
    'images_(?P<split>train|val)/(?P<label>[^/]+)/[^/]+'
    """
    roles = [segment.role for segment in segments]
    if not all(segment.pattern for segment in segments) or roles == [Role.SPLIT]:
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


def crossed_pattern(segments: Sequence[Segment], classes: int) -> str:
    """The --label_from with group and class exchanged, if each group has all classes; else empty."""
    exchanged = {Role.GROUP: Role.CLASS, Role.CLASS: Role.GROUP}
    crossed = [segment for segment in segments if segment.role in exchanged]
    number = math.prod(len(segment.names) for segment in crossed)
    if number != classes or [segment.role for segment in crossed] != [*exchanged]:
        return ""
    return label_pattern([s._replace(role=exchanged.get(s.role, s.role)) for s in segments])


def last_folder_pattern(splits: Iterable[str]) -> str:
    """The --label_from whose label is the last folder, and whose split is the one above it, if it is one of some.

    >>> last_folder_pattern(["train", "test"])
    '(?:.*?/)??(?:(?P<split>train|test)/)?(?P<label>[^/]+)/[^/]+'
    """
    return f"(?:.*?/)??{_maybe_split(dict.fromkeys(splits))}(?P<label>[^/]+)/[^/]+"


def first_folder_pattern(splits: Sequence[str]) -> str:
    """The --label_from whose label is the first folder, or the one below a split; others below have no meaning."""
    return f"{_maybe_split(splits)}(?P<label>[^/]+)/.+"


def _maybe_split(names: Iterable[str]) -> str:
    return f"(?:(?P<split>{'|'.join(names)})/)?" if names else ""


def differ_in_numbers(names: Collection[str]) -> bool:
    """True for several names that differ in numbers alone.

    >>> differ_in_numbers({"images_part_1", "images_part_2"}), differ_in_numbers({"ok", "ill"})
    (True, False)
    """
    return len({*names}) > 1 and len({re.sub(r"\d+", "0", name) for name in names}) == 1


def _last(names: Sequence[str]) -> Segment | None:
    """The lowest level, if it does not name a class."""
    different = sorted(set(names))
    lower = {name.lower() for name in different}
    if lower <= IMAGES and len(different) == 1:
        return Segment(Role.IMAGES, different, re.escape(different[0]))
    if lower <= IMAGES | MASKS and lower & IMAGES and lower & MASKS:
        return Segment(Role.MASKS, different)
    if len({SPLIT_NAMES.get(name, "") for name in lower}) > 1 and lower <= SPLIT_NAMES.keys():
        return Segment(Role.SPLIT, different, f"(?P<split>{'|'.join(different)})")
    return _dates(names) or _wrapper(different)


def _first(paths: Sequence[Sequence[str]], *, at_top: bool) -> Segment | None:
    """The highest level, if it does not name a class."""
    names = sorted({path[0] for path in paths})
    leaf = any(len(path) == 1 for path in paths)
    lower = {name.lower() for name in names}
    images = [name for name in names if name.lower() in IMAGES]
    if not leaf and len(images) == 1 and lower <= {images[0].lower(), *_LABELS}:
        return Segment(Role.IMAGES, images, re.escape(images[0]))
    if not (leaf or at_top) and lower <= SPLIT_NAMES.keys():
        return Segment(Role.SPLIT, names, f"(?P<split>{'|'.join(names)})")
    odd = _splits_in_names(names) or _dates(names) or _parts(names)
    return odd or (None if leaf else _wrapper(names) or _repeated(paths))


def _wrapper(names: Sequence[str]) -> Segment | None:
    """A folder that all others are in, or that is in all of them."""
    return Segment(Role.WRAPPER, names, re.escape(names[0])) if len(names) == 1 else None


def _dates(names: Sequence[str]) -> Segment | None:
    """A level whose folders mostly contain a date."""
    dates = sorted({name for name in names if DATE.search(name)})
    if 2 * len(dates) <= len(set(names)):
        return None
    return Segment(Role.DATE, dates, ".+" if any("/" in name for name in names) else "[^/]+")


def _parts(names: Sequence[str]) -> Segment | None:
    """Folders with the numbers of patients, videos and other parts of a set that are not classes."""
    words = {word for name in names for word in WORDS.findall(name)[-1:]}
    parts = differ_in_numbers(names) and all(_PARTS.fullmatch(word.lower()) for word in words)
    return Segment(Role.PART, names, "[^/]+") if parts and words else None


def _repeated(paths: Sequence[Sequence[str]]) -> Segment | None:
    """Folders that mostly have the same content.

    So are domains, folds, sessions, or copies of the images in several forms. Numbers are not the same content
    unless each folder has all of them.
    """
    above: dict[tuple[str, ...], set[str]] = defaultdict(set)
    for first, *below in paths:
        above[tuple(below)].add(first)
    shared = [folders for folders in above.values() if len(folders) > 1]
    different = sum(map(len, above.values()))
    most = len(above) > 1 and 2 * sum(map(len, shared)) > different
    lowest = {below[-1] for below in above if below}
    is_full = different == len(above) * len(set().union(*above.values()))
    if differ_in_numbers(lowest) and not is_full:
        return None  # numbers within each folder, as of characters in an alphabet
    return Segment(Role.GROUP, sorted(set().union(*shared)), "[^/]+") if most else None


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
