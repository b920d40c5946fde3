"""Accounting of a run, and the plan that is made from it before an image is opened."""

from __future__ import annotations

import difflib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

from beam_pipeline.transforms.core.dataset.duplicates import (
    NO_DUPLICATES,
    Duplicates,
    described,
)
from beam_pipeline.transforms.core.dataset.kept import (
    NOTHING_KEPT,
    Kept,
    NumberedClasses,
)
from beam_pipeline.transforms.core.dataset.output_size import Measured, written_bytes
from beam_pipeline.transforms.core.dataset.plausibility import (
    NO_CHECKS,
    LabelChecks,
    class_questions,
    label_file_questions,
    question_error,
    split_questions,
)
from beam_pipeline.transforms.core.dataset.sharding import (
    DEFAULT_SHARD_BYTES,
    MOST_SHARDS,
    ShardConfig,
    ShardInfo,
    ShardPlan,
)
from beam_pipeline.transforms.core.dead_letters import EXPLANATIONS, DeadLetter, Reason
from beam_pipeline.transforms.core.errors import (
    ChangedInputsError,
    DuplicateImagesError,
    LostSamplesError,
    NothingJoinedError,
    NothingLeftError,
    QuestionError,
    TooManyBadSamplesError,
    UnknownClassError,
    UsageError,
)
from beam_pipeline.transforms.core.failures import Refusal
from beam_pipeline.transforms.core.images.filters import FILTER_REASONS
from beam_pipeline.transforms.core.labels.classes import ClassNumbering, ClassNumberingError
from beam_pipeline.transforms.core.listing.label_files import LabelFiles
from beam_pipeline.transforms.core.records.record_format import RecordFormat
from beam_pipeline.transforms.core.references import LabelValue, SampleRef, bytes_of
from beam_pipeline.transforms.core.text import counted, quoted, terminal_line

_SHOWN = 3
_SHOWN_EACH = 2  # names of images, and of rows, where none has met another
_LIKE = 0.5  # how much of two names must be the same for one to be a candidate for the other
_MOST_UNLABELLED = 0.5  # of the listed images, where label files are given

_PROGRAM_FAULT = (
    "No manifest is written. This is a fault of the program or the runner; please report it"
)

NOT_COUNTED_AS_BAD = frozenset(
    {
        Reason.UNLABELLED.value,
        Reason.UNKNOWN_CLASS.value,
        Reason.EXCLUDED.value,
        Reason.DUPLICATE.value,
        *(reason.value for reason in FILTER_REASONS),
    }
)
"""Reported, but not held against --max_bad_fraction."""


