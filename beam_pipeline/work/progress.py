"""Progress of a job on this machine, reported where the samples are written.

```
writer process ──(its connection)──┐
threads of the engine ─────────────┴──> listener of the job, which shows the counts
```

On other machines, workers count what they report in the counters of `outcome.py`.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import NamedTuple

from beam_pipeline.work.job import Job, Resource

_INTERVAL = 0.1  # seconds between two reports of a reporter


class Counts(NamedTuple):
    """What was done since the last report of a reporter, or the totals of the job.

    Attributes:
      listed: images that were listed.
      samples: samples that were written or left out.
      image_bytes: the bytes of their images.
      is_total: True for the samples and bytes of the whole job.
    """

    listed: int = 0
    samples: int = 0
    image_bytes: int = 0
    is_total: bool = False


Listener = Callable[[Counts], object]
"""Takes counts; may be called by several threads at once."""

_LISTENER = Resource[Listener]()


def reported_to(listener: Listener) -> contextlib.AbstractContextManager[None]:
    """While the block runs, counts of the job go to a listener."""
    return _LISTENER.given(listener)


def with_listener(job: Job, listener: Listener) -> Job:
    """The job with this listener, unless it has one."""
    return (
        job if _LISTENER in job.resources else Job(job.id, {**job.resources, _LISTENER: listener})
    )


def report(counts: Counts) -> None:
    """Reports counts to the listener of the job, if it has one."""
    if listener := _LISTENER.get():
        listener(counts)


class Reporter:
    """Adds up samples, and reports them a few times a second."""

    def __init__(self) -> None:
        self._samples = self._bytes = 0
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
        report(Counts(samples=self._samples, image_bytes=self._bytes))
        self._samples = self._bytes = 0
        self._next = time.monotonic() + _INTERVAL
