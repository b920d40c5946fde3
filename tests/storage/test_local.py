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
from tests.rows import in_rows

read_file, read_listed = local.LocalFiles().read, local.LocalFiles().read_listed
READS: list[Callable[[str], Any]] = [
    local.open_regular,
    read_file,
    local.LocalFiles().read_if_there,
    local.LocalFiles().open_input,
    partial(read_file, size=1, offset=0),
]


@pytest.mark.parametrize("length", [0, 1, 1000, 1 << 20, (1 << 20) + 1, 3_000_000])
def test_a_file_is_read_whole_or_not_at_all(tmp_path: Path, length: int) -> None:
    """With another size than listed, it has changed, or an inventory was wrong; no descriptor is left open."""
    content = (bytes(range(256)) * (length // 256 + 1))[:length]
    path = str(tmp_path / "a.jpg")
    Path(path).write_bytes(content)
    before = os.listdir("/proc/self/fd")
    assert read_listed(path, length) == read_file(path) == content
    for listed in {max(length + error, 0) for error in (-1000, -1, 1, 1000, 1 << 40)} - {length}:
        with pytest.raises(ChangedFileError, match=f"^{length} bytes, listed with {listed}; "):
            read_listed(path, listed)
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


def test_few_descriptors_are_enough(tmp_path: Path) -> None:
    """A reader keeps an eighth of those that a process may have, of which 40 are left here."""
    line = f"""from beam_pipeline.storage.local import OpenFiles
reader = OpenFiles()
for number in range(60):
    name = f"{tmp_path}/{{number}}"
    open(name, "w").write("a")
    assert reader.read(name, 1, 0) == b"a"
"""
    few = partial(resource.setrlimit, resource.RLIMIT_NOFILE, (40, 40))
    assert harness.python("-c", line, preexec_fn=few).stderr == ""


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "make", [os.mkfifo, lambda path: os.truncate(open(path, "wb").name, 1 << 40)]
)
def test_nothing_is_read_of_what_is_not_as_listed(
    tmp_path: Path, make: Callable[[str], None]
) -> None:
    """A file that grew to terabytes takes no memory, and a pipe does not hang until somebody writes to it."""
    path = f"{tmp_path}/a.jpg"
    make(path)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    said = "listed as a file of 100 bytes|1099511627776 bytes, listed with 100; "
    with pytest.raises(ChangedFileError, match=said):
        read_listed(path, 100)
    request, options = read_ahead.Request(path, 100, -1), read_ahead.ReadOptions(prefetched=1)
    ahead = read_ahead.Prefetch([request], no_read, options)
    with ahead, pytest.raises(ChangedFileError, match=said):
        ahead.read(*request)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20_000  # KiB


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


def test_files_are_listed_at_any_depth_or_by_the_names_of_a_folder(tmp_path: Path) -> None:
    """With sizes and the time of the last change; folders count as names, and have no size."""
    (tmp_path / "sub").mkdir()
    for name, content, changed in (("sub/b", b"12", 7), (".a", b"1", 9)):
        (tmp_path / name).write_bytes(content)
        os.utime(tmp_path / name, ns=(5, changed))
    disk, folder = local.LocalFiles(), str(tmp_path)
    found = sorted(disk.list_files(folder))
    assert found == [base.FoundFile(".a", 1, 9), base.FoundFile("sub/b", 2, 7)]
    assert disk.version_of(f"{folder}/.a") == 9
    assert disk.list_folder(folder) == [".a", "sub"]
    assert disk.list_folder(f"{folder}/none") == []
    (name, file), *_ = disk.files_in(folder).items()
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
    """It replaces an older file, and a link that is there already stays. A symbolic one may be relative to its folder."""
    a, b, temporary = f"{tmp_path}/a", f"{tmp_path}/b", f"{tmp_path}/.incomplete/b.1.x"
    copy_from = local.LocalFiles().copy_from
    Path(a).write_bytes(b"content")
    Path(b).write_bytes(b"older")
    for _ in range(2):
        assert copy_from(a, b, temporary)
        assert os.path.samefile(a, b)
        assert not os.listdir(tmp_path / ".incomplete")
    os.unlink(a)
    assert Path(b).read_bytes() == b"content"
    with pytest.raises(FileNotFoundError):
        copy_from(a, f"{tmp_path}/c", temporary)
    os.symlink("b", a)
    assert not copy_from(a, f"{tmp_path}/c", temporary)
    assert sorted(os.listdir(tmp_path)) == [".incomplete", "a", "b"]


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


def test_a_regular_file_is_opened_for_reading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From its beginning, not for writing, and no child process inherits it. The system itself does not open a socket."""
    monkeypatch.chdir(tmp_path)  # a socket's path has at most 107 bytes
    Path("a.csv").write_bytes(b"a.jpg,cat\n")
    file = local.open_regular("a.csv")
    try:
        assert os.read(file, 100) == b"a.jpg,cat\n"
        assert not os.get_inheritable(file)
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.write(file, b"x")
    finally:
        os.close(file)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("s")
        with pytest.raises(OSError, match="No such device or address"):
            local.open_regular("s")


BUFFERS = st.lists(st.binary(max_size=40) | st.integers(0, 300_000).map(bytes), max_size=12)


def atomic(path: str) -> AbstractContextManager[base.FileSink]:
    """A file that is written in a folder `hidden` beside it, which need not exist."""
    folder, name = os.path.split(path)
    return local.atomic_file(path, os.path.join(folder, "hidden", f"{name}.{uuid.uuid4().hex}"))


def incomplete(folder: Path) -> list[str]:
    return os.listdir(folder / "hidden")


def test_a_file_appears_when_it_is_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until the block ends there is nothing under its name, or the older file, whole; a path may be relative."""
    monkeypatch.chdir(tmp_path)
    for before in (None, b"old"):
        path = Path("a.tfrecord")
        with atomic("a.tfrecord") as file:
            file.write(b"hello ", b"world")
            file.write(bytes(1 << 20))
            assert (path.read_bytes() if path.exists() else None) == before
            (name,) = incomplete(tmp_path)
            assert name.startswith("a.tfrecord.")
            file.write(b"!")
        assert path.read_bytes() == b"hello world" + bytes(1 << 20) + b"!"
        assert incomplete(tmp_path) == []
        path.write_bytes(b"old")


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


@in_rows
def test_a_file_that_the_disk_has_no_room_for_is_removed(
    tmp_path: Path, room: int, sizes: list[int]
) -> None:
    """A write that the system cuts off and then refuses is an error, not a shorter file."""
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


@settings(max_examples=profiles.examples(100))
@given(writes=st.lists(BUFFERS, max_size=6))
@example(writes=[[bytes(256 << 10)], [bytes((256 << 10) - 1)], [b"x"], [b"", b"y", b""]])
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
        *([400_000], [65_536, 0, 0, 300_000], [65_535, 1, 300_000], [1000] * 400),
        *([1, 65_534, 2, 0, 300_000, 0], [0, 0, 4096, 0, 300_000]),
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
        os.dup2(write_end, file._file.fileno())  # its descriptor becomes the pipe
        os.close(write_end)
        file.write(*buffers)
    reader.join()
    os.close(read_end)
    assert bytes(arrived) == b"".join(buffers)
