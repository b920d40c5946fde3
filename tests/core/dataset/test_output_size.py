"""The estimate of a data set's size from some of its samples."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from beam_pipeline.core.dataset.tally import (
    Measured,
    mean_seconds,
    measured_samples,
    most_measured,
    written_bytes,
)


def measured(sizes: list[tuple[int, int]]) -> list[Measured]:
    return [Measured(bytes((i,)), size, written, 0.5) for i, (size, written) in enumerate(sizes)]


def test_images_of_one_size_whatever_their_files() -> None:
    """Scaled images have a size of their own."""
    samples = measured([(100, 10), (900, 10), (500, 10)])
    assert written_bytes(samples, 1000, 77) == 10_000


def test_images_that_are_left_as_they_are() -> None:
    """They have the size of their files, and 250 bytes of features."""
    samples = measured([(size, size + 250) for size in (100, 900, 500)])
    assert written_bytes(samples, 1000, 400_000) == 650_000


def test_a_single_sample_or_files_of_one_size() -> None:
    """There is no line through them, so their mean counts."""
    assert written_bytes(measured([(100, 30)]), 10, 5) == 300
    assert written_bytes(measured([(100, 30), (100, 50)]), 10, 5) == 400


@given(
    st.lists(st.tuples(st.integers(0, 10**9), st.integers(0, 10**9)), min_size=1, max_size=50),
    st.integers(0, 10**6),
    st.integers(0, 10**12),
    st.integers(),
)
def test_the_order_of_samples_does_not_matter(
    sizes: list[tuple[int, int]], samples: int, image_bytes: int, seed: int
) -> None:
    """Nor does anything else make it negative."""
    found = measured(sizes)
    estimate = written_bytes(found, samples, image_bytes)
    assert estimate >= 0
    random.Random(seed).shuffle(found)
    assert written_bytes(found, samples, image_bytes) == estimate


def test_a_few_hundred_samples_at_most_are_measured() -> None:
    """And one in twenty of a small data set, so that it takes little of the time."""
    assert [measured_samples(n) for n in (0, 10, 400, 2000, 10**9)] == [16, 16, 20, 100, 256]
    assert most_measured() == 256
    assert mean_seconds(measured([(1, 1), (2, 2)])) == 0.5
