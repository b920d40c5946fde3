"""Images to compare, as a unit of work for any worker.

Nothing here imports Beam, so that a process that does nothing else starts in a tenth of a second.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from beam_pipeline.core.dataset.duplicates import find_duplicates
from beam_pipeline.work.outcome import Outcome


@dataclass(frozen=True)
class DuplicatesTask:
    """The images in a range of digests.

    Attributes:
      parts: all of them, packed by `pack_images`.
    """

    parts: Sequence[bytes]

    doing = "looking for duplicates"

    def run(self) -> Outcome:
        """Finds the images of the same bytes."""
        return Outcome([find_duplicates(lambda: self.parts)])
