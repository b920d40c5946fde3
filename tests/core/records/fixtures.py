"""Records as tests write them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

from beam_pipeline.core import dead_letters, references
from beam_pipeline.core.records import record_format, shard_writer, wire


def with_kinds(features: Mapping[str, Any]) -> dict[str, tuple[str, Any]]:
    """Lists with the kind of their first value; a list without any is one of bytes."""
    kinds = {int: "int64", float: "float", bytes: "bytes"}
    return {
        key: (kinds[type(values[0])] if values else "bytes", values)
        for key, values in features.items()
    }


def record_of(features: Mapping[str, Any]) -> bytes:
    """The serialized example of such lists."""
    return wire.encode_example(with_kinds(features))


def tf_example(tf: Any, features: Mapping[str, tuple[str, Any]]) -> bytes:
    """TensorFlow's bytes for features of known kinds."""
    lists = {"bytes": tf.train.BytesList, "float": tf.train.FloatList, "int64": tf.train.Int64List}
    made = {
        key: tf.train.Feature(**{f"{kind}_list": lists[kind](value=values)})
        for key, (kind, values) in features.items()
    }
    message = tf.train.Example(features=tf.train.Features(feature=made))
    return bytes(message.SerializeToString(deterministic=True))


INT64S = st.integers(-(1 << 63), (1 << 63) - 1)
# Every float32 and what must be rounded to one; numbers too large for one are refused, see below.
FLOATS = st.floats(width=32) | st.floats(-3e38, 3e38)
# No key is the beginning of another: Python's protobuf has such keys the other way round, see below.
KEYS = st.text(st.characters(codec="utf-8", exclude_characters="|"), max_size=12).map("{}|".format)
FEATURES = st.dictionaries(
    KEYS,
    st.lists(st.binary(max_size=200), max_size=4)
    | st.lists(FLOATS, max_size=4)
    | st.lists(INT64S, max_size=4),
    max_size=6,
)


def made(
    maker: shard_writer.Maker, ref: references.SampleRef
) -> record_format.EncodedSample | dead_letters.DeadLetter:
    """What a maker makes of a sample: the example, or the dead letter."""
    try:
        return maker.make(ref)
    except shard_writer.Rejected as rejected:
        return rejected.letter


class Memory:
    """A sink that keeps all bytes."""

    def __init__(self) -> None:
        self.data = b""

    def write(self, *buffers: bytes) -> None:
        """Takes the next buffers."""
        self.data += b"".join(buffers)
