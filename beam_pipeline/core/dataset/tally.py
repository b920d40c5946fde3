"""The tally: what a run has counted so far, of images, label rows, samples and dead letters.

The size of images that are re-encoded is estimated from some: those with the lowest hashes, which are
the same on every engine, are encoded before the shards are planned. The bytes written of an image are
taken as a + b x the bytes of its file, by least squares: scaled images have a size of their own (b is
near 0), images that are left as they are have that of their file (b is 1).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import NamedTuple

from beam_pipeline.core import errors, packing, references, text
from beam_pipeline.core.dataset.duplicates import NO_DUPLICATES, Duplicates
from beam_pipeline.core.dead_letters import DeadLetter, Reason
from beam_pipeline.core.images.preparation import FILTER_REASONS
from beam_pipeline.core.listing.filters import LabelFiles
from beam_pipeline.core.records import feature_values
from beam_pipeline.core.records.image_statistics import NOTHING_COUNTED, ImageStatistics, merged
from beam_pipeline.core.records.sharding import ImageFigures, ShardInfo

MOST_MEASURED = 256
_LEAST = 16
_SHARE = 20
"""One sample in twenty, at least 16 and at most 256: measuring takes little of the time of a run."""


class Measured(NamedTuple):
    """A sample that was encoded to be measured.

    Attributes:
      order: the bytes that samples are sorted by.
      size: bytes of its file.
      written: bytes of its record.
      seconds: of CPU that it took.
    """

    order: bytes
    size: int
    written: int
    seconds: float


def measured_samples(total: int) -> int:
    """The number of samples that are measured."""
    return min(MOST_MEASURED, max(_LEAST, total // _SHARE))


def written_bytes(measured: Sequence[Measured], samples: int, image_bytes: int) -> int:
    """Estimates the bytes of shards.

    Args:
      measured: some samples; at least one.
      samples: in the shards.
      image_bytes: of their files.
    """
    ordered = sorted(measured)
    mean_size = sum(sample.size for sample in ordered) / len(ordered)
    mean_written = sum(sample.written for sample in ordered) / len(ordered)
    spread = sum((sample.size - mean_size) ** 2 for sample in ordered)
    together = sum((s.size - mean_size) * (s.written - mean_written) for s in ordered)
    slope = max(0.0, together / spread) if spread else 0.0
    return max(0, round(mean_written * samples + slope * (image_bytes - mean_size * samples)))


def mean_seconds(measured: Sequence[Measured]) -> float:
    """CPU seconds that a sample takes."""
    return sum(sample.seconds for sample in measured) / len(measured)


_SHOWN = 3
_COUNTS = ["listed", "label_rows", "orphan_rows", "repeated_rows", "further_samples", "unlabelled"]
NOT_COUNTED_AS_BAD: frozenset[str] = frozenset(
    {
        *(Reason.UNLABELLED, Reason.UNKNOWN_CLASS, Reason.EMPTY_BOX, Reason.SMALL_BOX),
        *(Reason.EXCLUDED, Reason.DUPLICATE, *FILTER_REASONS),
    }
)
"""Reported, but not held against --max_bad_fraction."""


@dataclass
class Tally:
    """Counts of a stage; counts of all stages and workers add up.

    Attributes:
      listed: images listed, broken names included.
      ignored: files skipped in listing, by extension.
      label_files: files that may contain labels and were skipped in listing.
      label_rows: rows of all label files, broken ones included.
      orphan_rows: rows without an image of their own that became dead letters.
      repeated_rows: rows that repeat another one.
      further_samples: samples beyond the listed images: of their further rows or objects, and of rows
        without an image.
      unlabelled: samples without a label, which are kept.
      samples, sample_bytes: joined samples and the bytes of their images and masks, by split.
      classes: joined samples by class; objects by class, where samples have lists of them.
      dead: dead letters by reason.
      shown: the first few keys of each reason, for messages.
      first: of each reason, the first dead letter's key, message, file and line.
      measured: samples that were encoded to be measured.
      refusals: reasons why nothing may be written, found by the stage; of many, the first few.
      duplicates: images of the same bytes, as far as they were looked for.
      features: of a pipeline's records, where they are learned from these.
    """

    listed: int = 0
    ignored: Counter[str] = field(default_factory=Counter)
    label_rows: int = 0
    orphan_rows: int = 0
    repeated_rows: int = 0
    further_samples: int = 0
    unlabelled: int = 0
    samples: Counter[str] = field(default_factory=Counter)
    sample_bytes: Counter[str] = field(default_factory=Counter)
    classes: Counter[str] = field(default_factory=Counter)
    dead: Counter[str] = field(default_factory=Counter)
    shown: dict[str, list[str]] = field(default_factory=dict)
    refusals: list[errors.Refusal] = field(default_factory=list)
    first: dict[str, tuple[str, str, str, int]] = field(default_factory=dict)
    measured: list[Measured] = field(default_factory=list)
    label_files: LabelFiles = field(default_factory=LabelFiles)
    duplicates: Duplicates = NO_DUPLICATES
    features: feature_values.FeatureSchema | None = None

    def add(self, part: Tally) -> None:
        """Adds the counts of another tally."""
        for name in _COUNTS:
            setattr(self, name, getattr(self, name) + getattr(part, name))
        for name in ("ignored", "samples", "sample_bytes", "classes", "dead"):
            getattr(self, name).update(getattr(part, name))
        self.label_files.add(part.label_files)
        for reason, keys in part.shown.items():
            self._show(reason, keys)
        self.refusals = sorted((*self.refusals, *part.refusals), key=errors.refusal_order)[:_SHOWN]
        for reason, dead_letter in part.first.items():
            self.first[reason] = min(self.first.get(reason, dead_letter), dead_letter)
        self.measured = sorted((*self.measured, *part.measured))
        if part.duplicates.images_compared:
            self.duplicates = Duplicates.sum_of((self.duplicates, part.duplicates))
        if part.features:
            self.features = self.features or feature_values.FeatureSchema()
            self.features.add(part.features)

    def written_bytes(self, split: str) -> int:
        """The bytes of a split's shards: the sum of its images, or an estimate if they are re-encoded."""
        samples, image_bytes = self.samples[split], self.sample_bytes[split]
        return written_bytes(self.measured, samples, image_bytes) if self.measured else image_bytes

    def add_samples(
        self,
        samples: Sequence[references.SampleRef],
        class_column: int | None,
        file_columns: Sequence[int] = (),
    ) -> None:
        """Counts joined samples.

        Args:
          samples: the samples.
          class_column: index of the class among the labels, or None.
          file_columns: the indices of the labels that are files, whose bytes count as well.
        """
        if samples:
            labels = None if class_column is None else [sample.labels for sample in samples]
            sizes = [references.bytes_of(sample, file_columns) for sample in samples]
            splits = [sample.split for sample in samples]
            self.add_columns(sizes, splits, labels, class_column or 0)

    def add_columns(
        self,
        sizes: Sequence[int],
        splits: Sequence[str],
        labels: Sequence[tuple[references.LabelValue, ...]] | None,
        class_column: int,
    ) -> None:
        """Counts joined samples whose labels are not files, as `add_samples` does.

        Args:
          sizes: of the images.
          splits: of the samples.
          labels: of the samples; None without a class among them.
          class_column: index of the class among the labels.
        """
        if splits.count(splits[0]) == len(splits):
            self.samples[splits[0]] += len(splits)
            self.sample_bytes[splits[0]] += sum(sizes)
        else:
            self.samples.update(splits)
            for split, size in zip(splits, sizes, strict=True):
                self.sample_bytes[split] += size
        counts = Counter(map(itemgetter(class_column), labels or ()))
        for names, count in counts.items():
            for name in names if isinstance(names, tuple) else () if names is None else (names,):
                self.classes[name] += count

    def remove_samples(self, counts: Tally) -> None:
        """Takes back samples that another tally has counted; splits and classes stay if none is left."""
        for name in ("samples", "sample_bytes", "classes"):
            getattr(self, name).subtract(getattr(counts, name))

    def add_unlabelled(self, keys: Sequence[str]) -> None:
        """Counts samples that are kept without a label, and keeps their first few keys."""
        self.unlabelled += len(keys)
        self._show(Reason.UNLABELLED.value, keys)

    def add_dead_letters(self, dead_letters: Iterable[DeadLetter]) -> None:
        """Counts dead letters and keeps the first few keys of each reason."""
        keys: dict[str, list[str]] = defaultdict(list)
        for _, key, _, reason, message, file, line in dead_letters:
            keys[reason].append(key)
            first = (key, message, file, line)
            self.first[reason] = min(self.first.get(reason, first), first)
        for reason, of_reason in keys.items():
            self.dead[reason] += len(of_reason)
            self._show(reason, of_reason)

    def _show(self, reason: str, keys: Sequence[str]) -> None:
        if keys:
            self.shown[reason] = sorted((*self.shown.get(reason, ()), *keys))[:_SHOWN]

    @property
    def dropped_objects(self) -> int:
        """Dead letters of objects."""
        return self.dead[Reason.EMPTY_BOX.value]

    @property
    def bad(self) -> Mapping[str, int]:
        """Dead letters that count against --max_bad_fraction, by reason.

        Objects do if they are most objects: then the sides of their boxes were taken from wrong columns.
        """
        bad = {reason: n for reason, n in self.dead.items() if reason not in NOT_COUNTED_AS_BAD}
        if 2 * self.dropped_objects > max(self.classes.total(), self.samples.total()):
            bad[Reason.EMPTY_BOX.value] = self.dropped_objects
        return bad


