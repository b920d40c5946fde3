"""Measures what samples become whose images are encoded anew, before their shards are planned."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import apache_beam as beam

from beam_pipeline.core.dataset.tally import (
    Tally,
    measured_samples,
    most_measured,
)
from beam_pipeline.core.records.sharding import KeyHasher
from beam_pipeline.core.references import SampleRef
from beam_pipeline.storage.read_ahead import ReadOptions
from beam_pipeline.transforms.batches import SampleBatch
from beam_pipeline.transforms.in_workers import InWorkers
from beam_pipeline.work.encoding import EncodingOptions
from beam_pipeline.work.measure_task import MeasureTask

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

    def __call__(self, samples: SampleBatch) -> Iterator[MeasureTask]:
        yield MeasureTask(self.encoding, tuple(samples), self.reading)


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
