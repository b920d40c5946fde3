"""Comparing images as a task."""

from __future__ import annotations

from beam_pipeline.core.dataset.duplicates import (
    Duplicates,
    WrittenImage,
    pack_images,
)
from beam_pipeline.work.planning import compare_images
from tests.core.dataset.duplicate_images import group


def test_images_of_all_parts_are_compared() -> None:
    """One pair, whose images are in different parts."""
    images = [WrittenImage(bytes([i % 4]) * 16, 7, "train", f"{i}") for i in range(5)]
    outcome = compare_images([pack_images(images[:3]), pack_images(images[3:])])
    pair = group(("train", "0"), ("train", "4"))
    assert outcome.main == [Duplicates(5, 2, 1, 0, 0, (pair,))]
