"""Python values as features."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from beam_pipeline.core.errors import SampleError
from beam_pipeline.core.records.feature_values import (
    FeatureSchema,
    FeatureValue,
    feature_value,
)

INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
FLOAT32 = st.floats(width=32)
TEXT = st.text()


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b"x", ("bytes", (b"x",), ())),
        (bytearray(b"x"), ("bytes", (b"x",), ())),
        (memoryview(b"x"), ("bytes", (b"x",), ())),
        ("é", ("bytes", (b"\xc3\xa9",), ())),
        ("", ("bytes", (b"",), ())),
        (True, ("int64", (1,), ())),
        (-3, ("int64", (-3,), ())),
        (0.5, ("float", (0.5,), ())),
        ([], ("", (), (0,))),
        ((1, True), ("int64", (1, 1), (2,))),
        ([1, 2.5], ("float", (1.0, 2.5), (2,))),
        (["a", b"b"], ("bytes", (b"a", b"b"), (2,))),
        (np.int8(-3), ("int64", (-3,), ())),
        (np.uint8(3), ("int64", (3,), ())),
        (np.bool_(True), ("int64", (1,), ())),
        (np.float16(0.5), ("float", (0.5,), ())),
        (np.str_("a"), ("bytes", (b"a",), ())),
        ([np.int32(1), 2], ("int64", (1, 2), (2,))),
        (np.array([[1, 2], [3, 4]], np.uint16), ("int64", (1, 2, 3, 4), (2, 2))),
        (np.array([[True], [False]]), ("int64", (1, 0), (2, 1))),
        (np.array([0.5, 1.5]), ("float", (0.5, 1.5), (2,))),
        (np.array(["a", "b"]), ("bytes", (b"a", b"b"), (2,))),
        (np.array(["a", "b"], object), ("bytes", (b"a", b"b"), (2,))),
        (np.array([[1, 2]], np.uint8), ("bytes", (b"\x01\x02",), ())),
        (np.array([[1, 2], [3, 4]], np.uint8).T, ("bytes", (b"\x01\x03\x02\x04",), ())),
        (np.zeros((0, 3), np.float32), ("float", (), (0, 3))),
    ],
)
def test_a_value_becomes_the_list_of_its_type(value: Any, expected: tuple[Any, ...]) -> None:
    """Scalars, lists and arrays of every type that a feature can hold; arrays in C order."""
    found = feature_value(value)
    assert found == FeatureValue(*expected)
    assert found is not None
    assert [type(item) for item in found.values] == [type(item) for item in expected[1]]


def test_none_is_no_feature() -> None:
    """None means that the sample does not have the feature."""
    assert feature_value(None) is None


@pytest.mark.parametrize("value", [{}, {1}, object(), 1j, [None], [[1]], np.zeros(1, complex)])
def test_anything_else_is_an_error(value: Any) -> None:
    """The message names the type that was found and those that are expected."""
    with pytest.raises(
        ValueError, match=r"is not a feature; expected bytes, str, bool, int, float"
    ):
        feature_value(value)


@given(
    st.dictionaries(
        st.text(min_size=1),
        st.one_of(
            INT64,
            FLOAT32,
            TEXT,
            st.binary(),
            st.lists(INT64, min_size=1),
            st.lists(FLOAT32, min_size=1),
        ),
    )
)
def test_tensorflow_reads_what_was_given(sample: dict[str, Any]) -> None:
    """The serialized example is TensorFlow's own, byte for byte, for every key and value."""
    features = {}
    for key, value in sample.items():
        values = value if isinstance(value, list) else [value]
        if isinstance(values[0], float):
            feature = tf.train.Feature(float_list=tf.train.FloatList(value=values))
        elif isinstance(values[0], int):
            feature = tf.train.Feature(int64_list=tf.train.Int64List(value=values))
        else:
            encoded = [v.encode() if isinstance(v, str) else v for v in values]
            feature = tf.train.Feature(bytes_list=tf.train.BytesList(value=encoded))
        features[key] = feature
    found = tf.train.Example.FromString(FeatureSchema().encode(sample))
    expected = tf.train.Example(features=tf.train.Features(feature=features))
    assert _plain(found) == _plain(expected)


def _plain(example: Any) -> dict[str, Any]:
    """Floats by their bits, as NaN is not equal to itself."""
    return {
        key: (
            feature.WhichOneof("kind"),
            list(feature.bytes_list.value),
            list(feature.int64_list.value),
            [struct.pack("<f", value) for value in feature.float_list.value],
        )
        for key, feature in example.features.feature.items()
    }


def test_the_schema_knows_kinds_lengths_and_what_is_missing() -> None:
    """One value, a fixed number, any number; in every sample or not."""
    schema = FeatureSchema()
    schema.encode({"one": 1, "three": np.zeros((1, 3)), "any": ["a"], "late": [], "some": 2.0})
    schema.encode({"one": 2, "three": [1.0, 2.0, 3.0], "any": [], "late": ["x"], "none": None})
    assert schema.samples == 2
    assert schema.features == {
        "any": {"kind": "bytes", "optional": False, "shape": [None]},
        "late": {"kind": "bytes", "optional": True, "shape": [None]},
        "one": {"kind": "int64", "optional": False, "shape": []},
        "some": {"kind": "float", "optional": True, "shape": []},
        "three": {"kind": "float", "optional": False, "shape": [None]},
    }


def test_an_array_of_one_shape_has_a_fixed_length() -> None:
    """Arrays are flat in an example, so the length is that of all their dimensions."""
    schema = FeatureSchema()
    for _ in range(2):
        schema.encode({"x": np.zeros((2, 3))})
    assert schema.features == {"x": {"kind": "float", "optional": False, "shape": [6]}}


def test_a_list_without_values_has_the_kind_of_the_others() -> None:
    """Once it is known; before that, the feature is left out."""
    schema = FeatureSchema()
    assert _kinds(schema.encode({"x": []})) == {}
    assert _kinds(schema.encode({"x": [1]})) == {"x": "int64_list"}
    assert _kinds(schema.encode({"x": []})) == {"x": "int64_list"}


def _kinds(example: bytes) -> dict[str, str]:
    features = tf.train.Example.FromString(example).features.feature
    return {key: feature.WhichOneof("kind") for key, feature in features.items()}


def test_a_text_that_is_not_unicode_is_an_error() -> None:
    """Half a character cannot be written as UTF-8."""
    with pytest.raises(SampleError, match="surrogates not allowed"):
        FeatureSchema().encode({"x": "\ud800"})
