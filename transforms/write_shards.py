"""Write shards: a shard's references in, its file and its figures out."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import AsSingleton, TaggedOutput
from apache_beam.transforms.window import GlobalWindows

from transforms import writer_process
from transforms.batches import DEAD_LETTERS, DeadLetterBatch
from transforms.core.errors import ConversionError, OutputError
from transforms.core.plan import Plan, Refusal
from transforms.core.sharding import ShardInfo
from transforms.files import join
from transforms.output_folder import note_refusal
from transforms.shard_task import EncodingOptions, ShardTask
from transforms.writer_process import Written


class _WriteShard(beam.DoFn):
    """Writes shards here or, where there are any, by writer processes while it goes on."""

    def __init__(self, output_folder: str, encoding: EncodingOptions) -> None:
        self._folder = output_folder
        self._encoding = encoding
        self._plan: Plan | None = None
        self._class_ids: dict[str, int] = {}

    def start_bundle(self) -> None:
        self._waiting: deque[Callable[[], Written]] = deque()

    def process(
        self, shard: tuple[int, Iterable[bytes]], plan: Plan
    ) -> Iterator[ShardInfo | TaggedOutput]:
        task = self._task(shard[0], list(shard[1]), plan)
        future = writer_process.submit(task)
        self._waiting.append(future.result if future else task.run)
        while len(self._waiting) > writer_process.backlog():
            yield from self._outputs(self._waiting.popleft())

    def finish_bundle(self) -> Iterator[Any]:
        while self._waiting:
            for output in self._outputs(self._waiting.popleft()):
                if isinstance(output, TaggedOutput):
                    yield TaggedOutput(output.tag, GlobalWindows.windowed_value(output.value))
                else:
                    yield GlobalWindows.windowed_value(output)

    def _task(self, number: int, batches: list[bytes], plan: Plan) -> ShardTask:
        spec = plan.layout.spec(number)
        if plan is not self._plan:
            self._plan, self._class_ids = plan, plan.class_ids
        return ShardTask(
            join(self._folder, spec.file_name),
            spec,
            batches,
            self._class_ids,
            self._encoding,
            plan.layout.compression,
        )

    def _outputs(self, write: Callable[[], Written]) -> Iterator[ShardInfo | TaggedOutput]:
        try:
            info, letters = write()
        except ConversionError as error:
            self._note(error)
            raise
        except OSError as error:
            self._note(OutputError(f"a shard in {self._folder} cannot be written: {error}"))
            raise
        yield info
        if letters:
            yield TaggedOutput(DEAD_LETTERS, DeadLetterBatch(letters))

    def _note(self, error: ConversionError) -> None:
        """Notes why the job may be about to fail; if a retry succeeds, the note goes with the rest."""
        with contextlib.suppress(OSError, ConversionError):
            note_refusal(self._folder, Refusal(type(error).__name__, str(error)))


@dataclass(kw_only=True)
class WriteShards(beam.PTransform):
    """Reads, checks and encodes the images of each shard and writes it, one work item a shard.

    Attributes:
      plan: PCollection of the one `Plan`.
      output_folder: where the shards go.
      encoding: what shapes the examples.

    Returns (tagged): main, a `ShardInfo` for each shard; "dead_letters".
    """

    plan: beam.PCollection[Plan]
    output_folder: str
    encoding: EncodingOptions

    def expand(
        self, shards: beam.PCollection[tuple[int, Iterable[bytes]]]
    ) -> beam.pvalue.DoOutputsTuple:
        return shards | "WriteShard" >> beam.ParDo(
            _WriteShard(self.output_folder, self.encoding), AsSingleton(self.plan)
        ).with_outputs(DEAD_LETTERS, main="shards")
