"""Splits: what is kept together, and how classes are divided. Values in, values out.

There are three ways to share samples out, and each gives the same splits on every machine:

- `--splits` alone: a sample's split follows from its key's hash;
- `--split_by`: it follows from the hash of the sample's *group*, such as its patient, so that all
  samples of a group fall to one side;
- `--stratify`: each *stratum*, which is the samples of one class, is put in the order of its hashes
  and cut where the shares ask for it. With groups, whole groups are shared out.

For the class `cat` with ten samples and `train=0.8,test=0.2`, in the order of their hashes:

    04... 11... 2f... 3a... 5c... 77... 90... b3... | c8... f1...
    train (8)                                         test (2)

The boundary of `cat` is the rank of its ninth sample; `dog` has a separate boundary.
"""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from beam_pipeline.core.dead_letters import DeadLetter, Reason, Stage, image_dead_letter
from beam_pipeline.core.errors import UsageError
from beam_pipeline.core.labels.schema import Column, ColumnKind, class_column
from beam_pipeline.core.listing.folders import FOLDER
from beam_pipeline.core.records.sharding import KeyHasher, SplitFractions
from beam_pipeline.core.references import SampleRef, image_of

IMAGE = "image"
"""The name of the `GroupBy` that keeps rows of an image together."""

NO_CLASS = ""
"""The stratum of samples without a class."""

_PREFIX_BITS = 10  # of a hash: of a stratum's samples, one worker sorts about this part of a cut
_PASSES = 20  # over all groups, to improve their division
_LEAST_GAIN = 1e-9  # of a move; a smaller one may be an error of rounding


# --- what is kept together ------------------------------------------------------------------------


@dataclass(frozen=True)
class GroupBy:
    """The key that keeps samples together.

    Attributes:
      name: as --split_by has it.
      column: the index among a sample's labels of the column that names its group; None for the
        folder of the image, or the image.
      level: how deep the folder is; None for the image's own.
    """

    name: str
    column: int | None = None
    level: int | None = None

    def group_of(self, sample: SampleRef) -> str | None:
        """The group of a sample; None if it has none."""
        key = sample.key
        if self.column is None:
            folder = "/".join(key.split("/")[:-1][: self.level])
            return image_of(key) if self.name == IMAGE else folder
        value = sample.labels[self.column]
        return None if value is None else str(value) or None


def group_by(name: str, columns: Sequence[Column], layout: str) -> GroupBy | None:
    """Finds what --split_by names; None if it names nothing.

    A column that is there for grouping alone comes before one that is written, and both before
    the folder.

    Args:
      name: as it was typed.
      columns: of the samples' labels.
      layout: its name, for messages.

    Raises:
      UsageError: the column does not exist, or its values are lists.
    """
    if not name:
        return None
    indices = [i for i, column in enumerate(columns) if column.name == name]
    index = next((i for i in indices if not columns[i].feature), next(iter(indices), None))
    if index is None and name == FOLDER:
        return GroupBy(name)
    if index is None:
        names = [column.name for column in columns if not column.repeated]
        raise UsageError(
            f"--split_by {name}: the layout {layout} has no column {name!r}; expected one of "
            f"{', '.join(dict.fromkeys((*names, FOLDER)))}"
        )
    if columns[index].repeated:
        raise UsageError(
            f"--split_by {name}: a sample has a list of such values; expected a column with one "
            f"value for each image, or {FOLDER}"
        )
    return GroupBy(name, index)


