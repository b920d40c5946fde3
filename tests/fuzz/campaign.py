"""Reads spoilt inputs and notes what goes wrong."""

from __future__ import annotations

import random
import time
import tracemalloc
from collections.abc import Iterator
from typing import NamedTuple

from tests.fuzz.mutation import mutated
from tests.fuzz.targets import MOST_SECONDS, Target

MOST_BYTES = 256 << 20
"""Memory that reading 64 KiB may take: 256 MiB."""


class Fault(NamedTuple):
    """An input that a reader does not stand, and why."""

    data: bytes
    what: str


def fault_of(target: Target, data: bytes) -> Fault | None:
    """Reads an input; returns what is wrong, or None."""
    start = time.process_time()  # a busy machine is no fault
    try:
        target.read(data)
    except target.errors:
        pass
    except BaseException as error:
        if isinstance(error, (KeyboardInterrupt, SystemExit)):
            raise
        return Fault(data, f"{type(error).__name__}: {str(error)[:200]}")
    seconds = time.process_time() - start
    return Fault(data, f"it took {seconds:.1f} s of CPU time") if seconds > MOST_SECONDS else None


def inputs(target: Target, *, seed: int) -> Iterator[bytes]:
    """The inputs that a reader can read, then spoilt ones without end."""
    yield from target.seeds
    rng = random.Random(seed)
    while True:
        yield mutated(target.seeds, target.words, rng)


def peak_bytes(target: Target, data: bytes) -> int:
    """Memory of Python that reading an input takes at most, in bytes."""
    tracemalloc.start()
    try:
        fault_of(target, data)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
