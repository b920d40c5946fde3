"""Gives images their labels and splits, as units of work for any worker.

Nothing here imports Beam, so that a process that does nothing else starts in a tenth of a second.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from beam_pipeline.core.dataset.splits import SplitAssigner
from beam_pipeline.core.dataset.tally import Tally
from beam_pipeline.core.dead_letters import DeadLetter
from beam_pipeline.core.labels.exclusion import SampleFilter
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
from beam_pipeline.core.packing import Columns, items_of, join_columns
from beam_pipeline.core.references import ImageRef, SampleRef
from beam_pipeline.work.outcome import Outcome

_MOST_SAMPLES = 1 << 14  # of a batch


@dataclass(frozen=True, kw_only=True)
class Labelling:
    """The end of each way to a label: counts joined samples and gives them their splits.

    Attributes:
      splits: gives each sample its split.
      class_column: index of the class among a sample's labels; None if there is none.
      sample_filter: leaves out samples; None keeps all.
      keep: makes samples of images without labels; None makes them dead letters.
      files: the indices of the labels that are files.
    """

    splits: SplitAssigner
    class_column: int | None
    sample_filter: SampleFilter | None
    keep: KeepUnlabelled | None
    files: Sequence[int] = ()

    @property
    def takes_columns(self) -> bool:
        """True if nothing depends on a sample but its split, and that on its key alone."""
        return not (self.sample_filter or self.keep or self.files or self.splits.group_by)

    def of(self, joined: Joined) -> Outcome:
        """The outcome of joined samples."""
        if self.takes_columns:
            return self._of_columns(joined)
        samples = joined.all_samples()
        if self.sample_filter:
            samples, left_out = self.sample_filter.apply(samples)
            joined.dead_letters += left_out
        samples, without_group = self.splits.assign(samples)
        dead_letters = DeadLetterBatch((*joined.dead_letters, *without_group))
        tally = _tally(joined, dead_letters)
        if not self.splits.stratified:  # else `AssignSplits` counts them in their splits
            tally.add_samples(samples, self.class_column, self.files)
        if self.keep:
            tally.add_unlabelled([ref.key for ref in samples if is_unlabelled(ref)])
        return Outcome([SampleBatch(samples)] if samples else [], tally, dead_letters)

    def _of_columns(self, joined: Joined) -> Outcome:
        dead_letters = DeadLetterBatch(joined.dead_letters)
        tally = _tally(joined, dead_letters)
        columns = dict(zip(SampleRef._fields, joined.all_columns(), strict=False))
        if not columns:
            return Outcome([], tally, dead_letters)
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


def label_images(
    parts: Sequence[bytes],
    names: NamePattern | None,
    labelling: Labelling,
    may_repeat: bool = False,
) -> Outcome:
    """Labels images whose own paths say their labels.

    Args:
      parts: the images, packed.
      names: how names say labels; None if folders say the class.
      labelling: what becomes of them then.
      may_repeat: whether two images may have the same key.
    """
    images = join_columns(parts)
    if not images:
        return labelling.of(Joined())
    dead_letters: list[DeadLetter] = []
    if may_repeat:
        unique, dead_letters = split_duplicates(items_of(ImageRef, images))
        images = list(zip(*unique, strict=True)) if dead_letters else images
    if not images:
        joined = Joined()
    elif names:
        joined = names.label(items_of(ImageRef, images), labelling.keep)
    else:
        joined = label_by_folder(images, labelling.keep)
    joined.dead_letters += dead_letters
    return labelling.of(joined)


def join_parts(
    images: Sequence[bytes], rows: Sequence[bytes], merger: RowMerger, labelling: Labelling
) -> Outcome:
    """Joins the images and rows of a bucket.

    Args:
      images: packed, in parts.
      rows: packed, in parts.
      merger: makes one row of all that name the same image.
      labelling: what becomes of the samples.
    """
    joined = join_bucket(join_columns(images), join_columns(rows), merger, labelling.keep)
    return labelling.of(joined)
