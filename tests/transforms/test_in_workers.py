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
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.window import FixedWindows, TimestampedValue

from beam_pipeline.core import packing
from beam_pipeline.core.dataset.tally import Tally
from beam_pipeline.core.dead_letters import DeadLetter
from beam_pipeline.core.errors import ListingError, Refusal
from beam_pipeline.core.labels.meeting import NameDivision
from beam_pipeline.core.references import ImageRef, LabelRow, SampleRef
from beam_pipeline.transforms.in_workers import Divide, InWorkers, Step
from beam_pipeline.work import job, writer_process
from beam_pipeline.work.outcome import (
    BYTES_DONE,
    DEAD_LETTERS,
    SAMPLES_DONE,
    SHARD_MS,
    SMALL,
    TALLY,
    Outcome,
    step,
)
from tests.transforms.tasks import LETTER, Doubled, Fatal


def double_each(number: int) -> Iterator[Step]:
    yield step(SMALL if number % 3 else 0, Doubled.run, Doubled(number))


def double(pipeline: beam.Pipeline, numbers: list[int]) -> Any:
    return (
        pipeline
        | beam.Create(numbers)
        | beam.ParDo(InWorkers(double_each))
        .with_output_types(int)
        .with_outputs(DEAD_LETTERS, TALLY, "odd", main="main")
    )


@pytest.mark.parametrize("writers", [0, 1, 2])
def test_each_task_has_its_outputs(writers: int) -> None:
    """With any number of processes; small tasks stay here."""
    with writer_process.writer_processes(writers), beam.Pipeline(runner="FnApiRunner") as pipeline:
        found = double(pipeline, list(range(20)))
        letters = found[DEAD_LETTERS] | beam.FlatMap(list)
        assert_that(found["main"], equal_to([2 * n for n in range(20)]), label="main")
        assert_that(letters, equal_to([LETTER]), label="letters")
        assert_that(found[TALLY], equal_to([Tally(listed=1)] * 20), label="tallies")
        assert_that(found["odd"], equal_to([n % 2 for n in range(20)]), label="tagged")


def double_fatally(number: int) -> Iterator[Step]:
    yield Fatal(number, os.getpid())


def test_what_a_process_did_not_finish_is_done_here() -> None:
    """Nothing is lost when a process dies, as if memory ran out."""
    with writer_process.writer_processes(1), beam.Pipeline(runner="FnApiRunner") as pipeline:
        found = (
            pipeline
            | beam.Create([1, 2, 3])
            | beam.ParDo(InWorkers(double_fatally)).with_output_types(int).with_outputs(main="main")
        )
        assert_that(found["main"], equal_to([2, 4, 6]))


@pytest.mark.parametrize("writers", [0, 2])
def test_the_error_of_a_task_is_that_of_the_job(writers: int) -> None:
    """Whichever process raised it."""
    with (
        writer_process.writer_processes(writers),
        pytest.raises(Exception, match="negative"),
        beam.Pipeline(runner="FnApiRunner") as pipeline,
    ):
        double(pipeline, [1, -1, 2])


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


