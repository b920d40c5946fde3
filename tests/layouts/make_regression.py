"""Faces with a number each: a `metadata.csv` with a space behind its comma, names without extension."""

from __future__ import annotations

import io
import os
import random

from PIL import Image

from tests.pictures import write_files

FACES = 24


def numbers() -> dict[str, str]:
    """Name of an image, without extension -> its number as the file has it."""
    rng = random.Random(7)
    names = [f"{rng.randrange(10**10):010d}_{i % 3 + 1}" for i in range(FACES)]
    return {name: repr(1 + 9 * rng.random()) for name in names}


def make(folder: str) -> None:
    """Writes data/metadata.csv and, beside it, data/images/ with PNGs as bright as their number."""
    data = os.path.join(folder, "data")
    rows = "".join(f"{name}, {number}\n" for name, number in numbers().items())
    write_files(data, {"metadata.csv": f"filename,label\n{rows}"})
    write_files(data, {f"images/{name}.png": _face(float(n)) for name, n in numbers().items()})


def _face(number: float) -> bytes:
    out = io.BytesIO()
    Image.new("RGB", (48, 48), (round(25 * number), 120, 90)).save(out, "PNG")
    return out.getvalue()
