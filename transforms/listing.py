"""Lists images, of folders, archives, buckets and inventories; no image is opened."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import apache_beam as beam

from beam_pipeline.core import errors, uris
from beam_pipeline.core.dataset.tally import Tally
from beam_pipeline.core.listing.filters import ImageRoot, Listed
from beam_pipeline.core.packing import BATCH_SIZE, DeadLetterBatch, ImageBatch
from beam_pipeline.storage import listing
from beam_pipeline.transforms.in_workers import PARTS, Step, Work, stage
from beam_pipeline.work.file_parts import PART_BYTES, CutBy, FilePart, cut_file
from beam_pipeline.work.listing import InventoryTask, cut_of, list_folders
from beam_pipeline.work.outcome import DEAD_LETTERS, TALLY, Division, Outcome, step

IMAGES = "images"
_REST = "rest"  # of a long range
_MANY_PARTS = 256  # more than these, and inventories are large

_Outputs = dict[str, beam.PCollection]


def cut_files(cut_by: CutBy, *, spread: bool) -> beam.PTransform:
    """Takes URIs of files; returns their `FilePart`s.

    Args:
      cut_by: tells how a file may be cut.
      spread: some are large, so that their parts should go to several workers.
    """
    parts = "Cut" >> stage(lambda uri: [Outcome(cut_file(uri, cut_by, PART_BYTES))], FilePart)
    return parts | "Spread" >> beam.Reshuffle() if spread else parts


class RangeGroup(list[listing.NameRange]):
    """The ranges that a worker lists in parallel."""


def _outcomes(listed_parts: Iterable[Listed | listing.NameRange]) -> Iterator[Outcome]:
    """The outcomes of a listing; the last one states that something cannot be listed."""
    try:
        for listed in listed_parts:
            if isinstance(listed, listing.NameRange):
                yield Outcome(tagged=[(_REST, listed)])
                continue
            letters = DeadLetterBatch(listed.dead_letters)
            count = len(listed.images) + len(letters)
            tally = Tally(listed=count, ignored=Counter(listed.ignored))
            tally.label_files.add(listed.label_files)
            tally.add_dead_letters(letters)
            yield Outcome([ImageBatch(listed.images)] if listed.images else [], tally, letters)
    except errors.ListingError as error:
        yield Outcome.refused(error)


def _list_root(root: ImageRoot) -> Iterator[Step]:
    """Lists a root; of a bucket, the first names."""
    if listing.lists_ranges(root):
        return _outcomes(listing.list_first(root, BATCH_SIZE, listing.FAN_OUT))
    if root.archive or uris.is_remote(root.uri):
        return _outcomes(listing.list_root(root))
    return list_folders(root)


def _list_group(group: RangeGroup, list_ranges: Callable[..., Any]) -> Iterator[Outcome]:
    return _outcomes(list_ranges(group, BATCH_SIZE, listing.FAN_OUT))


def _cut_rest(rest: listing.NameRange) -> Iterator[Outcome]:
    """Cuts the rest of a range into groups of ranges, one group for each worker."""
    try:
        ranges = list(listing.cut(rest, listing.FAN_OUT))
    except errors.ListingError as error:
        yield Outcome.refused(error)
        return
    groups = -(-len(ranges) // listing.FAN_OUT.threads)
    # Neighbours go into different groups: where one is long, the next one often is as well.
    yield Outcome([RangeGroup(ranges[group::groups]) for group in range(groups)])


@dataclass(kw_only=True)
class ListImages(beam.PTransform):
    """Lists images at the beginning of a pipeline, or those of a PCollection of roots.

    Attributes:
      roots: folders and archives, and which of their files are listed; None to take them from a PCollection.
      raises: raise what cannot be listed; False where `plan_shards` collects it from the tallies.

    Returns (tagged): "images", `ImageBatch`es; "dead_letters", `DeadLetterBatch`es; "tally", `Tally`s.
    """

    roots: tuple[ImageRoot, ...] | None = None
    raises: bool = True

    def expand(self, start: Any) -> _Outputs:
        if self.roots is None:
            roots, buckets = start | "SpreadRoots" >> beam.Reshuffle(), True
        else:
            archives = any(root.archive for root in self.roots)
            roots = start | "Roots" >> beam.Create(self.roots, reshuffle=archives)
            buckets = any(map(listing.lists_ranges, self.roots))
        listed = [self._listed(roots, "ListRoots", _list_root)]
        if buckets:
            listed += self._list_rest(listed[0][_REST])
        merged = {}
        for tag in (IMAGES, DEAD_LETTERS, TALLY):
            parts = [outputs[tag] for outputs in listed if tag in outputs]
            flat = len(parts) == 1
            merged[tag] = parts[0] if flat else parts | f"All{tag.title()}" >> beam.Flatten()
        return merged

    def _list_rest(self, rest: beam.PCollection[listing.NameRange]) -> list[_Outputs]:
        """Lists ranges of the rest of buckets, then ranges of long ranges."""
        listed: list[_Outputs] = []
        for label, list_ranges in (
            ("Ranges", listing.list_ranges),
            ("LongRanges", listing.list_all),
        ):
            pieces = rest | f"Cut{label}" >> stage(_cut_rest, RangeGroup, TALLY, raises=self.raises)
            groups = pieces["main"] | f"Spread{label}" >> beam.Reshuffle()
            work = partial(_list_group, list_ranges=list_ranges)
            ranges = self._listed(groups, f"List{label}", work)
            listed += [{TALLY: pieces[TALLY]}, ranges]
            rest = ranges[_REST]
        return listed

    def _listed(self, items: beam.PCollection, label: str, work: Work) -> _Outputs:
        tags = (DEAD_LETTERS, TALLY, _REST)
        list_item = stage(work, ImageBatch, *tags, main=IMAGES, raises=self.raises)
        listed = items | label >> list_item
        return {tag: listed[tag] for tag in (IMAGES, *tags)}


def _read_inventory(
    part: FilePart, roots: tuple[ImageRoot, ...], division: Division
) -> Iterator[Step]:
    """Reads a part of an inventory; a large one that cannot be cut here, bit by bit."""
    task = InventoryTask(part, roots, division)
    if part.read_at_once:
        yield step(part.size, task.run)
        return
    tally = Tally()
    yield Outcome(task.read(tally))
    yield Outcome(tally=tally)


def read_inventory(
    files: tuple[str, ...], roots: tuple[ImageRoot, ...], division: Division
) -> beam.PTransform:
    """Reads the rows of inventories below the roots, which are listed when rows of the same file are together.

    Args:
      files: URIs of the inventories.
      roots: folders of images; files elsewhere are skipped.
      division: brings together the rows of a file, which is listed once.

    Returns (tagged): "images", (part, packed rows); "dead_letters", none; "tally", `Tally`s.
    """
    read = partial(_read_inventory, roots=roots, division=division)
    return (
        "Inventories" >> beam.Create(files)
        | "CutFiles" >> cut_files(cut_of, spread=division.parts > _MANY_PARTS)
        | "ReadFile" >> stage(read, PARTS, DEAD_LETTERS, TALLY, main=IMAGES, spills=True)
    )
