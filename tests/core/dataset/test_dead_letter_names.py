"""Names of the files that list dead letters, and the part that each falls into."""

from __future__ import annotations

from collections import Counter

import pytest

from beam_pipeline.core.dataset.names import (
    dead_letter_names,
    lists_dead_letters,
    names_in_manifest,
    part_of,
    parts_for,
)
from beam_pipeline.core.dead_letters import DeadLetter


@pytest.mark.parametrize(
    ("count", "parts"),
    [(0, 0), (10**6, 0), (10**6 + 1, 2), (10**7, 10), (10**8, 100), (10**12, 99_999)],
)
def test_a_file_lists_a_million_at_most(count: int, parts: int) -> None:
    """More go into as many parts as are needed, up to the digits of their names."""
    assert parts_for(count) == parts


def test_names_of_parts() -> None:
    """A single file has the name that it always had."""
    assert dead_letter_names(0) == names_in_manifest({}) == ["dead_letters.jsonl"]
    parts = ["dead_letters-00000-of-00002.jsonl", "dead_letters-00001-of-00002.jsonl"]
    assert dead_letter_names(2) == names_in_manifest({"dead_letter_parts": 2}) == parts
    assert all(map(lists_dead_letters, ["dead_letters.jsonl", *parts]))
    assert not any(
        map(lists_dead_letters, ["dead_letters-0-of-2.jsonl", "a.jsonl", "x/" + parts[0]])
    )


@pytest.mark.parametrize("parts", [10, pytest.param(100, marks=pytest.mark.slow)])
def test_parts_are_of_one_size(parts: int) -> None:
    """Rows that all name one image differ by their lines, so no part grows beyond the others."""
    count = 1000 * parts
    rows = (
        DeadLetter("join", "rgb.png", "", "missing_image", "", "/l.csv", n) for n in range(count)
    )
    sizes = Counter(part_of(row, parts) for row in rows)
    assert len(sizes) == parts
    assert max(sizes.values()) < 1200
