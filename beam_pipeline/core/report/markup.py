"""HTML and SVG as text: escaped texts, tables and charts, each chart with its numbers as a table.

Whatever comes from data is escaped on its way in, unless it is `Html`, which only these functions make.
"""

from __future__ import annotations

import html as escapes
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
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
from beam_pipeline.core.text import counted, human_size, terminal_line

_MOST = 120  # characters
_CONSIDERED = 4_000  # characters of a longer text; the rest is not looked at

MOST_BARS = 40
_WIDTH, _HEIGHT, _TOP, _BOTTOM = 360, 150, 16, 20  # units of a chart, and its margins
_TICKS = 4
_LETTER = 6.2  # about the width of a letter in the axis
_NARROW = 16  # times the smallest length; up to there, bins are equal
_ONE = {"images": "image", "boxes": "box", "values": "value", "shards": "shard"}
_THIRDS = (
    *("top left", "top", "top right", "left", "middle", "right"),
    *("bottom left", "bottom", "bottom right"),
)


class Html(str):
    """A text that is HTML already, and is not escaped again."""

    __slots__ = ()


def text(value: object, most: int = _MOST) -> Html:
    r"""Any value as HTML: a text escaped, on one line, without secrets of URLs, and shortened.

    >>> text("<b>\n"), text(12345)
    ('&lt;b&gt;\\n', '12,345')
    """
    if isinstance(value, Html):
        return value
    if isinstance(value, (int, float)):
        return Html(number(value))
    line = terminal_line(str(value)[:_CONSIDERED])
    return Html(escapes.escape(line if len(line) <= most else f"{line[: most - 1]}…"))


def html(template: str, *values: object) -> Html:
    """HTML with values in the place of each `{}`.

    >>> html("<b>{}</b>", "1 < 2")
    '<b>1 &lt; 2</b>'
    """
    return Html(template.format(*map(text, values)))


def joined(parts: Iterable[object], by: str = "") -> Html:
    """Values as HTML, one after the other."""
    return Html(by.join(map(text, parts)))


def number(value: float) -> str:
    """A number for people: 12,345 or 0.25.

    >>> number(12345), number(0.25), number(1e-07), number(2.0)
    ('12,345', '0.25', '1e-07', '2')
    """
    if isinstance(value, int) or (abs(value) < 1e15 and value == int(value)):
        return f"{int(value):,}"
    return f"{value:,.4g}" if abs(value) < 1e4 else f"{value:,.6g}"


def share(part: float, whole: float) -> str:
    """A share in percent: 12 %, or 0.4 %."""
    percent = 100 * part / whole if whole else 0
    if 0 < percent < 0.1:
        return "< 0.1 %"
    return f"{percent:.1f} %" if percent < 10 and percent else f"{percent:.0f} %"


def grouped(count: int, noun: str) -> str:
    """A number of things: `1 class`, `1,000 classes`."""
    return counted(count, noun).replace(str(count), number(count), 1)


def table(
    heads: Sequence[object],
    rows: Iterable[Sequence[object]],
    *,
    numeric: bool = True,
    label: str = "Table",
    tall: bool = False,
) -> Html:
    """A table; the first cell of a row is its heading.

    Args:
      heads: of the columns.
      rows: the cells.
      numeric: whether the other cells are numbers.
      label: its name, for those who cannot see it.
      tall: whether it scrolls by itself.
    """
    kind = Html(' class="n"' if numeric else "")
    head = (
        html('<th scope="col"{}>{}</th>', kind if index else "", cell)
        if cell
        else Html("<td></td>")
        for index, cell in enumerate(heads)
    )
    body = (
        html(
            '<tr><th scope="row">{}</th>{}</tr>\n',
            first,
            joined(html("<td{}>{}</td>", kind, cell) for cell in cells),
        )
        for first, *cells in rows
    )
    return html(
        '<div class="{}" tabindex="0" role="group" aria-label="{}"><table><thead><tr>{}</tr></thead>'
        "<tbody>\n{}</tbody></table></div>",
        *("tall" if tall else "wide", label, joined(head), joined(body)),
    )