@dataclass(frozen=True)
class SplitAssigner:
    """Gives each sample its split, where its own hash or its group's decides it.

    Attributes:
      fractions: the shares, or None to keep the split that folder or row named.
      seed: of the hash.
      group_by: what falls to one side together; None for each sample by itself.
      stratified: whether classes are divided, so that the split depends on all samples and is
        given later.
    """

    fractions: SplitFractions | None
    seed: int
    group_by: GroupBy | None = None
    stratified: bool = False

    def assign(self, samples: Iterable[SampleRef]) -> tuple[list[SampleRef], list[DeadLetter]]:
        """The samples, each in its split, and dead letters for those without a group."""
        if self.fractions is None:
            return list(samples), []
        hasher, split_of = KeyHasher(self.seed), self.fractions.split_of
        assigned: list[SampleRef] = []
        dead_letters = []
        for sample in samples:
            group = self.group_by.group_of(sample) if self.group_by else sample.key
            if group is None:
                assert self.group_by
                message = (
                    f"column {self.group_by.name!r}: is empty, so its side of --split_by is unknown"
                )
                reason = (Reason.BAD_LABEL_VALUE, message, sample.origin)
                dead_letters.append(image_dead_letter(Stage.JOIN, sample.key, sample.uri, *reason))
            elif self.stratified:
                assigned.append(sample)
            else:
                assigned.append(sample._replace(split=split_of(hasher.hash(group).split_hash)))
        return assigned, dead_letters

    def splits_of(self, keys: Sequence[str], splits: Sequence[str]) -> Sequence[str]:
        """The split of each sample, without groups.

        Args:
          keys: of the samples.
          splits: from folders or rows.
        """
        if self.fractions is None or self.stratified:
            return splits
        hasher, split_of = KeyHasher(self.seed), self.fractions.split_of
        return [split_of(hasher.hash(key).split_hash) for key in keys]


# --- strata ---------------------------------------------------------------------------------------


class Rank(NamedTuple):
    """The position of a sample in the order of its stratum: by hash, ties by key."""

    split_hash: int
    order: bytes
    key: str

    @property
    def prefix(self) -> int:
        """The first bits of the hash; samples are counted by them."""
        return self.split_hash >> (64 - _PREFIX_BITS)


def rank_of(key: str, hasher: KeyHasher) -> Rank:
    """The rank of a sample."""
    return Rank(*hasher.hash(key), key)


def check_strata(columns: Sequence[Column]) -> int:
    """The index of the column whose classes are divided.

    Raises:
      UsageError: there are none, or they are of objects.
    """
    index = class_column(columns)
    if any(column.kind is ColumnKind.BOX for column in columns):
        raise UsageError(
            "--stratify divides images by their class, and these contain objects of several classes; "
            f"leave it out, or keep images together with --split_by {FOLDER}"
        )
    if index is None:
        raise UsageError(
            "--stratify divides each class, and a column of classes is missing; leave it out"
        )
    return index


def stratum_of(classes: Any, counts: Mapping[str, int]) -> str:
    """The class that decides a sample's split: of several, the rarest; `NO_CLASS` if it has none.

    Args:
      classes: the sample's class, a tuple of them, or None.
      counts: class -> samples that have it; of no use where a sample has one class.
    """
    if isinstance(classes, tuple):
        return min(classes, key=lambda name: (counts[name], name), default=NO_CLASS)
    return NO_CLASS if classes is None else str(classes)


def apportion(
    stratum: str, total: int, fractions: SplitFractions, hasher: KeyHasher
) -> Sequence[int]:
    """The samples of each split: whole numbers that add up, as near to the shares as can be.

    Each share is rounded down, and what is left over goes to the largest remainders (Hamilton's
    method). So each number is less than 1 away from its share. Between equal remainders the hash
    of stratum and split decides: with train=0.5,test=0.5, the odd samples of many classes do not all
    go to train.

    >>> from fractions import Fraction
    >>> quarters = SplitFractions((("train", Fraction(3, 4)), ("test", Fraction(1, 4))))
    >>> apportion("cat", 7, quarters, KeyHasher(0))  # 5.25 and 1.75
    [5, 2]
    """
    exact = [total * share for _, share in fractions.fractions]
    counts = [int(share) for share in exact]
    ties = [hasher.order(f"{stratum}\n{name}") for name, _ in fractions.fractions]
    by_remainder = sorted(range(len(exact)), key=lambda i: (counts[i] - exact[i], ties[i]))
    for i in by_remainder[: total - sum(counts)]:
        counts[i] += 1
    return counts


