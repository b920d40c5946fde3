"""Measures what one more image costs: the slope between two sets of images, without the start-up.

    python benchmarks/make_images.py /tmp/images --set imagenet
    python benchmarks/make_images.py /tmp/images4 --set imagenet4
    python benchmarks/slope.py --images /tmp/images /tmp/images4 --output /dev/shm/slope

Both sets are converted in every round, interleaved as in compare.py, and each round gives a slope:
the difference in time over the difference in images. All files of the larger set must be different:
hard links or clones of a few files would be in the page cache only once, and so be cheaper to read.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
from collections.abc import Callable, Sequence

import measure
from compare import add_arguments, ratio_to, save, settings_of, table
from compare import report as report_of_set
from inputs import cool, list_images
from measure import Figures
from rounds import Job, interleave
from ways import OURS, choose

WAYS = [OURS, "cat", "cat, one process per core", "plain loop"]
HEAD = [
    "way",
    "wall µs per image, median (span)",
    "CPU µs per image",
    "wall s at no images",
    "peak MB, small and large set",
    "slope, ratio to the first",
]


def slopes(small: Job, large: Job, figure: Callable[[Figures], float]) -> list[float]:
    """Returns the seconds that one more image costs, for each round."""
    images = len(large.images.files) - len(small.images.files)
    pairs = zip(small.runs, large.runs, strict=True)
    return [(figure(more) - figure(less)) / images for less, more in pairs]


def row(small: Job, large: Job, first: Sequence[float]) -> list[str]:
    """Makes the table row of a way; `first` holds the slopes to compare with."""
    if not (small.runs and large.runs):
        failed = small.fault or large.fault
        return [small.way.name, "failed" if failed else "checked", "", "", "", ""]
    walls = slopes(small, large, lambda run: run.wall)
    cpu = statistics.median(slopes(small, large, lambda run: run.cpu))
    wall = statistics.median(walls)
    start = small.median("wall") - wall * len(small.images.files)
    return [
        small.way.name,
        f"{wall * 1e6:.1f} ({min(walls) * 1e6:.1f}-{max(walls) * 1e6:.1f})",
        f"{cpu * 1e6:.1f}",
        f"{start:.2f}",
        f"{small.memory:.0f}, {large.memory:.0f}",
        ratio_to(first, walls),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--images", required=True, nargs=2, metavar=("SMALL", "LARGE"))
    add_arguments(parser)
    arguments = parser.parse_args()
    settings = settings_of(arguments, parser)
    try:
        chosen, _ = choose(arguments.ways or WAYS, arguments.environments)
        sets = [list_images(os.path.abspath(folder)) for folder in arguments.images]
        if settings.cold:
            cool(sets[0])  # fails now if it cannot be done
    except ValueError as error:
        parser.error(str(error))
    if len(sets[0].files) >= len(sets[1].files):
        parser.error("the second set must have more images than the first")
    about = measure.describe()
    print(f"{sets[0].title}; {sets[1].title}")
    print(f"{settings}\n{measure.sentence(about)}", flush=True)
    small, large = ([Job(way, images) for way in chosen] for images in sets)

    def after(number: int) -> None:
        print(f"round {number} of {settings.rounds}", flush=True)
        save(
            arguments.json,
            {"slope": [report_of_set(jobs, settings, about) for jobs in (small, large)]},
        )

    interleave([job for pair in zip(small, large, strict=True) for job in pair], settings, after)
    compared = small[0].runs and large[0].runs
    first = slopes(small[0], large[0], lambda run: run.wall) if compared else []
    print(f"\n{table(HEAD, [row(a, b, first) for a, b in zip(small, large, strict=True)])}")
    if any(job.fault for job in [*small, *large]):
        sys.exit(1)


if __name__ == "__main__":
    main()
