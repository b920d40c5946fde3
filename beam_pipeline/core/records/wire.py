"""The wire format of `tf.train.Example`, written by hand.

An example is

    Example  { features: Features = 1 }
    Features { feature: map<string, Feature> = 1 }
    Feature  { oneof: BytesList = 1 | FloatList = 2 | Int64List = 3 }, each list { repeated value = 1 }

and a map is a repeated message { key = 1, value = 2 }. Entries are written in the order of their
keys' bytes, like protobuf's deterministic serialization (its C implementation, upb, differs where
one key is the beginning of another). Property tests compare the bytes with TensorFlow's own
message.
Source: https://protobuf.dev/programming-guides/encoding and tensorflow/core/example/*.proto.

Each message is a tag, the length of its content, and the content. An example with a single feature
`a` that contains the integers 300 and 5 is

    0a 0e                      Example.features, 14 bytes
       0a 0c                   Features.feature, an entry of the map, 12 bytes
          0a 01 61             key: "a"
          12 07                value: a Feature, 7 bytes
             1a 05             Feature.int64_list, 5 bytes
                0a 03          Int64List.value, packed, 3 bytes
                   ac 02 05    the varints 300 and 5
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from beam_pipeline.core.typed_json import INT64

FeatureList = Sequence[bytes] | Sequence[float] | Sequence[int]

MAX_EXAMPLE_BYTES = (1 << 31) - 1
"""The size of the largest message that protobuf accepts."""

TAG_1 = b"\x0a"  # field 1, length-delimited
_TAG_2 = b"\x12"
_TAG_3 = b"\x1a"


def varint(value: int) -> bytes:
    """The base-128 encoding of an int64; a negative number takes ten bytes, as protobuf has it.

    Raises:
      OverflowError: the value does not fit an int64.
    """
    if 0 <= value < 0x80:
        return bytes((value,))
    if 0 <= value < 0x4000:
        return bytes((value & 0x7F | 0x80, value >> 7))
    if 0 <= value < 0x200000:
        return bytes((value & 0x7F | 0x80, value >> 7 & 0x7F | 0x80, value >> 14))
    if value not in INT64:
        raise OverflowError(f"{value} does not fit an int64")
    value &= 0xFFFFFFFFFFFFFFFF
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _field(tag: bytes, payload: bytes) -> bytes:
    return tag + varint(len(payload)) + payload


def _entry(key: str, feature: bytes) -> bytes:
    """One entry of the feature map, with its own tag and length."""
    return _field(TAG_1, _field(TAG_1, key.encode()) + _field(_TAG_2, feature))


def bytes_entry(key: str, values: Sequence[bytes]) -> bytes:
    """The map entry of a BytesList."""
    return _entry(key, _field(TAG_1, b"".join(_field(TAG_1, value) for value in values)))


def float_entry(key: str, values: Sequence[float]) -> bytes:
    """The map entry of a FloatList: float32, little-endian, packed.

    Raises:
      OverflowError: a finite value is too large for float32.
    """
    packed = struct.pack(f"<{len(values)}f", *values)
    return _entry(key, _field(_TAG_2, _field(TAG_1, packed) if values else b""))


def int64_entry(key: str, values: Sequence[int]) -> bytes:
    """The map entry of an Int64List: varints, packed.

    Raises:
      OverflowError: a value does not fit an int64.
    """
    packed = b"".join(map(varint, values))
    return _entry(key, _field(_TAG_3, _field(TAG_1, packed) if values else b""))


LIST_ENTRIES: dict[str, Callable[[str, Any], bytes]] = {
    "int64": int64_entry,
    "float": float_entry,
    "bytes": bytes_entry,
}
"""Kind of list -> the function that writes its map entry."""


def encode_example(features: Mapping[str, tuple[str, FeatureList]]) -> bytes:
    """A whole serialized example. For images there is `SampleEncoder`, which does not copy them.

    Args:
      features: key -> (kind, values); the kind is "bytes", "float" or "int64".

    Raises:
      OverflowError: a number is too large for its kind.
    """
    ordered = sorted(features.items(), key=lambda feature: feature[0].encode())
    entries = [LIST_ENTRIES[kind](key, values) for key, (kind, values) in ordered]
    return _field(TAG_1, b"".join(entries))


def value_prefixes(key: str) -> Callable[[int], bytes]:
    """Makes a function: length of a value -> the beginning of its BytesList entry, up to the value.

    Each message's length comes before its content, so it is put together from the inside out.
    """
    name = _field(TAG_1, key.encode())

    def prefix(length: int) -> bytes:
        value = TAG_1 + varint(length)
        values = TAG_1 + varint(len(value) + length) + value
        feature = name + _TAG_2 + varint(len(values) + length) + values
        return TAG_1 + varint(len(feature) + length) + feature

    return prefix


def parse_varint(data: bytes, at: int) -> tuple[int, int]:
    """(value, offset after it) of the varint at an offset."""
    value = shift = 0
    while shift < 70:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
    raise ValueError("a number of more than 10 bytes")
