"""Which names of columns are those of quantities."""

from __future__ import annotations

import pytest

from beam_pipeline.core.labels.quantities import is_quantity


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        ("age", True),
        ("boneage", True),
        ("Age (years)", True),
        ("weight_kg", True),
        ("steeringAngle", True),
        ("PRICE", True),
        ("price2", True),
        ("label", False),
        ("image", False),
        ("stage", False),
        ("age_group", False),
        ("AgeRange", False),
        ("weight class", False),
        ("数", False),
        ("", False),
    ],
)
def test_words_of_a_name_decide(column: str, expected: bool) -> None:
    """Words end at what is no letter, and before a capital."""
    assert is_quantity(column) is expected
