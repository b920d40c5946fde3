"""The tables of docs/datasets/tables.md: faces with a number each, and photographs with any number of tags.

The faces' `metadata.csv` has a space after its comma and names without extension. The photographs have a CSV
with `;` in its cells, JSON Lines, and a CSV with a row for each tag.
"""

from __future__ import annotations

import io
import json
import os
import random

from PIL import Image

from tests.pictures import write_files, write_pictures

FACES = 24
TAGS = ("beach", "forest", "night", "people")
PHOTOS = 32


def make(folder: str) -> None:
    """Writes both."""
    _make_faces(folder)
    _make_photos(folder)


def numbers() -> dict[str, str]:
    """Name of an image, without extension -> its number as the file has it."""
    rng = random.Random(7)
    names = [f"{rng.randrange(10**10):010d}_{i % 3 + 1}" for i in range(FACES)]
    return {name: repr(1 + 9 * rng.random()) for name in names}


def _make_faces(folder: str) -> None:
    """Writes data/metadata.csv and, beside it, data/images/ with PNGs as bright as their number."""
    data = os.path.join(folder, "data")
    rows = "".join(f"{name}, {number}\n" for name, number in numbers().items())
    write_files(data, {"metadata.csv": f"filename,label\n{rows}"})
    write_files(data, {f"images/{name}.png": _face(float(n)) for name, n in numbers().items()})


def _face(number: float) -> bytes:
    out = io.BytesIO()
    Image.new("RGB", (48, 48), (round(25 * number), 120, 90)).save(out, "PNG")
    return out.getvalue()


def tags_of(number: int) -> list[str]:
    """The tags of a photograph: those whose bit is set in its number."""
    return [tag for bit, tag in enumerate(TAGS) if number >> bit & 1]


def _make_photos(folder: str) -> None:
    """Writes photos/, and labels.csv, labels.jsonl and rows.csv, which say the same of tags."""
    names = [f"IMG_{number:04d}.jpg" for number in range(PHOTOS)]
    write_pictures(f"{folder}/photos", names)
    csv_rows, json_rows = ["filename,tags,people,rating"], []
    tag_rows = ["filename,tag"]
    for number, name in enumerate(names):
        tags, ages = tags_of(number % 16), [20 + number, 30][: number % 3]
        rating = number % 5 + 0.5
        tag_rows += [f"{name},{tag}" for tag in tags or [""]]
        csv_rows.append(f"{name},{'; '.join(tags)},{' '.join(map(str, ages))},{rating}")
        row = {"file_name": name, "tags": tags, "people": ages, "rating": rating}
        json_rows.append(json.dumps(row))
    write_files(
        folder,
        {
            "labels.csv": "\n".join(csv_rows) + "\n",
            "rows.csv": "\n".join(tag_rows) + "\n",
            "labels.jsonl": "\n".join(json_rows) + "\n",
        },
    )