def rect(
    kind: str, place: tuple[float, float, float, float], title: object, more: object = ""
) -> Html:
    """A rectangle of SVG: its class, its x, y, width and height, its title, and further attributes."""
    return html(
        '<rect class="{}" x="{}" y="{}" width="{}" height="{}"{}><title>{}</title></rect>',
        *(kind, *(f"{value:.1f}" for value in place), more, title),
    )


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


def bar_chart(title: object, bars: Sequence[Bar], *, note: object = "", of: str = "images") -> Html:
    """A histogram with its numbers.

    Args:
      title: its name.
      bars: from left to right.
      note: a sentence below the name.
      of: the unit of the counts.
    """
    most = max((bar.amount for bar in bars), default=0)
    if not most:
        return Html("")
    width, base = _WIDTH / len(bars), _HEIGHT - _BOTTOM
    drawn = []
    for index, bar in enumerate(bars):
        if bar.amount:
            height = max(1.0, (base - _TOP) * bar.amount / most)
            place = (index * width, base - height, max(1.0, width - 1), height)
            drawn.append(rect("b", place, f"{bar.values}: {number(bar.amount)}"))
    for index in range(0, len(bars), -(-len(bars) // _TICKS)):
        start = bars[index].start
        x = min(index * width, _WIDTH - _LETTER * len(start))  # a long text at the end stays inside
        drawn.append(
            html('<text class="t" x="{}" y="{}">{}</text>', f"{x:.1f}", _HEIGHT - 5, start)
        )
    peak = max(bars, key=lambda bar: bar.amount)
    total = sum(bar.amount for bar in bars)
    picture = html(
        '<svg viewBox="0 0 {0} {1}" role="img" aria-label="Histogram of {2} {3}. Most are at {4}: {5}, {6}.">'
        '<text class="t" x="0" y="11">{5} {7}</text>'
        '<line class="a" x1="0" y1="{8}" x2="{0}" y2="{8}"/>{9}</svg>',
        *(_WIDTH, _HEIGHT, total, of, peak.values, most, share(most, total)),
        *(_ONE.get(of, of) if most == 1 else of, base, joined(drawn)),
    )
    rows = [(bar.values, bar.amount, share(bar.amount, total)) for bar in bars if bar.amount]
    return _figure(title, picture, (title, of.capitalize(), "Share"), rows, note)


def _figure(
    title: object,
    picture: Html,
    heads: Sequence[object],
    rows: Iterable[Sequence[object]],
    note: object,
) -> Html:
    """A picture with its name, and its numbers, which a button shows."""
    return html(
        "<figure><figcaption>{0}</figcaption>{1}{2}<details><summary>Numbers"
        '<span class="s"> of {0}</span></summary>{3}</details></figure>',
        *(title, html("<p>{}</p>", note) if note else "", picture, table(heads, rows)),
    )


def length_chart(
    title: object,
    counts: Mapping[int | str, int],
    *,
    unit: str,
    equal: NumberHistogram = NOTHING,
    of: str = "images",
    note: object = "",
) -> Html:
    """A histogram of lengths.

    Args:
      title: its name.
      counts: in bins of `EDGES`, which double.
      unit: "bytes", "pixels" or empty.
      equal: counts in equal bins, which are shown where the lengths are not too different.
      of: what has the lengths.
      note: a sentence below the name.
    """
    if equal.bins and (equal.high <= _NARROW * max(1, equal.low) or equal.high < MOST_BARS):
        return number_chart(title, equal, note=note, unit=unit, of=of)
    bars = []
    for index in _bins(counts, len(EDGES) - 1):
        low, end = EDGES[index], EDGES[min(index + 1, len(EDGES) - 1)]
        high = low if end - 1 <= low else end if unit == "bytes" else end - 1
        bars.append(_bar((low, high), unit, counts.get(index, 0)))
    return bar_chart(title, bars, of=of, note=note)


def _bins(counts: Mapping[int | str, int], last: int) -> range:
    """All bins from the first to the last that has any."""
    bins = [key for key in counts if isinstance(key, int) and 0 <= key <= last]
    return range(min(bins), max(bins) + 1) if bins else range(0)


def _bar(ends: Sequence[float], unit: str, amount: int) -> Bar:
    """The bar of lengths or numbers, which it states as `8` or `8 to 9 pixels`."""
    texts = [human_size(end) if unit == "bytes" else number(end) for end in ends]
    values = " to ".join(dict.fromkeys(texts))  # or one, if both are the same
    return Bar(texts[0], values + (f" {unit}" if unit not in ("", "bytes") else ""), amount)


def number_chart(
    title: object,
    histogram: NumberHistogram,
    *,
    note: object = "",
    unit: str = "",
    of: str = "values",
) -> Html:
    """A histogram of one number or more; it takes the arguments of `length_chart`."""
    level, counts = readable(histogram, MOST_BARS)
    ends = 1 if level == 0 and isinstance(histogram.low, int) else 2
    bars = [
        _bar([edge(index + end, level) for end in range(ends)], unit, counts[index])
        for index in range(min(counts), max(counts) + 1)
    ]
    return bar_chart(title, bars, of=of, note=note)


def aspect_chart(counts: Mapping[int | str, int]) -> Html:
    """A histogram of width / height."""
    values = [
        f"less than {ASPECTS[0]:.2f}",
        *(f"{low:.2f} to {high:.2f}" for low, high in pairwise(ASPECTS)),
        f"{ASPECTS[-1]:.2f} or more",
    ]
    bars = [
        Bar(f"{ASPECTS[index - 1]:.2g}" if index else "0", values[index], counts.get(index, 0))
        for index in _bins(counts, len(ASPECTS))
    ]
    square, total = len(ASPECTS) // 2, sum(counts.values())
    wide = sum(count for key, count in counts.items() if isinstance(key, int) and key > square)
    tall = sum(count for key, count in counts.items() if isinstance(key, int) and key < square)
    note = (
        f"{share(wide, total)} wide, {share(total - wide - tall, total)} about square, "
        f"{share(tall, total)} tall"
    )
    return bar_chart("Width / height", bars, note=note)


def heat_map(places: Mapping[int | str, int]) -> Html:
    """Shows where the middles of boxes are in their images."""
    counts = {key: count for key, count in places.items() if isinstance(key, int)}
    most, total = max(counts.values(), default=0), sum(counts.values())
    if not most:
        return Html("")
    cells, thirds = [], [0] * len(_THIRDS)
    for key, count in sorted(counts.items()):
        row, column = divmod(key, PLACES)
        thirds[min(2, 3 * row // PLACES) * 3 + 3 * column // PLACES] += count
        title = "1 box" if count == 1 else f"{number(count)} boxes"
        opacity = html(' fill-opacity="{}"', f"{0.06 + 0.94 * sqrt(count / most):.2f}")
        cells.append(rect("b", (column, row, 1, 1), title, opacity))
    there = max(thirds)
    picture = html(
        '<svg class="m" viewBox="0 0 {0} {0}" role="img" aria-label="Map of the middles of {1} boxes. '
        'Most, {2} or {3}, are: {4}.">{5}</svg>',
        *(PLACES, total, there, share(there, total), _THIRDS[thirds.index(there)], joined(cells)),
    )
    rows = [(name, count, share(count, total)) for name, count in zip(_THIRDS, thirds, strict=True)]
    note = "The middle of each box in its image; the darker, the more"
    return _figure("Places of boxes", picture, ("Third of the image", "Boxes", "Share"), rows, note)


def share_bars(title: str, counts: Mapping[int | str, int], names: Sequence[str] = ()) -> Html:
    """A table of a few values, each with its count and a bar, the most frequent first.

    Args:
      title: the name of the values.
      counts: value -> count.
      names: of values that are numbers from 0 on, if they have any.
    """
    total = sum(counts.values())
    rows = []
    for key, count in sorted(counts.items(), key=lambda pair: (-pair[1], str(pair[0]))):
        named = isinstance(key, int) and 0 < key < len(names)
        value = f"{key}: {names[int(key)]}" if named else str(key)
        rows.append((value, count, share(count, total), length_bar(count, total)))
    numbers = table((title, "Images", "Share", ""), rows)
    return html("<figure>{}</figure>", numbers) if total else Html("")


def length_bar(count: int, most: int) -> Html:
    """A bar in a table row, without text."""
    width = 100 * count / most if most else 0
    return html(
        '<svg class="l" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">'
        '<rect class="b" width="{}" height="8"/></svg>',
        f"{max(width, 0.5 if count else 0):.1f}",
    )
