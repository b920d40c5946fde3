"""Text from data in HTML."""

from __future__ import annotations

import html

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_pipeline.core.report.markup import number, share, size, table, text


@given(st.text())
def test_no_text_leaves_its_place(value: str) -> None:
    """Nothing of it is markup, nor moves a cursor, nor turns the reading direction."""
    shown = text(value)
    assert not set(shown) & set("<>\"'\x00\x1b\n\r\u202e\u2028")
    assert len(html.unescape(shown)) <= 120


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


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        *((0, "0 bytes"), (1, "1 byte"), (999, "999 bytes"), (1500, "1.5 kB")),
        *((999_900, "1 MB"), (200_000_000, "200 MB"), (5 * 10**21, "5e+03 EB")),
    ],
)
def test_how_sizes_are_shown(value: float, shown: str) -> None:
    """In the unit that fits."""
    assert size(value) == shown


def test_how_shares_are_shown() -> None:
    """A small one is not 0."""
    assert [share(part, 10_000) for part in (0, 1, 50, 3333, 10_000)] == [
        *("0 %", "< 0.1 %", "0.5 %", "33 %", "100 %")
    ]
    assert share(0, 0) == "0 %"


def test_a_table_has_headings_for_rows_and_columns() -> None:
    """A column without a name has no empty heading."""
    found = table(["Split", "Samples", ""], [["train", "9", "x"]])
    assert '<th scope="col">Split</th><th scope="col" class="n">Samples</th><td></td>' in found
    assert '<tr><th scope="row">train</th><td class="n">9</td><td class="n">x</td></tr>' in found
