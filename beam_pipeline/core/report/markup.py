"""HTML as text: escaped texts, and tables, whose rows have bars where they count something.

Whatever comes from data is escaped on its way in, unless it is `Html`, which only these functions make.
"""

from __future__ import annotations

import html as escapes
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from math import sqrt

from beam_pipeline.core.records import image_statistics
from beam_pipeline.core.records.image_statistics import EDGES, PLACES, NumberHistogram, edge
from beam_pipeline.core.text import counted, span, terminal_line

_MOST = 120  # characters

MOST_BINS = 20
"""Numbers are counted in so many bins of one width; a table with more rows scrolls by itself."""
_NARROW = 16  # times the smallest length; up to there, bins are equal
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
    line = terminal_line(str(value))
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
    heads: Sequence[object], rows: Iterable[Sequence[object]], *, numeric: bool = True
) -> Html:
    """A table; the first cell of a row is its heading. A long one scrolls by itself.

    Args:
      heads: of the columns; the first of them is also its name, for those who cannot see it.
      rows: the cells.
      numeric: whether the other cells are numbers.
    """
    kind = Html(' class="n"' if numeric else "")
    head = (
        html('<th scope="col"{}>{}</th>', kind if index else "", cell)
        if cell
        else Html("<td></td>")
        for index, cell in enumerate(heads)
    )
    body = []
    for first, *cells in rows:
        further = joined(html("<td{}>{}</td>", kind, cell) for cell in cells)
        body.append(html('<tr><th scope="row">{}</th>{}</tr>\n', first, further))
    return html(
        '<div class="{}" tabindex="0" role="group" aria-label="{}"><table><thead><tr>{}</tr></thead>'
        "<tbody>\n{}</tbody></table></div>",
        *("tall" if len(body) > MOST_BINS else "wide", heads[0], joined(head), joined(body)),
    )


def length_bar(count: int, most: int) -> Html:
    """A bar in a table row, without text."""
    width = max(100 * count / most, 0.5 if count else 0) if most else 0
    return html(
        '<svg class="l" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">'
        '<rect class="b" width="{}" height="8"/></svg>',
        f"{width:.1f}",
    )


def rect(
    kind: str, place: tuple[float, float, float, float], title: object, more: object = ""
) -> Html:
    """A rectangle of SVG: its class, its x, y, width and height, its title, and further attributes."""
    return html(
        '<rect class="{}" x="{}" y="{}" width="{}" height="{}"{}><title>{}</title></rect>',
        *(kind, *(f"{value:.1f}" for value in place), more, title),
    )


# --- counts of values -----------------------------------------------------------------------------

Counts = Sequence[tuple[str, int]]
"""(value, how many have it), a row each."""


def counts_table(
    title: str, counts: Counts, *, of: str = "images", note: str = "", picture: object = ""
) -> Html:
    """A figure of counts, with a bar and a share each; empty if nothing was counted.

    Args:
      title: the name of the values.
      counts: in the order of rows.
      of: what has the values.
      note: a sentence below the table.
      picture: is above it.
    """
    amounts = [count for _, count in counts]
    total, most = sum(amounts), max(amounts, default=0)
    rows = ((value, n, share(n, total), length_bar(n, most)) for value, n in counts)
    below = html("<p>{}</p>", note) if note else ""
    figure = (picture, table((title, of.capitalize(), "Share", ""), rows), below)
    return html("<figure>{}</figure>", joined(figure)) if total else Html("")


def frequent_first(counts: Mapping[int | str, int], names: Sequence[str] = ()) -> Counts:
    """Counts of a few values, which have names if they are numbers from 0 on."""
    named = dict(enumerate(names))
    ordered = sorted(counts.items(), key=lambda pair: (-pair[1], str(pair[0])))
    return [
        (f"{key}: {named[key]}" if isinstance(key, int) and named.get(key) else str(key), count)
        for key, count in ordered
    ]


def in_bins(histogram: NumberHistogram, form: Callable[[float], str] = number) -> Counts:
    """Counts of numbers in bins of one width, or of each whole number while there are few."""
    level, counts = image_statistics.readable(histogram, MOST_BINS)
    last = 0 if level == 0 and isinstance(histogram.low, int) else 1
    return [
        (span(form, (edge(index, level), edge(index + last, level))), counts[index])
        for index in range(min(counts), max(counts) + 1)
    ]


def lengths(
    counts: Mapping[int | str, int],
    equal: NumberHistogram = image_statistics.NOTHING,
    form: Callable[[float], str] = number,
) -> Counts:
    """Counts of lengths, which may be very different.

    Args:
      counts: in the bins of `EDGES`, which double.
      equal: counts in equal bins, which are taken where the lengths are not too different.
      form: writes a length.
    """
    if equal.bins and (equal.high <= _NARROW * max(1, equal.low) or equal.high < MOST_BINS):
        return in_bins(equal, form)
    ends = pairwise((*EDGES, EDGES[-1] + 1))
    return _from_first_to_last(counts, [span(form, (low, end - 1)) for low, end in ends])


def aspects(counts: Mapping[int | str, int]) -> Counts:
    """Counts of width / height."""
    edges = [f"{aspect:.2f}" for aspect in image_statistics.ASPECTS]
    between = map(" to ".join, pairwise(edges))
    return _from_first_to_last(counts, [f"less than {edges[0]}", *between, f"{edges[-1]} or more"])


def _from_first_to_last(counts: Mapping[int | str, int], values: Sequence[str]) -> Counts:
    """The counts of bins by their numbers, without the empty ones at both ends."""
    bins = [key for key in counts if isinstance(key, int) and 0 <= key < len(values)]
    return [(values[i], counts.get(i, 0)) for i in range(min(bins), max(bins) + 1)] if bins else []


def heat_map(places: Mapping[int | str, int]) -> Html:
    """Shows where the middles of boxes are in their images."""
    counts = {key: count for key, count in places.items() if isinstance(key, int)}
    most = max(counts.values(), default=0)
    cells, thirds = [], dict.fromkeys(_THIRDS, 0)
    for key, count in sorted(counts.items()):
        row, column = divmod(key, PLACES)
        thirds[_THIRDS[min(2, 3 * row // PLACES) * 3 + 3 * column // PLACES]] += count
        opacity = html(' fill-opacity="{}"', f"{0.06 + 0.94 * sqrt(count / most):.2f}")
        cells.append(rect("b", (column, row, 1, 1), grouped(count, "box/boxes"), opacity))
    picture = html(
        '<svg class="m" viewBox="0 0 {0} {0}" role="img" aria-label="Map of the middles of boxes, '
        'which the table has by thirds of the image">{1}</svg>',
        *(PLACES, joined(cells)),
    )
    note = "The middle of each box in its image; the darker, the more"
    rows = [*thirds.items()]
    return counts_table("Places of boxes", rows, of="boxes", note=note, picture=picture)
