"""Names of Parquet files: which are found, and which splits they say."""

from __future__ import annotations

from pathlib import Path

import pytest

from beam_pipeline.core.errors import UsageError
from beam_pipeline.layouts.parquet.reader import (
    first_parquet,
    parquet_files,
    split_questions,
    splits_of,
)
from tests.pictures import write_files, write_pictures


@pytest.mark.parametrize(
    ("name", "split"),
    [
        ("data/train-00000-of-00001.parquet", "train"),
        ("data/train-00000-of-00005-0a1b2c3d4e5f6789.parquet", "train"),
        ("data/validation-00000-of-00001.parquet", "validation"),
        ("data/val.parquet", "validation"),
        ("dev-00000-of-00001.parquet", "validation"),
        ("default/train/0000.parquet", "train"),
        ("default/partial-train/0000.parquet", "train"),
        ("default/test/0000.parquet", "test"),
        ("test/train-00000-of-00001.parquet", "train"),
        ("pets.parquet", ""),
        ("train_test.parquet", ""),
        ("support-00000-of-00001.parquet", ""),
    ],
)
def test_names_say_splits(name: str, split: str) -> None:
    """The file's own name first, then the folders from the inside out."""
    assert splits_of([name]) == ({name: split} if split else {})


def test_other_splits_count_beside_usual_ones() -> None:
    """Hugging Face allows any name; alone, it may be the data set's."""
    names = ["support-00000-of-00001.parquet", "train-00000-of-00001.parquet"]
    assert splits_of(names) == {names[0]: "support", names[1]: "train"}
    assert [*split_questions(names, splits_of(names))] == []


def test_files_below_a_folder(working_folder: Path) -> None:
    """All of them, without hidden ones, in the order of their names."""
    paths = ["b.parquet", "a/x.PARQUET", "a/x.csv", ".cache/y.parquet", "a/.z.parquet"]
    write_files("hf", dict.fromkeys(paths, b""))
    assert [found.name for found in parquet_files(["hf"])] == ["a/x.PARQUET", "b.parquet"]
    assert [found.name for found in parquet_files(["hf/*/x*", "hf/b.parquet"])] == [
        "a/x.PARQUET",
        "b.parquet",
    ]


def test_two_files_of_one_name(working_folder: Path) -> None:
    """Keys would not tell their images apart; one file named twice is one."""
    write_files(".", {"train/0.parquet": b"", "test/0.parquet": b""})
    with pytest.raises(UsageError, match=r"would both be called 0\.parquet"):
        parquet_files(["train", "test"])
    assert len(parquet_files(["train", "train/0.parquet"])) == 1
    assert [found.name for found in parquet_files(["."])] == ["test/0.parquet", "train/0.parquet"]


@pytest.mark.parametrize("path", ["none", "none.parquet", "hf", "hf/*.parquet", " "])
def test_no_files(path: str, working_folder: Path) -> None:
    """It is an error that names the path."""
    Path("hf").mkdir()
    with pytest.raises(UsageError, match="--images"):
        parquet_files([path])


def test_the_first_file(working_folder: Path) -> None:
    """None if there are images in its folder, or none in a folder of few levels."""
    write_files(".", {"hf/default/train/0000.parquet": b"", "hf/README.md": b""})
    found = first_parquet("hf")
    assert found is not None
    assert found.name == "default/train/0000.parquet"
    write_pictures("hf/default", ["a.jpg"])
    assert first_parquet("hf") is None
    assert first_parquet("none") is None
    assert first_parquet("none*.parquet") is None
