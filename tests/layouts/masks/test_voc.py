"""Folders of Pascal VOC's masks."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from beam_pipeline.layouts.layout import SourceOptions
from beam_pipeline.layouts.masks import Masks, VocMasks, voc_masks


@pytest.fixture
def year(working_folder: Path) -> str:
    """A year without masks of objects."""
    folder = f"{working_folder}/VOCdevkit/VOC2012"
    for name in ("JPEGImages", "SegmentationClass"):
        os.makedirs(f"{folder}/{name}")
    return folder


@pytest.mark.parametrize(
    "path", [".", "VOCdevkit", "VOCdevkit/VOC2012", "VOCdevkit/VOC2012/JPEGImages"]
)
def test_a_year_is_found_from_around(year: str, path: str) -> None:
    """The folder above, itself, and that of its images."""
    assert voc_masks([path]) == [VocMasks(year, True, (f"{year}/SegmentationClass",))]


def test_a_set_of_ones_own_has_no_standard_classes(year: str) -> None:
    """Its folder is not called as a year."""
    os.rename(year, "mine")
    os.mkdir("mine/SegmentationObject")
    mine = f"{os.getcwd()}/mine"
    masks = (f"{mine}/SegmentationClass", f"{mine}/SegmentationObject")
    assert voc_masks(["mine"]) == [VocMasks(mine, False, masks)]


def test_boxes_come_first(year: str) -> None:
    """With Annotations/ the layout voc is recognised; --layout masks takes the masks."""
    options = SourceOptions(("VOCdevkit",))
    assert Masks().recognise(options) == (
        "SegmentationClass/ beside JPEGImages/ in VOCdevkit/VOC2012"
    )
    os.mkdir(f"{year}/Annotations")
    assert Masks().recognise(options) == ""
