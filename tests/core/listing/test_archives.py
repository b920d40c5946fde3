"""What members of archives are called, and what paths and names say of labels."""

from __future__ import annotations

import pytest

from beam_pipeline.core.listing.archives import Archive, top_folder


@pytest.mark.parametrize(
    ("archive", "path", "aliases"),
    [
        (
            Archive("zip", "a/photos.zip"),
            "cat/1.jpg",
            ("cat/1.jpg", "cat/1.jpg", "photos/cat/1.jpg", ""),
        ),
        (Archive("zip", "photos.zip"), "1.jpg", ("1.jpg", "1.jpg", "photos/1.jpg", "")),
        (
            Archive("tar", "p.tar", top="x/y/"),
            "x/y/cat/1.jpg",
            ("cat/1.jpg", "x/y/cat/1.jpg", "p/x/y/cat/1.jpg", "y/cat/1.jpg"),
        ),
        (
            Archive("tar", "val.tar", split="validation"),
            "cat/1.jpg",
            ("validation/cat/1.jpg", "cat/1.jpg", "val/cat/1.jpg", ""),
        ),
        (
            Archive("tar", "val.tar", split="validation"),
            "val/cat/1.jpg",
            ("val/cat/1.jpg", "val/cat/1.jpg", "val/val/cat/1.jpg", "cat/1.jpg"),
        ),
    ],
)
def test_a_member_has_names_besides_its_key(
    archive: Archive, path: str, aliases: tuple[str, ...]
) -> None:
    """The first says class and split; rows may use any."""
    assert archive.aliases(path) == aliases
    assert archive.key(path) == f"{archive.name}/{path}"


@pytest.mark.parametrize(
    ("names", "top"),
    [
        ([], ""),
        (["1.jpg"], ""),
        (["cat/1.jpg"], ""),
        (["cat/1.jpg", "dog/1.jpg"], ""),
        (["p/cat/1.jpg", "p/dog/1.jpg"], "p/"),
        (["p/cat/1.jpg", "p/1.jpg"], ""),
        (["p/q/cat/1.jpg", "p/q/dog/1.jpg"], "p/q/"),
        (["p/cat/1.jpg", "px/dog/1.jpg"], ""),
        (["train/cat/1.jpg", "train/dog/1.jpg"], ""),
        (["p/Train/cat/1.jpg", "p/Train/dog/1.jpg"], "p/"),
    ],
)
def test_a_folder_around_all_others_says_no_class(names: list[str], top: str) -> None:
    """Unless it says a split, or images lie in it."""
    assert top_folder(names) == top


def test_words_of_a_file_name_say_a_split() -> None:
    """Not those of the folders around it."""
    names = ["train.tar", "train/x-val-0001.tar", "a/train_test.zip", "2024.tar"]
    assert [sorted(Archive("tar", name).said_splits) for name in names] == [
        ["train"],
        ["validation"],
        ["test", "train"],
        [],
    ]