@dataclass
class Tally:
    """Counts of a stage; those of all stages and workers add up.

    Attributes:
      listed: images listed, broken names included.
      ignored: files skipped in listing, by extension.
      label_files: files that may say labels and were skipped in listing.
      label_rows: rows of all label files, broken ones included.
      orphan_rows: rows without an image of their own that became dead letters.
      repeated_rows: rows that repeat another one.
      unlabelled: samples without a label, which are kept.
      samples, sample_bytes: joined samples and the bytes of their images and masks, by split.
      classes: joined samples by class; objects by class, where samples have lists of them.
      dead: dead letters by reason.
      shown: the first few keys of each reason, for messages.
      first: of each reason, the first dead letter's key, message, file and line.
      measured: samples that were encoded to be measured.
      refusals: reasons why nothing may be written, found by the stage; of many, the first few.
      duplicates: images of the same bytes, as far as they were looked for.
    """

    listed: int = 0
    ignored: Counter[str] = field(default_factory=Counter)
    label_rows: int = 0
    orphan_rows: int = 0
    repeated_rows: int = 0
    unlabelled: int = 0
    samples: Counter[str] = field(default_factory=Counter)
    sample_bytes: Counter[str] = field(default_factory=Counter)
    classes: Counter[str] = field(default_factory=Counter)
    dead: Counter[str] = field(default_factory=Counter)
    shown: dict[str, list[str]] = field(default_factory=dict)
    refusals: list[Refusal] = field(default_factory=list)
    first: dict[str, tuple[str, str, str, int]] = field(default_factory=dict)
    measured: list[Measured] = field(default_factory=list)
    label_files: LabelFiles = field(default_factory=LabelFiles)
    duplicates: Duplicates = NO_DUPLICATES

    def add(self, other: Tally) -> None:
        """Adds the counts of another tally."""
        self.listed += other.listed
        self.ignored.update(other.ignored)
        self.label_files.add(other.label_files)
        self.label_rows += other.label_rows
        self.orphan_rows += other.orphan_rows
        self.repeated_rows += other.repeated_rows
        self.unlabelled += other.unlabelled
        self.samples.update(other.samples)
        self.sample_bytes.update(other.sample_bytes)
        self.classes.update(other.classes)
        self.dead.update(other.dead)
        for reason, keys in other.shown.items():
            self.shown[reason] = sorted((*self.shown.get(reason, ()), *keys))[:_SHOWN]
        self.refusals = sorted((*self.refusals, *other.refusals))[:_SHOWN]
        for reason, dead_letter in other.first.items():
            self.first[reason] = min(self.first.get(reason, dead_letter), dead_letter)
        self.measured = sorted((*self.measured, *other.measured))
        if other.duplicates.compared:
            self.duplicates = Duplicates.sum_of((self.duplicates, other.duplicates))

    def written_bytes(self, split: str) -> int:
        """The bytes of a split's shards: those of its images, or an estimate if they are encoded anew."""
        samples, image_bytes = self.samples[split], self.sample_bytes[split]
        if not self.measured:
            return image_bytes
        return written_bytes(self.measured, samples, image_bytes)

    def add_samples(
        self,
        samples: Sequence[SampleRef],
        class_column: int | None,
        file_columns: Sequence[int] = (),
    ) -> None:
        """Counts joined samples.

        Args:
          samples: the samples.
          class_column: index of the class among the labels; None where there is none.
          file_columns: the indices of the labels that are files, whose bytes count as well.
        """
        sizes: dict[str, list[int]] = defaultdict(list)
        for sample in samples:
            size = bytes_of(sample, file_columns) if file_columns else sample.size
            sizes[sample.split].append(size)
        for split, found in sizes.items():
            self.samples[split] += len(found)
            self.sample_bytes[split] += sum(found)
        if class_column is not None:
            self._add_classes(Counter(sample.labels[class_column] for sample in samples))

    def add_columns(
        self,
        sizes: Sequence[int],
        splits: Sequence[str],
        labels: Sequence[tuple[LabelValue, ...]] | None,
        class_column: int,
    ) -> None:
        """Counts joined samples whose labels are no files, as `add_samples` does.

        Args:
          sizes: of the images.
          splits: of the samples.
          labels: of the samples; None if there is no class among them.
          class_column: index of the class among the labels.
        """
        if splits.count(splits[0]) == len(splits):
            self.samples[splits[0]] += len(splits)
            self.sample_bytes[splits[0]] += sum(sizes)
        else:
            self.samples.update(splits)
            for split, size in zip(splits, sizes, strict=True):
                self.sample_bytes[split] += size
        if labels is not None:
            self._add_classes(Counter(map(itemgetter(class_column), labels)))

    def _add_classes(self, counts: Mapping[Any, int]) -> None:
        for names, count in counts.items():
            if names is None:
                continue
            for name in names if isinstance(names, tuple) else (names,):
                self.classes[name] += count

    def remove_samples(
        self,
        samples: Sequence[SampleRef],
        class_column: int | None,
        file_columns: Sequence[int] = (),
    ) -> None:
        """Takes back samples that another tally has counted; splits and classes stay if none is left.

        The arguments are those of `add_samples`.
        """
        counts = Tally()
        counts.add_samples(samples, class_column, file_columns)
        self.samples.subtract(counts.samples)
        self.sample_bytes.subtract(counts.sample_bytes)
        self.classes.subtract(counts.classes)

    def add_unlabelled(self, keys: Sequence[str]) -> None:
        """Counts samples that are kept without a label, and keeps their first few keys."""
        self.unlabelled += len(keys)
        if keys:
            reason = Reason.UNLABELLED.value
            self.shown[reason] = sorted((*self.shown.get(reason, ()), *keys))[:_SHOWN]

    def add_dead_letters(self, dead_letters: Iterable[DeadLetter]) -> None:
        """Counts dead letters and keeps the first few keys of each reason."""
        keys: dict[str, list[str]] = {}
        for dead_letter in dead_letters:
            self.dead[dead_letter.reason] += 1
            keys.setdefault(dead_letter.reason, []).append(dead_letter.key)
            said = (dead_letter.key, dead_letter.message, dead_letter.file, dead_letter.line)
            self.first[dead_letter.reason] = min(self.first.get(dead_letter.reason, said), said)
        for reason, found in keys.items():
            self.shown[reason] = sorted((*self.shown.get(reason, ()), *found))[:_SHOWN]

    @property
    def bad(self) -> int:
        """Dead letters that count against --max_bad_fraction."""
        return sum(n for reason, n in self.dead.items() if reason not in NOT_COUNTED_AS_BAD)


