"""Inventories, and the parts into which large files are cut."""

from __future__ import annotations

import csv
import gzip
import io
from decimal import Decimal
from typing import Any

import numpy
import pyarrow
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pyarrow import parquet

from beam_pipeline.core.errors import InventoryError
from beam_pipeline.core.listing import cuts, inventory
from tests.rows import in_rows, raised

Content = bytes | str | dict[str, Any]
"""A file, its text, or the columns of one in Parquet."""


def file_with(content: Content) -> io.BytesIO:
    if isinstance(content, dict):
        file = io.BytesIO()
        parquet.write_table(pyarrow.table(content), file, row_group_size=2)
        content = file.getvalue()
    return io.BytesIO(content.encode() if isinstance(content, str) else content)


def read(content: Content) -> list[tuple[Any, ...]]:
    """(uri, size, version, line, whether it was not replaced) of each row."""
    parts = inventory.read_inventory(file_with(content), "i.csv")
    return [row for rows in parts for row in zip(*rows, strict=True)]


def read_in_lines(content: str, *, regular: bool) -> list[tuple[Any, ...]]:
    """The same of a file of CSV whose lines are in memory."""
    header, data = inventory.csv_header(file_with(content), "i.csv"), content.encode()
    assert header
    parts = inventory.read_lines(data, "i.csv", header, first_line=1, regular=regular)
    return [row for rows in parts for row in zip(*rows, strict=True)]


def problem(content: Content) -> str:
    return str(raised(InventoryError, read, content))


@in_rows
def test_an_inventory_has_these_rows(content: Content, rows: list[tuple[Any, ...]]) -> None:
    """In CSV with any of the usual separators, and in Parquet."""
    assert read(content) == rows
    if isinstance(content, str):
        assert read_in_lines(content, regular=False) == rows


@in_rows
def test_what_is_no_inventory_is_an_error(content: Content, message: str) -> None:
    """With the file, the row, what was found and what was expected."""
    assert problem(content) == f"--inventory i.csv{message}"


def test_a_quote_that_is_not_closed_is_an_error_however_lines_are_read() -> None:
    """Where each line is known to end a record, its row is still parsed as CSV is."""
    content = 'uri,size\n"a"b.jpg,1\n'
    for regular in (False, True):
        error = raised(InventoryError, read_in_lines, content, regular=regular)
        assert str(error) == problem(content)


def test_the_cells_of_parquet() -> None:
    """Whole numbers may be numbers or text, the columns may be any, a null is an empty cell."""
    columns = {
        "contentType": ["image/jpeg"] * 3,
        "name": ["é/a.jpg", "b.jpg", "b.jpg"],
        "bucket": pyarrow.array(["pets"] * 3).dictionary_encode(),
        "size": [12, 1 << 40, 3],
        "generation": ["1700", None, "5"],
        "timeDeleted": pyarrow.array([None, None, 0], pyarrow.timestamp("us", "UTC")),
    }
    assert read(columns) == [
        ("gs://pets/é/a.jpg", 12, 1700, 1, True),
        ("gs://pets/b.jpg", 1 << 40, 0, 2, True),
        ("gs://pets/b.jpg", 3, 5, 3, False),
    ]
    names = pyarrow.array([b"a.jpg", b"caf\xe9.jpg"])
    broken = pyarrow.StringArray.from_buffers(2, *names.buffers()[1:])
    huge = pyarrow.array([2**64 - 1], pyarrow.uint64())
    damaged = "--inventory i.csv is damaged or cut short"
    assert problem(file_with(columns).getvalue()[:-9]).startswith(damaged)
    assert problem({"uri": broken, "size": [1, 2]}).startswith(f"{damaged} ('utf-8' codec can't")
    assert problem({"uri": ["a"], "size": huge}).endswith(
        "row 1: the column size contains 18446744073709551615, expected less than 2^63"
    )


def test_a_gzipped_inventory_is_known_by_its_bytes() -> None:
    """Whatever it is called; several members are one file."""
    data = gzip.compress(b"uri,size\na,1\n") + gzip.compress(b"b,2\n")
    assert read(data) == [("a", 1, 0, 2, True), ("b", 2, 0, 3, True)]
    for broken in (data[:-6], data[:-8] + b"12345678"):
        assert problem(broken).startswith("--inventory i.csv is damaged or cut short")


def test_a_number_of_thousands_of_digits_is_too_large() -> None:
    """Python refuses to make an integer of it."""
    assert problem(f"uri,size\na,{'9' * 10_000}\n").endswith("..., expected less than 2^63")


