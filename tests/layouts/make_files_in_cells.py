"""Captions in tables and in files, conversations, and rows whose cells name files."""

from __future__ import annotations

import json

from tests.layouts.make_segmentation import SIZE, grey, scene
from tests.pictures import encoded, write_files

_VIEWS = 8


def make_files_in_cells(folder: str) -> None:
    """Writes stereo/ and chats/."""
    width, height = SIZE
    files: dict[str, bytes | str] = {}
    rows, talks = ["image,right,depth"], []
    for i in range(_VIEWS):
        name = f"{i:06d}.png"
        depth = grey([[100 * x + i for x in range(width)] for _ in range(height)], 16)
        files |= {
            f"stereo/image_2/{name}": encoded(scene(i)[0]),
            f"stereo/image_3/{name}": encoded(scene(i + 1)[0]),
            f"stereo/depth/{name}": depth,
            f"chats/{name}": encoded(scene(i)[0]),
        }
        rows.append(f"{name},image_3/{name},depth/{name}")
        views = [f"views/{j:06d}.png" for j in range(i % 3)]
        turns = [
            {"from": "human", "value": "<image>\nWhat is it?"},
            {"from": "gpt", "value": "A disc."},
        ]
        talks.append({"image": name, "views": views, "conversations": turns})
    files |= {f"chats/views/{j:06d}.png": encoded(scene(j)[0]) for j in range(2)}
    files["stereo/pairs.csv"] = "".join(f"{row}\n" for row in rows)
    files["chats/talks.jsonl"] = "".join(f"{json.dumps(talk)}\n" for talk in talks)
    write_files(folder, files)
