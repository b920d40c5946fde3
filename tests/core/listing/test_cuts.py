"""Cuts of large files: between lines, and between the row groups of Parquet files."""

from __future__ import annotations

import csv
import io
from typing import Any

import numpy
import pyarrow
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pyarrow import parquet

from beam_pipeline.core.listing import cuts
from beam_pipeline.core.listing.cuts import (
    LineBlock,
    RowGroupRange,
    columns_of_lines,
    cut_row_groups,
    is_regular,
    numbered_batches,
    scan_block,
    sub_blocks,
)

TEXTS = st.lists(st.sampled_from(['"', ",", "\n", "\r\n", "\r", "a", " ", '"a,b"', 'é"'])).map(
    "".join
)


def records(text: str) -> list[list[str]] | None:
    """The records of a text; None if it is broken."""
    try:
        return list(csv.reader(io.StringIO(text, newline=""), strict=True))
    except csv.Error:
        return None


def scanned(data: bytes, size: int, delimiter: str = ",") -> list[LineBlock]:
    return [
        scan_block(
            lambda offset, size: data[offset : offset + size],
            start=start,
            size=size,
            of=len(data),
            delimiter=delimiter,
        )
        for start in range(0, len(data), size)
    ]


@given(text=TEXTS, size=st.integers(1, 20))
@example(text='a"b,"c\nd",e\n', size=3)
@example(text='"a""\n",b\n', size=4)
def test_regular_blocks_read_one_by_one_are_the_file(text: str, size: int) -> None:
    """Up to the first block that is not regular: from there on, all is read at once."""
    data = text.encode()
    blocks, begin, lines = [], 0, 0
    for block in scanned(data, size):
        if not block.regular:
            blocks.append(data[begin:])
            break
        assert block.begin == begin
        blocks.append(data[block.begin : block.end])
        assert block.lines == len(blocks[-1].splitlines())
        begin, lines = block.end, lines + block.lines
    assert b"".join(blocks) == data
    parts = [records(part.decode()) for part in blocks]
    whole = None if None in parts else [row for part in parts for row in part or ()]
    assert records(text) == whole


@given(text=TEXTS)
def test_columns_of_regular_lines_are_those_of_their_records(text: str) -> None:
    """Or none, where a line is empty, has other cells or is broken."""
    if not is_regular(text.encode(), ","):
        return
    for count in (1, 2, 3):
        columns = columns_of_lines(text, ",", count)
        if columns is not None:
            assert [list(row) for row in zip(*columns, strict=True)] == records(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a,b\nc,d\n", [["a", "c"], ["b", "d"]]),
        ("a,b\r\nc,d", [["a", "c"], ["b", "d"]]),
        ('"a, b",c\n', [["a, b"], ["c"]]),
        ('"say ""a""",\n', [['say "a"'], [""]]),
        ("a,b\n\nc,d\n", None),
        ("a,b\nc\n", None),
        ("a,b\0\n", None),
        ('a,"b\n', None),
        (f"a,{'b' * 200_000}\n", None),
    ],
)
def test_columns_of_lines(text: str, expected: list[list[str]] | None) -> None:
    """Quoted cells lose their quotes; a line that csv would not read as one row gives none."""
    limit = csv.field_size_limit(131_072)
    try:
        columns = columns_of_lines(text, ",", 2)
    finally:
        csv.field_size_limit(limit)
    assert (columns and [list(column) for column in columns]) == expected


@pytest.mark.parametrize(
    ("lines", "delimiter", "regular"),
    [
        (b"a,b\n", ",", True),
        (b'"a,b",c\r\n"d",e', ",", True),
        (b'"a""b",c\n', ",", True),
        (b'"a\nb",c\n', ",", False),
        (b'5" a,b\n', ",", False),
        (b'a, "b"\n', ",", False),
        (b'"a"b,c\n', ",", False),
        (b"a,b\rc,d\n", ",", False),
        (b'"a";"b"\n', ";", True),
        (b'{"file": "a\\nb"}\n', "", True),
        (b'"a\n', "", True),
    ],
)
def test_regular_lines(lines: bytes, delimiter: str, regular: bool) -> None:
    """Quotes around whole cells within a line; without a delimiter, quotes mean nothing."""
    assert is_regular(lines, delimiter) is regular


def test_a_very_long_line_ends_the_cutting(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line may reach over several parts; too long a one is not looked for to its end."""
    data = b"a,b\n" + b"x" * 30 + b"\nc,d\n"
    assert scanned(data, 10) == [
        LineBlock(0, 35, 2, regular=True),
        LineBlock(35, 35, 0, regular=True),
        LineBlock(35, 35, 0, regular=True),
        LineBlock(35, 39, 1, regular=True),
    ]
    monkeypatch.setattr(cuts, "_LONGEST_LINE", 12)
    assert [block.regular for block in scanned(data, 10)][:2] == [False, False]


@given(lines=st.lists(st.text("ab", max_size=9)), size=st.integers(1, 12))
def test_sub_blocks_are_whole_lines(lines: list[str], size: int) -> None:
    """Put together, they are the lines."""
    text = "\n".join(lines).encode()
    blocks = list(sub_blocks(text, size))
    assert b"".join(blocks) == text
    assert all(block.endswith(b"\n") for block in blocks[:-1])
    assert all(blocks)


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
    monkeypatch.setattr(cuts, "_MOST_AT_ONCE", 4 << 20)
    file, table = io.BytesIO(), pyarrow.table({"n": BOMBS[name]})
    is_plain = name in ("plain", "one value")
    parquet.write_table(table, file, use_dictionary=not is_plain, compression="zstd")
    batches = numbered_batches(parquet.ParquetFile(file), None, rows_at_once=4096)
    with pytest.raises(OSError, match=r"a decompression bomb: [0-9,]+ bytes inflate to [0-9,]+"):
        assert sum(batch.nbytes for _, batch in batches) < 0


@pytest.mark.parametrize(
    ("longest", "column_encoding", "rows"),
    [(9, None, 4096), (1 << 16, None, 64), (9, {"name": "DELTA_BYTE_ARRAY"}, 11)],
)
def test_a_large_row_group_is_read_some_thousand_rows_at_a_time(
    longest: int, column_encoding: Any, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless an entry that may repeat is long, or values share their beginnings."""
    monkeypatch.setattr(cuts, "_MOST_AT_ONCE", 4 << 20)
    names = ["x" * longest, None, *(f"{n:09d}" for n in range(200_000))]
    file = io.BytesIO()
    table = pyarrow.table({"name": names})
    parquet.write_table(
        table, file, use_dictionary=not column_encoding, column_encoding=column_encoding
    )
    opened = parquet.ParquetFile(file)
    read = [*numbered_batches(opened, None, rows_at_once=4096, file=file)]
    assert read[0][1].num_rows == pytest.approx(rows, abs=5)
    assert [name for _, batch in read[:3] for name in batch["name"].to_pylist()] == names[
        : 3 * rows
    ]


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
