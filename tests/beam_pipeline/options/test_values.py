"""Values of options, from text."""

from __future__ import annotations

import argparse
from fractions import Fraction

import pytest

from beam_pipeline.core.records.sharding import SplitFractions
from beam_pipeline.options.group import (
    parse_columns,
    parse_features,
    parse_list_column,
    parse_num_shards,
    parse_size,
    parse_splits,
)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("200MB", 200_000_000),
        ("1KB", 1000),
        ("1KiB", 1024),
        ("1.5MiB", 1_572_864),
        ("2 GB", 2_000_000_000),
        ("3gib", 3 << 30),
        ("123", 123),
    ],
)
def test_sizes_take_decimal_and_binary_units(text: str, size: int) -> None:
    """KB, MB, GB count in thousands, KiB, MiB, GiB in 1,024s."""
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "MB", "12XB", "-3MB", "0", "0.1", "1e3"])
def test_what_is_no_size_is_refused(text: str) -> None:
    """Anything else is an error that shows it."""
    with pytest.raises(argparse.ArgumentTypeError, match=r"size|less"):
        parse_size(text)


def test_splits_shards_and_columns_are_parsed() -> None:
    """Pairs become what the groups hold; shares stay exact."""
    assert parse_splits("train=0.9,validation=0.1") == SplitFractions(
        (("train", Fraction(9, 10)), ("validation", Fraction(1, 10)))
    )
    assert parse_splits("a=1/3,b=2/3").fractions == (("a", Fraction(1, 3)), ("b", Fraction(2, 3)))
    assert parse_num_shards("16") == 16
    assert parse_num_shards("train=128, test=8") == {"train": 128, "test": 8}
    assert parse_columns("n:int,a:b:float") == {"n": "int", "a:b": "float"}
    assert parse_features("image/source_id=label, a=b") == {"image/source_id": "label", "a": "b"}


def test_a_separator_keeps_its_spaces() -> None:
    """All that follows the first `=` separates the values."""
    assert parse_list_column("tags=;") == {"tags": ";"}
    assert parse_list_column("tags=, ") == {"tags": ", "}
    assert parse_list_column("tags==") == {"tags": "="}
    assert parse_list_column("tags=[]") == {"tags": "[]"}
    assert parse_list_column("tags") == {"tags": ""}


@pytest.mark.parametrize("text", ["tags=", "=;", ""])
def test_a_list_column_needs_a_name_and_no_empty_separator(text: str) -> None:
    """The error shows an example, quoted for the shell."""
    with pytest.raises(argparse.ArgumentTypeError, match="COLUMN=SEPARATOR, such as 'tags=;'"):
        parse_list_column(text)
