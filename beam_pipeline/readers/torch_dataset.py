"""A data set for PyTorch's `DataLoader`: each example once, with any number of workers and ranks.

Needs torch, google-crc32c and protobuf, but neither TensorFlow nor, for local files, Beam.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import torch
from torch import distributed
from torch.utils.data import IterableDataset, get_worker_info

from beam_pipeline.dataset import Folders, open_to_read
from beam_pipeline.readers.example_values import example_values
from beam_pipeline.readers.shards import open_shard
from beam_pipeline.transforms.core.errors import DamagedRecordError, UsageError
from beam_pipeline.transforms.core.records.record_format import RecordFormat


class TFRecordDataset(IterableDataset[Any]):
    """The examples of one split, divided among ranks and, within a rank, among a loader's workers.

    Each gets an equal range of the split's records, so there may be more workers than shards. An
    example
    is a dict with every feature of the manifest: bytes, int or float, None for a missing optional
    feature, or a list, depending on the manifest. Checksums are verified.

    Args:
      folder: a complete data set, or a URI that Beam reads; or several of the same features and
        classes, which are mixed in proportion.
      split: the name of one of its splits.
      decode: turns an example into a sample, in the worker; by default the dict is the sample.
      shuffle_buffer: records that each worker holds to draw from at random; shards then come in
        another order each epoch. With 0, records come in the stored order, which is shuffled once.
      seed: shuffle seed.
      rank: rank of this process among the training processes; by default torch.distributed's, or 0.
      ranks: number of training processes; by default torch.distributed's, or 1.
      even: gives every rank the same number of samples, as DistributedDataParallel needs; up to
        ranks - 1 samples are left out of an epoch.

    Attributes:
      examples: number of examples that this rank gets in an epoch.

    Raises:
      UsageError: there is no such split or rank.
      ConversionError: there is no manifest, or it cannot be read.
      DamagedRecordError: while iterating: a shard is damaged or ends too early.
    """

    def __init__(
        self,
        folder: Folders,
        split: str = "train",
        *,
        decode: Callable[[dict[str, Any]], Any] | None = None,
        shuffle_buffer: int = 0,
        seed: int = 0,
        rank: int | None = None,
        ranks: int | None = None,
        even: bool = False,
    ) -> None:
        super().__init__()
        dataset = open_to_read(folder)
        self._shards = dataset.shards(split)
        self._features = dataset.features
        self._record_format = dataset.record_format
        self._decode = decode
        self._shuffle_buffer = shuffle_buffer
        self._seed = seed
        running = distributed.is_available() and distributed.is_initialized()
        self._rank = (distributed.get_rank() if running else 0) if rank is None else rank
        ranks = (distributed.get_world_size() if running else 1) if ranks is None else ranks
        if not 0 <= self._rank < ranks:
            raise UsageError(f"rank is {self._rank}, expected 0 to {ranks - 1} of {ranks} ranks")
        total = sum(shard.examples for shard in self._shards)
        self._range = _part(total - total % ranks if even else total, self._rank, ranks)
        self.examples = len(self._range)
        # In shared memory, because persistent workers keep their copy of this object.
        self._epoch = torch.zeros(1, dtype=torch.int64).share_memory_()

    def set_epoch(self, epoch: int) -> None:
        """Sets the number of the epoch, on which the order depends; call it before each epoch."""
        self._epoch[0] = epoch

    def __iter__(self) -> Iterator[Any]:
        info = get_worker_info()
        worker, workers = (info.id, info.num_workers) if info else (0, 1)
        part = _part(len(self._range), worker, workers)
        start = self._range.start
        records = self._records(range(start + part.start, start + part.stop))
        if self._shuffle_buffer:
            rng = self._rng(self._rank, worker)
            records = _shuffled(records, self._shuffle_buffer, rng)
        for uri, record in records:
            example = example_values(record, uri, self._features)
            yield self._decode(example) if self._decode else example

    def _rng(self, *names: int) -> random.Random:
        """Returns a random number generator for this epoch; equal names give equal generators."""
        return random.Random(repr((self._seed, int(self._epoch[0]), *names)))  # noqa: S311

    def _records(self, wanted: range) -> Iterator[tuple[str, bytes]]:
        """Yields (shard, record) of a range of the split's records, in this epoch's order of shards."""
        shards = list(self._shards)
        if self._shuffle_buffer:
            self._rng().shuffle(shards)
        first = 0
        for shard in shards:
            last = first + shard.examples
            inside = range(max(wanted.start, first) - first, min(wanted.stop, last) - first)
            if inside:
                for record in _read_range(shard.uri, inside, self._record_format):
                    yield shard.uri, record
            first = last


def _part(total: int, number: int, of: int) -> range:
    """Returns one of `of` ranges, as equal as possible, that divide range(total)."""
    return range(total * number // of, total * (number + 1) // of)


def _shuffled(
    records: Iterator[tuple[str, bytes]], size: int, rng: random.Random
) -> Iterator[tuple[str, bytes]]:
    """Yields each record once, drawn at random from a buffer."""
    held = list(islice(records, size))
    for record in records:
        index = rng.randrange(size)
        yield held[index]
        held[index] = record
    rng.shuffle(held)
    yield from held


def _read_range(uri: str, wanted: range, record_format: RecordFormat) -> Iterator[bytes]:
    """Yields the records of a shard whose numbers are in a range.

    Raises:
      DamagedRecordError: the shard is damaged, or has no such records.
    """
    found = 0
    with open_shard(uri) as file:
        for record in record_format.records_in(file, uri, wanted):
            yield record
            found += 1
    if found < len(wanted):
        raise DamagedRecordError(
            f"{uri}: ends before record {wanted.start + found}, the manifest says there are more"
        )
