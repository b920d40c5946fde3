"""Writes shards: from the references of a shard to its file and its figures."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import AsSingleton

from beam_pipeline.core.dataset.duplicates import range_count
from beam_pipeline.core.dataset.plan import Plan
from beam_pipeline.core.errors import ConversionError, OutputError
from beam_pipeline.core.failures import DEFAULT_POLICY, FailurePolicy, Refusal
from beam_pipeline.storage.read_ahead import ONE_BY_ONE, ReadOptions
from beam_pipeline.transforms import counters
from beam_pipeline.transforms.batches import DeadLetterBatch
from beam_pipeline.transforms.in_workers import InWorkers
from beam_pipeline.work.earlier_data_set import EarlierDataSet
from beam_pipeline.work.encoding import EncodingOptions
from beam_pipeline.work.incomplete_folder import note_refusal
from beam_pipeline.work.outcome import CHANGES, COMPARED, DEAD_LETTERS, REFUSALS, Outcome
from beam_pipeline.work.shard_task import ShardTask, Written
from beam_pipeline.work.spill import unspill_all


class _WriteShard(InWorkers):
    """Writes shards in writer processes, several at a time, or here where there are none."""

    repeat = False  # what killed the process might kill this one

    def __init__(self, request: WriteShards) -> None:
        super().__init__(self._tasks_of)
        self._folder = request.output_folder
        self._encoding = request.encoding
        self._resume = request.resume
        self._reading = request.reading
        self._failures = request.failures
        self._earlier = request.earlier
        self._raise = request.raises
        self._plan: Plan | None = None
        self._class_ids: dict[str, int] = {}
        self._ranges = 1

    def _tasks_of(self, shard: tuple[int, Iterable[bytes]], plan: Plan) -> Iterator[Any]:
        number, batches = shard
        if plan is not self._plan:
            self._plan, self._class_ids = plan, plan.class_ids
            self._ranges = range_count(plan.tally.samples.total())
        yield ShardTask(
            folder=self._folder,
            spec=plan.shard_plan.spec(number),
            batches=unspill_all(batches),
            class_ids=self._class_ids,
            encoding=self._encoding,
            record_format=plan.shard_plan.record_format,
            resume=self._resume,
            reading=self._reading,
            failures=self._failures,
            earlier=self._earlier,
            ranges=self._ranges,
        )

    def outcome(self, result: Callable[[], Any]) -> Outcome:
        """The outcome of a shard; a refusal where it could not be written and no engine tries again."""
        try:
            written: Written = result()
        except (ConversionError, OSError) as error:
            refusal = self._refusal_for(error)
            if self._failures.retries:
                with contextlib.suppress(OSError, ConversionError):
                    # If a retry succeeds, the note is removed with the rest of `.incomplete`.
                    note_refusal(self._folder, refusal, self._failures.job)
                raise
            written = Written(None, [], refusal)
        if self._raise and written.refusal:
            raise written.refusal.to_error()
        return _outcome(written)

    def _refusal_for(self, error: ConversionError | OSError) -> Refusal:
        if isinstance(error, OSError):
            error = OutputError(f"a shard in {self._folder} cannot be written: {error}")
        return Refusal.from_error(error)


def _outcome(written: Written) -> Outcome:
    tagged: list[tuple[str, Any]] = [(COMPARED, images) for images in written.images]
    if written.refusal:
        tagged.append((REFUSALS, written.refusal))
    if written.changes:
        tagged.append((CHANGES, written.changes))
    info = written.info
    if info is None:
        return Outcome(tagged=tagged)
    letters = DeadLetterBatch(written.dead_letters)
    counted = {
        counters.SHARDS_WRITTEN: 1,
        counters.EXAMPLES_WRITTEN: info.examples,
        counters.DEAD_LETTERS: len(letters),
        counters.SAMPLES_DONE: info.examples + len(letters),
        counters.BYTES_DONE: written.image_bytes,
    }
    return Outcome([info], dead_letters=letters, tagged=tagged, counters=counted)


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
      raises: raise why a shard is not written; False where `FinishDataset` reports the refusals.

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
    raises: bool = True

    def expand(
        self, shards: beam.PCollection[tuple[int, Iterable[bytes]]]
    ) -> beam.pvalue.DoOutputsTuple:
        return shards | "WriteShard" >> beam.ParDo(
            _WriteShard(self),
            AsSingleton(self.plan),
        ).with_outputs(DEAD_LETTERS, REFUSALS, CHANGES, COMPARED, main="shards")