TEXTS = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), min_size=1)


@given(st.lists(st.tuples(TEXTS, st.integers(0, 1 << 50))))
def test_any_name_can_be_listed(files: list[tuple[str, int]]) -> None:
    """Names quoted as CSV wants it come back, whatever is in them."""
    rows = ['"{}",{}\r\n'.format(name.replace('"', '""'), size) for name, size in files]
    assert [row[:2] for row in read("uri,size\r\n" + "".join(rows))] == files
    if files:
        names, sizes = zip(*files, strict=True)
        assert [row[:2] for row in read({"uri": names, "size": sizes})] == files


@pytest.mark.parametrize(
    "first", ["x" * 200_000, "uri,size," + "x," * 100_000, '"' + "x\t" * 100_000]
)
def test_a_header_has_some_hundred_characters(first: str) -> None:
    """A file whose first line has more is no inventory, and is not read on."""
    for text in (first, f"{first}\na,1\n"):
        assert problem(text).endswith(
            ": the first line has 65536 characters or more; expected a header that names the columns"
        )


@in_rows
def test_large_inventories_are_compared_in_more_groups(sizes: dict[str, int], groups: int) -> None:
    """A worker holds one group, which has some 50,000 rows."""
    assert inventory.groups_for(inventory.rows_in(sizes)) == groups


# --- Cuts of large files: between lines, and between the row groups of Parquet files


LINES = st.lists(st.sampled_from(['"', ",", "\n", "\r\n", "\r", "a", " ", '"a,b"', 'é"'])).map(
    "".join
)


def records(text: str) -> list[list[str]] | None:
    """The records of a text; None if it is broken."""
    try:
        return list(csv.reader(io.StringIO(text, newline=""), strict=True))
    except csv.Error:
        return None


def scanned(data: bytes, size: int) -> list[cuts.LineBlock]:
    def read(offset: int, size: int) -> bytes:
        return data[offset : offset + size]

    return [
        cuts.scan_block(read, start=start, size=size, of=len(data), delimiter=",")
        for start in range(0, len(data), size)
    ]


@given(text=LINES, size=st.integers(1, 20))
@example(text='a"b,"c\nd",e\n', size=3)
@example(text='"a""\n",b\n', size=4)
def test_regular_blocks_read_one_by_one_are_the_file(text: str, size: int) -> None:
    """Up to the first block that is not regular: from there on, all is read at once."""
    data = text.encode()
    blocks, begin = [], 0
    for block in scanned(data, size):
        if not block.regular:
            blocks.append(data[begin:])
            break
        assert block.begin == begin
        blocks.append(data[block.begin : block.end])
        assert block.lines == len(blocks[-1].splitlines())
        begin = block.end
    assert b"".join(blocks) == data
    parts = [records(part.decode()) for part in blocks]
    whole = None if None in parts else [row for part in parts for row in part or ()]
    assert records(text) == whole


@given(text=LINES)
def test_columns_of_regular_lines_are_those_of_their_records(text: str) -> None:
    """Or none, where a line is empty, has other cells or is broken."""
    if cuts.is_regular(text.encode(), ","):
        for count in (1, 2, 3):
            columns = cuts.columns_of_lines(text, ",", count)
            if columns is not None:
                assert [list(row) for row in zip(*columns, strict=True)] == records(text)


