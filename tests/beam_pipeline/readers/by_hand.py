"""Data sets of any features, written by hand and without TensorFlow."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from PIL import Image

from beam_pipeline.core.records.tfrecord import crc32c_extend, frame_footer, frame_header
from beam_pipeline.core.records.wire import encode_example
from tests.pictures import picture, write_files


def feature(kind: str, *shape: int | None, optional: bool = False, **more: Any) -> dict[str, Any]:
    """A feature as the manifest describes it."""
    return {"kind": kind, "optional": optional, "shape": list(shape), **more}


SIDES = ("ymin", "xmin", "ymax", "xmax")
IMAGE = {"image/encoded": feature("bytes")}
CLASS = "image/class/label"
LABEL = {**IMAGE, CLASS: feature("int64")}
MASK = "image/segmentation/class/encoded"
SIZES = {f"image/{side}": feature("int64") for side in ("height", "width", "channels")}
OBJECTS = {
    **{f"image/object/bbox/{side}": feature("float", None) for side in SIDES},
    "image/object/class/label": feature("int64", None),
}
BOXES = [
    ([0.1, 0.2], [0.3, 0.4], [0.5, 0.6], [0.7, 0.8], [4, 2]),
    ([], [], [], [], []),
    None,
    ([0.0] * 3, [0.25] * 3, [0.5] * 3, [1.0] * 3, [1, 1, 3]),
]
"""Values of `OBJECTS` of four images: with two objects, with none, with lists left out, with three."""

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


def example_of(features: Mapping[str, Any], values: Mapping[str, Any]) -> bytes:
    """A serialized example of these values."""
    return encode_example(
        {
            key: (features[key]["kind"], value if isinstance(value, list) else [value])
            for key, value in values.items()
        }
    )


def jpeg(width: int, height: int) -> bytes:
    """Waves, so that every way of scaling gives other pixels."""
    y, x = np.mgrid[:height, :width]
    bands = [np.sin(x / 3) * np.cos(y / 5), np.sin((x + y) / 4), np.cos(x * y / 900)]
    pixels = (np.stack(bands, axis=-1) * 127 + 128).astype(np.uint8)
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "JPEG", quality=90)
    return out.getvalue()


def pictures(values: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Examples of these values, each with an image of its own."""
    return [{"image/encoded": picture(i), **features} for i, features in enumerate(values)]


def bare(*images: Any) -> list[dict[str, Any]]:
    """Examples of arrays as bare pixels, each with its number as class."""
    return [
        {"image/encoded": image.tobytes(), **dict(zip(SIZES, image.shape, strict=True)), CLASS: i}
        for i, image in enumerate(images)
    ]


def detection_set(folder: Path) -> str:
    """A data set of the four images of `BOXES`."""
    objects = [dict(zip(OBJECTS, lists or (), strict=False)) for lists in BOXES]
    return write_by_hand(folder, {**IMAGE, **OBJECTS}, pictures(objects))


def write_by_hand(
    folder: Path,
    features: Mapping[str, Mapping[str, Any]],
    /,
    *shards: Sequence[Mapping[str, Any]],
    classes: Mapping[int, str] = MappingProxyType({}),
    split: str = "train",
    **options: Any,
) -> str:
    """Writes shards of examples, key -> values, without receipts, and returns the folder.

    Args:
      folder: a new folder.
      features: key -> what the manifest lists of it.
      shards: the examples of each shard; a feature's values are a list, or one value.
      classes: id -> name.
      split: the only one.
      options: of the manifest.
    """
    entries, contents = [], {}
    for number, examples in enumerate(shards):
        path = f"d-{split}.tfrecord-{number:05d}-of-{len(shards):05d}"
        contents[path] = b"".join(framed(example_of(features, example)) for example in examples)
        entries.append({"path": path, "examples": len(examples), "bytes": len(contents[path])})
    size = sum(map(len, contents.values()))
    manifest = {
        "name": "d",
        "format": "beam-tfrecord",
        "format_version": 1,
        "seed": 0,
        "counts": {"examples": 0},
        "dead_letters": {},
        "options": {"compression": "none", "columns": [], **options},
        "features": features,
        "classes": [{"id": i, "name": name} for i, name in classes.items()],
        "splits": {split: {"examples": 0, "bytes": size, "shards": entries}},
    }
    write_files(str(folder), {**contents, "manifest.json": json.dumps(manifest)})
    return str(folder)
