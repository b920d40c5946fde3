"""Statistics of the images and labels of a data set, gathered while its shards are written.

Each writer counts the samples of a shard; the counts of all shards add up, in any order, to the counts of the
data set. They have a bounded size: bins have fixed edges, and there are counts of single values only of
quantities that have few.

Bins of lengths in pixels or bytes, and of numbers of objects, begin at `EDGES`: 0, 1, 2, ... 8, and from
there four of them double the length.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import itemgetter
from typing import Annotated, Any

from beam_pipeline.core.images.header import ImageHeader
from beam_pipeline.core.labels.schema import Column, ColumnKind
from beam_pipeline.core.records.number_histogram import (
    NumberHistogram,
    RecordedHistogram,
    histogram_of,
    sum_of,
)
from beam_pipeline.core.typed_json import Count, Expect, decode

Key = str | int

_DOUBLINGS = 31
_STEPS = 4  # from one length to twice the length

EDGES = (0, *sorted({round(2 ** (i / _STEPS)) for i in range(_DOUBLINGS * _STEPS + 1)}))
"""The smallest length of each bin."""

_AREAS = tuple(edge * edge for edge in EDGES)

ASPECTS = tuple(round(2 ** ((2 * i + 1) / 16), 4) for i in range(-25, 25))
"""The edges between bins of width / height; one bin is around 1, eight of them double the ratio."""

PLACES = 24
"""The heat map has so many cells on each side."""

MOST_SIZES = 12
"""There are counts of each width and height as long as there are so few."""

MORE_SIZES = "more"
"""The one entry where there were more."""

_MOST_NUMBER_COLUMNS = 32
_MARK = "image/labelled"  # a number, but none to regress on
_GATHERED = 4096  # samples that are counted at a time


@dataclass(frozen=True)
class ImageStatistics:
    """Counts of the images and labels of some samples.

    Attributes:
      images: samples that were counted.
      counts: quantity -> value or bin -> count. `format`, `channels`, `orientation` and `size` (such as
        "500 x 375") have values; `width`, `height`, `bytes`, `boxes` (a sample) and `box_size` (the
        side of a square of its area, in pixels) have bins of `EDGES`; `aspect` has those of
        `ASPECTS`; `box_place` has the heat map's cells of the centres of boxes, row
        by row.
      lengths: quantity -> counts in bins of equal width, of `width`, `height`, `bytes` and `boxes`.
      numbers: key of a feature -> counts of its values, where they are numbers and no classes.
    """

    images: int = 0
    counts: Mapping[str, Mapping[Key, int]] = field(default_factory=dict)
    lengths: Mapping[str, NumberHistogram] = field(default_factory=dict)
    numbers: Mapping[str, NumberHistogram] = field(default_factory=dict)

    def to_json(self) -> list[Any]:
        """The counts as JSON has them in receipts; the same counts have the same text."""
        return [
            self.images,
            {name: sorted(counts.items()) for name, counts in sorted(self.counts.items())},
            dict(sorted(self.lengths.items())),
            dict(sorted(self.numbers.items())),
        ]


NOTHING_COUNTED = ImageStatistics()


_Value = Annotated[Any, Expect(lambda value: type(value) in (int, str), "a number or a text")]
_Histograms = Mapping[str, RecordedHistogram]
_Recorded = tuple[Count, Mapping[str, tuple[tuple[_Value, Count], ...]], _Histograms, _Histograms]


def parse_statistics(values: Any) -> ImageStatistics:
    """Reads statistics back from JSON.

    Raises:
      ValueError: they are something else; tells what.
    """
    images, counts, lengths, numbers = decode(_Recorded, values, "statistics")
    counters = {name: dict(pairs) for name, pairs in counts.items()}
    return ImageStatistics(images, counters, lengths, numbers)


def merged(parts: Iterable[ImageStatistics]) -> ImageStatistics:
    """The statistics of the samples of all parts."""
    images = 0
    counts: dict[str, Counter[Key]] = {}
    lengths: dict[str, NumberHistogram] = {}
    numbers: dict[str, NumberHistogram] = {}
    for part in parts:
        images += part.images
        for name, added in part.counts.items():
            counts.setdefault(name, Counter()).update(added)
        for sums, parts_of in ((lengths, part.lengths), (numbers, part.numbers)):
            for name, histogram in parts_of.items():
                sums[name] = sum_of((sums[name], histogram)) if name in sums else histogram
        if "size" in counts:
            counts["size"] = _few(counts["size"])
    return ImageStatistics(images, counts, lengths, numbers)


def _few(sizes: Counter[Key]) -> Counter[Key]:
    """Counts of single sizes, or of all of them if there are many."""
    if len(sizes) <= MOST_SIZES and MORE_SIZES not in sizes:
        return sizes
    return Counter({MORE_SIZES: sizes.total()})


def formats_and_lengths(statistics: ImageStatistics) -> dict[str, Any]:
    """The formats of images with their counts, and the least and greatest width and height in pixels.

    {"formats": {"jpeg": 98, "png": 2}, "width": [75, 500], "height": [56, 500]}
    """
    lengths = {name: statistics.lengths[name] for name in ("width", "height")}
    return {
        "formats": dict(sorted(statistics.counts["format"].items())),
        **{name: [histogram.low, histogram.high] for name, histogram in lengths.items()},
    }


_WIDTH, _HEIGHT = (itemgetter(ImageHeader._fields.index(name)) for name in ("width", "height"))


class StatisticsGatherer:
    """Counts samples as they are written.

    Args:
      columns: the columns of their labels.
    """

    def __init__(self, columns: Sequence[Column] = ()) -> None:
        self._numbers = [
            (index, column)
            for index, column in enumerate(columns)
            if column.kind in (ColumnKind.INT64, ColumnKind.FLOAT)
            and column.feature not in ("", _MARK)
        ][:_MOST_NUMBER_COLUMNS]
        self._boxes = [
            (index, column.pixels)
            for index, column in enumerate(columns)
            if column.kind is ColumnKind.BOX
        ][:1]  # others are regions to ignore
        self._samples: list[tuple[ImageHeader, int, Sequence[Any]]] = []
        self._statistics = NOTHING_COUNTED

    def add(self, header: ImageHeader, size: int, labels: Sequence[Any]) -> None:
        """Counts a sample.

        Args:
          header: of its image.
          size: bytes of its image.
          labels: a value for each column.
        """
        self._samples.append((header, size, labels))
        if len(self._samples) == _GATHERED:
            self._count()

    def statistics(self) -> ImageStatistics:
        """The statistics of all samples so far."""
        self._count()
        return self._statistics

    def _count(self) -> None:
        if not self._samples:
            return
        headers, sizes, labels = zip(*self._samples, strict=True)
        self._samples = []
        counts = _header_counts(headers)
        lengths: dict[str, Counter[int]] = {
            "bytes": Counter(sizes),
            "width": Counter(map(_WIDTH, headers)),
            "height": Counter(map(_HEIGHT, headers)),
        }
        for index, pixels in self._boxes:
            lists = [values[index] or () for values in labels]
            lengths["boxes"] = Counter(map(len, lists))
            counts |= _box_counts(headers, lists, pixels=pixels)
        counts |= {name: _binned(counted, EDGES) for name, counted in lengths.items()}
        numbers = {
            column.feature: histogram_of(_values(column, [values[index] for values in labels]))
            for index, column in self._numbers
        }
        equal_bins = {name: histogram_of(counted) for name, counted in lengths.items()}
        part = ImageStatistics(len(headers), counts, equal_bins, numbers)
        self._statistics = merged((self._statistics, part))


def _binned(lengths: Mapping[int, int], edges: Sequence[int]) -> Counter[Key]:
    """Counts of the lengths from each edge to the next."""
    bins: Counter[Key] = Counter()
    for length, count in lengths.items():
        bins[bisect_right(edges, length) - 1] += count
    return bins


def _header_counts(headers: Sequence[ImageHeader]) -> dict[str, Counter[Key]]:
    """Counts of headers; many are equal."""
    names = ("format", "channels", "orientation", "aspect")
    counts: dict[str, Counter[Key]] = {name: Counter() for name in names}
    sizes: Counter[tuple[int, int]] = Counter()
    for header, count in Counter(headers).items():
        of_format, height, width, channels, orientation = header
        counts["format"][of_format] += count
        counts["channels"][channels] += count
        counts["orientation"][orientation] += count
        sizes[width, height] += count
    for (width, height), count in sizes.items():
        counts["aspect"][bisect_right(ASPECTS, width / max(1, height))] += count
    few = len(sizes) <= MOST_SIZES
    counts["size"] = Counter(
        {f"{width} x {height}": count for (width, height), count in sizes.items()}
        if few
        else {MORE_SIZES: len(headers)}
    )
    return counts


def _box_counts(
    headers: Sequence[ImageHeader], lists: Sequence[Sequence[Any]], *, pixels: bool
) -> dict[str, Counter[Key]]:
    """Sizes of boxes, and the heat map's cells of their centres."""
    areas: list[float] = []
    cells: Counter[Key] = Counter()
    last = PLACES - 1
    for header, boxes in zip(headers, lists, strict=True):
        if not boxes:
            continue
        _, height, width, _, _ = header
        wide, high = (width, height) if pixels else (1, 1)
        pixels_of_one = 1 if pixels else width * height
        columns, rows = PLACES / 2 / wide, PLACES / 2 / high
        for left, top, right, bottom, *_ in boxes:
            # Plain comparisons, as there are many boxes and `min` takes three times as long.
            left = left if left > 0 else 0
            top = top if top > 0 else 0
            right = right if right < wide else wide
            bottom = bottom if bottom < high else high
            areas.append((right - left) * (bottom - top) * pixels_of_one)
            column, row = int((left + right) * columns), int((top + bottom) * rows)
            column = column if column < last else last
            row = row if row < last else last
            cells[row * PLACES + column] += 1
    size: Counter[int] = Counter(map(partial(bisect_right, _AREAS), areas))
    return {
        "box_size": Counter({index - 1: count for index, count in size.items()}),
        "box_place": cells,
    }


def _values(column: Column, values: Sequence[Any]) -> list[float]:
    """The numbers of a column of some samples, lists of them joined."""
    if column.repeated:
        values = [value for numbers in values for value in numbers or ()]
    number = float if column.kind is ColumnKind.FLOAT else int
    return [number(value) for value in values if value is not None]
