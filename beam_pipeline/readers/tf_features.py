"""Features of serialized examples as tensors, and what makes an element of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import tensorflow as tf

from beam_pipeline.dataset import Dataset, StoredFeature

BOX_SIDES = tuple(f"image/object/bbox/{side}" for side in ("ymin", "xmin", "ymax", "xmax"))
_DTYPES = {"bytes": tf.string, "float": tf.float32, "int64": tf.int64}
NUMBER_DRAWN = ""  # no feature has this key
Parsed = Mapping[str, Any]
"""Key -> tensor: the parsed features of one example."""


def _parser(feature: StoredFeature) -> Any:
    """Returns the specification of one feature for `tf.io.parse_example`."""
    dtype = _DTYPES[feature.kind]
    if feature.ragged:
        return tf.io.RaggedFeature(dtype, row_splits_dtype=tf.int64)
    missing = feature.missing
    default = [missing] * feature.shape[0] if feature.shape else missing  # type: ignore[operator]
    return tf.io.FixedLenFeature(feature.shape, dtype, default if feature.optional else None)


def spec_of(dataset: Dataset, *keys: str) -> dict[str, Any]:
    """Returns the specification of these features for `tf.io.parse_example`."""
    return {key: _parser(dataset.features[key]) for key in keys}


class Reader(NamedTuple):
    """Turns an example into an element, or a part of one.

    Attributes:
      spec: the features to parse.
      read: makes the element from the parsed features.
      ragged: True if elements differ in length.
      named_twice: True if elements get their classes as "labels", too, after `augment`.
    """

    spec: dict[str, Any]
    read: Callable[[Parsed], Any]
    ragged: bool = False
    named_twice: bool = False

    def of_record(self, record: Any, number: Any = None) -> Any:
        """Returns the element of a serialized example; a number draws the part of its image."""
        parsed = tf.io.parse_single_example(record, self.spec)
        return self.read(parsed if number is None else {**parsed, NUMBER_DRAWN: number})
