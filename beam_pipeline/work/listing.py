"""Lists local folders in the writer processes, which are idle until shards are planned.

Nothing here imports Beam, so that a process that does nothing else starts in a tenth of a second.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from beam_pipeline.core.dataset.tally import Tally
from beam_pipeline.core.dead_letters import DeadLetter
from beam_pipeline.core.errors import ListingError
from beam_pipeline.core.failures import Refusal
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
    Links,
    LocalListing,
    Subfolder,
)
from beam_pipeline.work import writer_process
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


_HERE = 1 << 14  # files, listed before other processes would have begun
_MOST_FOLDERS = 256  # of a task, which returns those that it does not get to


def list_folders(root: ImageRoot, here: float = _HERE, most: int = MOST_FILES) -> Iterator[Outcome]:
    """Lists a local root: its first files here, the others in writer processes if there are any.

    Each outcome has one batch of images, or none; the last one says that something cannot be listed.

    Args:
      root: the root.
      here: how many files are listed here, roughly.
      most: how many are listed together elsewhere, roughly.
    """
    if not writer_process.backlog():
        here = float("inf")
    batch_size = min(most, BATCH_SIZE)
    listing = LocalListing(root, [Subfolder.root(root)])
    found, elsewhere = FoundImages(listing), _Elsewhere(root, listing.links, most)
    try:
        for files in listing.files(batch_size, until=here):
            if listing.done <= here:
                found.add(files)
                if found.count >= batch_size:
                    yield found.outcome()
            else:
                yield from elsewhere.add(PackedFiles.of(files))
        found.add_counts()
        yield found.outcome()
        yield from elsewhere.rest(listing.waiting)
    except ListingError as error:
        yield Outcome(tally=Tally(refusals=[Refusal.from_error(error)]))


class _Elsewhere:
    """Parts of a root that are listed in other processes.

    Which parts make a task depends on the tree and on the number of processes, never on time.
    """

    def __init__(self, root: ImageRoot, links: Links, most: int) -> None:
        self._root = root
        self._links = links
        self._most = most
        self._parts: list[Part] = []
        self._files = 0
        self._running: writer_process.Tasks[ListedPart] = writer_process.Tasks(repeat=True)

    def add(self, files: PackedFiles) -> Iterator[Outcome]:
        """Takes files of a folder that is still being read; yields outcomes. Raises ListingError."""
        self._parts.append(files)
        self._files += files.size
        if self._files >= self._most:
            parts, self._parts, self._files = self._parts, [], 0
            yield from self._submit(parts)

    def rest(self, folders: Sequence[Subfolder]) -> Iterator[Outcome]:
        """Yields the other outcomes, and those of some folders. Raises ListingError."""
        self._parts += folders
        while True:
            while self._parts:
                yield from self._submit(self._taken())
            for result in self._running.rest():
                yield self._outcome(result())
                if self._parts:
                    break
            else:
                return

    def _taken(self) -> list[Part]:
        """Takes parts for a task: few, where few are left for the other processes."""
        share = len(self._parts) // max(1, writer_process.backlog())
        taken: list[Part] = []
        files = 0
        while self._parts and len(taken) < max(1, min(share, _MOST_FOLDERS)) and files < self._most:
            part = self._parts.pop()
            files += part.size if isinstance(part, PackedFiles) else 0
            taken.append(part)
        return taken

    def _submit(self, parts: Sequence[Part]) -> Iterator[Outcome]:
        for result in self._running.submit(ListingTask(self._root, parts, self._most)):
            yield self._outcome(result())

    def _outcome(self, listed: ListedPart) -> Outcome:
        for link in listed.links:
            self._links.add(link)
        self._parts += listed.rest
        return listed.outcome
