"""Gives images their labels and splits, as units of work for any worker.

Nothing here imports Beam, so that a process that does nothing else starts in a tenth of a second.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from beam_pipeline.core.dataset.splits import SplitAssigner
from beam_pipeline.core.dataset.tally import Tally
from beam_pipeline.core.dead_letters import DeadLetter
from beam_pipeline.core.labels.column_join import (
    images_in,
    join_columns_by_key,
    label_columns_by_folder,
)
from beam_pipeline.core.labels.exclusion import Sorter
from beam_pipeline.core.labels.join import (
    Joined,
    RowMerger,
    join_bucket,
    label_by_folder,
    split_duplicates,
)
from beam_pipeline.core.labels.name_pattern import NamePattern
from beam_pipeline.core.labels.unlabelled import KeepUnlabelled, is_unlabelled
from beam_pipeline.core.packed_batches import DeadLetterBatch, SampleBatch
from beam_pipeline.core.packing import Columns, items_of, join_columns, unpack
from beam_pipeline.core.references import ImageRef, LabelRow, SampleRef
from beam_pipeline.work.outcome import Outcome

_MOST_SAMPLES = 1 << 14  # of a batch
_KEY = ImageRef._fields.index("key")

_Item = TypeVar("_Item", ImageRef, LabelRow)


@dataclass(frozen=True, kw_only=True)
class Labelling:
    """The end of each way to a label: counts joined samples and gives them their splits.

    Attributes:
      splits: gives each sample its split.
      class_column: index of the class among a sample's labels; None if there is none.
      sorter: leaves out samples; None keeps all.
      keep: makes samples of images without labels; None makes them dead letters.
      files: the indices of the labels that are files.
    """

    splits: SplitAssigner
    class_column: int | None
    sorter: Sorter | None
    keep: KeepUnlabelled | None
    files: Sequence[int] = ()

    @property
    def takes_columns(self) -> bool:
        """True if nothing depends on a sample but its split, and that on its key alone."""
        return not (self.sorter or self.keep or self.files or self.splits.group_by)

    def of(self, joined: Joined) -> Outcome:
        """The outcome of joined samples."""
        if self.sorter:
            joined.samples, left_out = self.sorter.sort_out(joined.samples)
            joined.dead_letters += left_out
        samples, without_group = self.splits.assign(joined.samples)
        dead_letters = DeadLetterBatch((*joined.dead_letters, *without_group))
        tally = _tally(joined, dead_letters)
        if not self.splits.stratified:  # else `AssignSplits` counts them in their splits
            tally.add_samples(samples, self.class_column, self.files)
        if self.keep:
            tally.add_unlabelled([ref.key for ref in samples if is_unlabelled(ref)])
        return Outcome([SampleBatch(samples)] if samples else [], tally, dead_letters)

    def of_columns(self, samples: Columns, joined: Joined) -> Outcome:
        """The outcome of samples as columns, and of what else was joined; see `takes_columns`."""
        dead_letters = DeadLetterBatch(joined.dead_letters)
        tally = _tally(joined, dead_letters)
        columns = dict(zip(SampleRef._fields, samples, strict=True))
        splits = self.splits.splits_of(columns["key"], columns["split"])
        if not self.splits.stratified:
            labels = columns["labels"] if self.class_column is not None else None
            tally.add_columns(columns["size"], splits, labels, self.class_column or 0)
        columns["split"] = splits
        return Outcome(list(_batches(list(columns.values()))), tally, dead_letters)


def _tally(joined: Joined, dead_letters: Iterable[DeadLetter]) -> Tally:
    tally = Tally(orphan_rows=joined.orphan_rows, repeated_rows=joined.repeated_rows)
    tally.add_dead_letters(dead_letters)
    return tally


def _batches(columns: Columns) -> Iterator[SampleBatch]:
    for start in range(0, len(columns[0]), _MOST_SAMPLES):
        yield SampleBatch.of_columns([c[start : start + _MOST_SAMPLES] for c in columns])


@dataclass(frozen=True)
class LabelTask:
    """Images whose own paths say their labels.

    Attributes:
      images: packed, in one or several parts.
      names: how names say labels; None if folders say the class.
      labelling: what becomes of them then.
      may_repeat: whether two images may have the same key.
    """

    images: Sequence[bytes]
    names: NamePattern | None
    labelling: Labelling
    may_repeat: bool = False

    doing = "labelling images"

    def run(self) -> Outcome:
        """Labels the images."""
        columns = join_columns(self.images)
        if not columns:
            return self.labelling.of(Joined())
        by_columns = self.names is None and self.labelling.takes_columns
        if by_columns and not (self.may_repeat and _are_repeated(columns[_KEY])):
            samples = label_columns_by_folder(columns)
            if samples is not None:
                return self.labelling.of_columns(samples, Joined())
        images, dead_letters = list(items_of(ImageRef, columns)), list[DeadLetter]()
        if self.may_repeat:
            images, dead_letters = split_duplicates(images)
        label = self.names.label if self.names else label_by_folder
        joined = label(images, self.labelling.keep)
        joined.dead_letters += dead_letters
        return self.labelling.of(joined)


def _are_repeated(keys: Sequence[str]) -> bool:
    return len(set(keys)) < len(keys)


@dataclass(frozen=True)
class JoinTask:
    """The images and rows of a bucket.

    Attributes:
      images, rows: packed, in parts.
      merger: makes one row of all that name the same image.
      labelling: what becomes of the samples.
    """

    images: Sequence[bytes]
    rows: Sequence[bytes]
    merger: RowMerger
    labelling: Labelling

    doing = "joining images and labels"

    def run(self) -> Outcome:
        """Joins them."""
        if self.labelling.takes_columns and not self.merger.complete:
            outcome = self._by_columns()
            if outcome:
                return outcome
        images, rows = _unpacked(ImageRef, self.images), _unpacked(LabelRow, self.rows)
        return self.labelling.of(join_bucket(images, rows, self.merger, self.labelling.keep))

    def _by_columns(self) -> Outcome | None:
        """The outcome where rows name images by their keys; None where they must be looked at."""
        if any(self.merger.repeated) or self.merger.by_folder:
            return None
        images, rows = join_columns(self.images), join_columns(self.rows)
        found = join_columns_by_key(images, rows) if images and rows else None
        if found is None:
            return None
        samples, without = found
        joined = Joined()
        for image in images_in(images, without):
            joined.add(image, (), self.merger)
        if joined.samples:  # images that no row names stand for something
            alike = list(zip(*joined.samples, strict=True))
            samples = [[*one, *other] for one, other in zip(samples, alike, strict=True)]
        return self.labelling.of_columns(samples, replace(joined, samples=[]))


def _unpacked(item: type[_Item], parts: Iterable[bytes]) -> Iterator[_Item]:
    return itertools.chain.from_iterable(unpack(item, part) for part in parts)
