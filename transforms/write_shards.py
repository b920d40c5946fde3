"""Writes shards: from the references of a shard to its file and its figures."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import AsSingleton, TaggedOutput

from beam_pipeline.core.dataset.duplicates import range_count
from beam_pipeline.core.dataset.plan import Plan
from beam_pipeline.core.dataset.sharding import ShardInfo
from beam_pipeline.core.errors import ConversionError, OutputError, WriterProcessError
from beam_pipeline.core.failures import DEFAULT_POLICY, FailurePolicy, Refusal
from beam_pipeline.storage.read_ahead import ONE_BY_ONE, ReadOptions
from beam_pipeline.transforms import counters
from beam_pipeline.transforms.batches import DeadLetterBatch
from beam_pipeline.transforms.windowed import windowed
from beam_pipeline.work import writer_process
from beam_pipeline.work.earlier_data_set import EarlierDataSet
from beam_pipeline.work.encoding import EncodingOptions
from beam_pipeline.work.incomplete_folder import note_refusal
from beam_pipeline.work.outcome import CHANGES, COMPARED, DEAD_LETTERS, REFUSALS
from beam_pipeline.work.shard_task import ShardTask, Written
from beam_pipeline.work.spill import unspill_all


class _WriteShard(beam.DoFn):
    """Writes shards in writer processes, several at a time, or here where there are none."""

    def __init__(
        self,
        output_folder: str,
        encoding: EncodingOptions,
        resume: bool,
        reading: ReadOptions,
        failures: FailurePolicy,
        earlier: EarlierDataSet | None,
    ) -> None:
        self._folder = output_folder
        self._encoding = encoding
        self._resume = resume
        self._reading = reading
        self._failures = failures
        self._earlier = earlier
        self._plan: Plan | None = None
        self._class_ids: dict[str, int] = {}
        self._ranges = 1

    def start_bundle(self) -> None:
        self._tasks: writer_process.Tasks[Written] = writer_process.Tasks()

    def process(
        self, shard: tuple[int, Iterable[bytes]], plan: Plan
    ) -> Iterator[ShardInfo | TaggedOutput]:
        task = self._task(shard[0], unspill_all(shard[1]), plan)
        for write in self._tasks.submit(task):
            yield from self._outputs(write)

    def finish_bundle(self) -> Iterator[Any]:
        for write in self._tasks.rest():
            yield from map(windowed, self._outputs(write))

    def _task(self, number: int, batches: list[bytes], plan: Plan) -> ShardTask:
        spec = plan.shard_plan.spec(number)
        if plan is not self._plan:
            self._plan, self._class_ids = plan, plan.class_ids
            self._ranges = range_count(plan.tally.samples.total())
        return ShardTask(
            folder=self._folder,
            spec=spec,
            batches=batches,
            class_ids=self._class_ids,
            encoding=self._encoding,
            record_format=plan.shard_plan.record_format,
            resume=self._resume,
            reading=self._reading,
            failures=self._failures,
            earlier=self._earlier,
            ranges=self._ranges,
        )

    def _outputs(self, write: Callable[[], Written]) -> Iterator[ShardInfo | TaggedOutput]:
        try:
            written = write()
        except (ConversionError, OSError) as error:
            refusal = self._refusal_for(error)
            if self._failures.retries or isinstance(error, WriterProcessError):
                with contextlib.suppress(OSError, ConversionError):
                    # If a retry succeeds, the note is removed with the rest of `.incomplete`.
                    note_refusal(self._folder, refusal, self._failures.job)
                raise
            written = Written(None, [], refusal)
        _count(written)
        if written.info:
            yield written.info
        if written.refusal:
            yield TaggedOutput(REFUSALS, written.refusal)
        if written.dead_letters:
            yield TaggedOutput(DEAD_LETTERS, DeadLetterBatch(written.dead_letters))
        if written.changes:
            yield TaggedOutput(CHANGES, written.changes)
        for images in written.images:
            yield TaggedOutput(COMPARED, images)

    def _refusal_for(self, error: ConversionError | OSError) -> Refusal:
        if isinstance(error, OSError):
            error = OutputError(f"a shard in {self._folder} cannot be written: {error}")
        return Refusal.from_error(error)


def _count(written: Written) -> None:
    if written.info is None:
        return
    counters.count(counters.SHARDS_WRITTEN, 1)
    counters.count(counters.EXAMPLES_WRITTEN, written.info.examples)
    counters.count(counters.DEAD_LETTERS, len(written.dead_letters))
    counters.count(counters.SAMPLES_DONE, written.info.examples + len(written.dead_letters))
    counters.count(counters.BYTES_DONE, written.image_bytes)


@dataclass(kw_only=True)
class WriteShards(beam.PTransform):
    """Reads, checks and encodes the images of each shard and writes it; a shard is one work item.

    Attributes:
      plan: PCollection of the one `Plan`.
      output_folder: where the shards go.
      encoding: what shapes the examples.
      resume: keep shards of an earlier run that were made from the same samples.
      reading: how far each writer reads ahead.
      failures: how a shard that cannot be written is reported.
      earlier: the data set that shards of the same samples are taken from.

    Returns (tagged): main, a `ShardInfo` for each shard; "dead_letters"; "refusals", the reasons why
      shards were not written; "changes", a `ShardChanges` for each shard if there is an earlier data
      set; "compared", the images as `FindDuplicates` takes them.
    """

    plan: beam.PCollection[Plan]
    output_folder: str
    encoding: EncodingOptions
    resume: bool = False
    reading: ReadOptions = ONE_BY_ONE
    failures: FailurePolicy = DEFAULT_POLICY
    earlier: EarlierDataSet | None = None

    def expand(
        self, shards: beam.PCollection[tuple[int, Iterable[bytes]]]
    ) -> beam.pvalue.DoOutputsTuple:
        return shards | "WriteShard" >> beam.ParDo(
            _WriteShard(
                output_folder=self.output_folder,
                encoding=self.encoding,
                resume=self.resume,
                reading=self.reading,
                failures=self.failures,
                earlier=self.earlier,
            ),
            AsSingleton(self.plan),
        ).with_outputs(DEAD_LETTERS, REFUSALS, CHANGES, COMPARED, main="shards")
