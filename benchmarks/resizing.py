"""Compares ways to scale images to a shortest side of 256: time and quality, side by side.

    python benchmarks/make_images.py /tmp/images --set imagenet
    python benchmarks/environments.py --into /tmp/bench-envs img2dataset
    python benchmarks/resizing.py --images /tmp/images --environments /tmp/bench-envs

Each way scales the same images, in a process of its own, with one thread; the ways take turns. Times
are of CPU in a second pass, without start-up and reading. Quality is the PSNR against a reference: all
pixels decoded, scaled with Lanczos and stored without loss. Images of 12 megapixels are mosaics of the
given ones.

    default      the converter's own code
    opencv       the same with --image_codec opencv, where OpenCV is installed
    pillow       the loop that people write: open, draft, resize, save
    img2dataset  its Resizer (OpenCV), from the peer's environment
"""

from __future__ import annotations

import argparse
import importlib.util
import io
import json
import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

SIDE = 256
QUALITY = 90
LARGE = (4000, 3000)
Scale = Callable[[bytes], bytes]


def default(image_codec: str = "pillow") -> Scale:
    """The converter's."""
    from beam_pipeline.core.images.changes import ImageChanges
    from beam_pipeline.core.images.preparation import read_header
    from beam_pipeline.core.records.alteration import Alteration

    changes = ImageChanges(
        resize=(SIDE, SIDE), quality=QUALITY, reencode="auto", image_codec=image_codec
    )
    alteration = Alteration(changes)

    def scale(data: bytes) -> bytes:
        return alteration.alter(data, read_header(data)).image

    return scale


def opencv() -> Scale:
    """The converter's, with OpenCV."""
    return default("opencv")


def pillow() -> Scale:
    """A loop with Pillow at the same settings."""
    from PIL import Image

    def scale(data: bytes) -> bytes:
        image = Image.open(io.BytesIO(data))
        factor = SIDE / min(image.size)
        size = (round(image.width * factor), round(image.height * factor))
        image.draft("RGB", (2 * size[0], 2 * size[1]))
        out = io.BytesIO()
        image.convert("RGB").resize(size, Image.Resampling.LANCZOS, reducing_gap=3.0).save(
            out, "JPEG", quality=QUALITY, subsampling=0
        )
        return out.getvalue()

    return scale


def img2dataset() -> Scale:
    """The peer's, with its default of a quality of 95, where colour is stored at half the resolution."""
    from img2dataset.resizer import Resizer

    resizer = Resizer(SIDE, "keep_ratio", True)

    def scale(data: bytes) -> bytes:
        written, *_, error = resizer(io.BytesIO(data))
        assert not error, error
        return bytes(written)

    return scale


WAYS: dict[str, Callable[[], Scale]] = {
    "default": default,
    "opencv": opencv,
    "pillow": pillow,
    "img2dataset": img2dataset,
}


def mosaics(paths: Sequence[str], count: int, folder: str) -> list[str]:
    """Writes JPEGs of 12 megapixels, put together of the images."""
    from PIL import Image

    os.makedirs(folder, exist_ok=True)
    written = []
    for number in range(count):
        path = os.path.join(folder, f"{number}.jpg")
        written.append(path)
        if os.path.exists(path):
            continue
        canvas = Image.new("RGB", LARGE)
        for tile in range(16):
            source = Image.open(paths[(16 * number + tile) % len(paths)]).convert("RGB")
            part = source.resize((LARGE[0] // 4, LARGE[1] // 4), Image.Resampling.BICUBIC)
            canvas.paste(part, (tile % 4 * part.width, tile // 4 * part.height))
        canvas.save(path, quality=90)
    return written


def run_way(way: str, paths: Sequence[str], into: str) -> float:
    """Scales the images in this process; returns CPU seconds an image, and writes them on request."""
    scale = WAYS[way]()
    images = []
    for path in paths:
        with open(path, "rb") as file:
            images.append(file.read())
    for data in images:
        scale(data)
    started = time.process_time()
    scaled = [scale(data) for data in images]
    seconds = (time.process_time() - started) / len(images)
    if into:
        os.makedirs(into, exist_ok=True)
        for number, data in enumerate(scaled):
            with open(os.path.join(into, f"{number}.jpg"), "wb") as file:
                file.write(data)
    return seconds


def quality(paths: Sequence[str], folder: str) -> tuple[float, float]:
    """(median PSNR in dB, mean bytes) of scaled images."""
    import numpy as np
    from PIL import Image

    found, sizes = [], []
    for number, path in enumerate(paths):
        scaled_path = os.path.join(folder, f"{number}.jpg")
        with Image.open(scaled_path) as scaled, Image.open(path) as original:
            reference = original.convert("RGB").resize(scaled.size, Image.Resampling.LANCZOS)
            difference = np.asarray(scaled.convert("RGB"), float) - np.asarray(reference, float)
        error = float((difference**2).mean())
        found.append(10 * math.log10(255**2 / error) if error else 99.0)
        sizes.append(os.path.getsize(scaled_path))
    return statistics.median(found), statistics.mean(sizes)


def main() -> None:
    """Runs all ways in turns and prints a table for each size of images."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", required=True)
    parser.add_argument("--environments", default="")
    parser.add_argument("--work", default="/tmp/bench-resizing")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--large", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--way", default="", help=argparse.SUPPRESS)
    parser.add_argument("--into", default="", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.way:
        print(run_way(arguments.way, json.load(sys.stdin), arguments.into))
        return
    small = sorted(
        os.path.join(parent, name)
        for parent, _, names in os.walk(arguments.images)
        for name in names
    )[:: max(1, _count(arguments.images) // arguments.count)][: arguments.count]
    large = mosaics(small, arguments.large, os.path.join(arguments.work, "large"))
    for title, paths in (("images as they are", small), ("12 megapixels", large)):
        _compare(title, paths, arguments)


def _count(folder: str) -> int:
    return sum(len(names) for _, _, names in os.walk(folder))


def _compare(title: str, paths: Sequence[str], arguments: Any) -> None:
    interpreters = dict.fromkeys(WAYS, sys.executable)
    if arguments.environments:
        from environments import interpreter

        interpreters["img2dataset"] = interpreter(arguments.environments, "img2dataset") or ""
    else:
        interpreters["img2dataset"] = ""
    if not importlib.util.find_spec("cv2"):
        interpreters["opencv"] = ""
    ways = [way for way, python in interpreters.items() if python]
    times: dict[str, list[float]] = {way: [] for way in ways}
    for number in range(arguments.rounds):
        for way in ways:
            command = [interpreters[way], os.path.abspath(__file__), "--images", arguments.images]
            command += ["--way", way]
            if not number:
                command += ["--into", os.path.join(arguments.work, way)]
            done = subprocess.run(
                command, input=json.dumps(paths), capture_output=True, text=True, check=False
            )
            if done.returncode:
                sys.exit(f"{way}: {done.stderr}")
            times[way].append(float(done.stdout))
        last = ways[-1]
    print(f"\n{title}: {len(paths)} images, {arguments.rounds} rounds\n")
    print(
        f"| way | ms of CPU an image | speed, {last} is 1 | PSNR | bytes |\n|---|---|---|---|---|"
    )
    for way in ways:
        ratios = [b / a for a, b in zip(times[way], times[last], strict=True)]
        decibel, size = quality(paths, os.path.join(arguments.work, way))
        print(
            f"| {way} | {1000 * statistics.median(times[way]):.2f} | "
            f"{statistics.median(ratios):.2f} | {decibel:.1f} dB | {size:,.0f} |"
        )


if __name__ == "__main__":
    main()
