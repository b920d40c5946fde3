"""The bytes that each record of a shard takes, noted while the shard is written."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from beam_pipeline.transforms.core.errors import DamagedRecordError
from beam_pipeline.transforms.core.records.record_format import EncodedSample, RecordWriter


class SizingWriter:
    """Passes records on to a writer and notes the size of each.

    Attributes:
      sizes: bytes of each record with its framing, in order; of use where records lie one after
        another in the file.
      bytes: the number of bytes that went to the sink.
      crc32c: CRC-32C of all of them, once the shard is finished.
    """

    def __init__(self, writer: RecordWriter) -> None:
        self._writer = writer
        self.sizes: list[int] = []
        self.bytes = writer.bytes
        self.crc32c = writer.crc32c

    def write(self, sample: EncodedSample, key: str = "") -> None:
        """Writes the next record."""
        writer = self._writer
        writer.write(sample, key)
        end = writer.bytes
        self.sizes.append(end - self.bytes)
        self.bytes = end

    def finish(self) -> None:
        """Writes what is still held back; nothing may be written afterwards."""
        self._writer.finish()
        self.bytes, self.crc32c = self._writer.bytes, self._writer.crc32c


def record_offsets(sizes: Sequence[int], path: str, *, examples: int, size: int) -> list[int]:
    """The offset of each record and, last, of their end.

    Sizes of 19, 16 and 21 have the offsets 0, 19, 35 and 56.

    Args:
      sizes: bytes of each record.
      path: the shard, for messages.
      examples: records of the shard, as the manifest has it.
      size: bytes of the shard's file.

    Raises:
      DamagedRecordError: there are more or fewer records, or they do not fit the file.
    """
    offsets = list(accumulate(sizes, initial=0))
    if len(sizes) != examples:
        raise DamagedRecordError(
            f"{path}: {len(sizes)} records are indexed, the manifest says {examples}"
        )
    if min(sizes, default=0) < 0 or offsets[-1] > size:
        raise DamagedRecordError(
            f"{path}: its indexed records take {offsets[-1]} bytes, the file has {size}"
        )
    return offsets
