"""The fate of shards, before anything is written."""

from __future__ import annotations

from pathlib import Path

import apache_beam as beam
from apache_beam.testing.util import assert_that, equal_to

from beam_pipeline.core.dataset.changes import (
    NO_CHANGES,
    SampleChanges,
    ShardFate,
)
from beam_pipeline.core.packing import unpack
from beam_pipeline.core.records.sharding import ShardConfig
from beam_pipeline.core.references import SampleRef
from beam_pipeline.transforms.planning import PreviewChanges
from tests.work.test_earlier_data_set import ENCODING, FIRST, DataSet


def test_the_shard_of_a_removed_sample_would_be_written(tmp_path: Path) -> None:
    """Its bytes are those of its images; the other shards are reused as they are."""
    first = DataSet(tmp_path / "first", FIRST, shards=ShardConfig(4))
    images = {key: image for key, image in FIRST.items() if key != "7.bmp"}
    now = DataSet(tmp_path / "now", images, shards=ShardConfig(4))
    tasks = now.tasks([now.ref(key, image) for key, image in images.items()])
    found = []
    for task in tasks:
        name = task.spec.file_name
        (refs,) = (list(unpack(SampleRef, batch)) for batch in task.batches)
        size = (first.folder / name.replace("now", "first")).stat().st_size
        if size == (now.folder / name).stat().st_size:
            found.append(ShardFate(NO_CHANGES, True, size))
        else:
            removed = SampleChanges(removed=("7.bmp",))
            found.append(ShardFate(removed, False, sum(ref.size for ref in refs)))
    assert sum(shard.reused for shard in found) == 3
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        plan = pipeline | "Plan" >> beam.Create([now.plan])
        shards = pipeline | beam.Create([(i, list(task.batches)) for i, task in enumerate(tasks)])
        previewed = shards | PreviewChanges(plan=plan, encoding=ENCODING, earlier=first.as_earlier)
        assert_that(previewed, equal_to(found))
