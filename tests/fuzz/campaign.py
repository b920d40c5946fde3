"""Spoils bytes, the same way for the same seed, reads them, and notes what goes wrong."""

from __future__ import annotations

import random
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

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


# --- mutations ------------------------------------------------------------------------------------

NUMBERS = (
    b"0", b"-1", b"1e400", b"-0.0", b"nan", b"Infinity", b"007", b"99999999999999999999",
    b"9223372036854775807", b"1" * 5000, b"0x7f", b"\xff\xff\xff\xff", b"\x00\x00\x00\x80"
)  # fmt: skip
"""Pieces that numbers, sizes and lengths are replaced by, in text or in binary."""

_MOST_INPUT = 1 << 16


def mutated(seeds: Sequence[bytes], words: Sequence[bytes], rng: random.Random) -> bytes:
    """One of some inputs, with one to six changes.

    Args:
      seeds: inputs that are right.
      words: pieces to put in, beside `NUMBERS`.
      rng: decides.
    """
    data = bytearray(rng.choice(seeds))
    for _ in range(rng.choice((1, 1, 1, 2, 3, 6))):
        rng.choice(_CHANGES)(data, seeds, (*words, *NUMBERS), rng)
        del data[_MOST_INPUT:]
    return bytes(data)


def _place(data: bytearray, rng: random.Random) -> int:
    return rng.randrange(len(data) + 1)


def _flip(data: bytearray, _: object, __: object, rng: random.Random) -> None:
    if data:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def _set(data: bytearray, _: object, __: object, rng: random.Random) -> None:
    if data:
        data[rng.randrange(len(data))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))


def _cut(data: bytearray, _: object, __: object, rng: random.Random) -> None:
    del data[_place(data, rng) :]


def _remove(data: bytearray, _: object, __: object, rng: random.Random) -> None:
    start = _place(data, rng)
    del data[start : start + rng.choice((1, 2, 4, 16, 100))]


def _double(data: bytearray, _: object, __: object, rng: random.Random) -> None:
    start = _place(data, rng)
    piece = data[start : start + rng.choice((1, 4, 30, 300))]
    data[start:start] = piece * rng.choice((1, 2, 50))


def _insert(data: bytearray, _: object, words: Sequence[bytes], rng: random.Random) -> None:
    start = _place(data, rng)
    data[start:start] = rng.choice(words)


def _overwrite(data: bytearray, _: object, words: Sequence[bytes], rng: random.Random) -> None:
    start, word = _place(data, rng), rng.choice(words)
    data[start : start + len(word)] = word


def _splice(data: bytearray, seeds: Sequence[bytes], _: object, rng: random.Random) -> None:
    other = rng.choice(seeds)
    start = rng.randrange(len(other) + 1)
    data[_place(data, rng) :] = other[start:]


def _swap_number(data: bytearray, _: object, words: Sequence[bytes], rng: random.Random) -> None:
    digits = [i for i, byte in enumerate(data) if 0x30 <= byte <= 0x39]
    if digits:
        at = rng.choice(digits)
        data[at : at + 1] = rng.choice(words)


_CHANGES: Sequence[Callable[[bytearray, Sequence[bytes], Sequence[bytes], random.Random], None]] = (
    _flip, _flip, _set, _set, _cut, _remove, _double, _insert, _overwrite, _splice, _swap_number
)  # fmt: skip