def accounting_fault(
    *, listed: int, orphan_rows: int, further: int, dropped: int, examples: int, dead_letters: int
) -> str:
    """States that numbers do not add up; empty if they do.

    Listed images + label rows without an image + further samples + dropped objects = examples + dead letters.
    """
    if listed + orphan_rows + further + dropped == examples + dead_letters:
        return ""
    more = f" + {text.counted(further, 'further sample')}" if further else ""
    more += f" + {text.counted(dropped, 'dropped object')}" if dropped else ""
    return (
        f"{listed} listed images + {orphan_rows} label rows without an image{more} are not "
        f"{examples} examples + {dead_letters} dead letters"
    )


@dataclass
class Totals:
    """What a run reports, summed.

    Attributes:
      classes: split -> class id -> examples or objects.
      events: what happened to images -> how often.
      codecs: all that encoded images, with versions.
      statistics: of images and labels.
      dead: the dead letters, counted by reason, and the first few keys of each reason.
    """

    classes: dict[str, Counter[int]] = field(default_factory=dict)
    events: Counter[str] = field(default_factory=Counter)
    codecs: set[str] = field(default_factory=set)
    statistics: ImageStatistics = NOTHING_COUNTED
    dead: Tally = field(default_factory=Tally)

    @classmethod
    def of(cls, reports: Iterable[ShardInfo | ImageFigures | packing.DeadLetterBatch]) -> Totals:
        """The totals of shards, of what happened to images, and of dead letters."""
        totals = cls()
        for report in reports:
            if isinstance(report, ShardInfo):
                totals.classes.setdefault(report.split, Counter()).update(dict(report.classes))
                report = report.images
            if isinstance(report, ImageFigures):
                totals.events.update(dict(report.events))
                totals.codecs.update(report.codecs)
                totals.statistics = merged((totals.statistics, report.statistics))
            else:
                totals.dead.add_dead_letters(report)
        return totals

    @property
    def images(self) -> ImageFigures:
        """What happened to images, sorted."""
        return ImageFigures(
            tuple(sorted(self.events.items())), tuple(sorted(self.codecs)), self.statistics
        )


def without_totals(shard: ShardInfo) -> ShardInfo:
    """The figures of a shard without those that `Totals` sums; their size is bounded."""
    return shard._replace(classes=(), events=(), codec="", statistics=NOTHING_COUNTED)
