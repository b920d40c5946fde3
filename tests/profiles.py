"""How many examples property tests try."""

from __future__ import annotations

from hypothesis import settings

QUICK = 50
THOROUGH = 300


def examples(number: int, quick: int = QUICK) -> int:
    """The number of a test of its own: all of them with `--hypothesis-profile=thorough`, else at most `quick`."""
    profile = settings.default
    assert profile is not None
    return number if profile.max_examples > QUICK else min(number, quick)
