"""The difference between the names of masks and of their images, inferred from some of both.

| image | mask | |
|---|---|---|
| `train/a.jpg` | `train/a.png` | the same |
| `a.jpg` | `a_mask.png`, `mask_a.png` | an addition to the mask's name |
| `x_leftImg8bit.png` | `x_gtFine_labelIds.png` | an addition to both |
| `train/images/a.jpg` | `train/masks/a.png` | folders of other names |
| `a.jpg` | `all/a.png` | other folders altogether: file names alone |

An addition is taken only if it matches more than half of the masks with an image, and it contains a letter:
`1.jpg` and `10.png` have nothing to do with each other.
"""

from __future__ import annotations

import bisect
import itertools
import posixpath
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

CLASS_KINDS = ("_labelIds", "_seg")
"""Ends of the names of masks that contain class ids, if the images have several masks (Cityscapes, ADE20K)."""

_SEPARATORS = "_-. "
_LETTERS_AT_END = re.compile(r"[^\W\d_]+$")
_TRIED = 12  # additions, of those that most masks have
_OTHER_KIND = 0.5  # of the masks of the first kind, for a second one to be no accident


class Addition(NamedTuple):
    """The text before and after the common part of the names of an image and its mask."""

    image_prefix: str = ""
    image_suffix: str = ""
    mask_prefix: str = ""
    mask_suffix: str = ""

    def image_stem(self, mask_stem: str) -> str | None:
        """The name of a mask's image, both without extension; None if the mask's is of another kind."""
        common = mask_stem.removeprefix(self.mask_prefix).removesuffix(self.mask_suffix)
        if not common or f"{self.mask_prefix}{common}{self.mask_suffix}" != mask_stem:
            return None
        return f"{self.image_prefix}{common}{self.image_suffix}"

    @property
    def of_classes(self) -> bool:
        """True for masks that are known to contain class ids."""
        return self.mask_suffix.endswith(CLASS_KINDS)


@dataclass(frozen=True)
class MaskNames:
    """The image that a mask is for, by its name.

    Attributes:
      addition: to the names of files.
      folders: (name of a folder of masks, name of the folder of their images instead).
      bare: whether folders carry no labels.
    """

    addition: Addition = Addition()  # noqa: RUF009, it is immutable
    folders: tuple[tuple[str, str], ...] = ()
    bare: bool = False

    def image_name(self, key: str) -> str:
        """The path of a mask's image, without extension.

        A mask whose name lacks the addition keeps its name, so that it matches an image of that name or
        is reported.
        """
        folder, name = posixpath.split(posixpath.splitext(key)[0])
        name = self.addition.image_stem(name) or name
        if self.bare or not folder:
            return name
        if self.folders:
            instead = dict(self.folders)
            folder = "/".join(filter(None, (instead.get(part, part) for part in folder.split("/"))))
        return f"{folder}/{name}" if folder else name


class FoundNames(NamedTuple):
    """Facts about some images and masks.

    Attributes:
      names: which image a mask is for.
      met: the share of the masks that match an image.
      further_kinds: additions of other kinds of masks of the same images, where there are several.
    """

    names: MaskNames
    met: float
    further_kinds: tuple[Addition, ...] = ()

    @property
    def certain(self) -> bool:
        """True if there is one kind of masks, or one of several is known to contain class ids."""
        return not self.further_kinds or self.names.addition.of_classes


def find_names(
    images: Sequence[str], masks: Sequence[str], folders: tuple[tuple[str, str], ...] = ()
) -> FoundNames:
    """Finds out how masks are called.

    Args:
      images: some of the images, as paths below their root.
      masks: some of the masks, as paths below theirs.
      folders: as `MaskNames` has them, where they are known.
    """
    image_paths = {posixpath.splitext(key)[0] for key in images}
    image_stems = {posixpath.basename(path) for path in image_paths}
    mask_stems = [posixpath.basename(posixpath.splitext(key)[0]) for key in masks]
    counts = {
        addition: sum(addition.image_stem(stem) in image_stems for stem in mask_stems)
        for addition in _additions(mask_stems, image_stems)
    }
    best = max(counts, key=lambda kind: (counts[kind], kind.of_classes, -len("".join(kind)), kind))
    further_kinds = _further_kinds(best, mask_stems, image_stems, counts)
    if further_kinds:
        meets = [best.image_stem(stem) in image_stems for stem in mask_stems]
        masks, mask_stems = (list(itertools.compress(of, meets)) for of in (masks, mask_stems))
    if 2 * counts[best] <= len(mask_stems):
        best = Addition()
    names = MaskNames(best, folders) if folders else _with_folders(best, image_paths, masks)
    paths = image_stems if names.bare else image_paths
    met = sum(names.image_name(key) in paths for key in masks)
    return FoundNames(names, met / max(1, len(masks)), tuple(further_kinds))


