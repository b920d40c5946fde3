"""Lists images: of local folders, whose files are looked at in the writer processes, and of inventories.

Nothing here imports Beam, so that a process that does nothing else starts in a tenth of a second.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from beam_pipeline.core import errors, packing, references
from beam_pipeline.core.dataset.tally import Tally
from beam_pipeline.core.listing import cuts, inventory
from beam_pipeline.core.listing.filters import ImageRoot, ObjectFilter
from beam_pipeline.core.uris import is_remote
from beam_pipeline.storage import files
from beam_pipeline.storage.listing import Files, LocalListing, Subfolder
from beam_pipeline.work import file_parts
from beam_pipeline.work.outcome import Call, Division, Outcome


def list_folders(root: ImageRoot, most: int = packing.BATCH_SIZE) -> Iterator[Call | Outcome]:
    """Lists a local root: finds the names here, and makes calls that look at the files.

    Which files a call has depends on the tree, never on time.

    Args:
      root: the root.
      most: how many files a call has, roughly.
    """
    listing = LocalListing(root, [Subfolder(root.uri)])
    parts, count = list[Files](), 0
    try:
        for part in listing.files(most):
            parts.append(part)
            count += len(part.names)
            if count >= most:
                yield Call(list_files, (root, parts), "listing images")
                parts, count = [], 0
    except errors.ListingError as error:
        yield Outcome.refused(error)
    yield Call(list_files, (root, parts), "listing images")
    rules = listing.rules
    yield Outcome(tally=Tally(ignored=rules.ignored, label_files=rules.label_files))


def list_files(root: ImageRoot, parts: Sequence[Files]) -> Outcome:
    """The outcome of some files of a local root."""
    listing = LocalListing(root)
    listed: list[packing.Columns] = []
    dead_letters = packing.DeadLetterBatch()
    try:
        for part in parts:
            columns, broken = listing.images(part)
            listed.append(columns)
            dead_letters.extend(broken)
    except errors.ListingError as error:
        return Outcome.refused(error)
    images, rules = packing.ImageBatch.of_columns(packing.put_together(listed)), listing.rules
    tally = Tally(len(images) + len(dead_letters), rules.ignored, label_files=rules.label_files)
    tally.add_dead_letters(dead_letters)
    return Outcome([images] if images else [], tally, dead_letters)


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
