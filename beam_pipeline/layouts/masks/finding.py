"""Folders of masks beside folders of images, and the names in them."""

from __future__ import annotations

import functools
import itertools
import os
import posixpath
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from beam_pipeline.core.labels.folders import SPLIT_NAMES
from beam_pipeline.core.labels.mask_names import FoundNames, find_names
from beam_pipeline.core.listing.filters import ImageRoot, ListingFilter, ObjectFilter
from beam_pipeline.core.uris import is_remote
from beam_pipeline.layouts.shared.local_names import once, subfolders
from beam_pipeline.storage import files

MOST_NAMES = 4000  # looked at on either side
_CERTAIN = 0.9  # of the masks found that meet an image, for folders to be taken without --masks
_IMAGES = ("images", "image", "imgs", "img", "jpegimages", "leftimg8bit")
_MASKS = (
    *("masks", "mask", "annotations", "labels", "label", "segmentationclass", "gtfine"),
    *("segmentations", "segmentation", "groundtruth", "ground_truth", "gt"),
)
_MASK_ENDINGS = ("_labels", "_label", "_masks", "_mask", "_annotations", "annot")
_PNG = frozenset({".png", ".gif", ".bmp"})


class Pairs(NamedTuple):
    """Images and their masks.

    Attributes:
      images, masks: where they lie.
      names: how masks are called.
      why: what was found, for people.
    """

    images: tuple[ImageRoot, ...]
    masks: tuple[ImageRoot, ...]
    names: FoundNames
    why: str = ""


def first_keys(roots: Sequence[ImageRoot], most: int = MOST_NAMES) -> list[str]:
    """The first few files below some roots, in order of their paths below them.

    There are none in a folder that cannot be listed: the job says so.
    """
    return sorted(
        key for root in roots for key in once(root, functools.partial(_first_of, root))[:most]
    )


def _first_of(root: ImageRoot) -> list[str]:
    keys = _remote_keys(root) if is_remote(root.uri) else _local_keys(root)
    return list(itertools.islice(keys, MOST_NAMES))


def _remote_keys(root: ImageRoot) -> Iterator[str]:
    rules = ObjectFilter(root)
    try:
        for file in files.list_files(root.uri):
            if rules.lists(file.name):
                yield file.name
    except Exception:
        return


def _local_keys(root: ImageRoot) -> Iterator[str]:
    rules = ListingFilter(root)
    for folder, folders, names in os.walk(root.uri, followlinks=False):
        below = os.path.relpath(folder, root.uri)
        start = "" if below == "." else f"{below}/"
        folders[:] = sorted(
            name for name in folders if rules.can_hold(start + name) and rules.enters(name)
        )
        for name in sorted(names):
            if rules.lists(start + name, f"{root.uri}/{start}{name}"):
                yield start + name


def look_for_pairs(folder: str) -> Pairs | None:
    """Images and masks in a local folder that certainly belong together; None if there are none.

    Found are `images/` beside `masks/`, with splits in both or in neither; the two in each folder of a
    split; and `train/` beside `train_labels/`, as CamVid has them. Names in them tell.
    """
    for pairs in (_beside(folder), _in_splits(folder), _split_beside(folder)):
        if pairs and pairs.names.met >= _CERTAIN and pairs.names.certain:
            return pairs
    return None


def _beside(folder: str) -> Pairs | None:
    found = _image_and_mask_folders(folder)
    if not found:
        return None
    images, masks = (f"{folder}/{name}" for name in found)
    return _pairs(
        (ImageRoot(images),), (ImageRoot(masks),), f"{found[1]}/ beside {found[0]}/ in {folder}"
    )


def _in_splits(folder: str) -> Pairs | None:
    splits = [below for below in subfolders(folder) if _is_split(below)]
    found = {posixpath.basename(below): _image_and_mask_folders(below) for below in splits}
    if not found or not all(found.values()):
        return None
    images = tuple(f"{split}/{pair[0]}/" for split, pair in found.items() if pair)
    masks = tuple(f"{split}/{pair[1]}/" for split, pair in found.items() if pair)
    folders = tuple(sorted({(pair[1], pair[0]) for pair in found.values() if pair}))
    why = f"{masks[0]} beside {images[0]} in {folder}"
    return _pairs(
        (ImageRoot(folder, within=images),), (ImageRoot(folder, within=masks),), why, folders
    )


def _split_beside(folder: str) -> Pairs | None:
    names = {posixpath.basename(below) for below in subfolders(folder)}
    folders = tuple(
        (f"{name}{ending}", name)
        for name in sorted(names)
        for ending in _MASK_ENDINGS
        if name.lower() in SPLIT_NAMES and f"{name}{ending}" in names
    )
    if not folders:
        return None
    images = tuple(f"{name}/" for _, name in folders)
    masks = tuple(f"{name}/" for name, _ in folders)
    why = f"{masks[0]} beside {images[0]} in {folder}"
    return _pairs(
        (ImageRoot(folder, within=images),), (ImageRoot(folder, within=masks),), why, folders
    )


def _pairs(
    images: tuple[ImageRoot, ...],
    masks: tuple[ImageRoot, ...],
    why: str,
    folders: tuple[tuple[str, str], ...] = (),
) -> Pairs | None:
    mask_keys = first_keys(masks)
    if not mask_keys or {posixpath.splitext(key)[1].lower() for key in mask_keys} - _PNG:
        return None
    return Pairs(images, masks, find_names(first_keys(images), mask_keys, folders), why)


def _image_and_mask_folders(folder: str) -> tuple[str, str] | None:
    """Names of the one folder of images and the one of masks in a folder; None without either."""
    names = [posixpath.basename(below) for below in subfolders(folder)]
    images = [name for name in names if name.lower() in _IMAGES]
    masks = [name for name in names if name.lower() in _MASKS]
    return (images[0], masks[0]) if len(images) == len(masks) == 1 else None


def _is_split(folder: str) -> bool:
    return posixpath.basename(folder).lower() in SPLIT_NAMES
