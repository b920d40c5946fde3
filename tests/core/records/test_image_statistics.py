"""Statistics of images and labels: shards add up, sizes are bounded, receipts keep them."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_pipeline.core.images.header import ImageHeader
from beam_pipeline.core.labels import schema
from beam_pipeline.core.records.image_statistics import (
    EDGES,
    MORE_SIZES,
    MOST_BINS,
    MOST_SIZES,
    NOTHING,
    PLACES,
    ImageStatistics,
    NumberHistogram,
    RecordedHistogram,
    StatisticsGatherer,
    edge,
    histogram_of,
    merged,
    parse_statistics,
    readable,
    sum_of,
)
from beam_pipeline.core.typed_json import decode

HEADERS = st.builds(
    ImageHeader,
    st.sampled_from(["jpeg", "png"]),
    st.integers(1, 70_000),
    st.integers(1, 40),
    st.sampled_from([1, 3]),
    st.integers(1, 8),
)
SAMPLES = st.tuples(HEADERS, st.integers(1, 1 << 31), st.tuples(st.floats() | st.none()))
COLUMNS = (schema.label_column("score", schema.ColumnKind.FLOAT),)


def gathered(samples: list[Any], columns: Any = COLUMNS) -> ImageStatistics:
    """The statistics of some samples."""
    gatherer = StatisticsGatherer(columns)
    for header, size, labels in samples:
        gatherer.add(header, size, labels)
    return gatherer.statistics()


def written(statistics: ImageStatistics) -> str:
    """As receipts have it."""
    return json.dumps(statistics.to_json())


@given(st.lists(SAMPLES, min_size=1), st.integers(0, 20), st.integers(0, 20))
def test_the_statistics_of_shards_add_up(samples: list[Any], one: int, two: int) -> None:
    """However samples are divided among shards, and in whatever order these are added."""
    first, second = sorted((one, two))
    parts = [gathered(p) for p in (samples[:first], samples[first:second], samples[second:]) if p]
    whole = written(gathered(samples))
    assert written(merged(parts)) == written(merged(reversed(parts))) == whole
    assert written(merged([merged(parts[:2]), *parts[2:]])) == whole


@given(st.lists(SAMPLES, min_size=1))
def test_statistics_are_read_back(samples: list[Any]) -> None:
    """A resumed run has what it would have counted itself."""
    statistics = gathered(samples)
    assert written(parse_statistics(json.loads(written(statistics)))) == written(statistics)


def test_samples_are_counted_some_thousand_at_a_time() -> None:
    """None is left out between."""
    samples = [(ImageHeader("jpeg", 8, 16, 3), 99, (0.5,))] * 5000
    assert gathered(samples).images == 5000
    assert written(gathered(samples)) == written(merged([gathered(samples[:2500])] * 2))


def test_what_is_counted_of_images() -> None:
    """Formats, channels, orientation, sizes, bytes and the shape."""
    statistics = gathered(
        [
            (ImageHeader("jpeg", 300, 400, 3, 6), 1000, (0.5,)),
            (ImageHeader("png", 100, 100, 1), 10, (None,)),
            (ImageHeader("png", 100, 100, 1), 12, (1.5,)),
        ]
    )
    assert statistics.images == 3
    assert statistics.counts["format"] == {"jpeg": 1, "png": 2}
    assert statistics.counts["channels"] == {3: 1, 1: 2}
    assert statistics.counts["orientation"] == {6: 1, 1: 2}
    assert statistics.counts["size"] == {"400 x 300": 1, "100 x 100": 2}
    assert {
        EDGES[key]: n for key, n in statistics.counts["bytes"].items() if key != MORE_SIZES
    } == {  # type: ignore[index]
        861: 1,
        10: 1,
        11: 1,
    }
    assert statistics.counts["aspect"] == {28: 1, 25: 2}
    assert statistics.lengths["width"].bins == ((12, 2), (50, 1))
    assert (statistics.lengths["bytes"].low, statistics.lengths["bytes"].high) == (10, 1000)
    assert statistics.numbers["image/label"].values == 2
    assert statistics.formats_and_lengths() == {
        "formats": {"jpeg": 1, "png": 2},
        "width": [100, 400],
        "height": [100, 300],
    }


def test_many_sizes_are_counted_together() -> None:
    """So that shards of photographs of all sizes have small receipts."""
    few = [(ImageHeader("png", 9, width, 3), 9, ()) for width in range(1, MOST_SIZES + 1)]
    more = [*few, (ImageHeader("png", 8, 8, 3), 9, ())]
    assert len(gathered(few, ()).counts["size"]) == MOST_SIZES
    assert gathered(more, ()).counts["size"] == {MORE_SIZES: MOST_SIZES + 1}
    assert merged([gathered(more, ()), gathered(few, ())]).counts["size"] == {
        MORE_SIZES: 2 * MOST_SIZES + 1
    }


@pytest.mark.parametrize("pixels", [True, False])
def test_what_is_counted_of_boxes(pixels: bool) -> None:
    """Their number, the side of a square of their area, and where their middle is; cut at the edge."""
    wide, high = (200, 100) if pixels else (1, 1)
    boxes = (
        (0.0, 0.0, 0.5 * wide, 1.0 * high, 1),
        (0.75 * wide, 0.5 * high, 1.5 * wide, 1.0 * high, 2),
    )
    samples = [
        (ImageHeader("png", 100, 200, 3), 9, (boxes, ("a", "b"))),
        (ImageHeader("png", 100, 200, 3), 9, ((), ())),
    ]
    statistics = gathered(samples, schema.object_columns(pixels=pixels))
    assert statistics.counts["boxes"] == {2: 1, 0: 1}
    sides = {EDGES[int(key)]: count for key, count in statistics.counts["box_size"].items()}
    assert sides == {91: 1, 45: 1}
    assert statistics.counts["box_place"] == {12 * PLACES + 6: 1, 18 * PLACES + 21: 1}


def test_lists_and_integers_are_counted_as_numbers() -> None:
    """The mark of unlabelled samples is not, nor is a column that is not written."""
    columns = (
        schema.further_column("count", schema.ColumnKind.INT64),
        schema.further_column("names", schema.ColumnKind.BYTES),
        schema.Column("labelled", schema.ColumnKind.INT64, "image/labelled", required=True),
        schema.Column("patient", schema.ColumnKind.INT64, ""),
    )
    samples = [(ImageHeader("png", 1, 1, 3), 9, (value, "x", 1, 7)) for value in (3, None, 4)]
    assert gathered(samples, columns).numbers == {
        "label/count": NumberHistogram(0, ((3, 1), (4, 1)), 3, 4)
    }


def test_the_size_of_statistics_is_bounded() -> None:
    """A shard of anything needs a few kilobytes."""
    boxes = tuple(
        (x / 50, y / 50, x / 50 + 0.3, y / 50 + 0.3, 1) for x in range(40) for y in range(40)
    )
    columns = (
        *schema.object_columns(pixels=False),
        schema.label_column("score", schema.ColumnKind.FLOAT),
    )
    samples = [
        (ImageHeader("png", 1 + i**2, 1 + i**3 % 70_000, 3), 1 + i**4, (boxes, (), i / 7))
        for i in range(250)
    ]
    statistics = gathered(samples, columns)
    assert sum(statistics.counts["box_place"].values()) == 400_000
    assert len(written(statistics)) < 20_000


# --- number histogram ------------------------------------------------------------------------


PARTS = st.lists(st.lists(st.floats())) | st.lists(st.lists(st.integers(-(2**63), 2**63 - 1)))


@given(PARTS)
def test_the_histograms_of_parts_add_up_to_that_of_all(parts: list[list[float]]) -> None:
    """Bin for bin, and written the same way, so that reports have the same bytes."""
    whole = histogram_of([value for part in parts for value in part])
    forwards = sum_of([*map(histogram_of, parts)])
    backwards = sum_of([sum_of([*map(histogram_of, parts[:1])]), *map(histogram_of, parts[1:])])
    assert repr(whole) == repr(forwards) == repr(backwards)
    assert len(whole.bins) <= MOST_BINS
    assert whole.values + whole.not_finite == sum(map(len, parts))


@given(PARTS)
def test_a_histogram_is_read_back(parts: list[list[float]]) -> None:
    """JSON keeps it exactly."""
    whole = histogram_of([value for part in parts for value in part])
    assert repr(decode(RecordedHistogram, json.loads(json.dumps(whole)))) == repr(whole)


def test_bins_are_as_wide_as_the_range_needs() -> None:
    """One value far away makes them wider."""
    assert histogram_of([1, 2, 3]) == NumberHistogram(0, ((1, 1), (2, 1), (3, 1)), 1, 3)
    assert histogram_of([1.0, 2.0, 3.0]).level == -4
    assert histogram_of([1, 2, 3, 1000]) == NumberHistogram(4, ((0, 3), (62, 1)), 1, 1000)


def test_values_that_are_not_finite_are_counted_apart() -> None:
    """They have no bin."""
    assert histogram_of([math.nan, math.inf, 1.0]).not_finite == 2
    assert histogram_of([math.nan]) == NOTHING._replace(not_finite=1)


@pytest.mark.parametrize(
    "values",
    [
        *(5, None, [0, [[1, 1]], "a", 3, 0], [0.5, [[1, 1]], 1, 1, 0]),
        *([0, [[1, "x"]], 1, 1, 0], [5000, [[1, 1]], 1, 1, 0], [9, [[1, 1]], 1, 1, 0]),
        *([0, [[1, 1]], 3, 1, 0], [0, [[1, 1]], math.nan, 1, 0]),
    ],
)
def test_what_is_no_histogram_is_refused(values: Any) -> None:
    """A receipt may come from anyone."""
    with pytest.raises(ValueError, match=r" is .*, expected "):
        decode(RecordedHistogram, values)


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
