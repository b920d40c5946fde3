"""The offsets of records, from the bytes that each of them takes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from beam_pipeline.core.errors import DamagedRecordError


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
