"""Lists images, of folders, archives, buckets and inventories; no image is opened."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import TaggedOutput

from beam_pipeline.core.dataset.tally import Tally
from beam_pipeline.core.errors import ListingError
from beam_pipeline.core.listing.filters import ImageRoot, LabelFiles, Listed
from beam_pipeline.core.packing import BATCH_SIZE, DeadLetterBatch, ImageBatch
from beam_pipeline.core.uris import is_remote
from beam_pipeline.storage.listing import (
    FAN_OUT,
    FanOut,
    NameRange,
    cut,
    list_all,
    list_range,
    list_ranges,
    list_root,
    lists_ranges,
    whole_range,
)
from beam_pipeline.transforms.in_workers import InWorkers, Step, Work
from beam_pipeline.work.file_parts import PART_BYTES, CutBy, FilePart, cut_file
from beam_pipeline.work.listing import InventoryTask, cut_of, list_folders, list_group
from beam_pipeline.work.outcome import DEAD_LETTERS, TALLY, Outcome, step
from beam_pipeline.work.spill import unspill_all

IMAGES = "images"
_REST = "rest"  # of a long range
_MANY_GROUPS = 256  # more than these, and inventories are large

_Outputs = dict[str, beam.PCollection]


@dataclass(kw_only=True)
class CutFiles(beam.PTransform):
    """Takes URIs of files; returns their `FilePart`s.

    Attributes:
      cut_by: tells how a file may be cut.
      spread: some are large, so that their parts should go to several workers.
    """

    cut_by: CutBy
    spread: bool

    def expand(self, uris: beam.PCollection[str]) -> beam.PCollection[FilePart]:
        parts = uris | "Cut" >> beam.ParDo(
            InWorkers(partial(_cut, cut_by=self.cut_by))
        ).with_output_types(FilePart)
        return parts | "Spread" >> beam.Reshuffle() if self.spread else parts


def _cut(uri: str, cut_by: CutBy) -> Iterator[Outcome]:
    yield Outcome(cut_file(uri, cut_by, PART_BYTES))


class RangeGroup(list[NameRange]):
    """The ranges that a worker lists in parallel."""


def _outcomes(parts: Iterator[Listed | NameRange]) -> Iterator[Outcome]:
    """The outcomes of a listing; the last one states that something cannot be listed."""
    try:
        for listed in parts:
            if isinstance(listed, NameRange):
                yield Outcome(tagged=[(_REST, listed)])
                continue
            letters = DeadLetterBatch(listed.dead_letters)
            tally = Tally(
                listed=len(listed.images) + len(letters),
                ignored=Counter(listed.ignored),
                label_files=LabelFiles(),
            )
            tally.label_files.add(listed.label_files)
            tally.add_dead_letters(letters)
            yield Outcome([ImageBatch(listed.images)] if listed.images else [], tally, letters)
    except ListingError as error:
        yield Outcome.refused(error)


def _list_root(root: ImageRoot) -> Iterator[Outcome]:
    """Lists a whole folder or archive."""
    return _outcomes(list_root(root))


def _list_first(root: ImageRoot, fan_out: FanOut) -> Iterator[Outcome]:
    """Lists the first names of a root in a bucket."""
    return _outcomes(list_range(whole_range(root), BATCH_SIZE, fan_out.first))


def _list_ranges(ranges: RangeGroup, fan_out: FanOut) -> Iterator[Outcome]:
    """Lists a group of ranges, and leaves the rest of long ones."""
    return _outcomes(list_ranges(ranges, BATCH_SIZE, fan_out))


def _list_long_ranges(ranges: RangeGroup, fan_out: FanOut) -> Iterator[Outcome]:
    """Lists a group of ranges completely."""
    return _outcomes(list_all(ranges, BATCH_SIZE, fan_out))


def _cut_rest(rest: NameRange, fan_out: FanOut) -> Iterator[Outcome]:
    """Cuts the rest of a range into groups of ranges, one group for each worker."""
    try:
        ranges = list(cut(rest, fan_out))
    except ListingError as error:
        yield Outcome.refused(error)
        return
    groups = -(-len(ranges) // fan_out.threads)
    # Neighbours go into different groups: where one is long, the next one often is as well.
    yield Outcome([RangeGroup(ranges[group::groups]) for group in range(groups)])


_KINDS = ("Archive", "Bucket", "Folder", "RemoteFolder")


def _tagged(root: ImageRoot) -> Iterator[TaggedOutput]:
    yield TaggedOutput(_kind_of(root), root)


def _kind_of(root: ImageRoot) -> str:
    if root.archive:
        return "Archive"
    if lists_ranges(root):
        return "Bucket"
    return "RemoteFolder" if is_remote(root.uri) else "Folder"


@dataclass(kw_only=True)
class ListRoots(beam.PTransform):
    """Lists the images of a PCollection of roots.

    Attributes:
      fan_out: how the listing of a bucket is parallelized.
      raises: raise what cannot be listed; False where `PlanShards` collects it from the tallies.

    Returns (tagged): "images", `ImageBatch`es; "dead_letters", `DeadLetterBatch`es; "tally", `Tally`s.
    """

    fan_out: FanOut = FAN_OUT
    raises: bool = True

    def expand(self, roots: Any) -> _Outputs:
        tagged = roots | "Kinds" >> beam.FlatMap(_tagged).with_outputs(*_KINDS)
        return self._list(
            {kind: tagged[kind] | f"Spread{kind}s" >> beam.Reshuffle() for kind in _KINDS}
        )

    def _list(self, by_kind: Mapping[str, beam.PCollection[ImageRoot]]) -> _Outputs:
        """Lists roots of each kind."""
        listed: list[_Outputs] = []
        for kind, roots in by_kind.items():
            if kind == "Bucket":
                listed += self._list_buckets(roots)
            else:
                work = list_folders if kind == "Folder" else _list_root
                listed.append(self._listed(roots, f"List{kind}", work))
        merged = {}
        for tag in (IMAGES, DEAD_LETTERS, TALLY):
            parts = [outputs[tag] for outputs in listed if tag in outputs]
            flat = len(parts) == 1
            merged[tag] = parts[0] if flat else parts | f"All{tag.title()}" >> beam.Flatten()
        return merged

    def _list_buckets(self, roots: beam.PCollection[ImageRoot]) -> list[_Outputs]:
        """Lists the first names, then ranges of the rest, then ranges of long ranges."""
        begun = self._listed(roots, "ListFirst", self._fanned(_list_first), _REST)
        groups, tallies = self._cut(begun[_REST], "CutRest")
        listed = self._listed(groups, "ListRanges", self._fanned(_list_ranges), _REST)
        groups, more_tallies = self._cut(listed[_REST], "CutLongRanges")
        ended = self._listed(groups, "ListLongRanges", self._fanned(_list_long_ranges))
        return [begun, listed, ended, {TALLY: tallies}, {TALLY: more_tallies}]

    def _fanned(self, work: Work) -> Work:
        return partial(work, fan_out=self.fan_out)

    def _listed(self, items: beam.PCollection, label: str, work: Work, *tags: str) -> _Outputs:
        listed = items | label >> beam.ParDo(InWorkers(work, raises=self.raises)).with_output_types(
            ImageBatch
        ).with_outputs(DEAD_LETTERS, TALLY, *tags, main=IMAGES)
        return {tag: listed[tag] for tag in (IMAGES, DEAD_LETTERS, TALLY, *tags)}

    def _cut(
        self, rest: beam.PCollection[NameRange], label: str
    ) -> tuple[beam.PCollection[RangeGroup], beam.PCollection[Tally]]:
        pieces = rest | label >> beam.ParDo(
            InWorkers(self._fanned(_cut_rest), raises=self.raises)
        ).with_output_types(RangeGroup).with_outputs(TALLY, main="groups")
        return pieces["groups"] | f"{label}Spread" >> beam.Reshuffle(), pieces[TALLY]


@dataclass(kw_only=True)
class ListImages(ListRoots):
    """Lists the images of some roots, as `ListRoots` does.

    Attributes:
      roots: folders and archives, and which of their files are listed.
    """

    roots: tuple[ImageRoot, ...]

    def expand(self, pipeline: beam.Pipeline) -> _Outputs:
        by_kind: dict[str, list[ImageRoot]] = defaultdict(list)
        for root in self.roots:
            by_kind[_kind_of(root)].append(root)
        return self._list(
            {
                kind: pipeline | f"{kind}s" >> beam.Create(roots, reshuffle=kind == "Archive")
                for kind, roots in by_kind.items()
            }
        )


def _read_inventory(part: FilePart, roots: tuple[ImageRoot, ...], groups: int) -> Iterator[Step]:
    """Reads a part of an inventory; a large one that cannot be cut here, bit by bit."""
    task = InventoryTask(part, roots, groups)
    if part.read_at_once:
        yield step(part.size, task.run)
        return
    tally = Tally()
    yield Outcome(task.read(tally))
    yield Outcome(tally=tally)


def _list_group(group: tuple[int, Iterable[bytes]], roots: tuple[ImageRoot, ...]) -> Iterator[Step]:
    """The files of one group, each once."""
    parts = unspill_all(group[1])
    yield step(sum(map(len, parts)), list_group, parts, roots)


@dataclass(kw_only=True)
class ReadInventory(beam.PTransform):
    """Takes the images of every root from inventories instead of listing the roots.

    Attributes:
      files: URIs of the inventories.
      roots: folders of images; files elsewhere are skipped.
      groups: in how many groups rows are compared, so that each file is listed once.
      raises: raise what cannot be read; False where `PlanShards` collects it from the tallies.

    Returns (tagged): as `ListImages`.
    """

    files: tuple[str, ...]
    roots: tuple[ImageRoot, ...]
    groups: int = _MANY_GROUPS
    raises: bool = True

    def expand(self, pipeline: beam.Pipeline) -> _Outputs:
        read = partial(_read_inventory, roots=self.roots, groups=self.groups)
        rows = (
            pipeline
            | "Inventories" >> beam.Create(self.files)
            | "CutFiles" >> CutFiles(cut_by=cut_of, spread=self.groups > _MANY_GROUPS)
            | "ReadFile"
            >> beam.ParDo(InWorkers(read, raises=self.raises, spills=True))
            .with_output_types(tuple[int, bytes])
            .with_outputs(TALLY, main="rows")
        )
        listed = (
            rows["rows"]
            | "GroupByKey" >> beam.GroupByKey()
            | "ListGroup"
            >> beam.ParDo(InWorkers(partial(_list_group, roots=self.roots), raises=self.raises))
            .with_output_types(ImageBatch)
            .with_outputs(DEAD_LETTERS, TALLY, main=IMAGES)
        )
        tallies = (rows[TALLY], listed[TALLY]) | "AllTallies" >> beam.Flatten()
        return {IMAGES: listed[IMAGES], DEAD_LETTERS: listed[DEAD_LETTERS], TALLY: tallies}
