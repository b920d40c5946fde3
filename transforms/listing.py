"""Lists images, of folders, archives, buckets and inventories; no image is opened."""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import apache_beam as beam

from beam_pipeline.core.dataset.tally import Tally
from beam_pipeline.core.errors import ListingError
from beam_pipeline.core.failures import Refusal
from beam_pipeline.core.listing.cuts import (
    ByLines,
    ByRowGroups,
    Cut,
    LineRange,
    RowGroupRange,
)
from beam_pipeline.core.listing.filters import ImageRoot, Listed, ObjectFilter
from beam_pipeline.core.listing.label_files import LabelFiles
from beam_pipeline.core.listing.line_blocks import LineBlock
from beam_pipeline.core.listing.row_groups import cut_row_groups
from beam_pipeline.core.references import ImageRef
from beam_pipeline.core.uris import is_remote
from beam_pipeline.storage import files
from beam_pipeline.storage.archives import list_archive
from beam_pipeline.storage.base import FoundFile
from beam_pipeline.storage.bucket_listing import (
    FanOut,
    NameRange,
    cut,
    list_all,
    list_bucket,
    list_range,
    list_ranges,
    lists_ranges,
    whole_range,
)
from beam_pipeline.storage.local_listing import list_local_root
from beam_pipeline.transforms.batches import BATCH_SIZE, DeadLetterBatch, ImageBatch
from beam_pipeline.transforms.in_workers import InWorkers, Step, Work
from beam_pipeline.work import writer_process
from beam_pipeline.work.inventory_task import InventoryTask, cut_of, list_group
from beam_pipeline.work.listing import list_folders
from beam_pipeline.work.outcome import DEAD_LETTERS, TALLY, Outcome, step
from beam_pipeline.work.reading import (
    PART_BYTES,
    FilePart,
    ScanTask,
    line_ranges,
    scan_tasks,
)
from beam_pipeline.work.spill import spill_parts, unspill_all

CutBy = Callable[[str], Cut | None]
"""Returns how a file may be cut, None if it may not; may raise OSError."""

_PARQUET_SHARE = 4  # a row takes about a quarter of its text's bytes


def cut_file(uri: str, cut_by: CutBy, part_bytes: int) -> list[FilePart]:
    """The parts of a file; one that cannot be read or cut is one part.

    Args:
      uri: the file.
      cut_by: tells how it may be cut.
      part_bytes: the size of a part, roughly; of a Parquet file, before compression.
    """
    ranges: list[LineRange] | list[RowGroupRange] = []
    try:
        size, cut = files.size_of(uri), cut_by(uri)
        if isinstance(cut, ByLines):
            ranges = _cut_lines(uri, size, cut.delimiter, part_bytes)
        elif isinstance(cut, ByRowGroups) and size >= part_bytes // _PARQUET_SHARE:
            with files.open_input(uri) as file:
                ranges = cut_row_groups(file, part_bytes)
    except OSError:  # reading says why
        ranges = []
    return [FilePart(uri, part) for part in ranges] or [FilePart(uri)]


def _cut_lines(uri: str, size: int, delimiter: str, part_bytes: int) -> list[LineRange]:
    tasks = scan_tasks(uri, size, delimiter, part_bytes)
    if tasks:
        return list(line_ranges(_scanned(tasks)))
    return [LineRange(0, size)] if 0 < size < 2 * part_bytes else []


def _scanned(tasks: Sequence[ScanTask]) -> Iterator[LineBlock]:
    running: writer_process.Tasks[LineBlock] = writer_process.Tasks(repeat=True)
    started = (result for task in tasks for result in running.submit(task))
    for result in itertools.chain(started, running.rest()):
        yield result()


def _cut(uri: str, cut_by: CutBy) -> Iterator[Outcome]:
    yield Outcome(cut_file(uri, cut_by, PART_BYTES))


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


_IMAGES = "images"
_REST = "rest"  # of a long range
_OUTPUTS = (_IMAGES, DEAD_LETTERS, TALLY)

_FAN_OUT = FanOut()

_Outputs = dict[str, beam.PCollection]


class RangeGroup(list[NameRange]):
    """The ranges that a worker lists in parallel."""


def list_root(root: ImageRoot, batch_size: int = BATCH_SIZE) -> Iterator[Listed]:
    """Lists one root in batches.

    Raises:
      ListingError: something in it cannot be listed.
    """
    if root.archive:
        return list_archive(root, batch_size)
    if lists_ranges(root):
        return list_bucket(root, batch_size, _FAN_OUT)
    if is_remote(root.uri):
        return _list_remote_root(root, batch_size)
    return list_local_root(root, batch_size)


