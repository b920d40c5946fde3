"""Statistics of the images and labels of a data set, gathered while its shards are written.

Each writer counts the samples of a shard; the counts of all shards add up, in any order, to the counts of the
data set. They have a bounded size: bins have fixed edges, and there are counts of single values only of
quantities that have few.

Bins of lengths in pixels or bytes, and of numbers of objects, begin at `EDGES`: 0, 1, 2, ... 8, and from
there four of them double the length.

Of numbers whose range is not known in advance, there is a histogram. Its bins are 2**level wide, and bin i contains the values from i * 2**level up to, but not
including, (i + 1) * 2**level. The level is the least that puts the values in `MOST_BINS` bins or
fewer, so it depends on the smallest and the largest value alone. Bins of a level are within bins of the
next. So histograms can be added in any order, and the sum equals counting all values at once:

    values 1, 2, 3         level -5: bins 32, 64, 96
    values 1, 2, 3, 1000   level  4: bins 0 (three values), 62
"""

from __future__ import annotations

import math
import sys
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import itemgetter
from typing import Annotated, Any, NamedTuple

from beam_pipeline.core.images.header import ImageHeader
from beam_pipeline.core.labels.schema import Column, ColumnKind
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


# --- histograms of numbers ------------------------------------------------------------------------

MOST_BINS = 64
_FEW_BINS = 12  # are not made fewer
_LOG_BINS = 6
_PRECISION = 52  # bits after the first one of a float
_LEAST_LEVEL = -1074  # of the smallest float
_MOST_LEVEL = 1100  # beyond the exponents of floats


class NumberHistogram(NamedTuple):
    """Counts of numbers.

    Attributes:
      level: bins are 2**level wide.
      bins: (number of the bin, values in it), in order.
      low, high: the smallest and the largest value.
      not_finite: values that are not finite.
    """

    level: int = 0
    bins: tuple[tuple[int, int], ...] = ()
    low: float = 0
    high: float = 0
    not_finite: int = 0

    @property
    def values(self) -> int:
        """The number of finite values."""
        return sum(count for _, count in self.bins)

    def coarser(self, level: int) -> Counter[int]:
        """Bin -> count at a level that is not below the own one."""
        counts: Counter[int] = Counter()
        for number, count in self.bins:
            counts[number >> (level - self.level)] += count
        return counts


NOTHING = NumberHistogram()


def _is_sound(histogram: NumberHistogram) -> bool:
    level, bins, low, high, _ = histogram
    return not bins or (abs(level) <= _MOST_LEVEL and low <= high and level <= _level(low, high))


RecordedHistogram = Annotated[NumberHistogram, Expect(_is_sound, "a histogram")]
"""A histogram as `typed_json` reads it."""


def histogram_of(values: Iterable[float]) -> NumberHistogram:
    """Counts numbers, either all integers or all floats; they may be counted already."""
    counts = values if isinstance(values, Counter) else Counter(values)
    finite = {value: count for value, count in counts.items() if math.isfinite(value)}
    not_finite = counts.total() - sum(finite.values())
    if not finite:
        return NumberHistogram(not_finite=not_finite)
    low, high = min(finite) + 0, max(finite) + 0  # 0.0 for -0.0
    level = _level(low, high)
    bins: Counter[int] = Counter()
    for value, count in finite.items():
        bins[_bin(value, level)] += count
    return NumberHistogram(level, tuple(sorted(bins.items())), low, high, not_finite)


def sum_of(histograms: Sequence[NumberHistogram]) -> NumberHistogram:
    """The histogram of the values of all histograms."""
    not_finite = sum(histogram.not_finite for histogram in histograms)
    full = [histogram for histogram in histograms if histogram.bins]
    if not full:
        return NumberHistogram(not_finite=not_finite)
    low = min(histogram.low for histogram in full)
    high = max(histogram.high for histogram in full)
    level = _level(low, high)
    bins: Counter[int] = Counter()
    for histogram in full:
        bins.update(histogram.coarser(level))
    return NumberHistogram(level, tuple(sorted(bins.items())), low, high, not_finite)