@dataclass(frozen=True)
class Plan:
    """The plan of what will be written, made before an image is opened.

    Attributes:
      shard_plan: the shards of every split.
      classes: (name, id) of every class, in order of id.
      tally: the counts up to here.
      refusal: the reason why nothing may be written, or None.
      settled: options that it settled, as they depend on the classes and the earlier data set.
      questions: reasons of the questions that --yes answered, for the manifest.
      notes: sentences for people on what the earlier data set changed of it.
    """

    shard_plan: ShardPlan
    classes: tuple[tuple[str, int], ...]
    tally: Tally
    refusal: Refusal | None
    settled: Mapping[str, Any] = field(default_factory=dict)
    questions: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def class_ids(self) -> dict[str, int]:
        """Class -> id."""
        return dict(self.classes)


def make_plan(
    tally: Tally,
    *,
    name: str,
    shards: ShardConfig,
    splits: Sequence[str],
    record_format: RecordFormat,
    max_bad_fraction: float,
    numbering: ClassNumbering,
    none_empty: bool = False,
    may_be_unlabelled: bool = True,
    checks: LabelChecks = NO_CHECKS,
    kept: Kept = NOTHING_KEPT,
    may_have_duplicates: bool = True,
) -> Plan:
    """Plans the shards of the joined samples, or refuses with a reason.

    Args:
      tally: the counts of listing, labels and join.
      name: data set name.
      shards: the requested number or size of shards.
      splits: splits that must exist even if no sample fell into them.
      record_format: the format of the shards.
      max_bad_fraction: bad samples allowed, of all listed images.
      numbering: how classes get their ids.
      none_empty: whether a split without samples is a fault, as groups or classes were to be divided.
      may_be_unlabelled: whether most images may be left out for want of a label row.
      checks: what is checked of the labels.
      kept: what an earlier data set settles.
      may_have_duplicates: whether images may have the same bytes, as far as the tally knows.
    """
    names = sorted({*tally.samples, *splits})
    counted_shards = kept.count_shards(
        shards, {split: tally.written_bytes(split) for split in names}
    )
    counts = counted_shards.counts
    too_small = _too_small_shards(shards, counts, tally)
    numbered, unnumbered = NumberedClasses(()), None
    try:
        numbered = kept.number_classes(numbering, tally.classes)
    except ClassNumberingError as error:
        option = "--class_ids keep" if numbering.unsigned else "--label_from_folder_name"
        unnumbered = Refusal.from_error(
            UsageError(f"{option}: {error}; rename it or leave the option out")
        )
    passed_over = list(label_file_questions(tally.label_files, tally.listed, checks))
    of_classes = () if numbered.kept else class_questions(tally.classes, checks)
    of_splits = split_questions(tally.samples, checks)
    asked = [*passed_over, *of_splits, *of_classes]
    question = Refusal.from_error(question_error(asked)) if asked and not checks.assumed else None
    refusal = (
        next(iter(tally.refusals), None)
        or (question if passed_over else None)  # flat folders have no labels but those in the files
        or _other_classes(tally, checks)
        or nothing_joined(tally, checks.option)
        or _unknown_splits(shards, names)
        or (_empty_split(tally, splits) if none_empty else None)
        or too_small
        or too_many_bad(tally, max_bad_fraction)
        or (None if may_have_duplicates else _duplicate_images(tally))
        or (None if may_be_unlabelled else mostly_unlabelled(tally, checks.option))
        or unnumbered
        or question
    )
    # Shards without number are not even named.
    shard_plan = ShardPlan(name, () if too_small else tuple(counts.items()), record_format)
    overridden = (*checks.overridden, *(question.reason for question in asked))
    return Plan(
        shard_plan=shard_plan,
        classes=numbered.classes,
        tally=tally,
        refusal=refusal,
        settled={**counted_shards.settled, **numbered.settled},
        questions=overridden,
        notes=(*counted_shards.notes, *numbered.notes),
    )


