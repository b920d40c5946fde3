"""The DoFns that most stages are made of: they run a stage's work in the writer processes of the job.

A stage is a callable that can be pickled. Given an element, and a side input where it has one, it makes
tasks and outcomes; a task is run by a writer process where there are any and there is enough to do. Where there are
none, outputs get the window of their element; where there are, all elements are in the global window.

PCollections contain batches of references, because a reference costs Beam as much as an element of any size does.
Batches stay packed on their way through an engine, which contains several copies of what it moves and unpacks
none.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import apache_beam as beam
from apache_beam import coders
from apache_beam.metrics import Metrics
from apache_beam.pvalue import AsSingleton, TaggedOutput
from apache_beam.transforms.window import GlobalWindows

from beam_pipeline.core import errors, packing
from beam_pipeline.storage import pace
from beam_pipeline.work import job, outcome
from beam_pipeline.work.writer_process import Task, Tasks, expect

MOST_HELD = 1 << 18  # references
_WELL_FILLED = 512  # references; four parts of 128 each take half as long again
_LEAST_HELD = 1 << 14  # references that are worth a task
_ENCODED_BYTES = 16  # of a reference, roughly: paths that differ little deflate well

Step = Task[outcome.Outcome] | outcome.Outcome
Work = Callable[..., Iterable[Step]]
Group = tuple[int, Iterable[bytes]]
"""The number of a part, such as a shard, and its packed references."""


class BatchCoder(coders.Coder):
    """Encodes batches of one kind of items."""

    def __init__(self, kind: type[packing.Batch[Any]]) -> None:
        self._kind = kind
        self._job = job.current_job()

    @classmethod
    def from_type_hint(cls, typehint: type[packing.Batch[Any]], registry: object) -> BatchCoder:
        return cls(typehint)

    def encode(self, value: packing.Batch[Any]) -> bytes:
        job.enter(self._job)
        return job.spill(value.encode())

    def decode(self, encoded: bytes) -> packing.Batch[Any]:
        job.enter(self._job)
        return self._kind.decode(job.unspill(encoded))

    def estimate_size(self, value: packing.Batch[Any]) -> int:
        """A rough size, for engines that ask how much they move; encoding would double the work."""
        return _ENCODED_BYTES * len(value)

    def to_type_hint(self) -> type[packing.Batch[Any]]:
        return self._kind

    def __eq__(self, other: object) -> bool:
        mine = (self._kind, self._job)
        return isinstance(other, BatchCoder) and (other._kind, other._job) == mine

    def __hash__(self) -> int:
        return hash((self._kind, self._job))


for _kind in (packing.ImageBatch, packing.LabelBatch, packing.SampleBatch, packing.DeadLetterBatch):
    coders.registry.register_coder(_kind, BatchCoder)


class Sum(beam.CombineFn):
    """Adds values up.

    `make` returns an empty total, and `add` adds to a total, in place, another one or a value.
    """

    def __init__(self, make: Callable[[], Any], add: Callable[[Any, Any], object]) -> None:
        self._make = make
        self._add = add

    def create_accumulator(self) -> Any:
        return self._make()

    def add_input(self, accumulator: Any, value: Any) -> Any:
        self._add(accumulator, value)
        return accumulator

    def merge_accumulators(self, accumulators: Iterable[Any]) -> Any:
        total = self._make()
        for accumulator in accumulators:
            self._add(total, accumulator)
        return total

    def extract_output(self, accumulator: Any) -> Any:
        return accumulator


def count(name: str, amount: int) -> None:
    """Adds to a counter; must be called while an element is processed."""
    Metrics.counter(outcome.COUNTERS, name).inc(amount)


def _measure(name: str, values: Iterable[int]) -> None:
    """Adds to a distribution; see `count`."""
    distribution = Metrics.distribution(outcome.COUNTERS, name)
    for value in values:
        distribution.update(value)


def _count_usage() -> None:
    """Counts the requests of this process since the last time."""
    usage = pace.meter.take()
    if usage.throttled_s:
        count(outcome.THROTTLED, usage.throttled_s)
    if usage.read_ms:
        _measure(outcome.READ_MS, usage.read_ms)
    if usage.retries:
        _measure(outcome.RETRIES, [usage.retries])


def _count_progress(counts: job.Counts) -> None:
    """Counts what is done while it is, where nobody else listens."""
    if not counts.is_total:
        for name, amount in zip(outcome.DONE, counts, strict=False):
            if amount:
                count(name, amount)
        _count_usage()


def last_outputs(outputs: Iterable[Any]) -> Iterator[Any]:
    """Outputs at the end of a bundle, which have no element to take the window of."""
    for output in outputs:
        if isinstance(output, TaggedOutput):
            yield TaggedOutput(output.tag, GlobalWindows.windowed_value(output.value))
        else:
            yield GlobalWindows.windowed_value(output)


class InWorkers(beam.DoFn):
    """Runs the tasks that the work on each element makes, and yields the results.

    Without writer processes, tasks run here, one by one.
    """

    def __init__(
        self,
        work: Work,
        *,
        raises: bool = False,
        failed: Callable[[Exception], outcome.Outcome] | None = None,
        spills: bool = False,
    ) -> None:
        """Takes the work of the stage.

        Args:
          work: makes tasks and outcomes of an element.
          raises: raise refusals, as nothing collects them.
          failed: makes the outcome of a task that raised an error, or raises one itself. Without it, tasks
            only compute something: one whose process died runs again, here.
          spills: the main output is (part, packed references), which a file keeps where the job has one.
        """
        self._job = job.current_job()
        self._work = work
        self._raises = raises
        self._failed = failed
        self._spills = spills

    def start_bundle(self) -> None:
        job.enter(self._job, _count_progress)
        self._tasks: Tasks[outcome.Outcome] = Tasks(repeat=self._failed is None)

    def process(self, element: Any, side: Any = None) -> Iterator[Any]:
        """Works on an element, given the side input if there is one."""
        for made in self._work(element) if side is None else self._work(element, side):
            yield from self._run(made)

    def finish_bundle(self) -> Iterator[Any]:
        rest = map(self._ended, self._tasks.rest())
        yield from last_outputs(itertools.chain.from_iterable(rest))

    def _run(self, made: Step) -> Iterator[Any]:
        if isinstance(made, outcome.Outcome):
            yield from self._outputs(made)
            return
        for result in self._tasks.submit(made):
            yield from self._ended(result)

    def _ended(self, result: Callable[[], outcome.Outcome]) -> Iterator[Any]:
        try:
            ended = result()
        except (errors.ConversionError, OSError) as error:
            if self._failed is None:
                raise
            ended = self._failed(error)
        yield from self._outputs(ended)

    def _outputs(self, ended: outcome.Outcome) -> Iterator[Any]:
        """Yields the outputs of an outcome, and counts what was done."""
        tally = ended.tally
        refusals = [value for tag, value in ended.tagged if tag == outcome.REFUSALS]
        refusals += tally.refusals if tally else []
        if self._raises and refusals:
            raise refusals[0].to_error()
        for item in ended.main:
            yield (item[0], job.spill(item[1])) if self._spills else item
        for tag, value in ended.tagged:
            yield TaggedOutput(tag, value)
        if ended.dead_letters:
            yield TaggedOutput(outcome.DEAD_LETTERS, ended.dead_letters)
        if tally is not None:
            yield TaggedOutput(outcome.TALLY, tally)
            if tally.listed:
                job.report_progress(job.Counts(listed=tally.listed))
                expect(tally.listed)
        for name, amount in ended.counters.items():
            count(name, amount)
        for name, values in ended.measured.items():
            _measure(name, values)
        _count_usage()


PARTS = tuple[int, bytes]
"""The type of (part, packed references)."""


def stage(
    work: Work | beam.DoFn,
    kind: Any,
    *tags: str,
    main: str = "main",
    side: beam.PCollection | None = None,
    **options: Any,
) -> beam.PTransform:
    """Runs work on each element, with typed outputs.

    Args:
      work: makes tasks and outcomes of an element; or a `DoFn`.
      kind: the type of the main output.
      *tags: of its further outputs; without any, the stage has one output.
      main: the tag of the main output.
      side: PCollection of the one side input.
      **options: as `InWorkers` has them.
    """
    dofn = work if isinstance(work, beam.DoFn) else InWorkers(work, **options)
    sides = () if side is None else (AsSingleton(side),)
    typed = beam.ParDo(dofn, *sides).with_output_types(kind)
    return typed.with_outputs(*tags, main=main) if tags else typed


class Divide(InWorkers):
    """Yields (part, packed references) of batches: a GroupByKey moves a few filled parts.

    Batches wait for others of their bundle until they are worth a task.
    """

    def __init__(self, division_of: Callable[..., outcome.Division | None]) -> None:
        """Takes what returns the division, given the side input if there is one; None for no parts."""
        super().__init__(lambda *_: (), spills=True)
        self._division_of = division_of

    def start_bundle(self) -> None:
        super().start_bundle()
        self._held: list[bytes] = []
        self._references = 0

    def process(self, element: packing.Batch[Any], side: Any = None) -> Iterator[Any]:
        """See `InWorkers`."""
        division = self._division_of() if side is None else self._division_of(side)
        if division is None:
            return
        self._division = division
        self._held.append(element.packed())
        self._references += len(element)
        if self._references >= min(MOST_HELD, max(_LEAST_HELD, _WELL_FILLED * division.parts)):
            yield from self._parts()

    def finish_bundle(self) -> Iterator[Any]:
        if self._held:
            yield from last_outputs(self._parts())
        yield from super().finish_bundle()

    def _parts(self) -> Iterator[Any]:
        held, self._held, self._references = self._held, [], 0
        size = sum(map(packing.unpacked_size, held))
        return self._run(outcome.step(size, outcome.divide, held, self._division))
