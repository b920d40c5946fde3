"""Reads a finished shard back: its examples, and the figures of its file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, BinaryIO

from beam_pipeline.core.records.example_view import ExampleView
from beam_pipeline.core.records.record_format import RecordFormat, crc32c_extend
from beam_pipeline.core.records.sharding import ShardInfo, ShardSpec

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
    measured: Any = MeasuredFile(file)
    classes: Counter[int] = Counter()
    examples = 0
    for record in record_format.records(measured, path):
        example = ExampleView(record, f"{path}: record {examples}")
        classes.update(example.values_of(class_key, "int64"))
        examples += 1
        yield example
    measured.finish()
    yield ShardInfo(
        split=spec.split,
        number=spec.number,
        file_name=spec.file_name,
        examples=examples,
        bytes=measured.bytes,
        crc32c=measured.crc32c,
        classes=tuple(sorted(classes.items())),
    )
