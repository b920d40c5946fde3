"""Reading ahead, what is left behind, and how many requests are made at once."""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_pipeline.core.records.shard_writer import ImageReader
from beam_pipeline.storage import files, local, pace
from beam_pipeline.storage.read_ahead import (
    Prefetch,
    ReadAhead,
    ReadOptions,
    Request,
    SharedReads,
)

on_linux = pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="looks into /proc")

PATIENCE_S = 30  # until a thread that should come is given up


class Store:
    """Files by number; keeps count of what is read from it, and of how much at once.

    Attributes:
      started: requests, in the order in which their reads began.
      most_reads: reads that were in flight at the same time.
      held: at the begin of each read, sizes of all that were in flight or not handed out.
    """

    def __init__(self, delays: Sequence[float] = (), broken: frozenset[int] = frozenset()) -> None:
        self._delays = delays
        self._broken = broken
        self._lock = threading.Lock()
        self._in_flight = 0
        self._held_now: list[int] = []
        self.started: list[Request] = []
        self.most_reads = 0
        self.held: list[list[int]] = []

    def read(self, uri: str, size: int, offset: int) -> bytes:
        """An `ImageReader`: as many bytes as asked for, which say where they come from."""
        with self._lock:
            self.started.append(Request(uri, size, offset))
            self._in_flight += 1
            self._held_now.append(size)
            self.held.append(list(self._held_now))
            self.most_reads = max(self.most_reads, self._in_flight)
        time.sleep(self._delays[int(uri)] if self._delays else 0)
        with self._lock:
            self._in_flight -= 1
        if int(uri) in self._broken:
            raise OSError(5, "broken", uri)
        return content(uri, size, offset)

    def hand_out(self, size: int) -> None:
        """Notes that bytes are no longer held."""
        with self._lock:
            self._held_now.remove(size)


def content(uri: str, size: int, offset: int) -> bytes:
    """The bytes of a file of the store."""
    return f"{uri}@{offset}".encode().ljust(size, b".")


def numbered(sizes: Sequence[int]) -> list[Request]:
    """A request a size; every third begins somewhere in its file."""
    return [Request(str(i), size, i if i % 3 == 0 else -1) for i, size in enumerate(sizes)]


def threads_left() -> list[str]:
    """Names of threads that read ahead."""
    return [t.name for t in threading.enumerate() if t.name.startswith("read-ahead")]


@given(
    files=st.lists(
        st.tuples(st.integers(0, 40), st.sampled_from([0, 0, 0.0005, 0.002]), st.booleans()),
        max_size=40,
    ),
    max_reads=st.integers(1, 9),
    max_bytes=st.integers(1, 120),
)
def test_whatever_reads_take_results_come_in_order_once_and_within_bounds(
    files: list[tuple[int, float, bool]], max_reads: int, max_bytes: int
) -> None:
    """Each result or error stands at its place; no bound is passed but by a single large file."""
    requests = numbered([size for size, _, _ in files])
    broken = frozenset(i for i, (_, _, fails) in enumerate(files) if fails)
    store = Store([delay for _, delay, _ in files], broken)
    with ReadAhead(iter(requests), store.read, ReadOptions(max_reads, max_bytes)) as ahead:
        for number, request in enumerate(requests):
            if number in broken:
                with pytest.raises(OSError, match="broken") as raised:
                    ahead.read(*request)
                assert raised.value.filename == request.uri
            else:
                assert ahead.read(*request) == content(*request)
            store.hand_out(request.size)
    assert sorted(store.started) == sorted(requests)
    assert store.most_reads <= max_reads
    assert all(sum(held) <= max_bytes or len(held) == 1 for held in store.held)
    assert threads_left() == []


def test_as_many_reads_are_in_flight_as_are_allowed() -> None:
    """Reads that end only when seven of them have begun do end."""
    requests = numbered([1] * 14)
    together = threading.Barrier(7)

    def read(uri: str, size: int, offset: int) -> bytes:
        together.wait(PATIENCE_S)
        return content(uri, size, offset)

    with ReadAhead(requests, read, ReadOptions(max_reads=7)) as ahead:
        assert [ahead.read(*request) for request in requests] == [content(*r) for r in requests]


