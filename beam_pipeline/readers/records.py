"""The records of some shards by their numbers."""

from __future__ import annotations

import io
import logging
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import NamedTuple

from beam_pipeline.core.errors import DamagedRecordError
from beam_pipeline.core.records.record_format import RecordFormat
from beam_pipeline.core.records.tfrecord import FRAMING_BYTES, MAX_RECORD_BYTES
from beam_pipeline.core.uris import is_remote
from beam_pipeline.dataset import Shard
from beam_pipeline.readers.record_locations import noted_offsets, scanned_offsets
from beam_pipeline.storage import files
from beam_pipeline.storage.read_ahead import REMOTE_READS

_log = logging.getLogger("beam_pipeline")


class Place(NamedTuple):
    """A record: the index of its shard, and its number in the shard, from 0."""

    shard: int
    number: int


def place_at(ends: Sequence[int], position: int) -> Place:
    """The place of a record in shards that follow one another.

    Args:
      ends: for each shard, the records in it and in those before it.
      position: number of the record in all shards, from 0.
    """
    shard = bisect_right(ends, position)
    return Place(shard, position - (ends[shard - 1] if shard else 0))


class Records:
    """Reads single records; keeps where they are, 8 bytes each, once their shard was used.

    No file stays open, so it may be pickled, and used by several threads and by forked processes.

    Args:
      shards: shards of an indexable format.
      record_format: the format.
    """

    def __init__(self, shards: Sequence[Shard], record_format: RecordFormat) -> None:
        self._shards = shards
        self._format = record_format
        self._remote = any(is_remote(shard.uri) for shard in shards)
        self._offsets: dict[int, Sequence[int]] = {}
        self._told = False

    def read(self, place: Place) -> bytes:
        """Reads one record and checks its checksums.

        Raises:
          ConversionError: the receipt of its shard is damaged.
          DamagedRecordError: the record, or the index of its shard, is damaged or cannot be read.
        """
        offsets, uri = self._offsets_of(place.shard), self._shards[place.shard].uri
        offset, end = offsets[place.number], offsets[place.number + 1]
        where = f"{uri}: record {place.number} at byte {offset}"
        if end - offset > MAX_RECORD_BYTES + FRAMING_BYTES:
            raise DamagedRecordError(
                f"{where}: it has {end - offset} bytes, an example has less than 2 GiB"
            )
        try:
            data = files.read_image(uri, end - offset, offset)
        except OSError as error:
            raise DamagedRecordError(
                f"{where} cannot be read: {error.strerror or error}"
            ) from error
        found = list(islice(self._format.records(io.BytesIO(data), where), 2))
        if len(found) != 1:
            raise DamagedRecordError(f"{where}: {len(found)} records where one is indexed")
        return found[0]

    def read_all(self, places: Sequence[Place]) -> Iterable[bytes]:
        """Reads several records in their order; those of a bucket in parallel. Raises as `read`."""
        if len(places) < 2 or not self._remote:
            return map(self.read, places)
        with ThreadPoolExecutor(min(REMOTE_READS, len(places))) as threads:
            shards = sorted({place.shard for place in places} - self._offsets.keys())
            list(threads.map(self._offsets_of, shards))
            return list(threads.map(self.read, places))

    def _offsets_of(self, shard: int) -> Sequence[int]:
        """The offset of each record of a shard, looked up when the shard is first used."""
        if shard not in self._offsets:
            found = noted_offsets(self._shards[shard], self._format)
            if found is None:
                self._tell_of_scan(self._shards[shard].uri)
                found = scanned_offsets(self._shards[shard], self._format)
            self._offsets[shard] = found
        return self._offsets[shard]

    def _tell_of_scan(self, uri: str) -> None:
        if not self._told:
            self._told = True
            folder = uri.rpartition("/")[0]
            _log.warning(
                "%s has no receipts that say where records begin, so whole shards are searched for "
                "them; once only, after: beam-tfrecord index %s",
                folder,
                folder,
            )
