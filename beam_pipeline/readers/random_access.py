"""The examples of a split by number, in any order: for Grain, PyTorch's samplers, and notebooks."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, overload

from beam_pipeline.core import errors, references
from beam_pipeline.core.records.formats import check_jumps
from beam_pipeline.dataset import Folders, fingerprint, open_to_read
from beam_pipeline.readers import samples, shards


class RandomAccess:
    """The examples of one split, by their number in the stored order.

    An example is a dict with every feature of the manifest under its key: bytes, an int, a
    `numpy.float32`, a NumPy array of int64 or float32, a list of bytes, or None for a missing
    optional feature. Each access reads one record, with one request if the shard is in a bucket,
    and checks both of its checksums. Several indices at once are read in parallel from a bucket.

    It is a data source for Grain and a map-style data set for PyTorch. It may be pickled, and used
    by several threads and by forked processes.

    Args:
      folder: the output folder of a conversion, or its URI; or several of the same features and
        classes, which are mixed in proportion.
      split: name of a split, or a slice of one, such as `train[:10%]`.
      features: the keys of the features to read; others are not decoded. By default all.
      weights: for each of several folders, how many times a pass reads it.
      decode: a function that turns an example into a sample; or True to replace the encoded image
        by its pixels, "image", [height, width, channels], and an encoded mask by "mask", uint8 or
        uint16 [height, width, 1], and `right/encoded` of --file_columns by "right". With True, a missing optional value is b"", NaN or the least
        int64, so that samples can be batched.
      image_size: (height, width) in pixels to resize to with decode=True, bilinear with
        antialiasing, ignoring the aspect ratio; one number for both, or "WIDTHxHEIGHT". By default
        images keep their size.
      channels: 1, 3 or 4, with decode=True; images with another number are converted.
      exact: True to decode every pixel of a JPEG before it is resized. By default it is decoded at
        1/2, 1/4 or 1/8 of its size if that is still 1.5 times `image_size` or more.
      dtype: "uint8", the upper 8 bits of PNGs of 16, so that data of 12 is at most 15; or "uint16" for all
        bits: then 8 bits are multiplied by 257, and 12 reach 4,095.

    Raises:
      UsageError: the split does not exist, shards are compressed, or an option does not fit the data set.
      ConversionError: the folder does not contain a complete data set.
      DamagedRecordError: a local shard does not have the length in the manifest; later, a record is
        damaged.
    """

    def __init__(
        self,
        folder: Folders,
        split: str = references.DEFAULT_SPLIT,
        *,
        features: Sequence[str] | None = None,
        weights: Sequence[int] | None = None,
        decode: bool | samples.Decoder = False,
        image_size: Any = None,
        channels: int = 3,
        exact: bool = False,
        dtype: str = "uint8",
    ) -> None:
        dataset = open_to_read(folder, weights)
        own_shards = dataset.shards(split)
        record_format = dataset.manifest.record_format
        check_jumps(record_format, dataset.path, "RandomAccess")
        shards.check_shards(dataset, own_shards)
        self._data = fingerprint(own_shards)
        self._name = f"{dataset.path!r}, {split!r}"
        options = samples.PixelOptions(image_size, channels, exact, dtype)
        self._sampler = samples.sampler_of(dataset, own_shards, features, decode, options)
        self._records = shards.Records(own_shards, record_format)

    def __len__(self) -> int:
        return self._records.total

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice | Iterable[int]) -> list[Any]: ...
    def __getitem__(self, index: Any) -> Any:
        """The sample of a number from -len to len - 1; a list of them for a slice or several numbers.

        Raises:
          IndexError: the sample does not exist.
          DamagedRecordError: its record, or the index of its shard, is damaged or cannot be read.
        """
        if isinstance(index, slice):
            return self.__getitems__(range(*index.indices(len(self))))
        try:
            position = self._position(index)
        except TypeError:
            if not isinstance(index, Iterable) or isinstance(index, str | bytes):
                raise TypeError(
                    f"the index is {index!r}, expected an int, a slice or several ints"
                ) from None
            return self.__getitems__(index)
        return self._sampler(*self._records.read(position))

    def __getitems__(self, indices: Iterable[int]) -> list[Any]:
        """The samples of several numbers, in their order; PyTorch asks for batches in this way."""
        records = self._records.read_all([*map(self._position, indices)])
        return [self._sampler(*record) for record in records]

    def __iter__(self) -> Iterator[Any]:
        return (self[index] for index in range(len(self)))

    def __repr__(self) -> str:
        """Names the data set, the same in every process: Grain compares it before it resumes."""
        return f"RandomAccess({self._name}, {len(self)} examples, {self._data})"

    def state_dict(self) -> dict[str, str]:
        """Names the data set, for torchdata's `StatefulDataLoader`, which saves its position."""
        return {"data": self._data}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Checks that a position was saved with this data set. Raises UsageError."""
        check_position(state_dict, self.state_dict())

    def record(self, index: int) -> bytes:
        """The serialized `tf.train.Example` of a number. Raises as indexing does."""
        return self._records.read(self._position(index))[0]

    def _position(self, index: Any) -> int:
        number, total = operator.index(index), self._records.total
        number += total if number < 0 else 0
        if not 0 <= number < total:
            raise IndexError(f"sample {index} of {total}")
        return number


def check_position(saved: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
    """Checks that a position was saved with the same data and settings, because the order depends on them.

    Raises:
      UsageError: names those that differ.
    """
    differences = [
        f"{name} was {saved.get(name)}, is {value}"
        for name, value in settings.items()
        if saved.get(name) != value
    ]
    if differences:
        raise errors.UsageError(
            f"the position was saved with another data set or other settings: {'; '.join(differences)}; "
            "expected the same data set, seed, shuffle_buffer, rank and numbers of ranks and workers"
        )
