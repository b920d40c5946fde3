"""The files of a data set's shards, checked before a reader opens them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from typing import BinaryIO

from beam_pipeline.core.errors import DamagedRecordError
from beam_pipeline.core.records.record_format import RecordFormat
from beam_pipeline.core.text import counted
from beam_pipeline.core.uris import is_remote
from beam_pipeline.dataset import Dataset, Shard
from beam_pipeline.storage import files


def check_shards(dataset: Dataset, shards: Sequence[Shard], *, lengths: bool = False) -> None:
    """Checks that local files have the length in the manifest.

    TensorFlow reserves as much memory as the header of a record claims, and crashes if that is too
    much. A file of the right length is either intact or forged.

    Args:
      dataset: a data set.
      shards: the shards to check.
      lengths: True to check the header of every record as well, even in a bucket.

    Raises:
      DamagedRecordError: a file is missing, has another length, or its records do not fit.
    """
    for shard in shards:
        found = shard.bytes if is_remote(shard.uri) else files.size_of(shard.uri)
        if found != shard.bytes:
            what = f"has {found} bytes" if found >= 0 else "is missing"
            raise DamagedRecordError(
                f"{shard.uri} {what}, the manifest says {shard.bytes}: it was damaged or replaced; "
                f"run: beam-tfrecord verify {dataset.path}"
            )
        if lengths:
            _check_lengths(shard, dataset.record_format)


def _check_lengths(shard: Shard, record_format: RecordFormat) -> None:
    with open_shard(shard.uri) as file:
        walk = record_format.spans if record_format.indexable else record_format.records
        found = sum(1 for _ in walk(file, shard.uri))
    if found != shard.examples:
        raise DamagedRecordError(
            f"{shard.uri} has {counted(found, 'record')}, the manifest says {shard.examples}"
        )


@contextlib.contextmanager
def open_shard(uri: str) -> Iterator[BinaryIO]:
    """Opens a shard for the duration of the block, which reads it and nothing else.

    Raises:
      DamagedRecordError: it cannot be opened or read, or is a folder, pipe or device.
    """
    try:
        with files.open_input(uri) as file:
            yield file
    except OSError as error:
        raise DamagedRecordError(f"{uri} cannot be read: {error.strerror or error}") from error


def check_regular(shards: Sequence[Shard]) -> None:
    """Checks that no local shard is a folder, pipe or device, for readers that would hang on them.

    Raises:
      DamagedRecordError: names the first of them.
    """
    for shard in shards:
        if not is_remote(shard.uri) and os.path.exists(shard.uri) and not os.path.isfile(shard.uri):
            raise DamagedRecordError(
                f"{shard.uri} cannot be read: a folder, pipe or device, not a file"
            )
