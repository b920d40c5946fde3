"""Fuzzes one target with atheris: libFuzzer keeps the inputs that reach new branches and goes on from them.

`python -m tests.fuzz --atheris [NAME ...]` calls it once for each target, as libFuzzer ends its process.
Atheris is in no extra of this package, for it has wheels for Linux alone: `pip install atheris`.
"""

from __future__ import annotations

import hashlib
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterable

_MOST_BYTES = 1 << 16
_HANGS_S = 60  # ends a reader that `fault_of` waits for in vain
_MOST_MIB = 4096


def run_guided(name: str, seconds: int, corpus: str | None = None) -> bool:
    """Fuzzes one target in a process of its own; True if it found no fault.

    Args:
      name: of `TARGETS`.
      seconds: how long.
      corpus: folder that the inputs that reach new branches are read from and added to.
    """
    command = [sys.executable, "-m", "tests.fuzz.guided", name, str(seconds)]
    with tempfile.TemporaryDirectory() as folder:
        return subprocess.run([*command, corpus or folder], check=False).returncode == 0


def _quoted(word: bytes) -> str:
    """A word as a line of libFuzzer's dictionaries."""
    return '"' + "".join(f"\\x{byte:02x}" for byte in word) + '"\n'


def _write_inputs(folder: str, inputs: Iterable[bytes]) -> None:
    os.makedirs(folder, exist_ok=True)
    for data in inputs:
        name = hashlib.sha1(data, usedforsecurity=False).hexdigest()
        with open(os.path.join(folder, name), "wb") as file:
            file.write(data)


def main(name: str, seconds: str, corpus: str) -> None:
    """Does not return: libFuzzer ends the process, with an error if it found a fault."""
    import atheris  # type: ignore[import-not-found]

    with atheris.instrument_imports(include=["beam_pipeline"]):
        from tests.fuzz.campaign import NUMBERS, fault_of, mutated
        from tests.fuzz.targets import KEPT, TARGETS
    target = TARGETS[name]

    def one(data: bytes) -> None:
        fault = fault_of(target, data)
        if fault:
            raise AssertionError(f"{fault.what}\n  {data[:2000]!r}")

    def changed(data: bytes, most: int, seed: int) -> bytes:
        """Half of the inputs by libFuzzer's changes, and half by those that know the target's words."""
        if seed % 2:
            return bytes(atheris.Mutate(data, most))
        return mutated((data,), target.words, random.Random(seed))[:most]

    _write_inputs(corpus, [*target.seeds, *KEPT.get(name, ())])
    with tempfile.TemporaryDirectory() as folder:
        words = os.path.join(folder, "words")
        with open(words, "w", encoding="ascii") as file:
            file.writelines(_quoted(word) for word in (*target.words, *NUMBERS) if len(word) <= 64)
        options = [f"-max_total_time={seconds}", f"-max_len={_MOST_BYTES}", f"-timeout={_HANGS_S}"]
        options += [f"-rss_limit_mb={_MOST_MIB}", f"-dict={words}", f"-artifact_prefix={folder}/"]
        options += ["-verbosity=1", "-print_final_stats=1"]
        atheris.Setup([sys.argv[0], *options, corpus], one, custom_mutator=changed)
        atheris.Fuzz()


if __name__ == "__main__":
    main(*sys.argv[1:])
