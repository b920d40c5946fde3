"""Histograms of numbers: parts add up to the whole, in any order."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_pipeline.core.records.number_histogram import (
    MOST_BINS,
    NOTHING,
    NumberHistogram,
    edge,
    histogram_of,
    parse_histogram,
    readable,
    sum_of,
)

PARTS = st.lists(st.lists(st.floats())) | st.lists(st.lists(st.integers(-(2**63), 2**63 - 1)))


@given(PARTS)
def test_the_histograms_of_parts_add_up_to_that_of_all(parts: list[list[float]]) -> None:
    """Bin for bin, and written the same way, so that reports have the same bytes."""
    whole = histogram_of([value for part in parts for value in part])
    forwards = sum_of(map(histogram_of, parts))
    backwards = sum_of([sum_of(map(histogram_of, parts[:1])), *map(histogram_of, parts[1:])])
    assert repr(whole) == repr(forwards) == repr(backwards)
    assert len(whole.bins) <= MOST_BINS
    assert whole.values + whole.others == sum(map(len, parts))


@given(PARTS)
def test_a_histogram_is_read_back(parts: list[list[float]]) -> None:
    """JSON keeps it exactly."""
    whole = histogram_of([value for part in parts for value in part])
    assert repr(parse_histogram(json.loads(json.dumps(whole)))) == repr(whole)


def test_bins_are_as_wide_as_the_range_needs() -> None:
    """One value far away makes them wider."""
    assert histogram_of([1, 2, 3]) == NumberHistogram(0, ((1, 1), (2, 1), (3, 1)), 1, 3)
    assert histogram_of([1.0, 2.0, 3.0]).level == -4
    assert histogram_of([1, 2, 3, 1000]) == NumberHistogram(4, ((0, 3), (62, 1)), 1, 1000)


def test_values_that_are_not_finite_are_counted_apart() -> None:
    """They have no bin."""
    assert histogram_of([math.nan, math.inf, 1.0]).others == 2
    assert histogram_of([math.nan]) == NOTHING._replace(others=1)


@pytest.mark.parametrize(
    "values",
    [
        *([], 5, None, [0, [], 0, 0], [0, [[1, 1]], "a", 3, 0], [0.5, [[1, 1]], 1, 1, 0]),
        *([0, [[1, "x"]], 1, 1, 0], [5000, [[1, 1]], 1, 1, 0], [9, [[1, 1]], 1, 1, 0]),
        *([0, [[1, 1]], 3, 1, 0], [0, [[1, 1]], math.nan, 1, 0]),
    ],
)
def test_what_is_no_histogram_is_refused(values: Any) -> None:
    """A receipt may come from anyone."""
    with pytest.raises((ValueError, TypeError)):
        parse_histogram(values)


def test_whole_numbers_among_floats_have_a_bar_each() -> None:
    """Bins narrower than 1 would leave every second one empty."""
    level, counts = readable(histogram_of([float(i) for i in range(20, 45)]), 40)
    assert level == 0
    assert counts == dict.fromkeys(range(20, 45), 1)


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1))
def test_a_chart_has_so_many_bars(values: list[float]) -> None:
    """And every value is between the edges of some bar."""
    level, counts = readable(histogram_of(values), 40)
    assert max(counts) - min(counts) < 40
    assert counts.total() == len(values)
    assert edge(min(counts), level) <= min(values)
    assert max(values) <= edge(max(counts) + 1, level)
