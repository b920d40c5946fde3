"""Class folders, tables of numbers, tags and boxes, image folders of Hugging Face, and archives."""

from __future__ import annotations

import csv
import io
import json
import os
import random
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw

from tests.archives import make_tar, make_zip
from tests.pictures import encoded, picture, with_boxes, write_files, write_pictures

# --- a folder a class, with splits above and with numbers --------------------------------------------


def make_class_folders(folder: str) -> None:
    """Writes pets/, cars/ with splits, and digits/ with classes that are called 0, 1, 2 and 10."""
    write_pictures(
        f"{folder}/pets",
        [f"{name}/{i:02d}.jpg" for name in ("bird/owl", "cat", "dog") for i in range(8)],
    )
    write_pictures(
        f"{folder}/cars",
        [
            f"{split}/{name}/{i}.png"
            for split, images in (("train", 6), ("val", 2), ("test", 2))
            for name in ("bus", "van")
            for i in range(images)
        ],
    )
    write_pictures(
        f"{folder}/digits", [f"{name}/{i}.png" for name in ("0", "1", "2", "10") for i in range(4)]
    )


# --- faces with a number each, and photographs with any number of tags -------------------------------

_FACES = 24
_TAGS = ("beach", "forest", "night", "people")
_PHOTOS = 32


def make_tables(folder: str) -> None:
    """Writes both."""
    _make_faces(folder)
    _make_photos(folder)


def _numbers() -> dict[str, str]:
    """Name of an image, without extension -> its number as the file has it."""
    rng = random.Random(7)
    names = [f"{rng.randrange(10**10):010d}_{i % 3 + 1}" for i in range(_FACES)]
    return {name: repr(1 + 9 * rng.random()) for name in names}


def _make_faces(folder: str) -> None:
    """Writes data/metadata.csv and, beside it, data/images/ with PNGs as bright as their number."""
    data = os.path.join(folder, "data")
    rows = "".join(f"{name}, {number}\n" for name, number in _numbers().items())
    write_files(data, {"metadata.csv": f"filename,label\n{rows}"})
    write_files(data, {f"images/{name}.png": _face(float(n)) for name, n in _numbers().items()})


def _face(number: float) -> bytes:
    return encoded(Image.new("RGB", (48, 48), (round(25 * number), 120, 90)))


def tags_of(number: int) -> list[str]:
    """The tags of a photograph: those whose bit is set in its number."""
    return [tag for bit, tag in enumerate(_TAGS) if number >> bit & 1]


def _make_photos(folder: str) -> None:
    """Writes photos/, and labels.csv, labels.jsonl and rows.csv, which say the same of tags."""
    names = [f"IMG_{number:04d}.jpg" for number in range(_PHOTOS)]
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


# --- drawings with boxes in a CSV, as of TensorFlow's examples ---------------------------------------

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


def make_table_boxes(folder: str) -> None:
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
    return encoded(image, "JPEG")


# --- Hugging Face's imagefolder: a class, objects, or a caption an image -----------------------------

_CPPE_SIZE = (80, 60)
_CPPE = {"train": 16, "validation": 4, "test": 4}


def _objects_of(number: int) -> Mapping[str, Sequence[Any]]:
    """Objects as COCO has them: boxes of x, y, width and height in pixels, classes from 0."""
    boxes = [[4.0 + number, 6.0, 20.0, 12.5], [40.0, 10.0, 25.0, 40.0]][: number % 3]
    return {
        "id": [100 * number + i for i in range(len(boxes))],
        "area": [box[2] * box[3] for box in boxes],
        "bbox": boxes,
        "categories": [0, 2][: len(boxes)],
    }


def make_imagefolder(folder: str) -> None:
    """Writes pets/ with metadata.csv, and cppe/ and captions/ with a metadata.jsonl a split."""
    names = [f"{i:04d}.jpg" for i in range(24)]
    write_pictures(f"{folder}/pets", names)
    rows = "".join(f"{name},{('cat', 'dog')[i % 2]},{i}\n" for i, name in enumerate(names))
    write_files(f"{folder}/pets", {"metadata.csv": f"file_name,label,age\n{rows}"})
    for split, images in _CPPE.items():
        lines: list[Mapping[str, Any]] = []
        captions: list[Mapping[str, Any]] = []
        pictures: dict[str, bytes | str] = {}
        for number in range(images):
            objects = _objects_of(number)
            pictures[f"{number:04d}.png"] = _cppe_picture(objects["bbox"])
            lines.append({"file_name": f"{number:04d}.png", "objects": objects})
            text = f"a picture with {len(objects['bbox'])} boxes"
            captions.append({"file_name": f"{number:04d}.png", "text": text})
        write_files(f"{folder}/cppe/{split}", {**pictures, "metadata.jsonl": _lines(lines)})
        write_files(f"{folder}/captions/{split}", {**pictures, "metadata.jsonl": _lines(captions)})


def _lines(rows: Sequence[Mapping[str, Any]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def _cppe_picture(boxes: Sequence[Sequence[float]]) -> bytes:
    corners = [(x, y, x + width, y + height) for x, y, width, height in boxes]
    return with_boxes(_CPPE_SIZE, (230, 230, 225), [(c, (200, 40, 40)) for c in corners], "PNG")


# --- a zip with class folders, and WebDataset's shards -----------------------------------------------

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
