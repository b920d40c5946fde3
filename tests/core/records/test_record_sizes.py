"""The offsets of records."""

from __future__ import annotations

import pytest

from beam_pipeline.core.errors import DamagedRecordError
from beam_pipeline.core.records.record_sizes import record_offsets


def test_offsets_are_sums_of_sizes() -> None:
    """Records of 19, 16 and 21 bytes; none at all."""
    assert record_offsets([19, 16, 21], "s", examples=3, size=56) == [0, 19, 35, 56]
    assert record_offsets([], "s", examples=0, size=0) == [0]


@pytest.mark.parametrize(
    ("sizes", "error"),
    [
        ([19, 16], "s: 2 records are indexed, the manifest says 3"),
        ([19, 16, 22], "s: its indexed records take 57 bytes, the file has 56"),
        ([19, -16, 21], "s: its indexed records take 24 bytes, the file has 56"),
    ],
)
def test_sizes_that_do_not_fit_the_shard_are_an_error(sizes: list[int], error: str) -> None:
    """Another number of records, or more bytes than the file has."""
    with pytest.raises(DamagedRecordError, match=f"^{error}$"):
        record_offsets(sizes, "s", examples=3, size=56)
