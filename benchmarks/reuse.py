"""Measures `--reuse` against a whole conversion, for different numbers of changed images.

    python benchmarks/make_images.py /tmp/images --set imagenet
    python benchmarks/reuse.py --images /tmp/images --count 100000 --work /tmp/reuse --output /dev/shm/reuse

It makes a set of hard links to the images. In each round, it converts the set. Then, for each number of
changes, it replaces some images by new files of the same length, and converts the set with --reuse.
Shards that are the same file as before are counted by their inodes. The output takes up to two data
sets: 22 GB for 100,000 images of 110 kB, so it does not fit into the memory of a small machine.
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


def change(paths: list[str], count: int, seed: int) -> None:
    """Replaces files by others of the same length; the originals behind the links stay."""
    for path in random.Random(1000 * count + seed).sample(paths, count):
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
    parser.add_argument("--changes", type=int, nargs="+", default=[10, 100, 1000])
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
    whole: list[Run] = []
    runs: dict[int, list[Run]] = {count: [] for count in arguments.changes}
    shards: dict[int, list[int]] = {count: [] for count in arguments.changes}
    for number in range(arguments.rounds):
        shutil.rmtree(first, ignore_errors=True)
        whole.append(convert(links, first, arguments.shards))
        for count in arguments.changes:
            change(paths, count, seed=number)
            runs[count].append(convert(links, again, arguments.shards, "--reuse", first))
            shards[count].append(same_files(again, first))
            shutil.rmtree(first)
            os.rename(again, first)  # so that only the next changes are new
        print(f"round {number + 1}: {whole[-1]}, {[runs[count][-1] for count in runs]}", flush=True)
    print("| changed images | shards linked | s | of a whole conversion | CPU s | of a whole one |")
    print("|---|---|---|---|---|---|")
    print(f"| whole conversion | | {_cells(whole, whole)} |")
    for count in arguments.changes:
        shown = statistics.median_low(shards[count])
        print(f"| {count:,} | {shown} of {arguments.shards} | {_cells(runs[count], whole)} |")
    shutil.rmtree(links)
    shutil.rmtree(first)


def _cells(runs: list[Run], whole: list[Run]) -> str:
    """The median of each figure, with its span, and the median of its shares in the same rounds."""
    cells = []
    for values, wholes in zip(zip(*runs, strict=True), zip(*whole, strict=True), strict=True):
        share = statistics.median(part / of for part, of in zip(values, wholes, strict=True))
        span = f"{min(values):.1f}-{max(values):.1f}"
        cells += [f"{statistics.median(values):.1f} ({span})", f"{share:.2f}"]
    return " | ".join(cells)


if __name__ == "__main__":
    main()
