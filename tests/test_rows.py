"""Rows in text files are run."""

from __future__ import annotations

from pathlib import Path

from tests.rows import sections

FILES = [
    path for path in Path(__file__).parent.rglob("test_*.txt") if path.with_suffix(".py").exists()
]


def test_every_section_has_a_test() -> None:
    """None is left of a test that has gone."""
    assert FILES
    for path in FILES:
        code = path.with_suffix(".py").read_text(encoding="utf-8")
        assert [test for test in sections(path) if f"@in_rows\ndef {test}(" not in code] == []
