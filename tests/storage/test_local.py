"""Local files: reading, what the file system tells of them, and that they appear whole or not at all."""

from __future__ import annotations

import errno
import fcntl
import os
import pickle
import resource
import signal
import socket
import sys
import termios
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from beam_pipeline.core.errors import ChangedFileError
from beam_pipeline.storage import base, local, read_ahead
from tests import harness, profiles

read_file, read_listed = local.LocalFiles().read, local.LocalFiles().read_listed
READS: list[Callable[[str], Any]] = [
    local.open_regular,
    read_file,
    local.LocalFiles().read_if_there,
    local.LocalFiles().open_input,
    partial(read_file, size=1, offset=0),
]


@pytest.mark.parametrize("length", [0, 1, 1000, 1 << 20, (1 << 20) + 1, 3_000_000])
def test_a_file_is_read_whole(tmp_path: Path, length: int) -> None:
    """With one read if its size was listed, and without knowing its size; no descriptor is left open."""
    content = (bytes(range(256)) * (length // 256 + 1))[:length]
    path = tmp_path / "a.jpg"
    path.write_bytes(content)
    before = os.listdir("/proc/self/fd")
    assert read_listed(str(path), length) == read_file(str(path)) == content
    assert os.listdir("/proc/self/fd") == before


def test_the_files_read_last_stay_open_until_their_reader_goes(tmp_path: Path) -> None:
    """Threads that crowd each other's files out read the right bytes; a pickled copy opens files itself."""
    paths = [f"{tmp_path}/{number}" for number in range(70)]
    for number, path in enumerate(paths):
        Path(path).write_text(f"--{number:03}")
    before, readers = len(os.listdir("/proc/self/fd")), [local.OpenFiles()]
    with ThreadPoolExecutor(8) as threads:
        pieces = [*threads.map(lambda i: readers[0].read(paths[i % 70], 3, 2), range(1400))]
    assert pieces == [b"%03d" % (i % 70) for i in range(1400)]
    assert len(os.listdir("/proc/self/fd")) == before + 64
    copy = pickle.loads(pickle.dumps(readers[0]))
    assert copy.read(paths[7], 100, 3) == b"07"
    readers.clear()
    assert len(os.listdir("/proc/self/fd")) == before + 1
    with pytest.raises(FileNotFoundError):
        copy.read(f"{tmp_path}/70", 3, 2)
    del copy
    assert len(os.listdir("/proc/self/fd")) == before


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
    before = os.listdir("/proc/self/fd")
    with pytest.raises(ChangedFileError, match=f"^{length} bytes, listed with {listed}; "):
        read_listed(str(path), listed)
    assert os.listdir("/proc/self/fd") == before


def test_a_file_that_grew_to_terabytes_takes_no_memory(tmp_path: Path) -> None:
    """Its size is looked at before anything is read."""
    path = tmp_path / "a.jpg"
    path.touch()
    os.truncate(path, 1 << 40)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ChangedFileError):
        read_listed(str(path), 100)
    request = read_ahead.Request(str(path), 100, -1)
    with (
        read_ahead.Prefetch([request], no_read, read_ahead.ReadOptions(prefetched=1)) as ahead,
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
    request = read_ahead.Request(path, 100, -1)
    with (
        read_ahead.Prefetch([request], no_read, read_ahead.ReadOptions(prefetched=1)) as ahead,
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
    found = sorted(local.LocalFiles().list_files(str(tmp_path)))
    assert found == [base.FoundFile(".a", 1, 9), base.FoundFile("sub/b", 2, 7)]
    assert local.LocalFiles().version_of(str(tmp_path / ".a")) == 9


def test_a_folder_is_listed_by_its_own_names(tmp_path: Path) -> None:
    """Folders count as names, and have no size."""
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/b").write_bytes(b"12")
    (tmp_path / ".a").write_bytes(b"1")
    assert local.LocalFiles().list_folder(str(tmp_path)) == [".a", "sub"]
    assert local.LocalFiles().list_folder(str(tmp_path / "none")) == []
    (name, file), *_ = local.LocalFiles().files_in(str(tmp_path)).items()
    assert (name, file.name, file.size) == (".a", ".a", 1)


def test_a_description_asks_the_disk_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second answer may be of another file, and each takes its time in a network."""
    path, asked, ask = str(tmp_path / "a"), [], os.stat
    Path(path).write_bytes(b"12")

    def stat(uri: str) -> os.stat_result:
        asked.append(uri)
        return ask(uri)

    monkeypatch.setattr(os, "stat", stat)
    described = local.LocalFiles().describe(path)
    monkeypatch.undo()
    assert described == base.FoundFile(path, 2, ask(path).st_mtime_ns)
    assert asked == [path]


def test_a_copy_on_one_disk_is_a_hard_link(tmp_path: Path) -> None:
    """It replaces an older file, and a link that is there already stays."""
    (tmp_path / "a").write_bytes(b"content")
    (tmp_path / "b").write_bytes(b"older")
    for _ in range(2):
        temporary = str(tmp_path / ".incomplete/b.1.x")
        assert local.LocalFiles().copy_from(str(tmp_path / "a"), str(tmp_path / "b"), temporary)
        assert os.path.samefile(tmp_path / "a", tmp_path / "b")
        assert not os.listdir(tmp_path / ".incomplete")
    (tmp_path / "a").unlink()
    assert (tmp_path / "b").read_bytes() == b"content"
    with pytest.raises(FileNotFoundError):
        local.LocalFiles().copy_from(str(tmp_path / "a"), str(tmp_path / "c"), str(tmp_path / "t"))


def test_a_symbolic_link_is_not_linked(tmp_path: Path) -> None:
    """It may be relative to its folder."""
    (tmp_path / "a").write_bytes(b"content")
    (tmp_path / "link").symlink_to("a")
    temporary = str(tmp_path / "t")
    assert not local.LocalFiles().copy_from(str(tmp_path / "link"), str(tmp_path / "b"), temporary)
    assert sorted(os.listdir(tmp_path)) == ["a", "link"]


def test_a_file_is_older_than_what_was_written_later(tmp_path: Path) -> None:
    """And of the given length."""
    for name, changed in (("a", 5), ("same", 5), ("later", 6)):
        (tmp_path / name).write_bytes(b"1234")
        os.utime(tmp_path / name, ns=(0, changed))
    a = str(tmp_path / "a")
    assert local.LocalFiles().is_older(a, 4, str(tmp_path / "same"))
    assert local.LocalFiles().is_older(a, 4, str(tmp_path / "later"))
    assert not local.LocalFiles().is_older(a, 3, str(tmp_path / "later"))
    assert not local.LocalFiles().is_older(str(tmp_path / "later"), 4, a)
    with pytest.raises(FileNotFoundError):
        local.LocalFiles().is_older(a, 4, str(tmp_path / "none"))


def test_a_regular_file_is_opened_for_reading(tmp_path: Path) -> None:
    """From its beginning, not for writing, and no child process inherits it."""
    path = tmp_path / "a.csv"
    path.write_bytes(b"a.jpg,cat\n")
    file = local.open_regular(str(path))
    try:
        assert os.read(file, 100) == b"a.jpg,cat\n"
        assert not os.get_inheritable(file)
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.write(file, b"x")
    finally:
        os.close(file)


def test_a_socket_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system itself does not open it."""
    monkeypatch.chdir(tmp_path)  # a socket's path has at most 107 bytes
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("s")
        with pytest.raises(OSError, match="No such device or address"):
            local.open_regular("s")


BUFFERS = st.lists(st.binary(max_size=40) | st.integers(0, 300_000).map(bytes), max_size=12)


def atomic(path: str) -> AbstractContextManager[local.BufferedFile]:
    """A file that is written in a folder `hidden` beside it, which need not exist."""
    folder, name = os.path.split(path)
    return local.atomic_file(path, os.path.join(folder, "hidden", f"{name}.{uuid.uuid4().hex}"))


def incomplete(folder: Path) -> list[str]:
    return os.listdir(folder / "hidden")


def test_a_file_appears_when_it_is_done(tmp_path: Path) -> None:
    """Until the block ends there is nothing under its name, and afterwards all of it."""
    path = tmp_path / "a.tfrecord"
    with atomic(str(path)) as file:
        file.write(b"hello ", b"world")
        file.write(bytes(1 << 20))
        assert not path.exists()
        assert len(incomplete(tmp_path)) == 1
        assert incomplete(tmp_path)[0].startswith("a.tfrecord.")
        file.write(b"!")
    assert path.read_bytes() == b"hello world" + bytes(1 << 20) + b"!"
    assert incomplete(tmp_path) == []


def test_a_file_replaces_an_older_one_at_once(tmp_path: Path) -> None:
    """The older one stays whole and readable until the newer is."""
    path = tmp_path / "a"
    path.write_bytes(b"old")
    with atomic(str(path)) as file:
        file.write(b"new" * 200_000)
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new" * 200_000


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, GeneratorExit])
def test_a_file_whose_writing_failed_is_removed(tmp_path: Path, error: type[BaseException]) -> None:
    """Nothing appears, nothing is left, and what was there before stays."""
    path = tmp_path / "a"
    path.write_bytes(b"old")

    def write_and_fail() -> None:
        with atomic(str(path)) as file:
            file.write(bytes(1 << 20))
            raise error

    with pytest.raises(error):
        write_and_fail()
    assert path.read_bytes() == b"old"
    assert incomplete(tmp_path) == []


@pytest.mark.parametrize(
    ("room", "sizes"),
    [
        (300_000, [400_000]),
        (300_000, [200_000, 200_000]),
        (300_000, [299_999, 2]),
        (1_000, [2_000]),  # so little that it is written when the block ends
        (0, [1]),
    ],
)
def test_a_file_that_the_disk_has_no_room_for_is_removed(
    tmp_path: Path, room: int, sizes: list[int]
) -> None:
    """A write that the system cuts off and then refuses is an error, not a shorter file."""
    resource = pytest.importorskip("resource")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    path = tmp_path / "a"
    before = len(os.listdir("/dev/fd"))
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, limits[1]))
        with pytest.raises(OSError, match="too large"), atomic(str(path)) as file:
            file.write(*map(bytes, sizes))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert not path.exists()
    assert incomplete(tmp_path) == []
    assert len(os.listdir("/dev/fd")) == before


