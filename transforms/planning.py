"""Plans shards: from the counts of listing and join to the plan of what will be written, and each shard's samples."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import apache_beam as beam
from apache_beam.pvalue import AsSingleton

from beam_pipeline.core.dataset.changes import ShardFate
from beam_pipeline.core.dataset.plan import Plan
from beam_pipeline.core.dataset.tally import Tally, measured_samples, most_measured
from beam_pipeline.core.packing import SampleBatch, pack
from beam_pipeline.core.records.sharding import KeyHasher, ShardDivision
from beam_pipeline.core.references import SampleRef
from beam_pipeline.storage.read_ahead import ReadOptions
from beam_pipeline.transforms.in_workers import Divide, InWorkers, Sum
from beam_pipeline.transforms.output import after
from beam_pipeline.work.outcome import Call, Outcome
from beam_pipeline.work.planning import Planning, measure_images
from beam_pipeline.work.receipts import EarlierDataSet
from beam_pipeline.work.spill import unspill_all
from beam_pipeline.work.writing import EncodingOptions, shard_inputs

_SAMPLES_A_TASK = 8


class LowestSamples(NamedTuple):
    """The samples with the lowest hashes of some, as many as are measured at most.

    Attributes:
      total: of how many.
      samples: (hash, sample), sorted.
    """

    total: int
    samples: list[tuple[bytes, SampleRef]]

    @classmethod
    def of_batch(cls, batch: SampleBatch, seed: int) -> LowestSamples:
        """Those of a batch."""
        hasher = KeyHasher(seed)
        hashed = [(hasher.order(ref.key), ref) for ref in batch]
        return cls.of_all([cls(len(batch), hashed)])

    @classmethod
    def of_all(cls, parts: Iterable[LowestSamples]) -> LowestSamples:
        """Those of several parts."""
        totals, samples = zip(*parts, strict=True)
        lowest = itertools.chain.from_iterable(samples)
        return cls(sum(totals), heapq.nsmallest(most_measured(), lowest, key=_order))

    def batches(self) -> Iterator[SampleBatch]:
        """The samples to be measured, in a batch for each task."""
        refs = [ref for _, ref in self.samples[: measured_samples(self.total)]]
        for start in range(0, len(refs), _SAMPLES_A_TASK):
            yield SampleBatch(refs[start : start + _SAMPLES_A_TASK])


def _order(hashed: tuple[bytes, SampleRef]) -> tuple[bytes, str]:
    return hashed[0], hashed[1].key


def _measuring(
    samples: SampleBatch, encoding: EncodingOptions, reading: ReadOptions | None
) -> Iterator[Call]:
    yield Call(measure_images, (encoding, tuple(samples), reading))


@dataclass(kw_only=True)
class MeasureOutput(beam.PTransform):
    """Encodes the samples with the lowest hashes, for the plan to know how large they become.

    Attributes:
      encoding: the encoding of the examples.
      reading: how far each worker reads ahead.

    Returns: `Tally`s with nothing but `measured`.
    """

    encoding: EncodingOptions
    reading: ReadOptions | None

    def expand(self, samples: beam.PCollection[SampleBatch]) -> beam.PCollection[Tally]:
        measuring = partial(_measuring, encoding=self.encoding, reading=self.reading)
        return (
            samples
            | "LowestOfBatch" >> beam.Map(LowestSamples.of_batch, self.encoding.seed)
            | "Lowest" >> beam.CombineGlobally(LowestSamples.of_all).without_defaults()
            | "Parts" >> beam.FlatMap(LowestSamples.batches).with_output_types(SampleBatch)
            | beam.Reshuffle()
            | "Measure" >> beam.ParDo(InWorkers(measuring)).with_output_types(Tally)
        )


@dataclass
class PlanShards(beam.PTransform):
    """Makes the one plan of a run from the tallies of listing, labels and join.

    Attributes:
      planning: makes it.
      prepared: what `PrepareFolder` returns; None where the launcher has prepared the folder.
    """

    planning: Planning
    prepared: beam.PCollection[str] | None = None

    def expand(self, tallies: beam.PCollection[Tally]) -> beam.PCollection[Plan]:
        tally = tallies | "Sum" >> beam.CombineGlobally(Sum(Tally, Tally.add)).without_defaults()
        return after(self.prepared, tally, Tally) | "Plan" >> beam.ParDo(
            InWorkers(self.planning)
        ).with_output_types(Plan)


def _division(plan: Plan, seed: int, by_image: bool) -> ShardDivision | None:
    """The division into shards; None where the plan refuses to write."""
    return None if plan.refusal else ShardDivision(plan.shard_plan, seed, by_image)


def every_shard(plan: Plan, empty: Any) -> Iterator[tuple[int, Any]]:
    """An empty part of every shard, so that each is written even if no sample falls into it."""
    if not plan.refusal:
        shards = sum(count for _, count in plan.shard_plan.shards)
        yield from ((number, empty) for number in range(shards))


@dataclass
class GroupByShard(beam.PTransform):
    """Groups (number of a shard, packed references), with every shard of the plan.

    Attributes:
      plan: PCollection of the one `Plan`.
    """

    plan: beam.PCollection[Plan]

    def expand(
        self, parts: beam.PCollection[tuple[int, bytes]]
    ) -> beam.PCollection[tuple[int, Iterable[bytes]]]:
        empty = self.plan | "EveryShard" >> beam.FlatMap(every_shard, pack(())).with_output_types(
            tuple[int, bytes]
        )
        return (parts, empty) | beam.Flatten() | beam.GroupByKey()


@dataclass(kw_only=True)
class AssignShards(beam.PTransform):
    """Groups samples by shard. Only references are shuffled: no image has been opened yet.

    They stay packed until the shard is written.

    Attributes:
      plan: PCollection of the one `Plan`.
      seed: of the hash that places samples.
      by_image: rows of an image are neighbours.
    """

    plan: beam.PCollection[Plan]
    seed: int
    by_image: bool = False

    def expand(
        self, samples: beam.PCollection[SampleBatch]
    ) -> beam.PCollection[tuple[int, Iterable[bytes]]]:
        parts = samples | "Assign" >> beam.ParDo(
            Divide(partial(_division, seed=self.seed, by_image=self.by_image)),
            AsSingleton(self.plan),
        ).with_output_types(tuple[int, bytes])
        return parts | GroupByShard(self.plan)


def _preview(
    shard: tuple[int, Iterable[bytes]],
    plan: Plan,
    encoding: EncodingOptions,
    earlier: EarlierDataSet,
) -> Iterator[Outcome]:
    spec = plan.shard_plan.spec(shard[0])
    inputs = shard_inputs(spec, unspill_all(shard[1]), plan.class_ids, encoding)
    yield Outcome([earlier.look_up(inputs).expected_fate()])


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
        preview = partial(_preview, encoding=self.encoding, earlier=self.earlier)
        return shards | "PreviewShard" >> beam.ParDo(
            InWorkers(preview), AsSingleton(self.plan)
        ).with_output_types(ShardFate)