class Cut(NamedTuple):
    """The cuts of a stratum, as far as counts tell.

    Attributes:
      prefix: of the first sample after the cut.
      position: its index among the samples of that prefix, in their order.
    """

    prefix: int
    position: int


def find_cuts(histogram: Mapping[int, int], counts: Sequence[int]) -> Sequence[Cut]:
    """The cuts between splits. The last sample is not followed by one, so there may be fewer.

    Args:
      histogram: prefix -> samples of the stratum.
      counts: samples of each split.
    """
    cuts: list[Cut] = []
    wanted = list(itertools.accumulate(counts))[:-1]
    before = 0
    for prefix in sorted(histogram):
        behind = before + histogram[prefix]
        while len(cuts) < len(wanted) and wanted[len(cuts)] < behind:
            cuts.append(Cut(prefix, wanted[len(cuts)] - before))
        before = behind
    return cuts


def find_boundaries(cuts: Sequence[Cut], candidates: Iterable[Rank]) -> Sequence[Rank]:
    """The rank of the first sample after each cut.

    Args:
      cuts: of a stratum.
      candidates: its samples of the prefixes of the cuts, in any order.
    """
    by_prefix: dict[int, list[Rank]] = defaultdict(list)
    for rank in sorted(candidates):
        by_prefix[rank.prefix].append(rank)
    return [by_prefix[cut.prefix][cut.position] for cut in cuts]


def split_behind(boundaries: Sequence[Rank], rank: Rank, fractions: SplitFractions) -> str:
    """The split of a sample of a stratum with these boundaries."""
    return fractions.fractions[bisect_right(boundaries, rank)][0]


# --- groups of several strata ---------------------------------------------------------------------


def divide_groups(
    groups: Mapping[str, Mapping[str, int]], fractions: SplitFractions, hasher: KeyHasher
) -> dict[str, str]:
    """Shares whole groups out so that each split comes near its share of every stratum.

    Distance is measured as in the chi-square test: (found - wanted)**2 / wanted, over all splits and
    strata. In the order of their hashes, groups go where this grows least; then single groups move as
    long as that brings the whole nearer. A group larger than a split's share cannot be cut, so no
    bound applies to such data.

    Args:
      groups: group -> stratum -> samples.
      fractions: the shares.
      hasher: orders the groups.

    Returns: group -> split.
    """
    totals: Counter[str] = Counter()
    for counts in groups.values():
        totals.update(counts)
    names = [name for name, _ in fractions.fractions]
    wanted = {
        name: {stratum: float(total * share) for stratum, total in totals.items()}
        for name, share in fractions.fractions
    }
    placed: dict[str, Counter[str]] = {name: Counter() for name in names}

    def growth(group: str, split: str) -> float:
        """The amount that a group adds to the distance of a split: ((f + n - w)**2 - (f - w)**2) / w."""
        have, want = placed[split], wanted[split]
        return sum(
            (2 * (have[stratum] - want[stratum]) + n) * n / want[stratum]
            for stratum, n in sorted(groups[group].items())
        )

    splits: dict[str, str] = {}
    order = sorted(groups, key=lambda group: (hasher.hash(group), group))
    for _ in range(1 + _PASSES):
        moved = False
        for group in order:
            here = splits.get(group)
            if here is not None:
                placed[here].subtract(groups[group])
            growths = {name: growth(group, name) for name in names}
            there = min(names, key=growths.__getitem__)  # the first of several
            if here is not None and growths[there] >= growths[here] - _LEAST_GAIN:
                there = here
            placed[there].update(groups[group])
            splits[group] = there
            moved |= there != here
        if not moved:
            break
    return splits
