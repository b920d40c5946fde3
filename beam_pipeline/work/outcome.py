"""The outcome of a task on references: the outputs of a stage, made by a process without Beam."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from beam_pipeline.core import errors, packing
from beam_pipeline.core.dataset.tally import Tally

CHANGES = "changes"
COMPARED = "compared"
DEAD_LETTERS = "dead_letters"
REFUSALS = "refusals"
TALLY = "tally"
"""Tags of the outputs that a stage may have beside its main one; dead letters are a counter as well."""

COUNTERS = "beam_tfrecord"
SAMPLES_PLANNED = "samples_planned"
BYTES_PLANNED = "bytes_planned"
DONE = IMAGES_LISTED, SAMPLES_DONE, BYTES_DONE = "images_listed", "samples_done", "bytes_done"
EXAMPLES_WRITTEN = "examples_written"
SHARDS_WRITTEN = "shards_written"
"""The namespace of the counters, which the launcher of a remote engine queries, and their names. They are
updated once per batch, shard or job, and a few times a second while a shard is written, not for each sample."""

THROTTLED = "cumulativeThrottlingSeconds"
"""A counter that tells Dataflow that more workers would not help: whole seconds that requests waited
because the service refused them."""

READ_MS, RETRIES, SHARD_BYTES, SHARD_MS = "read_ms", "retries", "shard_bytes", "shard_ms"
"""Beam's distributions: of each read ahead, requests repeated per report, and of each shard that was written."""

SMALL = 1 << 16
"""Bytes of a call, before compression, a thousand references: done in about the time that sending them takes."""


@dataclass
class Outcome:
    """The result of some references.

    Attributes:
      main: the elements of the main output: batches, or (part, packed references).
      tally: their counts.
      dead_letters: those that were left out.
      tagged: (tag, element) of further outputs.
      counters: amounts to add to Beam's counters, by their names.
      measured: values to add to Beam's distributions, by their names.
    """

    main: Iterable[Any] = ()
    tally: Tally | None = None
    dead_letters: packing.DeadLetterBatch = field(default_factory=packing.DeadLetterBatch)
    tagged: Sequence[tuple[str, Any]] = ()
    counters: Mapping[str, int] = field(default_factory=dict)
    measured: Mapping[str, Sequence[int]] = field(default_factory=dict, compare=False)

    @classmethod
    def refused(cls, error: errors.ConversionError) -> Outcome:
        """The outcome of what keeps the job from writing anything."""
        return cls(tally=Tally(refusals=[errors.Refusal.from_error(error)]))


class Division(Protocol):
    """Tells the part of each reference: it is pickled."""

    @property
    def parts(self) -> int:
        """How many parts there are."""

    def numbers(self, columns: packing.Columns) -> Sequence[int]:
        """The part of each reference."""


def divide(batches: Sequence[bytes], division: Division) -> Outcome:
    """Makes (part, packed references) of batches of packed references of one kind."""
    columns = packing.join_columns(batches)
    return Outcome(list(packing.items_by_part(columns, division.numbers(columns))))


@dataclass(frozen=True)
class Call:
    """A function to call, in this process or another, where all of it is pickled.

    Attributes:
      function: the function.
      arguments: its arguments.
      doing: see `Task`.
    """

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    doing: str = "planning"

    def run(self) -> Any:
        """Calls it."""
        return self.function(*self.arguments)


def step(size: int, function: Callable[..., Outcome], *arguments: Any) -> Call | Outcome:
    """A call about `size` bytes before compression, or its outcome where sending it elsewhere would take longer."""
    call = Call(function, arguments)
    outcome: Outcome | Call = call.run() if size < SMALL else call
    return outcome
