"""Makes the report of a data set: reads some of its samples back, and images that were left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from beam_pipeline.core.dataset.duplicates import NO_DUPLICATES, Duplicates
from beam_pipeline.core.dataset.manifest import Manifest
from beam_pipeline.core.dead_letters import DeadLetter, Reason
from beam_pipeline.core.errors import ConversionError
from beam_pipeline.core.labels.schema import Column, ColumnKind
from beam_pipeline.core.records.image_statistics import ImageStatistics
from beam_pipeline.core.report.page import LeftOut, Report, report_page
from beam_pipeline.core.report.samples import ShownSample, Tile, shown_sample
from beam_pipeline.core.report.thumbnails import LARGE_SIDE, SIDE, Thumbnail, thumbnail
from beam_pipeline.storage import files

_Item = TypeVar("_Item")

_TILES = 24
_LARGE_TILES = 12  # of samples with boxes
_MOST_SPLITS = 6  # with samples shown
_READ_BYTES = 64 << 20  # 64 MiB of the records of a split; one more may begin before
_LEFT_OUT = 4  # of each reason
_MOST_LEFT_OUT = 60
_PICTURES = 16  # of what was left out
_LARGEST_IMAGE = 32 << 20  # bytes of an image that was left out
_THREADS = 4
_WITH_IMAGE = frozenset(
    reason.value
    for reason in (
        *(Reason.BAD_LABEL_VALUE, Reason.UNKNOWN_CLASS, Reason.UNLABELLED),
        *(Reason.CONFLICTING_LABELS, Reason.DUPLICATE_KEY, Reason.CORRUPT_IMAGE),
        *(Reason.SIZE_MISMATCH, Reason.NOT_UPRIGHT, Reason.BAD_BOX, Reason.BAD_MASK),
        *(Reason.FILTERED_MIN_SIDE, Reason.FILTERED_MAX_ASPECT, Reason.FILTERED_MAX_PIXELS),
    )
)
"""Reasons that leave out images which can perhaps be shown. Excluded ones may have to be forgotten."""


def make_report(
    folder: str,
    manifest: Manifest,
    *,
    statistics: ImageStatistics,
    dead_letters: Iterable[DeadLetter] = (),
    command: str = "",
    duplicates: Duplicates = NO_DUPLICATES,
) -> bytes:
    """The content of `report.html`.

    An image that cannot be decoded, or that was left out and cannot be read, is left blank.

    Args:
      folder: contains the shards.
      manifest: of the data set.
      statistics: of its images and labels.
      dead_letters: all of them.
      command: made the data set.
      duplicates: as `Report` has it.

    Raises:
      OSError: a shard cannot be read.
      ConversionError: it is damaged.
    """
    tiles = {}
    for split in _shown_splits(manifest):
        samples = read_samples(folder, manifest, split, _tiles(manifest))
        made = (_in_threads(of_sample, samples) for of_sample in (_thumbnail_of, _beside))
        tiles[split] = [*map(Tile, samples, *made)]
    letters = some_of_each_reason(dead_letters)
    left_out = [*map(LeftOut, letters, _in_threads(_thumbnail_at, _uris(letters)))]
    return report_page(
        Report(
            manifest=manifest,
            statistics=statistics,
            tiles=tiles,
            left_out=left_out,
            command=command,
            duplicates=duplicates,
        )
    )


def _in_threads(make: Callable[[_Item], Any], items: Sequence[_Item]) -> list[Any]:
    """Makes thumbnails, several at a time if the system has threads and memory left."""
    try:
        with ThreadPoolExecutor(_THREADS, thread_name_prefix="thumbnails") as pool:
            return [*pool.map(make, items)]
    except (RuntimeError, MemoryError):
        return [_if_memory_allows(make, item) for item in items]


def _if_memory_allows(make: Callable[[_Item], Any], item: _Item) -> Any:
    try:
        return make(item)
    except MemoryError:
        return None


def _shown_splits(manifest: Manifest) -> Sequence[str]:
    filled = [split for split, entry in manifest.splits.items() if entry.examples]
    return filled[:_MOST_SPLITS]


def _tiles(manifest: Manifest) -> int:
    """The number of samples shown of each split."""
    boxes = any(column.kind == ColumnKind.BOX.value for column in manifest.options.columns)
    return (_LARGE_TILES if boxes else _TILES) // max(1, len(_shown_splits(manifest)))


def read_samples(folder: str, manifest: Manifest, split: str, most: int) -> list[ShownSample]:
    """Reads the first samples of a split, which are random ones, as hashes decide their order.

    They are fewer where images are large.

    Raises:
      OSError: a shard cannot be read.
      ConversionError: it is damaged.
    """
    columns = [
        Column(entry.name, ColumnKind(entry.kind), entry.feature, repeated=entry.repeated)
        for entry in manifest.options.columns
    ]
    samples: list[ShownSample] = []
    for record in _records(folder, manifest, split):
        sample = shown_sample(record, columns, manifest.renames)
        if sample:
            samples.append(sample)
        if len(samples) == most:
            break
    return samples


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


def _thumbnail_of(sample: ShownSample) -> Thumbnail | None:
    side = LARGE_SIDE if sample.boxes else SIDE
    return thumbnail(sample.image, sample.mask, side) if sample.image else None


def some_of_each_reason(dead_letters: Iterable[DeadLetter]) -> list[DeadLetter]:
    """The first few dead letters of each reason."""
    shown: Counter[str] = Counter()
    letters = []
    for letter in dead_letters:
        shown[letter.reason] += 1
        if shown[letter.reason] <= _LEFT_OUT:
            letters.append(letter)
    return letters[:_MOST_LEFT_OUT]


def _uris(letters: Sequence[DeadLetter]) -> list[str]:
    """The image of each dead letter, where there is one to be shown; else an empty text."""
    uris = [letter.uri if letter.reason in _WITH_IMAGE else "" for letter in letters]
    shown = [uri for uri in uris if uri][:_PICTURES]
    return [uri if uri in shown else "" for uri in uris]


def _beside(sample: ShownSample) -> list[Thumbnail]:
    return [*filter(None, map(thumbnail, sample.beside))]


def _thumbnail_at(uri: str) -> Thumbnail | None:
    if not uri:
        return None
    try:
        if not 0 < files.size_of(uri) <= _LARGEST_IMAGE:
            return None
        return thumbnail(files.read_bytes(uri))
    except (OSError, ConversionError):
        return None
