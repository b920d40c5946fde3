"""Plans shards: from the tallies of listing and join to the plan of what will be written."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import apache_beam as beam

from beam_pipeline.core.dataset.changes import with_settled
from beam_pipeline.core.dataset.estimate import FEATURE_BYTES
from beam_pipeline.core.dataset.manifest import check_draft
from beam_pipeline.core.dataset.plan import NOTHING_KEPT, Plan, PlanRequest, make_plan
from beam_pipeline.core.dataset.plausibility import NO_CHECKS, LabelChecks
from beam_pipeline.core.dataset.refusals import other_shards
from beam_pipeline.core.dataset.tally import Tally
from beam_pipeline.core.errors import (
    ChangedInputsError,
    ConversionError,
    OutputError,
)
from beam_pipeline.core.failures import DEFAULT_POLICY, FailurePolicy, Refusal
from beam_pipeline.core.labels.classes import ClassNumbering
from beam_pipeline.core.records.record_format import RecordFormat
from beam_pipeline.core.records.sharding import ShardConfig, ShardPlan
from beam_pipeline.storage import files
from beam_pipeline.transforms import counters
from beam_pipeline.transforms.in_workers import InWorkers
from beam_pipeline.work import progress
from beam_pipeline.work.earlier_data_set import EarlierDataSet
from beam_pipeline.work.incomplete_folder import EarlierRun, write_note
from beam_pipeline.work.outcome import Outcome
from beam_pipeline.work.output_folder import check_unwritten, read_earlier


class SumTallies(beam.CombineFn):
    """Adds the counts of all stages and workers."""

    def create_accumulator(self) -> Tally:
        return Tally()

    def add_input(self, accumulator: Tally, tally: Tally) -> Tally:
        accumulator.add(tally)
        return accumulator

    def merge_accumulators(self, accumulators: Iterable[Tally]) -> Tally:
        total = Tally()
        for accumulator in accumulators:
            total.add(accumulator)
        return total

    def extract_output(self, accumulator: Tally) -> Tally:
        return accumulator


def plan_shards(
    tally: Tally,
    output_folder: str,
    run: Mapping[str, Any],
    resume: bool,
    check_space: bool = True,
    reuse: EarlierDataSet | None = None,
    failures: FailurePolicy = DEFAULT_POLICY,
    **wishes: Any,
) -> Plan:
    """Makes the plan and notes it in the output folder, before anything else is written there.

    If the run is killed, the note lists the files that it may have left.

    Args:
      tally: the sum of all tallies.
      output_folder: where the note goes.
      run: the name, seed, options and features, for the note.
      resume: whether the shards must be those of an earlier run.
      check_space: whether the shards will be written to this folder, so that its disk needs room.
      reuse: the data set whose shards may be taken.
      failures: says whether the engine may run this again.
      wishes: as in `PlanRequest`.
    """
    plan = make_plan(tally, PlanRequest(**wishes), reuse.kept if reuse else NOTHING_KEPT)
    samples, image_bytes = tally.samples.total(), tally.sample_bytes.total()
    progress.announce(samples, image_bytes)
    run = with_settled(run, plan.settled)
    refusal: Refusal | None
    try:
        check_draft(run, plan.classes)
        earlier = read_earlier(output_folder) if resume else None
        refusal = _other_run(earlier, plan, run) if earlier else None
        if check_space and not resume:
            check_unwritten(output_folder, plan.shard_plan, retries=failures.retries)
    except ConversionError as error:  # or an earlier run cannot be read
        refusal = Refusal.from_error(error)
    if refusal:
        return dataclasses.replace(plan, refusal=plan.refusal or refusal)
    try:
        refusal = plan.refusal
        if refusal is None and check_space:
            there = [(output_folder, plan.shard_plan)] if resume else []
            there += [(reuse.folder, reuse.shard_plan)] if reuse else []
            refusal = _too_little_space(tally, folder=output_folder, run=run, there=there)
        write_note(output_folder, plan, run)
    except OSError as error:
        what = f"{output_folder} cannot be written to: {error.strerror or error}"
        refusal = plan.refusal or Refusal.from_error(OutputError(what))
    return plan if refusal is plan.refusal else dataclasses.replace(plan, refusal=refusal)


def _too_little_space(
    tally: Tally,
    *,
    folder: str,
    run: Mapping[str, Any],
    there: Iterable[tuple[str, ShardPlan]],
) -> Refusal | None:
    """The refusal of a run whose shards would not fit on the disk.

    Only where their size is known before: images are written as they are, or some were measured.

    Args:
      tally: the sum of all tallies.
      folder: the output folder.
      run: what the run records.
      there: folders on a disk, and their shards, which may need no further room.
    """
    free = files.free_bytes(folder)
    options = run["options"]
    if free is None or options.get("compression") != "none" or options.get("image_encoding"):
        return None
    for other, shard_plan in there:
        if files.free_bytes(other) is not None:
            sizes = files.sizes_in(other)
            free += sum(sizes.get(spec.file_name, 0) for spec in shard_plan.specs)
    if options.get("codec") and not tally.measured:
        return None
    needed = sum(map(tally.written_bytes, tally.samples))
    needed += 0 if tally.measured else FEATURE_BYTES * tally.samples.total()
    if needed <= free:
        return None
    return Refusal.from_error(
        OutputError(
            f"the shards would take about {needed:,} bytes, and the disk of {folder} has {free:,} "
            "left. Nothing was written; make room or choose another --output"
        )
    )


def _other_run(earlier: EarlierRun, plan: Plan, run: Mapping[str, Any]) -> Refusal | None:
    """The refusal of a run that would not write what the earlier one did."""
    if earlier.shard_plan != plan.shard_plan:
        return other_shards(earlier.shard_plan, plan.shard_plan)
    then = earlier.run.get("options", {}).get("label_order", "")
    now = plan.settled.get("label_order", then)
    if not then or then == now:
        return None
    return Refusal.from_error(
        ChangedInputsError(
            f"--resume: the earlier run sorted the classes with --label_order {then}, this one would "
            f"sort them with {now}, and give them other ids. Say --label_order {then}, or convert "
            "again with --overwrite"
        )
    )


def _plan(tally: Tally, raises: bool, **wishes: Any) -> Iterator[Outcome]:
    plan = plan_shards(tally, **wishes)
    if raises and plan.refusal:
        raise plan.refusal.to_error()
    planned = {
        counters.SAMPLES_PLANNED: tally.samples.total(),
        counters.BYTES_PLANNED: tally.sample_bytes.total(),
        counters.DEAD_LETTERS: tally.dead.total(),
    }
    yield Outcome([plan], counters=planned)


@dataclass(kw_only=True)
class PlanShards(beam.PTransform):
    """Makes the one plan of a run from the tallies of listing, labels and join.

    Attributes:
      output_folder: where the plan's note goes.
      run: the name, seed, options and features, for the note.
      resume: whether the shards must be those of an earlier run.
      name, shards, splits, record_format, max_bad_fraction, numbering, none_empty,
        may_be_unlabelled, checks, may_have_duplicates: as in `PlanRequest`.
      check_space: whether the shards will be written to this folder.
      reuse: the data set whose shards may be taken.
      failures: says whether the engine may run this again.
      raises: raise the plan's refusal; False where `FinishDataset` reports it.
    """

    output_folder: str
    run: Mapping[str, Any]
    resume: bool
    name: str
    shards: ShardConfig
    splits: tuple[str, ...]
    record_format: RecordFormat
    max_bad_fraction: float
    numbering: ClassNumbering
    none_empty: bool = False
    may_be_unlabelled: bool = True
    checks: LabelChecks = NO_CHECKS
    may_have_duplicates: bool = True
    check_space: bool = True
    reuse: EarlierDataSet | None = None
    failures: FailurePolicy = DEFAULT_POLICY
    raises: bool = True

    def expand(self, tallies: beam.PCollection[Tally]) -> beam.PCollection[Plan]:
        wishes = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return (
            tallies
            | "Sum" >> beam.CombineGlobally(SumTallies()).without_defaults()
            | "Plan" >> beam.ParDo(InWorkers(partial(_plan, **wishes))).with_output_types(Plan)
        )
