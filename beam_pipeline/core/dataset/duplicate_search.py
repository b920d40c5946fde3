"""Finds images of the same bytes in a range of digests, after they were written or before."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

from beam_pipeline.core.dataset.compared_images import (
    LabelHashes,
    WrittenImage,
    digests_in,
    unpack_images,
)
from beam_pipeline.core.dataset.duplicates import DuplicateGroup, Duplicates
from beam_pipeline.core.dataset.sharding import DEFAULT_SPLIT
from beam_pipeline.core.dead_letters import (
    DeadLetter,
    Reason,
    Stage,
    image_dead_letter,
)
from beam_pipeline.core.references import SampleRef

_MOST_KEYS = 4  # of a group that are shown


def find_duplicates(parts: Callable[[], Iterable[bytes]]) -> Duplicates:
    """Finds the duplicates in a range of digests.

    Args:
      parts: gives all images of the range, packed by `pack_images`, as often as it is called.
    """
    compared, groups = _groups_of(
        lambda: chain.from_iterable(map(digests_in, parts())),
        lambda: chain.from_iterable(map(unpack_images, parts())),
    )
    return Duplicates.of((group.finished() for group in groups.values()), compared)


def _groups_of(
    digests: Callable[[], Iterable[bytes]], images: Callable[[], Iterable[WrittenImage]]
) -> tuple[int, Mapping[bytes, _Group]]:
    """The number of images, and the groups of several by their digests.

    No image is held in memory, only the digests and the groups.
    """
    seen: set[bytes] = set()
    repeated: set[bytes] = set()
    count = 0
    for digest in digests():
        count += 1
        if digest in seen:
            repeated.add(digest)
        else:
            seen.add(digest)
    groups: dict[bytes, _Group] = defaultdict(_Group)
    for image in images() if repeated else ():
        if image.digest in repeated:
            groups[image.digest].add(image)
    return count, groups


@dataclass
class _Group:
    """Images of the same bytes, of which there may be millions."""

    splits: dict[str, int] = field(default_factory=dict)
    first: dict[str, WrittenImage] = field(default_factory=dict)
    labels: set[int] = field(default_factory=set)
    shown: list[tuple[str, str]] = field(default_factory=list)

    @property
    def kept(self) -> WrittenImage:
        """The image to keep: the first by its key of those that are not for training, if there are any."""
        return min(self.first.values(), key=lambda one: (one.split == DEFAULT_SPLIT, one.key))

    def add(self, image: WrittenImage) -> None:
        split, key = image.split, image.key
        self.splits[split] = self.splits.get(split, 0) + 1
        if split not in self.first or key < self.first[split].key:
            self.first[split] = image
        if len(self.labels) < 2:
            self.labels.add(image.labels)
        if len(self.shown) < _MOST_KEYS or (key, split) < self.shown[-1]:
            self.shown = sorted([*self.shown, (key, split)])[:_MOST_KEYS]

    def finished(self) -> DuplicateGroup:
        first = sorted((one.key, split) for split, one in self.first.items())[:_MOST_KEYS]
        others = [one for one in self.shown if one not in first]
        shown = sorted([*first, *others[: _MOST_KEYS - len(first)]])
        return DuplicateGroup(
            images=sum(self.splits.values()),
            splits=tuple(sorted(self.splits.items())),
            relabelled=len(self.labels) > 1,
            shown=tuple((split, key) for key, split in shown),
        )


class Sizes:
    """Sizes of images, and which of them several have; about a million are told apart."""

    _SLOTS = 1 << 20  # so that sizes below 1 MiB are never taken for each other

    def __init__(self) -> None:
        self._seen: set[int] = set()
        self._shared: set[int] = set()

    def add(self, sizes: Iterable[int]) -> None:
        """Adds the sizes of some images."""
        for size in sizes:
            slot = size % self._SLOTS
            if slot in self._seen:
                self._shared.add(slot)
            else:
                self._seen.add(slot)

    def merge(self, other: Sizes) -> None:
        """Adds the sizes that another has seen."""
        self._shared |= other._shared | (self._seen & other._seen)
        self._seen |= other._seen

    def only_shared(self) -> Sizes:
        """The sizes that several images have; no more can be added."""
        found = Sizes()
        found._shared = self._shared
        return found

    def is_shared(self, size: int) -> bool:
        """True if several images have this size; now and then, if only one has."""
        return size % self._SLOTS in self._shared


class CopyFinder:
    """Tells which samples of a range of digests are copies.

    Attributes:
      duplicates: their figures.
    """

    def __init__(self, refs: Callable[[], Iterable[SampleRef]], files: Sequence[int] = ()) -> None:
        """Compares samples.

        Args:
          refs: gives all samples of the range with their digests, as often as it is called.
          files: the indices of the labels that are files.
        """
        self._hashes = LabelHashes(files)
        count, self._groups = _groups_of(
            lambda: (ref.digest for ref in refs()), lambda: map(self._image, refs())
        )
        groups = (group.finished() for group in self._groups.values())
        self.duplicates = Duplicates.of(groups, count)

    def _image(self, ref: SampleRef) -> WrittenImage:
        return WrittenImage(ref.digest, self._hashes[ref.labels], ref.split, ref.key)

    def dead_letter(self, ref: SampleRef) -> DeadLetter | None:
        """The dead letter of a copy; None for a sample that is kept."""
        if ref.digest not in self._groups:
            return None
        kept = self._groups[ref.digest].kept
        if kept.key == ref.key:
            return None
        where = f" in {kept.split}" if kept.split != ref.split else ""
        labels = "" if kept.labels == self._hashes[ref.labels] else "; their labels differ"
        message = f"the same bytes as {kept.key}{where}, which is kept{labels}"
        return image_dead_letter(Stage.JOIN, ref.key, ref.uri, Reason.DUPLICATE, message)
