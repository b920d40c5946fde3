"""The wire format of `tf.train.Example`, written by hand and read by a message of our own."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from beam_pipeline.core.records import example_view
from beam_pipeline.core.records.wire import (
    bytes_entry,
    encode_example,
    float_entry,
    int64_entry,
    value_prefixes,
    varint,
)
from tests.core.records.fixtures import FEATURES, record_of, tf_example, with_kinds
from tests.profiles import examples


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (0, "00"),
        (1, "01"),
        (127, "7f"),
        (128, "8001"),
        (300, "ac02"),
        (16_383, "ff7f"),
        (16_384, "808001"),
        ((1 << 21) - 1, "ffff7f"),
        (1 << 21, "80808001"),
        ((1 << 63) - 1, "ffffffffffffffff7f"),
        (-1, "ffffffffffffffffff01"),
        (-(1 << 63), "80808080808080808001"),
    ],
)
def test_varint_is_the_one_of_the_protobuf_encoding(value: int, encoded: str) -> None:
    """Seven bits a byte, the low ones first, and ten bytes for a negative number."""
    assert varint(value).hex() == encoded


@pytest.mark.parametrize("value", [1 << 63, -(1 << 63) - 1, 10**30])
def test_an_integer_too_large_for_an_int64_is_refused(value: int) -> None:
    """Its upper bits do not vanish in silence."""
    with pytest.raises(OverflowError, match=rf"^{value} does not fit an int64$"):
        int64_entry("k", [1, value])


def test_an_entry_of_each_kind_has_the_bytes_of_the_wire_format() -> None:
    """Each entry is tag, length, key and list, here written out by hand."""
    assert bytes_entry("k", [b"v"]) == b"\x0a\x0a\x0a\x01k\x12\x05\x0a\x03\x0a\x01v"
    assert float_entry("k", [1.0]) == b"\x0a\x0d\x0a\x01k\x12\x08\x12\x06\x0a\x04\0\0\x80\x3f"
    assert int64_entry("k", [3]) == b"\x0a\x0a\x0a\x01k\x12\x05\x1a\x03\x0a\x01\x03"
    assert float_entry("k", []) == b"\x0a\x07\x0a\x01k\x12\x02\x12\x00"
    assert int64_entry("k", []) == b"\x0a\x07\x0a\x01k\x12\x02\x1a\x00"


@settings(max_examples=examples(300))
@given(features=FEATURES)
@example(features={})
@example(features={"": []})
@example(features={"nan": [float("nan"), float("inf"), float("-inf"), -0.0, 0.0, 1e-45]})
@example(features={"extremes": [-(1 << 63), -1, 0, 1, (1 << 63) - 1]})
@example(features={"\uffff": [1], "\U0001f600": [2], "z": [3], "é": [4], "e\u0301": [5]})
@example(features={"b": [b""], "a/b": [b"", b"\xff"], "a.b": [b"x" * 16_384], "a-b": []})
def test_an_example_has_the_bytes_of_tensorflows_deterministic_serialization(
    tf: Any, features: dict[str, Any]
) -> None:
    """Any features of any kind are the bytes that TensorFlow's own message gives."""
    assert record_of(features) == tf_example(tf, with_kinds(features))


@settings(max_examples=examples(200))
@given(keys=st.sets(st.text(max_size=4) | st.text("ab", max_size=4)))
@example(keys={"a", "\uffff", "\U0001f600"})  # UTF-16 would have the last two the other way round
def test_keys_stand_in_the_order_of_their_utf8_bytes(keys: set[str]) -> None:
    """The order is that of the bytes for any keys, one that begins another before it."""
    encoded = record_of({key: [b""] for key in keys})
    entries = [bytes_entry(key, [b""]) for key in sorted(keys, key=str.encode)]
    assert encoded == b"\x0a" + varint(sum(map(len, entries))) + b"".join(entries)


@pytest.mark.parametrize("kind", ["bytes", "float", "int64"])
def test_an_empty_list_keeps_its_kind(kind: str) -> None:
    """A reader that expects the kind finds it, and no values."""
    message = example_view.Example.FromString(encode_example({"k": (kind, [])}))
    assert message.features.feature["k"].WhichOneof("kind") == f"{kind}_list"
    assert list(getattr(message.features.feature["k"], f"{kind}_list").value) == []


def test_a_number_too_large_for_a_float32_is_refused() -> None:
    """It does not become infinity in silence."""
    with pytest.raises(OverflowError):
        record_of({"k": [1e39]})


def test_the_worked_example_of_the_format_is_right() -> None:
    """The bytes in the module's docstring are those of an example with one feature."""
    golden = "0a0e 0a0c 0a0161 1207 1a05 0a03 ac0205"
    assert encode_example({"a": ("int64", [300, 5])}) == bytes.fromhex(golden)


@pytest.mark.parametrize("length", [0, 1, 127, 128, 16_383, 16_384])
def test_a_prefix_and_its_value_are_an_entry(length: int) -> None:
    """The prefix is the entry up to its one value, which stands at the end."""
    value = b"x" * length
    assert value_prefixes("key")(length) + value == bytes_entry("key", [value])


@settings(max_examples=examples(200))
@given(features=FEATURES)
def test_our_own_message_parses_what_tensorflows_does(tf: Any, features: dict[str, Any]) -> None:
    """`example_view.Example` reads TensorFlow's bytes, and writes back the same."""
    serialized = tf_example(tf, with_kinds(features))
    ours = example_view.Example.FromString(serialized)
    theirs = tf.train.Example.FromString(serialized)
    assert ours.SerializeToString(deterministic=True) == serialized
    assert set(ours.features.feature) == set(theirs.features.feature) == set(features)
    for key, feature in ours.features.feature.items():
        expected = theirs.features.feature[key]
        kind = feature.WhichOneof("kind")
        assert kind == expected.WhichOneof("kind")
        values, wanted = getattr(feature, kind).value, getattr(expected, kind).value
        if kind == "float_list":  # nan is not equal to itself
            values, wanted = (struct.pack(f"<{len(v)}d", *v) for v in (values, wanted))
            assert values == wanted
        else:
            assert list(values) == list(wanted)


def test_our_own_message_has_the_names_and_numbers_of_tensorflows(tf: Any) -> None:
    """Field by field, the three messages and their lists are those of TensorFlow."""
    for name in ("Example", "Features", "Feature"):
        ours = example_view.Example.DESCRIPTOR.file.message_types_by_name[name]
        theirs = getattr(tf.train, name).DESCRIPTOR
        assert ours.full_name == theirs.full_name
        assert [(f.name, f.number, f.type, f.is_repeated) for f in ours.fields] == [
            (f.name, f.number, f.type, f.is_repeated) for f in theirs.fields
        ]
