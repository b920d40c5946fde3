"""The plan of a run, made from its counts before an image is opened.

With --reuse, it keeps the number of shards and class ids. An option that this settles is recorded as if
it had been typed, so that a conversion from nothing with the recorded options gives the same data set.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from beam_pipeline.core.dataset.plausibility import (
    NO_CHECKS,
    LabelChecks,
    class_questions,
    label_file_questions,
    split_questions,
)
from beam_pipeline.core.dataset.refusals import (
    duplicate_images,
    empty_split,
    mostly_unlabelled,
    nothing_joined,
    other_classes,
    too_many_bad,
    too_small_shards,
    unknown_splits,
)
from beam_pipeline.core.dataset.tally import Tally
from beam_pipeline.core.errors import (
    UsageError,
)
from beam_pipeline.core.failures import Refusal
from beam_pipeline.core.labels.classes import (
    AUTO_ORDER,
    Classes,
    ClassNumbering,
    ClassNumberingError,
)
from beam_pipeline.core.questions import question_error
from beam_pipeline.core.records.record_format import RecordFormat
from beam_pipeline.core.records.sharding import (
    ShardConfig,
    ShardPlan,
)
from beam_pipeline.core.text import counted, enumerated

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

    def count_shards(self, wanted: ShardConfig, split_bytes: Mapping[str, int]) -> Choice:
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
            if before == count:
                continue
            if wanted.is_counted(split):
                notes.append(f"{_replaced(split, count, before)}, by --num_shards")
            elif (
                wanted.shard_bytes <= 2 * (size // before)
                and size <= 2 * before * wanted.shard_bytes
            ):
                counts[split] = earlier[split] = before
            else:
                notes.append(
                    f"{_replaced(split, count, before)}, whose average would be {size // before:,} "
                    f"bytes, while --shard_size is {wanted.shard_bytes:,}"
                )
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


def _replaced(split: str, count: int, before: int) -> str:
    return f"{split}: {counted(count, 'shard')}, all of them written, instead of {before}"


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

    shard_plan: ShardPlan
    classes: tuple[tuple[str, int], ...]
    tally: Tally
    refusal: Refusal | None
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
    """The wishes for a plan.

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
    shards: ShardConfig
    splits: Sequence[str]
    record_format: RecordFormat
    max_bad_fraction: float
    numbering: ClassNumbering
    none_empty: bool = False
    may_be_unlabelled: bool = True
    checks: LabelChecks = NO_CHECKS
    may_have_duplicates: bool = True


def make_plan(tally: Tally, request: PlanRequest, earlier: Kept = NOTHING_KEPT) -> Plan:
    """Plans the shards of the joined samples, or refuses with a reason.

    Args:
      tally: the counts of listing, labels and join.
      request: the wishes.
      earlier: what an earlier data set settles.
    """
    checks = request.checks
    names = sorted({*tally.samples, *request.splits})
    shards = earlier.count_shards(
        request.shards, {split: tally.written_bytes(split) for split in names}
    )
    classes, unnumbered = Choice(()), None
    try:
        classes = earlier.number_classes(request.numbering, tally.classes)
    except ClassNumberingError as error:
        unnumbered = Refusal.from_error(
            UsageError(f"--class_ids keep: {error}; rename it or leave the option out")
        )
    passed_over = list(label_file_questions(tally.label_files, tally.listed, checks))
    of_classes = () if "classes" in classes.options else class_questions(tally.classes, checks)
    asked = [*passed_over, *split_questions(tally.samples, checks), *of_classes]
    question = None
    if asked and not checks.assumed:
        question = Refusal.from_error(question_error(asked, checks.options))
    too_small = too_small_shards(request.shards, shards.value, tally)
    in_order = (
        *tally.refusals[:1],
        question if passed_over else None,  # labels of flat folders can only be in files
        other_classes(tally, checks),
        nothing_joined(tally, checks.option),
        unknown_splits(request.shards, names),
        empty_split(tally, request.splits) if request.none_empty else None,
        too_small,
        too_many_bad(tally, request.max_bad_fraction),
        None if request.may_have_duplicates else duplicate_images(tally),
        None if request.may_be_unlabelled else mostly_unlabelled(tally, checks.option),
        unnumbered,
        question,
    )
    # Shards without number are not even named.
    shard_plan = ShardPlan(
        request.name, () if too_small else tuple(shards.value.items()), request.record_format
    )
    return Plan(
        shard_plan=shard_plan,
        classes=classes.value,
        tally=tally,
        refusal=next(filter(None, in_order), None),
        settled={**shards.options, **classes.options},
        questions=(*checks.overridden, *(question.reason for question in asked)),
        notes=(*shards.notes, *classes.notes),
    )
