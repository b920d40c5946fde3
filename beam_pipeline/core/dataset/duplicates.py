"""Duplicates: images of the same bytes, and where they matter most.

Two copies of an image in one split weigh it double. Copies with different labels contradict each
other. Copies in two splits are a leak: a model is tested on what it was trained on.

Images are compared by digest, in ranges, so that no worker keeps all:

    shard 0: (digest, labels, key) ...  --range 0-->  groups of equal digests --.
    shard 1: (digest, labels, key) ...  --range 1-->  groups of equal digests --+-> `Duplicates`
"""

from __future__ import annotations

import heapq
import pickle
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from hashlib import blake2b
from itertools import chain
from typing import Any, NamedTuple

from beam_pipeline.core import packing, references, typed_json
from beam_pipeline.core.dataset import changes, receipts
from beam_pipeline.core.dead_letters import DeadLetter, Reason, Stage, image_dead_letter
from beam_pipeline.core.images.header import DIGEST_BYTES, NO_DIGEST
from beam_pipeline.core.references import DEFAULT_SPLIT
from beam_pipeline.core.text import counted

DUPLICATES_NAME = "duplicates.json"
_FORMAT = "beam-tfrecord-duplicates"

POLICIES = ("keep", "first", "error")
"""Values of --duplicates; the first is the default."""

_MOST_EXAMPLES = 20


@dataclass(frozen=True)
class ImagePlace:
    """An image of the data set."""

    split: str
    key: str


@dataclass(frozen=True)
class DuplicateGroup:
    """Images of the same bytes.

    Attributes:
      images: how many.
      splits: split -> images in it, sorted.
      different_labels: whether their labels differ.
      shown: some: the first of each split, then the first of all, by key.
    """

    images: int
    splits: Mapping[str, int]
    different_labels: bool
    shown: tuple[ImagePlace, ...]

    @property
    def is_leak(self) -> bool:
        """True if they are in several splits."""
        return len(self.splits) > 1


@dataclass(frozen=True)
class Duplicates:
    """The duplicates among some images, by the names that they have in `duplicates.json`.

    Attributes:
      images: images of the same bytes as another.
      groups: groups of images with the same bytes.
      copies: images that are not the one of their group to keep.
      examples: some groups, leaks first, then those with different labels.
    """

    images_compared: int
    images: int = 0
    groups: int = 0
    copies: int = 0
    groups_across_splits: int = 0
    groups_with_different_labels: int = 0
    examples: tuple[DuplicateGroup, ...] = ()

    @classmethod
    def of(cls, groups: Iterable[DuplicateGroup], compared: int) -> Duplicates:
        """The figures of some groups, which are not held in memory."""
        images = number = leaks = differing = 0
        examples: list[DuplicateGroup] = []
        for group in groups:
            images += group.images
            number += 1
            leaks += group.is_leak
            differing += group.different_labels
            examples.append(group)
            if len(examples) > 2 * _MOST_EXAMPLES:
                examples = _worst(examples)
        copies, worst = images - number, tuple(_worst(examples))
        return cls(compared, images, number, copies, leaks, differing, worst)

    @classmethod
    def sum_of(cls, parts: Iterable[Duplicates]) -> Duplicates:
        """All figures together; no group is in two parts."""
        *columns, examples = zip(*(vars(part).values() for part in (cls(0), *parts)), strict=True)
        figures: Any = (*map(sum, columns), tuple(_worst(chain.from_iterable(examples))))
        return cls(*figures)

    def to_json(self) -> dict[str, Any]:
        """The content of `duplicates.json`."""
        return {"format": _FORMAT, "format_version": typed_json.FORMAT_VERSION, **asdict(self)}


NO_DUPLICATES = Duplicates(0)


def parse_duplicates(data: bytes, uri: str) -> Duplicates:
    """Reads `duplicates.json` back.

    Raises:
      ConversionError: it is another program's file, or damaged.
    """
    fault = f"{uri} does not list the duplicates of a data set"
    duplicates: Duplicates = typed_json.parse(Duplicates, data, fault, file_format=_FORMAT)
    return duplicates


def _worst(groups: Iterable[DuplicateGroup]) -> list[DuplicateGroup]:
    """The groups to show: leaks first, then those with different labels, then by key."""

    def order(group: DuplicateGroup) -> tuple[bool, bool, str, str]:
        first = group.shown[0]
        return not group.is_leak, not group.different_labels, first.key, first.split

    return heapq.nsmallest(_MOST_EXAMPLES, groups, key=order)


