"""Sums what shards and stages report, so that no worker holds the reports of all shards."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import apache_beam as beam

from beam_pipeline.core.dataset.tally import Totals
from beam_pipeline.core.records.sharding import ImageFigures, ShardInfo
from beam_pipeline.transforms.batches import DeadLetterBatch


class AddTotals(beam.CombineFn):
    """Adds the totals of all parts."""

    def create_accumulator(self) -> Totals:
        return Totals()

    def add_input(self, accumulator: Totals, totals: Totals) -> Totals:
        accumulator.add(totals)
        return accumulator

    def merge_accumulators(self, accumulators: Iterable[Totals]) -> Totals:
        total = Totals()
        for accumulator in accumulators:
            total.add(accumulator)
        return total

    def extract_output(self, accumulator: Totals) -> Totals:
        return accumulator


def _of_shard(shard: ShardInfo) -> Totals:
    return Totals.of_shards([shard])


def _of_dead_letters(batch: DeadLetterBatch) -> Totals:
    totals = Totals()
    totals.add_dead_letters(batch)
    return totals


def _of_images(figures: ImageFigures) -> Totals:
    totals = Totals()
    totals.add_images(figures)
    return totals


class SumTotals(beam.PTransform):
    """Sums {"shards": ShardInfos, "dead_letters": DeadLetterBatches, "images": ImageFigures}.

    "images" may be missing. Returns a PCollection of the one `Totals`, or of none if nothing was
    reported.
    """

    def expand(self, inputs: Mapping[str, beam.PCollection]) -> beam.PCollection[Totals]:
        of_each = {"shards": _of_shard, "dead_letters": _of_dead_letters, "images": _of_images}
        return (
            [
                found | f"Totals of {name}" >> beam.Map(of_each[name]).with_output_types(Totals)
                for name, found in inputs.items()
            ]
            | beam.Flatten()
            | "Add" >> beam.CombineGlobally(AddTotals()).without_defaults()
        )