def test_a_very_long_line_ends_the_cutting(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line may reach over several parts; too long a one is not looked for to its end."""
    data = b"a,b\n" + b"x" * 30 + b"\nc,d\n"
    blocks = [(0, 35, 2, True), (35, 35, 0, True), (35, 35, 0, True), (35, 39, 1, True)]
    assert scanned(data, 10) == blocks
    monkeypatch.setattr(cuts, "_LONGEST_LINE", 12)
    assert [block.regular for block in scanned(data, 10)][:2] == [False, False]


@given(lines=st.lists(st.text("ab", max_size=9)), size=st.integers(1, 12))
def test_sub_blocks_are_whole_lines(lines: list[str], size: int) -> None:
    """Put together, they are the lines."""
    text = "\n".join(lines).encode()
    blocks = list(cuts.sub_blocks(text, size))
    assert b"".join(blocks) == text
    assert all(block.endswith(b"\n") for block in blocks[:-1])
    assert all(blocks)


def file_of(groups: list[int]) -> io.BytesIO:
    """A Parquet file of row groups of so many rows, each with its own number."""
    file = io.BytesIO()
    schema = pyarrow.schema([("n", pyarrow.int64()), ("other", pyarrow.string())])
    number = 0
    with parquet.ParquetWriter(file, schema) as writer:
        for count in groups:
            number += count
            numbers = range(number - count + 1, number + 1)
            writer.write_table(pyarrow.table({"n": numbers, "other": map(str, numbers)}, schema))
    file.seek(0)
    return file


def rows_of(file: io.BytesIO, groups: cuts.RowGroupRange | None) -> list[tuple[int, int]]:
    opened = parquet.ParquetFile(file)
    return [
        (first + index, fields["n"])
        for first, batch in cuts.numbered_batches(opened, groups, rows_at_once=3, columns=["n"])
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
    parts = cuts.cut_row_groups(file, part_bytes)
    assert [row for part in parts for row in rows_of(file, part)] == expected
    assert rows_of(file, None) == expected
    assert all(part.size >= part_bytes for part in parts[:-1])
    assert sum(part.rows for part in parts) == sum(groups)


def test_a_file_that_is_no_parquet_is_not_cut() -> None:
    """Nor is one that is cut short."""
    for data in (b"", b"PAR1", b"uri,size\na,1\n" * 9, file_of([3, 3]).getvalue()[:-1]):
        assert cuts.cut_row_groups(io.BytesIO(data), 1) == []


BIG = bytes(1 << 16)
BOMBS = {
    "a dictionary": pyarrow.array([BIG] * 600),
    "plain": pyarrow.array([BIG] * 600),
    "categories": pyarrow.array([BIG.decode()] * 600).dictionary_encode(),
    "a list": pyarrow.array([numpy.zeros(1 << 20, numpy.int64), []]),
    "one value": pyarrow.array([bytes(5 << 20)]),
}


def batches_of(columns: Any, **options: Any) -> list[tuple[int, Any]]:
    """(number of the first row, batch) of a file of one row group, and of an empty one."""
    file, table = io.BytesIO(), pyarrow.table(columns)
    with parquet.ParquetWriter(file, table.schema, **options) as writer:
        writer.write_table(table)
        writer.write_table(table.slice(0, 0))
    opened = parquet.ParquetFile(file)
    return list(cuts.numbered_batches(opened, None, rows_at_once=4096, file=file))


@pytest.mark.parametrize("name", BOMBS)
def test_nearly_nothing_does_not_become_gigabytes(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory is bounded, whatever repeats: a dictionary's entry, a compressed page, or the items of a list."""
    monkeypatch.setattr(cuts, "_MOST_AT_ONCE", 4 << 20)
    options = {"use_dictionary": name not in ("plain", "one value"), "compression": "zstd"}
    with pytest.raises(OSError, match=r"a decompression bomb: [0-9,]+ bytes inflate to [0-9,]+"):
        batches_of({"n": BOMBS[name]}, **options)


@in_rows
def test_a_large_row_group_is_read_some_thousand_rows_at_a_time(
    longest: int, options: dict[str, Any], rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless an entry that may repeat is long, or values share their beginnings."""
    monkeypatch.setattr(cuts, "_MOST_AT_ONCE", 4 << 20)
    names = ["x" * longest, None, *(f"{n:09d}" for n in range(200_000))]
    batches = batches_of({"name": names}, **options)
    assert batches[0][1].num_rows == pytest.approx(rows, abs=5)
    first = [name for _, batch in batches[:3] for name in batch["name"].to_pylist()]
    assert first == names[: 3 * rows]


def test_columns_of_all_kinds_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Decimals and parts of structs; values that repeat are no bomb, and categories become texts."""
    monkeypatch.setattr(cuts, "_MOST_AT_ONCE", 1 << 20)
    names = [f"{n:09d}" for n in range(5000)]
    prices = pyarrow.array(map(Decimal, names), pyarrow.decimal128(38))
    columns = {"name": names, "price": prices, "struct": [{"name": name} for name in names]}
    batches = batches_of(columns)
    assert pyarrow.Table.from_batches(batch for _, batch in batches) == pyarrow.table(columns)
    monkeypatch.undo()
    classes = pyarrow.array(["cat", "dog"] * 100_000).dictionary_encode()
    batches = batches_of({"n": range(1, 200_001), "class": classes}, compression="zstd")
    assert [number for number, _ in batches[:2]] == [1, 4097]
    rows = [row for _, batch in batches[-2:] for row in batch.to_pylist()]
    assert rows[-1] == {"n": 200_000, "class": "dog"}
