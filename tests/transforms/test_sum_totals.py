"""Summing in a job what shards and stages report."""

from __future__ import annotations

from collections import Counter

import apache_beam as beam
from apache_beam.testing.util import assert_that, equal_to

from beam_pipeline.core.dataset.tally import Totals
from beam_pipeline.core.dead_letters import DeadLetter
from beam_pipeline.core.packing import DeadLetterBatch
from beam_pipeline.core.records.sharding import ImageFigures, ShardInfo
from beam_pipeline.transforms.finishing import sum_totals


def test_all_reports_are_summed_into_one() -> None:
    """Shards, dead letters and images, whoever reports them."""
    shards = [ShardInfo("train", n, f"d-{n}", 1, 80, 7, ((n, 1),)) for n in range(3)]
    dead = DeadLetterBatch([DeadLetter("read", "b", "/b", "unreadable", "gone")])
    expected = Totals.of_shards(shards)
    expected.add_dead_letters([*dead, *dead])
    expected.add_images(ImageFigures((("resized", 3),)))
    assert expected.classes == {"train": Counter([0, 1, 2])}
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        reports = {
            "shards": pipeline | "Shards" >> beam.Create(shards),
            "dead_letters": pipeline | "DeadLetters" >> beam.Create([dead, dead]),
            "images": pipeline | "Images" >> beam.Create([ImageFigures((("resized", 3),))]),
        }
        assert_that(sum_totals(reports), equal_to([expected]))
