"""Row groups: ranges of them have every row of a file once, with its number."""

from __future__ import annotations

import io

import numpy
import pyarrow
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pyarrow import parquet

from beam_pipeline.core.listing import row_groups
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


BIG = bytes(1 << 16)
BOMBS = {
    "a dictionary": pyarrow.array([BIG] * 600),
    "plain": pyarrow.array([BIG] * 600),
    "categories": pyarrow.array([BIG.decode()] * 600).dictionary_encode(),
    "a list": pyarrow.array([numpy.zeros(1 << 20, numpy.int64), []]),
    "one value": pyarrow.array([bytes(5 << 20)]),
}


@pytest.mark.parametrize("name", BOMBS)
def test_nearly_nothing_does_not_become_gigabytes(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory is bounded, whatever repeats: a dictionary's entry, a compressed page, or the items of a list."""
    monkeypatch.setattr(row_groups, "_BATCH_BYTES", 4 << 20)
    file, table = io.BytesIO(), pyarrow.table({"n": BOMBS[name]})
    is_plain = name in ("plain", "one value")
    parquet.write_table(table, file, use_dictionary=not is_plain, compression="zstd")
    batches = numbered_batches(parquet.ParquetFile(file), None, rows_at_once=4096)
    with pytest.raises(OSError, match=r"a decompression bomb: [0-9,]+ bytes inflate to [0-9,]+"):
        assert sum(batch.nbytes for _, batch in batches) < 0


def test_values_that_repeat_are_no_bomb() -> None:
    """A table of few classes inflates by less than compression can, and its categories become texts."""
    n = 200_000
    classes = pyarrow.array(["cat", "dog"] * (n // 2)).dictionary_encode()
    table = pyarrow.table({"n": range(1, n + 1), "class": classes})
    file = io.BytesIO()
    parquet.write_table(table, file, compression="zstd")
    batches = [*numbered_batches(parquet.ParquetFile(file), None, rows_at_once=4096)]
    assert [number for number, _ in batches[:2]] == [1, 4097]
    assert batches[-1][1].to_pylist()[-1] == {"n": n, "class": "dog"}
