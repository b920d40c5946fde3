"""Makes the report of a data set: reads some of its samples back, and images that were left out."""

from __future__ import annotations

import bisect
import contextlib
import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any, TypeVar

from beam_pipeline.core.dataset.manifest import Manifest
from beam_pipeline.core.dead_letters import DeadLetter, Reason
from beam_pipeline.core.errors import ConversionError
from beam_pipeline.core.labels.schema import Column, ColumnKind
from beam_pipeline.core.report.page import LeftOut, Report, report_page
from beam_pipeline.core.report.samples import ShownSample, shown_sample
from beam_pipeline.core.report.thumbnails import Thumbnail, thumbnail
from beam_pipeline.storage import files

_Item = TypeVar("_Item")
_Made = TypeVar("_Made")
_Draw = Callable[..., Thumbnail | None]

_TILES = 24
_LARGE_TILES = 12  # of samples with boxes
_MOST_SPLITS = 6  # with samples shown
_READ_BYTES = 64 << 20  # 64 MiB of the records of a split; one more may begin before
_LEFT_OUT = 4  # of each reason
_MOST_LEFT_OUT = 60
_PICTURES = 16  # of what was left out
_LARGEST_IMAGE = 32 << 20  # bytes of an image that was left out
_THREADS = 4
_WITH_IMAGE: frozenset[str] = frozenset(
    {
        *(Reason.BAD_LABEL_VALUE, Reason.UNKNOWN_CLASS, Reason.UNLABELLED),
        *(Reason.CONFLICTING_LABELS, Reason.DUPLICATE_KEY, Reason.CORRUPT_IMAGE),
        *(Reason.SIZE_MISMATCH, Reason.NOT_UPRIGHT, Reason.BAD_BOX, Reason.BAD_MASK),
        *(Reason.FILTERED_MIN_SIDE, Reason.FILTERED_MAX_ASPECT, Reason.FILTERED_MAX_PIXELS),
    }
)
"""Reasons that leave out images which can perhaps be shown. Excluded ones may have to be forgotten."""


def make_report(folder: str, report: Report, dead_letters: Iterable[DeadLetter] = ()) -> bytes:
    """The content of `report.html`.

    An image that cannot be decoded, or that was left out and cannot be read, is left blank.

    Args:
      folder: contains the shards.
      report: without samples, and without what was left out.
      dead_letters: all of them, in any order.

    Raises:
      OSError: a shard cannot be read.
      ConversionError: it is damaged.
    """
    manifest = report.manifest
    splits = [split for split, entry in manifest.splits.items() if entry.examples][:_MOST_SPLITS]
    boxes = any(column.kind == ColumnKind.BOX.value for column in manifest.options.columns)
    most = (_LARGE_TILES if boxes else _TILES) // max(1, len(splits))
    samples = {split: read_samples(folder, manifest, split, most) for split in splits}
    letters = some_of_each_reason(dead_letters)
    uris = [letter.uri if letter.reason in _WITH_IMAGE else "" for letter in letters]
    pictured = {*[uri for uri in uris if uri][:_PICTURES]}
    pictures = _in_threads(_thumbnail_at, [uri if uri in pictured else "" for uri in uris])
    left_out = [LeftOut(*pair) for pair in zip(letters, pictures, strict=True)]
    return report_page(replace(report, samples=samples, left_out=left_out))


def _in_threads(make: Callable[..., _Made], items: Sequence[_Item]) -> list[_Made]:
    """Makes what has thumbnails, several at a time if the system has threads and memory left."""
    try:
        with ThreadPoolExecutor(_THREADS, thread_name_prefix="thumbnails") as pool:
            return [*pool.map(partial(make, draw=thumbnail), items)]
    except (RuntimeError, MemoryError):
        return [make(item, draw=_thumbnail_if_memory_allows) for item in items]


def _thumbnail_if_memory_allows(*image: Any) -> Thumbnail | None:
    with contextlib.suppress(MemoryError):
        return thumbnail(*image)
    return None


def read_samples(folder: str, manifest: Manifest, split: str, most: int) -> list[ShownSample]:
    """Reads the first samples of a split, which are random ones, as hashes decide their order.

    They are fewer where images are large, or where records are no examples.

    Raises:
      OSError: a shard cannot be read.
      ConversionError: it is damaged.
    """
    columns = [
        Column(entry.name, ColumnKind(entry.kind), entry.feature, repeated=entry.repeated)
        for entry in manifest.options.columns
    ]
    records = islice(_records(folder, manifest, split), most)
    show = partial(shown_sample, columns=columns, renames=manifest.renames)
    return [*filter(None, _in_threads(show, [*records]))]


def _records(folder: str, manifest: Manifest, split: str) -> Iterator[bytes]:
    """Yields the first records of a split, up to a number of bytes."""
    read = 0
    for shard in manifest.splits[split].shards:
        if not shard.examples:
            continue
        uri = files.join(folder, shard.path)
        with files.open_input(uri) as file:
            for record in manifest.record_format.records(file, uri):
                yield record
                read += len(record)
                if read > _READ_BYTES:
                    return


def some_of_each_reason(dead_letters: Iterable[DeadLetter]) -> list[DeadLetter]:
    """The first few dead letters of each reason, sorted; they may come in any order."""
    first: defaultdict[str, list[DeadLetter]] = defaultdict(list)
    for letter in dead_letters:
        of_reason = first[letter.reason]
        if len(of_reason) < _LEFT_OUT or letter < of_reason[-1]:
            bisect.insort(of_reason, letter)
            del of_reason[_LEFT_OUT:]
    return sorted(itertools.chain.from_iterable(first.values()))[:_MOST_LEFT_OUT]


def _thumbnail_at(uri: str, draw: _Draw) -> Thumbnail | None:
    if uri:
        with contextlib.suppress(OSError, ConversionError):
            if 0 < files.size_of(uri) <= _LARGEST_IMAGE:
                return draw(files.read_bytes(uri))
    return None
