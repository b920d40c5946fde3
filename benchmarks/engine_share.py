"""Measures the share of the engine's thread in a conversion of many small images.

    python benchmarks/make_images.py /data/few 200000 2.4
    python benchmarks/make_images.py /data/many 1000000 2.4
    python benchmarks/engine_share.py --images /data/few /data/many --work /tmp/share --output /dev/shm/share

Both sets are converted with one writer process per CPU: listed, and from an inventory. The engine's
thread is the command's own process; the others write. From the slopes between the two sets it reckons
the share on more cores, where the writers' work divides and the engine's does not. The images should
be different: copies are compared by their keys as well, which takes more time.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
from typing import NamedTuple

import machine
import measure
from compare import table
from inputs import Images, list_images, warm

WAYS = ("listed", "inventory")
HEAD = ["images", "way", "wall s", "CPU s, engine", "CPU s, writers", "peak MB"]
SLOPES = ["one more image", "wall µs", "CPU µs, engine", "CPU µs, writers"]
SHARES = ["cores", *(f"{way}: {what}" for way in WAYS for what in ("µs per image", "share"))]
_CORES = (2, 16, 64)
_LIMIT_S = 3600


class Run(NamedTuple):
    """Attributes: count, of images; way; figures."""

    count: int
    way: str
    figures: measure.Figures

    @property
    def writers(self) -> float:
        """CPU seconds of all other processes."""
        return self.figures.cpu - self.figures.first


class Slope(NamedTuple):
    """Attributes: wall, engine, writers, all in µs per image."""

    wall: float
    engine: float
    writers: float

    def on(self, cores: int) -> float:
        """The time of an image: the engine's thread and then a share of the writers' work."""
        return self.engine + self.writers / cores


def write_inventory(images: Images, path: str) -> None:
    """Writes an inventory of a set."""
    with open(path, "w", encoding="utf-8") as file:
        file.write("uri,size\n")
        for image in images.files:
            file.write(f"{image.path},{os.path.getsize(image.path)}\n")


def convert(images: Images, output: str, inventory: str) -> measure.Figures:
    """Converts a set, from an inventory if one is named, and removes the output."""
    cpus = os.sched_getaffinity(0)
    command = [sys.executable, "-m", "beam_pipeline", "convert", "--images", images.folder]
    command += ["--layout", "class_folders", "--num_shards", "64", f"--writers={len(cpus)}"]
    command += ["--output", output, "--runner=FnApiRunner"]
    if inventory:
        command += ["--inventory", inventory]
    try:
        return measure.run(
            command,
            cpus=cpus,
            limit_s=_LIMIT_S,
            limit_bytes=0.8 * machine.available_bytes(),
        )
    finally:
        shutil.rmtree(output, ignore_errors=True)


def slope(runs: list[Run], way: str) -> Slope:
    """The cost of one more image, between the medians of the smallest and the largest count."""
    counts = sorted({run.count for run in runs})
    few, many = ([r for r in runs if (r.count, r.way) == (n, way)] for n in (counts[0], counts[-1]))

    def between(figures: list[list[float]]) -> float:
        less, more = map(statistics.median, figures)
        return (more - less) / (counts[-1] - counts[0]) * 1e6

    return Slope(
        between([[run.figures.wall for run in of] for of in (few, many)]),
        between([[run.figures.first for run in of] for of in (few, many)]),
        between([[run.writers for run in of] for of in (few, many)]),
    )


def row(run: Run) -> list[str]:
    """Makes one row of the table."""
    figures = run.figures
    seconds = (figures.wall, figures.first, run.writers)
    return [f"{run.count:,}", run.way, *(f"{s:.1f}" for s in seconds), f"{figures.memory:.0f}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--images", required=True, nargs=2, metavar=("FEW", "MANY"))
    parser.add_argument("--work", required=True, help="folder for inventories")
    parser.add_argument("--output", required=True, help="folder for each run's shards")
    parser.add_argument("--rounds", type=int, default=1)
    arguments = parser.parse_args()
    if os.path.exists(arguments.work) or os.path.exists(arguments.output):
        parser.error("--work or --output exists; name folders that are not there yet")
    sets = [list_images(os.path.abspath(folder)) for folder in arguments.images]
    print(f"{' and '.join(images.title for images in sets)}", flush=True)
    print(machine.sentence(machine.describe()), flush=True)
    runs = []
    os.makedirs(arguments.work)
    try:
        for images in sets:
            count = len(images.files)
            inventory = os.path.join(os.path.abspath(arguments.work), f"{count}.csv")
            write_inventory(images, inventory)
            warm(images)
            for way in WAYS * arguments.rounds:
                named = inventory if way == "inventory" else ""
                runs.append(Run(count, way, convert(images, arguments.output, named)))
                print(row(runs[-1]), flush=True)
    finally:
        shutil.rmtree(arguments.work)
    print(f"\n{table(HEAD, [row(run) for run in runs])}")
    slopes = {way: slope(runs, way) for way in WAYS}
    print(f"\n{table(SLOPES, [[way, *(f'{s:.2f}' for s in slopes[way])] for way in WAYS])}")
    shares = [
        [
            str(cores),
            *(
                cell
                for way in WAYS
                for cell in (
                    f"{slopes[way].on(cores):.2f}",
                    f"{slopes[way].engine / slopes[way].on(cores):.0%}",
                )
            ),
        ]
        for cores in _CORES
    ]
    print(f"\n{table(SHARES, shares)}")


if __name__ == "__main__":
    main()