def readable(histogram: NumberHistogram, most: int) -> tuple[int, Counter[int]]:
    """(level, bin -> count) for a chart.

    Args:
      histogram: not empty.
      most: number of bins from the first to the last.
    """
    for level in range(histogram.level, _MOST_LEVEL + 64):
        counts = histogram.coarser(level)
        span = max(counts) - min(counts) + 1
        # Every second bin is empty where whole numbers are in bins narrower than 1.
        sparse = span > _FEW_BINS and all(number % 2 == 0 for number in counts)
        if span <= most and not sparse:
            break
    return level, counts


def edge(number: int, level: int) -> float:
    """The smallest value of a bin."""
    try:
        return math.ldexp(number, level)
    except OverflowError:
        return math.copysign(sys.float_info.max, number)


def _level(low: float, high: float) -> int:
    """The least level that puts both ends in `MOST_BINS` bins."""
    if isinstance(low, int) and isinstance(high, int):
        level = max(0, (high - low).bit_length() - _LOG_BINS - 1)
    else:
        # Halves, because the difference of two floats may overflow.
        spread = math.frexp(high / 2 - low / 2)[1] + 1 if high > low else -_MOST_LEVEL
        largest = max(abs(low), abs(high))
        magnitude = math.frexp(largest)[1] if largest else -_MOST_LEVEL
        level = max(spread - _LOG_BINS - 2, magnitude - _PRECISION, _LEAST_LEVEL)
    while _bin(high, level) - _bin(low, level) >= MOST_BINS:
        level += 1
    return level


def _bin(value: float, level: int) -> int:
    if isinstance(value, int):
        return value >> level
    scaled = math.ldexp(value, -level)
    return -1 if value < 0 and scaled == 0 else math.floor(scaled)


# --- images and labels ----------------------------------------------------------------------------


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

    def formats_and_lengths(self) -> dict[str, Any]:
        """The formats of images with their counts, and the least and greatest width and height in pixels.

        {"formats": {"jpeg": 98, "png": 2}, "width": [75, 500], "height": [56, 500]}
        """
        lengths = {name: self.lengths[name] for name in ("width", "height")}
        return {
            "formats": dict(sorted(self.counts["format"].items())),
            **{name: [histogram.low, histogram.high] for name, histogram in lengths.items()},
        }


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
                sums[name] = sum_of((sums.get(name, NOTHING), histogram))
        sizes = counts.get("size", Counter())
        if len(sizes) > MOST_SIZES or MORE_SIZES in sizes:
            counts["size"] = Counter({MORE_SIZES: sizes.total()})
    return ImageStatistics(images, counts, lengths, numbers)


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
        # Others are regions to ignore.
        self._boxes = [(i, c.pixels) for i, c in enumerate(columns) if c.kind is ColumnKind.BOX][:1]
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
        for name, counted in lengths.items():
            bins: Counter[Key] = Counter()
            for length, count in counted.items():
                bins[bisect_right(EDGES, length) - 1] += count
            counts[name] = bins
        numbers = {
            column.feature: histogram_of(_values(column, [values[index] for values in labels]))
            for index, column in self._numbers
        }
        equal_bins = {name: histogram_of(counted) for name, counted in lengths.items()}
        part = ImageStatistics(len(headers), counts, equal_bins, numbers)
        self._statistics = merged((self._statistics, part))


def _header_counts(headers: Sequence[ImageHeader]) -> dict[str, Counter[Key]]:
    """Counts of headers; many are equal."""
    names = ("format", "channels", "orientation", "aspect", "size")
    counts: dict[str, Counter[Key]] = {name: Counter() for name in names}
    for header, count in Counter(headers).items():
        of_format, height, width, channels, orientation = header
        counts["format"][of_format] += count
        counts["channels"][channels] += count
        counts["orientation"][orientation] += count
        counts["aspect"][bisect_right(ASPECTS, width / max(1, height))] += count
        counts["size"][f"{width} x {height}"] += count
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
