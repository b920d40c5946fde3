"""What a file system gets from the protocol beyond what it must bring itself."""

from __future__ import annotations

import errno

import pytest

from beam_pipeline.storage.base import FileSystem, all_of
from tests.storage.fixtures import MemoryFiles


@pytest.fixture
def storage() -> MemoryFiles:
    """A bucket with two files in `out` and one beside it."""
    return MemoryFiles({"x://b/out/a/1": b"12", "x://b/out/2": b"345", "x://b/outer": b""})


def test_a_missing_file_is_none_or_an_error(storage: MemoryFiles) -> None:
    """`read_if_there` tells the two apart; other errors pass."""
    assert storage.read_if_there("x://b/out/2") == b"345"
    assert storage.read_if_there("x://b/out/3") is None
    assert (storage.exists("x://b/out/2"), storage.exists("x://b/out/3")) == (True, False)
    assert storage.exists("x://b/outer")  # though it is empty


def test_storage_without_folders_lists_paths(storage: MemoryFiles) -> None:
    """Names are sorted, and relative to the folder; a folder that does not exist has none."""
    assert storage.list_folder("x://b/out") == ["2", "a/1"]
    assert storage.sizes_in("x://b/out") == {"2": 3, "a/1": 2}
    assert storage.list_folder("x://b/gone") == []


def test_deleting_a_folder_deletes_what_is_below_it(storage: MemoryFiles) -> None:
    """And nothing beside it."""
    storage.delete_folder("x://b/out")
    assert storage.files == {"x://b/outer": b""}


def test_what_a_storage_cannot_do_does_nothing(storage: MemoryFiles) -> None:
    """Folders, credentials and versions are not of every storage."""
    before = dict(storage.files)
    storage.make_folder("x://b/new")
    storage.prepare_folder("x://b/new", "x://b/new/probe")
    storage.check_credentials()
    storage.check_readable("x://b/gone")
    assert storage.version_of("x://b/out/2") == 0
    assert storage.files == before


def test_storage_does_not_list_ranges_unless_it_says_so() -> None:
    """The two methods of ranges are for those that do."""

    class WithoutRanges(MemoryFiles):
        lists_ranges = FileSystem.lists_ranges
        list_range = FileSystem.list_range
        first_name = FileSystem.first_name

    storage = WithoutRanges()
    assert not storage.lists_ranges
    with pytest.raises(NotImplementedError):
        storage.list_range("x://b/")
    with pytest.raises(NotImplementedError):
        storage.first_name("x://b/")


def test_part_of_a_file_is_all_of_it_or_an_error() -> None:
    """The error names the file and the byte that was asked for."""
    assert all_of(b"abc", "x://b/f", 3, 10) == b"abc"
    assert all_of(b"", "x://b/f", 0, 10) == b""
    with pytest.raises(OSError, match="the file ends before byte 13") as caught:
        all_of(b"ab", "x://b/f", 3, 10)
    assert (caught.value.errno, caught.value.filename) == (errno.EIO, "x://b/f")
