"""Reads ahead of a shard's writer, which needs images in a known order.

In a bucket, a request takes tens of milliseconds, so a writer that reads one image at a time would
wait nearly all the time: `ReadAhead` keeps several reads in flight. On a disk, files in the order
of a hash are scattered: `Prefetch` lets the kernel fetch the next files while one is written, at
almost no cost if they are in the page cache.
"""

from __future__ import annotations

import os
import sys
import time
from collections import deque
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

from beam_pipeline.core.records.shard_writer import ImageReader
from beam_pipeline.core.uris import is_remote
from beam_pipeline.storage import pace
from beam_pipeline.storage.local import open_prefetched, read_and_close

DEFAULT_MAX_BYTES = 128_000_000
REMOTE_READS = 32
"""Reads in flight per writer if images are in a bucket."""

LOCAL_FILES = 16 if sys.platform == "linux" else 0
"""Files that each writer prefetches if images are local; 0 if the system cannot prefetch."""

SHARED_BYTES = 64_000_000
"""Bytes of images that a writer keeps for further samples of its shard."""

_WAITING_PER_READ = 8  # so that one slow read does not leave the others idle


class Request(NamedTuple):
    """A read that will be needed: the arguments of an `ImageReader`."""

    uri: str
    size: int
    offset: int


Requests = Iterable[Request]


@dataclass(frozen=True)
class ReadOptions:
    """The read-ahead of one writer.

    Attributes:
      max_reads: reads in flight; with 1, a read begins when its image is needed.
      max_bytes: total expected size of the images in flight, prefetched or waiting to be taken; a larger
        image is read alone.
      prefetched: local files that the kernel is asked to fetch ahead; excludes several reads.
    """

    max_reads: int = 1
    max_bytes: int = DEFAULT_MAX_BYTES
    prefetched: int = 0


ONE_BY_ONE = ReadOptions()


def usual_reading(uris: Iterable[str], max_bytes: int = DEFAULT_MAX_BYTES) -> ReadOptions:
    """Returns the default options for images at these URIs, each in a separate file."""
    if any(map(is_remote, uris)):
        return ReadOptions(REMOTE_READS, max_bytes)
    return ReadOptions(prefetched=LOCAL_FILES)


class ReadAhead:
    """Reads ahead in threads while a `with` block runs.

    Attributes:
      read: an `ImageReader` that must be called with exactly the requests, in their order. It
        raises the error of a read when that read's turn comes. If nothing is read ahead, it is the
        plain function, without a thread.
    """

    def __init__(self, requests: Requests, read: ImageReader, options: ReadOptions) -> None:
        self._is_ahead = options.max_reads > 1 or options.prefetched > 0
        self.read: ImageReader = self._take if self._is_ahead else read
        self._requests = iter(requests)
        self._plain_read = read
        self._max_waiting = options.prefetched or options.max_reads * _WAITING_PER_READ
        self._max_bytes = options.max_bytes
        self._threads = ThreadPoolExecutor(options.max_reads, thread_name_prefix="read-ahead")
        self._waiting: deque[tuple[Request, Any]] = deque()
        self._waiting_bytes = 0
        self._next: Request | None = None

    def __enter__(self) -> ReadAhead:
        if self._is_ahead:
            self._begin_reads()
        return self

    def __exit__(self, *_: object) -> None:
        # Reads in flight end within their client's timeout.
        self._threads.shutdown(cancel_futures=True)

    def _take(self, uri: str, size: int, offset: int) -> bytes:
        self._begin_reads()
        request, begun = self._waiting.popleft() if self._waiting else (None, None)
        if request is None or request != (uri, size, offset):
            raise ValueError(f"read {(uri, size, offset)}, expected the next request: {request}")
        try:
            return self._finish(request, begun)
        finally:
            self._waiting_bytes -= size

    def _begin_reads(self) -> None:
        while len(self._waiting) < self._max_waiting:
            request = self._next = self._next or next(self._requests, None)
            if request is None:
                return
            if self._waiting and self._waiting_bytes + request.size > self._max_bytes:
                return
            self._waiting.append((request, self._begin(request)))
            self._waiting_bytes += request.size
            self._next = None

    def _begin(self, request: Request) -> Any:
        """Begins a read; returns what `_finish` takes."""
        return self._threads.submit(self._read_timed, *request)

    def _finish(self, request: Request, begun: Any) -> bytes:
        """Returns the bytes of a read that was begun."""
        data: bytes = begun.result()
        return data

    def _read_timed(self, uri: str, size: int, offset: int) -> bytes:
        began = time.monotonic()
        try:
            return self._plain_read(uri, size, offset)
        finally:
            pace.meter.add_read(time.monotonic() - began)


class Prefetch(ReadAhead):
    """Lets the kernel fetch local files before they are needed, while a `with` block runs."""

    def _begin(self, request: Request) -> int:
        # Part of a file, and members of archives, are read when they are needed.
        is_file = request.offset < 0 and request.uri.startswith("/")
        return open_prefetched(request.uri) if is_file else -1

    def _finish(self, request: Request, begun: int) -> bytes:
        self._begin_reads()  # of the next file, while this one is read
        if begun < 0:
            return self._plain_read(*request)
        return read_and_close(begun, request.uri, request.size)

    def __exit__(self, *_: object) -> None:
        for _, file in self._waiting:
            if file >= 0:
                os.close(file)


class SharedReads:
    """Reads an image once for several samples of a shard, which are known from the beginning.

    Attributes:
      reads: the requests that are read, in order.
    """

    def __init__(self, requests: Requests, max_bytes: int = SHARED_BYTES) -> None:
        """Takes all requests, in order, and the bytes of images that are kept at most.

        An image that the very next request needs is kept in any case.
        """
        uses = list(requests)
        last = {request: index for index, request in enumerate(uses)}
        self.reads: list[Request] = []
        self._keeps: deque[bool] = deque()  # after each use
        self._images: dict[Request, bytes | OSError] = {}
        in_memory: set[Request] = set()
        held = 0
        for index, request in enumerate(uses):
            if request not in in_memory:
                self.reads.append(request)
                held += request.size
            needed = last[request] > index
            keeps = needed and (held <= max_bytes or uses[index + 1] == request)
            (in_memory.add if keeps else in_memory.discard)(request)
            held -= 0 if keeps else request.size
            self._keeps.append(keeps)

    def read(self, read: ImageReader, uri: str, size: int, offset: int) -> bytes:
        """Returns the bytes of the next request; raises the error of its read for each sample.

        Args:
          read: called with each of `reads`, in order.
          uri: of the request, as `size` and `offset` are.
          size: as listed.
          offset: -1 for a whole file.
        """
        request = Request(uri, size, offset)
        image = self._images.pop(request, None)
        if image is None:
            try:
                image = read(*request)
            except OSError as error:
                image = error
        if self._keeps.popleft():
            self._images[request] = image
        if isinstance(image, OSError):
            raise image
        return image


def read_ahead(requests: Requests, read: ImageReader, options: ReadOptions) -> ReadAhead:
    """Reads ahead, or lets the kernel do it, depending on the options."""
    return (Prefetch if options.prefetched else ReadAhead)(requests, read, options)
