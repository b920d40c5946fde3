"""Measures `--format`: time and size of each container beside TFRecord.

    python benchmarks/make_images.py /tmp/images --set imagenet
    python benchmarks/containers.py --images /tmp/images --output /dev/shm/containers

In every round each format is written once, in turn, and removed. An ArrayRecord shard passes through a
temporary file, which lies beside the output here. Figures are medians; ratios are those of the same round.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics

from compare import ratio_to, table
from reuse import Run, convert

FORMATS = ("tfrecord", "array_record", "webdataset")
HEAD = ["format", "CPU s", "CPU, ratio", "wall, ratio", "bytes, ratio"]


def size_of(folder: str) -> int:
    """Returns the bytes of the files in a folder, shards and all."""
    return sum(entry.stat().st_size for entry in os.scandir(folder) if entry.is_file())


def main() -> None:
    """Runs the rounds and prints a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--images", required=True)
    parser.add_argument("--output", required=True, help="folder that is created and removed")
    parser.add_argument("--shards", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    runs: dict[str, list[Run]] = {name: [] for name in FORMATS}
    sizes: dict[str, int] = {}
    temporary = f"{arguments.output}.tmp"
    os.mkdir(temporary)
    os.environ["TMPDIR"] = temporary
    try:
        for number in range(arguments.rounds + 1):
            for name in FORMATS:
                options = ("--format", name, "--yes")
                run = convert(arguments.images, arguments.output, arguments.shards, *options)
                sizes[name] = size_of(arguments.output)
                shutil.rmtree(arguments.output)
                if number:  # the first round warms the page cache
                    runs[name].append(run)
    finally:
        shutil.rmtree(temporary)
    first = runs[FORMATS[0]]
    lines = []
    for name, these in runs.items():
        ratios = [
            ratio_to([getattr(run, kind) for run in first], [getattr(run, kind) for run in these])
            for kind in ("cpu", "wall")
        ]
        size = f"{sizes[name] / sizes[FORMATS[0]]:.4f}"
        lines.append([name, f"{statistics.median(run.cpu for run in these):.2f}", *ratios, size])
    print(table(HEAD, lines))


if __name__ == "__main__":
    main()
