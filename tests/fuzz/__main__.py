"""Fuzzes for a while: `python -m tests.fuzz [--seconds 60] [--seed 1] [NAME ...]`; prints what it found.

With `--atheris`, libFuzzer chooses the inputs by the branches that they reach; see guided.py.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import IO, NoReturn

from tests.fuzz import campaign, guided, targets


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(targets.TARGETS)}")
    parser.add_argument("--seconds", type=float, default=60.0, help="for each target")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--atheris", action="store_true")
    parser.add_argument("--corpus", help="folder of inputs to go on from, with --atheris")
    arguments = parser.parse_args()
    names = arguments.names or list(targets.TARGETS)
    if arguments.atheris:
        return _with_atheris(names, int(arguments.seconds), arguments.corpus)
    sound = [_run_apart(name, arguments.seconds, arguments.seed) for name in names]
    return 0 if all(sound) else 1


def _run_apart(name: str, seconds: float, seed: int) -> bool:
    """Fuzzes one target in a process, which a library in C++ may end; returns whether there was no fault."""
    with tempfile.TemporaryFile(buffering=0) as last:
        run = (name, targets.TARGETS[name], seconds, seed, last)
        process = multiprocessing.get_context("fork").Process(target=_run, args=run)
        process.start()
        process.join()
        if process.exitcode and process.exitcode < 0:
            last.seek(0)
            print(f"{name}: ended by {signal.Signals(-process.exitcode).name}\n    {last.read()!r}")
    return process.exitcode == 0


def _run(name: str, target: targets.Target, seconds: float, seed: int, last: IO[bytes]) -> NoReturn:
    """Fuzzes one target and prints a line; `last` has the input at work. Exits with 1 if there were faults."""
    resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
    end = time.monotonic() + seconds
    faults: dict[str, bytes] = {}
    tried = 0
    for data in campaign.inputs(target, seed=seed):
        tried += 1
        last.seek(0)
        last.truncate()
        last.write(data)
        fault = campaign.fault_of(target, data)
        if fault:
            faults.setdefault(fault.what.split(":")[0] + fault.what[-60:], fault.data)
            if len(faults) <= 5:
                print(f"  {fault.what}\n    {fault.data[:2000]!r}")
        if time.monotonic() > end:
            break
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    print(f"{name}: {tried} inputs, {len(faults)} faults, peak {peak} MiB", flush=True)
    sys.exit(bool(faults))


def _with_atheris(names: Sequence[str], seconds: int, corpus: str | None) -> int:
    """Fuzzes one target after the other; the exit code is 1 if there was a fault."""
    sound = []
    for name in names:
        print(f"== {name}", flush=True)
        folder = corpus and os.path.join(corpus, name.replace(" ", "_"))
        sound.append(guided.run_guided(name, seconds, folder))
    return 0 if all(sound) else 1


if __name__ == "__main__":
    sys.exit(main())
