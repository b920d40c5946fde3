"""Measures `--reuse` against a whole conversion, for different numbers of changed images.

    python benchmarks/make_images.py /tmp/large --set large
    python benchmarks/reuse.py --images /tmp/large --count 100000 --work /tmp/reuse --output /dev/shm/reuse

It makes a set of hard links to the images, converts it, replaces some images by files of other bytes of
the same length, and converts it with --reuse. Shards that are the same file as before are counted by
their inodes. The output takes up to two data sets: 22 GB for 100,000 images of 110 kB, so it does not
fit into the memory of a small machine.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import shutil
import statistics
import subprocess
import sys
import time
from typing import NamedTuple

from growth import linked
from inputs import list_images


class Run(NamedTuple):
    """Seconds of a conversion: by the clock, and of all its processes."""

    wall: float
    cpu: float


def convert(images: str, output: str, shards: int, *options: str) -> Run:
    """Runs a conversion as a person would."""
    command = [sys.executable, "-m", "beam_pipeline", "convert", "--images", images]
    command += ["--output", output, "--name", "d", "--num_shards", str(shards), *options]
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Run(wall, cpu)


def change(paths: list[str], count: int) -> None:
    """Replaces files by others of the same length; the originals behind the links stay."""
    for path in random.Random(count).sample(paths, count):
        with open(path, "rb") as file:
            content = file.read()
        os.unlink(path)
        with open(path, "wb") as file:
            file.write(content)


def same_files(folder: str, earlier: str) -> int:
    """Counts the shards of a folder that are hard links to those of another."""
    shards = [
        {entry.inode() for entry in os.scandir(path) if ".tfrecord-" in entry.name}
        for path in (folder, earlier)
    ]
    return len(shards[0] & shards[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--images", required=True)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--shards", type=int, default=100)
    parser.add_argument("--changes", type=int, nargs="+", default=[0, 10, 100, 1000])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--work", required=True, help="for links, on the disk of the images")
    parser.add_argument("--output", required=True)
    arguments = parser.parse_args()
    links, first, again = (
        os.path.join(arguments.work, "images"),
        os.path.join(arguments.output, "first"),
        os.path.join(arguments.output, "again"),
    )
    os.makedirs(links)
    paths = [
        file.path for file in linked(list_images(arguments.images), arguments.count, links).files
    ]
    whole = []
    for _ in range(arguments.rounds):
        shutil.rmtree(first, ignore_errors=True)
        whole.append(convert(links, first, arguments.shards))
    wall, cpu = (statistics.median(values) for values in zip(*whole, strict=True))
    print("| changed images | shards linked | s | of a whole conversion | CPU s | of a whole one |")
    print("|---|---|---|---|---|---|")
    print(f"| whole conversion | | {wall:.2f} | 1 | {cpu:.2f} | 1 |")
    for count in arguments.changes:
        change(paths, count)
        runs = []
        for _ in range(arguments.rounds):
            shutil.rmtree(again, ignore_errors=True)
            runs.append(convert(links, again, arguments.shards, "--reuse", first))
        now, busy = (statistics.median(values) for values in zip(*runs, strict=True))
        shards = same_files(again, first)
        shutil.rmtree(first)
        os.rename(again, first)  # so that only the next changes are new
        print(
            f"| {count:,} | {shards} of {arguments.shards} | {now:.2f} | {now / wall:.2f} "
            f"| {busy:.2f} | {busy / cpu:.2f} |",
            flush=True,
        )
    shutil.rmtree(links)
    shutil.rmtree(first)


if __name__ == "__main__":
    main()
