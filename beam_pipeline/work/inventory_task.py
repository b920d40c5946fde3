"""Inventories to read, and the files of a group of rows, as units of work for any worker.

Nothing here imports Beam, so that a process that does nothing else starts in a tenth of a second.
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from beam_pipeline.core.dataset.tally import Tally
from beam_pipeline.core.errors import InventoryError
from beam_pipeline.core.failures import Refusal
from beam_pipeline.core.listing.cuts import ByLines, ByRowGroups, Cut, LineRange
from beam_pipeline.core.listing.filters import ImageRoot, ObjectFilter
from beam_pipeline.core.listing.inventory import (
    InventoryRows,
    csv_header,
    is_parquet,
    read_inventory,
    read_lines,
    read_rows,
)
from beam_pipeline.core.packed_batches import BATCH_SIZE, ImageBatch
from beam_pipeline.core.packing import (
    Columns,
    Same,
    items_by_part,
    items_of,
    join_columns,
    put_together,
)
from beam_pipeline.core.references import ImageRef
from beam_pipeline.core.uris import is_remote
from beam_pipeline.storage import files
from beam_pipeline.work.outcome import Outcome
from beam_pipeline.work.reading import FilePart
from beam_pipeline.work.reading import read_lines as read_part_lines

OUTSIDE, REPLACED = "outside --images", "replaced versions"
"""Names in the manifest for rows that are skipped."""

_MOST_HELD = 1 << 18  # entries before their groups are packed
_MOST_IMAGES = 1 << 14  # of a batch


class _Entry(NamedTuple):
    """A row of an inventory below a root.

    Attributes:
      key: path below the root; a hidden folder, with a slash at its end, stands for everything in it.
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
      groups: in how many groups rows are compared.
    """

    part: FilePart
    roots: tuple[ImageRoot, ...]
    groups: int

    def run(self) -> Outcome:
        """Reads the rows below the roots: (group, packed entries)."""
        tally = Tally()
        return Outcome(list(self.read(tally)), tally)

    def read(self, tally: Tally) -> Iterator[tuple[int, bytes]]:
        """Yields (group, packed entries), and counts rows that are skipped."""
        held: list[Columns] = []
        count = 0
        for columns in self._columns(tally):
            held.append(columns)
            count += len(columns[0])
            if count >= _MOST_HELD:
                yield from self._grouped(held)
                held, count = [], 0
        yield from self._grouped(held)

    def _grouped(self, held: Sequence[Columns]) -> Iterator[tuple[int, bytes]]:
        if not held:
            return
        columns = put_together(held)
        crc32, groups = zlib.crc32, self.groups
        yield from items_by_part(columns, [crc32(key.encode()) % groups for key in columns[0]])

    def _columns(self, tally: Tally) -> Iterator[Columns]:
        try:
            yield from self._read(tally)
        except InventoryError as error:
            tally.refusals.append(Refusal.from_error(error))
        except OSError as error:
            message = f"--inventory {self.part.uri} cannot be read: {error.strerror or error}"
            tally.refusals.append(Refusal.from_error(InventoryError(message)))

    def _read(self, tally: Tally) -> Iterator[Columns]:
        roots = _Roots(self.roots, tally)
        for rows in self._rows():
            yield from roots.columns_of(rows, self.part.uri)

    def _rows(self) -> Iterator[InventoryRows]:
        uri, lines = self.part.uri, self.part.range
        with files.open_input(uri) as file:
            header = csv_header(file, uri) if isinstance(lines, LineRange) else None
            file.seek(0)
            if header is None or not isinstance(lines, LineRange):
                groups = None if isinstance(lines, LineRange) else lines
                yield from read_inventory(file, uri, groups)
                return
            if not lines.read_at_once:
                file.seek(lines.begin)
                yield from read_rows(file, uri, header, lines.first)
                return
        data, first = read_part_lines(uri, lines), lines.first
        yield from read_lines(data, uri, header, first_line=first, regular=lines.regular)


class _Roots:
    """Tells which rows of an inventory are below which root."""

    def __init__(self, roots: Sequence[ImageRoot], tally: Tally) -> None:
        self._roots = [ObjectFilter(root) for root in roots]
        self._hidden_folders: set[tuple[int, str]] = set()
        self._tally = tally

    def columns_of(self, rows: InventoryRows, file: str) -> Iterator[Columns]:
        """The columns of the entries of rows."""
        keys = self._keys(rows)
        if keys is None:
            entries = self._entries(rows, file)
            while batch := list(itertools.islice(entries, BATCH_SIZE)):
                yield list(zip(*batch, strict=True))
            return
        count = len(keys)
        yield [keys, rows.sizes, rows.versions, Same(0, count), Same(file, count), rows.lines]

    def _keys(self, rows: InventoryRows) -> Sequence[str] | None:
        """The path of each row below the only root; None if rows are unusual, or roots several."""
        if len(self._roots) != 1 or not all(rows.live):
            return None
        prefix, count = self._roots[0].prefix, len(rows.uris)
        text = "\n" + "\n".join(rows.uris)
        if text.count("\n" + prefix) != count or not _is_canonical(text, prefix):
            return None
        text = text.replace("\n" + prefix, "\n")
        if any(mark in text for mark in ("\n\n", "/\n", "\n.", "/.", "__MACOSX")):
            return None
        keys = text[1:].split("\n")
        return None if text.endswith(("\n", "/")) or len(keys) != count else keys

    def _entries(self, rows: InventoryRows, file: str) -> Iterator[_Entry]:
        hidden_folders, tally = self._hidden_folders, self._tally
        for uri, size, version, line, live in zip(*rows, strict=True):
            if not live:
                tally.ignored[REPLACED] += 1
                continue
            where = _canonical(uri)
            outside = True
            for index, root in enumerate(self._roots):
                if not where.startswith(root.prefix):
                    continue
                outside = False
                key = where[len(root.prefix) :]
                hidden = root.hidden_folder(key)
                if hidden and (index, hidden) not in hidden_folders:
                    hidden_folders.add((index, hidden))
                    yield _Entry(hidden, 0, 0, index, file, line)
                elif not hidden and key and not key.endswith("/"):
                    yield _Entry(key, size, version, index, file, line)
            if outside:
                tally.ignored[OUTSIDE] += 1


def _canonical(uri: str) -> str:
    """Returns a local path in the form of the roots; the name of an object may be anything and stays."""
    remote = is_remote(uri) and not uri.startswith("file://")
    return uri if remote else files.canonical(uri)


def _is_canonical(uris: str, prefix: str) -> bool:
    """True if each line, all of which begin with the prefix of a root, is in the form of the roots."""
    if is_remote(prefix):
        return True
    return not any(mark in uris for mark in ("//", "/./", "/../", "/\n", "/.\n", "/..\n")) and (
        not uris.endswith(("/", "/.", "/.."))
    )


def list_group(parts: Sequence[bytes], roots: tuple[ImageRoot, ...]) -> Outcome:
    """Lists the files of one group of rows, each once.

    Args:
      parts: packed entries.
      roots: the folders of images.
    """
    tally = Tally()
    rules = [ObjectFilter(root) for root in roots]
    entries = join_columns(parts)
    images = _images(entries, rules, tally) if entries else []
    tally.listed = len(images[0]) if images else 0
    for root in rules:
        tally.ignored.update(root.rules.ignored)
        tally.label_files.add(root.rules.label_files)
    return Outcome(list(_batches(images)), tally)


def _batches(images: Columns) -> Iterator[ImageBatch]:
    for start in range(0, len(images[0]) if images else 0, _MOST_IMAGES):
        yield ImageBatch.of_columns([column[start : start + _MOST_IMAGES] for column in images])


def _images(entries: Columns, rules: Sequence[ObjectFilter], tally: Tally) -> Columns:
    """The columns of the images among entries: of all, if no file is repeated and names say nothing else."""
    keys, sizes, versions = entries[:3]
    root = rules[0]
    if len(rules) == 1 and len(set(keys)) == len(keys) and root.rules.lists_all(keys, root.prefix):
        count = len(keys)
        uris = [root.prefix + key for key in keys]
        return [keys, uris, sizes, versions, Same((), count), Same(b"", count)]
    return list(zip(*_listed(items_of(_Entry, entries), rules, tally), strict=True))


def _listed(
    entries: Iterable[_Entry], rules: Sequence[ObjectFilter], tally: Tally
) -> Iterator[ImageRef]:
    for entry in _each_once(entries, tally):
        root = rules[entry.root]
        if entry.key.endswith("/"):
            root.hidden_folder(entry.key)  # which counts it
            continue
        uri = root.prefix + entry.key
        if root.rules.lists(entry.key, uri):
            yield ImageRef(entry.key, uri, entry.size, entry.version)


def _each_once(entries: Iterable[_Entry], tally: Tally) -> list[_Entry]:
    """Returns the entries without repeated ones; of several versions, the newest."""
    newest: dict[tuple[int, str], _Entry] = {}
    for entry in entries:
        known = newest.setdefault((entry.root, entry.key), entry)
        if known.size != entry.size:
            tally.refusals.append(_two_sizes(*sorted((known, entry), key=lambda e: e[-2:])))
            break
        if known.version < entry.version:
            newest[entry.root, entry.key] = entry
    return list(newest.values())


def _two_sizes(first: _Entry, second: _Entry) -> Refusal:
    return Refusal.from_error(
        InventoryError(
            f"--inventory {second.file}, line {second.line}: {second.key!r} has {second.size} bytes, but "
            f"{first.size} in {first.file}, line {first.line}; make the inventory again"
        )
    )


def cut_of(uri: str) -> Cut | None:
    """How an inventory may be cut; None if it is read as a whole. Raises OSError."""
    try:
        with files.open_input(uri) as file:
            if is_parquet(file):
                return ByRowGroups()
            header = csv_header(file, uri)
    except InventoryError:  # reading says so
        return None
    return ByLines(header.delimiter) if header else None
