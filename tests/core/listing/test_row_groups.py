"""Row groups: ranges of them have every row of a file once, with its number."""

from __future__ import annotations

import io

import pyarrow
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pyarrow import parquet

from beam_pipeline.core.listing.cuts import RowGroupRange
from beam_pipeline.core.listing.row_groups import cut_row_groups, numbered_batches

Rows = list[tuple[int, int]]


def file_of(groups: list[int]) -> io.BytesIO:
    """A Parquet file of row groups of so many rows, each with its own number."""
    file = io.BytesIO()
    schema = pyarrow.schema([("n", pyarrow.int64()), ("other", pyarrow.string())])
    number = 0
    with parquet.ParquetWriter(file, schema) as writer:
        for count in groups:
            number += count
            numbers = range(number - count + 1, number + 1)
            table = pyarrow.table({"n": numbers, "other": map(str, numbers)}, schema)
            writer.write_table(table)
    file.seek(0)
    return file


def rows_of(file: io.BytesIO, groups: RowGroupRange | None) -> Rows:
    opened = parquet.ParquetFile(file)
    return [
        (first + index, fields["n"])
        for first, batch in numbered_batches(opened, groups, rows_at_once=3, columns=["n"])
        for index, fields in enumerate(batch.to_pylist())
    ]


@given(groups=st.lists(st.integers(0, 9), max_size=6), part_bytes=st.integers(1, 900))
@example(groups=[], part_bytes=1)
@example(groups=[0, 0], part_bytes=1)
@example(groups=[3, 0, 4], part_bytes=1)
def test_a_file_cut_anywhere_has_the_same_rows(groups: list[int], part_bytes: int) -> None:
    """In order, with numbers from 1."""
    file = file_of(groups)
    expected = [(number, number) for number in range(1, sum(groups) + 1)]
    parts = cut_row_groups(file, part_bytes)
    assert [row for part in parts for row in rows_of(file, part)] == expected
    assert rows_of(file, None) == expected
    assert [part.size >= part_bytes for part in parts[:-1]] == [True] * len(parts[:-1])
    assert sum(part.rows for part in parts) == sum(groups)


@pytest.mark.parametrize("data", [b"", b"PAR1", b"uri,size\na,1\n" * 9])
def test_a_file_that_is_no_parquet_is_not_cut(data: bytes) -> None:
    """Nor is one that is cut short."""
    assert cut_row_groups(io.BytesIO(data), 1) == []
    assert cut_row_groups(io.BytesIO(file_of([3, 3]).getvalue()[:-1]), 1) == []


@pytest.mark.parametrize("groups", [[], [4], [2, 3, 4], [5, 4], [4, 4]])
def test_a_file_that_has_changed_is_an_error(groups: list[int]) -> None:
    """It has fewer row groups, or others."""
    part = cut_row_groups(file_of([4, 5]), 1)[1]
    assert (part.begin, part.end, part.first, part.rows) == (1, 2, 5, 5)
    with pytest.raises(OSError, match="it has changed since its footer was read"):
        rows_of(file_of(groups), part)