def test_a_slow_read_does_not_leave_the_others_idle() -> None:
    """While the first is read, one thread of two goes on with the others."""
    requests = numbered([1] * 9)
    others_done = threading.Semaphore(0)

    def read(uri: str, size: int, offset: int) -> bytes:
        if uri == "0":
            assert all(others_done.acquire(timeout=PATIENCE_S) for _ in requests[1:])
        else:
            others_done.release()
        return content(uri, size, offset)

    with ReadAhead(requests, read, ReadOptions(max_reads=2)) as ahead:
        assert ahead.read(*requests[0]) == content(*requests[0])


def test_what_waits_is_bounded_in_number_too() -> None:
    """Of very many empty files, eight for each thread are taken up and no more."""
    taken = []
    requests = (taken.append(request) or request for request in numbered([0] * 1000))
    with ReadAhead(requests, Store().read, ReadOptions(max_reads=4)) as ahead:
        ahead.read("0", 0, 0)
        assert len(taken) == 4 * 8


@pytest.mark.parametrize(
    ("max_bytes", "begun"),
    [(30, [3, 4, 5, 5]), (29, [2, 3, 4, 5]), (20, [2, 3, 4, 5]), (9, [1, 2, 3, 4])],
)
def test_what_waits_is_bounded_in_bytes(max_bytes: int, begun: list[int]) -> None:
    """After each of the first reads, so many of five files of ten bytes have been begun."""
    requests = numbered([10] * 5)
    with ReadAhead(requests, Store().read, ReadOptions(3, max_bytes)) as ahead:
        counts = []
        for count, request in enumerate(requests[:4], 1):
            ahead.read(*request)
            counts.append(len(ahead._waiting) + count)
    assert counts == begun


def test_leaving_early_starts_no_further_read() -> None:
    """What was queued when the block ends by an exception is not read, and no thread is left."""
    requests = numbered([1] * 100)
    leaving = threading.Event()
    begun = threading.Barrier(4)
    started: list[str] = []

    def read(uri: str, size: int, offset: int) -> bytes:
        started.append(uri)
        if uri != "0":
            begun.wait(PATIENCE_S)
            assert leaving.wait(PATIENCE_S)
        return content(uri, size, offset)

    def leave() -> None:
        with ReadAhead(requests, read, ReadOptions(max_reads=3)) as ahead:
            ahead.read(*requests[0])
            begun.wait(PATIENCE_S)  # three reads are in flight, twenty are queued
            _, last = ahead._waiting[-1]
            last.add_done_callback(lambda _: leaving.set())  # when it is cancelled
            raise KeyError("left")

    with pytest.raises(KeyError, match="left"):
        leave()
    assert sorted(started) == ["0", "1", "2", "3"]
    assert threads_left() == []


def test_one_read_at_a_time_is_the_plain_function() -> None:
    """Nothing stands between, no thread starts, and not even the requests are looked at."""

    def requests() -> Iterator[Request]:
        raise AssertionError("nobody asks")
        yield

    store = Store()
    plain: ImageReader = store.read
    with ReadAhead(requests(), plain, ReadOptions(max_reads=1)) as ahead:
        assert ahead.read is plain
        ahead.read("3", 5, -1)
        assert threads_left() == []


@pytest.mark.parametrize("asked", [("1", 1, -1), ("0", 2, 0), ("0", 1, -1), ("7", 1, -1)])
@pytest.mark.parametrize("options", [ReadOptions(max_reads=2), ReadOptions(prefetched=2)])
def test_another_read_than_the_next_request_is_an_error(
    options: ReadOptions, asked: tuple[str, int, int]
) -> None:
    """It shows both, also beyond the last request; nobody gets the bytes of another image."""
    reads = Prefetch if options.prefetched else ReadAhead
    with (
        reads(numbered([1, 1]), Store().read, options) as ahead,
        pytest.raises(ValueError, match=r"expected the next request: Request\(uri='0', size=1"),
    ):
        ahead.read(*asked)
    with (
        reads([], Store().read, options) as ahead,
        pytest.raises(ValueError, match="request: None"),
    ):
        ahead.read(*asked)


@on_linux
@given(
    sizes=st.lists(st.none() | st.integers(0, 20), max_size=12),
    listed_wrong=st.integers(-3, 3),
    prefetched=st.integers(1, 20),
)
def test_prefetched_files_are_read_as_others_are(
    sizes: list[int | None], listed_wrong: int, prefetched: int
) -> None:
    """Whole files, whatever length they were listed with, and ranges; a missing one fails in its turn."""
    with tempfile.TemporaryDirectory() as folder:
        requests = []
        for number, size in enumerate(sizes):
            uri = os.path.join(folder, str(number))
            if size is not None:
                with open(uri, "wb") as file:
                    file.write(content(str(number), size, -1))
            offset = 1 if number % 4 == 3 else -1
            requests.append(Request(uri, max(0, (size or 0) + listed_wrong), offset))
        before = open_files()
        with Prefetch(iter(requests), read_local, ReadOptions(prefetched=prefetched)) as prefetch:
            for request in requests:
                assert outcome(prefetch.read, request) == outcome(read_local, request)
        assert open_files() == before


