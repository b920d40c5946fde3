"""Finds duplicates: from the digests of the images that were written to figures of those that are equal."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import apache_beam as beam

from beam_pipeline.transforms.core.dataset.duplicate_search import find_duplicates
from beam_pipeline.transforms.core.dataset.duplicates import Duplicates


def _find(part: tuple[int, Iterable[bytes]]) -> Duplicates:
    """Finds the duplicates in a range of digests."""
    return find_duplicates(lambda: part[1])


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
            | "Compare" >> beam.Map(_find).with_output_types(Duplicates)
        )
