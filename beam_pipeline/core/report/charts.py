"""Charts as inline SVG. Each comes with its numbers as a table, for those who cannot see it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from math import sqrt
from typing import NamedTuple

from beam_pipeline.core.records.image_statistics import (
    ASPECTS,
    EDGES,
    NOTHING,
    PLACES,
    NumberHistogram,
    edge,
    readable,
)
from beam_pipeline.core.report.markup import number, rect, share, table
from beam_pipeline.core.text import human_size

MOST_BARS = 40
_WIDTH, _HEIGHT, _TOP, _BOTTOM = 360, 150, 16, 20  # units of a chart, and its margins
_TICKS = 4
_LETTER = 6.2  # about the width of a letter in the axis
_THIRDS = (("top left", "top", "top right"), ("left", "middle", "right"))
_THIRD_ROWS = (*_THIRDS, ("bottom left", "bottom", "bottom right"))
_NARROW = 16  # times the smallest length; up to there, bins are equal
_ONE = {"images": "image", "boxes": "box", "values": "value", "shards": "shard"}


class Bar(NamedTuple):
    """A bar of a histogram.

    Attributes:
      start: the text of the axis where it begins.
      values: what it counts, for people.
      amount: its height.
    """

    start: str
    values: str
    amount: int


def bar_chart(title: str, bars: Sequence[Bar], *, note: str = "", of: str = "images") -> str:
    """A histogram with its numbers.

    Args:
      title: its name, as HTML.
      bars: from left to right.
      note: a sentence below the name, as HTML.
      of: the unit of the counts.
    """
    most = max((bar.amount for bar in bars), default=0)
    if not most:
        return ""
    width = _WIDTH / len(bars)
    room = _HEIGHT - _TOP - _BOTTOM
    drawn = []
    for index, bar in enumerate(bars):
        if bar.amount:
            height = max(1.0, room * bar.amount / most)
            place = (index * width, _TOP + room - height, max(1.0, width - 1), height)
            drawn.append(rect("b", *place, f"{bar.values}: {number(bar.amount)}"))
    peak = max(bars, key=lambda bar: bar.amount)
    total = sum(bar.amount for bar in bars)
    spoken = (
        f"Histogram of {number(total)} {of}. Most are at {peak.values}: {number(peak.amount)}, "
        f"{share(peak.amount, total)}."
    )
    base = _HEIGHT - _BOTTOM
    picture = (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{spoken}">'
        f'<text class="t" x="0" y="11">{number(most)} {_ONE.get(of, of) if most == 1 else of}</text>'
        f'<line class="a" x1="0" y1="{base}" x2="{_WIDTH}" y2="{base}"/>'
        f"{''.join(drawn)}{_ticks(bars)}</svg>"
    )
    rows = [
        [bar.values, number(bar.amount), share(bar.amount, total)] for bar in bars if bar.amount
    ]
    return figure(title, picture, [title, of.capitalize(), "Share"], rows, note=note)


def _ticks(bars: Sequence[Bar]) -> str:
    """Texts of the axis, below the left ends of some bars; the last is moved inside if it is long."""
    width = _WIDTH / len(bars)
    places = range(0, len(bars), -(-len(bars) // _TICKS))
    texts = []
    for index in places:
        x = min(index * width, _WIDTH - _LETTER * len(bars[index].start))
        texts.append(f'<text class="t" x="{x:.1f}" y="{_HEIGHT - 5}">{bars[index].start}</text>')
    return "".join(texts)


def figure(
    title: str, picture: str, heads: list[str], rows: list[list[str]], *, note: str = ""
) -> str:
    """A picture with its name, and its numbers, which a button shows. All texts are HTML."""
    below_title = f"<p>{note}</p>" if note else ""
    return (
        f"<figure><figcaption>{title}</figcaption>{below_title}{picture}"
        f'<details><summary>Numbers<span class="s"> of {title}</span></summary>'
        f"{table(heads, rows)}"
        "</details></figure>"
    )


def length_chart(
    title: str,
    counts: Mapping[int | str, int],
    *,
    unit: str,
    equal: NumberHistogram = NOTHING,
    of: str = "images",
    note: str = "",
) -> str:
    """A histogram of lengths.

    Args:
      title: its name, as HTML.
      counts: in bins of `EDGES`, which double.
      unit: "bytes", "pixels" or empty.
      equal: counts in equal bins, which are shown where the lengths are not too different.
      of: what has the lengths.
      note: a sentence below the name, as HTML.
    """
    if equal.bins and (equal.high <= _NARROW * max(1, equal.low) or equal.high < MOST_BARS):
        return number_chart(title, equal, note=note, unit=unit, of=of)
    bars = [
        Bar(_length(EDGES[index], unit), _lengths(index, unit), counts.get(index, 0))
        for index in _bins(counts, len(EDGES) - 1)
    ]
    return bar_chart(title, bars, of=of, note=note)


def _bins(counts: Mapping[int | str, int], last: int) -> range:
    """All bins from the first to the last that has any."""
    bins = [key for key in counts if isinstance(key, int) and 0 <= key <= last]
    return range(min(bins), max(bins) + 1) if bins else range(0)


def _length(value: float, unit: str) -> str:
    return human_size(value) if unit == "bytes" else number(value)


def _lengths(index: int, unit: str) -> str:
    """The lengths in a bin: `8` or `8 to 9`."""
    first, last = EDGES[index], EDGES[min(index + 1, len(EDGES) - 1)] - 1
    if unit == "bytes":
        return (
            f"{human_size(first)} to {human_size(last + 1)}" if last > first else human_size(first)
        )
    of = f" {unit}" if unit else ""
    return f"{number(first)} to {number(last)}{of}" if last > first else f"{number(first)}{of}"


def aspect_chart(counts: Mapping[int | str, int]) -> str:
    """A histogram of width / height."""
    bars = [
        Bar(f"{ASPECTS[index - 1]:.2g}" if index else "0", _aspects(index), counts.get(index, 0))
        for index in _bins(counts, len(ASPECTS))
    ]
    wide = sum(count for key, count in counts.items() if isinstance(key, int) and key > _SQUARE)
    tall = sum(count for key, count in counts.items() if isinstance(key, int) and key < _SQUARE)
    total = sum(counts.values())
    note = (
        f"{share(wide, total)} wide, {share(total - wide - tall, total)} about square, "
        f"{share(tall, total)} tall"
    )
    return bar_chart("Width / height", bars, note=note)


_SQUARE = len(ASPECTS) // 2


def _aspects(index: int) -> str:
    if index == 0:
        return f"less than {ASPECTS[0]:.2f}"
    if index == len(ASPECTS):
        return f"{ASPECTS[-1]:.2f} or more"
    return f"{ASPECTS[index - 1]:.2f} to {ASPECTS[index]:.2f}"


def number_chart(
    title: str, histogram: NumberHistogram, *, note: str = "", unit: str = "", of: str = "values"
) -> str:
    """A histogram of numbers; it takes the arguments of `length_chart`."""
    if not histogram.bins:
        return ""
    level, counts = readable(histogram, MOST_BARS)
    whole = level == 0 and isinstance(histogram.low, int)
    bars = []
    for index in range(min(counts), max(counts) + 1):
        start, end = _length(edge(index, level), unit), _length(edge(index + 1, level), unit)
        values = start if whole else f"{start} to {end}"
        values += "" if unit in ("", "bytes") else f" {unit}"
        bars.append(Bar(start, values, counts[index]))
    return bar_chart(title, bars, of=of, note=note)


def heat_map(places: Mapping[int | str, int]) -> str:
    """Shows where the middles of boxes are in their images."""
    counts = {key: count for key, count in places.items() if isinstance(key, int)}
    most, total = max(counts.values(), default=0), sum(counts.values())
    if not most:
        return ""
    cells = []
    thirds = [[0] * 3 for _ in range(3)]
    for key, count in sorted(counts.items()):
        row, column = divmod(key, PLACES)
        thirds[min(2, 3 * row // PLACES)][3 * column // PLACES] += count
        opacity = f' fill-opacity="{0.06 + 0.94 * sqrt(count / most):.2f}"'
        title = "1 box" if count == 1 else f"{number(count)} boxes"
        cells.append(rect("b", column, row, 1, 1, title, opacity))
    counted = [*zip(chain(*_THIRD_ROWS), chain(*thirds), strict=True)]
    where, there = max(counted, key=lambda pair: pair[1])
    spoken = (
        f"Map of the middles of {number(total)} boxes. Most, {number(there)} or "
        f"{share(there, total)}, are: {where}."
    )
    rows = [[name, number(count), share(count, total)] for name, count in counted]
    picture = (
        f'<svg class="m" viewBox="0 0 {PLACES} {PLACES}" role="img" aria-label="{spoken}">'
        f"{''.join(cells)}</svg>"
    )
    return figure(
        "Places of boxes",
        picture,
        ["Third of the image", "Boxes", "Share"],
        rows,
        note="The middle of each box in its image; the darker, the more",
    )


def share_bars(title: str, counts: Iterable[tuple[str, int]], *, of: str = "Images") -> str:
    """A table of a few values, each with its count and a bar. Names are HTML."""
    values = list(counts)
    total = sum(count for _, count in values)
    if not total:
        return ""
    rows = [[name, number(count), share(count, total), bar(count, total)] for name, count in values]
    return f"<figure>{table([title, of, 'Share', ''], rows)}</figure>"


def bar(count: int, most: int) -> str:
    """A bar in a table row, without text."""
    width = 100 * count / most if most else 0
    return (
        '<svg class="l" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect class="b" width="{max(width, 0.5 if count else 0):.1f}" height="8"/></svg>'
    )
