"""Parquet files as Hugging Face has them: an image, its class and its caption a row."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyarrow import parquet

from tests.pictures import picture

CLASSES = ("cat", "dog")
FEATURES = {
    "image": {"_type": "Image"},
    "label": {"names": list(CLASSES), "_type": "ClassLabel"},
    "caption": {"dtype": "string", "_type": "Value"},
}
IMAGE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])


def make_parquet(folder: str) -> None:
    """Writes hf/data/ with two files of train and one of test, and plain.parquet without a description."""
    number = 0
    for name, count in (
        ("train-00000-of-00002", 8),
        ("train-00001-of-00002", 8),
        ("test-00000-of-00001", 4),
    ):
        rows = pets(range(number, number + count))
        write_parquet(f"{folder}/hf/data/{name}.parquet", rows, FEATURES, row_group_size=3)
        number += count
    plain = [{"jpg": picture(i, size=(32, 32)), "age": i / 4, "name": f"pet {i}"} for i in range(8)]
    write_parquet(f"{folder}/plain.parquet", plain)


def pets(numbers: Sequence[int]) -> list[dict[str, Any]]:
    """A row for each number: images alternate between the classes, and every other has a name."""
    return [
        {
            "image": image_of(picture(i, size=(32, 32)), None if i % 2 else f"pet{i}.jpg"),
            "label": i % 2,
            "caption": f"a {CLASSES[i % 2]} in the garden",
        }
        for i in numbers
    ]


def image_of(data: bytes | None, path: str | None = None) -> dict[str, Any]:
    """A value of a column of images."""
    return {"bytes": data, "path": path}


def write_parquet(
    path: str,
    rows: Sequence[Mapping[str, Any]],
    features: Mapping[str, Any] | None = None,
    types: Mapping[str, pa.DataType] | None = None,
    **settings: Any,
) -> None:
    """Writes rows, described as Hugging Face does if `features` are given.

    Args:
      path: the file; its folder is made.
      rows: column -> value, of each row.
      features: column -> its description.
      types: column -> its type, where it is not told from the values.
      settings: those of pyarrow's `write_table`.
    """
    known = {**dict.fromkeys(_images(features or {}), IMAGE), **(types or {})}
    columns = {
        name: pa.array([row.get(name) for row in rows], known.get(name))
        for name in dict.fromkeys((*known, *(name for row in rows for name in row)))
    }
    table = pa.table(columns)
    if features is not None:
        described = json.dumps({"info": {"features": features}})
        table = table.replace_schema_metadata({"huggingface": described})
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    parquet.write_table(table, path, **settings)


def _images(features: Mapping[str, Any]) -> list[str]:
    return [name for name, described in features.items() if described == {"_type": "Image"}]
