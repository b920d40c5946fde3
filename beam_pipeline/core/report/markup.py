"""HTML and SVG as text. Everything that comes from data passes `text` on its way in."""

from __future__ import annotations

import html

from beam_pipeline.core.text import terminal_line

_MOST = 120  # characters
_CONSIDERED = 4_000  # characters of a longer text; the rest is not looked at


def text(value: object, most: int = _MOST) -> str:
    r"""Any text as HTML: escaped, on one line, without secrets of URLs, and shortened.

    >>> text("<b>\n")
    '&lt;b&gt;\\n'
    """
    line = terminal_line(str(value)[:_CONSIDERED])
    if len(line) > most:
        line = f"{line[: most - 1]}…"
    return html.escape(line)


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
    if not whole:
        return "0 %"
    percent = 100 * part / whole
    if 0 < percent < 0.1:
        return "< 0.1 %"
    return f"{percent:.1f} %" if percent < 10 and percent else f"{percent:.0f} %"


def table(
    heads: list[str],
    rows: list[list[str]],
    *,
    numeric: bool = True,
    label: str = "Table",
    tall: bool = False,
) -> str:
    """A table of cells that are HTML; the first cell of a row is its heading.

    Args:
      heads: of the columns.
      rows: the cells.
      numeric: whether the other cells are numbers.
      label: its name, for those who cannot see it.
      tall: whether it scrolls by itself.
    """
    kind = ' class="n"' if numeric else ""
    head = "".join(
        f'<th scope="col"{kind if index else ""}>{cell}</th>' if cell else "<td></td>"
        for index, cell in enumerate(heads)
    )
    body = "".join(
        f'<tr><th scope="row">{first}</th>{"".join(f"<td{kind}>{cell}</td>" for cell in cells)}</tr>\n'
        for first, *cells in rows
    )
    return (
        f'<div class="{"tall" if tall else "wide"}" tabindex="0" role="group" aria-label="{label}">'
        f"<table><thead><tr>{head}</tr></thead><tbody>\n{body}</tbody></table></div>"
    )


def rect(
    kind: str, x: float, y: float, width: float, height: float, title: str, more: str = ""
) -> str:
    """A rectangle of SVG: its class, its place, its title as HTML, and further attributes."""
    return (
        f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"{more}>'
        f"<title>{title}</title></rect>"
    )
