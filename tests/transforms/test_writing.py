"""Writing shards: as a task, in a job by references, and from records that were encoded before."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.window import FixedWindows, TimestampedValue

from beam_pipeline.core.dataset.duplicates import WrittenImage, unpack_images
from beam_pipeline.core.dataset.plan import Plan
from beam_pipeline.core.dataset.tally import Tally
from beam_pipeline.core.dead_letters import DeadLetter
from beam_pipeline.core.errors import FailurePolicy, Refusal, UsageError
from beam_pipeline.core.labels.schema import CLASS_FOLDER_COLUMNS
from beam_pipeline.core.packing import SampleBatch, pack
from beam_pipeline.core.records.example_source import LabelledImages
from beam_pipeline.core.records.sharding import ShardInfo, ShardPlan, ShardSpec
from beam_pipeline.core.records.tfrecord import TFRecordFormat
from beam_pipeline.core.references import SampleRef
from beam_pipeline.transforms.planning import AssignShards
from beam_pipeline.transforms.writing import WriteRecords, WriteShards
from beam_pipeline.work import writer_process
from beam_pipeline.work.incomplete_folder import noted_refusal
from beam_pipeline.work.outcome import COMPARED, DEAD_LETTERS, REFUSALS, Outcome
from beam_pipeline.work.receipts import read_receipt
from beam_pipeline.work.writing import EncodingOptions, ShardTask, WriteRequest
from tests.harness import read_all
from tests.pictures import picture, write_files, write_pictures
from tests.transforms.outputs import assert_items

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
        (True, "ChangedInputsError", "--resume: since {} was written, its samples have changed"),
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
    outcome = requested(replace(task, batches=[pack([other])]), resume=resume).run()
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


ENCODING = EncodingOptions(LabelledImages(CLASS_FOLDER_COLUMNS))
PLAN = Plan(
    ShardPlan("pets", (("test", 1), ("train", 2)), TFRecordFormat()),
    (("cat", 0), ("dog", 1)),
    Tally(),
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


def written_alone(folder: Path, shards: Mapping[int, Sequence[SampleRef]], number: int) -> Any:
    """The figures of a shard that its task writes."""
    (info,) = (
        ShardTask(
            request=WriteRequest(folder=str(folder), encoding=ENCODING),
            spec=PLAN.shard_plan.spec(number),
            batches=[pack(shards[number])],
            class_ids=PLAN.class_ids,
            record_format=PLAN.shard_plan.record_format,
        )
        .run()
        .main
    )
    return info


def in_job(
    pipeline: beam.Pipeline, folder: Path, shards: Mapping[int, Sequence[SampleRef]], **options: Any
) -> Any:
    """The outputs of a job that writes these shards, each in two batches."""
    elements = [
        (number, [pack(batch) for batch in (refs[:2], refs[2:]) if batch])
        for number, refs in shards.items()
    ]
    plan = pipeline | "Plan" >> beam.Create([PLAN])
    writing = WriteShards(
        plan=plan, request=WriteRequest(folder=str(folder), encoding=ENCODING, **options)
    )
    return pipeline | "Shards" >> beam.Create(elements) | writing


def shards_in(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("*.tfrecord-*")}


@pytest.mark.parametrize("processes", [0, 2])
def test_every_shard_is_written(
    tmp_path: Path, shards: dict[int, list[SampleRef]], processes: int
) -> None:
    """In writer processes or here: the files and figures are those of each task alone, in any order."""
    infos = [written_alone(tmp_path / "alone", shards, number) for number in shards]
    assert [info.examples for info in infos] == [1, 3, 0]
    with writer_process.writer_processes(processes), beam.Pipeline(runner="FnApiRunner") as job:
        found = in_job(job, tmp_path / "job", shards)
        assert_that(found["shards"], equal_to(infos), label="shards")
        fault = "No such file or directory"
        dead_letter = DeadLetter("read", "2.jpg", f"{tmp_path}/2.jpg", "unreadable", fault)
        assert_items(found[DEAD_LETTERS], [dead_letter], "dead letters")
        assert_that(found[REFUSALS], equal_to([]), label="refusals")
    assert shards_in(tmp_path / "job") == shards_in(tmp_path / "alone")


def test_a_shard_that_cannot_be_written_is_a_refusal(
    tmp_path: Path, shards: dict[int, list[SampleRef]]
) -> None:
    """On an engine that does not retry, the others are written; the reason goes to the end of the job."""
    folder = tmp_path / "job"
    blocked = folder / PLAN.shard_plan.spec(1).file_name
    blocked.mkdir(parents=True)
    with beam.Pipeline(runner="FnApiRunner") as job:
        found = in_job(job, folder, shards, failures=HERE)
        numbers = found["shards"] | beam.Map(lambda info: (info.split, info.number))
        assert_that(numbers, equal_to([("test", 0), ("train", 1)]), label="shards")

        def is_the_reason(refusals: list[Refusal]) -> None:
            (refusal,) = refusals
            assert refusal.error == "OutputError"
            assert refusal.message.startswith(f"a shard in {folder} cannot be written: ")

        assert_that(found[REFUSALS], is_the_reason, label="refusals")


def test_an_engine_that_retries_gets_the_error(
    tmp_path: Path, shards: dict[int, list[SampleRef]]
) -> None:
    """And the reason is noted, in case it does not help."""
    folder = tmp_path / "job"
    (folder / PLAN.shard_plan.spec(1).file_name).mkdir(parents=True)
    with (
        pytest.raises(Exception, match="Is a directory"),
        beam.Pipeline(runner="FnApiRunner") as job,
    ):
        in_job(job, folder, shards, failures=FailurePolicy(retries=True))
    noted = noted_refusal(str(folder))
    assert type(noted).__name__ == "OutputError"


@dataclass(frozen=True)
class Shifted(LabelledImages):
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
    with beam.Pipeline(runner="FnApiRunner") as job:
        plan = job | "Plan" >> beam.Create([PLAN])
        writing = WriteShards(plan=plan, request=WriteRequest(folder=str(folder), encoding=own))
        found = job | beam.Create([(0, [pack(shards[0])])]) | writing
        assert_that(found["shards"] | beam.Map(lambda info: info.classes), equal_to([((10, 1),)]))
    receipt = read_receipt(str(folder), PLAN.shard_plan.spec(0).file_name)
    assert receipt
    with pytest.raises(UsageError, match=r"made by tests\.transforms\.test_writing\.Shifted"):
        EncodingOptions.from_recorded(receipt.inputs.options)


def test_shards_keep_the_window_of_their_samples(
    tmp_path: Path, shards: dict[int, list[SampleRef]]
) -> None:
    """In writer processes and here."""
    for processes in (0, 2):
        with writer_process.writer_processes(processes), beam.Pipeline(runner="FnApiRunner") as job:
            plan = job | "Plan" >> beam.Create([PLAN])
            folder = str(tmp_path / f"{processes}")
            writing = WriteShards(plan=plan, request=WriteRequest(folder=folder, encoding=ENCODING))
            elements = [
                TimestampedValue((number, [pack(refs)]), 100 * number)
                for number, refs in shards.items()
            ]
            found = job | beam.Create(elements) | beam.WindowInto(FixedWindows(50)) | writing
            ends = found["shards"] | beam.ParDo(EndOfWindow())
            assert_that(ends, equal_to([(0, 50), (0, 150), (1, 250)]), label=f"{processes}")


class EndOfWindow(beam.DoFn):
    """(number of a shard within its split, end of its window)."""

    def process(self, info: ShardInfo, window: Any = beam.DoFn.WindowParam) -> Any:
        yield info.number, int(window.end)


def test_figures_are_of_the_file(tmp_path: Path, shards: dict[int, list[SampleRef]]) -> None:
    """Examples, bytes and classes by id."""
    info = written_alone(tmp_path, shards, 1)
    assert isinstance(info, ShardInfo)
    assert (info.examples, info.classes) == (3, ((0, 1), (1, 2)))
    assert info.bytes == os.path.getsize(tmp_path / info.file_name)


SHARDS = ShardPlan("pets", (("test", 1), ("train", 2)), TFRecordFormat())
SEEDED = EncodingOptions(LabelledImages(CLASS_FOLDER_COLUMNS), seed=3)
RECORDS_PLAN = Plan(SHARDS, (("cat", 1), ("dog", 2)), Tally(), None)


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
        request = WriteRequest(folder=f"{tmp_path}/{folder}", encoding=SEEDED)
        with beam.Pipeline(runner="FnApiRunner") as pipeline:
            plan = pipeline | "Plan" >> beam.Create([RECORDS_PLAN])
            batches = pipeline | "Samples" >> beam.Create(
                [SampleBatch(refs[:4]), SampleBatch(refs[4:])]
            )
            written: Any = (
                batches | WriteRecords(plan=plan, request=request)
                if folder == "out"
                else batches
                | AssignShards(plan=plan, encoding=SEEDED)
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