def _further_kinds(
    best: Addition, masks: Sequence[str], images: Collection[str], counts: Mapping[Addition, int]
) -> list[Addition]:
    """Additions of masks that the best one leaves, and which are not just a few."""
    left = [stem for stem in masks if best.image_stem(stem) not in images]
    least = max(2, _OTHER_KIND * counts[best])
    further_kinds = []
    for addition in sorted(counts, key=lambda kind: (-counts[kind], kind)):
        unmet = [stem for stem in left if addition.image_stem(stem) not in images]
        if len(left) - len(unmet) >= least:
            further_kinds.append(addition)
            left = unmet
    return further_kinds


def _additions(masks: Sequence[str], images: Collection[str]) -> list[Addition]:
    """Additions that would match some masks with an image, the commonest first; none at all is always one."""
    ordered = sorted(images)
    backwards = sorted(stem[::-1] for stem in images)
    votes: Counter[Addition] = Counter()
    for stem in masks:
        if stem in images:
            continue
        for at in range(1, len(stem)):
            if stem[:at] in images and _has_letter(stem[at:]):
                votes[Addition(mask_suffix=stem[at:])] += 1
            if stem[at:] in images and _has_letter(stem[:at]):
                votes[Addition(mask_prefix=stem[:at])] += 1
        votes.update(Addition("", image, "", mask) for image, mask in _rests(stem, ordered))
        for image, mask in _rests(stem[::-1], backwards):
            votes[Addition(image[::-1], "", mask[::-1], "")] += 1
    return [Addition(), *(addition for addition, _ in votes.most_common(_TRIED))]


def _rests(stem: str, ordered: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The rests of an image's name and of the mask's after their common part.

    That is the number of the image, or a name that a separator ends; `cat` and `car` share nothing.

    Args:
      stem: the name of the mask.
      ordered: names of images, sorted; those beside the mask's share most with it.
    """
    at = bisect.bisect(ordered, stem)
    for image in ordered[max(0, at - 1) : at + 1]:
        shared = _LETTERS_AT_END.sub("", posixpath.commonprefix([image, stem]))
        common = shared.rstrip(_SEPARATORS)
        rests = image[len(common) :], stem[len(common) :]
        if common and all(map(_has_letter, rests)):
            yield rests


def _has_letter(text: str) -> bool:
    return any(map(str.isalpha, text))


def _with_folders(addition: Addition, images: Collection[str], masks: Sequence[str]) -> MaskNames:
    """The difference between the folders of masks and of their images."""
    same = MaskNames(addition)
    named = [same.image_name(key) for key in masks]
    if 2 * sum(path in images for path in named) > len(masks):
        return same
    folders_of: dict[str, list[str]] = {}
    for path in images:
        folders_of.setdefault(posixpath.basename(path), []).append(posixpath.dirname(path))
    votes: Counter[tuple[str, str]] = Counter()
    for path in named:
        for folder in folders_of.get(posixpath.basename(path), ()):
            ours, theirs = posixpath.dirname(path).split("/"), folder.split("/")
            differ = [pair for pair in zip(ours, theirs, strict=False) if pair[0] != pair[1]]
            if len(ours) == len(theirs) and len(differ) == 1 and all(differ[0]):
                votes[differ[0]] += 1
    for pair, _ in votes.most_common(1):
        renamed = replace(same, folders=(pair,))
        if 2 * sum(renamed.image_name(key) in images for key in masks) > len(masks):
            return renamed
    unique = all(len(folders) == 1 for folders in folders_of.values())
    met = sum(posixpath.basename(path) in folders_of for path in named)
    return replace(same, bare=unique and 2 * met > len(masks))
