"""How many requests at once a bucket takes from this process: found by trying, as TCP finds a network's bandwidth.

A service refuses requests (429, 503) when all of its clients together make too many, and no client knows
the others. So each process bounds its own requests to a bucket: a refusal halves the bound, once for all
requests that were on their way together, and every round of answers raises it by one. Until the first refusal
it is unbounded. A refused request keeps its place while it waits, up to `KEEPS_PLACE` seconds.

The figures of this process are collected here too, for whoever reports them.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections import defaultdict, deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

KEEPS_PLACE = 5.0
"""Seconds. Requests that wait longer leave their place to others: only a part of the bucket may be busy."""

_MOST_READS = 1 << 17  # whose times are kept


class Usage(NamedTuple):
    """The figures of this process since they were taken last.

    Attributes:
      retries: requests that were repeated.
      throttled_s: whole seconds that requests waited because a bucket refused them.
      read_ms: milliseconds that each read took, its retries included.
    """

    retries: int = 0
    throttled_s: int = 0
    read_ms: tuple[int, ...] = ()


class _Meter:
    """Adds up the figures of this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._retries = 0
        self._waiting = 0  # requests
        self._since = self._throttled = 0.0
        self._read_ms: deque[int] = deque(maxlen=_MOST_READS)

    def add_read(self, seconds: float) -> None:
        self._read_ms.append(round(1000 * seconds))

    @contextmanager
    def wait(self, *, refused: bool) -> Iterator[None]:
        """Counts a retry, and the time of the block if the request was refused; requests at once count once."""
        with self._lock:
            self._retries += 1
            self._enter(refused)
        try:
            yield
        finally:
            with self._lock:
                self._enter(-refused)

    def _enter(self, requests: int) -> None:
        now = time.monotonic()
        if self._waiting:
            self._throttled += now - self._since
        self._since = now
        self._waiting += requests

    def take(self) -> Usage:
        """Takes the figures of this process."""
        if not (self._retries or self._throttled or self._read_ms or self._waiting):
            return Usage()
        with self._lock:
            self._enter(0)
            seconds, retries = int(self._throttled), self._retries
            self._throttled -= seconds
            self._retries = 0
        read = tuple(self._read_ms.popleft() for _ in range(len(self._read_ms)))
        return Usage(retries, seconds, read)


class Pace:
    """The requests of this process to one bucket.

    Attributes:
      bound: the most at once.
      answered: when a request last succeeded, by the monotonic clock.
    """

    def __init__(self) -> None:
        self.bound = math.inf
        self.answered = -math.inf
        self._in_flight = 0
        self._round = 0
        self._free = threading.Condition(threading.Lock())

    def enter(self) -> int:
        """Waits for a place; returns the round of the request."""
        with self._free:
            while self._in_flight >= self.bound:
                self._free.wait()
            self._in_flight += 1
            return self._round

    def refuse(self, begun: int) -> None:
        """Halves the bound if the request is the first of its round to be refused."""
        with self._free:
            if begun == self._round:
                self.bound = max(1.0, min(self.bound, self._in_flight) / 2)
                self._round += 1

    def sleep(self, seconds: float) -> int:
        """Waits before a request is repeated; returns its round."""
        if seconds < KEEPS_PLACE:
            time.sleep(seconds)
            return self._round
        self.leave()
        time.sleep(seconds)
        return self.enter()

    def leave(self, *, answered: bool = False) -> None:
        """Gives the place back."""
        with self._free:
            self._in_flight -= 1
            if answered:
                self.answered = time.monotonic()
                self.bound += 1 / self.bound
            self._free.notify(2)


paces: defaultdict[str, Pace] = defaultdict(Pace)
"""Bucket -> the pace of its requests."""

meter = _Meter()


def _forget() -> None:
    """Gives a forked process places and locks that no thread has."""
    global meter
    paces.clear()
    meter = _Meter()


os.register_at_fork(after_in_child=_forget)
