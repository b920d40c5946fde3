"""Local folders to list, as a unit of work for any worker.

Nothing here imports Beam, so that a process that does nothing else starts in a tenth of a second.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from beam_pipeline.core.dataset.tally import Tally
from beam_pipeline.core.dead_letters import DeadLetter
from beam_pipeline.core.listing.filters import ImageRoot
from beam_pipeline.core.packed_batches import BATCH_SIZE, DeadLetterBatch, ImageBatch
from beam_pipeline.core.packing import (
    Columns,
    pack_columns,
    put_together,
    unpack_columns,
)
from beam_pipeline.storage.local_listing import (
    Files,
    LinkedFolder,
    LocalListing,
    Subfolder,
)
from beam_pipeline.work.outcome import Outcome

MOST_FILES = 1 << 14
"""Files of a task, and so images of a batch."""


class PackedFiles(NamedTuple):
    """Files of one folder on their way to another process.

    Attributes:
      folder: its path.
      names: of the files, packed.
      size: how many there are.
    """

    folder: str
    names: bytes
    size: int

    @classmethod
    def of(cls, files: Files) -> PackedFiles:
        """The files, packed."""
        return cls(files.folder, pack_columns([files.names]), len(files.names))

    def unpacked(self) -> Files:
        """The files."""
        return Files(self.folder, unpack_columns(self.names)[0])


Part = PackedFiles | Subfolder
"""A part of a root that is still to be listed."""


class ListedPart(NamedTuple):
    """What came of a task.

    Attributes:
      outcome: its images, dead letters and counts.
      rest: what it left to other tasks.
      links: the folders to which links within links have led.
    """

    outcome: Outcome
    rest: Sequence[Part]
    links: Sequence[LinkedFolder]


@dataclass(frozen=True)
class ListingTask:
    """Parts of a local root.

    Attributes:
      root: the root.
      parts: the parts.
      most: how many files it lists, roughly; it returns the others.
    """

    root: ImageRoot
    parts: Sequence[Part]
    most: int = MOST_FILES

    doing = "listing images"

    def run(self) -> ListedPart:
        """Lists some of the files, and finds the folders and files that are left.

        Raises:
          ListingError: a folder cannot be read, or links multiply the folders.
        """
        listing, most = LocalListing(self.root), self.most
        found = FoundImages(listing)
        rest: list[Part] = []
        for part in self.parts:
            if isinstance(part, Subfolder):
                listing.waiting.append(part)
            elif found.count < most:
                found.add(part.unpacked())
            else:
                rest.append(part)
        for files in listing.files(min(most, BATCH_SIZE), until=most - found.count):
            if found.count < most:
                found.add(files)
            else:
                rest.append(PackedFiles.of(files))
        found.add_counts()
        return ListedPart(found.outcome(), [*rest, *listing.waiting], listing.links.found)


class FoundImages:
    """Images found by a listing that are not in an outcome yet."""

    def __init__(self, listing: LocalListing) -> None:
        self.count = 0
        self._tally = Tally()
        self._listing = listing
        self._columns: list[Columns] = []
        self._dead_letters: list[DeadLetter] = []

    def add(self, files: Files) -> None:
        """Adds the images among some files. Raises ListingError."""
        columns, dead_letters = self._listing.images(files)
        self._columns.append(columns)
        self._dead_letters += dead_letters
        self.count += len(files.names)

    def add_counts(self) -> None:
        """Adds the counts of files that are no images."""
        self._tally.ignored.update(self._listing.rules.ignored)
        self._tally.label_files.add(self._listing.rules.label_files)

    def outcome(self) -> Outcome:
        """The outcome of what was added since the last one."""
        columns, tally, dead_letters = put_together(self._columns), self._tally, self._dead_letters
        images = ImageBatch.of_columns(columns)
        tally.listed = len(images) + len(dead_letters)
        tally.add_dead_letters(dead_letters)
        self.count, self._tally, self._columns, self._dead_letters = 0, Tally(), [], []
        return Outcome([images] if images else [], tally, DeadLetterBatch(dead_letters))
