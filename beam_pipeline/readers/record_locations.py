"""The place of each record in its shard, so that a reader can jump to any of them.

It is looked up in the shard's receipt, which a conversion writes; else in the index file beside the
shard, which `beam-tfrecord index` writes; else the headers of all records are read.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from beam_pipeline.core.errors import DamagedRecordError
from beam_pipeline.core.records.record_format import RecordFormat
from beam_pipeline.core.records.record_index import parse_index
from beam_pipeline.core.records.record_sizes import record_offsets
from beam_pipeline.dataset import Shard
from beam_pipeline.readers.shards import open_shard
from beam_pipeline.storage import files
from beam_pipeline.work.receipt_files import read_record_sizes


def noted_offsets(shard: Shard, record_format: RecordFormat) -> Sequence[int] | None:
    """The offset of each record and, last, of their end; None if no file beside the shard says.

    Args:
      shard: a shard of an indexable format.
      record_format: the format.

    Raises:
      ConversionError: the receipt is damaged.
      DamagedRecordError: the index is, or does not fit the shard.
    """
    if not shard.examples:
        return array("q", [0])
    folder, _, name = shard.uri.rpartition("/")
    sizes = read_record_sizes(folder, name)
    if not sizes:
        index = files.join(folder, record_format.index_name(name))
        try:
            data = files.read_if_there(index)
        except OSError as error:
            raise DamagedRecordError(
                f"{index} cannot be read: {error.strerror or error}"
            ) from error
        if data is None:
            return None
        sizes = parse_index(data, index)
    return _offsets(sizes, shard)


def scanned_offsets(shard: Shard, record_format: RecordFormat) -> Sequence[int]:
    """The same by reading the header of every record; in a bucket, the whole shard is read.

    Raises:
      DamagedRecordError: the shard cannot be read, is damaged, or differs from the manifest.
    """
    with open_shard(shard.uri) as file:
        sizes = [span.size for span in record_format.spans(file, shard.uri)]
    return _offsets(sizes, shard)


def _offsets(sizes: Sequence[int], shard: Shard) -> Sequence[int]:
    found = record_offsets(sizes, shard.uri, examples=shard.examples, size=shard.bytes)
    return array("q", found)
