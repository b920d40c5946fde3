"""Writing shards in a job: files, figures, dead letters and refusals."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.window import FixedWindows, TimestampedValue

from beam_pipeline.core.dataset.plan import Plan
from beam_pipeline.core.dataset.tally import Tally
from beam_pipeline.core.dead_letters import DeadLetter
from beam_pipeline.core.errors import FailurePolicy, OutputError, Refusal, UsageError
from beam_pipeline.core.labels.schema import CLASS_FOLDER_COLUMNS
from beam_pipeline.core.packing import pack
from beam_pipeline.core.records.example_source import LabelledImages
from beam_pipeline.core.records.sharding import ShardInfo, ShardPlan
from beam_pipeline.core.records.tfrecord import TFRecordFormat
from beam_pipeline.core.references import SampleRef
from beam_pipeline.transforms.writing import WriteShards
from beam_pipeline.work import writer_process
from beam_pipeline.work.incomplete_folder import noted_refusal
from beam_pipeline.work.outcome import DEAD_LETTERS, REFUSALS
from beam_pipeline.work.receipts import read_receipt
from beam_pipeline.work.writing import EncodingOptions, ShardTask, WriteRequest
from tests.pictures import write_pictures
from tests.transforms.outputs import assert_items

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
    pipeline: beam.Pipeline,
    folder: Path,
    shards: Mapping[int, Sequence[SampleRef]],
    *,
    raises: bool = True,
    **options: Any,
) -> Any:
    """The outputs of a job that writes these shards, each in two batches."""
    elements = [
        (number, [pack(batch) for batch in (refs[:2], refs[2:]) if batch])
        for number, refs in shards.items()
    ]
    plan = pipeline | "Plan" >> beam.Create([PLAN])
    writing = WriteShards(
        plan=plan,
        request=WriteRequest(folder=str(folder), encoding=ENCODING, **options),
        raises=raises,
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
        dead_letter = DeadLetter(
            stage="read",
            key="2.jpg",
            uri=f"{tmp_path}/2.jpg",
            reason="unreadable",
            message="No such file or directory",
        )
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
        found = in_job(job, folder, shards, failures=HERE, raises=False)
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


def test_a_resumed_job_keeps_shards_of_the_same_samples(
    tmp_path: Path, shards: dict[int, list[SampleRef]]
) -> None:
    """One of other samples is refused, and left as it is."""
    infos = [written_alone(tmp_path, shards, number) for number in (0, 1)]
    files = {path: path.stat().st_ino for path in tmp_path.glob("*.tfrecord-*")}
    changed = {0: shards[0], 1: shards[1][1:]}
    with beam.Pipeline(runner="FnApiRunner") as job:
        found = in_job(job, tmp_path, changed, resume=True, failures=HERE, raises=False)
        assert_that(found["shards"], equal_to(infos[:1]), label="shards")
        errors = found[REFUSALS] | beam.Map(lambda refusal: refusal.error)
        assert_that(errors, equal_to(["ChangedInputsError"]), label="refusals")
    assert {path: path.stat().st_ino for path in tmp_path.glob("*.tfrecord-*")} == files


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
    with pytest.raises(UsageError, match=r"made by tests\.transforms\.test_write_shards\.Shifted"):
        EncodingOptions.from_recorded(receipt.inputs.options)


def test_a_shard_that_is_not_written_fails_a_job_that_does_not_collect_why(
    tmp_path: Path, shards: dict[int, list[SampleRef]]
) -> None:
    """Else it would end well with a shard less."""
    (tmp_path / PLAN.shard_plan.spec(1).file_name).mkdir(parents=True)
    with (
        pytest.raises(OutputError, match="cannot be written"),
        beam.Pipeline(runner="FnApiRunner") as job,
    ):
        in_job(job, tmp_path, shards, failures=HERE)


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
