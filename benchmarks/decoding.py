"""Times decoding and resizing, by the CPU time of one image, with and without scaled decoding.

    python benchmarks/decoding.py SHARDS --side 224 --rounds 3

reads the data set in the folder SHARDS once per way and round, each in its own process, in turn. CPU
time, unlike wall time, says much the same on a machine that others use. It leaves out imports and
what comes before the first batch, or the first example. The table shows medians over the rounds and
ratios to full decoding by the same library, as the median of the rounds' own ratios.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from input_pipeline import Data, by_hand


def with_tensorflow(shards: str, side: int, make: Callable[..., Any]) -> float:
    """Returns CPU seconds an image of a tf.data pipeline."""
    batches = make(shards, side)
    for _ in batches.take(1):
        pass
    start, images = time.process_time(), 0
    for batch, _ in batches:
        images += batch.shape[0]
    return (time.process_time() - start) / images


def by_load(shards: str, side: int, **options: Any) -> Any:
    from beam_pipeline import load

    return load(shards, batch_size=32, image_size=(side, side), **options)


def written_by_hand(shards: str, side: int) -> Any:
    return by_hand(Data(shards, shards, side))


def with_pillow(shards: str, side: int, *, own: bool) -> float:
    """Returns CPU seconds an image of the readers without TensorFlow."""
    import numpy as np
    from PIL import Image

    from beam_pipeline import RandomAccess

    def decode(example: Any) -> Any:
        image = Image.open(io.BytesIO(example["image/encoded"])).convert("RGB")
        return np.array(image.resize((side, side), Image.Resampling.BILINEAR))

    if own:
        examples = RandomAccess(shards, decode=True, image_size=(side, side))
    else:
        examples = RandomAccess(shards, decode=decode)
    examples[0]
    start = time.process_time()
    for _ in examples:
        pass
    return (time.process_time() - start) / len(examples)


_LOAD, _PILLOW = "load()", "Pillow by hand"
WAYS: Mapping[str, tuple[str, Callable[[str, int], float]]] = {
    _LOAD: (_LOAD, partial(with_tensorflow, make=by_load)),
    "tf.data by hand": (_LOAD, partial(with_tensorflow, make=written_by_hand)),
    "load(antialias=True, exact=True)": (
        _LOAD,
        partial(with_tensorflow, make=partial(by_load, antialias=True, exact=True)),
    ),
    "load(antialias=True)": (
        _LOAD,
        partial(with_tensorflow, make=partial(by_load, antialias=True)),
    ),
    "load(exact=False)": (_LOAD, partial(with_tensorflow, make=partial(by_load, exact=False))),
    _PILLOW: (_PILLOW, partial(with_pillow, own=False)),
    "RandomAccess(decode=True)": (_PILLOW, partial(with_pillow, own=True)),
}
"""Way -> (the way it is compared with, how to time it)."""


def in_process_of_its_own(way: str, shards: str, side: int) -> float:
    command = [sys.executable, os.path.abspath(__file__), shards, "--side", str(side)]
    done = subprocess.run([*command, "--way", way], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{way} ended with {done.returncode}:\n{done.stderr}")
    return float(json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("shards", help="a data set of one split `train`, not compressed")
    parser.add_argument("--side", type=int, default=224, help="pixels to resize to, each way")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--way", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.way:
        print(WAYS[arguments.way][1](arguments.shards, arguments.side))
        return
    found: dict[str, list[float]] = {way: [] for way in WAYS}
    for _ in range(arguments.rounds):
        for way in WAYS:
            found[way].append(in_process_of_its_own(way, arguments.shards, arguments.side))
    print("| way | CPU ms an image, median (span) | speed, ratio |\n|---|---|---|")
    for way, (other, _) in WAYS.items():
        times = [seconds * 1000 for seconds in found[way]]
        ratio = statistics.median(b / a for a, b in zip(found[way], found[other], strict=True))
        span = f"{min(times):.2f}-{max(times):.2f}"
        print(f"| {way} | {statistics.median(times):.2f} ({span}) | {ratio:.2f} |")


if __name__ == "__main__":
    main()
