"""Compares `convert --resize 256` with the loop that people write, in as many processes.

    python benchmarks/resize_runs.py --images /tmp/images --output /dev/shm/resize

In every round each way runs once, and its output is removed; every other round goes backwards. Figures
are medians; ratios are those of the same round.

    convert      beam-tfrecord
    loop         `peers/resize_loop.py`: Pillow, tf.train.Example and tf.io.TFRecordWriter
    bare loop    the same without TensorFlow
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys

from compare import ratio_to, table
from environments import PEERS
from measure import Figures, run

HEAD = ["way", "CPU s", "wall s", "CPU, ratio", "wall, ratio"]
LIMIT_S = 3600


def commands(images: str, output: str, shards: int, processes: int) -> dict[str, list[str]]:
    """The command lines, by way."""
    convert = [sys.executable, "-m", "beam_pipeline", "convert", "--images", images]
    convert += ["--output", output, "--num_shards", str(shards), "--resize", "256"]
    loop = [sys.executable, f"{PEERS}/resize_loop.py", images, output, str(shards), str(processes)]
    return {
        "convert": [*convert, "--name", "d", "--writers", str(processes)],
        "loop": loop,
        "bare loop": [*loop, "--bare"],
    }


def main() -> None:
    """Runs the rounds and prints a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--images", required=True)
    parser.add_argument("--output", required=True, help="folder that is created and removed")
    parser.add_argument("--shards", type=int, default=16)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    ways = commands(
        arguments.images, arguments.output, arguments.shards, processes=arguments.processes
    )
    runs: dict[str, list[Figures]] = {way: [] for way in ways}
    memory = os.sysconf("SC_PAGESIZE") * os.sysconf("SC_PHYS_PAGES")
    for number in range(arguments.rounds):
        for way in list(ways)[:: -1 if number % 2 else 1]:
            figures = run(
                ways[way], cpus=os.sched_getaffinity(0), limit_s=LIMIT_S, limit_bytes=memory
            )
            runs[way].append(figures)
            shutil.rmtree(arguments.output)
    lines = []
    for way, these in runs.items():
        lines.append([way])
        for kind in ("cpu", "wall"):
            lines[-1].append(
                f"{statistics.median(getattr(figures, kind) for figures in these):.1f}"
            )
        for kind in ("cpu", "wall"):
            first = [getattr(figures, kind) for figures in runs["convert"]]
            lines[-1].append(ratio_to(first, [getattr(figures, kind) for figures in these]))
    print(table(HEAD, lines))


if __name__ == "__main__":
    main()
