"""Pascal VOC's masks: SegmentationClass/ and SegmentationObject/ beside JPEGImages/."""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Mapping
from typing import NamedTuple

from beam_pipeline.core.dataset.sharding import DEFAULT_SPLIT
from beam_pipeline.core.labels.folders import SPLIT_NAMES
from beam_pipeline.core.uris import is_remote
from beam_pipeline.layouts.shared.local_names import subfolders
from beam_pipeline.layouts.shared.split_lists import check_not_listed_twice, read_list
from beam_pipeline.storage import files

IMAGES, CLASSES, OBJECTS = "JPEGImages", "SegmentationClass", "SegmentationObject"
LISTS = "ImageSets/Segmentation"
_KIT = "VOCdevkit"
_YEAR = re.compile(r"VOC\d{4}")
_LISTED = ("train", "val", "test")
_ALL_OF_TRAINING = "trainval"

VOC_CLASSES = (
    *("background", "aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat"),
    *("chair", "cow", "diningtable", "dog", "horse", "motorbike", "person", "pottedplant"),
    *("sheep", "sofa", "train", "tvmonitor"),
)
"""VOC's classes in the order of their ids in masks; 255 is void. Source: VOC2012's VOClabelcolormap."""


class VocMasks(NamedTuple):
    """The folders of a year of VOC, or of a set kept like one.

    Attributes:
      folder: which holds the others.
      standard: whether the classes are VOC's own.
      objects: whether it has masks of objects.
    """

    folder: str
    standard: bool
    objects: bool

    @property
    def images(self) -> str:
        """The folder of images."""
        return f"{self.folder}/{IMAGES}"

    @property
    def masks(self) -> tuple[str, ...]:
        """The folders of masks: of classes and, if there are any, of objects."""
        names = (CLASSES, OBJECTS) if self.objects else (CLASSES,)
        return tuple(f"{self.folder}/{name}" for name in names)


def voc_masks(uri: str) -> list[VocMasks]:
    """The sets that a path of --images means, as far as names of folders tell.

    Args:
      uri: a year's folder, one that holds years, or the folder of images in it.
    """
    if posixpath.basename(uri) == IMAGES:
        uri = posixpath.dirname(uri)
    if is_remote(uri):
        return [VocMasks(uri, True, True)] if _YEAR.fullmatch(posixpath.basename(uri)) else []
    for folders in ([uri], subfolders(uri), subfolders(f"{uri}/{_KIT}")):
        found = [folder for folder in folders if _is_set(folder)]
        if found:
            return [
                VocMasks(
                    folder,
                    _YEAR.fullmatch(posixpath.basename(folder)) is not None,
                    os.path.isdir(f"{folder}/{OBJECTS}"),
                )
                for folder in found
            ]
    return []


def has_annotations(found: VocMasks) -> bool:
    """True if there are boxes, too, which the layout voc reads."""
    return os.path.isdir(f"{found.folder}/Annotations")


def _is_set(folder: str) -> bool:
    return all(os.path.isdir(f"{folder}/{name}") for name in (IMAGES, CLASSES))


def splits_of(found: VocMasks) -> Mapping[str, str]:
    """Name of an image, without extension -> its split, by the lists; empty without lists.

    Raises:
      UsageError: a name is in two of train.txt, val.txt and test.txt.
    """
    splits: dict[str, str] = {}
    for name in (*_LISTED, _ALL_OF_TRAINING):
        uri = files.join(found.folder, f"{LISTS}/{name}.txt")
        split = SPLIT_NAMES.get(name, DEFAULT_SPLIT)
        listed = read_list(uri)
        if name != _ALL_OF_TRAINING:
            check_not_listed_twice(uri, listed, split, splits)
        for stem in listed:
            splits.setdefault(stem, split)
    return splits
