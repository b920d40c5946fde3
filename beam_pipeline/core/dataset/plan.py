"""The plan of a run, made from its counts before an image is opened, and the reasons why a run writes nothing.

With --reuse, it keeps the number of shards and class ids. An option that this settles is recorded as if
it had been typed, so that a conversion from nothing with the recorded options gives the same data set.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from beam_pipeline.core import errors
from beam_pipeline.core.dataset import changes, duplicates, plausibility
from beam_pipeline.core.dataset.names import DEAD_LETTERS_NAME
from beam_pipeline.core.dataset.tally import Tally, accounting_fault
from beam_pipeline.core.dead_letters import Reason
from beam_pipeline.core.images.preparation import FILTER_REASONS
from beam_pipeline.core.labels.classes import (
    AUTO_ORDER,
    Classes,
    ClassNumbering,
    ClassNumberingError,
)
from beam_pipeline.core.questions import question_error
from beam_pipeline.core.records import sharding
from beam_pipeline.core.records.record_format import RecordFormat
from beam_pipeline.core.text import counted, enumerated, quoted, terminal_line

_SHOWN = 10


class Choice(NamedTuple):
    """The numbers of shards, or the classes, of a plan.

    Attributes:
      value: split -> number of shards; or (name, id) of the classes, in order of id.
      options: options that the choice settles, because they depend on the earlier data set or the classes.
      notes: sentences for people.
    """

    value: Any
    options: Mapping[str, Any] = {}
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class Kept:
    """The values kept from an earlier data set.

    Attributes:
      shards: split -> number of shards.
      classes: (name, id) of its classes; empty where the format or the user sets the ids.
    """

    shards: Mapping[str, int] = field(default_factory=dict)
    classes: Classes = ()

    def count_shards(self, wanted: sharding.ShardConfig, split_bytes: Mapping[str, int]) -> Choice:
        """The number of shards of each split: the earlier one, unless shards would be far off their size.

        Half to double the wanted size is near enough.

        Args:
          wanted: the number or size that was asked for.
          split_bytes: split -> bytes of its images.
        """
        counts, earlier, notes = {}, {}, []
        for split, size in split_bytes.items():
            counts[split] = count = wanted.count_for(split, size)
            before = self.shards.get(split, count)
            average, most = size // before, 2 * wanted.shard_bytes
            reason = (
                f"whose average would be {average:,} bytes, while --shard_size is "
                f"{wanted.shard_bytes:,}"
            )
            if wanted.is_counted(split):
                reason = "by --num_shards"
            elif before != count and wanted.shard_bytes <= 2 * average and size <= before * most:
                counts[split] = earlier[split] = before
            if before != counts[split]:
                written = f"{counted(count, 'shard')}, all of them written"
                notes.append(f"{split}: {written}, instead of {before}, {reason}")
        return Choice(counts, {"num_shards": earlier} if earlier else {}, notes)

    def number_classes(self, numbering: ClassNumbering, names: Iterable[str]) -> Choice:
        """The classes with their ids: classes keep their earlier ones, new classes come after the last.

        Args:
          numbering: how classes are numbered where nothing is kept.
          names: the classes that samples have.

        Raises:
          ClassNumberingError: as `ClassNumbering.number`.
        """
        names = list(names)
        classes = numbering.number(names)
        asked = numbering.order == AUTO_ORDER
        options: dict[str, Any] = {"label_order": numbering.order_of(names)} if asked else {}
        if not self.classes or numbering.known or numbering.from_name:
            return Choice(classes, options)
        base = self.classes[0][1]
        continued = ClassNumbering(base, numbering.order, self.classes).number(names)
        earlier = dict(self.classes)
        new = [f"{i} {name}" for name, i in continued if name not in earlier]
        notes = [f"{counted(len(new), 'new class/new classes')}: {enumerated(new, _SHOWN)}"]
        if continued != classes:
            order = "code_point"  # as --classes records it
            options = {"label_base": base, "label_order": order, "classes": dict(continued)}
        return Choice(continued, options, notes if new else ())


NOTHING_KEPT = Kept()


@dataclass(frozen=True)
class Plan:
    """The plan of what will be written, made before an image is opened.

    Attributes:
      shard_plan: the shards of every split.
      classes: (name, id) of every class, in order of id.
      tally: the counts up to here.
      refusal: the reason why nothing may be written, or None.
      settled: options that depend on the classes and the earlier data set.
      questions: reasons of the questions that --yes answered, for the manifest.
      notes: sentences for people on what the earlier data set changed of it.
      features: every feature of an example as in the manifest, where the samples settled that.
    """

    shard_plan: sharding.ShardPlan
    classes: tuple[tuple[str, int], ...]
    tally: Tally
    refusal: errors.Refusal | None
    settled: Mapping[str, Any] = field(default_factory=dict)
    questions: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    features: Mapping[str, Any] | None = None

    @cached_property
    def class_ids(self) -> dict[str, int]:
        """Class -> id."""
        return dict(self.classes)


@dataclass(frozen=True, kw_only=True)
class PlanRequest:
    """What a plan depends on beside the samples.

    Attributes:
      name: data set name.
      shards: the requested number or size of shards.
      splits: splits that must exist even if no sample fell into them.
      record_format: the format of the shards.
      max_bad_fraction: bad samples allowed, of all listed images.
      numbering: how classes get their ids.
      none_empty: whether a split without samples is a fault, as groups or classes were to be divided.
      may_be_unlabelled: whether most images may be left out for want of a label row.
      checks: what is checked of the labels.
      may_have_duplicates: whether images may have the same bytes, as far as the tally knows.
    """

    name: str
    shards: sharding.ShardConfig
    splits: Sequence[str]
    record_format: RecordFormat
    max_bad_fraction: float
    numbering: ClassNumbering
    none_empty: bool = False
    may_be_unlabelled: bool = True
    checks: plausibility.LabelChecks = plausibility.NO_CHECKS
    may_have_duplicates: bool = True


def make_plan(tally: Tally, request: PlanRequest, earlier: Kept = NOTHING_KEPT) -> Plan:
    """Plans the shards of the joined samples, or refuses with a reason.

    Args:
      tally: the counts of listing, labels and join.
      request: what the plan depends on beside them.
      earlier: what an earlier data set settles.
    """
    checks = request.checks
    names = sorted({*tally.samples, *request.splits})
    sizes = {split: tally.written_bytes(split) for split in names}
    shards = earlier.count_shards(request.shards, sizes)
    too_small = _too_small_shards(request.shards, shards.value, tally)
    classes, unnumbered = Choice(()), []
    try:
        classes = earlier.number_classes(request.numbering, tally.classes)
    except ClassNumberingError as error:
        unnumbered = [
            errors.UsageError(f"--class_ids keep: {error}; rename it or leave the option out")
        ]
    passed_over = list(plausibility.label_file_questions(tally.label_files, tally.listed, checks))
    of_classes = (
        () if "classes" in classes.options else plausibility.class_questions(tally.classes, checks)
    )
    asked = [*passed_over, *plausibility.split_questions(tally.samples, checks), *of_classes]
    questions = [question_error(asked, checks.options)] if asked and not checks.assumed else []
    faults = (
        *(questions if passed_over else ()),  # labels of flat folders can only be in files
        *_label_faults(tally, checks),
        *_split_faults(tally, request, names),
        *too_small,
    )
    further = (*_sample_faults(tally, request), *unnumbered, *questions)
    refusals = (
        *(*tally.refusals, *map(errors.Refusal.from_error, faults)),
        *(too_many_bad(tally, request.max_bad_fraction), *map(errors.Refusal.from_error, further)),
    )
    counts = () if too_small else tuple(shards.value.items())  # those without number have no name
    shard_plan = sharding.ShardPlan(request.name, counts, request.record_format)
    return Plan(
        shard_plan=shard_plan,
        classes=classes.value,
        tally=tally,
        refusal=next(filter(None, refusals), None),
        settled={**shards.options, **classes.options},
        questions=(*checks.overridden, *(question.reason for question in asked)),
        notes=(*shards.notes, *classes.notes),
    )


# --- reasons why nothing is written, or no manifest ------------------------------------------------

_MOST_UNLABELLED = 0.5  # of the listed images, where label files are given
_OTHER_FILES = (
    "Write DICOM, videos and raw files of cameras as PNG or JPEG first; beam_pipeline.convert_samples takes images "
    "from arrays in Python (docs/datasets/python.md). TFRecords need no conversion: `beam-tfrecord inspect` "
    "shows what they contain"
)
_NO_LABELS = (
    "There are no label rows, and no class folders: give --labels with rows, put each class's images into a "
    "folder of its own, or take the class from the names with --label_from, such as "
    "'(?P<label>[a-z]+)[._]?[0-9]+[.]jpg'; --unlabelled keep writes images without labels"
)


def _label_faults(
    tally: Tally, checks: plausibility.LabelChecks
) -> Iterator[errors.ConversionError]:
    """Classes that are not all in --classes, and labels that name no image."""
    unknown, samples = tally.dead[Reason.UNKNOWN_CLASS], tally.samples.total()
    if unknown and (checks.known_only or not samples):
        raise_it = "" if checks.known_only else "; check that the file is of this data"
        yield errors.UnknownClassError(
            f"{unknown if samples else f'all {unknown}'} labelled images have a class that --classes "
            f"{checks.known_from} does not name (such as {quoted(tally.shown.get(Reason.UNKNOWN_CLASS, []))}); "
            f"dead_letters.jsonl tells which{raise_it}"
        )
    no_row_met = bool(tally.label_rows) and tally.orphan_rows >= tally.label_rows
    if not samples or (tally.unlabelled and no_row_met):
        yield errors.NothingJoinedError(_nothing_joined(tally, checks.option))


def _nothing_joined(tally: Tally, option: str) -> str:
    """The message of a run without any label.

    Args:
      tally: the counts of listing, labels and join.
      option: which names the label files, or the masks.
    """
    if not tally.listed and (tally.label_rows or not tally.dead):
        ignored = ", ".join(f"{n} {kind}" for kind, n in sorted(tally.ignored.items()))
        if not ignored:
            return "no images found; check --images"
        return f"no images found (passed over: {ignored}); check --images. {_OTHER_FILES}"
    unlabelled = tally.unlabelled or tally.dead[Reason.UNLABELLED]
    counts = {**tally.dead, Reason.UNLABELLED.value: unlabelled} if unlabelled else tally.dead
    message = (
        f"none of {tally.listed} images can be written with a label: {_causes(counts, tally)}. "
        "dead_letters.jsonl lists them all"
    )
    missing = tally.dead[Reason.MISSING_IMAGE]
    if not unlabelled and not missing:
        return message
    if tally.label_rows or missing or tally.dead[Reason.BAD_ROW]:  # a pipeline counts no rows
        named = " and --masks" if option == "--masks" else f", {option} and --key_column"
        return f"{message}. Names are relative to --images; check it{named}{_below(tally)}"
    return f"{message}. {_NO_LABELS}"


def _below(tally: Tally) -> str:
    """A sentence on a row that names an image from a folder below --images on; empty if none does."""
    for row in tally.shown.get(Reason.MISSING_IMAGE, []):
        for image in tally.shown.get(Reason.UNLABELLED, []):
            if image.endswith(f"/{row}"):
                folder = image.removesuffix(row)
                return f". The row {row!r} would name the image {image!r} if --images named its folder {folder}"
    return ""


def _causes(dead: Mapping[str, int], tally: Tally) -> str:
    """Dead letters by reason: the first few keys, and what is wrong with the first."""
    causes = []
    for reason, count in sorted(dead.items()):
        keys = quoted([key for key in tally.shown.get(reason, []) if key])
        first = _first(tally, reason)
        examples = [keys] if keys != "none" else []
        examples += [f"of the first: {first}" if examples else first] if first else []
        such_as = f" (such as {'; '.join(examples)})" if examples else ""
        causes.append(f"{count} {reason}{such_as}")
    return ", ".join(causes)


def _first(tally: Tally, reason: str) -> str:
    """The place and message of the first dead letter with a reason; empty if unknown."""
    _, message, file, line = tally.first.get(reason, ("", "", "", 0))
    place = f"{file}, line {line}" if line else file
    return f"{place}: {message}" if place else message


def _split_faults(
    tally: Tally, request: PlanRequest, splits: Sequence[str]
) -> Iterator[errors.ConversionError]:
    """Splits in --num_shards that do not exist, and splits that are left empty."""
    numbers = request.shards.num_shards
    unknown = sorted(set(numbers) - set(splits)) if isinstance(numbers, Mapping) else []
    if unknown:
        yield errors.UsageError(
            f"--num_shards names the split {', '.join(unknown)}, but the splits are {', '.join(splits)}"
        )
    empty = [split for split in request.splits if not tally.samples[split]]
    if empty and request.none_empty:
        yield errors.UsageError(
            f"--splits: not one of {tally.samples.total()} samples fell into {', '.join(empty)}; "
            "there are too few groups, or too few samples in each class, for so small a share. "
            "Give it a larger share, divide groups with --stratify, or try another --seed"
        )


def _too_small_shards(
    shards: sharding.ShardConfig, counts: Mapping[str, int], tally: Tally
) -> list[errors.ConversionError]:
    """The error of a size that is smaller than the images, as `100` is where `100MB` was meant."""
    # The last shard of a split may be a remainder. Images above the default size are left to it.
    chosen = shards.shard_bytes != sharding.DEFAULT_SHARD_BYTES
    return [
        errors.UsageError(
            f"--shard_size is {counted(shards.shard_bytes, 'byte')}, which makes "
            f"{counted(count, 'shard')} of {counted(tally.samples[split], 'sample')} in the split {split}; "
            "give a size of several images, with its unit, such as --shard_size 200MB, or --num_shards"
        )
        for split, count in counts.items()
        if not shards.is_counted(split)
        and count - 1 > tally.samples[split]
        and (chosen or count > sharding.MOST_SHARDS)
    ]


def _sample_faults(tally: Tally, request: PlanRequest) -> Iterator[errors.ConversionError]:
    """Images of the same bytes, and too many images without labels."""
    if tally.duplicates.groups and not request.may_have_duplicates:
        yield errors.DuplicateImagesError(
            f"--duplicates error: {'; '.join(duplicates.described(tally.duplicates))}. Remove all but one of each "
            "group; --duplicates first does so for you, and keep writes them all"
        )
    reason = Reason.UNLABELLED.value
    unlabelled = tally.dead[reason]
    if unlabelled > _MOST_UNLABELLED * tally.listed and not request.may_be_unlabelled:
        further = _causes({key: n for key, n in tally.dead.items() if key != reason}, tally)
        yield errors.QuestionError(
            terminal_line(
                f"{unlabelled} of {tally.listed} images lack a label, such as "
                f"{quoted(tally.shown.get(reason, []))}{f'; besides, {further}' if further else ''}. "
                f"A data set without them is seldom meant: check {request.checks.option}, or name "
                "fewer images in --images; --yes leaves them out"
            )
        )


def too_many_bad(tally: Tally, max_bad_fraction: float) -> errors.Refusal | None:
    """The refusal of a run with more bad samples than allowed."""
    bad, candidates = sum(tally.bad.values()), tally.listed + tally.further_samples
    # Rows without an image can make more than there are images.
    if not bad or max_bad_fraction >= 1 or (candidates and bad / candidates <= max_bad_fraction):
        return None
    error = errors.TooManyBadSamplesError(
        f"{counted(bad, 'bad sample')} among {counted(tally.listed, 'listed image')}, {max_bad_fraction:g} "
        f"of them allowed: {_causes(tally.bad, tally)}. dead_letters.jsonl lists them; fix them or "
        "raise --max_bad_fraction"
    )
    return errors.Refusal.from_error(error)


def all_filtered(tally: Tally, shards: Sequence[sharding.ShardInfo]) -> errors.Refusal | None:
    """The refusal of a run whose filters left nothing to write."""
    counts = {name: tally.dead[reason] for reason, name in FILTER_REASONS.items()}
    filtered = [f"{count} by --{name}" for name, count in counts.items() if count]
    if not filtered or any(shard.examples for shard in shards):
        return None
    error = errors.NothingLeftError(
        f"no image is left: of {counted(tally.listed, 'listed image')}, the filters leave out "
        f"{', '.join(filtered)}. dead_letters.jsonl lists them with their sizes; choose other limits"
    )
    return errors.Refusal.from_error(error)


def accounting_error(
    shard_plan: sharding.ShardPlan,
    tally: Tally,
    shards: Sequence[sharding.ShardInfo],
    listed: Mapping[str, int],
) -> errors.Refusal | None:
    """The refusal of a run that lost or doubled samples, which is a fault of the program.

    Every shard must have been written once, the numbers must add up, and `listed`, the lines of
    `dead_letters.jsonl` by reason, must be all dead letters.
    """
    fault = accounting_fault(
        listed=tally.listed,
        orphan_rows=tally.orphan_rows,
        further=tally.further_samples,
        dropped=tally.dropped_objects,
        examples=sum(shard.examples for shard in shards),
        dead_letters=tally.dead.total(),
    )
    if fault:
        fault += ": samples were lost or doubled."
    if listed != tally.dead:
        fault = f"{DEAD_LETTERS_NAME} lists {dict(listed)}, but counted were {dict(tally.dead)}."
    planned = [spec.file_name for spec in shard_plan.specs]
    if sorted(shard.file_name for shard in shards) != sorted(planned):
        fault = f"{len(planned)} shards were planned, {len(shards)} were written:"
    remedy = "This is a fault of the program or the runner; please report it"
    error = errors.LostSamplesError(f"{fault} No manifest is written. {remedy}")
    return errors.Refusal.from_error(error) if fault else None


def other_shards(then: sharding.ShardPlan, now: sharding.ShardPlan) -> errors.ConversionError:
    """The error of a resumed run whose shards differ from the earlier run's."""
    differences = changes.option_differences(dict(then.shards), dict(now.shards))
    return errors.ChangedInputsError(
        "--resume: the images or labels have changed since the earlier run, so that other numbers of shards "
        f"would be written ({'; '.join(differences)}). Restore them, or convert again with --overwrite"
    )
