"""Comparing images as a pipeline: the same in any ranges."""

from __future__ import annotations

import apache_beam as beam
import pytest
from apache_beam.testing.util import assert_that, equal_to

from beam_pipeline.core.dataset.duplicates import (
    Duplicates,
    WrittenImage,
    packed_images,
)
from beam_pipeline.transforms.duplicates import FindDuplicates
from tests.core.dataset.duplicate_images import group

IMAGES = [WrittenImage(bytes([i % 50]) * 16, 7, "train", f"{i:02d}") for i in range(60)]


@pytest.mark.parametrize("ranges", [1, 3])
def test_equal_digests_meet(ranges: int) -> None:
    """Ten pairs, of images of different shards."""
    shards = [packed_images(IMAGES[i::7], ranges) for i in range(7)]
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        found = (
            pipeline
            | beam.Create([part for shard in shards for part in shard])
            | FindDuplicates()
            | beam.CombineGlobally(Duplicates.sum_of)
        )
        pairs = tuple(group(("train", f"{i:02d}"), ("train", str(i + 50))) for i in range(10))
        assert_that(found, equal_to([Duplicates(60, 20, 10, 0, 0, pairs)]))
