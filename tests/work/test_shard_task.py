"""A shard that is there when it is to be written: by an earlier run, by this one, by another job."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from beam_pipeline.core.dataset.duplicates import WrittenImage, unpack_images
from beam_pipeline.core.errors import FailurePolicy
from beam_pipeline.core.packing import pack
from beam_pipeline.core.records.example_source import LabelledImages
from beam_pipeline.core.records.sharding import ShardSpec
from beam_pipeline.core.records.tfrecord import TFRecordFormat
from beam_pipeline.core.references import SampleRef
from beam_pipeline.work.outcome import COMPARED, REFUSALS, Outcome
from beam_pipeline.work.writing import EncodingOptions, ShardTask, WriteRequest
from tests.pictures import picture, write_files

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
            encoding=EncodingOptions(LabelledImages(())),
            failures=FailurePolicy(retries=True),
        ),
        spec=ShardSpec(split="train", number=0, of=1, file_name=NAME),
        batches=[pack(refs)],
        class_ids={},
        record_format=TFRecordFormat(),
    )


def requested(task: ShardTask, **changes: Any) -> ShardTask:
    """The task with another request."""
    return replace(task, request=replace(task.request, **changes))


def images_of(written: Outcome) -> list[WrittenImage]:
    """The images that are compared; packed, the same ones may have other bytes."""
    parts = [part for tag, (_, part) in written.tagged if tag == COMPARED]
    return [image for part in parts for image in unpack_images(part)]


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
            "--resume: since {shard} was written, its samples have changed",
        ),
        (
            False,
            "AnotherJobError",
            "another job is writing to this folder: {shard} is there already",
        ),
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
    outcome = requested(replace(task, batches=[pack([other])]), resume=resume).run()
    ((tag, refusal),) = outcome.tagged
    assert (tag, outcome.main) == (REFUSALS, ())
    assert refusal.error == error
    assert refusal.message.startswith(start.format(shard=shard))
    assert "2.jpg" in refusal.message
    assert shard.read_bytes() == before


@pytest.mark.parametrize(("complete", "kept"), [(False, False), (True, True)])
def test_an_image_that_could_not_be_read_is_tried_again(
    task: ShardTask, tmp_path: Path, complete: bool, kept: bool
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
    assert len(requested(task, failures=FailurePolicy(retries=False)).run().dead_letters) == int(
        kept
    )
