"""Fuzzes for a while: `python -m tests.fuzz [--seconds 60] [--seed 1] [NAME ...]`; prints what it found.

With `--atheris`, libFuzzer chooses the inputs by the branches that they reach; see guided.py.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
import time
from collections.abc import Sequence

from tests.fuzz.campaign import fault_of, inputs
from tests.fuzz.guided import run_guided
from tests.fuzz.targets import TARGETS, Target


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(TARGETS)}")
    parser.add_argument("--seconds", type=float, default=60.0, help="for each target")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--atheris", action="store_true")
    parser.add_argument("--corpus", help="folder of inputs to go on from, with --atheris")
    arguments = parser.parse_args()
    names = arguments.names or list(TARGETS)
    if arguments.atheris:
        return _with_atheris(names, int(arguments.seconds), arguments.corpus)
    resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
    found = 0
    for name in names:
        found += _run(name, TARGETS[name], arguments.seconds, arguments.seed)
    return 1 if found else 0


def _run(name: str, target: Target, seconds: float, seed: int) -> int:
    """Fuzzes one target, prints a line, and returns the number of different faults."""
    end = time.monotonic() + seconds
    faults: dict[str, bytes] = {}
    tried = 0
    for data in inputs(target, seed=seed):
        tried += 1
        fault = fault_of(target, data)
        if fault:
            faults.setdefault(fault.what.split(":")[0] + fault.what[-60:], fault.data)
            if len(faults) <= 5:
                print(f"  {fault.what}\n    {fault.data[:2000]!r}")
        if time.monotonic() > end:
            break
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    print(f"{name}: {tried} inputs, {len(faults)} faults, peak {peak} MiB so far", flush=True)
    return len(faults)


def _with_atheris(names: Sequence[str], seconds: int, corpus: str | None) -> int:
    """Fuzzes one target after the other; the exit code is 1 if there was a fault."""
    sound = []
    for name in names:
        print(f"== {name}", flush=True)
        folder = corpus and os.path.join(corpus, name.replace(" ", "_"))
        sound.append(run_guided(name, seconds, folder))
    return 0 if all(sound) else 1


if __name__ == "__main__":
    sys.exit(main())
