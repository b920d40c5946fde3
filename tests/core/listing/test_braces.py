"""Brace patterns stand for what shells make of them."""

from __future__ import annotations

import pytest

from beam_pipeline.core.errors import UsageError
from beam_pipeline.core.listing.braces import expand_braces


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("a.tar", ["a.tar"]),
        ("{train,val}.zip", ["train.zip", "val.zip"]),
        ("s-{8..10}.tar", ["s-8.tar", "s-9.tar", "s-10.tar"]),
        ("s-{008..010}.tar", ["s-008.tar", "s-009.tar", "s-010.tar"]),
        ("s-{2..0}.tar", ["s-2.tar", "s-1.tar", "s-0.tar"]),
        ("{a,b}-{0..1}", ["a-0", "a-1", "b-0", "b-1"]),
        ("{0..1}{,x}", ["0", "0x", "1", "1x"]),
        ("a{b}c{}d", ["a{b}c{}d"]),
        ("a{0...2}", ["a{0...2}"]),
        ("gs://b/{00..01}.tar", ["gs://b/00.tar", "gs://b/01.tar"]),
    ],
)
def test_choices_and_ranges(path: str, names: list[str]) -> None:
    """The first pattern changes slowest; braces of other kinds stay."""
    assert list(expand_braces(path)) == names


@pytest.mark.parametrize("path", ["{0..999999999999}", "{0..999}{0..999}", "{a,b}" * 30])
def test_too_many_names_are_an_error(path: str) -> None:
    """Before they fill the memory."""
    with pytest.raises(UsageError, match="stands for more than 100000 names"):
        expand_braces(path)
