"""Drawings with boxes in a CSV, as TensorFlow's own examples of detection have them."""

from __future__ import annotations

import csv
import io
import os
import random
from collections.abc import Iterable

from PIL import Image, ImageDraw

from tests.pictures import write_files

DRAWINGS = 24
WIDTH, HEIGHT = 96, 64
HEADER = ("filename", "width", "height", "class", "xmin", "ymin", "xmax", "ymax")
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


def rows_with_lists() -> list[list[object]]:
    """The rows of a table of the same objects, whose boxes are lists: x, y, width and height."""
    return [
        [name, WIDTH, HEIGHT, label, [xmin, ymin, xmax - xmin, ymax - ymin]]
        for name, boxes in objects().items()
        for label, xmin, ymin, xmax, ymax in boxes
    ]


def make(folder: str) -> None:
    """Writes train/ with drawings, train_labels.csv, and wheat.csv with lists as boxes."""
    tables = {"train_labels.csv": [HEADER, *rows()]}
    tables["wheat.csv"] = [(*HEADER[:4], "bbox"), *rows_with_lists()]
    write_files(folder, {name: csv_text(lines) for name, lines in tables.items()})
    drawings = {name: drawing(boxes) for name, boxes in objects().items()}
    write_files(os.path.join(folder, "train"), drawings)


def csv_text(lines: Iterable[Iterable[object]]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(lines)
    return out.getvalue()


def drawing(boxes: list[tuple[str, int, int, int, int]]) -> bytes:
    image = Image.new("RGB", (WIDTH, HEIGHT), (230, 230, 220))
    draw = ImageDraw.Draw(image)
    for label, *corners in boxes:
        shape = draw.ellipse if label == "disc" else draw.rectangle
        shape(corners, fill=COLOURS[label])
    out = io.BytesIO()
    image.save(out, "JPEG")
    return out.getvalue()
