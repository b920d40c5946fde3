"""`schema.pbtxt`: the features of an example for TensorFlow Data Validation, Transform and TFX.

It is written as text, from the manifest, and needs no package of theirs:

    feature {
      name: "image/class/label"
      type: INT
      presence { min_fraction: 1 }
      shape { }
      int_domain { min: 0 max: 2 is_categorical: true }
    }

People complete a schema by hand, so it has a seal, and a changed one is never replaced. Source:
tensorflow_metadata/proto/v0/schema.proto.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from beam_pipeline.core.card.seal import PLACEHOLDER, sealed
from beam_pipeline.core.images.pixels import RAW_FORMAT
from beam_pipeline.core.labels.classes import quoted
from beam_pipeline.core.labels.schema import ENCODED_KEY
from beam_pipeline.core.records.formats import recorded_format

SCHEMA_NAME = "schema.pbtxt"

_HEAD = f"""\
# proto-message: tensorflow.metadata.v0.Schema
# {PLACEHOLDER}
"""
_TYPES = {"int64": "INT", "float": "FLOAT", "bytes": "BYTES"}
_CLASSES = ("image/class", "image/object/class")
_IDS = tuple(f"{key}/label" for key in _CLASSES)
_NAMES = tuple(f"{key}/text" for key in _CLASSES)


def schema_files(manifest: Mapping[str, Any]) -> dict[str, bytes]:
    """The schema of a data set, file name -> content; none where records are no `tf.train.Example`s.

    Args:
      manifest: of a complete data set.
    """
    if not recorded_format(manifest["options"]).of_examples:
        return {}
    features = (
        "".join(("feature {\n", *(f"  {line}\n" for line in _lines(key, manifest)), "}\n"))
        for key in sorted(manifest["features"])
    )
    return {SCHEMA_NAME: sealed("".join((_HEAD, *features)).encode())}


def _lines(key: str, manifest: Mapping[str, Any]) -> Iterator[str]:
    """The fields of a feature."""
    feature = manifest["features"][key]
    yield f"name: {quoted(key)}"
    yield f"type: {_TYPES[feature['kind']]}"
    shape = feature.get("shape", [])
    if not feature["optional"]:
        yield "presence { min_fraction: 1 }"
    if None in shape:
        yield "value_count { min: 0 }"
    elif feature["optional"]:  # one with a shape is in every example
        count = math.prod(shape)
        yield f"value_count {{ min: {count} max: {count} }}"
    else:
        yield " ".join(("shape {", *(f"dim {{ size: {size} }}" for size in shape), "}"))
    yield from _domain(key, manifest)


def _domain(key: str, manifest: Mapping[str, Any]) -> Iterator[str]:
    """The values of a class, or that they are images, whose statistics are not those of texts."""
    renames = manifest["options"].get("features") or {}
    standard, kind = renames.get(key, key), manifest["features"][key]["kind"]
    classes = manifest["classes"]
    if classes and standard in _IDS and kind == "int64":
        ids = [entry["id"] for entry in classes]
        yield f"int_domain {{ min: {min(ids)} max: {max(ids)} is_categorical: true }}"
    elif classes and standard in _NAMES and kind == "bytes":
        yield "string_domain {"
        yield from (f"  value: {quoted(entry['name'])}" for entry in classes)
        yield "}"
    elif kind == "bytes" and _is_image(standard, manifest["features"][key], manifest):
        yield "image_domain { }"


def _is_image(standard: str, feature: Mapping[str, Any], manifest: Mapping[str, Any]) -> bool:
    raw = manifest["options"].get("image_encoding") == RAW_FORMAT
    return bool(feature.get("pixels")) or (standard == ENCODED_KEY and not raw)
