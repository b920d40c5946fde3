"""Lists local folders in the writer processes, which are idle until shards are planned."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from beam_pipeline.core.dataset.tally import Tally
from beam_pipeline.core.errors import ListingError
from beam_pipeline.core.failures import Refusal
from beam_pipeline.core.listing.filters import ImageRoot
from beam_pipeline.core.packed_batches import BATCH_SIZE
from beam_pipeline.storage.local_listing import Links, LocalListing, Subfolder
from beam_pipeline.work import writer_process
from beam_pipeline.work.listing_task import (
    MOST_FILES,
    FoundImages,
    ListedPart,
    ListingTask,
    PackedFiles,
    Part,
)
from beam_pipeline.work.outcome import Outcome

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
