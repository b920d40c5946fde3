"""Measures how long a bucket of a million objects takes to list, by the number of ranges listed at once.

    python -m benchmarks.listing --names flat

Run it in the repository's folder. The bucket is `tests/listing_server.py` in its own process on this
machine: it answers like Google Cloud Storage, with a thousand names per page, and delays each response
as a network would. Other costs of a network and a service are not measured.
"""

from __future__ import annotations

import argparse
import hashlib
import multiprocessing
import os
import resource
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

from tests.listing_server import serving

BUCKET, FOLDER = "bench", "photos"
HEAD = "| names | latency ms | threads | ranges | requests | probes | longest chain | wall s | CPU s | names/s |"

SHAPES: dict[str, Callable[[int], str]] = {
    "flat": lambda number: f"image_{number:07d}.jpg",
    "folders": lambda number: f"class_{number % 1000:04d}/image_{number // 1000:04d}.jpg",
    "hashes": lambda number: f"{hashlib.md5(str(number).encode()).hexdigest()}.jpg",
    "one huge": lambda number: (
        f"small_{number % 100}/{number}.jpg" if number % 10 == 0 else f"huge/{number:07d}.jpg"
    ),
}


class Log(NamedTuple):
    """Attributes: pages, of each chain; probes, requests for one name."""

    chains: list[int]
    probes: int


def serve(connection: Connection, shape: str, count: int) -> None:
    """Serves a bucket; each message sets the latency and requests the log so far."""
    with serving(BUCKET, (f"{FOLDER}/{SHAPES[shape](n)}" for n in range(count))) as server:
        connection.send(server.url)
        while (latency := connection.recv()) is not None:
            log = Log(server.chains(), server.probes)
            server.requests.clear()
            server.latency = latency
            connection.send(log)


def list_once(threads: int, ranges: int, count: int) -> tuple[float, float]:
    """Lists once and returns wall and CPU seconds; with `ranges` 1, page after page."""
    from beam_pipeline.core.listing.filters import ImageRoot
    from beam_pipeline.storage.bucket_listing import (
        FanOut,
        NameRange,
        list_bucket,
        list_range,
    )
    from beam_pipeline.transforms.batches import BATCH_SIZE

    root = ImageRoot(f"gs://{BUCKET}/{FOLDER}")
    before = resource.getrusage(resource.RUSAGE_SELF)
    began = time.perf_counter()
    if ranges == 1:
        listing: Any = list_range(NameRange(root), BATCH_SIZE, count + 1)
    else:
        listing = list_bucket(root, BATCH_SIZE, FanOut(threads=threads, ranges=ranges))
    found = sum(len(listed.images) for listed in listing)
    wall = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_SELF)
    assert found == count, f"listed {found} of {count}"
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=1_000_000, help="number of objects")
    parser.add_argument("--names", default="flat", choices=SHAPES)
    parser.add_argument("--latency", nargs="+", type=float, default=[0, 50], help="milliseconds")
    parser.add_argument("--threads", nargs="+", type=int, default=[4, 8, 16])
    parser.add_argument("--ranges", nargs="+", type=int, default=[1, 16, 64])
    arguments = parser.parse_args()
    print(f"{HEAD}\n|{' --- |' * 10}", flush=True)
    ours, theirs = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(
        target=serve, args=(theirs, arguments.names, arguments.count), daemon=True
    )
    server.start()
    os.environ["STORAGE_EMULATOR_HOST"] = ours.recv()
    list_once(1, 16, arguments.count)  # imports and connects
    for latency in arguments.latency:
        for ranges in arguments.ranges:
            for threads in arguments.threads if ranges > 1 else [1]:
                ours.send(latency / 1000)
                ours.recv()
                wall, cpu = list_once(threads, ranges, arguments.count)
                ours.send(0)
                log: Log = ours.recv()
                cells = (
                    *(arguments.names, f"{latency:g}", threads, ranges),
                    *(sum(log.chains) + log.probes, log.probes, max(log.chains)),
                    *(f"{wall:.1f}", f"{cpu:.1f}", f"{arguments.count / wall:,.0f}"),
                )
                print(f"| {' | '.join(map(str, cells))} |", flush=True)
    ours.send(None)
    server.join()


if __name__ == "__main__":
    main()
