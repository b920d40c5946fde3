"""Images with a caption beside each: a folder for a trainer of text-to-image models, and img2dataset's output."""

from __future__ import annotations

import json

import pyarrow as pa
from pyarrow import parquet

from tests.pictures import picture, write_files

DOGS = {
    **{f"10_dog/{i:04d}.png": f"a photo of sks dog {i}, on grass" for i in range(12)},
    **{f"1_reg/{i:04d}.png": f"a photo of a dog {i}" for i in range(4)},
}
"""Path of an image -> its caption."""

LAION = {f"{i // 8:05d}/{i:09d}.jpg": f"Picture number {i} – for sale" for i in range(16)}


def make(folder: str) -> None:
    """Writes dogs/ and laion/, which holds JSON objects, statistics and Parquet files as well."""
    write_files(f"{folder}/dogs", with_captions(DOGS))
    write_files(f"{folder}/laion", with_captions(LAION))
    for shard in ("00000", "00001"):
        rows = [fields_of(key) for key in LAION if key.startswith(shard)]
        objects = {f"{shard}/{row['key']}.json": json.dumps(row, indent=4) for row in rows}
        statistics = {f"{shard}_stats.json": json.dumps({"count": 8, "successes": 8})}
        write_files(f"{folder}/laion", {**objects, **statistics})
        parquet.write_table(pa.Table.from_pylist(rows), f"{folder}/laion/{shard}.parquet")


def with_captions(captions: dict[str, str], ending: str = ".txt") -> dict[str, bytes | str]:
    """The files of images and of the captions beside them."""
    files: dict[str, bytes | str] = {}
    for i, (name, text) in enumerate(captions.items()):
        kind = "PNG" if name.endswith(".png") else "JPEG"
        files[name] = picture(i, file_format=kind, size=(32, 32))
        files[f"{name[:-4]}{ending}"] = f"{text}\n"
    return files


def fields_of(key: str) -> dict[str, str | int | None]:
    """The object that img2dataset writes beside an image."""
    name = key[6:-4]
    return {
        "caption": LAION[key],
        "url": f"https://example.com/{name}.jpg",
        "key": name,
        "status": "success",
        "error_message": None,
        "width": 32,
        "height": 32,
        "original_width": 640,
        "original_height": 480 + int(name),
        "exif": "{}",
        "sha256": f"{int(name):064x}",
    }
