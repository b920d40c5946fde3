"""Local files: reading, and what the file system tells of them."""

from __future__ import annotations

import errno
import os
import resource
import socket
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from beam_pipeline.core.errors import ChangedFileError
from beam_pipeline.storage.base import FoundFile
from beam_pipeline.storage.local import LocalFiles, open_regular
from beam_pipeline.storage.read_ahead import Prefetch, ReadOptions, Request

read_file, read_listed = LocalFiles().read, LocalFiles().read_listed
READS: list[Callable[[str], Any]] = [
    open_regular,
    read_file,
    LocalFiles().read_if_there,
    LocalFiles().open_input,
    partial(read_file, size=1, offset=0),
]


@pytest.mark.parametrize("length", [0, 1, 1000, 1 << 20, (1 << 20) + 1, 3_000_000])
def test_a_file_is_read_whole(tmp_path: Path, length: int) -> None:
    """With one read if its size was listed, and without knowing its size."""
    content = (bytes(range(256)) * (length // 256 + 1))[:length]
    path = tmp_path / "a.jpg"
    path.write_bytes(content)
    assert read_listed(str(path), length) == read_file(str(path)) == content


@pytest.mark.parametrize("length", [0, 1, 1000])
@pytest.mark.parametrize("error", [-1000, -1, 1, 1000, 1 << 40])
def test_a_file_of_another_size_than_listed_is_not_read(
    tmp_path: Path, length: int, error: int
) -> None:
    """It grew or shrank since, or an inventory was wrong."""
    path = tmp_path / "a.jpg"
    path.write_bytes(bytes(length))
    listed = length + error
    if listed < 0:
        return
    with pytest.raises(ChangedFileError, match=f"^{length} bytes, listed with {listed}; "):
        read_listed(str(path), listed)


def test_a_file_that_grew_to_terabytes_takes_no_memory(tmp_path: Path) -> None:
    """Its size is looked at before anything is read."""
    path = tmp_path / "a.jpg"
    path.touch()
    os.truncate(path, 1 << 40)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ChangedFileError):
        read_listed(str(path), 100)
    request = Request(str(path), 100, -1)
    with (
        Prefetch([request], no_read, ReadOptions(prefetched=1)) as ahead,
        pytest.raises(ChangedFileError),
    ):
        ahead.read(*request)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20_000  # KiB


@pytest.mark.timeout(20)
def test_a_pipe_never_hangs(tmp_path: Path) -> None:
    """Opening it the usual way would wait for somebody who writes to it."""
    path = str(tmp_path / "a.jpg")
    os.mkfifo(path)
    with pytest.raises(ChangedFileError, match="a pipe or a device, listed as a file of 100 bytes"):
        read_listed(path, 100)
    request = Request(path, 100, -1)
    with (
        Prefetch([request], no_read, ReadOptions(prefetched=1)) as ahead,
        pytest.raises(ChangedFileError),
    ):
        ahead.read(*request)


def no_read(uri: str, size: int, offset: int) -> bytes:
    raise AssertionError("the prefetched file is read")


@pytest.mark.timeout(20)
@pytest.mark.parametrize("read", READS)
def test_only_regular_files_are_read(tmp_path: Path, read: Callable[[str], Any]) -> None:
    """Others are refused at once, with their names, and leave no descriptor open."""
    pipe, folder, missing = (str(tmp_path / name) for name in ("pipe", "folder", "missing"))
    os.mkfifo(pipe)
    os.mkdir(folder)
    before = os.listdir("/proc/self/fd")
    for path in (pipe, os.devnull):
        with pytest.raises(OSError, match="a pipe, socket or device, not a file") as caught:
            read(path)
        assert (caught.value.errno, caught.value.filename) == (errno.EINVAL, path)
    with pytest.raises(IsADirectoryError) as caught:
        read(folder)
    assert caught.value.filename == folder
    for path in (f"{tmp_path}/a\0b", f"{tmp_path}/a\ud800b"):  # for which Python raises ValueError
        with pytest.raises(OSError, match="no name of a file") as caught:
            read(path)
        assert caught.value.filename == path
    if getattr(read, "__name__", "") != "read_if_there":
        with pytest.raises(FileNotFoundError):
            read(missing)
    assert os.listdir("/proc/self/fd") == before


@pytest.mark.parametrize("path", ["a.jpg", "", "/", "pipe", "long"])
def test_reading_leaves_no_file_open(tmp_path: Path, path: str) -> None:
    """Neither success nor failure costs a file handle."""
    (tmp_path / "a.jpg").write_bytes(b"x")
    (tmp_path / "long").write_bytes(b"xx")
    os.mkfifo(tmp_path / "pipe")
    before = len(os.listdir("/dev/fd"))
    for _ in range(3):
        try:
            read_listed(f"{tmp_path}/{path}", 1)
        except OSError:
            assert path != "a.jpg"
        try:
            read_file(f"{tmp_path}/{path}")
        except OSError:
            assert path not in ("a.jpg", "long")
    assert len(os.listdir("/dev/fd")) == before


def test_part_of_a_file_is_read(tmp_path: Path) -> None:
    """As many bytes as there are from the offset on, and no more than asked for."""
    path = tmp_path / "a"
    path.write_bytes(b"0123456789")
    assert read_file(str(path), 4, 3) == b"3456"
    assert read_file(str(path), 4, 8) == b"89"
    assert read_file(str(path), 4, 10) == b""


def test_files_are_listed_at_any_depth(tmp_path: Path) -> None:
    """By their paths below the folder, with sizes and the time of the last change."""
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/b").write_bytes(b"12")
    (tmp_path / ".a").write_bytes(b"1")
    os.utime(tmp_path / "sub/b", ns=(5, 7))
    os.utime(tmp_path / ".a", ns=(5, 9))
    found = sorted(LocalFiles().list_files(str(tmp_path)))
    assert found == [FoundFile(".a", 1, 9), FoundFile("sub/b", 2, 7)]
    assert LocalFiles().version_of(str(tmp_path / ".a")) == 9


def test_a_folder_is_listed_by_its_own_names(tmp_path: Path) -> None:
    """Folders count as names, and have no size."""
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/b").write_bytes(b"12")
    (tmp_path / ".a").write_bytes(b"1")
    assert LocalFiles().list_folder(str(tmp_path)) == [".a", "sub"]
    assert LocalFiles().list_folder(str(tmp_path / "none")) == []
    (name, file), *_ = LocalFiles().files_in(str(tmp_path)).items()
    assert (name, file.name, file.size) == (".a", ".a", 1)


def test_a_copy_on_one_disk_is_a_hard_link(tmp_path: Path) -> None:
    """It replaces an older file, and a link that is there already stays."""
    (tmp_path / "a").write_bytes(b"content")
    (tmp_path / "b").write_bytes(b"older")
    for _ in range(2):
        temporary = str(tmp_path / ".incomplete/b.1.x")
        assert LocalFiles().copy_from(str(tmp_path / "a"), str(tmp_path / "b"), temporary)
        assert os.path.samefile(tmp_path / "a", tmp_path / "b")
        assert not os.listdir(tmp_path / ".incomplete")
    (tmp_path / "a").unlink()
    assert (tmp_path / "b").read_bytes() == b"content"
    with pytest.raises(FileNotFoundError):
        LocalFiles().copy_from(str(tmp_path / "a"), str(tmp_path / "c"), str(tmp_path / "t"))


def test_a_symbolic_link_is_not_linked(tmp_path: Path) -> None:
    """It may be relative to its folder."""
    (tmp_path / "a").write_bytes(b"content")
    (tmp_path / "link").symlink_to("a")
    temporary = str(tmp_path / "t")
    assert not LocalFiles().copy_from(str(tmp_path / "link"), str(tmp_path / "b"), temporary)
    assert sorted(os.listdir(tmp_path)) == ["a", "link"]


def test_a_file_is_older_than_what_was_written_later(tmp_path: Path) -> None:
    """And of the given length."""
    for name, changed in (("a", 5), ("same", 5), ("later", 6)):
        (tmp_path / name).write_bytes(b"1234")
        os.utime(tmp_path / name, ns=(0, changed))
    a = str(tmp_path / "a")
    assert LocalFiles().is_older(a, 4, str(tmp_path / "same"))
    assert LocalFiles().is_older(a, 4, str(tmp_path / "later"))
    assert not LocalFiles().is_older(a, 3, str(tmp_path / "later"))
    assert not LocalFiles().is_older(str(tmp_path / "later"), 4, a)
    with pytest.raises(FileNotFoundError):
        LocalFiles().is_older(a, 4, str(tmp_path / "none"))


def test_a_regular_file_is_opened_for_reading(tmp_path: Path) -> None:
    """From its beginning, not for writing, and no child process inherits it."""
    path = tmp_path / "a.csv"
    path.write_bytes(b"a.jpg,cat\n")
    file = open_regular(str(path))
    try:
        assert os.read(file, 100) == b"a.jpg,cat\n"
        assert not os.get_inheritable(file)
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.write(file, b"x")
    finally:
        os.close(file)


def test_a_link_is_the_file_that_it_names(tmp_path: Path) -> None:
    """Data sets are often folders of links."""
    (tmp_path / "a").write_bytes(b"abc")
    (tmp_path / "link").symlink_to("a")
    file = open_regular(str(tmp_path / "link"))
    try:
        assert os.read(file, 100) == b"abc"
    finally:
        os.close(file)


def test_a_socket_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system itself does not open it."""
    monkeypatch.chdir(tmp_path)  # a socket's path has at most 107 bytes
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("s")
        with pytest.raises(OSError, match="No such device or address"):
            open_regular("s")
