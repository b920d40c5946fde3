"""Lists of the images of a split."""

from __future__ import annotations

from pathlib import Path

import pytest

from beam_pipeline.core.errors import UsageError
from beam_pipeline.layouts.shared.split_lists import check_not_listed_twice, read_list


def test_names_without_folder_and_extension(tmp_path: Path) -> None:
    """However they are written; a list that is not there is empty."""
    path = tmp_path / "train.txt"
    path.write_bytes(b"\xef\xbb\xbf000001\r\n\r\n JPEGImages/000002.jpg\na.b\nc.xml\n")
    assert read_list(str(path)) == ["000001", "000002", "a.b", "c"]
    assert read_list(str(tmp_path / "val.txt")) == []


def test_a_list_that_is_no_utf_8(tmp_path: Path) -> None:
    """Is refused by its name."""
    path = tmp_path / "train.txt"
    path.write_bytes(b"\xff\n")
    with pytest.raises(UsageError, match=r"train\.txt is not UTF-8 .*; save it as UTF-8"):
        read_list(str(path))


def test_a_name_in_two_lists() -> None:
    """Of the same split it may be."""
    check_not_listed_twice("x/train.txt", ["a"], "train", {"a": "train"})
    with pytest.raises(UsageError, match=r"x/val\.txt names 1 image, such as 'a', that another"):
        check_not_listed_twice("x/val.txt", ["a", "b"], "validation", {"a": "train"})
