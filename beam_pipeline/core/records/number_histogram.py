"""Histograms of numbers whose range is not known in advance.

The bins of a histogram are 2**level wide, and bin i contains the values from i * 2**level up to, but not
including, (i + 1) * 2**level. The level is the least that puts the values in `MOST_BINS` bins or
fewer, so it depends on the smallest and the largest value alone. Bins of a level are within bins of the
next. So histograms can be added in any order, and the sum equals counting all values at once:

    values 1, 2, 3         level -5: bins 32, 64, 96
    values 1, 2, 3, 1000   level  4: bins 0 (three values), 62
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Annotated, NamedTuple

from beam_pipeline.core.typed_json import Expect

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


def sum_of(histograms: Iterable[NumberHistogram]) -> NumberHistogram:
    """The histogram of the values of all histograms."""
    parts = list(histograms)
    not_finite = sum(histogram.not_finite for histogram in parts)
    full = [histogram for histogram in parts if histogram.bins]
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
    level, counts = histogram.level, histogram.coarser(histogram.level)
    while _span(counts) > most or (_span(counts) > _FEW_BINS and _only_even(counts)):
        level += 1
        counts = histogram.coarser(level)
    return level, counts


def edge(number: int, level: int) -> float:
    """The smallest value of a bin."""
    try:
        return math.ldexp(number, level)
    except OverflowError:
        return math.copysign(sys.float_info.max, number)


def _span(counts: Mapping[int, int]) -> int:
    """The number of bins from the first to the last."""
    return max(counts) - min(counts) + 1


def _only_even(counts: Mapping[int, int]) -> bool:
    """Tells whether every second bin is empty, which happens to whole numbers in bins narrower than 1."""
    return all(number % 2 == 0 for number in counts)


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
