"""Writing with Beam's own sink: the same examples as the other way, in the shards that it names."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.testing.util import assert_that, equal_to

from beam_pipeline.core.dataset.plan import Plan
from beam_pipeline.core.dataset.tally import Tally
from beam_pipeline.core.errors import LostSamplesError
from beam_pipeline.core.failures import Refusal
from beam_pipeline.core.labels.schema import CLASS_FOLDER_COLUMNS
from beam_pipeline.core.packed_batches import SampleBatch
from beam_pipeline.core.records.example_source import LabelledImages
from beam_pipeline.core.records.sharding import ShardInfo, ShardPlan
from beam_pipeline.core.records.tfrecord import TFRecordFormat
from beam_pipeline.core.references import SampleRef
from beam_pipeline.storage.read_ahead import ONE_BY_ONE
from beam_pipeline.transforms.writing import WriteRecords, group_samples, measure_shard
from beam_pipeline.work.outcome import DEAD_LETTERS, REFUSALS
from beam_pipeline.work.writing import EncodingOptions
from tests.harness import read_all
from tests.pictures import picture, write_pictures
from tests.transforms.outputs import assert_items

SHARDS = ShardPlan("pets", (("test", 1), ("train", 2)), TFRecordFormat())
ENCODING = EncodingOptions(LabelledImages(CLASS_FOLDER_COLUMNS), seed=3)
PLAN = Plan(SHARDS, (("cat", 1), ("dog", 2)), Tally(), None)


def samples(folder: Path, count: int) -> SampleBatch:
    """References to images, every fifth of them in the split `test` and every third a dog."""
    return SampleBatch(
        SampleRef(
            key=f"{number}.jpg",
            uri=f"{folder}/{number}.jpg",
            size=len(picture(number)),
            split="train" if number % 5 else "test",
            labels=("cat" if number % 3 else "dog",),
        )
        for number in range(count)
    )


def test_groups_are_finer_than_shards_and_keep_to_their_splits() -> None:
    """Eight a shard; a sample's group depends on its key and the seed alone."""
    batch = samples(Path("/photos"), 400)
    groups = dict(group_samples(batch, PLAN, 3))
    assert groups.keys() == {
        *(f"test/{number}" for number in range(8)),
        *(f"train/{number}" for number in range(16)),
    }
    assert sorted(sample for group in groups.values() for sample in group) == sorted(batch)
    assert all(ref.split == name.split("/")[0] for name, refs in groups.items() for ref in refs)
    for ref in batch[:20]:
        ((alone, refs),) = group_samples(SampleBatch([ref]), PLAN, 3)
        assert refs == [ref]
        assert ref in groups[alone]
    assert dict(group_samples(batch, PLAN, 4)) != groups


def test_a_plan_that_refuses_leaves_nothing_to_encode() -> None:
    """So no image is read."""
    refused = Plan(SHARDS, (), Tally(), Refusal("OutputError", "no"))
    assert list(group_samples(samples(Path("/photos"), 3), refused, 3)) == []


@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_every_sample_is_written_or_a_dead_letter(tmp_path: Path, compression: str) -> None:
    """With the features that the other way writes, and figures for the manifest."""
    write_pictures(str(tmp_path), [f"{number}.jpg" for number in range(10)])
    (tmp_path / "4.jpg").write_bytes(b"")
    shard_plan = ShardPlan("pets", SHARDS.shards, TFRecordFormat(compression))
    plan = Plan(shard_plan, PLAN.classes, Tally(), None)
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        plans = pipeline | "Plan" >> beam.Create([plan])
        writing = WriteRecords(
            plan=plans,
            shard_plan=shard_plan,
            output_folder=f"{tmp_path}/out",
            encoding=ENCODING,
            reading=ONE_BY_ONE,
        )
        refs = list(samples(tmp_path, 10))
        refs[4] = refs[4]._replace(size=0)
        batch = SampleBatch(refs)
        found: Any = (
            pipeline
            | "Samples" >> beam.Create([SampleBatch(batch[:4]), SampleBatch(batch[4:])])
            | writing
        )
        dead_letters = found[DEAD_LETTERS] | beam.Map(lambda b: [(x.key, x.reason) for x in b])
        assert_items(dead_letters, [("4.jpg", "empty_file")], "dead letters")
        assert_that(found[REFUSALS], equal_to([]), label="refusals")

        def add_up(infos: list[ShardInfo]) -> None:
            """The figures are of three shards that hold nine examples."""
            assert sorted(info.file_name for info in infos) == [
                s.file_name for s in shard_plan.specs
            ]
            classes: Counter[int] = sum((Counter(dict(info.classes)) for info in infos), Counter())
            assert classes == {1: 5, 2: 4}

        assert_that(found["shards"], add_up, label="shards")
    examples = read_all(tmp_path / "out")
    assert sorted(examples) == sorted(f"{n}.jpg" for n in range(10) if n != 4)
    for number, features in ((int(key[0]), features) for key, features in examples.items()):
        assert features["image/encoded"] == [picture(number)]
        assert features["image/class/label"] == [1 if number % 3 else 2]


def test_a_file_that_was_not_planned_is_an_error(tmp_path: Path) -> None:
    """The sink names its files itself; one too many would be lost to every reader."""
    uri = f"{tmp_path}/pets-train.tfrecord-00002-of-00003"
    said = f"the sink wrote {uri}, which is none of the planned shards"
    with pytest.raises(LostSamplesError, match=f"^{re.escape(said)}$"):
        measure_shard(uri, str(tmp_path), SHARDS, "")
