"""Lists images: local folders in the writer processes, which are idle until shards are planned, and inventories.

Nothing here imports Beam, so that a process that does nothing else starts in a tenth of a second.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from beam_pipeline.core import errors, packing, references
from beam_pipeline.core.dataset.tally import Tally
from beam_pipeline.core.dead_letters import DeadLetter
from beam_pipeline.core.listing import cuts, inventory
from beam_pipeline.core.listing.filters import ImageRoot, ObjectFilter
from beam_pipeline.core.uris import is_remote
from beam_pipeline.storage import files
from beam_pipeline.storage.listing import Files, LocalListing, Subfolder
from beam_pipeline.work import file_parts, writer_process
from beam_pipeline.work.outcome import Division, Outcome

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
        return cls(files.folder, packing.pack_columns([files.names]), len(files.names))


Part = PackedFiles | Subfolder
"""A part of a root that is still to be listed."""


class ListedPart(NamedTuple):
    """The result of a task.

    Attributes:
      outcome: its images, dead letters and counts.
      rest: what it left to other tasks.
    """

    outcome: Outcome
    rest: Sequence[Part]


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
          ListingError: a folder cannot be read, or a link is inside two others.
        """
        listing, most = LocalListing(self.root), self.most
        images = FoundImages(listing)
        rest: list[Part] = []
        for part in self.parts:
            if isinstance(part, Subfolder):
                listing.waiting.append(part)
            elif images.count < most:
                images.add(Files(part.folder, packing.unpack_columns(part.names)[0]))
            else:
                rest.append(part)
        for listed in listing.files(min(most, packing.BATCH_SIZE), until=most - images.count):
            if images.count < most:
                images.add(listed)
            else:
                rest.append(PackedFiles.of(listed))
        return ListedPart(images.outcome(last=True), [*rest, *listing.waiting])


class FoundImages:
    """Images found by a listing that are not in an outcome yet."""

    def __init__(self, listing: LocalListing) -> None:
        self.count = 0
        self._listing = listing
        self._columns: list[packing.Columns] = []
        self._dead_letters: list[DeadLetter] = []

    def add(self, files: Files) -> None:
        """Adds the images among some files. Raises ListingError."""
        columns, dead_letters = self._listing.images(files)
        self._columns.append(columns)
        self._dead_letters += dead_letters
        self.count += len(files.names)

    def outcome(self, *, last: bool = False) -> Outcome:
        """The outcome of what was added since the last one; the very last also counts files that are not images."""
        images = packing.ImageBatch.of_columns(packing.put_together(self._columns))
        dead_letters = packing.DeadLetterBatch(self._dead_letters)
        tally = Tally(listed=len(images) + len(dead_letters))
        tally.add_dead_letters(dead_letters)
        if last:
            tally.ignored.update(self._listing.rules.ignored)
            tally.label_files.add(self._listing.rules.label_files)
        self.count, self._columns, self._dead_letters = 0, [], []
        return Outcome([images] if images else [], tally, dead_letters)


_HERE = 1 << 14  # files, listed before other processes would have begun
_MOST_FOLDERS = 256  # of a task, which returns those that it does not get to


def list_folders(root: ImageRoot, here: float = _HERE, most: int = MOST_FILES) -> Iterator[Outcome]:
    """Lists a local root: its first files here, the others in writer processes if there are any.

    Each outcome has one batch of images, or none; the last one states that something cannot be listed.
    Which parts make a task depends on the tree and on the number of processes, never on time.

    Args:
      root: the root.
      here: how many files are listed here, roughly.
      most: how many are listed together elsewhere, roughly.
    """
    here = here if writer_process.backlog() else float("inf")
    batch_size = min(most, packing.BATCH_SIZE)
    listing = LocalListing(root, [Subfolder(root.uri)])
    images, parts, held = FoundImages(listing), list[Part](), 0
    running: writer_process.Tasks[ListedPart] = writer_process.Tasks(repeat=True)

    def ended(result: Callable[[], ListedPart]) -> Outcome:
        listed = result()
        parts.extend(listed.rest)
        return listed.outcome

    try:
        for files_there in listing.files(batch_size, until=here):
            if listing.done <= here:
                images.add(files_there)
                if images.count >= batch_size:
                    yield images.outcome()
                continue
            parts.append(PackedFiles.of(files_there))
            held += len(files_there.names)
            if held >= most:
                task, held = ListingTask(root, tuple(parts), most), 0
                parts.clear()
                yield from map(ended, running.submit(task))
        yield images.outcome(last=True)
        parts += listing.waiting
        while True:
            while parts:
                task = ListingTask(root, _taken(parts, most), most)
                yield from map(ended, running.submit(task))
            for result in running.rest():
                yield ended(result)
                if parts:
                    break
            else:
                return
    except errors.ListingError as error:
        yield Outcome.refused(error)


