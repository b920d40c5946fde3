"""A serialized `tf.train.Example` as its values by key, the one way to read an example back; and all of a shard.

Its protobuf messages are built without TensorFlow, from the descriptor in `example_descriptor.json` with the package,
names and field numbers in TensorFlow's `feature.proto` and `example.proto`, in a separate descriptor pool so that
they never clash with TensorFlow's. The job writes the wire format by hand (`features.py`).
"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

from beam_pipeline.core.errors import DamagedRecordError
from beam_pipeline.core.records.record_format import RecordFormat, crc32c_extend
from beam_pipeline.core.records.wire import parse_varint

if TYPE_CHECKING:
    from beam_pipeline.core.records.sharding import ShardInfo, ShardSpec


_FILE = json.loads(Path(__file__).with_name("example_descriptor.json").read_bytes())
_POOL = descriptor_pool.DescriptorPool()
_POOL.Add(descriptor_pb2.FileDescriptorProto(**_FILE))
Example: Any = message_factory.GetMessageClass(_POOL.FindMessageTypeByName("tensorflow.Example"))

MOST_FEATURES = 10_000
"""Of an example from anywhere."""
_NOT_COUNTED = 1 << 20  # bytes; a smaller record takes little memory whatever is in it


class FeatureList(NamedTuple):
    """The values of one feature of one example.

    Attributes:
      kind: "bytes", "float" or "int64"; empty for a feature without a list.
      values: what the list contains.
    """

    kind: str
    values: Sequence[Any]

    @property
    def texts(self) -> Iterator[str]:
        """The values as texts: bytes in UTF-8, numbers as Python writes them."""
        for value in self.values:
            yield value.decode(errors="replace") if isinstance(value, bytes) else str(value)


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
            if bounded and len(record) > _NOT_COUNTED:  # each would take 100 bytes of memory
                messages = _fields(record, 0, len(record))
                entries = (entry for features in messages for entry in _fields(record, *features))
                if next(itertools.islice(entries, MOST_FEATURES, None), None):
                    raise DamagedRecordError(f"{where} has more than {MOST_FEATURES} features")
            self._features = Example.FromString(record).features.feature
        except (DecodeError, ValueError, IndexError) as error:
            raise DamagedRecordError(f"{where} is not a tf.train.Example: {error}") from error
        if len(record) > len(_EMPTY) and not self._features:
            raise DamagedRecordError(f"{where} is not a tf.train.Example: it lacks features")

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

    def values_of(self, key: str, kind: str) -> Sequence[Any]:
        """The values of a kind under a key; none if the feature is missing, or is of another kind."""
        if key not in self._features:
            return ()
        values: Sequence[Any] = getattr(self._features[key], f"{kind}_list").value
        return values


def _fields(data: bytes, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yields the span of each field of a message; all fields of Example and Features have a length.

    Raises:
      ValueError, IndexError: the bytes are not a protocol buffer.
    """
    while start < end:
        tag, start = parse_varint(data, start)
        if tag & 7 != 2:
            raise ValueError(f"a field of wire type {tag & 7}")
        length, start = parse_varint(data, start)
        yield start, start + length
        start += length


# --- a whole shard --------------------------------------------------------------------------------

_PIECE_BYTES = 1 << 20  # 1 MiB


class MeasuredFile:
    """A file read from front to back, whose bytes are counted and checksummed as they are read.

    Attributes:
      bytes: how many were read.
      crc32c: CRC-32C of all of them.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.bytes = 0
        self.crc32c = 0

    def read(self, size: int = -1) -> bytes:
        """Reads the next bytes."""
        return self._measured(self._file.read(size))

    def __iter__(self) -> Iterator[bytes]:
        """The lines, for formats of text."""
        return map(self._measured, self._file)

    def _measured(self, data: bytes) -> bytes:
        self.bytes += len(data)
        self.crc32c = crc32c_extend(self.crc32c, data)
        return data

    def seekable(self) -> bool:
        """False: nothing is passed over."""
        return False

    def fileno(self) -> int:
        """The file's own, for what opens a local file by its name. Raises OSError."""
        return self._file.fileno()

    def finish(self) -> None:
        """Reads what is left: all of a file that was opened by its name."""
        if not self.bytes:
            self._file.seek(0)
        while self.read(_PIECE_BYTES):
            pass


def read_shard(
    file: BinaryIO, path: str, spec: ShardSpec, record_format: RecordFormat, class_key: str
) -> Iterator[ExampleView | ShardInfo]:
    """Yields every example of a shard and, last, the figures of the shard.

    Args:
      file: the shard, open at its beginning.
      path: its name in messages.
      spec: which shard it is.
      record_format: the format of the file.
      class_key: the feature that contains class ids; empty without classes.

    Raises:
      DamagedRecordError: the framing, a checksum, the compression or an example is broken; the message tells where.
    """
    from beam_pipeline.core.records.sharding import ShardInfo  # readers of records do without it

    measured: Any = MeasuredFile(file)
    classes: Counter[int] = Counter()
    examples = 0
    for record in record_format.records(measured, path):
        example = ExampleView(record, f"{path}: record {examples}")
        classes.update(example.values_of(class_key, "int64"))
        examples += 1
        yield example
    measured.finish()
    figures = (examples, measured.bytes, measured.crc32c, tuple(sorted(classes.items())))
    yield ShardInfo(spec.split, spec.number, spec.file_name, *figures)
