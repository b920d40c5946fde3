"""Assigns each sample a split, a shard and a position, all from a hash of (seed, key) alone.

The assignment depends on no other sample, no listing order, no worker and no runner. Samples are
in the order of their hashes; the shards of a split cut that order into equal ranges of hashes, so
another number of shards cuts the same order elsewhere:

    hash    00...        40...        80...        c0...        ff...
    2 shards |----------- 0 ----------|----------- 1 ----------|
    4 shards |---- 0 ----|---- 1 -----|---- 2 -----|---- 3 ----|
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple

from beam_pipeline.core import packing, references
from beam_pipeline.core.records.image_statistics import NOTHING_COUNTED, ImageStatistics
from beam_pipeline.core.records.record_format import RecordFormat

MOST_SHARDS = 10**6
DEFAULT_SHARD_BYTES = 200_000_000  # TensorFlow's guide asks for 100 MB or more a file

_HASH_SPACE = 1 << 64
_DOMAIN = b"beam-tfrecord/1"  # another one would move every sample of every data set


class KeyHash(NamedTuple):
    """Attributes: split_hash, an integer below 2**64; order, 16 bytes that samples are sorted by."""

    split_hash: int
    order: bytes


class KeyHasher:
    """Hashes keys: BLAKE2b of the key's UTF-8 bytes, keyed with the seed.

    With `by_image`, rows of an image have its hash, and so are neighbours.
    """

    def __init__(self, seed: int, *, by_image: bool = False) -> None:
        self._by_image = by_image
        key = str(seed).encode()
        if len(key) > hashlib.blake2b.MAX_KEY_SIZE:
            key = hashlib.blake2b(key).digest()
        self._hasher = hashlib.blake2b(digest_size=24, key=key, person=_DOMAIN)

    def hash(self, key: str) -> KeyHash:
        """The hash of a key, the same everywhere and always."""
        digest = self._digest(key)
        return KeyHash(int.from_bytes(digest[:8], "big"), digest[8:])

    def order(self, key: str) -> bytes:
        """The bytes that the sample of a key is sorted by."""
        return self._digest(key)[8:]

    def _digest(self, key: str) -> bytes:
        hasher = self._hasher.copy()
        hasher.update((references.image_of(key) if self._by_image else key).encode())
        return hasher.digest()


def shard_of(order: bytes, num_shards: int) -> int:
    """The shard of a split, from 0, whose range of hashes contains this one."""
    return int.from_bytes(order[:8], "big") * num_shards >> 64


@dataclass(frozen=True)
class SplitFractions:
    """Splits by share, such as train=0.9,validation=0.1.

    Attributes:
      fractions: (split, share) in the order given; the shares add up to 1.
    """

    fractions: tuple[tuple[str, Fraction], ...]

    def __post_init__(self) -> None:
        total = sum(share for _, share in self.fractions)
        if total != 1:
            raise ValueError(f"the shares add up to {float(total)!r}, not to 1")

    @cached_property
    def _bounds(self) -> Sequence[tuple[str, int]]:
        """(split, the hash from which on samples are of the next split)."""
        ends = accumulate(share for _, share in self.fractions)
        names = (name for name, _ in self.fractions)
        return [(name, int(end * _HASH_SPACE)) for name, end in zip(names, ends, strict=True)]

    def __str__(self) -> str:
        """The shares as --splits takes them: `train=0.9,test=0.1` or `a=1/3,b=2/3`."""
        return ",".join(f"{name}={_share_text(share)}" for name, share in self.fractions)

    def split_of(self, split_hash: int) -> str:
        """The split whose share of the hashes contains this one."""
        return next(name for name, bound in self._bounds if split_hash < bound)


def _share_text(share: Fraction) -> str:
    """A share as a decimal, if that is exactly it."""
    decimal = str(float(share))
    return decimal if Fraction(decimal) == share else str(share)


@dataclass(frozen=True)
class ShardConfig:
    """The requested number or size of shards.

    Attributes:
      num_shards: a number for every split, or one a split, or None.
      shard_bytes: target size in bytes where no number is given.
    """

    num_shards: int | Mapping[str, int] | None = None
    shard_bytes: int = DEFAULT_SHARD_BYTES

    def is_counted(self, split: str) -> bool:
        """Tells whether the number of a split's shards was given."""
        return isinstance(self.num_shards, int) or split in (self.num_shards or ())

    def count_for(self, split: str, total_bytes: int) -> int:
        """Shards of a split whose images have that many bytes."""
        wanted = self.num_shards
        given = wanted if isinstance(wanted, int) else (wanted or {}).get(split)
        return given or max(1, -(-total_bytes // self.shard_bytes))


class ShardSpec(NamedTuple):
    """The plan for one shard.

    Attributes:
      split: the split it belongs to.
      number: its number in the split, from 0.
      of: number of shards in the split.
      file_name: its name in the output folder.
    """

    split: str
    number: int
    of: int
    file_name: str


class ShardInfo(NamedTuple):
    """The figures of a shard that was written.

    Attributes:
      split, number, file_name: as in its `ShardSpec`.
      examples: records in it.
      bytes: length of the file.
      crc32c: CRC-32C of the file.
      classes: (class id, examples or objects) for each class in it, in order of id.
      events: (what happened to images, how often), sorted; empty if nothing did.
      codec: what encoded images of it, with versions; empty if none was encoded.
      statistics: of its images and labels; empty where they are not known.
    """

    split: str
    number: int
    file_name: str
    examples: int
    bytes: int
    crc32c: int
    classes: tuple[tuple[int, int], ...]
    events: tuple[tuple[str, int], ...] = ()
    codec: str = ""
    statistics: ImageStatistics = NOTHING_COUNTED

    @property
    def images(self) -> ImageFigures:
        """Counts of its images, and of the changes to them."""
        return ImageFigures(self.events, (self.codec,) if self.codec else (), self.statistics)


class ImageFigures(NamedTuple):
    """Counts of the images of some shards, and of the changes to them.

    Attributes:
      events: (what happened, how often), sorted.
      codecs: all that encoded images, with versions, sorted.
      statistics: of images and labels.
    """

    events: tuple[tuple[str, int], ...] = ()
    codecs: tuple[str, ...] = ()
    statistics: ImageStatistics = NOTHING_COUNTED


@dataclass(frozen=True)
class ShardPlan:
    """All shards of a data set, numbered through the splits in the order of their names.

    Attributes:
      name: data set name in file names.
      shards: (split, number of shards), sorted by split.
      record_format: the format of their files.
    """

    name: str
    shards: tuple[tuple[str, int], ...]
    record_format: RecordFormat

    @property
    def specs(self) -> Sequence[ShardSpec]:
        """Every shard; its index in this list is the number that samples are grouped by."""
        return [self._spec(split, i, n) for split, n in self.shards for i in range(n)]

    def spec(self, number: int) -> ShardSpec:
        """The shard of a number, without making all of them."""
        for split, (first, of) in self.first_shard.items():
            if number < first + of:
                return self._spec(split, number - first, of)
        raise IndexError(f"shard {number} of {self.shards}")

    def _spec(self, split: str, number: int, of: int) -> ShardSpec:
        file_name = self.record_format.shard_name(self.name, split, number, of)
        return ShardSpec(split=split, number=number, of=of, file_name=file_name)

    @property
    def first_shard(self) -> dict[str, tuple[int, int]]:
        """Split -> (number of its first shard, number of its shards)."""
        starts = accumulate((n for _, n in self.shards), initial=0)
        return {split: (start, n) for start, (split, n) in zip(starts, self.shards, strict=False)}


_KEY, _SPLIT = map(references.SampleRef._fields.index, ("key", "split"))


@dataclass(frozen=True)
class ShardDivision:
    """The shards of samples.

    Attributes:
      shard_plan: all shards.
      seed: of the hash that places samples.
      by_image: rows of an image are neighbours.
    """

    shard_plan: ShardPlan
    seed: int
    by_image: bool = False

    @property
    def parts(self) -> int:
        """The number of shards."""
        return sum(count for _, count in self.shard_plan.shards)

    def numbers(self, columns: packing.Columns) -> Sequence[int]:
        """The shard of each sample, by the hash of its key."""
        order = KeyHasher(self.seed, by_image=self.by_image).order
        places = map(self.shard_plan.first_shard.__getitem__, columns[_SPLIT])
        return [
            first + shard_of(order(key), count)
            for key, (first, count) in zip(columns[_KEY], places, strict=True)
        ]
