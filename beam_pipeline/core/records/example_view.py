"""A serialized `tf.train.Example` as its values by key: the one way to read an example back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from google.protobuf.message import DecodeError

from beam_pipeline.core.errors import DamagedRecordError
from beam_pipeline.core.records.example_proto import Example

MOST_FEATURES = 10_000
"""Of an example from anywhere."""
_NOT_COUNTED = 1 << 20  # bytes; a smaller record takes little memory whatever is in it


class FeatureList(NamedTuple):
    """The values of one feature of one example.

    Attributes:
      kind: "bytes", "float" or "int64"; empty for a feature without a list.
      values: what the list holds.
    """

    kind: str
    values: Sequence[Any]

    @property
    def texts(self) -> Iterator[str]:
        """The values as texts: bytes in UTF-8, numbers as Python writes them."""
        for value in self.values:
            yield value.decode(errors="replace") if isinstance(value, bytes) else str(value)


_LISTS = {"bytes": "bytes_list", "float": "float_list", "int64": "int64_list"}
_EMPTY = b"\x0a\x00"  # an example with no features
NO_VALUES = FeatureList("", ())

Features = Mapping[str, FeatureList]
"""Key -> values, in order of the keys."""


class ExampleView(Mapping[str, FeatureList]):
    """The features of an example. Values are read when they are asked for.

    Args:
      record: the serialized example.
      where: names it in messages: its file, and its number if that is known.
      bounded: an example from anywhere: one of many features is refused before it takes memory.

    Raises:
      DamagedRecordError: it is no `tf.train.Example`, or has more than `MOST_FEATURES`.
    """

    def __init__(self, record: bytes, where: str, *, bounded: bool = False) -> None:
        try:
            if bounded and len(record) > _NOT_COUNTED:
                _check_count(record, where)
            self._features = Example.FromString(record).features.feature
        except (DecodeError, ValueError, IndexError) as error:
            raise DamagedRecordError(f"{where} is not a tf.train.Example: {error}") from error
        if len(record) > len(_EMPTY) and not self._features:
            raise DamagedRecordError(f"{where} is not a tf.train.Example: it has no features")

    def __getitem__(self, key: str) -> FeatureList:
        if key not in self._features:  # which asking for would add
            raise KeyError(key)
        feature = self._features[key]
        kind = feature.WhichOneof("kind")
        if not kind:
            return NO_VALUES
        return FeatureList(kind.removesuffix("_list"), getattr(feature, kind).value)

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._features))

    def __len__(self) -> int:
        return len(self._features)

    def __contains__(self, key: object) -> bool:
        return key in self._features

    def values_of(self, key: str, kind: str) -> Sequence[Any]:
        """The values of a kind under a key; none if there is no such feature, or it is of another kind."""
        features = self._features
        values: Sequence[Any] = (
            getattr(features[key], _LISTS[kind]).value if key in features else ()
        )
        return values


def _check_count(record: bytes, where: str) -> None:
    """Counts the features of a large record before it is parsed: each would take 100 bytes of memory.

    Raises:
      DamagedRecordError: there are too many.
      ValueError, IndexError: the bytes are no protocol buffer.
    """
    count = 0
    for start, end in _fields(record, 0, len(record)):
        for _ in _fields(record, start, end):
            count += 1
            if count > MOST_FEATURES:
                raise DamagedRecordError(f"{where} has more than {MOST_FEATURES} features")


def _fields(data: bytes, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yields the span of each field of a message; all fields of Example and Features have a length."""
    while start < end:
        tag, start = parse_varint(data, start)
        if tag & 7 != 2:
            raise ValueError(f"a field of wire type {tag & 7}")
        length, start = parse_varint(data, start)
        if start + length > end:
            raise ValueError("a field is cut short")
        yield start, start + length
        start += length


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