def read_local(uri: str, size: int, offset: int) -> bytes:
    """The plain function for files on disk."""
    if offset < 0:
        return local.LocalFiles().read_listed(uri, size)
    return local.LocalFiles().read(uri, size, offset)


def outcome(read: ImageReader, request: Request) -> bytes | str:
    """What reading gives, or how it fails."""
    try:
        return read(*request)
    except OSError as error:
        return str(error)


def open_files() -> list[str]:
    """What this process has open."""
    return sorted(os.listdir("/proc/self/fd"))


@on_linux
def test_so_many_files_are_prefetched_before_they_are_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first three at once, then one with each read; those never read are closed all the same."""
    prefetched = []
    advise = os.posix_fadvise

    def note(file: int, start: int, length: int, advice: int) -> None:
        assert (start, length, advice) == (0, 0, os.POSIX_FADV_WILLNEED)
        prefetched.append(os.path.basename(os.readlink(f"/proc/self/fd/{file}")))
        advise(file, start, length, advice)

    monkeypatch.setattr(os, "posix_fadvise", note)
    requests = [Request(str(tmp_path / name), 1, -1) for name in "abcdefgh"]
    for request in requests:
        (tmp_path / request.uri).write_bytes(b"x")
    before = open_files()
    with Prefetch(requests, read_local, ReadOptions(prefetched=3)) as a:
        assert prefetched == ["a", "b", "c"]
        assert a.read(*requests[0]) == b"x"
        assert prefetched == ["a", "b", "c", "d"]
        assert a.read(*requests[1]) == b"x"
        assert prefetched == ["a", "b", "c", "d", "e"]
    assert open_files() == before


# --- pace -----------------------------------------------------------------------------------------


def test_refusals_halve_and_answers_raise_the_bound() -> None:
    """Once for all requests that were on their way; each round of answers adds one."""
    own = pace.Pace()
    rounds = [own.enter() for _ in range(16)]
    for begun in rounds:
        own.refuse(begun)
    assert own.bound == 8
    own.refuse(own.sleep(0))
    assert own.bound == 4
    for _ in range(12):
        own.leave()
    for _ in range(4):
        own.leave(answered=True)
    assert 4.9 < own.bound < 5
    for _ in range(9):
        own.refuse(own.sleep(0))
    assert own.bound == 1


def test_a_place_is_waited_for() -> None:
    """As many requests as the bound are on their way; one that leaves lets the next one go."""
    own = pace.Pace()
    own.refuse(own.enter())
    entered = threading.Event()
    thread = threading.Thread(target=lambda: (own.enter(), entered.set()))
    thread.start()
    assert not entered.wait(0.05)
    own.leave()
    assert entered.wait(30)
    thread.join()


def test_waiting_at_once_counts_once() -> None:
    """Whole seconds are reported, the rest is kept; only refusals are throttled time."""
    now = [0.0]
    meter = pace._Meter()
    clock, pace.time.monotonic = pace.time.monotonic, lambda: now[0]
    try:
        with meter.wait(refused=True), meter.wait(refused=True):
            now[0] += 2.6
        with meter.wait(refused=False):
            now[0] += 10
        assert meter.take() == pace.Usage(retries=3, throttled_s=2)
        with meter.wait(refused=True):
            now[0] += 0.5
        meter.add_read(0.0214)
        assert meter.take() == pace.Usage(retries=1, throttled_s=1, read_ms=(21,))
        assert meter.take() == pace.Usage()
    finally:
        pace.time.monotonic = clock


def test_an_image_that_cannot_be_read_fails_each_of_its_samples(tmp_path: Path) -> None:
    """It is looked for once."""
    request = Request(str(tmp_path / "gone.jpg"), 5, -1)
    shared = SharedReads([request, request])
    assert shared.reads == [request]
    calls: list[str] = []

    def read(uri: str, size: int, offset: int) -> bytes:
        calls.append(uri)
        return files.read_image(uri, size, offset)

    for _ in range(2):
        with pytest.raises(FileNotFoundError):
            shared.read(read, *request)
    assert calls == [request.uri]
