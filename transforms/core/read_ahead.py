"""Reads ahead: several reads in flight, results in order, memory bounded.

Where a request takes tens of milliseconds, as in a bucket, one read after the other leaves the writer
of a shard waiting nearly all of the time. Which images it will want, and in which order, is known.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from types import TracebackType
from typing import NamedTuple

from transforms.core.shard_writer import ImageReader

DEFAULT_MAX_BYTES = 128_000_000
REMOTE_READS = 32
"""Reads in flight of each writer where images lie in a bucket."""

_WAITING_PER_READ = 8  # so that one slow read does not leave the others idle


class Request(NamedTuple):
    """What an `ImageReader` takes: a read that will be wanted."""

    uri: str
    size: int
    offset: int


@dataclass(frozen=True)
class ReadOptions:
    """How far one writer reads ahead.

    Attributes:
      max_reads: reads in flight; with 1, each begins when its image is wanted.
      max_bytes: expected sizes of all images in flight or waiting for their turn; one that is
        larger is read alone.
    """

    max_reads: int = 1
    max_bytes: int = DEFAULT_MAX_BYTES

    def __post_init__(self) -> None:
        if self.max_reads < 1 or self.max_bytes < 1:
            raise ValueError(f"{self}: expected at least one read and one byte")


ONE_BY_ONE = ReadOptions()


class ReadAhead:
    """Reads what will be wanted, in threads, while a `with` block runs.

    Attributes:
      read: an `ImageReader` that takes exactly the requests, in their order. It raises what a read raised
        when its turn comes. With `max_reads` of 1 it is the plain function, and there is no thread.
    """

    def __init__(
        self, requests: Iterable[Request], read: ImageReader, options: ReadOptions
    ) -> None:
        self.read: ImageReader = self._take if options.max_reads > 1 else read
        self._requests = iter(requests)
        self._plain_read = read
        self._max_waiting = options.max_reads * _WAITING_PER_READ
        self._max_bytes = options.max_bytes
        self._threads = ThreadPoolExecutor(options.max_reads, thread_name_prefix="read-ahead")
        self._waiting: deque[tuple[Request, Future[bytes]]] = deque()
        self._waiting_bytes = 0
        self._next: Request | None = None

    def __enter__(self) -> ReadAhead:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # Reads that have begun end by themselves, in the time that their client allows for one.
        self._threads.shutdown(cancel_futures=True)

    def _take(self, uri: str, size: int, offset: int) -> bytes:
        self._begin_reads()
        request, future = self._waiting.popleft() if self._waiting else (None, None)
        if future is None or request != (uri, size, offset):
            raise ValueError(f"read {(uri, size, offset)}, expected the next request: {request}")
        try:
            return future.result()
        finally:
            self._waiting_bytes -= size

    def _begin_reads(self) -> None:
        while len(self._waiting) < self._max_waiting:
            request = self._next = self._next or next(self._requests, None)
            if request is None:
                return
            if self._waiting and self._waiting_bytes + request.size > self._max_bytes:
                return
            self._waiting.append((request, self._threads.submit(self._plain_read, *request)))
            self._waiting_bytes += request.size
            self._next = None
