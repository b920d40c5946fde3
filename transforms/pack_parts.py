"""Packs references by parts: a GroupByKey moves a few filled parts instead of many references."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import apache_beam as beam

from beam_pipeline.core.packed_batches import Batch
from beam_pipeline.core.packing import pack
from beam_pipeline.transforms.run_elsewhere import RunElsewhere
from beam_pipeline.transforms.windowed import windowed
from beam_pipeline.work.outcome import Outcome
from beam_pipeline.work.part_task import Division, PartTask
from beam_pipeline.work.spill import spill_parts

MOST_HELD = 1 << 16  # references
_FILLED = 128  # references; packing a part of a few takes as long
_WELL_FILLED = 512  # references; four parts of 128 each take half as long again
_LEAST_HELD = 1 << 14  # references that are worth a task


class PackParts(beam.DoFn):
    """Base of the DoFns that yield (part, packed references).

    References wait for others of their bundle, until parts are filled or too many wait.
    """

    def start_bundle(self) -> None:
        self._forget()

    def _forget(self) -> None:
        self._parts: dict[int, list[tuple[Any, ...]]] = defaultdict(list)
        self._held = 0

    def hold(
        self,
        batch: Sequence[tuple[Any, ...]],
        numbers: Iterable[int],
        parts: int,
    ) -> Iterator[tuple[int, bytes]]:
        """Takes references, each with the number of its part; yields all parts once enough references wait.

        Args:
          batch: references, NamedTuples of one kind.
          numbers: the part of each.
          parts: how many there are.
        """
        for item, number in zip(batch, numbers, strict=True):
            self._parts[number].append(item)
        self._held += len(batch)
        if self._held >= min(MOST_HELD, _FILLED * parts):
            yield from self._packed()

    def finish_bundle(self) -> Iterator[Any]:
        yield from map(windowed, self._packed())

    def _packed(self) -> Iterator[tuple[int, bytes]]:
        for number, items in self._parts.items():
            yield number, pack(items)
        self._forget()


class DivideElsewhere(RunElsewhere):
    """Base of the DoFns that yield (part, packed references) of whole batches, divided elsewhere.

    Batches wait for others of their bundle, as the references of `PackParts` do.
    """

    def start_bundle(self) -> None:
        super().start_bundle()
        self._batches: list[bytes] = []
        self._references = 0
        self._division: Division | None = None

    def divide(self, batch: Batch[Any], division: Division) -> Iterator[tuple[int, bytes]]:
        """Takes a batch; yields parts once enough references wait.

        Args:
          batch: the references.
          division: tells the part of each; the same for all batches of a bundle.
        """
        self._division = division
        self._batches.append(batch.packed())
        self._references += len(batch)
        if self._references >= min(MOST_HELD, max(_LEAST_HELD, _WELL_FILLED * division.parts)):
            yield from self._divided()

    def finish_bundle(self) -> Iterator[Any]:
        yield from map(windowed, self._divided())
        yield from super().finish_bundle()

    def outputs(self, outcome: Outcome) -> Iterator[Any]:
        """See `RunElsewhere`; what the engine moves is kept in a file where there is one."""
        yield from super().outputs(replace(outcome, main=spill_parts(outcome.main)))

    def _divided(self) -> Iterator[tuple[int, bytes]]:
        if self._division and self._batches:
            task = PartTask(self._batches, self._division)
            self._batches, self._references = [], 0
            yield from self.run(task, sum(map(len, task.batches)))
