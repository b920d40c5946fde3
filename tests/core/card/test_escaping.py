"""Text from data in Markdown and YAML: nothing of it is markup."""

from __future__ import annotations

import pytest
import yaml as pyyaml
from hypothesis import given
from hypothesis import strategies as st

from beam_pipeline.core.card.readme import code, markdown, yaml


@given(st.text())
def test_yaml_reads_any_text_back(text: str) -> None:
    """Line ends, quotes, colons and control characters come back as they were, from one line."""
    scalar = yaml(text)
    assert "\n" not in scalar
    assert pyyaml.safe_load(f"- {scalar}\n- 1\n") == [text, 1]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("cat", "cat"),
        ("a | b", r"a \| b"),
        ("<script>", r"\<script\>"),
        ("*x* [y](z) `w`", r"\*x\* \[y\](z) \`w\`"),
        ("a\nb\u202ec", r"a\\nb\\u202ec"),
        (" www.example.org ", r"www\.example.org"),
        ("https://x @me #1 &amp;", r"https\://x \@me \#1 \&amp;"),
    ],
)
def test_markdown_shows_the_text(text: str, shown: str) -> None:
    """On one line of a table's cell, without markup, links or entities."""
    assert markdown(text) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("image/encoded", "`image/encoded`"),
        ("a`b", r"a\`b"),
        ("a|b", r"a\|b"),
        ("", ""),
        (" a", "a"),
    ],
)
def test_code_is_a_span_where_it_can_be(text: str, shown: str) -> None:
    """A backtick or a bar cannot stand in a span in a table."""
    assert code(text) == shown
