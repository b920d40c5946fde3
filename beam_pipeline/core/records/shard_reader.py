"""Reads a finished shard back: its examples, and the figures of its file."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterator
from typing import Any, BinaryIO

from google.protobuf.message import DecodeError

from beam_pipeline.core.dataset.sharding import ShardInfo, ShardSpec
from beam_pipeline.core.errors import DamagedRecordError
from beam_pipeline.core.records.example_proto import Example
from beam_pipeline.core.records.record_format import RecordFormat
from beam_pipeline.core.records.tfrecord import crc32c_extend

_BUFFER_BYTES = 1 << 20  # 1 MiB


class _MeasuringReader(io.RawIOBase):
    """Counts and checksums the bytes of a file as they are read."""

    def __init__(self, file: BinaryIO) -> None:
        super().__init__()
        self._file = file
        self.bytes = 0
        self.crc32c = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._file.read(len(buffer))
        buffer[: len(data)] = data
        self.bytes += len(data)
        self.crc32c = crc32c_extend(self.crc32c, data)
        return len(data)


def read_shard(
    file: BinaryIO, path: str, spec: ShardSpec, record_format: RecordFormat, class_key: str
) -> Iterator[Any | ShardInfo]:
    """Yields every example of a shard as a message and, last, the figures of the shard.

    Args:
      file: the shard, open at its beginning.
      path: its name in messages.
      spec: which shard it is.
      record_format: the format of the file.
      class_key: the feature that holds class ids; empty where there are no classes.

    Raises:
      DamagedRecordError: the framing, a checksum, the compression or an example is broken; says where.
    """
    measured = _MeasuringReader(file)
    stream: Any = io.BufferedReader(measured, _BUFFER_BYTES)
    classes: Counter[int] = Counter()
    examples = 0
    for record in record_format.records(stream, path):
        example = _parse(record, path, examples)
        feature = example.features.feature
        if class_key in feature:
            classes.update(feature[class_key].int64_list.value)
        examples += 1
        yield example
    yield ShardInfo(
        split=spec.split,
        number=spec.number,
        file_name=spec.file_name,
        examples=examples,
        bytes=measured.bytes,
        crc32c=measured.crc32c,
        classes=tuple(sorted(classes.items())),
    )


def _parse(record: bytes, path: str, number: int) -> Any:
    try:
        return Example.FromString(record)
    except DecodeError as error:
        raise DamagedRecordError(
            f"{path}: record {number} is no tf.train.Example: {error}"
        ) from error
