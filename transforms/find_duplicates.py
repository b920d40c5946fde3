"""Finds duplicates: from the digests of the images that were written to figures of those that are equal."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import apache_beam as beam

from beam_pipeline.transforms.core.dataset.duplicates import (
    Duplicates,
    WrittenImage,
    find_duplicates,
)
from beam_pipeline.transforms.core.references import unpack


def _find(part: tuple[int, Iterable[bytes]]) -> Duplicates:
    """Finds the duplicates in a range of digests."""
    return find_duplicates(lambda: _images(part[1]))


def _images(packed: Iterable[bytes]) -> Iterator[WrittenImage]:
    return itertools.chain.from_iterable(unpack(WrittenImage, part) for part in packed)


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
