"""Plans shards: from the counts of listing and join to the plan of what will be written, and each shard's samples."""

from __future__ import annotations

import dataclasses
import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import apache_beam as beam
from apache_beam.pvalue import AsSingleton

from beam_pipeline.core.dataset.changes import ShardFate, with_settled
from beam_pipeline.core.dataset.estimate import FEATURE_BYTES
from beam_pipeline.core.dataset.manifest import check_draft
from beam_pipeline.core.dataset.plan import NOTHING_KEPT, Plan, PlanRequest, make_plan
from beam_pipeline.core.dataset.refusals import other_shards
from beam_pipeline.core.dataset.tally import (
    Tally,
    measured_samples,
    most_measured,
)
from beam_pipeline.core.errors import (
    ChangedInputsError,
    ConversionError,
    OutputError,
)
from beam_pipeline.core.failures import DEFAULT_POLICY, FailurePolicy, Refusal
from beam_pipeline.core.packing import pack
from beam_pipeline.core.records.sharding import KeyHasher, ShardDivision
from beam_pipeline.core.references import SampleRef
from beam_pipeline.storage import files
from beam_pipeline.storage.read_ahead import ReadOptions
from beam_pipeline.transforms import counters
from beam_pipeline.transforms.batches import SampleBatch
from beam_pipeline.transforms.in_workers import Divide, InWorkers
from beam_pipeline.work import progress
from beam_pipeline.work.earlier_data_set import EarlierDataSet
from beam_pipeline.work.encoding import EncodingOptions
from beam_pipeline.work.image_tasks import measure_images
from beam_pipeline.work.incomplete_folder import EarlierRun, write_note
from beam_pipeline.work.outcome import Call, Outcome
from beam_pipeline.work.output_folder import check_unwritten, read_earlier
from beam_pipeline.work.progress import Counts
from beam_pipeline.work.shard_task import shard_inputs
from beam_pipeline.work.spill import unspill_all

_SAMPLES_A_TASK = 8


class _Lowest(NamedTuple):
    """The samples with the lowest hashes of some.

    Attributes:
      total: of how many.
      samples: (hash, sample), sorted.
    """

    total: int
    samples: list[tuple[bytes, SampleRef]]


