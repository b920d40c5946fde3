"""The DoFns of which most stages are made: they run a stage's work in the writer processes of the job.

A stage is a callable that can be pickled. Given an element, and a side input where it has one, it makes
tasks and outcomes; a task is run by a writer process where there are any and there is enough to do. Outputs
get the window and the timestamp of the element that they come from, in whatever order tasks end.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import TaggedOutput
from apache_beam.utils.windowed_value import WindowedValue

from beam_pipeline.core.packed_batches import Batch
from beam_pipeline.transforms import counters
from beam_pipeline.work import progress
from beam_pipeline.work.job import current_job, enter
from beam_pipeline.work.outcome import DEAD_LETTERS, TALLY, Division, Outcome, divide, step
from beam_pipeline.work.progress import Counts
from beam_pipeline.work.spill import spill_parts
from beam_pipeline.work.writer_process import Task, Tasks, expect

MOST_HELD = 1 << 16  # references
_WELL_FILLED = 512  # references; four parts of 128 each take half as long again
_LEAST_HELD = 1 << 14  # references that are worth a task

Step = Task[Outcome] | Outcome
Work = Callable[..., Iterable[Step]]
_Result = Callable[[], Outcome]


class JobDoFn(beam.DoFn):
    """A DoFn that works for the job in which it was made."""

    def __init__(self) -> None:
        self._job = current_job()

    def start_bundle(self) -> None:
        enter(self._job)


class InWorkers(JobDoFn):
    """Runs the tasks that the work on each element makes, and yields what comes of them.

    Where there are no writer processes, tasks run here, one by one; so does one whose process died.
    """

    repeat = True

    def __init__(self, work: Work, *, raises: bool = False) -> None:
        """Takes the work of the stage.

        Args:
          work: makes tasks and outcomes of an element.
          raises: raise the refusals in tallies, as nothing collects them.
        """
        super().__init__()
        self._work = work
        self._raises = raises

    def start_bundle(self) -> None:
        super().start_bundle()
        self._tasks: Tasks[Outcome] = Tasks(repeat=self.repeat)
        self._places: deque[_Place] = deque()

    def process(
        self,
        element: Any,
        window: Any = beam.DoFn.WindowParam,
        timestamp: Any = beam.DoFn.TimestampParam,
        side: Any = None,
    ) -> Iterator[Any]:
        """Works on an element.

        Args:
          element: the element.
          window: its window.
          timestamp: its timestamp.
          side: the side input; None if there is none.
        """
        steps = self._work(element) if side is None else self._work(element, side)
        for made in steps:
            yield from self._run(made, _Place(window, timestamp))

    def finish_bundle(self) -> Iterator[Any]:
        for result in self._tasks.rest():
            yield from self._ended(result)

    def _run(self, made: Step, place: _Place) -> Iterator[Any]:
        if isinstance(made, Outcome):
            yield from map(place.put, self._outputs(made))
            return
        self._places.append(place)
        for result in self._tasks.submit(made):
            yield from self._ended(result)

    def _ended(self, result: _Result) -> Iterator[Any]:
        place = self._places.popleft()
        yield from map(place.put, self._outputs(self.outcome(result)))

    def outcome(self, result: _Result) -> Outcome:
        """The outcome of a task."""
        return result()

    def _outputs(self, outcome: Outcome) -> Iterator[Any]:
        """Yields the outputs of an outcome, and counts images that were listed."""
        yield from outcome.main
        if outcome.dead_letters:
            yield TaggedOutput(DEAD_LETTERS, outcome.dead_letters)
        for tag, value in outcome.tagged:
            yield TaggedOutput(tag, value)
        for name, amount in outcome.counters.items():
            counters.count(name, amount)
        tally = outcome.tally
        if tally is not None:
            if self._raises and tally.refusals:
                raise tally.refusals[0].to_error()
            if tally.listed:
                counters.count(counters.IMAGES_LISTED, tally.listed)
                progress.report(Counts(listed=tally.listed))
                expect(tally.listed)
            yield TaggedOutput(TALLY, tally)


@dataclass(frozen=True)
class _Place:
    """The window and the timestamp of outputs."""

    window: Any
    timestamp: Any

    def put(self, output: Any) -> Any:
        """Puts an output, tagged or not, there."""
        if isinstance(output, TaggedOutput):
            return TaggedOutput(output.tag, self.put(output.value))
        return WindowedValue(output, self.timestamp, (self.window,))


@dataclass
class _Held:
    """Batches of a window that wait for others; parts of them get the last one's timestamp."""

    division: Division
    timestamp: Any
    batches: list[bytes] = field(default_factory=list)
    references: int = 0


class Divide(InWorkers):
    """Yields (part, packed references) of batches: a GroupByKey moves a few filled parts.

    Batches wait for others of their bundle and window until they are worth a task. What the engine moves is
    kept in a file where the job has one.
    """

    def __init__(self, division_of: Callable[..., Division | None], undivided: str = "") -> None:
        """Takes what divides batches.

        Args:
          division_of: returns the division, given the side input if there is one; None for no parts.
          undivided: a tag for batches without parts; empty to drop them.
        """
        super().__init__(_no_work)
        self._division_of = division_of
        self._undivided = undivided

    def start_bundle(self) -> None:
        super().start_bundle()
        self._held: dict[Any, _Held] = {}

    def process(
        self,
        element: Batch[Any],
        window: Any = beam.DoFn.WindowParam,
        timestamp: Any = beam.DoFn.TimestampParam,
        side: Any = None,
    ) -> Iterator[Any]:
        """See `InWorkers`."""
        division = self._division_of() if side is None else self._division_of(side)
        if division is None:
            if self._undivided:
                yield TaggedOutput(self._undivided, element)
            return
        held = self._held.setdefault(window, _Held(division, timestamp))
        held.timestamp = timestamp
        held.batches.append(element.packed())
        held.references += len(element)
        if held.references >= min(MOST_HELD, max(_LEAST_HELD, _WELL_FILLED * division.parts)):
            del self._held[window]
            yield from self._divided(window, held)

    def finish_bundle(self) -> Iterator[Any]:
        for window, held in self._held.items():
            yield from self._divided(window, held)
        yield from super().finish_bundle()

    def _divided(self, window: Any, held: _Held) -> Iterator[Any]:
        size = sum(map(len, held.batches))
        divided = step(size, divide, held.batches, held.division)
        yield from self._run(divided, _Place(window, held.timestamp))

    def _outputs(self, outcome: Outcome) -> Iterator[Any]:
        yield from super()._outputs(replace(outcome, main=spill_parts(outcome.main)))


def _no_work(*_: object) -> Iterable[Step]:
    return ()
