"""Finds duplicates: from the digests of the images that were written to figures of those that are equal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import apache_beam as beam

from beam_pipeline.core.dataset.duplicates import Duplicates
from beam_pipeline.transforms.in_workers import InWorkers, Step, task_or_outcome
from beam_pipeline.work.duplicates_task import DuplicatesTask


def _compare(part: tuple[int, Iterable[bytes]]) -> Iterator[Step]:
    """Finds the duplicates in a range of digests."""
    parts = list(part[1])
    yield task_or_outcome(DuplicatesTask(parts), sum(map(len, parts)))


@dataclass(kw_only=True)
class FindDuplicates(beam.PTransform):
    """Compares images, given as (range of digests, packed `WrittenImage`s).

    A range holds some 260,000 images, whatever the size of the data set.

    Returns: a `Duplicates` for each range.
    """

    def expand(self, images: beam.PCollection[tuple[int, bytes]]) -> beam.PCollection[Duplicates]:
        return (
            images
            | "GroupByDigest" >> beam.GroupByKey()
            | "Compare" >> beam.ParDo(InWorkers(_compare)).with_output_types(Duplicates)
        )
