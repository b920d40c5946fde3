"""Small data sets with the files of the real ones: texts as they are published, in exports/, and pictures of the same sizes."""

from __future__ import annotations

import json
from pathlib import Path

from PIL import Image
from pyarrow import Table, parquet

from tests import pictures
from tests.conformance import trees

EXPORTS = Path(__file__).with_name("exports")
_PICTURES = "pictures.txt"


def exported(name: str) -> dict[str, bytes]:
    """The texts of a data set, by their paths in its folder."""
    files = (path for path in sorted((EXPORTS / name).rglob("*")) if path.is_file())
    return {
        str(path.relative_to(EXPORTS / name)): path.read_bytes()
        for path in files
        if path.name != _PICTURES
    }


def make(name: str, folder: str) -> None:
    """Writes a data set; each line of its pictures.txt is a pattern and the size of the pictures that it stands for."""
    pictures.write_files(folder, exported(name))
    number = 0
    for line in (EXPORTS / name / _PICTURES).read_text().splitlines():
        pattern, _, size = line.rpartition(" ")
        width, height = map(int, size.split("x"))
        for path in trees.paths(pattern):
            kind = {"png": "PNG", "ppm": "PPM"}.get(path[-3:], "JPEG")
            data = pictures.picture(number % 256, file_format=kind, size=(width, height))
            pictures.write_files(folder, {path: data})
            number += 1


def make_coco(folder: str) -> None:
    """Writes sets of COCO 2017, Roboflow, iNaturalist and camera traps, and the masks of the panoptic one."""
    make("coco", folder)
    for number in range(4):
        mask = Image.new("RGB", (20, 10), (9, 0, 0))
        mask.paste((112, 17, 1), (number, 2, 8, 8))  # 112 + 256 * 17 + 65536 = 70000
        path = f"panoptic/annotations/panoptic_train2017/{number:012d}.png"
        pictures.write_files(folder, {path: pictures.encoded(mask)})


def make_caption_files(folder: str) -> None:
    """Writes dogs/ for a trainer, and laion/ as img2dataset does, with Parquet files of the same fields."""
    make("caption_files", folder)
    for shard in ("00000", "00001"):
        rows = [
            json.loads(p.read_text()) for p in sorted(Path(folder, "laion", shard).glob("*.json"))
        ]
        parquet.write_table(Table.from_pylist(rows), f"{folder}/laion/{shard}.parquet")
