"""A data set for PyTorch's `DataLoader`: each example once, with any number of workers and ranks.

Needs torch, google-crc32c and protobuf, but neither TensorFlow nor, for local files, Beam.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from beam_pipeline.core.errors import UsageError
from beam_pipeline.dataset import Folders, Shard, cut, fingerprint, is_count, open_to_read
from beam_pipeline.readers import random_access, samples
from beam_pipeline.readers.shards import check_shards, records_of_shard

try:
    import torch
except ModuleNotFoundError as error:
    if error.name == "torch":
        error.msg += "; reading with PyTorch needs PyTorch: pip install torch"
    raise
from torch import distributed
from torch.utils.data import IterableDataset, get_worker_info

_Record = tuple[bytes, str]
"""(serialized example, its shard)"""


class TFRecordDataset(IterableDataset[Any]):
    """The examples of one split, divided among ranks and, within a rank, among a loader's workers.

    Each gets an equal range of the split's records, so there may be more workers than shards. An
    example is a dict with every feature of the manifest under its key: bytes, an int, a
    `numpy.float32`, a NumPy array of int64 or float32, a list of bytes, or None for a missing
    optional feature. Checksums are verified.

    Its length is the number of samples that this rank gets in an epoch. Iterators have `state_dict`
    and `load_state_dict`, which torchdata's `StatefulDataLoader` uses to save and restore its position.

    Args:
      folder: a complete data set, or a URI that Beam reads; or several of the same features and
        classes, which are mixed in proportion.
      split: the name of one of its splits, or a slice of one, such as `train[:10%]`.
      features: the keys of the features to read; others are not decoded. By default all.
      weights: for each of several folders, how many times an epoch reads it.
      decode: turns an example into a sample, in the worker; by default the dict is the sample. True
        replaces the encoded image by its pixels, "image", [height, width, channels], and an encoded
        mask by "mask", uint8 or uint16 [height, width, 1], and `right/encoded` of --file_columns by "right"; a missing optional value is then b"", NaN
        or the least int64, so that samples can be batched.
      shuffle_buffer: records that each worker keeps to draw from at random; shards then come in
        another order each epoch. With 0, records come in the stored order, which is shuffled once.
      seed: shuffle seed.
      rank: rank of this process among the training processes; by default torch.distributed's, or 0.
      ranks: number of training processes; by default torch.distributed's, or 1.
      even: gives every rank the same number of samples, as DistributedDataParallel needs; up to
        ranks - 1 samples are left out of an epoch.
      image_size: (height, width) in pixels to resize to with decode=True, bilinear with
        antialiasing, ignoring the aspect ratio; one number for both, or "WIDTHxHEIGHT". By default
        images keep their size.
      channels: 1, 3 or 4, with decode=True; images with another number are converted.
      exact: True to decode every pixel of a JPEG before it is resized. By default it is decoded at
        1/2, 1/4 or 1/8 of its size if that is still 1.5 times `image_size` or more.
      dtype: "uint8", or "uint16" for all bits of PNGs of 16; 8 bits are then scaled by 257.

    Attributes:
      examples: number of examples that this rank gets in an epoch.

    Raises:
      UsageError: the split does not exist or rank, or an option does not fit the data set.
      ConversionError: the manifest is missing, or it cannot be read.
      DamagedRecordError: a local shard does not have the length in the manifest; while iterating: a
        shard is damaged or was replaced.
    """

    def __init__(
        self,
        folder: Folders,
        split: str = "train",
        *,
        features: Sequence[str] | None = None,
        weights: Sequence[int] | None = None,
        decode: bool | samples.Decoder | None = None,
        shuffle_buffer: int = 0,
        seed: int = 0,
        rank: int | None = None,
        ranks: int | None = None,
        even: bool = False,
        image_size: Any = None,
        channels: int = 3,
        exact: bool = False,
        dtype: str = "uint8",
    ) -> None:
        super().__init__()
        if shuffle_buffer and not is_count(shuffle_buffer):
            raise UsageError(
                f"shuffle_buffer is {shuffle_buffer!r}, expected a whole number from 0 on"
            )
        dataset = open_to_read(folder, weights)
        self._shards = dataset.shards(split)
        check_shards(dataset, self._shards)
        self._data = fingerprint(self._shards)
        self._record_format = dataset.manifest.record_format
        options = samples.PixelOptions(image_size, channels, exact, dtype)
        self._sample = samples.sampler_of(dataset, self._shards, features, decode, options)
        self._shuffle_buffer = shuffle_buffer
        self._seed = seed
        running = distributed.is_available() and distributed.is_initialized()
        self._rank = (distributed.get_rank() if running else 0) if rank is None else rank
        ranks = (distributed.get_world_size() if running else 1) if ranks is None else ranks
        if not 0 <= self._rank < ranks:
            raise UsageError(f"rank is {self._rank}, expected 0 to {ranks - 1} of {ranks} ranks")
        total = sum(len(shard.wanted) for shard in self._shards)
        self._range = _part(total - total % ranks if even else total, self._rank, ranks)
        self.examples = len(self._range)
        # In shared memory, because persistent workers keep their copy of this object.
        self._epoch = torch.zeros(1, dtype=torch.int64).share_memory_()

    def set_epoch(self, epoch: int) -> None:
        """Sets the epoch number, which the order depends on; call it before each epoch."""
        self._epoch[0] = epoch

    def __len__(self) -> int:
        return self.examples

    def __iter__(self) -> Iterator[Any]:
        info = get_worker_info()
        worker, workers = (info.id, info.num_workers) if info else (0, 1)
        part = _part(len(self._range), worker, workers)
        return _Samples(self, self._range[part.start : part.stop], int(self._epoch[0]), worker)

    def _left(self, part: range, read: int, epoch: int, worker: int) -> Iterator[_Record]:
        """Yields the records of a worker's part that follow those it has read in an epoch.

        Only those that lie between records left in its buffer are read again: drawing numbers instead of records
        tells which were left in the buffer.
        """
        size, shards = self._shuffle_buffer, list(self._shards)
        if not size:
            yield from self._records(shards, part[read:])
            return
        self._rng(epoch).shuffle(shards)
        rng = self._rng(epoch, self._rank, worker)
        held, following = list(part[:size]), part[size:]
        drawn = min(read, len(following))
        for position in following[:drawn]:
            held[rng.randrange(size)] = position
        if drawn < read:
            rng.shuffle(held)
            yield from self._at(shards, held[read - drawn :])
            return
        buffer = list(self._at(shards, held))
        for record in self._records(shards, following[drawn:]):
            index = rng.randrange(size)
            yield buffer[index]
            buffer[index] = record
        rng.shuffle(buffer)
        yield from buffer

    def _rng(self, epoch: int, *names: int) -> random.Random:
        """Returns a random number generator for an epoch; equal names give equal generators."""
        return random.Random(repr((self._seed, epoch, *names)))  # noqa: S311

    def _records(self, shards: Iterable[Shard], wanted: range) -> Iterator[_Record]:
        """Yields a range of the records of shards, read one after another."""
        for shard in cut(shards, wanted):
            for record in records_of_shard(shard, self._record_format):
                yield record, shard.uri

    def _at(self, shards: Sequence[Shard], positions: Sequence[int]) -> Iterable[_Record]:
        """The records at some positions, in their order; those between them are read as well."""
        wanted = range(min(positions, default=0), max(positions, default=-1) + 1)
        in_buffer = set(positions)
        records = zip(wanted, self._records(shards, wanted), strict=True)
        read = {position: record for position, record in records if position in in_buffer}
        return [read[position] for position in positions]


class _Samples(Iterator[Any]):
    """The samples of one worker in one epoch; its position can be saved and restored."""

    def __init__(self, dataset: TFRecordDataset, part: range, epoch: int, worker: int) -> None:
        self._dataset = dataset
        self._part = part
        self._epoch = epoch
        self._worker = worker
        self._read = 0
        self._records: Iterator[_Record] | None = None

    def __next__(self) -> Any:
        if self._records is None:
            self._records = self._dataset._left(self._part, self._read, self._epoch, self._worker)
        record, uri = next(self._records)
        self._read += 1
        return self._dataset._sample(record, uri)

    def state_dict(self) -> dict[str, Any]:
        """The position, with what it depends on."""
        return {"epoch": self._epoch, "read": self._read, **self._settings()}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Goes to a position that `state_dict` returned.

        Raises:
          UsageError: it was saved with another data set or other settings, of another order.
        """
        random_access.check_position(state_dict, self._settings())
        self._epoch, self._read = state_dict["epoch"], state_dict["read"]
        self._records = None

    def _settings(self) -> dict[str, int | str]:
        dataset = self._dataset
        return {
            "rank": dataset._rank,
            "worker": self._worker,
            "first": self._part.start,
            "last": self._part.stop,
            "data": dataset._data,
            "seed": dataset._seed,
            "shuffle_buffer": dataset._shuffle_buffer,
        }


def _part(total: int, number: int, of: int) -> range:
    """Returns one of `of` ranges, as equal as possible, that divide range(total)."""
    return range(total * number // of, total * (number + 1) // of)
