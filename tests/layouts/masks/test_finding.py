"""Where masks lie, told from names of folders and files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from beam_pipeline.core.labels.mask_names import Addition, MaskNames
from beam_pipeline.core.listing.filters import ImageRoot
from beam_pipeline.layouts.layout import SourceOptions
from beam_pipeline.layouts.masks import Masks, first_keys, look_for_pairs
from tests.pictures import write_files


def put(*names: str) -> None:
    write_files(".", dict.fromkeys(names, "x"))


@pytest.mark.parametrize(
    ("names", "why", "images", "masks", "found"),
    [
        (
            ["images/a.jpg", "masks/a.png"],
            "masks/ beside images/ in .",
            ("images", ()),
            ("masks", ()),
            MaskNames(),
        ),
        (
            ["images/training/a.jpg", "annotations/training/a.png"],
            "annotations/ beside images/ in .",
            ("images", ()),
            ("annotations", ()),
            MaskNames(),
        ),
        (
            ["train/images/a.jpg", "train/masks/a.png", "val/images/b.jpg", "val/masks/b.png"],
            "train/masks/ beside train/images/ in .",
            ("", ("train/images/", "val/images/")),
            ("", ("train/masks/", "val/masks/")),
            MaskNames(folders=(("masks", "images"),)),
        ),
        (
            ["train/a.png", "train_labels/a_L.png", "test/b.png", "test_labels/b_L.png"],
            "test_labels/ beside test/ in .",
            ("", ("test/", "train/")),
            ("", ("test_labels/", "train_labels/")),
            MaskNames(
                Addition(mask_suffix="_L"), (("test_labels", "test"), ("train_labels", "train"))
            ),
        ),
    ],
)
def test_folders_beside_each_other_are_pairs(
    working_folder: Path,
    names: list[str],
    why: str,
    images: tuple[str, Sequence[str]],
    masks: tuple[str, Sequence[str]],
    found: MaskNames,
) -> None:
    """With splits above, below or in the names; nothing is opened."""
    put(*names)
    pairs = look_for_pairs(str(working_folder))
    assert pairs is not None
    roots = [
        ImageRoot(str(working_folder / folder), within=tuple(within))
        for folder, within in (images, masks)
    ]
    assert [*pairs.images, *pairs.masks] == roots
    assert pairs.names.names == found
    assert Masks().recognise(SourceOptions((".",))) == why


@pytest.mark.parametrize(
    "names",
    [
        ["images/a.jpg", "labels/a.txt"],
        ["images/a.jpg", "masks/b.png"],
        ["images/a.jpg", "masks/a.jpg"],
        ["images/a.jpg", "masks/a.png", "labels/a.png"],
        ["cat/a.jpg", "dog/b.jpg"],
        ["train/cat/a.jpg", "val/cat/b.jpg"],
        ["images/a.jpg", "images/b.jpg", "masks/a_x.png", "masks/a_y.png", "masks/b_x.png"],
    ],
)
def test_what_is_not_certain_is_not_taken(working_folder: Path, names: list[str]) -> None:
    """Label files, names that do not meet, JPEGs, two folders of masks, classes, several kinds."""
    put(*names)
    assert look_for_pairs(str(working_folder)) is None
    assert Masks().recognise(SourceOptions((".",))) == ""


def test_names_are_looked_at_in_order(working_folder: Path) -> None:
    """The first few, without hidden ones."""
    put("b/1.png", "a/2.png", "a/.hidden.png", ".x/3.png", "a/notes.txt")
    root = ImageRoot(str(working_folder))
    assert first_keys([root]) == ["a/2.png", "b/1.png"]
    assert first_keys([root], 1) == ["a/2.png"]
    assert first_keys([ImageRoot(f"{working_folder}/nowhere")]) == []