def described(duplicates: Duplicates) -> Iterator[str]:
    """The duplicates, for people, one line each; none if there are none."""
    if not duplicates.groups:
        return
    worst, *further = duplicates.examples
    yield (
        f"{counted(duplicates.images, 'image')} in {counted(duplicates.groups, 'group')} of the same "
        f"bytes{_such_as(worst)}"
    )
    if duplicates.groups_across_splits:
        yield (
            f"{counted(duplicates.groups_across_splits, 'group')} across splits (such as "
            f"{' and '.join(worst.splits)}): a model would be tested on what it was trained on"
        )
    if duplicates.groups_with_different_labels:
        differ = [] if worst.different_labels else [g for g in further if g.different_labels]
        yield (
            f"{counted(duplicates.groups_with_different_labels, 'group')} with different labels"
            f"{_such_as(differ[0]) if differ else ''}"
        )


def _such_as(group: DuplicateGroup) -> str:
    keys = (
        f"{image.key} ({image.split})" if group.is_leak else image.key for image in group.shown[:2]
    )
    return f", such as {' and '.join(keys)}"


_IMAGES_A_RANGE = 1 << 18
_LABEL_HASH_BYTES = 8
_MOST_HASHES = 1 << 16  # that are remembered
_OF_ROWS = -1


class WrittenImage(NamedTuple):
    """An image that became an example.

    Attributes:
      digest: of its bytes.
      labels: a hash of its labels; `_OF_ROWS` if it has several rows or objects, which are compared apart.
      split: its split.
      key: its key.
    """

    digest: bytes
    labels: int
    split: str
    key: str


