"""Lists images: roots in, batches of references out. No image is opened."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import apache_beam as beam
from apache_beam.pvalue import TaggedOutput

from beam_pipeline.core.dataset.tally import Tally
from beam_pipeline.core.errors import ListingError
from beam_pipeline.core.failures import Refusal
from beam_pipeline.core.listing.filters import ImageRoot, Listed, ObjectFilter
from beam_pipeline.core.references import ImageRef
from beam_pipeline.core.uris import is_remote
from beam_pipeline.storage import files
from beam_pipeline.storage.archive_listing import list_archive
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
from beam_pipeline.transforms import counters
from beam_pipeline.transforms.batches import BATCH_SIZE, DeadLetterBatch, ImageBatch
from beam_pipeline.transforms.run_elsewhere import RunElsewhere
from beam_pipeline.work import progress
from beam_pipeline.work.list_folders import list_folders
from beam_pipeline.work.outcome import DEAD_LETTERS, TALLY

_IMAGES = "images"
_REST = "rest"  # of a long range
_OUTPUTS = (_IMAGES, DEAD_LETTERS, TALLY)

_FAN_OUT = FanOut()

_T = TypeVar("_T")
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


class _List(beam.DoFn):
    """Base class of DoFns that list: counts the images and yields them in batches."""

    def _outputs(self, found: Iterator[Listed | NameRange]) -> Iterator[ImageBatch | TaggedOutput]:
        tally = Tally()
        for listed in _until_refused(found, tally):
            if isinstance(listed, NameRange):
                yield TaggedOutput(_REST, listed)
                continue
            tally.ignored.update(listed.ignored)
            tally.label_files.add(listed.label_files)
            images = len(listed.images) + len(listed.dead_letters)
            tally.listed += images
            counters.count(counters.IMAGES_LISTED, images)
            progress.listed(images)
            if listed.images:
                yield ImageBatch(listed.images)
            if listed.dead_letters:
                tally.add_dead_letters(listed.dead_letters)
                yield TaggedOutput(DEAD_LETTERS, DeadLetterBatch(listed.dead_letters))
        yield TaggedOutput(TALLY, tally)


def _until_refused(found: Iterator[_T], tally: Tally) -> Iterator[_T]:
    try:
        yield from found
    except ListingError as error:
        tally.refusals.append(Refusal.from_error(error))


class _ListRoot(_List):
    """Lists a whole folder or archive."""

    def process(self, root: ImageRoot) -> Iterator[ImageBatch | TaggedOutput]:
        yield from self._outputs(list_root(root))


class _ListFolders(RunElsewhere):
    """Lists a whole local folder, mostly elsewhere."""

    def process(self, root: ImageRoot) -> Iterator[ImageBatch | TaggedOutput]:
        for outcome in list_folders(root):
            yield from self.outputs(outcome)


class _ListFirst(_List):
    """Lists the first names of a root in a bucket."""

    def __init__(self, fan_out: FanOut) -> None:
        self._fan_out = fan_out

    def process(self, root: ImageRoot) -> Iterator[ImageBatch | TaggedOutput]:
        yield from self._outputs(list_range(whole_range(root), BATCH_SIZE, self._fan_out.first))


class _Cut(beam.DoFn):
    """Cuts the rest of a range into groups of ranges, one group for each worker."""

    def __init__(self, fan_out: FanOut) -> None:
        self._fan_out = fan_out

    def process(self, rest: NameRange) -> Iterator[RangeGroup | TaggedOutput]:
        tally = Tally()
        ranges = list(_until_refused(cut(rest, self._fan_out), tally))
        groups = -(-len(ranges) // self._fan_out.threads)
        for group in range(groups):
            # Neighbours go into different groups: where one is long, the next one often is, too.
            yield RangeGroup(ranges[group::groups])
        yield TaggedOutput(TALLY, tally)


class _ListRanges(_List):
    """Lists a group of ranges: completely in the last round, else leaving the rest of long ones."""

    def __init__(self, fan_out: FanOut, completely: bool) -> None:
        self._fan_out = fan_out
        self._list = list_all if completely else list_ranges

    def process(self, ranges: RangeGroup) -> Iterator[ImageBatch | TaggedOutput]:
        yield from self._outputs(self._list(ranges, BATCH_SIZE, self._fan_out))


@dataclass(kw_only=True)
class ListImages(beam.PTransform):
    """Lists the images of every root.

    Attributes:
      roots: folders and archives, and which of their files are listed.
      fan_out: how the listing of a bucket is parallelized.

    Returns (tagged): "images", `ImageBatch`es; "dead_letters", `DeadLetterBatch`es; "tally", `Tally`s.
    """

    roots: tuple[ImageRoot, ...]
    fan_out: FanOut = _FAN_OUT

    def expand(self, pipeline: beam.Pipeline) -> _Outputs:
        buckets = tuple(root for root in self.roots if lists_ranges(root))
        archives = tuple(root for root in self.roots if root.archive)
        whole = tuple(root for root in self.roots if not (root.archive or lists_ranges(root)))
        folders = tuple(root for root in whole if not is_remote(root.uri))
        others = tuple(root for root in whole if is_remote(root.uri))
        listed: list[_Outputs] = []
        if folders:
            roots = pipeline | "Folders" >> beam.Create(folders, reshuffle=False)
            listed.append(_outputs(roots, "ListFolder", _ListFolders(), _OUTPUTS))
        if others:
            roots = pipeline | "Roots" >> beam.Create(others, reshuffle=False)
            listed.append(_outputs(roots, "ListRoot", _ListRoot(), _OUTPUTS))
        if archives:
            roots = pipeline | "Archives" >> beam.Create(archives)
            listed.append(_outputs(roots, "ListArchive", _ListRoot(), _OUTPUTS))
        if buckets:
            roots = pipeline | "Buckets" >> beam.Create(buckets, reshuffle=False)
            listed.append(roots | "ListBuckets" >> _ListBuckets(fan_out=self.fan_out))
        return _merged(listed)


@dataclass(kw_only=True)
class _ListBuckets(beam.PTransform):
    """Lists roots in buckets: the first names, then ranges of the rest, then ranges of long ranges."""

    fan_out: FanOut

    def expand(self, roots: beam.PCollection[ImageRoot]) -> _Outputs:
        begun = _outputs(roots, "ListFirst", _ListFirst(self.fan_out), (*_OUTPUTS, _REST))
        first_cut = self._cut(begun.pop(_REST), "CutRest")
        ranges = _ListRanges(self.fan_out, completely=False)
        listed = _outputs(first_cut["groups"], "ListRanges", ranges, (*_OUTPUTS, _REST))
        second_cut = self._cut(listed.pop(_REST), "CutLongRanges")
        ranges = _ListRanges(self.fan_out, completely=True)
        ended = _outputs(second_cut["groups"], "ListLongRanges", ranges, _OUTPUTS)
        tallies = ({TALLY: first_cut[TALLY]}, {TALLY: second_cut[TALLY]})
        return _merged([begun, listed, ended, *tallies])

    def _cut(self, rest: beam.PCollection[NameRange], label: str) -> _Outputs:
        found = rest | label >> beam.ParDo(_Cut(self.fan_out)).with_output_types(
            RangeGroup
        ).with_outputs(TALLY, main="groups")
        return {
            "groups": found["groups"] | f"{label}Spread" >> beam.Reshuffle(),
            TALLY: found[TALLY],
        }


def _outputs(
    items: beam.PCollection, label: str, lister: beam.DoFn, tags: Sequence[str]
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
