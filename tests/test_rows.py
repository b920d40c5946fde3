"""Rows in text files are run."""

from __future__ import annotations

import re
from pathlib import Path

from tests.rows import sections

FILES = [
    path
    for path in Path(__file__).parent.rglob("test_*.txt")
    if re.search("^== ", path.read_text(encoding="utf-8"), re.MULTILINE)
]


def test_every_section_has_a_test() -> None:
    """None is left of a test that has gone."""
    assert FILES
    for path in FILES:
        code = path.with_suffix(".py").read_text(encoding="utf-8")
        run = re.findall(r"in_rows\ndef (\w+)\(", code)
        assert sorted(sections(path)) == sorted(run)
