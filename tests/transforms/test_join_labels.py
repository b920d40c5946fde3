"""Joining as a pipeline: in as many buckets as there are, the same as all at once."""

from __future__ import annotations

import apache_beam as beam
import pytest
from apache_beam.testing.util import assert_that, equal_to

from beam_pipeline.core.dataset.splits import SplitAssigner
from beam_pipeline.core.dataset.tally import Tally
from beam_pipeline.core.labels.join import join_bucket
from beam_pipeline.core.labels.samples import AGREE
from beam_pipeline.core.labels.schema import ColumnKind, label_column
from beam_pipeline.core.packing import ImageBatch, LabelBatch
from beam_pipeline.core.references import ImageRef, LabelRow
from beam_pipeline.transforms import in_workers
from beam_pipeline.transforms.in_workers import Sum
from beam_pipeline.transforms.labels import JoinLabelBatches
from beam_pipeline.work.labels import Labelling
from beam_pipeline.work.outcome import DEAD_LETTERS, TALLY

KEYS = [f"{folder}/{number}.jpg" for folder in "abc" for number in range(20)]
IMAGES = [ImageRef(key, f"/photos/{key}", 5) for key in KEYS]
ROWS = [LabelRow(key, ("cat",), "", "/labels.csv", line) for line, key in enumerate(KEYS[:50], 2)]
ROWS += [LabelRow("7.jpg", ("cat",), "", "/labels.csv", 90)]  # could mean three
ROWS += [LabelRow("a/8.jpg", ("dog",), "", "/labels.csv", 91)]  # disagrees
ROWS += [LabelRow("a/9.jpg", ("cat",), "", "/labels.csv", 92)]  # says it again
ROWS += [LabelRow("gone.jpg", ("cat",), "", "/labels.csv", 93)]


@pytest.mark.parametrize(
    ("buckets", "held"),
    [(1, 10), (7, 1), (7, 1 << 16), (1024, 10), (1024, 1 << 16)],
)
def test_buckets_and_bundles_play_no_part(
    buckets: int, held: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Samples, dead letters and counts are those of all images and rows at once."""
    monkeypatch.setattr(in_workers, "MOST_HELD", held)
    images, rows = (list(zip(*items, strict=True)) for items in (IMAGES, ROWS))
    expected = join_bucket(images, rows)
    tally = Tally(orphan_rows=expected.orphan_rows, repeated_rows=expected.repeated_rows)
    tally.add_samples(expected.all_samples(), 0)
    tally.add_dead_letters(expected.dead_letters)
    assert (len(expected.all_samples()), len(expected.dead_letters)) == (49, 13)
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        image_batches = [ImageBatch(IMAGES[i : i + 8]) for i in range(0, len(IMAGES), 8)]
        row_batches = [LabelBatch(ROWS[i : i + 8]) for i in range(0, len(ROWS), 8)]
        inputs = {
            "images": pipeline | "Images" >> beam.Create(image_batches),
            "rows": pipeline | "Rows" >> beam.Create(row_batches),
        }
        joined = inputs | JoinLabelBatches(
            labelling=Labelling(SplitAssigner(None, 0), (label_column("label", ColumnKind.BYTES),)),
            merger=AGREE,
            buckets=buckets,
        )
        samples = joined["samples"] | "EachSample" >> beam.FlatMap(list)
        dead_letters = joined[DEAD_LETTERS] | "EachLetter" >> beam.FlatMap(list)
        total = joined[TALLY] | beam.CombineGlobally(Sum(Tally, Tally.add))
        assert_that(samples, equal_to(expected.all_samples()), label="samples")
        assert_that(dead_letters, equal_to(expected.dead_letters), label="dead letters")
        assert_that(total, equal_to([tally]), label="tally")
