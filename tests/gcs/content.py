"""Bytes for files in an emulated bucket."""

from __future__ import annotations

import random
from collections.abc import Callable

from beam_pipeline.storage import files
from tests.stores import Store

MEBI = 1 << 20


def random_bytes(size: int, seed: int = 0) -> bytes:
    return random.Random(seed).randbytes(size)


def write_a(cloud: Store, content: bytes, then: Callable[[], object] = lambda: None) -> None:
    """Writes a new file `a` and does something else before it is complete."""
    with files.open_output(f"{cloud.uri}/a", new=True) as sink:
        sink.write(content)
        then()
