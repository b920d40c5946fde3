"""Photographs with any number of tags each, as a CSV with `;` in its cells and as JSON Lines."""

from __future__ import annotations

import json

from tests.pictures import write_files, write_pictures

TAGS = ("beach", "forest", "night", "people")
PHOTOS = 32


def tags_of(number: int) -> list[str]:
    """The tags of a photograph: those whose bit is set in its number."""
    return [tag for bit, tag in enumerate(TAGS) if number >> bit & 1]


def make(folder: str) -> None:
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
