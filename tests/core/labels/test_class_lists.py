"""Which classes are lists; test_plausibility.py has those with separators."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from beam_pipeline.core.labels.class_lists import are_flag_rows


@pytest.mark.parametrize(
    ("classes", "expected"),
    [
        (["[1, 0, 0]", "[0, 1, 0]"], True),
        (["1 0", "0 1"], True),
        (["[1. 0.]", "[0. 1.]"], True),
        (["1.0,0.0", "0.0,1.0"], True),
        (["1 0", "0"], False),
        (["1", "0"], False),
        (["10 10", "10 0"], False),
        (["16 0", "7 1"], False),
        (["[1, 0]"], False),
        (["", "1 0"], False),
    ],
)
def test_rows_of_flags_have_the_same_length(classes: Sequence[str], expected: bool) -> None:
    """Two values at least; a single row shows nothing."""
    assert are_flag_rows(classes) is expected
