"""Charts and text in HTML: well-formed, with their numbers beside them; nothing from data is markup."""

from __future__ import annotations

import html as escapes
import re
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_pipeline.core.records.image_statistics import EDGES, PLACES, histogram_of
from beam_pipeline.core.report.markup import (
    MOST_BARS,
    Bar,
    Html,
    bar_chart,
    heat_map,
    html,
    length_bar,
    length_chart,
    number,
    number_chart,
    share,
    share_bars,
    text,
)


def parsed(chart: str) -> ElementTree.Element:
    """A chart as XML, which HTML of this kind is."""
    return ElementTree.fromstring(f"<x>{chart}</x>")


def cells(chart: str) -> list[list[str]]:
    """The texts of a chart's table, a row each."""
    rows = parsed(chart).findall(".//tbody/tr")
    return [["".join(cell.itertext()) for cell in row] for row in rows]


def test_a_long_text_at_the_end_of_the_axis_stays_inside() -> None:
    """The last is moved to the left; the others stand where their bars begin."""
    bars = [Bar(text, text, 1) for text in ("0", "1", "2", "560.2 kilobytes")]
    chart = bar_chart("Size", bars)
    texts = parsed(chart).findall(".//text")[1:]
    assert [float(text.get("x", "")) for text in texts] == [0.0, 90.0, 180.0, 267.0]


def test_small_values_are_seen() -> None:
    """A bar has no text, and even a small one is drawn; the most frequent value comes first."""
    (small, large) = parsed(bar_chart("A", [Bar("1", "1", 1), Bar("2", "2", 9999)])).findall(
        ".//rect"
    )
    assert (small.get("height"), large.get("height")) == ("1.0", "114.0")
    chart = share_bars("Format", {"jpeg": 1, "png": 3})
    assert cells(chart) == [["png", "3", "75 %", ""], ["jpeg", "1", "25 %", ""]]
    assert [re.findall('width="(.*?)"', length_bar(count, 1000)) for count in (0, 1, 1000)] == [
        *(["0.0"], ["0.5"], ["100.0"]),
    ]


def test_a_heat_map_says_where_boxes_are() -> None:
    """By thirds of the image."""
    thirds = {row[0]: row[1] for row in cells(heat_map({0: 1, PLACES * PLACES - 1: 3}))}
    assert (thirds["top left"], thirds["bottom right"]) == ("1", "3")


def test_lengths_that_are_alike_have_equal_bins() -> None:
    """Others have bins that double."""
    alike = histogram_of([370, 375, 375])
    counts = {34: 3}
    assert cells(length_chart("H", counts, unit="pixels", equal=alike)) == [
        ["370 pixels", "1", "33 %"],
        ["375 pixels", "2", "67 %"],
    ]
    wide = histogram_of([1, 375, 375])
    assert cells(length_chart("H", {1: 1, 34: 2}, unit="pixels", equal=wide)) == [
        ["1 pixels", "1", "33 %"],
        [
            "332 to 394 pixels".replace("332", str(EDGES[34])).replace("394", str(EDGES[35] - 1)),
            "2",
            "67 %",
        ],
    ]


def test_a_histogram_of_numbers_has_few_bars() -> None:
    """Whole numbers have one each while there are few."""
    assert cells(number_chart("A", histogram_of([1, 2, 2])))[1] == ["2", "2", "67 %"]
    many = number_chart("A", histogram_of([i / 7 for i in range(1000)]))
    assert 10 < len(cells(many)) <= MOST_BARS


def test_values_are_escaped_once_where_they_enter() -> None:
    """Those that are HTML already are not."""
    assert html("<b>{}{}</b>", "<", Html("<i/>")) == html("{}", html("<b>{}<i/></b>", "<"))
    assert html("{} {}", 12345, 0.25) == "12,345 0.25"


@given(st.text())
def test_no_text_leaves_its_place(value: str) -> None:
    """Nothing of it is markup, nor moves a cursor, nor turns the reading direction."""
    shown = text(value)
    assert not set(shown) & set("<>\"'\x00\x1b\n\r\u202e\u2028")
    assert len(escapes.unescape(shown)) <= 120


def test_how_texts_are_shown() -> None:
    """Escaped, on one line, without secrets, shortened."""
    assert text("<script>") == "&lt;script&gt;"
    assert text('a"b\x1b[2J') == "a&quot;b\\x1b[2J"
    assert text("https://me:pw@host/a.jpg?X-Goog-Signature=5e3c") == "https://...@host/a.jpg?..."
    assert text("x" * 5000, 10) == "x" * 9 + "…"
    assert text("\udc80") == "\\udc80"


@pytest.mark.parametrize(
    ("value", "shown"),
    [(12345, "12,345"), (0.25, "0.25"), (2.0, "2"), (1e-07, "1e-07"), (1e300, "1e+300")],
)
def test_how_numbers_are_shown(value: float, shown: str) -> None:
    """With as many digits as one reads."""
    assert number(value) == shown


def test_how_shares_are_shown() -> None:
    """A small one is not 0."""
    assert [share(part, 10_000) for part in (0, 1, 50, 3333, 10_000)] == [
        *("0 %", "< 0.1 %", "0.5 %", "33 %", "100 %")
    ]
    assert share(0, 0) == "0 %"
