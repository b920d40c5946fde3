"""Makes class folders of images of a given size.

    python benchmarks/make_images.py DIR COUNT KB
    python benchmarks/make_images.py DIR --set small

Every file decodes, and no two are equal: noise is scaled up until it has the requested size in bytes
and encoded a few dozen times; each file is one of these images with its own number in a comment. The
files are in ten class folders. It makes about ten thousand files per second.
"""

from __future__ import annotations

import argparse
import io
import os
import random
import struct
import zlib
from collections.abc import Callable, Sequence

from PIL import Image

CLASSES = 10
VARIANTS = 40


def jpeg_of(size: int, rng: random.Random, megapixels: float = 0) -> bytes:
    """Makes a JPEG of about this many bytes; with a number of pixels, its noise is as coarse as that takes."""
    side = round((megapixels * 1e6) ** 0.5)
    grain = max(4, int((size / 0.45) ** 0.5 / 2))
    while True:
        noise = Image.frombytes("RGB", (grain, grain), rng.randbytes(3 * grain**2))
        out = io.BytesIO()
        width = side or 2 * grain
        noise.resize((width, width), Image.Resampling.BILINEAR).save(out, "JPEG", quality=85)
        if abs(out.tell() - size) < size * 0.1 or grain <= 4:
            return out.getvalue()
        grain = max(4, int(grain * (size / out.tell()) ** 0.5))


def png_of(side: int, rng: random.Random) -> bytes:
    """Makes a square PNG whose neighbouring pixels are alike: with 32 x 32 it has 2.4 kB, like CIFAR's."""
    grain = side // rng.choice([3, 4, 5])
    noise = Image.frombytes("RGB", (grain, grain), rng.randbytes(3 * grain**2))
    out = io.BytesIO()
    noise.resize((side, side), Image.Resampling.BICUBIC).save(out, "PNG")
    return out.getvalue()


def numbered_jpeg(jpeg: bytes, number: int) -> bytes:
    """Adds a number to the JPEG, in a comment segment after its first marker."""
    comment = f"image {number}".encode()
    return jpeg[:2] + b"\xff\xfe" + struct.pack(">H", len(comment) + 2) + comment + jpeg[2:]


def numbered_png(png: bytes, number: int) -> bytes:
    """Adds a number to the PNG, in a text chunk after its header chunk."""
    header_end = 8 + 4 + 4 + 13 + 4
    chunk = b"tEXtComment\0" + f"image {number}".encode()
    framed = struct.pack(">I", len(chunk) - 4) + chunk + struct.pack(">I", zlib.crc32(chunk))
    return png[:header_end] + framed + png[header_end:]


def write_images(
    folder: str,
    count: int,
    variants: Sequence[bytes],
    numbered: Callable[[bytes, int], bytes],
    extension: str,
) -> None:
    """Writes count files, each one of the variants with its own number."""
    for number in range(CLASSES):
        os.makedirs(os.path.join(folder, f"class_{number}"), exist_ok=True)
    for number in range(count):
        name = f"class_{number % CLASSES}/image_{number:07d}.{extension}"
        with open(os.path.join(folder, name), "wb") as file:
            file.write(numbered(variants[number % len(variants)], number))


def make_images(folder: str, count: int, kilobytes: float, megapixels: float = 0) -> None:
    """Writes count JPEGs with sizes spread by half around the mean, as in real sets."""
    rng = random.Random(count)
    mean = kilobytes * 1000
    variants = [
        jpeg_of(int(mean * (0.5 + i / (VARIANTS - 1))), rng, megapixels) for i in range(VARIANTS)
    ]
    write_images(
        folder=folder, count=count, variants=variants, numbered=numbered_jpeg, extension="jpg"
    )


def make_small_images(folder: str, count: int) -> None:
    """Writes count PNGs of 32x32 pixels, like CIFAR's."""
    rng = random.Random(count)
    variants = [png_of(32, rng) for _ in range(VARIANTS)]
    write_images(
        folder=folder, count=count, variants=variants, numbered=numbered_png, extension="png"
    )


SETS: dict[str, Callable[[str], None]] = {
    "small": lambda folder: make_small_images(folder, 60_000),
    "imagenet": lambda folder: make_images(folder, 10_000, 110),
    "imagenet4": lambda folder: make_images(folder, 40_000, 110),
    "large": lambda folder: make_images(folder, 500, 5000),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder")
    parser.add_argument("count", type=int, nargs="?", help="number of JPEGs")
    parser.add_argument("kilobytes", type=float, nargs="?", help="mean size of a JPEG")
    parser.add_argument("--set", choices=list(SETS), help="one of the sets in README.md")
    arguments = parser.parse_args()
    if (arguments.set is None) == (arguments.kilobytes is None):
        parser.error("give COUNT and KB, or --set")
    if arguments.set:
        SETS[arguments.set](arguments.folder)
    else:
        make_images(arguments.folder, arguments.count, arguments.kilobytes)


if __name__ == "__main__":
    main()