def _list_remote_root(root: ImageRoot, batch_size: int) -> Iterator[Listed]:
    names = ObjectFilter(root)
    images: list[ImageRef] = []
    for key, size, version, _ in _found_in(root):
        if names.lists(key):
            images.append(ImageRef(key, names.prefix + key, size, version))
        if len(images) >= batch_size:
            yield Listed(images, [], Counter())
            images = []
    yield Listed(images, [], names.rules.ignored, names.rules.label_files)


def _found_in(root: ImageRoot) -> Iterator[FoundFile]:
    try:
        yield from files.list_files(root.uri)
    except Exception as error:  # each filesystem of Beam's raises its own client's errors
        raise ListingError(f"{root.uri} cannot be listed: {error}") from error


def with_digests(roots: Iterable[ImageRoot]) -> tuple[ImageRoot, ...]:
    """The same roots, of which the digests of images are listed where the storage has them."""
    return tuple(dataclasses.replace(root, digests=True) for root in roots)


def _outcomes(found: Iterator[Listed | NameRange]) -> Iterator[Outcome]:
    """The outcomes of a listing; the last one says that something cannot be listed."""
    try:
        for listed in found:
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
        yield Outcome(tally=Tally(refusals=[Refusal.from_error(error)]))


def _list_root(root: ImageRoot) -> Iterator[Outcome]:
    """Lists a whole folder or archive."""
    return _outcomes(list_root(root))


def _list_first(root: ImageRoot, fan_out: FanOut) -> Iterator[Outcome]:
    """Lists the first names of a root in a bucket."""
    return _outcomes(list_range(whole_range(root), BATCH_SIZE, fan_out.first))


def _list_ranges(ranges: RangeGroup, fan_out: FanOut, completely: bool) -> Iterator[Outcome]:
    """Lists a group of ranges: completely in the last round, else leaving the rest of long ones."""
    list_group = list_all if completely else list_ranges
    return _outcomes(list_group(ranges, BATCH_SIZE, fan_out))


