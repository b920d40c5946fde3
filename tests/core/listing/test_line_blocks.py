"""Cutting files of lines: each line break of a regular block ends a record."""

from __future__ import annotations

import csv
import io

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from beam_pipeline.core.listing import line_blocks
from beam_pipeline.core.listing.line_blocks import (
    LineBlock,
    columns_of_lines,
    is_regular,
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
    monkeypatch.setattr(line_blocks, "_LONGEST_LINE", 12)
    assert [block.regular for block in scanned(data, 10)][:2] == [False, False]


@given(lines=st.lists(st.text("ab", max_size=9)), size=st.integers(1, 12))
def test_sub_blocks_are_whole_lines(lines: list[str], size: int) -> None:
    """Put together, they are the lines."""
    text = "\n".join(lines).encode()
    blocks = list(sub_blocks(text, size))
    assert b"".join(blocks) == text
    assert all(block.endswith(b"\n") for block in blocks[:-1])
    assert all(blocks)
