"""The shards of a data set for reading: checked, opened, and read in order or record by record.

The place of a record in its shard is looked up in the shard's receipt, which a conversion writes; else
in the index file beside the shard, which `beam-tfrecord index` writes; else the headers of all records
are read.
"""

from __future__ import annotations

import contextlib
import functools
import io
import logging
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate, islice
from typing import Any, BinaryIO

from beam_pipeline.core import errors, text, uris
from beam_pipeline.core.dataset.manifest import crc32c_text
from beam_pipeline.core.records import example_view, tfrecord
from beam_pipeline.core.records.record_format import RecordFormat
from beam_pipeline.dataset import Dataset, Shard
from beam_pipeline.storage import files, local

_log = logging.getLogger("beam_pipeline")


def check_shards(dataset: Dataset, shards: Sequence[Shard], *, lengths: bool = False) -> None:
    """Checks that local files are regular and have the length in the manifest.

    TensorFlow reserves as much memory as the header of a record claims, and crashes if that is too
    much. A file of the right length is either intact or forged.

    Args:
      dataset: a data set.
      shards: the shards to check.
      lengths: True to check the header of every record as well, even in a bucket.

    Raises:
      DamagedRecordError: a file is missing, has another length, or its records do not fit.
    """
    record_format = dataset.manifest.record_format
    walk = record_format.sizes if record_format.indexable else record_format.records
    for shard in {shard.uri: shard for shard in shards}.values():
        if not uris.is_remote(shard.uri):
            stored = files.describe(shard.uri)
            if stored is None or stored.size != shard.bytes:
                difference = f"has {stored.size} bytes" if stored else "is missing or not a file"
                raise errors.DamagedRecordError(
                    f"{shard.uri} {difference}, the manifest lists {shard.bytes}: it was damaged or "
                    f"replaced; run: beam-tfrecord verify {dataset.path}"
                )
        if not lengths:
            continue
        with open_shard(shard.uri) as file:
            records = sum(1 for _ in walk(file, shard.uri))
        if records != shard.examples:
            raise errors.DamagedRecordError(
                f"{shard.uri} has {text.counted(records, 'record')}, the manifest lists {shard.examples}"
            )


@contextlib.contextmanager
def open_shard(uri: str) -> Iterator[BinaryIO]:
    """Opens a shard for the duration of the block, which reads it and nothing else.

    Raises:
      DamagedRecordError: it cannot be opened or read, or is a folder, pipe or device.
    """
    with files.naming(uri, errors.DamagedRecordError), files.open_input(uri) as file:
        yield file


def records_of_shard(shard: Shard, record_format: RecordFormat) -> Iterator[bytes]:
    """Yields the wanted records of a shard.

    If they are all records, the length and the checksum of the file are compared at its end.

    Raises:
      DamagedRecordError: the shard is damaged, or is not the one in the manifest.
    """
    uri, wanted, count = shard.uri, shard.wanted, 0
    with open_shard(uri) as file:
        measured: Any = example_view.MeasuredFile(file) if len(wanted) == shard.examples else None
        for record in record_format.records_in(measured or file, uri, wanted):
            yield record
            count += 1
        if count < len(wanted):
            raise errors.DamagedRecordError(
                f"{uri}: ends before record {wanted.start + count}, the manifest lists more"
            )
        if not measured:
            return
        measured.finish()
        if measured.bytes != shard.bytes or shard.crc32c not in ("", crc32c_text(measured.crc32c)):
            raise errors.DamagedRecordError(
                f"{uri}: its {measured.bytes} bytes with the checksum {crc32c_text(measured.crc32c)} are not "
                f"the {shard.bytes} bytes with {shard.crc32c or 'any'} in the manifest: it was replaced"
            )


