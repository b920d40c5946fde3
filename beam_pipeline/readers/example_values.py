"""Serialized example -> values by key, without TensorFlow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from google.protobuf.message import DecodeError

from beam_pipeline.core.errors import DamagedRecordError
from beam_pipeline.core.records.example_proto import Example
from beam_pipeline.dataset import StoredFeature

_LISTS = {"bytes": "bytes_list", "float": "float_list", "int64": "int64_list"}


def example_values(
    record: bytes, uri: str, features: Mapping[str, StoredFeature]
) -> dict[str, Any]:
    """The values of an example, under every key of the manifest.

    | the manifest says | value |
    |---|---|
    | bytes, one value | bytes |
    | int64, one value | int |
    | float, one value | numpy.float32 |
    | bytes, several | list of bytes |
    | int64 or float, several | array of int64 or float32, one dimension |
    | optional, one value, and the example has none | None |

    Args:
      record: the serialized example.
      uri: its shard, for messages.
      features: key -> feature.

    Raises:
      DamagedRecordError: it is no example, or not one that the manifest describes.
    """
    try:
        found = Example.FromString(record).features.feature
    except DecodeError as error:
        raise DamagedRecordError(f"{uri}: a record is not a tf.train.Example: {error}") from error
    return {key: _value(found, key, feature, uri) for key, feature in features.items()}


def _value(found: Any, key: str, feature: StoredFeature, uri: str) -> Any:
    kind = feature.kind
    values: Any = getattr(found[key], _LISTS[kind]).value if key in found else ()
    if feature.shape:
        return list(values) if kind == "bytes" else _array(values, kind)
    if not values and feature.optional:
        return None
    if len(values) != 1:
        raise DamagedRecordError(
            f"{uri}: feature {key} has {len(values)} values of kind {kind}, the manifest says 1"
        )
    return _array(values, kind)[0] if kind == "float" else values[0]


def _array(values: Any, kind: str) -> Any:
    import numpy as np

    return np.array(values, np.float32 if kind == "float" else np.int64)
