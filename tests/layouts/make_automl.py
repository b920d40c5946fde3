"""CSV files as AutoML Vision imports and exports them, and a copy of the bucket they name images in."""

from __future__ import annotations

import io
from collections.abc import Sequence

from PIL import Image, ImageDraw

from tests.pictures import write_files

BUCKET = "gs://my-project-vcm"
SIZE = (64, 48)
SETS = ("TRAIN", "TRAIN", "TRAIN", "VALIDATION", "TEST", "UNASSIGNED")
FLOWERS = ("daisy", "rose", "tulip")
Corners = tuple[float, float, float, float]


def boxes_of(number: int) -> Sequence[tuple[str, Corners]]:
    """(label, box in fractions) of the objects of a street; one in six has none."""
    left = number % 6 / 10
    car = ("car", (left, 0.25, left + 0.25, 0.5))
    sign = ("street sign", (0.75, 0.125, 0.875, 0.75))
    return [(), (car,), (car, sign), (sign,), (car,), (sign, car)][number % 6]


def make(folder: str) -> None:
    """Writes my-project-vcm/, a copy of the bucket, and flowers.csv, several.csv and streets.csv."""
    flowers, several, streets = [], [], []
    pictures: dict[str, bytes | str] = {}
    for number in range(18):
        flower, split = FLOWERS[number % 3], SETS[number % 6]
        name = f"flowers/{flower}/img{number // 3:03d}.jpg"
        pictures[name] = _picture(number % 3)
        flowers.append(f"{split},{BUCKET}/{name},{flower}")
        more = [*FLOWERS, *FLOWERS][number % 3 : number % 3 + number % 4]
        several.append(",".join((split, f"{BUCKET}/{name}", *more)))
        name = f"streets/{number:04d}.png"
        pictures[name] = _picture(3, boxes_of(number))
        streets += _rows(f"{split},{BUCKET}/{name}", number)
    write_files(f"{folder}/my-project-vcm", pictures)
    for table, rows in {"flowers": flowers, "several": several, "streets": streets}.items():
        write_files(folder, {f"{table}.csv": "".join(f"{row}\r\n" for row in rows)})


def _rows(beginning: str, number: int) -> list[str]:
    """A row an object, boxes by two vertices or by four in turns; one row if there is none."""
    rows = []
    for label, (xmin, ymin, xmax, ymax) in boxes_of(number):
        two = f"{xmin},{ymin},,,{xmax},{ymax},,"
        four = f"{xmin},{ymin},{xmax},{ymin},{xmax},{ymax},{xmin},{ymax}"
        rows.append(f"{beginning},{label},{four if number % 2 else two}")
    return rows or [f"{beginning},,,,,,,,,"]


def _picture(colour: int, boxes: Sequence[tuple[str, Corners]] = ()) -> bytes:
    image = Image.new(
        "RGB", SIZE, [(240, 240, 200), (200, 30, 60), (230, 160, 40), (90, 90, 90)][colour]
    )
    draw = ImageDraw.Draw(image)
    for label, (xmin, ymin, xmax, ymax) in boxes:
        corners = (xmin * SIZE[0], ymin * SIZE[1], xmax * SIZE[0], ymax * SIZE[1])
        draw.rectangle(corners, fill=(20, 60, 200) if label == "car" else (220, 220, 20))
    out = io.BytesIO()
    image.save(out, "PNG" if boxes or colour == 3 else "JPEG")
    return out.getvalue()