class LowestSamples(beam.CombineFn):
    """Finds the samples with the lowest hashes, as many as are to be measured."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def create_accumulator(self) -> _Lowest:
        return _Lowest(0, [])

    def add_input(self, accumulator: _Lowest, batch: SampleBatch) -> _Lowest:
        hasher = KeyHasher(self._seed)
        found = ((hasher.order(ref.key), ref) for ref in batch)
        lowest = heapq.nsmallest(most_measured(), found, key=_order)
        return self.merge_accumulators([accumulator, _Lowest(len(batch), lowest)])

    def merge_accumulators(self, accumulators: Iterable[_Lowest]) -> _Lowest:
        total, samples = 0, []
        for accumulator in accumulators:
            total += accumulator.total
            samples += accumulator.samples
        return _Lowest(total, heapq.nsmallest(most_measured(), samples, key=_order))

    def extract_output(self, accumulator: _Lowest) -> list[SampleRef]:
        return [ref for _, ref in accumulator.samples[: measured_samples(accumulator.total)]]


def _order(found: tuple[bytes, SampleRef]) -> tuple[bytes, str]:
    return found[0], found[1].key


def _parts(samples: Sequence[SampleRef]) -> Iterator[SampleBatch]:
    for start in range(0, len(samples), _SAMPLES_A_TASK):
        yield SampleBatch(samples[start : start + _SAMPLES_A_TASK])


@dataclass(frozen=True)
class _Measuring:
    encoding: EncodingOptions
    reading: ReadOptions

    def __call__(self, samples: SampleBatch) -> Iterator[Call]:
        yield Call(measure_images, (self.encoding, tuple(samples), self.reading))


@dataclass(kw_only=True)
class MeasureOutput(beam.PTransform):
    """Encodes the samples with the lowest hashes, for the plan to know how large they become.

    Attributes:
      encoding: the encoding of the examples.
      reading: how far each worker reads ahead.

    Returns: `Tally`s with nothing but `measured`.
    """

    encoding: EncodingOptions
    reading: ReadOptions

    def expand(self, samples: beam.PCollection[SampleBatch]) -> beam.PCollection[Tally]:
        return (
            samples
            | "Lowest" >> beam.CombineGlobally(LowestSamples(self.encoding.seed)).without_defaults()
            | "Parts" >> beam.FlatMap(_parts).with_output_types(SampleBatch)
            | beam.Reshuffle()
            | "Measure"
            >> beam.ParDo(InWorkers(_Measuring(self.encoding, self.reading))).with_output_types(
                Tally
            )
        )


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


@dataclass(frozen=True, kw_only=True)
class Planning:
    """Makes the one plan of a run and notes it in the output folder, before anything else is written there.

    If the run is killed, the note lists the files that it may have left.

    Attributes:
      request: what the plan depends on beside the samples.
      output_folder: where the note goes.
      run: the name, seed, options and features, for the note.
      resume: whether the shards must be those of an earlier run.
      writes: whether the shards will be written to this folder, so that its disk needs room.
      reuse: the data set whose shards may be taken.
      failures: says whether the engine may run this again.
      raises: raise the plan's refusal; False where `FinishDataset` reports it.
    """

    request: PlanRequest
    output_folder: str
    run: Mapping[str, Any]
    resume: bool = False
    writes: bool = True
    reuse: EarlierDataSet | None = None
    failures: FailurePolicy = DEFAULT_POLICY
    raises: bool = True

    def __call__(self, tally: Tally) -> Iterator[Outcome]:
        """The outcome of the sum of all tallies."""
        plan = self.plan(tally)
        if self.raises and plan.refusal:
            raise plan.refusal.to_error()
        planned = {
            counters.SAMPLES_PLANNED: tally.samples.total(),
            counters.BYTES_PLANNED: tally.sample_bytes.total(),
            counters.DEAD_LETTERS: tally.dead.total(),
        }
        yield Outcome([plan], counters=planned)

    def plan(self, tally: Tally) -> Plan:
        """Makes the plan and notes it."""
        plan = make_plan(tally, self.request, self.reuse.kept if self.reuse else NOTHING_KEPT)
        samples, size = tally.samples.total(), tally.sample_bytes.total()
        progress.report(Counts(samples=samples, image_bytes=size, is_total=True))
        run = with_settled(self.run, plan.settled)
        refusal: Refusal | None
        try:
            check_draft(run, plan.classes)
            earlier = read_earlier(self.output_folder) if self.resume else None
            refusal = _other_run(earlier, plan, run) if earlier else None
            if self.writes and not self.resume:
                check_unwritten(self.output_folder, plan.shard_plan, retries=self.failures.retries)
        except ConversionError as error:  # or an earlier run cannot be read
            refusal = Refusal.from_error(error)
        except OSError as error:
            reason = f"{self.output_folder} cannot be read: {error.strerror or error}"
            refusal = Refusal.from_error(OutputError(reason))
        if refusal:
            return dataclasses.replace(plan, refusal=plan.refusal or refusal)
        try:
            refusal = plan.refusal or (self._too_little_space(plan, run) if self.writes else None)
            write_note(self.output_folder, plan, run)
        except OSError as error:
            what = f"{self.output_folder} cannot be written to: {error.strerror or error}"
            refusal = plan.refusal or Refusal.from_error(OutputError(what))
        return plan if refusal is plan.refusal else dataclasses.replace(plan, refusal=refusal)

    def _too_little_space(self, plan: Plan, run: Mapping[str, Any]) -> Refusal | None:
        """The refusal of a run whose shards would not fit on the disk.

        Only where their size is known before: images are written as they are, or some were measured.
        """
        tally, folder = plan.tally, self.output_folder
        free = files.free_bytes(folder)
        options = run["options"]
        if free is None or options.get("compression") != "none" or options.get("image_encoding"):
            return None
        there = [(folder, plan.shard_plan)] if self.resume else []
        there += [(self.reuse.folder, self.reuse.shard_plan)] if self.reuse else []
        for shards_folder, shard_plan in there:  # which may need no further room
            if files.free_bytes(shards_folder) is not None:
                sizes = files.sizes_in(shards_folder)
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


@dataclass
class PlanShards(beam.PTransform):
    """Makes the one plan of a run from the tallies of listing, labels and join.

    Attributes:
      planning: makes it.
    """

    planning: Planning

    def expand(self, tallies: beam.PCollection[Tally]) -> beam.PCollection[Plan]:
        return (
            tallies
            | "Sum" >> beam.CombineGlobally(SumTallies()).without_defaults()
            | "Plan" >> beam.ParDo(InWorkers(self.planning)).with_output_types(Plan)
        )


def _division(plan: Plan, seed: int) -> ShardDivision | None:
    """The division into shards; None where the plan refuses to write."""
    return None if plan.refusal else ShardDivision(plan.shard_plan, seed)


def _empty_shards(plan: Plan) -> Iterator[tuple[int, bytes]]:
    """An empty part of every shard, so that each is written even if no sample falls into it."""
    if not plan.refusal:
        shards = sum(count for _, count in plan.shard_plan.shards)
        yield from ((number, pack(())) for number in range(shards))


@dataclass(kw_only=True)
class AssignShards(beam.PTransform):
    """Groups samples by shard. Only references are shuffled: no image has been opened yet.

    They stay packed until the shard is written.

    Attributes:
      plan: PCollection of the one `Plan`.
      seed: of the hash that places samples.
    """

    plan: beam.PCollection[Plan]
    seed: int

    def expand(
        self, samples: beam.PCollection[SampleBatch]
    ) -> beam.PCollection[tuple[int, Iterable[bytes]]]:
        parts = samples | "Assign" >> beam.ParDo(
            Divide(partial(_division, seed=self.seed)), AsSingleton(self.plan)
        ).with_output_types(tuple[int, bytes])
        empty = self.plan | "EveryShard" >> beam.FlatMap(_empty_shards).with_output_types(
            tuple[int, bytes]
        )
        return (parts, empty) | beam.Flatten() | "GroupByShard" >> beam.GroupByKey()


@dataclass(frozen=True)
class _Previewing:
    encoding: EncodingOptions
    earlier: EarlierDataSet

    def __call__(self, shard: tuple[int, Iterable[bytes]], plan: Plan) -> Iterator[Outcome]:
        number, batches = shard
        spec = plan.shard_plan.spec(number)
        inputs = shard_inputs(spec, unspill_all(batches), plan.class_ids, self.encoding)
        yield Outcome([self.earlier.look_up(inputs).expected_fate()])


@dataclass(kw_only=True)
class PreviewChanges(beam.PTransform):
    """Looks up what each shard would be made of in an earlier data set; no image is opened.

    Attributes:
      plan: PCollection of the one `Plan`.
      encoding: what shapes the examples.
      earlier: the data set that shards of the same samples would be taken from.

    Returns: a `ShardFate` for each shard.
    """

    plan: beam.PCollection[Plan]
    encoding: EncodingOptions
    earlier: EarlierDataSet

    def expand(
        self, shards: beam.PCollection[tuple[int, Iterable[bytes]]]
    ) -> beam.PCollection[ShardFate]:
        return shards | "PreviewShard" >> beam.ParDo(
            InWorkers(_Previewing(self.encoding, self.earlier)), AsSingleton(self.plan)
        ).with_output_types(ShardFate)
