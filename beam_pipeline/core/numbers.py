"""Ranges of the numbers that a feature can contain."""

from __future__ import annotations

import math
import sys
from typing import Any, TypeGuard

INT64 = range(-(1 << 63), 1 << 63)
"""The integers of an Int64List."""

_LARGEST_FLOAT32 = 3.4028235677973366e38  # from here on, rounding gives infinity


def fits_float32(value: float) -> bool:
    """True if a FloatList can contain a number; it can contain infinities and NaN."""
    return abs(value) < _LARGEST_FLOAT32 or not math.isfinite(value)


def is_integer(value: Any) -> TypeGuard[int]:
    """True if a value of JSON is an integer; `true` is not."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_finite(value: Any) -> TypeGuard[float]:
    """True if a value of JSON is a finite number that a float can contain."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return abs(value) <= sys.float_info.max  # of an integer, isfinite() may fail
