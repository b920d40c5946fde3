"""The numbers that features can hold."""

from __future__ import annotations

import math
import struct
import sys
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from beam_pipeline.core.typed_json import (
    INT64,
    fits_float32,
    is_finite,
    is_integer,
)

LARGEST_FLOAT32 = 3.4028234663852886e38
HALFWAY = 3.4028235677973366e38  # to what would be the next float32; it rounds up, out of range


@given(st.floats())
@example(LARGEST_FLOAT32)
@example(-LARGEST_FLOAT32)
@example(math.nextafter(HALFWAY, 0))
@example(HALFWAY)
@example(-HALFWAY)
def test_a_number_fits_if_it_packs_as_a_float32(value: float) -> None:
    """Infinities and NaN are among the values of a FloatList; a number that rounds to one is not."""
    try:
        struct.pack("<f", value)
    except OverflowError:
        assert not fits_float32(value)
    else:
        assert fits_float32(value)


@pytest.mark.parametrize("number", [-(2**63), 2**63 - 1])
def test_the_integers_of_an_int64_list(number: int) -> None:
    """Both ends are in; the next number is not."""
    assert number in INT64
    assert number + (1 if number > 0 else -1) not in INT64


@pytest.mark.parametrize(
    ("value", "integer", "finite"),
    [
        (0, True, True),
        (-(2**70), True, True),
        (10**400, True, False),
        (1.0, False, True),
        (sys.float_info.max, False, True),
        (math.inf, False, False),
        (math.nan, False, False),
        (True, False, False),
        ("1", False, False),
        (None, False, False),
        ([1], False, False),
    ],
)
def test_the_numbers_of_json(value: Any, integer: bool, finite: bool) -> None:
    """`true` is no number, 1.0 is no integer, and an integer may be too large for a float."""
    assert is_integer(value) is integer
    assert is_finite(value) is finite