def _cut_rest(rest: NameRange, fan_out: FanOut) -> Iterator[Outcome]:
    """Cuts the rest of a range into groups of ranges, one group for each worker."""
    try:
        ranges = list(cut(rest, fan_out))
    except ListingError as error:
        yield Outcome(tally=Tally(refusals=[Refusal.from_error(error)]))
        return
    groups = -(-len(ranges) // fan_out.threads)
    # Neighbours go into different groups: where one is long, the next one often is, too.
    yield Outcome([RangeGroup(ranges[group::groups]) for group in range(groups)])


@dataclass(kw_only=True)
class ListImages(beam.PTransform):
    """Lists the images of every root.

    Attributes:
      roots: folders and archives, and which of their files are listed.
      fan_out: how the listing of a bucket is parallelized.
      raises: raise what cannot be listed; False where `PlanShards` collects it from the tallies.

    Returns (tagged): "images", `ImageBatch`es; "dead_letters", `DeadLetterBatch`es; "tally", `Tally`s.
    """

    roots: tuple[ImageRoot, ...]
    fan_out: FanOut = _FAN_OUT
    raises: bool = True

    def expand(self, pipeline: beam.Pipeline) -> _Outputs:
        buckets = tuple(root for root in self.roots if lists_ranges(root))
        archives = tuple(root for root in self.roots if root.archive)
        whole = tuple(root for root in self.roots if not (root.archive or lists_ranges(root)))
        folders = tuple(root for root in whole if not is_remote(root.uri))
        others = tuple(root for root in whole if is_remote(root.uri))
        listed: list[_Outputs] = []
        if folders:
            roots = pipeline | "Folders" >> beam.Create(folders, reshuffle=False)
            listed.append(self._listed(roots, "ListFolder", list_folders))
        if others:
            roots = pipeline | "Roots" >> beam.Create(others, reshuffle=False)
            listed.append(self._listed(roots, "ListRoot", _list_root))
        if archives:
            roots = pipeline | "Archives" >> beam.Create(archives)
            listed.append(self._listed(roots, "ListArchive", _list_root))
        if buckets:
            roots = pipeline | "Buckets" >> beam.Create(buckets, reshuffle=False)
            listed.append(roots | "ListBuckets" >> _ListBuckets(self.fan_out, self.raises))
        return _merged(listed)

    def _listed(self, roots: beam.PCollection[ImageRoot], label: str, work: Work) -> _Outputs:
        return _outputs(roots, label, InWorkers(work, raises=self.raises), _OUTPUTS)


@dataclass
class _ListBuckets(beam.PTransform):
    """Lists roots in buckets: the first names, then ranges of the rest, then ranges of long ranges."""

    fan_out: FanOut
    raises: bool

    def expand(self, roots: beam.PCollection[ImageRoot]) -> _Outputs:
        begun = _outputs(roots, "ListFirst", self._lister(_list_first), (*_OUTPUTS, _REST))
        first_cut = self._cut(begun.pop(_REST), "CutRest")
        ranges = self._lister(_list_ranges, completely=False)
        listed = _outputs(first_cut["groups"], "ListRanges", ranges, (*_OUTPUTS, _REST))
        second_cut = self._cut(listed.pop(_REST), "CutLongRanges")
        ranges = self._lister(_list_ranges, completely=True)
        ended = _outputs(second_cut["groups"], "ListLongRanges", ranges, _OUTPUTS)
        tallies = ({TALLY: first_cut[TALLY]}, {TALLY: second_cut[TALLY]})
        return _merged([begun, listed, ended, *tallies])

    def _lister(self, work: Work, **options: bool) -> InWorkers:
        return InWorkers(partial(work, fan_out=self.fan_out, **options), raises=self.raises)

    def _cut(self, rest: beam.PCollection[NameRange], label: str) -> _Outputs:
        found = rest | label >> beam.ParDo(self._lister(_cut_rest)).with_output_types(
            RangeGroup
        ).with_outputs(TALLY, main="groups")
        return {
            "groups": found["groups"] | f"{label}Spread" >> beam.Reshuffle(),
            TALLY: found[TALLY],
        }


def _outputs(
    items: beam.PCollection, label: str, lister: InWorkers, tags: Sequence[str]
) -> _Outputs:
    main, *others = tags
    listed = items | label >> beam.ParDo(lister).with_output_types(ImageBatch).with_outputs(
        *others, main=main
    )
    return {tag: listed[tag] for tag in tags}


def _merged(listed: Sequence[_Outputs]) -> _Outputs:
    """Merges the outputs of several listings."""
    merged = {}
    for tag in _OUTPUTS:
        parts = [outputs[tag] for outputs in listed if tag in outputs]
        merged[tag] = parts[0] if len(parts) == 1 else parts | f"All{tag.title()}" >> beam.Flatten()
    return merged


_MANY_GROUPS = 256  # more than these, and inventories are large


@dataclass(frozen=True)
class _ReadingInventory:
    """Reads a part of an inventory; a large one that cannot be cut here, bit by bit."""

    roots: tuple[ImageRoot, ...]
    groups: int

    def __call__(self, part: FilePart) -> Iterator[Step]:
        task = InventoryTask(part, self.roots, self.groups)
        if part.read_at_once:
            yield step(part.size, task.run)
            return
        tally = Tally()
        yield Outcome(task.read(tally))
        yield Outcome(tally=tally)


class _Read(InWorkers):
    """Keeps what the engine moves in a file where the job has one."""

    def _outputs(self, outcome: Outcome) -> Iterator[Any]:
        yield from super()._outputs(replace(outcome, main=spill_parts(outcome.main)))


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
    groups: int = 256
    raises: bool = True

    def expand(self, pipeline: beam.Pipeline) -> dict[str, beam.PCollection]:
        rows = (
            pipeline
            | "Inventories" >> beam.Create(self.files)
            | "CutFiles" >> CutFiles(cut_by=cut_of, spread=self.groups > _MANY_GROUPS)
            | "ReadFile"
            >> beam.ParDo(_Read(_ReadingInventory(self.roots, self.groups), raises=self.raises))
            .with_output_types(tuple[int, bytes])
            .with_outputs(TALLY, main="rows")
        )
        listed = (
            rows["rows"]
            | "GroupByKey" >> beam.GroupByKey()
            | "ListGroup"
            >> beam.ParDo(InWorkers(partial(_list_group, roots=self.roots), raises=self.raises))
            .with_output_types(ImageBatch)
            .with_outputs(DEAD_LETTERS, TALLY, main="images")
        )
        return {
            "images": listed["images"],
            DEAD_LETTERS: listed[DEAD_LETTERS],
            TALLY: (rows[TALLY], listed[TALLY]) | "AllTallies" >> beam.Flatten(),
        }