def _other_classes(tally: Tally, checks: LabelChecks) -> Refusal | None:
    """The refusal of a run in which no class, or not every class, is among those of --classes."""
    unknown = tally.dead[Reason.UNKNOWN_CLASS.value]
    if not unknown or (tally.samples.total() and not checks.known_only):
        return None
    of = f"all {unknown}" if not tally.samples.total() else unknown
    raise_it = "" if checks.known_only else "; check that the file is of this data"
    return Refusal.from_error(
        UnknownClassError(
            f"{of} labelled images have a class that --classes {checks.known_from} does not name "
            f"(such as {quoted(tally.shown[Reason.UNKNOWN_CLASS.value])}); dead_letters.jsonl says "
            f"which{raise_it}"
        )
    )


def nothing_joined(tally: Tally, option: str = "--labels") -> Refusal | None:
    """The refusal of a run in which no image has a label.

    Args:
      tally: the counts of listing, labels and join.
      option: which names the label files, or the masks.
    """
    rows, fields = ("masks", "") if option == "--masks" else ("label rows", " and --key_column")
    no_row_met = bool(tally.label_rows) and tally.orphan_rows >= tally.label_rows
    if tally.samples.total() and not (tally.unlabelled and no_row_met):
        return None
    if not tally.listed:
        ignored = ", ".join(f"{n} {what}" for what, n in sorted(tally.ignored.items()))
        passed_over = f" (passed over: {ignored})" if ignored else ""
        return Refusal.from_error(
            NothingJoinedError(f"no images found{passed_over}; check --images")
        )
    if tally.dead[Reason.EXCLUDED.value]:
        return Refusal.from_error(
            NothingJoinedError(
                f"no sample is left: --exclude names all {tally.dead[Reason.EXCLUDED.value]} images "
                "with a label"
            )
        )
    unlabelled = tally.shown.get(Reason.UNLABELLED.value, [])
    if not tally.label_rows and not unlabelled and tally.dead:  # as of files that hold the images
        found = "; ".join(
            f"{n} {reason} (such as {quoted(tally.shown.get(reason, []))}): {EXPLANATIONS[Reason(reason)]}"
            for reason, n in sorted(tally.dead.items())
        )
        return Refusal.from_error(
            NothingJoinedError(f"none of {tally.listed} images can be written: {found}")
        )
    if not tally.label_rows:
        return Refusal.from_error(
            NothingJoinedError(
                f"none of {tally.listed} images has a label: there are no label rows, and no class "
                f"folders (images are {quoted(unlabelled)}). Give --labels with rows, put each "
                "class's images into a folder of its own, or take the class from the names with "
                "--label_from, such as '(?P<label>[a-z]+)[._]?[0-9]+[.]jpg'; --unlabelled keep writes "
                f"images without labels{_unmatched_name(tally)}",
            )
        )
    reasons = ", ".join(f"{n} {reason}" for reason, n in sorted(tally.dead.items()))
    missing = tally.shown.get(Reason.MISSING_IMAGE.value, [])
    return Refusal.from_error(
        NothingJoinedError(
            f"none of {tally.listed} images met one of {tally.label_rows} {rows} ({reasons}). "
            f"Images are named like {quoted(unlabelled)}; {rows.split()[-1]} name {quoted(missing)}. "
            f"{_told(tally)}{_nearest(missing, unlabelled)}"
            f"Check --images{',' if fields else ' and'} {option}{fields}",
        )
    )


