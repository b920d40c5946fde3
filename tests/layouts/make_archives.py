"""Class folders, tables of numbers, tags and boxes, image folders of Hugging Face, and archives."""

from __future__ import annotations

import json
import random
import zipfile
from pathlib import Path

from tests.archives import make_tar, make_zip
from tests.pictures import picture

DRAWINGS = 24
WIDTH, HEIGHT = 96, 64
COLOURS = {"disc": (200, 40, 40), "square": (40, 60, 200)}


def objects() -> dict[str, list[tuple[str, int, int, int, int]]]:
    """Name of an image -> its objects: class, xmin, ymin, xmax, ymax; the last image has none."""
    rng = random.Random(3)
    found = {}
    for number in range(DRAWINGS):
        boxes = []
        for _ in range(number % 3 + 1):
            side = rng.randrange(12, 24)
            x, y = rng.randrange(WIDTH - side), rng.randrange(HEIGHT - side)
            boxes.append((rng.choice(sorted(COLOURS)), x, y, x + side, y + side))
        found[f"{number:03d}.jpg"] = boxes
    found[f"{DRAWINGS:03d}.jpg"] = []
    return found


def rows() -> list[list[object]]:
    """The rows of the table, a row an object; an image without objects has a row, too."""
    lines: list[list[object]] = []
    for name, boxes in objects().items():
        for label, *corners in boxes:
            lines.append([name, WIDTH, HEIGHT, label, *corners])
        if not boxes:
            lines.append([name, WIDTH, HEIGHT, "", "", "", "", ""])
    return lines


_PETS = ("cat", "dog")


def make_archives(folder: str) -> None:
    """Writes photos.zip, with a folder photos/ in it, labels.csv, and pets-{train,val}-{000..001}.tar."""
    root = Path(folder)
    names = [f"{name}/{i}.jpg" for name in _PETS for i in range(8)]
    photos = {name: picture(i, size=(32, 32)) for i, name in enumerate(names)}
    make_zip(
        root / "photos.zip",
        {f"photos/{name}": content for name, content in photos.items()},
        zipfile.ZIP_DEFLATED,
    )
    rows = "".join(f"{name},{i / 4}\n" for i, name in enumerate(names))
    (root / "labels.csv").write_text(f"filename,age\n{rows}")
    for split, shards in (("train", 2), ("val", 1)):
        for shard in range(shards):
            make_tar(root / f"pets-{split}-{shard:03d}.tar", dict(_samples(split, shard)))


def _samples(split: str, shard: int) -> list[tuple[str, bytes]]:
    """The files of eight _samples: image, class, caption and columns."""
    files = []
    for i in range(8):
        base, number = f"{split}{shard}{i:04d}", 8 * shard + i
        fields = {"width": 32, "score": number / 8, "source": {"camera": 1}}
        files += [
            (f"{base}.jpg", picture(number, size=(32, 32))),
            (f"{base}.cls", str(number % 2).encode()),
            (f"{base}.txt", f"a {_PETS[number % 2]} in the garden".encode()),
            (f"{base}.json", json.dumps(fields).encode()),
        ]
    return files
