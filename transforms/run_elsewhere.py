"""Base of the DoFns whose work is done in writer processes, which are idle until shards are planned."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import TaggedOutput

from beam_pipeline.transforms import counters
from beam_pipeline.transforms.windowed import windowed
from beam_pipeline.work import progress, writer_process
from beam_pipeline.work.outcome import DEAD_LETTERS, TALLY, Outcome

SMALL = 1 << 14
"""Bytes of a task, a thousand references: done in about the time that it takes to send them elsewhere."""


class RunElsewhere(beam.DoFn):
    """Base of the DoFns that do their work by tasks and yield what comes of them, in order.

    Where there are no writer processes, tasks run here, one by one; so does one whose process died.
    """

    def start_bundle(self) -> None:
        self._tasks: writer_process.Tasks[Outcome] = writer_process.Tasks(repeat=True)

    def run(self, task: writer_process.Task[Outcome], size: int) -> Iterator[Any]:
        """Submits a task; yields the outputs of tasks that have ended.

        Args:
          task: the task.
          size: the bytes that it is about.
        """
        for result in self._tasks.submit(task, small=size < SMALL):
            yield from self.outputs(result())

    def finish_bundle(self) -> Iterator[Any]:
        for result in self._tasks.rest():
            yield from map(windowed, self.outputs(result()))

    def outputs(self, outcome: Outcome) -> Iterator[Any]:
        """Yields the outputs of a task, and counts images that it listed."""
        yield from outcome.main
        if outcome.dead_letters:
            yield TaggedOutput(DEAD_LETTERS, outcome.dead_letters)
        for tag, value in outcome.tagged:
            yield TaggedOutput(tag, value)
        tally = outcome.tally
        if tally is not None:
            if tally.listed:
                counters.count(counters.IMAGES_LISTED, tally.listed)
                progress.listed(tally.listed)
            yield TaggedOutput(TALLY, tally)
