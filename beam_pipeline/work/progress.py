"""Progress of a job on this machine, reported where the samples are written.

```
writer process ──(its connection)──┐
threads of the engine ─────────────┴──> listener of the job, which shows the counts
```

Workers on other machines report through Beam's counters (`counters.py`) instead; for them, nobody
listens here.
"""

from __future__ import annotations

import contextlib
import time
from typing import Protocol

from beam_pipeline.work.job import Resource

_INTERVAL = 0.1  # seconds between two reports of a reporter


class Listener(Protocol):
    """Takes counts; may be called by several threads at once."""

    def listed(self, images: int) -> None:
        """Takes the images that were listed since the last report."""

    def start(self, samples: int, image_bytes: int) -> None:
        """Takes the totals of the whole job."""

    def add(self, samples: int, image_bytes: int) -> None:
        """Takes what was done since the last report of one reporter."""


_LISTENER = Resource[Listener]()


def reported_to(listener: Listener) -> contextlib.AbstractContextManager[None]:
    """While the block runs, counts of the job go to a listener."""
    return _LISTENER.given(listener)


def listed(images: int) -> None:
    """Reports images that were listed."""
    if listener := _LISTENER.get():
        listener.listed(images)


def announce(samples: int, image_bytes: int) -> None:
    """Reports the totals of the whole job."""
    if listener := _LISTENER.get():
        listener.start(samples, image_bytes)


def add(samples: int, image_bytes: int) -> None:
    """Reports samples that were written or left out."""
    if listener := _LISTENER.get():
        listener.add(samples, image_bytes)


class Reporter:
    """Adds up samples, and reports them a few times a second."""

    def __init__(self) -> None:
        self._samples = 0
        self._bytes = 0
        self._next = time.monotonic() + _INTERVAL if _LISTENER.get() else None

    def add(self, image_bytes: int) -> None:
        """Counts one sample, written or left out."""
        if self._next is None:
            return
        self._samples += 1
        self._bytes += image_bytes
        if time.monotonic() >= self._next:
            self.flush()

    def flush(self) -> None:
        """Reports what was counted since the last report."""
        if self._next is None:
            return
        add(self._samples, self._bytes)
        self._samples = self._bytes = 0
        self._next = time.monotonic() + _INTERVAL