def test_a_file_of_nothing_is_a_file(tmp_path: Path) -> None:
    """A shard that no sample fell into is there and has no bytes."""
    for name, buffers in (("nothing", []), ("empty", [b"", b""])):
        with atomic(str(tmp_path / name)) as file:
            file.write(*buffers)
        assert (tmp_path / name).read_bytes() == b""


def test_two_writers_of_one_file_do_not_mix(tmp_path: Path) -> None:
    """A bundle that runs twice writes two whole files, and one of them stays."""
    path = tmp_path / "a"
    with atomic(str(path)) as first, atomic(str(path)) as second:
        for _ in range(5):
            first.write(b"1" * 100_000)
            second.write(b"2" * 100_000)
        assert len(incomplete(tmp_path)) == 2
    assert path.read_bytes() == b"1" * 500_000  # whose block ended last
    assert incomplete(tmp_path) == []


def test_a_relative_path_without_a_folder_is_a_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file lands in the current folder."""
    monkeypatch.chdir(tmp_path)
    with atomic("a") as file:
        file.write(b"x")
    assert (tmp_path / "a").read_bytes() == b"x"


@settings(max_examples=profiles.examples(100))
@given(writes=st.lists(BUFFERS, max_size=6))
@example(writes=[[b"x"]] * 2000)  # more buffers than one call to the system takes
@example(writes=[[b""] * 600, [b"x"]])
@example(writes=[[bytes(256 << 10)], [bytes((256 << 10) - 1)], [b"x"], [b"", b"y", b""]])
@example(writes=[[b"a"] * 503, [b"b"] * 503, [b"c"] * 10])
def test_a_file_holds_what_was_written_in_order(
    tmp_path_factory: pytest.TempPathFactory, writes: list[list[bytes]]
) -> None:
    """However many and however large, buffers are written once each, one after another."""
    path = tmp_path_factory.getbasetemp() / "written"
    with atomic(str(path)) as file:
        for number, buffers in enumerate(writes):
            file.write(*buffers, b"%d" % number)
    expected = [b"".join(buffers) + b"%d" % number for number, buffers in enumerate(writes)]
    assert path.read_bytes() == b"".join(expected)


@pytest.fixture
def interruptions() -> Iterator[list[int]]:
    """Interrupts whatever waits for the system every few milliseconds; grows by the signal's number each time."""
    signals: list[int] = []  # no lock, for which a handler that interrupts itself would wait
    before = signal.signal(signal.SIGALRM, lambda number, _: signals.append(number))
    signal.setitimer(signal.ITIMER_REAL, 0.005, 0.002)
    try:
        yield signals
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.timeout(120, method="thread")  # the test needs the timer that a time limit uses
@pytest.mark.parametrize(
    "sizes",
    [
        [400_000],
        [65_536, 0, 0, 300_000],
        [65_535, 1, 300_000],
        [1, 65_534, 2, 0, 300_000, 0],
        [1000] * 400,
        [0, 0, 4096, 0, 300_000],
    ],
    ids=str,
)
def test_a_write_that_the_system_cuts_off_goes_on_where_it_was(
    tmp_path: Path, interruptions: list[int], sizes: list[int]
) -> None:
    """A full pipe takes a part and is interrupted; the rest follows, nothing twice."""
    buffers = [bytes([i % 251 + 1]) * size for i, size in enumerate(sizes)]
    read_end, write_end = os.pipe()
    arrived = bytearray()

    def unread() -> int:
        count = fcntl.ioctl(read_end, termios.FIONREAD, bytes(4))
        return int.from_bytes(count, sys.byteorder)

    def drain() -> None:
        while unread() < 60_000:  # until the writer waits for room in the pipe
            time.sleep(0.001)
        waiting = len(interruptions)
        harness.wait_until(lambda: len(interruptions) > waiting)
        while part := os.read(read_end, 10_000):
            arrived.extend(part)

    reader = threading.Thread(target=drain)
    reader.start()
    with atomic(str(tmp_path / "a")) as file:
        os.dup2(write_end, file.file)  # its descriptor becomes the pipe
        os.close(write_end)
        file.write(*buffers)
    reader.join()
    os.close(read_end)
    assert bytes(arrived) == b"".join(buffers)
