"""Reads inventories, listings made elsewhere, into the batches of references that listing would give."""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import apache_beam as beam
from apache_beam.pvalue import TaggedOutput

from beam_pipeline.transforms import counters, progress
from beam_pipeline.transforms.batches import BATCH_SIZE, DEAD_LETTERS, TALLY, ImageBatch
from beam_pipeline.transforms.core.dataset.plan import Tally
from beam_pipeline.transforms.core.errors import InventoryError
from beam_pipeline.transforms.core.failures import Refusal
from beam_pipeline.transforms.core.listing.filters import ImageRoot, ObjectFilter
from beam_pipeline.transforms.core.listing.inventory import InventoryRow, read_inventory
from beam_pipeline.transforms.core.references import ImageRef, unpack
from beam_pipeline.transforms.core.uris import is_remote
from beam_pipeline.transforms.pack_parts import PackParts
from beam_pipeline.transforms.storage import files

OUTSIDE, REPLACED = "outside --images", "replaced versions"
"""Names in the manifest for rows that are skipped."""


class _Entry(NamedTuple):
    """A row of an inventory below a root.

    Attributes:
      root: index of the root.
      key: path below the root; a hidden folder, with a slash at its end, stands for everything in it.
      size, version: of the file, as listed.
      file, line: of the inventory.
    """

    root: int
    key: str
    size: int
    version: int
    file: str
    line: int


class _ReadFile(PackParts):
    """Reads an inventory and yields the files below a root, grouped by a hash of the key."""

    def __init__(self, roots: tuple[ImageRoot, ...], groups: int) -> None:
        self._roots = roots
        self._groups = groups

    def process(self, uri: str) -> Iterator[tuple[int, bytes] | TaggedOutput]:
        tally = Tally()
        entries = self._entries(uri, tally)
        while batch := list(itertools.islice(entries, BATCH_SIZE)):
            numbers = (zlib.crc32(entry.key.encode()) % self._groups for entry in batch)
            yield from self.hold(batch, numbers, self._groups)
        yield TaggedOutput(TALLY, tally)

    def _entries(self, uri: str, tally: Tally) -> Iterator[_Entry]:
        roots = [ObjectFilter(root) for root in self._roots]
        hidden_folders: set[tuple[int, str]] = set()
        for row in _rows(uri, tally):
            if not row.live:
                tally.ignored[REPLACED] += 1
                continue
            where = _canonical(row.uri)
            outside = True
            for index, root in enumerate(roots):
                if not where.startswith(root.prefix):
                    continue
                outside = False
                key = where[len(root.prefix) :]
                hidden = root.hidden_folder(key)
                if hidden and (index, hidden) not in hidden_folders:
                    hidden_folders.add((index, hidden))
                    yield _Entry(root=index, key=hidden, size=0, version=0, file=uri, line=row.line)
                elif not hidden and key and not key.endswith("/"):
                    yield _Entry(
                        root=index,
                        key=key,
                        size=row.size,
                        version=row.version,
                        file=uri,
                        line=row.line,
                    )
            if outside:
                tally.ignored[OUTSIDE] += 1


def _canonical(uri: str) -> str:
    """Returns a local path in the form of the roots; the name of an object may be anything and stays."""
    remote = is_remote(uri) and not uri.startswith("file://")
    return uri if remote else files.canonical(uri)


def _rows(uri: str, tally: Tally) -> Iterator[InventoryRow]:
    try:
        with files.open_input(uri) as file:
            yield from read_inventory(file, uri)
    except InventoryError as error:
        tally.refusals.append(Refusal.from_error(error))
    except OSError as error:
        message = f"--inventory {uri} cannot be read: {error.strerror or error}"
        tally.refusals.append(Refusal.from_error(InventoryError(message)))


class _ListGroup(beam.DoFn):
    """Yields the files of one group, each once."""

    def __init__(self, roots: tuple[ImageRoot, ...]) -> None:
        self._roots = roots

    def process(self, group: tuple[int, Iterable[bytes]]) -> Iterator[ImageBatch | TaggedOutput]:
        tally = Tally()
        rules = [ObjectFilter(root) for root in self._roots]
        images = ImageBatch()
        entries = itertools.chain.from_iterable(unpack(_Entry, part) for part in group[1])
        for entry in _each_once(entries, tally):
            root = rules[entry.root]
            if entry.key.endswith("/"):
                root.hidden_folder(entry.key)  # which counts it
                continue
            uri = root.prefix + entry.key
            if not root.rules.lists(entry.key, uri):
                continue
            tally.listed += 1
            images.append(ImageRef(entry.key, uri, entry.size, entry.version))
            if len(images) == BATCH_SIZE:
                yield images
                images = ImageBatch()
        if images:
            yield images
        for root in rules:
            tally.ignored.update(root.rules.ignored)
            tally.label_files.add(root.rules.label_files)
        counters.count(counters.IMAGES_LISTED, tally.listed)
        progress.listed(tally.listed)
        yield TaggedOutput(TALLY, tally)


def _each_once(entries: Iterable[_Entry], tally: Tally) -> list[_Entry]:
    """Returns the entries without repeated ones; of several versions, the newest."""
    found: dict[tuple[int, str], _Entry] = {}
    for entry in entries:
        other = found.setdefault((entry.root, entry.key), entry)
        if other.size != entry.size:
            tally.refusals.append(_two_sizes(*sorted((other, entry), key=lambda e: e[-2:])))
            break
        if other.version < entry.version:
            found[entry.root, entry.key] = entry
    return list(found.values())


def _two_sizes(first: _Entry, second: _Entry) -> Refusal:
    return Refusal.from_error(
        InventoryError(
            f"--inventory {second.file}, line {second.line}: {second.key!r} has {second.size} bytes, but "
            f"{first.size} in {first.file}, line {first.line}; make the inventory again"
        )
    )


@dataclass(kw_only=True)
class ReadInventory(beam.PTransform):
    """Takes the images of every root from inventories instead of listing the roots.

    Attributes:
      files: URIs of the inventories.
      roots: folders of images; files elsewhere are skipped.
      groups: in how many groups rows are compared, so that each file is listed once.

    Returns (tagged): as `ListImages`.
    """

    files: tuple[str, ...]
    roots: tuple[ImageRoot, ...]
    groups: int = 256

    def expand(self, pipeline: beam.Pipeline) -> dict[str, beam.PCollection]:
        rows = (
            pipeline
            | "Inventories" >> beam.Create(self.files)
            | "ReadFile"
            >> beam.ParDo(_ReadFile(self.roots, self.groups))
            .with_output_types(tuple[int, bytes])
            .with_outputs(TALLY, main="rows")
        )
        listed = (
            rows["rows"]
            | "GroupByKey" >> beam.GroupByKey()
            | "ListGroup"
            >> beam.ParDo(_ListGroup(self.roots))
            .with_output_types(ImageBatch)
            .with_outputs(DEAD_LETTERS, TALLY, main="images")
        )
        return {
            "images": listed["images"],
            DEAD_LETTERS: listed[DEAD_LETTERS],
            TALLY: (rows[TALLY], listed[TALLY]) | "AllTallies" >> beam.Flatten(),
        }
