"""Rows as samples: JSON kept as text, several rows of an image, rows without one."""

from __future__ import annotations

from typing import Any

from beam_pipeline.core.images.png import grey_png
from tests.conformance.outcome import Row
from tests.conformance.trees import csv, images, jsonl, paths, png

PHOTOS = images("photos/{0..5}.jpg")
NAMES = paths("{0..5}.jpg")


def turns(number: int) -> list[dict[str, Any]]:
    """A question and its answer, as LLaVA has them."""
    question = {"from": "human", "value": f"<image>\nWhat is {number}?"}
    return [question, {"from": "gpt", "value": f"é {number}"}]


TALKS = [
    {"file_name": name, "id": f"q{i}", "conversations": turns(i)} for i, name in enumerate(NAMES)
]
OF_JSONL = {**PHOTOS, "talks.jsonl": jsonl(TALKS)}
PAIRS = {
    **{f"pairs/im{side}/{i}.png": png(9 * i + side, 16, 8) for i in range(6) for side in (0, 1)},
    **{
        f"pairs/d/{i}.png": grey_png(bytes([*range(i, 256), *range(i)]), 16, 8, 16)
        for i in range(6)
    },
    **{f"pairs/notes/{i}.txt": f"note {i}" for i in range(6)},
}
BESIDE: dict[str, list[str]] = {
    "right": [f"im1/{i}.png" for i in range(6)],
    "depth": [f"d/{i}.png" for i in range(6)],
    "note": [f"notes/{i}.txt" for i in range(5)] + ["notes/9.txt"],
}
LEFT = [f"im0/{i}.png" for i in range(6)]
OF_PAIRS = {**PAIRS, "pairs.csv": csv(LEFT, label=("cat", "dog"), **BESIDE)}
VIEWS = [
    {"image": name[4:], "views": BESIDE["right"][:i], "label": "ab"[i % 2]}
    for i, name in enumerate(LEFT)
]
PAIRED = "--images pairs --labels pairs.csv --max_bad_fraction 1"

CELLS = ['{"a": 1}', '{"a": 1', "[]", "", "[1e999]", '{"b": {"a": null}}']

ROWS = {
    "nested": Row("--images photos --labels talks.jsonl", OF_JSONL),
    "json_lines": Row(
        "--images photos --labels talks.jsonl --columns conversations:json --label_column id "
        "--class_ids number --yes",
        OF_JSONL,
    ),
    "json_cells": Row(
        "--images photos --labels l.csv --columns meta:json --max_bad_fraction 1",
        {**PHOTOS, "l.csv": csv(NAMES, label=("cat", "dog"), meta=CELLS)},
    ),
    "pairs": Row(PAIRED, OF_PAIRS),
    "file_columns": Row(f"{PAIRED} --file_columns right,depth,note", OF_PAIRS, every_file=True),
    "files_resized": Row(
        f"{PAIRED} --file_columns right,depth,note:file --resize 8x4 --resize_mode exact",
        OF_PAIRS,
        stable=False,
    ),
    "files_in_lists": Row(
        "--images pairs/im0 --labels pairs/views.jsonl --columns views:file --max_bad_fraction 1",
        {**PAIRS, "pairs/views.jsonl": jsonl(VIEWS)},
    ),
}
