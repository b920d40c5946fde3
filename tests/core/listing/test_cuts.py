"""Ranges of files."""

from __future__ import annotations

import pytest

from beam_pipeline.core.listing.cuts import LineRange, RowGroupRange


@pytest.mark.parametrize(
    ("part", "size", "at_once"),
    [
        (LineRange(), 0, False),
        (LineRange(10, -1, 4), 0, False),
        (LineRange(10, 30), 20, True),
        (RowGroupRange(0, 2, 1, 100, 1 << 20), 1 << 20, True),
        (RowGroupRange(0, 2, 1, 100, 1 << 30), 1 << 30, False),
    ],
)
def test_a_range_of_known_size_is_read_at_once(
    part: LineRange | RowGroupRange, size: int, at_once: bool
) -> None:
    """Unless its row groups are large."""
    assert (part.size, part.read_at_once) == (size, at_once)
