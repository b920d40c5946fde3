"""Local files that appear whole or not at all."""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import termios
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from beam_pipeline.storage.local import BufferedFile, atomic_file
from tests.harness import wait_until
from tests.profiles import examples

BUFFERS = st.lists(st.binary(max_size=40) | st.integers(0, 300_000).map(bytes), max_size=12)


def atomic(path: str) -> AbstractContextManager[BufferedFile]:
    """A file that is written in a folder `hidden` beside it, which need not exist."""
    folder, name = os.path.split(path)
    return atomic_file(path, os.path.join(folder, "hidden", f"{name}.{uuid.uuid4().hex}"))


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


def test_the_folder_is_made(tmp_path: Path) -> None:
    """The output folder need not exist."""
    path = tmp_path / "out" / "deep" / "a"
    with atomic(str(path)) as file:
        file.write(b"x")
    assert path.read_bytes() == b"x"


def test_a_relative_path_without_a_folder_is_a_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file lands in the current folder."""
    monkeypatch.chdir(tmp_path)
    with atomic("a") as file:
        file.write(b"x")
    assert (tmp_path / "a").read_bytes() == b"x"


@settings(max_examples=examples(100))
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
        wait_until(lambda: len(interruptions) > waiting)
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
