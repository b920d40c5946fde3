"""Tasks for the tests of what runs elsewhere: processes that do not import Beam load this quickly."""

from __future__ import annotations

import os
from dataclasses import dataclass

from beam_pipeline.core import dead_letters, packing
from beam_pipeline.core.dataset.tally import Tally
from beam_pipeline.work.outcome import Outcome

LETTER = dead_letters.DeadLetter("read", "a.jpg", "/a.jpg", "empty_file", "no bytes")


@dataclass(frozen=True)
class Doubled:
    """Doubles a number."""

    number: int

    doing = "doubling"

    def run(self) -> Outcome:
        if self.number < 0:
            raise ValueError("negative")
        letters = packing.DeadLetterBatch([LETTER] if self.number == 7 else [])
        return Outcome([2 * self.number], Tally(listed=1), letters, [("odd", self.number % 2)])


@dataclass(frozen=True)
class Fatal(Doubled):
    """Ends any process but the one that made it."""

    maker: int

    def run(self) -> Outcome:
        if os.getpid() != self.maker:
            os._exit(1)
        return super().run()
