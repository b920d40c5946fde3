"""The figures of duplicates: their file, and how reports and messages tell them."""

from __future__ import annotations

import json

import pytest

from beam_pipeline.core.dataset.duplicates import (
    NO_DUPLICATES,
    Duplicates,
    described,
    parse_duplicates,
)
from beam_pipeline.core.errors import ConversionError
from tests.core.dataset.duplicate_images import DUPLICATES


def test_the_file_is_read_as_it_was_written() -> None:
    """A file that is none of ours is an error that names it."""
    data = json.dumps(DUPLICATES.to_json()).encode()
    assert parse_duplicates(data, "d") == DUPLICATES
    for other in (b"", b"[]", b"{}", data.replace(b"-duplicates", b""), data.replace(b"2", b'"x"')):
        with pytest.raises(
            ConversionError, match=r"^d does not list the duplicates of a data set \("
        ):
            parse_duplicates(other, "d")


def test_the_report_shows_counts_and_examples() -> None:
    """Nothing where there are no duplicates."""
    figures = DUPLICATES.to_figures()
    assert list(figures) == [
        "images compared",
        "images that occur several times",
        "groups of the same bytes",
        "groups across splits",
        "groups with different labels",
        "examples",
    ]
    examples = [
        ", ".join(f"{key} ({split})" for split, key in group.shown) for group in DUPLICATES.examples
    ]
    assert figures["examples"] == examples
    assert NO_DUPLICATES.to_figures() == {}


def test_duplicates_are_described_by_their_worst() -> None:
    """A line for each kind, with an example."""
    assert list(described(DUPLICATES)) == [
        "5 images in 2 groups of the same bytes, such as b1 (train) and b9 (test)",
        "1 group across splits (such as test and train): a model would be tested on what it was "
        "trained on",
        "1 group with different labels, such as a0 and a1",
    ]
    assert list(described(Duplicates(compared=9))) == []
