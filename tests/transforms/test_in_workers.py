"""DoFns whose work is done by tasks, here or in writer processes; batches and their parts."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from typing import Any

import apache_beam as beam
import pytest
from apache_beam import coders
from apache_beam.pvalue import AsSingleton
from apache_beam.transforms.window import FixedWindows, TimestampedValue

from beam_pipeline.core import packing
from beam_pipeline.core.dataset.tally import Tally
from beam_pipeline.core.dead_letters import DeadLetter
from beam_pipeline.core.errors import ListingError, Refusal
from beam_pipeline.core.labels.matching import NameDivision
from beam_pipeline.core.references import ImageRef, LabelRow, SampleRef
from beam_pipeline.transforms.in_workers import Divide, InWorkers, Step, stage
from beam_pipeline.work import job, writer_process
from beam_pipeline.work.outcome import (
    BYTES_DONE,
    DEAD_LETTERS,
    IMAGES_LISTED,
    SAMPLES_DONE,
    SHARD_MS,
    SMALL,
    TALLY,
    Outcome,
    step,
)
from tests.transforms.outputs import in_order, outputs
from tests.transforms.tasks import LETTER, Doubled, Fatal


def double_each(number: int) -> Iterator[Step]:
    yield step(SMALL if number % 3 else 0, Doubled.run, Doubled(number))


def double(*numbers: int) -> Any:
    """Builds a stage that doubles numbers."""
    stage = beam.ParDo(InWorkers(double_each)).with_output_types(int)
    stage = stage.with_outputs(DEAD_LETTERS, TALLY, "odd", main="main")
    return lambda pipeline: pipeline | beam.Create(numbers) | stage


@pytest.mark.parametrize("writers", [0, 1, 2])
def test_each_task_has_its_outputs(writers: int) -> None:
    """With any number of processes; small tasks stay here. The error of a task is that of the job."""
    numbers = range(20)
    with writer_process.writer_processes(writers):
        found = outputs(double(*numbers), "main", DEAD_LETTERS, TALLY, "odd")
        doubled, odd = in_order(2 * n for n in numbers), in_order(n % 2 for n in numbers)
        assert found == [doubled, [LETTER], Tally(listed=20), odd]
        with pytest.raises(Exception, match="negative"):
            outputs(double(1, -1, 2), "main")


def double_fatally(number: int) -> Iterator[Step]:
    yield Fatal(number, os.getpid())


def test_what_a_process_did_not_finish_is_done_here() -> None:
    """Nothing is lost when a process dies, as if memory ran out."""
    stage = beam.ParDo(InWorkers(double_fatally)).with_output_types(int)
    with writer_process.writer_processes(1):
        assert outputs(lambda p: p | beam.Create([1, 2, 3]) | stage) == [2, 4, 6]


IMAGES = [ImageRef(f"{n}.jpg", f"/photos/{n}.jpg", n) for n in range(10)]
WINDOWS = 5  # seconds


class Shown(beam.DoFn):
    """An element with the end of its window and its timestamp, in seconds."""

    def process(
        self,
        element: Any,
        window: Any = beam.DoFn.WindowParam,
        timestamp: Any = beam.DoFn.TimestampParam,
    ) -> Iterator[tuple[Any, int, int]]:
        yield element, int(window.end), int(timestamp)


def test_outputs_keep_the_window_and_the_timestamp_of_their_element() -> None:
    """In a pipeline of somebody's own, where no other process works."""

    def build(pipeline: beam.Pipeline) -> dict[str, beam.PCollection]:
        timed = pipeline | beam.Create([TimestampedValue(n, n) for n in range(20)])
        windows = timed | beam.Map(lambda n: n) | beam.WindowInto(FixedWindows(WINDOWS))
        stage = beam.ParDo(InWorkers(double_each)).with_output_types(int)
        found = windows | "Double" >> stage.with_outputs("odd", main="main")
        return {tag: found[tag] | f"Show {tag}" >> beam.ParDo(Shown()) for tag in ("main", "odd")}

    expected = [(2 * n, n // WINDOWS * WINDOWS + WINDOWS, n) for n in range(20)]
    odd = [(n % 2, end, n) for n, (_, end, _) in enumerate(expected)]
    assert outputs(build, "main", "odd") == [in_order(expected), in_order(odd)]


@pytest.mark.parametrize(("side", "divides"), [(False, True), (True, True), (True, False)])
def test_batches_are_divided_together(side: bool, divides: bool) -> None:
    """Each reference has its part; without parts, batches are dropped."""

    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        batch = beam.Map(lambda n: packing.ImageBatch(IMAGES[n : n + 1]))
        sides = [AsSingleton(pipeline | "Side" >> beam.Create([divides]))] if side else []
        divide = Divide(division_if if side else partial(NameDivision, 3))
        divided = beam.ParDo(divide, *sides).with_output_types(tuple[int, bytes])
        numbers = pipeline | beam.Create(range(10), reshuffle=False)
        return numbers | "Batch" >> batch | "Divide" >> divided

    divided = outputs(build)
    found = [
        (part, ref.key) for part, packed in divided for ref in packing.unpack(ImageRef, packed)
    ]
    parts = NameDivision(3).numbers([[ref.key for ref in IMAGES]])
    expected = [(part, ref.key) for part, ref in zip(parts, IMAGES, strict=True)]
    assert sorted(found) == (sorted(expected) if divides else [])
    assert len(divided) == (len(set(parts)) if divides else 0)


def division_if(divides: bool) -> NameDivision | None:
    return NameDivision(3) if divides else None


def test_a_refusal_that_nothing_collects_is_raised() -> None:
    """Only where the stage says so; else the plan collects it."""

    def refuse(_: int) -> Iterator[Outcome]:
        yield Outcome(tally=Tally(refusals=[Refusal("ListingError", "/gone cannot be listed")]))

    stage = InWorkers(refuse)
    (tally,) = outputs(
        lambda p: p | beam.Create([1]) | beam.ParDo(stage).with_outputs(TALLY), TALLY
    )
    assert [refusal.error for refusal in tally.refusals] == ["ListingError"]
    with pytest.raises(ListingError, match="/gone cannot be listed"):
        outputs(lambda p: p | beam.Create([1]) | beam.ParDo(InWorkers(refuse, raises=True)))


def write_shard(samples: int) -> Iterator[Step]:
    """A shard of some samples, reported one by one after a batch, whose coder enters the job as well."""
    yield Outcome([packing.ImageBatch(IMAGES[:1])])
    for _ in range(samples):
        job.report_progress(job.Counts(samples=1, image_bytes=10))
    yield Outcome(tally=Tally(listed=samples), measured={SHARD_MS: [7, samples]})


def test_samples_count_while_their_shard_is_written() -> None:
    """Where nobody listens; figures of shards are distributions."""
    pipeline = beam.Pipeline(runner="FnApiRunner")
    started = pipeline | beam.Create([2, 3], reshuffle=False)
    before = started | beam.ParDo(InWorkers(lambda number: [Outcome([number])]))
    _ = before | "Shards" >> stage(write_shard, packing.ImageBatch) | beam.Reshuffle()
    metrics = pipeline.run().metrics().query()
    counters = {c.key.metric.name: c.committed for c in metrics["counters"]}
    assert [counters[name] for name in (IMAGES_LISTED, SAMPLES_DONE, BYTES_DONE)] == [5, 5, 50]
    (took,) = (d.committed for d in metrics["distributions"] if d.key.metric.name == SHARD_MS)
    assert (took.count, took.sum, took.min, took.max) == (4, 19, 2, 7)


BATCHES: list[list[Any]] = [
    packing.ImageBatch([ImageRef("a.jpg", "/a.jpg", 3, 7), ImageRef("b.jpg", "/b.jpg", 4)]),
    packing.LabelBatch([LabelRow("a", ("cat", None, 0.5), "", "labels.csv", 2, "bad")]),
    packing.SampleBatch(
        [SampleRef("a.jpg", "/a.jpg", 3, "train", ("cat", ("x",)), 5, "labels.csv", 9)]
    ),
    packing.DeadLetterBatch([DeadLetter("read", "a.jpg", "/a.jpg", "empty_file", "no bytes")]),
]


@pytest.mark.parametrize("batch", [*BATCHES, packing.ImageBatch(), packing.SampleBatch()])
def test_beam_knows_how_to_pack_a_batch(batch: list[Any]) -> None:
    """What comes out has the type and the items that went in, labels with their types."""
    coder = coders.registry.get_coder(type(batch))
    decoded = coder.decode(coder.encode(batch))
    assert type(decoded) is type(batch)
    assert decoded == batch
    assert [type(item) for item in decoded] == [type(item) for item in batch]
    registered = [coders.registry.get_coder(type(b)) for b in BATCHES]  # which engines compare
    assert [coder == c for c in registered] == [type(b) is type(batch) for b in BATCHES]
    assert hash(coder) == hash(coders.registry.get_coder(type(batch)))