def _taken(parts: list[Part], most: int) -> list[Part]:
    """Takes parts for a task: few, where few are left for the other processes."""
    share = max(1, min(len(parts) // max(1, writer_process.backlog()), _MOST_FOLDERS))
    taken: list[Part] = []
    files = 0
    while parts and len(taken) < share and files < most:
        part = parts.pop()
        files += part.size if isinstance(part, PackedFiles) else 0
        taken.append(part)
    return taken


OUTSIDE, REPLACED = "outside --images", "replaced versions"
"""Names in the manifest for rows that are skipped."""

_MOST_HELD = 1 << 16  # entries before their groups are packed
_UNUSUAL = ("\n\n", "/\n", "\n.", "/.", "__MACOSX")
"""Marks, in lines of keys, of folders, hidden ones or paths with several forms."""


class _Entry(NamedTuple):
    """A row of an inventory below a root.

    Attributes:
      key: path below the root; a hidden folder, with a slash at its end, represents everything in it.
      size, version: of the file, as listed.
      root: index of the root.
      file, line: of the inventory.
    """

    key: str
    size: int
    version: int
    root: int
    file: str
    line: int


@dataclass(frozen=True)
class InventoryTask:
    """An inventory, or a part of one.

    Attributes:
      part: the file.
      roots: folders of images; files elsewhere are skipped.
      division: the groups in which rows are compared.
    """

    part: file_parts.FilePart
    roots: tuple[ImageRoot, ...]
    division: Division

    def run(self) -> Outcome:
        """Reads the rows below the roots: (group, packed entries)."""
        tally = Tally()
        return Outcome(list(self.read(tally)), tally)

    def read(self, tally: Tally) -> Iterator[tuple[int, bytes]]:
        """Yields (group, packed entries), and counts rows that are skipped."""
        held: list[packing.Columns] = []
        count = 0
        for columns in self._columns(tally):
            held.append(columns)
            count += len(columns[0])
            if count >= _MOST_HELD:
                yield from self._grouped(held)
                held, count = [], 0
        yield from self._grouped(held)

    def _grouped(self, held: Sequence[packing.Columns]) -> Iterator[tuple[int, bytes]]:
        if not held:
            return
        columns = packing.put_together(held)
        yield from packing.items_by_part(columns, self.division.numbers(columns))

    def _columns(self, tally: Tally) -> Iterator[packing.Columns]:
        roots = _Roots(self.roots, tally)
        try:
            with files.naming(f"--inventory {self.part.uri}", errors.InventoryError):
                for rows in self._rows():
                    yield from roots.columns_of(rows, self.part.uri)
        except errors.InventoryError as error:
            tally.refusals.append(errors.Refusal.from_error(error))

    def _rows(self) -> Iterator[inventory.InventoryRows]:
        uri, lines = self.part.uri, self.part.range
        with files.open_input(uri) as file:
            header = inventory.csv_header(file, uri) if isinstance(lines, cuts.LineRange) else None
            file.seek(0)
            if header is None or not isinstance(lines, cuts.LineRange):
                groups = None if isinstance(lines, cuts.LineRange) else lines
                yield from inventory.read_inventory(file, uri, groups)
                return
            if not lines.read_at_once:
                file.seek(lines.begin)
                yield from inventory.read_rows(file, uri, header, lines.first)
                return
        data, first = file_parts.read_lines(uri, lines), lines.first
        yield from inventory.read_lines(data, uri, header, first_line=first, regular=lines.regular)


class _Roots:
    """Tells which rows of an inventory are below which root."""

    def __init__(self, roots: Sequence[ImageRoot], tally: Tally) -> None:
        self._roots = [ObjectFilter(root) for root in roots]
        self._hidden_folders: set[tuple[int, str]] = set()
        self._tally = tally

    def columns_of(self, rows: inventory.InventoryRows, file: str) -> Iterator[packing.Columns]:
        """The columns of the entries of rows."""
        keys = self._keys(rows)
        if keys is None:
            entries = self._entries(rows, file)
            while batch := list(itertools.islice(entries, packing.BATCH_SIZE)):
                yield list(zip(*batch, strict=True))
            return
        count = len(keys)
        yield [
            keys,
            rows.sizes,
            rows.versions,
            packing.Same(0, count),
            packing.Same(file, count),
            rows.lines,
        ]

    def _keys(self, rows: inventory.InventoryRows) -> Sequence[str] | None:
        """The path of each row below the only root; None if rows are unusual, or roots several."""
        if len(self._roots) != 1 or not all(rows.live):
            return None
        prefix, count = self._roots[0].prefix, len(rows.uris)
        text = "\n" + "\n".join(rows.uris)
        if text.count("\n" + prefix) != count:
            return None
        text = text.replace("\n" + prefix, "\n")
        unusual = _UNUSUAL if is_remote(prefix) else (*_UNUSUAL, "//", "\n/")
        if any(mark in text for mark in unusual):
            return None
        keys = text[1:].split("\n")
        return None if text.endswith(("\n", "/")) or len(keys) != count else keys

    def _entries(self, rows: inventory.InventoryRows, file: str) -> Iterator[_Entry]:
        hidden_folders, tally = self._hidden_folders, self._tally
        for uri, size, version, line, live in zip(*rows, strict=True):
            if not live:
                tally.ignored[REPLACED] += 1
                continue
            # The name of an object may be anything and stays as it is.
            remote = is_remote(uri) and not uri.startswith("file://")
            where = uri if remote else files.canonical(uri)
            roots = [(i, r) for i, r in enumerate(self._roots) if where.startswith(r.prefix)]
            for index, root in roots:
                key = where[len(root.prefix) :]
                hidden = root.hidden_folder(key)
                if hidden and (index, hidden) not in hidden_folders:
                    hidden_folders.add((index, hidden))
                    yield _Entry(hidden, 0, 0, index, file, line)
                elif not hidden and key and not key.endswith("/"):
                    yield _Entry(key, size, version, index, file, line)
            if not roots:
                tally.ignored[OUTSIDE] += 1


def list_group(parts: Sequence[bytes], roots: Sequence[ImageRoot]) -> tuple[packing.Columns, Tally]:
    """The images of one group of rows, each once, and their counts.

    Args:
      parts: packed entries.
      roots: the folders of images.
    """
    tally = Tally()
    rules = [ObjectFilter(root) for root in roots]
    entries = packing.join_columns(parts)
    images = _images(entries, rules, tally) if entries else []
    tally.listed = len(images[0]) if images else 0
    for root in rules:
        tally.ignored.update(root.rules.ignored)
        tally.label_files.add(root.rules.label_files)
    return images, tally


def _images(
    entries: packing.Columns, rules: Sequence[ObjectFilter], tally: Tally
) -> packing.Columns:
    """The columns of the images among entries: of all, if no file is repeated and names add nothing."""
    keys, sizes, versions = entries[:3]
    root = rules[0]
    if len(rules) == 1 and len(set(keys)) == len(keys) and root.rules.lists_all(keys, root.prefix):
        count = len(keys)
        uris = [root.prefix + key for key in keys]
        return [keys, uris, sizes, versions, packing.Same((), count), packing.Same(b"", count)]
    return list(zip(*_listed(packing.items_of(_Entry, entries), rules, tally), strict=True))


def _listed(
    entries: Iterable[_Entry], rules: Sequence[ObjectFilter], tally: Tally
) -> Iterator[references.ImageRef]:
    for entry in _each_once(entries, tally):
        root = rules[entry.root]
        if entry.key.endswith("/"):
            root.hidden_folder(entry.key)  # which counts it
        elif root.rules.lists(entry.key, uri := root.prefix + entry.key):
            yield references.ImageRef(entry.key, uri, entry.size, entry.version)


def _each_once(entries: Iterable[_Entry], tally: Tally) -> list[_Entry]:
    """Returns the entries without repeated ones; of several versions, the newest."""
    newest: dict[tuple[int, str], _Entry] = {}
    for entry in entries:
        known = newest.setdefault((entry.root, entry.key), entry)
        if known.size != entry.size:
            first, second = sorted((known, entry), key=lambda e: (e.file, e.line))
            fault = (
                f"--inventory {second.file}, line {second.line}: {second.key!r} has {second.size} bytes, but "
                f"{first.size} in {first.file}, line {first.line}; make the inventory again"
            )
            tally.refusals.append(errors.Refusal.from_error(errors.InventoryError(fault)))
            break
        if known.version < entry.version:
            newest[entry.root, entry.key] = entry
    return list(newest.values())


def cut_of(uri: str) -> cuts.Cut | None:
    """How an inventory may be cut; None if it is read as a whole. Raises OSError."""
    try:
        with files.open_input(uri) as file:
            if inventory.is_parquet(file):
                return cuts.ByRowGroups()
            header = inventory.csv_header(file, uri)
    except errors.InventoryError:  # reading reports it
        return None
    return cuts.ByLines(header.delimiter) if header else None