def range_count(samples: int) -> int:
    """The number of ranges of digests that are compared separately."""
    return -(-samples // _IMAGES_A_RANGE) or 1


def range_of(digest: bytes, ranges: int) -> int:
    """The range of a digest, from 0."""
    return int.from_bytes(digest[:8], "big") * ranges >> 64


def written_images(receipt: receipts.Receipt, hashes: LabelHashes) -> list[WrittenImage]:
    """The images of a shard that became examples, in the order of the shard.

    There are none if their digests are unknown.

    Args:
      receipt: of the shard.
      hashes: makes images of samples.
    """
    refs = receipt.inputs.refs if receipt.digests else ()
    images = map(hashes.image, refs, _split(receipt.digests))
    return [image for image in images if image.digest != NO_DIGEST]


def packed_images(images: Iterable[WrittenImage], ranges: int) -> list[tuple[int, bytes]]:
    """(range of digests, packed images)."""
    parts: dict[int, list[WrittenImage]] = defaultdict(list)
    for image in images:
        parts[range_of(image.digest, ranges)].append(image)
    return [(number, pack_images(part)) for number, part in sorted(parts.items())]


def pack_images(images: Iterable[WrittenImage]) -> bytes:
    """Packs images, one at least; their digests stay apart, because they do not deflate and mostly suffice."""
    digests, *columns = zip(*images, strict=True)
    return pickle.dumps((b"".join(digests), packing.pack_columns(columns)), pickle.HIGHEST_PROTOCOL)


def unpack_images(packed: bytes) -> Iterator[WrittenImage]:
    """Unpacks the images that `pack_images` took."""
    digests, columns = pickle.loads(packed)
    return packing.items_of(WrittenImage, (_split(digests), *packing.unpack_columns(columns)))


def _split(digests: bytes) -> list[bytes]:
    return [digests[i : i + DIGEST_BYTES] for i in range(0, len(digests), DIGEST_BYTES)]


class LabelHashes:
    """Hashes of what examples show of the labels of samples; labels that repeat are hashed once.

    Args:
      files: the indices of the labels that are files.
      rows: samples are rows or objects of images.
    """

    def __init__(self, files: Sequence[int] = (), *, rows: bool = False) -> None:
        self._files = files
        self._rows = rows
        self.of = lru_cache(_MOST_HASHES)(self._of)

    def image(self, ref: references.SampleRef, digest: bytes) -> WrittenImage:
        """The image of a sample."""
        key = references.image_of(ref.key) if self._rows else ref.key
        return WrittenImage(digest, self.of(ref.labels), ref.split, key)

    def _of(self, labels: tuple[references.LabelValue, ...]) -> int:
        if self._rows:
            return _OF_ROWS
        values: list[Any] = [changes.without_lines(value) for value in labels]
        for index in self._files:
            values[index] = [
                (size, *pixels) for _, size, _, *pixels in references.named_files(labels[index])
            ]
        text = repr(values).encode("utf-8", "surrogatepass")  # JSON takes three times as long
        return int.from_bytes(blake2b(text, digest_size=_LABEL_HASH_BYTES).digest(), "big")


_MOST_KEYS = 4  # of a group that are shown


def find_duplicates(parts: Callable[[], Iterable[bytes]]) -> Duplicates:
    """Finds the duplicates in a range of digests.

    Args:
      parts: gives all images of the range, packed by `pack_images`, as often as it is called.
    """
    digests = chain.from_iterable(_split(pickle.loads(part)[0]) for part in parts())
    return _compared(digests, chain.from_iterable(map(unpack_images, parts())))[0]


def _compared(
    digests: Iterable[bytes], images: Iterable[WrittenImage]
) -> tuple[Duplicates, Mapping[bytes, _Group]]:
    """The figures of images, given twice, and the groups of several by their digests.

    No image is held in memory, only the digests and the groups. A group of several rows of one image is
    not counted.
    """
    counts = Counter(digests)
    repeated = {digest for digest, count in counts.items() if count > 1}
    groups: dict[bytes, _Group] = defaultdict(_Group)
    for image in images if repeated else ():
        if image.digest in repeated:
            groups[image.digest].add(image)
    finished = (group.finished() for group in groups.values())
    several = (group for group in finished if group.images > 1)
    return Duplicates.of(several, counts.total()), groups


@dataclass
class _Group:
    """Images of the same bytes, possibly millions."""

    splits: Counter[str] = field(default_factory=Counter)
    first: dict[str, WrittenImage] = field(default_factory=dict)
    labels: set[int] = field(default_factory=set)
    lowest: list[tuple[str, str]] = field(default_factory=list)
    of_rows: set[tuple[str, str]] = field(default_factory=set)

    def add(self, image: WrittenImage) -> None:
        split, key = image.split, image.key
        if image.labels == _OF_ROWS:
            if (split, key) in self.of_rows:
                return
            self.of_rows.add((split, key))
        self.splits[split] += 1
        if split not in self.first or key < self.first[split].key:
            self.first[split] = image
        if len(self.labels) < 2:
            self.labels.add(image.labels)
        if len(self.lowest) < _MOST_KEYS or (key, split) < self.lowest[-1]:
            self.lowest = sorted([*self.lowest, (key, split)])[:_MOST_KEYS]

    def finished(self) -> DuplicateGroup:
        first = sorted((image.key, split) for split, image in self.first.items())[:_MOST_KEYS]
        further = [place for place in self.lowest if place not in first]
        places = sorted([*first, *further[: _MOST_KEYS - len(first)]])
        return DuplicateGroup(
            images=self.splits.total(),
            splits=dict(sorted(self.splits.items())),
            different_labels=len(self.labels) > 1,
            shown=tuple(ImagePlace(split, key) for key, split in places),
        )


class Sizes:
    """Sizes of images, and which of them several have; about a million are told apart.

    Attributes:
      images: how many images were added.
    """

    _SLOTS = 1 << 20  # so that sizes below 1 MiB are never taken for each other

    def __init__(self) -> None:
        self.images = 0
        self._slots: Counter[int] = Counter()

    def add(self, sizes: Sequence[int]) -> None:
        """Adds the sizes of some images."""
        self.images += len(sizes)
        self._slots.update(size % self._SLOTS for size in sizes)

    def merge(self, sizes: Sizes) -> None:
        """Adds the sizes that another has seen."""
        self.images += sizes.images
        self._slots.update(sizes._slots)

    def only_shared(self) -> Sizes:
        """The sizes that several images have; no more can be added."""
        shared = Sizes()
        shared.images = self.images
        shared._slots.update({slot: n for slot, n in self._slots.items() if n > 1})
        return shared

    def is_shared(self, size: int) -> bool:
        """True if several images have this size; now and then, if only one has."""
        return self._slots[size % self._SLOTS] > 1


class CopyFinder:
    """Tells which samples of a range of digests are copies.

    Attributes:
      duplicates: their figures.
    """

    def __init__(
        self, refs: Callable[[], Iterable[references.SampleRef]], hashes: LabelHashes | None = None
    ) -> None:
        """Compares samples.

        Args:
          refs: gives all samples of the range with their digests, as often as it is called.
          hashes: makes images of samples.
        """
        self._hashes = hashes or LabelHashes()
        images = (self._hashes.image(ref, ref.digest) for ref in refs())
        self.duplicates, self._groups = _compared((ref.digest for ref in refs()), images)

    def dead_letter(self, ref: references.SampleRef) -> DeadLetter | None:
        """The dead letter of a copy; None for a sample that is kept."""
        group = self._groups.get(ref.digest)
        if group is None:
            return None
        # The first by its key of those that are not for training, if there are any, is not a copy.
        first = min(group.first.values(), key=lambda i: (i.split == DEFAULT_SPLIT, i.key))
        if first.key == self._hashes.image(ref, ref.digest).key:
            return None
        where = f" in {first.split}" if first.split != ref.split else ""
        labels = "" if first.labels == self._hashes.of(ref.labels) else "; their labels differ"
        message = f"the same bytes as {first.key}{where}, which is kept{labels}"
        return image_dead_letter(Stage.JOIN, ref.key, ref.uri, Reason.DUPLICATE, message)
