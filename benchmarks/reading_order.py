"""Measures other orders of reading local files, and read-ahead, with a cold and a warm page cache.

    python benchmarks/make_images.py /tmp/images --set imagenet
    python benchmarks/reading_order.py --images /tmp/images --output /dev/shm/reading_order

A shard needs its images in the order of a hash, which is random to a disk. One thread writes all images
into one shard and reads them in several ways, in interleaved rounds. The time is that of writing the
whole shard; put the output on tmpfs. "Cold" refers to this machine's page cache; the caches of a host
or of the disk itself are not known.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import islice
from operator import attrgetter
from typing import Any, NamedTuple

import machine
from compare import ratio_to, table
from inputs import Images, cool, list_images, warm

from beam_pipeline.core.dataset.sharding import KeyHasher, ShardSpec
from beam_pipeline.core.images.preparation import check_header
from beam_pipeline.core.labels.schema import ColumnKind, label_column
from beam_pipeline.core.records.example import SampleEncoder
from beam_pipeline.core.records.shard_writer import (
    ExampleMaker,
    ImageReader,
    sort_by_key_hash,
    write_shard,
)
from beam_pipeline.core.records.tfrecord import TFRecordFormat
from beam_pipeline.core.references import SampleRef
from beam_pipeline.storage.files import open_output
from beam_pipeline.storage.local import read_listed
from beam_pipeline.storage.read_ahead import (
    Prefetch,
    ReadAhead,
    ReadOptions,
    Request,
)


class File(NamedTuple):
    """An image as listing shows it."""

    request: Request
    inode: int
    label: str


Opener = Callable[[Sequence[File]], AbstractContextManager[ImageReader]]
"""Files in the order in which they will be wanted -> what reads them."""


def read_plainly(uri: str, size: int, offset: int) -> bytes:
    """One file, now."""
    return read_listed(uri, size)


@contextmanager
def one_by_one(files: Sequence[File]) -> Iterator[ImageReader]:
    """Reads each file when it is needed: --read_ahead 1."""
    yield read_plainly


def prefetched(files_ahead: int) -> Opener:
    """`Prefetch`: files are opened early, and the system is told that they will be wanted."""

    @contextmanager
    def opened(files: Sequence[File]) -> Iterator[ImageReader]:
        requests = (file.request for file in files)
        options = ReadOptions(prefetched=files_ahead)
        with Prefetch(requests, read_plainly, options) as ahead:
            yield ahead.read

    return opened


def threaded(reads: int) -> Opener:
    """Reads with `ReadAhead`, as --read_ahead does."""

    @contextmanager
    def opened(files: Sequence[File]) -> Iterator[ImageReader]:
        requests = (file.request for file in files)
        with ReadAhead(requests, read_plainly, ReadOptions(max_reads=reads)) as ahead:
            yield ahead.read

    return opened


def sorted_windows(size: int, key: Callable[[File], Any]) -> Opener:
    """Reads windows of files in another order, and returns them in the original one."""

    @contextmanager
    def opened(files: Sequence[File]) -> Iterator[ImageReader]:
        coming = iter(files)
        held: dict[str, bytes] = {}

        def read(uri: str, _: int, offset: int) -> bytes:
            if not held:
                for file in sorted(islice(coming, size), key=key):
                    held[file.request.uri] = read_plainly(*file.request)
            return held.pop(uri)

        yield read

    return opened


WAYS: dict[str, tuple[bool, Opener]] = {
    "one by one": (True, one_by_one),
    "4 threads ahead": (True, threaded(4)),
    "16 threads ahead": (True, threaded(16)),
    "16 files prefetched": (True, prefetched(16)),
    "128 files prefetched": (True, prefetched(128)),
    "windows of 256 by path": (True, sorted_windows(256, attrgetter("request.uri"))),
    "windows of 256 by inode": (True, sorted_windows(256, attrgetter("inode"))),
    "windows of 1,024 by inode": (True, sorted_windows(1024, attrgetter("inode"))),
    "listing order, one by one": (False, one_by_one),
    "inode order, one by one": (False, one_by_one),
}
"""Way -> whether the shard has the order of a hash, and what reads its images."""


def write(files: Sequence[File], opener: Opener, output: str) -> tuple[float, float]:
    """Writes a shard of these files and returns wall and CPU seconds."""
    refs = [SampleRef(f.request.uri, *f.request[:2], "train", (f.label,)) for f in files]
    columns = (label_column("class", ColumnKind.CLASS),)
    labels = sorted({file.label for file in files})
    encoder = SampleEncoder(columns, {label: number for number, label in enumerate(labels)})
    wall, cpu = time.perf_counter(), time.process_time()
    with open_output(output) as sink, opener(files) as read:
        maker = ExampleMaker(read, encoder, check_header)
        writer = TFRecordFormat().writer(sink)
        written = write_shard(ShardSpec("train", 0, 1, "x"), refs, maker, writer)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    assert written.info.examples == len(files)
    os.unlink(output)
    return wall, cpu


def listed(images: Images) -> list[File]:
    """Lists the files in the order of their folders."""
    found = []
    for name in sorted(os.listdir(images.folder)):
        for entry in os.scandir(os.path.join(images.folder, name)):
            request = Request(entry.path, entry.stat().st_size, -1)
            found.append(File(request, entry.inode(), name))
    return found


def in_hash_order(files: Iterable[File]) -> list[File]:
    """Sorts the files in the order in which a shard holds them."""
    by_uri = {file.request.uri: file for file in files}
    refs = [SampleRef(uri, uri, 0, "train", ()) for uri in by_uri]
    return [by_uri[ref.uri] for ref in sort_by_key_hash(refs, KeyHasher(0))]


def disk(path: str) -> str:
    """Describes the disk below a path's file system, as the kernel reports it."""
    device = os.stat(path).st_dev
    node = os.path.realpath(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}")
    if not os.path.exists(f"{node}/queue"):
        node = os.path.dirname(node)
    figures = []
    for name in ("rotational", "read_ahead_kb", "scheduler"):
        try:
            with open(f"{node}/queue/{name}", encoding="ascii") as file:
                figures.append(f"{name} {file.read().strip()}")
        except OSError:
            continue
    return f"{machine.file_system(path)} on {os.path.basename(node)} ({', '.join(figures)})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--images", required=True, help="class folders of images, on a disk")
    parser.add_argument("--output", required=True, help="file to write, on tmpfs")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cache", choices=["cold", "warm"], nargs="+", default=["cold", "warm"])
    parser.add_argument("--ways", nargs="+", choices=list(WAYS), metavar="WAY", help="default: all")
    arguments = parser.parse_args()
    ways = {name: way for name, way in WAYS.items() if name in (arguments.ways or WAYS)}
    images = list_images(os.path.abspath(arguments.images))
    files = listed(images)
    hashed = in_hash_order(files)
    print(f"{images.title}, {disk(images.folder)}\n{machine.sentence(machine.describe())}")
    for cache in arguments.cache:
        if cache == "warm":
            warm(images)
            write(hashed, one_by_one, arguments.output)
        runs: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
        for _ in range(arguments.rounds):
            for name, (by_hash, opener) in ways.items():
                order = hashed if by_hash else files
                if name.startswith("inode"):
                    order = sorted(files, key=attrgetter("inode"))
                if cache == "cold":
                    cool(images)
                runs[name].append(write(order, opener, arguments.output))
        rows = [[name, *_figures(found, next(iter(runs.values())))] for name, found in runs.items()]
        head = [f"{cache} page cache", "wall s, median (span)", "ratio", "CPU s", "ratio"]
        print(f"\n{table(head, rows)}", flush=True)


def _figures(
    these: Sequence[tuple[float, float]], first: Sequence[tuple[float, float]]
) -> Iterator[str]:
    """Formats medians of wall and CPU seconds, each with the median ratio to the first way."""
    for values, base in zip(zip(*these, strict=True), zip(*first, strict=True), strict=True):
        yield f"{statistics.median(values):.2f} ({min(values):.2f}-{max(values):.2f})"
        yield ratio_to(base, values)


if __name__ == "__main__":
    main()
