"""The outcome of a task on references: the outputs of a stage, as a process without Beam makes them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from beam_pipeline.core.dataset.tally import Tally
from beam_pipeline.core.packed_batches import DeadLetterBatch

BARE_NAMES = "bare_names"
CHANGES = "changes"
COMPARED = "compared"
DEAD_LETTERS = "dead_letters"
REFUSALS = "refusals"
TALLY = "tally"
"""Tags of the outputs that a stage may have beside its main one."""


@dataclass
class Outcome:
    """What comes of some references.

    Attributes:
      main: the elements of the main output: batches, or (part, packed references).
      tally: their counts.
      dead_letters: those that were left out.
      tagged: (tag, element) of further outputs.
      counters: amounts to add to Beam's counters, by their names.
    """

    main: Iterable[Any] = ()
    tally: Tally | None = None
    dead_letters: DeadLetterBatch = field(default_factory=DeadLetterBatch)
    tagged: Sequence[tuple[str, Any]] = ()
    counters: Mapping[str, int] = field(default_factory=dict)
