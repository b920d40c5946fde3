"""DoFns whose work is done by tasks, here or in writer processes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.testing.util import assert_that, equal_to

from beam_pipeline.core.dataset.tally import Tally
from beam_pipeline.transforms.run_elsewhere import SMALL, RunElsewhere
from beam_pipeline.work.outcome import DEAD_LETTERS, TALLY
from beam_pipeline.work.writer_process import writer_processes
from tests.transforms.tasks import LETTER, Doubled, Fatal


class Double(RunElsewhere):
    def process(self, number: int) -> Iterator[Any]:
        yield from self.run(Doubled(number), SMALL if number % 3 else 0)


def double(pipeline: beam.Pipeline, numbers: list[int]) -> Any:
    return (
        pipeline
        | beam.Create(numbers)
        | beam.ParDo(Double())
        .with_output_types(int)
        .with_outputs(DEAD_LETTERS, TALLY, "odd", main="main")
    )


@pytest.mark.parametrize("writers", [0, 1, 2])
def test_each_task_has_its_outputs(writers: int) -> None:
    """With any number of processes; small tasks stay here."""
    with writer_processes(writers), beam.Pipeline(runner="FnApiRunner") as pipeline:
        found = double(pipeline, list(range(20)))
        letters = found[DEAD_LETTERS] | beam.FlatMap(list)
        assert_that(found["main"], equal_to([2 * n for n in range(20)]), label="main")
        assert_that(letters, equal_to([LETTER]), label="letters")
        assert_that(found[TALLY], equal_to([Tally(listed=1)] * 20), label="tallies")
        assert_that(found["odd"], equal_to([n % 2 for n in range(20)]), label="tagged")


class DoubleFatally(RunElsewhere):
    def process(self, number: int) -> Iterator[Any]:
        yield from self.run(Fatal(number, os.getpid()), SMALL)


def test_what_a_process_did_not_finish_is_done_here() -> None:
    """Nothing is lost when a process dies, as if memory ran out."""
    with writer_processes(1), beam.Pipeline(runner="FnApiRunner") as pipeline:
        found = (
            pipeline
            | beam.Create([1, 2, 3])
            | beam.ParDo(DoubleFatally()).with_output_types(int).with_outputs(main="main")
        )
        assert_that(found["main"], equal_to([2, 4, 6]))


@pytest.mark.parametrize("writers", [0, 2])
def test_the_error_of_a_task_is_that_of_the_job(writers: int) -> None:
    """Whichever process raised it."""
    with (
        writer_processes(writers),
        pytest.raises(Exception, match="negative"),
        beam.Pipeline(runner="FnApiRunner") as pipeline,
    ):
        double(pipeline, [1, -1, 2])
