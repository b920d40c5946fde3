"""What a file system gets from the protocol beyond what it must bring itself."""

from __future__ import annotations

import pytest

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
    sizes = {name: file.size for name, file in storage.files_in("x://b/out").items()}
    assert sizes == {"2": 3, "a/1": 2}
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
