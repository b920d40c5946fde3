"""Shards from records that were encoded before: the bytes of the other way."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.testing.util import assert_that, equal_to

from beam_pipeline.core.dataset.plan import Plan
from beam_pipeline.core.dataset.tally import Tally
from beam_pipeline.core.errors import Refusal
from beam_pipeline.core.labels.schema import CLASS_FOLDER_COLUMNS
from beam_pipeline.core.packing import SampleBatch
from beam_pipeline.core.records.example_source import LabelledImages
from beam_pipeline.core.records.sharding import ShardInfo, ShardPlan
from beam_pipeline.core.records.tfrecord import TFRecordFormat
from beam_pipeline.core.references import SampleRef
from beam_pipeline.transforms.planning import AssignShards
from beam_pipeline.transforms.writing import WriteRecords, WriteShards
from beam_pipeline.work.outcome import DEAD_LETTERS, REFUSALS
from beam_pipeline.work.writing import EncodingOptions, WriteRequest
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


def test_every_sample_is_written_or_a_dead_letter(tmp_path: Path) -> None:
    """Shards have the bytes of the other way, and the figures for the manifest."""
    write_pictures(str(tmp_path), [f"{number}.jpg" for number in range(10)])
    (tmp_path / "4.jpg").write_bytes(b"")
    refs = list(samples(tmp_path, 10))
    refs[4] = refs[4]._replace(size=0)
    for folder in ("out", "references"):
        request = WriteRequest(f"{tmp_path}/{folder}", ENCODING)
        with beam.Pipeline(runner="FnApiRunner") as pipeline:
            plan = pipeline | "Plan" >> beam.Create([PLAN])
            batches = pipeline | "Samples" >> beam.Create(
                [SampleBatch(refs[:4]), SampleBatch(refs[4:])]
            )
            written: Any = (
                batches | WriteRecords(plan=plan, request=request)
                if folder == "out"
                else batches
                | AssignShards(plan=plan, seed=3)
                | WriteShards(plan=plan, request=request)
            )
            dead_letters = written[DEAD_LETTERS] | beam.Map(
                lambda b: [(x.key, x.reason) for x in b]
            )
            assert_items(dead_letters, [("4.jpg", "empty_file")], "dead letters")
            assert_that(written[REFUSALS], equal_to([]), label="refusals")

            def add_up(infos: list[ShardInfo]) -> None:
                """The figures are of three shards that hold nine examples."""
                assert sorted(info.file_name for info in infos) == [
                    s.file_name for s in SHARDS.specs
                ]
                counts = (Counter(dict(info.classes)) for info in infos)
                assert sum(counts, Counter()) == {1: 5, 2: 4}

            assert_that(written["shards"], add_up, label="shards")
    for name in (spec.file_name for spec in SHARDS.specs):
        assert (tmp_path / "out" / name).read_bytes() == (
            tmp_path / "references" / name
        ).read_bytes()
    examples = read_all(tmp_path / "out")
    assert sorted(examples) == sorted(f"{n}.jpg" for n in range(10) if n != 4)


def test_a_plan_that_refuses_writes_nothing(tmp_path: Path) -> None:
    """So no image is read."""
    refused = Plan(SHARDS, (), Tally(), Refusal("OutputError", "no"))
    request = WriteRequest(f"{tmp_path}/out", ENCODING)
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        plan = pipeline | "Plan" >> beam.Create([refused])
        batches = pipeline | "Samples" >> beam.Create([samples(Path("/photos"), 3)])
        written: Any = batches | WriteRecords(plan=plan, request=request)
        assert_that(written["shards"], equal_to([]))
    assert not (tmp_path / "out").exists()
