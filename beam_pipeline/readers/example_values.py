"""Serialized example -> values by key, without TensorFlow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from beam_pipeline.core.errors import DamagedRecordError
from beam_pipeline.core.records.example_view import ExampleView
from beam_pipeline.dataset import StoredFeature


def parse_example(
    record: bytes, features: Mapping[str, StoredFeature] | None = None, name: str = "a record"
) -> dict[str, Any]:
    """The values of a serialized `tf.train.Example` by key, without TensorFlow.

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
      features: key -> feature, as `Dataset.features` has them; others are not decoded. Without it, the
        values of every feature are a list or an array.
      name: what messages call the record.

    Raises:
      DamagedRecordError: it is not an example, or not one that the manifest describes.
    """
    view = ExampleView(record, name)
    if features is None:
        return {
            key: _several(values, kind) if kind != "bytes" else list(values)
            for key, (kind, values) in view.items()
        }
    return {key: _value(view, key, feature, name) for key, feature in features.items()}


def _value(view: ExampleView, key: str, feature: StoredFeature, name: str) -> Any:
    kind = feature.kind
    values = view.values_of(key, kind)
    if feature.shape:
        return list(values) if kind == "bytes" else _several(values, kind)
    if not values and feature.optional:
        return None
    if len(values) != 1:
        raise DamagedRecordError(
            f"{name}: feature {key} has {len(values)} values of kind {kind}, the manifest says 1"
        )
    return _several(values, kind)[0] if kind == "float" else values[0]


def _several(values: Any, kind: str) -> Any:
    import numpy as np

    return np.array(values, np.float32 if kind == "float" else np.int64)
