"""Divides references among parts, as a unit of work for any worker.

Nothing here imports Beam, so that a process that does nothing else starts in a tenth of a second.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from beam_pipeline.core.packing import Columns, items_by_part, join_columns
from beam_pipeline.work.outcome import Outcome


class Division(Protocol):
    """Tells the part of each reference: it is pickled."""

    @property
    def parts(self) -> int:
        """How many parts there are."""

    def numbers(self, columns: Columns) -> Sequence[int]:
        """The part of each reference."""


@dataclass(frozen=True)
class PartTask:
    """References to divide.

    Attributes:
      batches: packed references of one kind.
      division: tells the part of each.
    """

    batches: Sequence[bytes]
    division: Division

    doing = "dividing references"

    def run(self) -> Outcome:
        """Makes (part, packed references)."""
        columns = join_columns(self.batches)
        if not columns:
            return Outcome()
        return Outcome(list(items_by_part(columns, self.division.numbers(columns))))
