"""Rows as samples: JSON kept as text, several rows of an image, rows without one."""

from __future__ import annotations

from typing import Any

from tests.conformance.outcome import Row
from tests.conformance.trees import csv, images, jsonl, paths

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
}
