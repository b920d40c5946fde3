"""Measures how much of a sample's time a shard writer holds Python's global lock.

    python benchmarks/make_images.py /tmp/images --set imagenet
    python benchmarks/gil.py --images /tmp/images --output /dev/shm/gil

A shard of all images is written in one thread, once as it is and once with a clock around each call
that releases the lock (system calls and checksums). Threads can run those calls in parallel, but must
take turns for the rest. So `total / held` is the greatest speed-up by threads, on any number of cores.
Then several threads, and several processes, write the same shard at once, to measure the real speed-up.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from typing import Any

import machine
from compare import table
from inputs import list_images, warm

from beam_pipeline.core.dataset.sharding import ShardSpec
from beam_pipeline.core.labels.schema import ColumnKind, label_column
from beam_pipeline.core.packing import pack
from beam_pipeline.core.records import shard_writer
from beam_pipeline.core.records.example_source import LabelledImages
from beam_pipeline.core.references import SampleRef
from beam_pipeline.storage import local
from beam_pipeline.work.encoding import EncodingOptions
from beam_pipeline.work.shard_task import ShardTask

RELEASING = ("open", "read", "close", "writev", "crc32c")


@contextmanager
def clocks() -> Iterator[Counter[str]]:
    """Counts seconds and calls of everything that releases the lock, while the block runs."""
    seconds: Counter[str] = Counter()

    def clocked(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def measure(*arguments: Any) -> Any:
            start = time.perf_counter()
            result = call(*arguments)
            seconds[name] += time.perf_counter() - start
            seconds["calls"] += 1
            return result

        return measure

    class Clocked:
        """`os`, with clocks."""

        def __getattr__(self, name: str) -> Any:
            return getattr(os, name)

    system: Any = Clocked()
    for name in ("open", "read", "close", "writev"):
        setattr(system, name, clocked(name, getattr(os, name)))
    before = shard_writer.crc32c_extend
    shard_writer.crc32c_extend = clocked("crc32c", before)
    local.os = system
    try:
        yield seconds
    finally:
        shard_writer.crc32c_extend = before
        local.os = os


def clock_cost() -> float:
    """Returns the seconds that a clock itself takes, without the call in it."""
    start = time.perf_counter()
    for _ in range(100_000):
        time.perf_counter()
        time.perf_counter()
    return (time.perf_counter() - start) / 100_000 / 2


def timed(work: Callable[[], object]) -> float:
    """Returns the seconds that a call takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def side_by_side(kind: Any, tasks: list[ShardTask]) -> float:
    """Returns seconds from the common start to the last end; processes are started before."""
    start, workers = kind["barrier"](len(tasks) + 1), []
    for task in tasks:
        workers.append(kind["worker"](target=_wait_and_run, args=(start, task)))
        workers[-1].start()
    start.wait()
    began = time.perf_counter()
    for worker in workers:
        worker.join()
    return time.perf_counter() - began


def _wait_and_run(start: Any, task: ShardTask) -> None:
    start.wait()
    task.run()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--images", required=True, help="class folders of images")
    parser.add_argument("--output", required=True, help="folder that may be removed")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    images = list_images(os.path.abspath(arguments.images))
    warm(images)
    count = len(images.files)
    refs = [
        SampleRef(file.path, file.path, os.path.getsize(file.path), "train", (str(file.label),))
        for file in images.files
    ]
    encoding = EncodingOptions(LabelledImages((label_column("class", ColumnKind.CLASS),)))
    classes = {str(number): number for number in {file.label for file in images.files}}
    tasks = [
        ShardTask(
            folder=arguments.output,
            spec=ShardSpec("train", 0, 1, f"shard-{number}"),
            batches=[pack(refs)],
            class_ids=classes,
            encoding=encoding,
            record_format="none",
        )
        for number in range(os.cpu_count() or 1)
    ]
    processes = get_context("spawn")
    kinds = {
        "threads": {"barrier": threading.Barrier, "worker": threading.Thread},
        "processes": {"barrier": processes.Barrier, "worker": processes.Process},
    }
    tasks[0].run()
    alone, released, together = [], [], {name: [] for name in kinds}
    cost = clock_cost()
    for _ in range(arguments.rounds):
        alone.append(timed(tasks[0].run))
        with clocks() as seconds:
            tasks[0].run()
        each = seconds.pop("calls") * cost
        released.append({**seconds, "all": sum(seconds.values()) - each})
        for name, kind in kinds.items():
            together[name].append(side_by_side(kind, tasks))
    shutil.rmtree(arguments.output)
    total = statistics.median(alone)
    free = statistics.median(run["all"] for run in released)
    print(f"{images.title}\n{machine.sentence(machine.describe())}\n")
    rows = [["whole sample", total], ["holds the lock", total - free]]
    rows += [[name, statistics.median(run[name] for run in released)] for name in RELEASING]
    print(table(["", "µs per sample"], [[n, f"{s / count * 1e6:.1f}"] for n, s in rows]))
    print(f"\nThreads can win {total / (total - free):.1f} times at most.")
    for name, walls in together.items():
        won = len(tasks) * total / statistics.median(walls)
        print(f"{len(tasks)} {name}: {won:.2f} samples per second, relative to one")


if __name__ == "__main__":
    main()