class Records:
    """Reads single records; keeps where they are, 8 bytes each, once their shard was used.

    It may be pickled, and used by several threads and by forked processes.

    Args:
      shards: shards of a format that passes `check_jumps`.
      record_format: the format.
    """

    def __init__(self, shards: Sequence[Shard], record_format: RecordFormat) -> None:
        self._shards = shards
        self._format = record_format
        self._remote = any(uris.is_remote(shard.uri) for shard in shards)
        self._wanted = [shard.wanted for shard in shards]
        self._ends = list(accumulate(map(len, self._wanted)))
        self._files = local.OpenFiles()
        self._offsets: dict[str, Sequence[int]] = {}

    @property
    def total(self) -> int:
        """The number of wanted records of all shards."""
        return self._ends[-1] if self._ends else 0

    def _place(self, position: int) -> tuple[Shard, int]:
        """The shard of a record, and its number there."""
        index = bisect_right(self._ends, position)
        return self._shards[index], self._wanted[index][position - self._ends[index]]

    def read(self, position: int) -> tuple[bytes, str]:
        """Reads one record and checks its checksums; returns it with the URI of its shard.

        Args:
          position: of the record among the wanted ones of all shards, from 0.

        Raises:
          ConversionError: the receipt of its shard is damaged.
          DamagedRecordError: the record, or the index of its shard, is damaged or cannot be read.
        """
        shard, number = self._place(position)
        offsets, uri = self._offsets_of(shard), shard.uri
        offset = offsets[number]
        size = offsets[number + 1] - offset
        where = f"{uri}: record {number} at byte {offset}"
        if size > tfrecord.MAX_RECORD_BYTES + tfrecord.FRAMING_BYTES:
            raise errors.DamagedRecordError(
                f"{where}: it has {size} bytes, an example has less than 2 GiB"
            )
        with files.naming(where, errors.DamagedRecordError):
            data = b"" if self._remote else self._files.read(uri, size, offset)
            if len(data) < size:
                data = files.read_image(uri, size, offset)
        records = list(islice(self._format.records(io.BytesIO(data), where), 2))
        if len(records) != 1:
            raise errors.DamagedRecordError(f"{where}: {len(records)} records where one is indexed")
        return records[0], uri

    def read_all(self, positions: Sequence[int]) -> Iterable[tuple[bytes, str]]:
        """Reads several records in their order; from a bucket in parallel. Raises as `read`."""
        if len(positions) < 2 or not self._remote:
            return map(self.read, positions)
        from beam_pipeline.storage.read_ahead import REMOTE_READS

        with ThreadPoolExecutor(min(REMOTE_READS, len(positions))) as threads:
            shards = {shard.uri: shard for shard, _ in map(self._place, positions)}
            list(threads.map(self._offsets_of, shards.values()))
            return list(threads.map(self.read, positions))

    def _offsets_of(self, shard: Shard) -> Sequence[int]:
        """The offset of each record of a shard and, last, of their end; looked up once."""
        if shard.uri not in self._offsets:
            sizes = _record_sizes(shard, self._format)
            offsets = tfrecord.record_offsets(
                sizes, shard.uri, examples=shard.examples, size=shard.bytes
            )
            self._offsets[shard.uri] = array("q", offsets)
        return self._offsets[shard.uri]


@functools.cache  # once in a process
def _warn_of_scan(folder: str) -> None:
    _log.warning(
        "%s lacks receipts, which list where records begin, so whole shards are searched for "
        "them; once only, after: beam-tfrecord index %s",
        folder,
        folder,
    )


def _record_sizes(shard: Shard, record_format: RecordFormat) -> Sequence[int]:
    """The bytes of each record by the receipt or the index of a shard, else by the headers of all.

    Raises:
      ConversionError: the receipt is damaged.
      DamagedRecordError: the index is.
    """
    from beam_pipeline.work.receipts import read_record_sizes

    folder, _, name = shard.uri.rpartition("/")
    if sizes := read_record_sizes(folder, name):
        return sizes
    index = files.join(folder, record_format.index_name(name))
    with files.naming(index, errors.DamagedRecordError):
        data = files.read_if_there(index)
    if data is not None:
        return tfrecord.parse_index(data, index)
    _warn_of_scan(folder)
    with open_shard(shard.uri) as file:
        return [*record_format.sizes(file, shard.uri)]