def too_many_bad(tally: Tally, max_bad_fraction: float) -> Refusal | None:
    """The refusal of a run with more bad samples than allowed."""
    bad = tally.bad
    if (
        not bad or max_bad_fraction >= 1
    ):  # rows without an image can make more than there are images
        return None
    if tally.listed and bad / tally.listed <= max_bad_fraction:
        return None
    reasons = ", ".join(
        f"{n} {reason} (such as {quoted(tally.shown.get(reason, []))})"
        for reason, n in sorted(tally.dead.items())
        if reason not in NOT_COUNTED_AS_BAD
    )
    return Refusal.from_error(
        TooManyBadSamplesError(
            f"{counted(bad, 'bad sample')} among {counted(tally.listed, 'listed image')}, {max_bad_fraction:g} of them "
            f"allowed: {reasons}. dead_letters.jsonl lists them; fix them or raise --max_bad_fraction",
        )
    )


def _duplicate_images(tally: Tally) -> Refusal | None:
    """The refusal of a run that finds images of the same bytes."""
    if not tally.duplicates.groups:
        return None
    return Refusal.from_error(
        DuplicateImagesError(
            f"--duplicates error: {'; '.join(described(tally.duplicates))}. Remove all but one of each "
            "group; --duplicates first does so for you, and keep writes them all"
        )
    )


def all_filtered(tally: Tally, shards: Sequence[ShardInfo]) -> Refusal | None:
    """The refusal of a run whose filters left nothing to write."""
    filtered = {
        name: tally.dead[reason.value]
        for reason, name in FILTER_REASONS.items()
        if tally.dead[reason.value]
    }
    if not filtered or any(shard.examples for shard in shards):
        return None
    found = ", ".join(f"{n} by --{name}" for name, n in filtered.items())
    return Refusal.from_error(
        NothingLeftError(
            f"no image is left: of {counted(tally.listed, 'listed image')}, the filters leave out {found}. "
            "dead_letters.jsonl lists them with their sizes; choose other limits"
        )
    )


def mostly_unlabelled(tally: Tally, option: str = "--labels") -> Refusal | None:
    """The refusal of a run whose label files leave out more images than they name.

    Args:
      tally: the counts of listing, labels and join.
      option: which names the label files, or the masks.
    """
    unlabelled = tally.dead[Reason.UNLABELLED.value]
    if unlabelled <= _MOST_UNLABELLED * tally.listed:
        return None
    others = ", ".join(
        f"{n} {reason}{_first(tally, reason)}"
        for reason, n in sorted(tally.dead.items())
        if reason != Reason.UNLABELLED.value
    )
    return Refusal.from_error(
        QuestionError(
            terminal_line(
                f"{unlabelled} of {tally.listed} images have no label, such as "
                f"{quoted(tally.shown.get(Reason.UNLABELLED.value, []))}"
                f"{f'; besides, {others}' if others else ''}. A data set without them is seldom "
                f"meant: check {option}, or name fewer images in --images; --yes leaves them out"
            )
        )
    )


def other_shards(then: ShardPlan, now: ShardPlan) -> Refusal:
    """The refusal of a resumed run whose shards differ from those of the earlier run."""
    before, after = dict(then.shards), dict(now.shards)
    found = "; ".join(
        f"{split}: {counted(before.get(split, 0), 'shard')} then, {after.get(split, 0)} now"
        for split in sorted({*before, *after})
        if before.get(split) != after.get(split)
    )
    return Refusal.from_error(
        ChangedInputsError(
            "--resume: the images or labels have changed since the earlier run, so that other shards "
            f"would be written ({found}). Restore them, or convert again with --overwrite",
        )
    )