@pytest.mark.parametrize("writers", [0, 2])
def test_outputs_keep_the_window_and_the_timestamp_of_their_element(writers: int) -> None:
    """In whichever call they are yielded: of the next element, or at the end of the bundle."""
    with writer_process.writer_processes(writers), beam.Pipeline(runner="FnApiRunner") as pipeline:
        numbers = (
            pipeline
            | beam.Create([TimestampedValue(n, n) for n in range(20)])
            | beam.Map(lambda number: number)
            | beam.WindowInto(FixedWindows(WINDOWS))
        )
        found = numbers | "Double" >> beam.ParDo(InWorkers(double_each)).with_output_types(
            int
        ).with_outputs("odd", main="main")
        expected = [(2 * n, n // WINDOWS * WINDOWS + WINDOWS, n) for n in range(20)]
        assert_that(found["main"] | beam.ParDo(Shown()), equal_to(expected), label="main")
        odd = [(n % 2, end, n) for n, (_, end, _) in enumerate(expected)]
        assert_that(found["odd"] | "Odd" >> beam.ParDo(Shown()), equal_to(odd), label="tagged")


@pytest.mark.parametrize(("side", "divides"), [(False, True), (True, True), (True, False)])
def test_batches_of_a_window_are_divided_together(side: bool, divides: bool) -> None:
    """Each reference has its part; without parts, batches are dropped."""
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        batches = (
            pipeline
            | beam.Create([TimestampedValue(n, n) for n in range(10)])
            | "Batch" >> beam.Map(lambda n: packing.ImageBatch(IMAGES[n : n + 1]))
            | beam.WindowInto(FixedWindows(WINDOWS))
        )
        sides = [AsSingleton(pipeline | "Side" >> beam.Create([divides]))] if side else []
        divide = Divide(division_if if side else partial(NameDivision, 3))
        divided = beam.ParDo(divide, *sides).with_output_types(tuple[int, bytes])
        keys = (
            batches
            | "Divide" >> divided
            | beam.FlatMapTuple(
                lambda part, packed: [(part, ref.key) for ref in packing.unpack(ImageRef, packed)]
            )
            | "Windows" >> beam.ParDo(Shown())
            | beam.MapTuple(lambda element, end, _: (*element, end))
        )
        parts = NameDivision(3).numbers([[ref.key for ref in IMAGES]])
        expected = [
            (part, ref.key, WINDOWS if ref.size < WINDOWS else 2 * WINDOWS)
            for part, ref in zip(parts, IMAGES, strict=True)
        ]
        assert_that(keys, equal_to(expected if divides else []))


def division_if(divides: bool) -> NameDivision | None:
    return NameDivision(3) if divides else None


def test_a_refusal_that_nothing_collects_is_raised() -> None:
    """Only where the stage says so; else the plan collects it."""

    def refuse(_: int) -> Iterator[Outcome]:
        yield Outcome(tally=Tally(refusals=[Refusal("ListingError", "/gone cannot be listed")]))

    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        found = pipeline | beam.Create([1]) | beam.ParDo(InWorkers(refuse)).with_outputs(TALLY)
        assert_that(found[TALLY] | beam.Map(lambda tally: len(tally.refusals)), equal_to([1]))
    with (
        pytest.raises(ListingError, match="/gone cannot be listed"),
        beam.Pipeline(runner="FnApiRunner") as pipeline,
    ):
        _ = pipeline | beam.Create([1]) | beam.ParDo(InWorkers(refuse, raises=True))


def begin_shard(samples: int) -> Iterator[Step]:
    """A shard of five samples reports some, and ends unless these are an odd number."""
    job.report_progress(job.Counts(samples=samples, image_bytes=10 * samples))
    ended = {SAMPLES_DONE: 5, BYTES_DONE: 50}
    yield Outcome(counters={} if samples % 2 else ended, measured={SHARD_MS: [7, samples]})


def test_samples_count_while_their_shard_is_written() -> None:
    """Where nobody listens; the end of the shard adds what is missing, and figures of shards are distributions."""
    pipeline = beam.Pipeline(runner="FnApiRunner")
    _ = pipeline | beam.Create([2, 3], reshuffle=False) | beam.ParDo(InWorkers(begin_shard))
    metrics = pipeline.run().metrics().query()
    counters = {c.key.metric.name: c.committed for c in metrics["counters"]}
    assert (counters[SAMPLES_DONE], counters[BYTES_DONE]) == (5 + 3, 50 + 30)
    (took,) = (d.committed for d in metrics["distributions"] if d.key.metric.name == SHARD_MS)
    assert (took.count, took.sum, took.min, took.max) == (4, 19, 2, 7)


def test_a_stage_before_that_of_the_shards_does_not_count_them_twice() -> None:
    """An engine may run both in one thread, where either listens."""
    pipeline = beam.Pipeline(runner="FnApiRunner")
    started = pipeline | beam.Create([2, 4], reshuffle=False)
    before = started | beam.ParDo(InWorkers(lambda number: [Outcome([number])]))
    _ = before | "Shards" >> beam.ParDo(InWorkers(begin_shard))
    counters = pipeline.run().metrics().query()["counters"]
    counts = {c.key.metric.name: c.committed for c in counters}
    assert (counts[SAMPLES_DONE], counts[BYTES_DONE]) == (10, 100)


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
