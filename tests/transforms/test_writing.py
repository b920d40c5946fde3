"""Writing shards: as a task, in a job by references, and from records that were encoded before."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest

from beam_pipeline.core import packing
from beam_pipeline.core.dataset import duplicates, tally
from beam_pipeline.core.dataset.plan import Plan
from beam_pipeline.core.errors import FailurePolicy, UsageError
from beam_pipeline.core.labels.schema import CLASS_FOLDER_COLUMNS
from beam_pipeline.core.records import example_source, sharding, tfrecord
from beam_pipeline.core.references import SampleRef
from beam_pipeline.transforms.writing import write_shards
from beam_pipeline.work import output_folder, receipts
from beam_pipeline.work.outcome import COMPARED, REFUSALS, Outcome
from beam_pipeline.work.writing import EncodingOptions, ShardTask, WriteRequest
from tests.pictures import picture, write_files, write_pictures
from tests.transforms.outputs import outputs

NAME = "d-train.tfrecord-00000-of-00001"


@pytest.fixture
def task(tmp_path: Path) -> ShardTask:
    """Two images, to be written to `out`."""
    write_files(f"{tmp_path}/photos", {"1.jpg": picture(), "2.jpg": picture()})
    refs = []
    for name in ("1.jpg", "2.jpg"):
        path = tmp_path / "photos" / name
        refs.append(SampleRef(name, str(path), path.stat().st_size, "train", ()))
    return ShardTask(
        request=WriteRequest(
            folder=str(tmp_path / "out"),
            encoding=EncodingOptions(example_source.LabelledImages(())),
            failures=FailurePolicy(retries=True),
        ),
        spec=sharding.ShardSpec(split="train", number=0, of=1, file_name=NAME),
        batches=[packing.pack(refs)],
        class_ids={},
        record_format=tfrecord.TFRecordFormat(),
    )


def requested(task: ShardTask, **changes: Any) -> ShardTask:
    """The task with another request."""
    return replace(task, request=replace(task.request, **changes))


def images_of(written: Outcome) -> list[duplicates.WrittenImage]:
    """The images that are compared; packed, the same ones may have other bytes."""
    parts = [part for tag, (_, part) in written.tagged if tag == COMPARED]
    return [image for part in parts for image in duplicates.unpack_images(part)]


def test_work_that_runs_again_keeps_what_it_wrote(task: ShardTask, tmp_path: Path) -> None:
    """The same figures and the same file, not another of the same bytes."""
    first = task.run()
    shard = (tmp_path / "out" / NAME).stat()
    (info,) = first.main
    assert info.examples == 2
    again = task.run()
    assert replace(again, tagged=()) == replace(first, tagged=())
    assert images_of(again) == images_of(first)
    assert len(images_of(first)) == 2
    assert (tmp_path / "out" / NAME).stat().st_ino == shard.st_ino


@pytest.mark.parametrize(
    ("resume", "error", "start"),
    [
        (
            True,
            "ChangedInputsError",
            "--resume: since {} was written, its samples or options have changed",
        ),
        (False, "AnotherJobError", "another job is writing to this folder: {} is there already"),
    ],
)
def test_a_shard_of_other_samples_is_left_alone(
    task: ShardTask, tmp_path: Path, resume: bool, error: str, start: str
) -> None:
    """The message says what may have happened: to the images, or that two jobs are at work."""
    task.run()
    shard = tmp_path / "out" / NAME
    before = shard.read_bytes()
    other = SampleRef("1.jpg", f"{tmp_path}/photos/1.jpg", 5, "train", ())
    outcome = requested(replace(task, batches=[packing.pack([other])]), resume=resume).run()
    ((tag, refusal),) = outcome.tagged
    assert (tag, outcome.main, refusal.error) == (REFUSALS, (), error)
    assert refusal.message.startswith(start.format(shard))
    assert "2.jpg" in refusal.message
    assert shard.read_bytes() == before


@pytest.mark.parametrize("complete", [False, True])
def test_an_image_that_could_not_be_read_is_tried_again(
    task: ShardTask, tmp_path: Path, complete: bool
) -> None:
    """By `--resume`, on an engine that runs nothing twice, and not under a data set that is complete."""
    image = tmp_path / "photos" / "1.jpg"
    os.rename(image, f"{image}.away")
    assert [letter.reason for letter in task.run().dead_letters] == ["unreadable"]
    os.rename(f"{image}.away", image)
    if complete:
        (tmp_path / "out" / "manifest.json").write_text("{}")
    task = requested(task, resume=True)
    assert len(task.run().dead_letters) == 1
    once = requested(task, failures=FailurePolicy(retries=False)).run()
    assert len(once.dead_letters) == complete


ENCODING = EncodingOptions(example_source.LabelledImages(CLASS_FOLDER_COLUMNS))
PLAN = Plan(
    sharding.ShardPlan("pets", (("test", 1), ("train", 2)), tfrecord.TFRecordFormat()),
    (("cat", 0), ("dog", 1)),
    tally.Tally(),
    None,
)
HERE = FailurePolicy(retries=False, raises_refusals=False)


@pytest.fixture
def shards(tmp_path: Path) -> dict[int, list[SampleRef]]:
    """Number of a shard -> its samples; the image of one is gone, and one shard has none."""
    names = [f"{number}.jpg" for number in range(5)]
    write_pictures(str(tmp_path), names)
    refs = [
        SampleRef(
            key=name,
            uri=f"{tmp_path}/{name}",
            size=os.path.getsize(tmp_path / name),
            split="test" if name == "0.jpg" else "train",
            labels=("dog" if name in ("3.jpg", "4.jpg") else "cat",),
        )
        for name in names
    ]
    (tmp_path / "2.jpg").unlink()
    return {0: refs[:1], 1: refs[1:], 2: []}


def in_job(folder: Path, shards: Mapping[int, Sequence[SampleRef]], **options: Any) -> list[Any]:
    """The shards and the refusals of a job that writes these, each in two batches."""
    elements = [
        (number, [packing.pack(batch) for batch in (refs[:2], refs[2:]) if batch])
        for number, refs in shards.items()
    ]
    request = WriteRequest(folder=str(folder), **{"encoding": ENCODING, **options})

    def build(pipeline: beam.Pipeline) -> Any:
        plan = pipeline | "Plan" >> beam.Create([PLAN])
        return pipeline | beam.Create(elements) | write_shards(plan, request)

    return outputs(build, "shards", REFUSALS)


@pytest.mark.parametrize("retries", [False, True])
def test_a_shard_that_cannot_be_written_is_a_refusal(
    tmp_path: Path, shards: dict[int, list[SampleRef]], retries: bool
) -> None:
    """On an engine that does not retry, the others are written; the reason goes to the end of the job.

    One that retries gets the error, and the reason is noted, in case it does not help.
    """
    folder = tmp_path / "job"
    (folder / PLAN.shard_plan.spec(1).file_name).mkdir(parents=True)
    if retries:
        with pytest.raises(Exception, match="Is a directory"):
            in_job(folder, shards, failures=FailurePolicy(retries=True))
        noted = output_folder.noted_refusal(str(folder))
        assert type(noted).__name__ == "OutputError"
        return
    infos, (refusal,) = in_job(folder, shards, failures=HERE)
    assert [(info.split, info.number) for info in infos] == [("test", 0), ("train", 1)]
    assert refusal.error == "OutputError"
    assert refusal.message.startswith(f"a shard in {folder} cannot be written: ")


@dataclass(frozen=True)
class Shifted(example_source.LabelledImages):
    """A pipeline's own samples: images whose classes have ids above ten."""

    def maker(self, options: Any, class_ids: Mapping[str, int], read: Any) -> Any:
        shifted = {name: number + 10 for name, number in class_ids.items()}
        return super().maker(options, shifted, read)


def test_samples_of_a_kind_of_ones_own_are_made_as_they_say(
    tmp_path: Path, shards: dict[int, list[SampleRef]]
) -> None:
    """Their shards are not those of others with the same record, and `repair` does not make them."""
    own = EncodingOptions(Shifted(CLASS_FOLDER_COLUMNS))
    folder = tmp_path / "job"
    (info,), _ = in_job(folder, {0: shards[0]}, encoding=own)
    assert info.classes == ((10, 1),)
    receipt = receipts.read_receipt(str(folder), PLAN.shard_plan.spec(0).file_name)
    assert receipt
    with pytest.raises(UsageError, match=r"made by tests\.transforms\.test_writing\.Shifted"):
        EncodingOptions.from_recorded(receipt.inputs.options)
