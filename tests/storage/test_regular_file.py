"""Local files of which only the name is known."""

from __future__ import annotations

import errno
import os
import socket
from pathlib import Path

import pytest

from beam_pipeline.storage.regular_file import open_regular

pytestmark = pytest.mark.timeout(20)


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


def test_pipes_and_devices_are_refused(tmp_path: Path) -> None:
    """At once, with the name; no descriptor stays open."""
    pipe = str(tmp_path / "pipe")
    os.mkfifo(pipe)
    before = os.listdir("/proc/self/fd")
    for path in (pipe, os.devnull):
        with pytest.raises(OSError, match="a pipe, socket or device, not a file") as caught:
            open_regular(path)
        assert (caught.value.errno, caught.value.filename) == (errno.EINVAL, path)
    assert os.listdir("/proc/self/fd") == before


def test_a_socket_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system itself does not open it."""
    monkeypatch.chdir(tmp_path)  # a socket's path has at most 107 bytes
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("s")
        with pytest.raises(OSError, match="No such device or address"):
            open_regular("s")


def test_a_folder_and_a_missing_file_have_the_errors_of_the_system(tmp_path: Path) -> None:
    """Callers tell them apart by their classes."""
    with pytest.raises(IsADirectoryError) as caught:
        open_regular(str(tmp_path))
    assert caught.value.filename == str(tmp_path)
    with pytest.raises(FileNotFoundError):
        open_regular(str(tmp_path / "none"))


@pytest.mark.parametrize("name", ["a\0b", "a\ud800b"])
def test_an_impossible_name_is_an_error_of_files(tmp_path: Path, name: str) -> None:
    """Python says ValueError, for which no caller looks."""
    path = f"{tmp_path}/{name}"
    with pytest.raises(OSError, match="no name of a file") as caught:
        open_regular(path)
    assert caught.value.filename == path
