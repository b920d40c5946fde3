"""Data sets of any features, written by hand and without TensorFlow."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from beam_pipeline.core.records.tfrecord import crc32c_extend, frame_footer, frame_header
from beam_pipeline.core.records.wire import encode_example
from tests.pictures import write_files


def feature(kind: str, *shape: int | None, optional: bool = False, **more: Any) -> dict[str, Any]:
    """A feature as the manifest describes it."""
    return {"kind": kind, "optional": optional, "shape": list(shape), **more}


EVERY_KIND = {
    "one": {"kind": "int64", "optional": False},
    "text": feature("bytes", optional=True),
    "number": feature("float", optional=True),
    "list": feature("bytes", None),
    "two": feature("float", 2),
    "any": feature("int64", None, optional=True),
}
"""A feature of each kind and shape; `one` names no shape, which means one value."""


def framed(record: bytes) -> bytes:
    """A TFRecord."""
    return frame_header(len(record)) + record + frame_footer(crc32c_extend(0, record))


def write_by_hand(
    folder: Path,
    features: Mapping[str, Mapping[str, Any]],
    *shards: Sequence[Mapping[str, Sequence[Any]]],
    **options: Any,
) -> str:
    """Writes shards of examples, key -> values, without receipts, and returns the folder.

    Args:
      folder: a new folder.
      features: key -> what the manifest says of it.
      shards: the examples of each shard.
      options: of the manifest.
    """
    entries, contents = [], {}
    for number, examples in enumerate(shards):
        path = f"d-train.tfrecord-{number:05d}-of-{len(shards):05d}"
        contents[path] = b"".join(
            framed(encode_example({k: (features[k]["kind"], v) for k, v in example.items()}))
            for example in examples
        )
        entries.append({"path": path, "examples": len(examples), "bytes": len(contents[path])})
    manifest = {
        "format": "beam-tfrecord",
        "format_version": 1,
        "name": "d",
        "seed": 0,
        "counts": {"examples": 0},
        "dead_letters": {},
        "options": {"compression": "none", "columns": [], **options},
        "features": features,
        "classes": [],
        "splits": {"train": {"examples": 0, "bytes": 0, "shards": entries}},
    }
    write_files(str(folder), {**contents, "manifest.json": json.dumps(manifest)})
    return str(folder)