def accounting_error(plan: Plan, tally: Tally, shards: Sequence[ShardInfo]) -> Refusal | None:
    """The refusal of a run that lost or doubled samples, which is a fault of the program.

    Every shard must have been written once, and the numbers must add up:
    listed images + label rows without an image = examples + dead letters.
    """
    written = sorted(shard.file_name for shard in shards)
    planned = sorted(spec.file_name for spec in plan.shard_plan.specs)
    if written != planned:
        return Refusal.from_error(
            LostSamplesError(
                f"{len(planned)} shards were planned, {len(written)} were written: {_PROGRAM_FAULT}",
            )
        )
    examples = sum(shard.examples for shard in shards)
    dead = tally.dead.total()
    if tally.listed + tally.orphan_rows != examples + dead:
        return Refusal.from_error(
            LostSamplesError(
                f"{tally.listed} listed images + {tally.orphan_rows} label rows without an image are "
                f"not {examples} examples + {dead} dead letters: samples were lost or doubled. "
                f"{_PROGRAM_FAULT}",
            )
        )
    return None


def _too_small_shards(
    shards: ShardConfig, counts: Mapping[str, int], tally: Tally
) -> Refusal | None:
    """The refusal of a size that is smaller than the images, as `100` is where `100MB` was meant."""
    # The last shard of a split may be a remainder. Images above the default size are left to it.
    chosen = shards.shard_bytes != DEFAULT_SHARD_BYTES
    for split, count in counts.items():
        samples = tally.samples[split]
        if shards.is_counted(split) or count - 1 <= samples:
            continue
        if chosen or count > MOST_SHARDS:
            return Refusal.from_error(
                UsageError(
                    f"--shard_size is {counted(shards.shard_bytes, 'byte')}, which makes "
                    f"{counted(count, 'shard')} of {counted(samples, 'sample')} in the split {split}; "
                    "say a size that holds several images, with its unit, such as --shard_size 200MB, "
                    "or --num_shards"
                )
            )
    return None


def _unknown_splits(shards: ShardConfig, splits: Sequence[str]) -> Refusal | None:
    if shards.num_shards is None or isinstance(shards.num_shards, int):
        return None
    unknown = sorted(set(shards.num_shards) - set(splits))
    if not unknown:
        return None
    return Refusal.from_error(
        UsageError(
            f"--num_shards names the split {', '.join(unknown)}, but the splits are {', '.join(splits)}",
        )
    )


def _empty_split(tally: Tally, splits: Sequence[str]) -> Refusal | None:
    """The refusal of a run that was to divide groups or classes and left a split empty."""
    empty = [split for split in splits if not tally.samples[split]]
    if not empty:
        return None
    return Refusal.from_error(
        UsageError(
            f"--splits: not one of {tally.samples.total()} samples fell into {', '.join(empty)}; "
            "there are too few groups, or too few samples in each class, for so small a share. "
            "Give it a larger share, divide groups with --stratify, or try another --seed",
        )
    )


def _told(tally: Tally) -> str:
    """The message of the first dead letter of a row, or else of an image, as a sentence."""
    for reason in sorted(
        tally.first, key=lambda reason: (reason == Reason.UNLABELLED.value, reason)
    ):
        return f"The first {reason}{_first(tally, reason)}. "
    return ""


def _first(tally: Tally, reason: str) -> str:
    """The message of the first dead letter with a reason, and its file; empty if unknown."""
    if reason not in tally.first:
        return ""
    key, message, file, line = tally.first[reason]
    where = f" ({file}, line {line})" if line else f" ({file})" if file else ""
    return f", {key!r}{where}: {message}" if key else f"{where}: {message}"


def _nearest(rows: Sequence[str], images: Sequence[str]) -> str:
    """The two names that are most alike, as a sentence; empty if none are."""
    pairs = [
        (difflib.SequenceMatcher(None, row, image).ratio(), row, image)
        for row in rows
        for image in images
    ]
    ratio, row, image = max(pairs, default=(0.0, "", ""))
    return (
        f"Nearest to each other are the row {row!r} and the image {image!r}. "
        if ratio >= _LIKE
        else ""
    )


def _unmatched_name(tally: Tally) -> str:
    """The fault that --label_from finds in the first image's name, if no image has a label for it."""
    _, message, _, _ = tally.first.get(Reason.UNLABELLED.value, ("", "", "", 0))
    return f". Of the first: {message}" if "--label_from" in message else ""
