"""Masks among their images; tests/beam_pipeline/test_questions.py has the command."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from beam_pipeline.layouts.layout import Doubt
from beam_pipeline.layouts.surroundings.folders import Folder
from beam_pipeline.layouts.surroundings.masks_among import masks_among


def doubts_of(*images: Sequence[str]) -> list[Doubt]:
    folders = [Folder(f"/d/{number}", names, (), ()) for number, names in enumerate(images)]
    return list(masks_among(folders, "/d/"))


def test_the_pattern_is_that_of_most_masks() -> None:
    """In whatever folders; the first is shown."""
    (doubt,) = doubts_of(
        ["1.jpg", "1_Mask.png", "2.jpg"], ["a (1).png", "a (1)_mask.png", "b.png", "b_mask.png"]
    )
    assert doubt.reason.startswith("3 files with names of masks, such as /d/0/1_Mask.png, would be")
    assert doubt.advice == (
        "If folders are the classes, --label_from '(?:(?P<split>train|val|test)/)?(?P<label>.+)/"
        r".+(?<!_mask)[.]\w+' leaves the masks out. If the masks are the labels:"
    )
    assert (doubt.images, doubt.masks) == (("/d/",), ("/d/**/*_mask.png",))


@pytest.mark.parametrize(
    "images",
    [
        (["1.jpg", "2.jpg"],),
        (["1_mask.png", "2_mask.png"],),
        (["1.jpg"], ["1_mask.png"]),
        (["1.jpg", "1_unmask.png"],),
        (["1.jpg", "1_mask.png", "2.jpg", "3.jpg", "4.jpg"],),
        ([],),
    ],
)
def test_other_names_are_no_masks(images: tuple[Sequence[str], ...]) -> None:
    """None has an image beside it, or fewer than half of the images have one."""
    assert doubts_of(*images) == []
