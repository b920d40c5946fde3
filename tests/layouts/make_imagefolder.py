"""Folders as Hugging Face's `imagefolder` reads them: a class, objects, or a caption an image."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from typing import Any

from PIL import Image, ImageDraw

from tests.pictures import write_files, write_pictures

SIZE = (80, 60)
SPLITS = {"train": 16, "validation": 4, "test": 4}


def objects_of(number: int) -> Mapping[str, Sequence[Any]]:
    """Objects as COCO has them: boxes of x, y, width and height in pixels, classes from 0."""
    boxes = [[4.0 + number, 6.0, 20.0, 12.5], [40.0, 10.0, 25.0, 40.0]][: number % 3]
    return {
        "id": [100 * number + i for i in range(len(boxes))],
        "area": [box[2] * box[3] for box in boxes],
        "bbox": boxes,
        "categories": [0, 2][: len(boxes)],
    }


def make(folder: str) -> None:
    """Writes pets/ with metadata.csv, and cppe/ and captions/ with a metadata.jsonl a split."""
    names = [f"{i:04d}.jpg" for i in range(24)]
    write_pictures(f"{folder}/pets", names)
    rows = "".join(f"{name},{('cat', 'dog')[i % 2]},{i}\n" for i, name in enumerate(names))
    write_files(f"{folder}/pets", {"metadata.csv": f"file_name,label,age\n{rows}"})
    for split, images in SPLITS.items():
        lines: list[Mapping[str, Any]] = []
        captions: list[Mapping[str, Any]] = []
        pictures: dict[str, bytes | str] = {}
        for number in range(images):
            objects = objects_of(number)
            pictures[f"{number:04d}.png"] = _picture(objects["bbox"])
            lines.append({"file_name": f"{number:04d}.png", "objects": objects})
            text = f"a picture with {len(objects['bbox'])} boxes"
            captions.append({"file_name": f"{number:04d}.png", "text": text})
        write_files(f"{folder}/cppe/{split}", {**pictures, "metadata.jsonl": _lines(lines)})
        write_files(f"{folder}/captions/{split}", {**pictures, "metadata.jsonl": _lines(captions)})


def _lines(rows: Sequence[Mapping[str, Any]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def _picture(boxes: Sequence[Sequence[float]]) -> bytes:
    image = Image.new("RGB", SIZE, (230, 230, 225))
    for x, y, width, height in boxes:
        ImageDraw.Draw(image).rectangle((x, y, x + width, y + height), fill=(200, 40, 40))
    out = io.BytesIO()
    image.save(out, "PNG")
    return out.getvalue()
