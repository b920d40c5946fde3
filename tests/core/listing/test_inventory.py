"""Inventories, and the parts into which large files are cut."""

from __future__ import annotations

import csv
import gzip
import io
from decimal import Decimal
from typing import Any, NamedTuple

import numpy
import pyarrow
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pyarrow import parquet

from beam_pipeline.core.errors import InventoryError
from beam_pipeline.core.listing import cuts, inventory


class InventoryRow(NamedTuple):
    uri: str
    size: int
    version: int
    line: int
    live: bool = True


def read(data: bytes | str) -> list[InventoryRow]:
    file = io.BytesIO(data if isinstance(data, bytes) else data.encode())
    return [
        InventoryRow(*row)
        for rows in inventory.read_inventory(file, "i.csv")
        for row in zip(*rows, strict=True)
    ]


def problem(data: bytes | str) -> str:
    with pytest.raises(InventoryError) as caught:
        read(data)
    return str(caught.value)


def as_parquet(columns: dict[str, Any]) -> bytes:
    file = io.BytesIO()
    parquet.write_table(pyarrow.table(columns), file, row_group_size=2)
    return file.getvalue()


def test_uri_and_size() -> None:
    """Two columns say what is needed, in any order; empty lines are none; lines are counted."""
    text = 'size,uri\n12,gs://b/a.jpg\n\n 3 ,"gs://b/x ""y"", z\n.jpg"\n0,/data/c.jpg\n'
    assert read(text) == [
        InventoryRow("gs://b/a.jpg", 12, 0, 2),
        InventoryRow('gs://b/x "y", z\n.jpg', 3, 0, 4),
        InventoryRow("/data/c.jpg", 0, 0, 6),
    ]


def test_the_columns_of_storage_insights() -> None:
    """Bucket and name make the URI, the generation is the version, a version that was replaced is
    marked, and further columns are passed over."""
    text = (
        "project,bucket,name,location,size,timeDeleted,generation,contentType\n"
        "7,pets,cat/a b.jpg,EU,12,,1700,image/jpeg\n"
        "7,pets,cat/a b.jpg,EU,11,2024-01-01T00:00:00Z,1600,image/jpeg\n"
        "7,pets,c.jpg,EU,5,,,\n"
    )
    assert read(text) == [
        InventoryRow("gs://pets/cat/a b.jpg", 12, 1700, 2),
        InventoryRow("gs://pets/cat/a b.jpg", 11, 1600, 3, False),
        InventoryRow("gs://pets/c.jpg", 5, 0, 4),
    ]


@pytest.mark.parametrize("mark", [",", ";", "\t", "|"])
def test_what_separates_cells_is_seen_from_the_header(mark: str) -> None:
    """Of the usual four, the one that the header has most of; a byte order mark is no text."""
    text = f"\ufeffbucket{mark}name{mark}size\r\nb{mark} a.jpg{mark}1\r\n"
    assert read(text) == [InventoryRow("gs://b/ a.jpg", 1, 0, 2)]


def test_a_gzipped_inventory_is_known_by_its_bytes() -> None:
    """Whatever it is called; several members are one file."""
    data = gzip.compress(b"uri,size\na,1\n") + gzip.compress(b"b,2\n")
    assert read(data) == [InventoryRow("a", 1, 0, 2), InventoryRow("b", 2, 0, 3)]
    assert "i.csv is damaged or cut short" in problem(data[:-6])
    assert "i.csv is damaged or cut short" in problem(data[:-8] + b"12345678")


def test_parquet() -> None:
    """Whole numbers may be numbers or text, the columns may be any, a null is an empty cell."""
    data = as_parquet(
        {
            "contentType": ["image/jpeg"] * 3,
            "name": ["é/a.jpg", "b.jpg", "b.jpg"],
            "bucket": pyarrow.array(["pets"] * 3).dictionary_encode(),
            "size": [12, 1 << 40, 3],
            "generation": ["1700", None, "5"],
            "timeDeleted": pyarrow.array([None, None, 0], pyarrow.timestamp("us", "UTC")),
        }
    )
    assert read(data) == [
        InventoryRow("gs://pets/é/a.jpg", 12, 1700, 1),
        InventoryRow("gs://pets/b.jpg", 1 << 40, 0, 2),
        InventoryRow("gs://pets/b.jpg", 3, 5, 3, False),
    ]
    assert "i.csv is damaged or cut short" in problem(data[:-9])
    assert problem(as_parquet({"uri": ["a", "b", "c"], "size": [1, 2, None]})) == (
        "--inventory i.csv, row 3: the column size contains None, expected a whole number"
    )


def test_text_of_parquet_that_is_not_utf8_is_an_error() -> None:
    """It makes the file unusable."""
    names = pyarrow.array([b"a.jpg", b"caf\xe9.jpg"])
    broken = pyarrow.StringArray.from_buffers(2, *names.buffers()[1:])
    message = problem(as_parquet({"uri": broken, "size": [1, 2]}))
    assert message.startswith(
        "--inventory i.csv is damaged or cut short ('utf-8' codec can't decode"
    )


@pytest.mark.parametrize(
    ("columns", "row", "column", "message"),
    [
        ({"uri": ["a", ""], "size": [1, 2]}, 2, "uri", "'', expected text"),
        ({"uri": ["a", None], "size": [1, 2]}, 2, "uri", "None, expected text"),
        ({"uri": [b"a"], "size": [1]}, 1, "uri", "b'a', expected text"),
        ({"uri": ["a"], "size": [-1]}, 1, "size", "-1, expected a whole number"),
        ({"uri": ["a"], "size": [1.0]}, 1, "size", "1.0, expected a whole number"),
        ({"uri": ["a"], "size": [True]}, 1, "size", "True, expected a whole number"),
        (
            {"uri": ["", "b"], "size": [1, None], "generation": ["x", "y"]},
            *(1, "generation", "'x', expected a whole number"),
        ),
    ],
)
def test_a_cell_of_parquet_that_is_neither_is_an_error(
    columns: dict[str, Any], row: int, column: str, message: str
) -> None:
    """Of the first row with one, its size before its generation before its name."""
    expected = f"--inventory i.csv, row {row}: the column {column} contains {message}"
    assert problem(as_parquet(columns)) == expected


def test_other_columns_are_an_error() -> None:
    """It says what was found and what was expected."""
    expected = "; expected uri and size or bucket and name and size; name them so in the header"
    beginning = "--inventory i.csv: the columns are "
    assert problem("Key,Size\na,1\n") == f"{beginning}'Key', 'Size'{expected}"
    assert problem("") == f"{beginning}none{expected}"
    assert problem(as_parquet({"uri": ["a"]})) == f"{beginning}'uri'{expected}"
    assert problem("uri,size,uri\na,1,b\n") == (
        "--inventory i.csv: two columns are called 'uri'; rename one"
    )


@pytest.mark.parametrize(
    ("row", "message"),
    [
        *(
            (f"a.jpg,{size}", f"the column size contains {size!r}, expected a whole number")
            for size in ("", "-1", "1.5", "1 kB", "²")
        ),
        (",1", "the column uri contains '', expected text"),
        ("a,b.jpg,1", "3 fields where the header has 2; look for a quote or a separator in a name"),
        ('"a"b.jpg,1', "not CSV: ',' expected after '\"'"),
    ],
)
def test_a_row_that_says_no_file_and_size_is_an_error(row: str, message: str) -> None:
    """With file and line."""
    text = f'uri,size\n"x\ny",1\n{row}\n'
    assert problem(text) == f"--inventory i.csv, line 4: {message}"


def test_a_name_that_is_not_utf8_is_an_error() -> None:
    """With its bytes escaped, so that the message can be written."""
    assert problem(b"uri,size\ncaf\xe9.jpg,1\n") == (
        r"--inventory i.csv, line 2: the column uri contains 'caf\\udce9.jpg', which is not UTF-8"
    )


@given(
    st.lists(
        st.tuples(
            st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), min_size=1),
            st.integers(0, 1 << 50),
        )
    )
)
def test_any_name_can_be_listed(files: list[tuple[str, int]]) -> None:
    """Names quoted as CSV wants it come back, whatever is in them."""
    rows = ['"{}",{}\r\n'.format(name.replace('"', '""'), size) for name, size in files]
    assert [(row.uri, row.size) for row in read("uri,size\r\n" + "".join(rows))] == files
    if files:
        names, sizes = zip(*files, strict=True)
        rows = read(as_parquet({"uri": names, "size": sizes}))
        assert [(row.uri, row.size) for row in rows] == files


@pytest.mark.parametrize(
    "first", ["x" * 200_000, "uri,size," + "x," * 100_000, '"' + "x\t" * 100_000]
)
def test_a_header_has_some_hundred_characters(first: str) -> None:
    """A file whose first line has more is no inventory, and is not read on."""
    for text in (first, f"{first}\na,1\n"):
        assert problem(text) == (
            "--inventory i.csv: the first line has 65536 characters or more; expected a header that "
            "names the columns"
        )


@pytest.mark.parametrize("size", [str(2**63), "9" * 30, "9" * 10_000])
def test_a_size_fits_64_bits(size: str) -> None:
    """As does a generation; the largest is read."""
    assert read(f"uri,size\na,{2**63 - 1}\n") == [InventoryRow("a", 2**63 - 1, 0, 2)]
    excerpt = repr(size) if len(size) < 80 else repr(size)[:77] + "..."
    for columns, cells in (("uri,size", f"a,{size}"), ("uri,size,generation", f"a,1,{size}")):
        column = columns.rpartition(",")[2]
        assert problem(f"{columns}\n{cells}\n") == (
            f"--inventory i.csv, line 2: the column {column} contains {excerpt}, expected less than 2^63"
        )
    huge = pyarrow.array([2**64 - 1], pyarrow.uint64())
    assert problem(as_parquet({"uri": ["a"], "size": huge})) == (
        "--inventory i.csv, row 1: the column size contains 18446744073709551615, expected less than 2^63"
    )


@pytest.mark.parametrize(
    ("inventories", "groups"),
    [
        ({}, 64),
        ({"a.csv": 640_000_000}, 256),
        ({"a.csv": 64_000_000}, 64),
        ({"gs://b/a.csv": 5 * 10**10, "b.csv": 5 * 10**10}, 40_000),
        ({"a.parquet": 10**10, "b.csv.gz": 10**10}, 50_000),
    ],
)
def test_large_inventories_are_compared_in_more_groups(
    inventories: dict[str, int], groups: int
) -> None:
    """A worker holds one group, which has some 50,000 rows."""
    assert inventory.groups_for(inventory.rows_in(inventories)) == groups


# --- Cuts of large files: between lines, and between the row groups of Parquet files


TEXTS = st.lists(st.sampled_from(['"', ",", "\n", "\r\n", "\r", "a", " ", '"a,b"', 'é"'])).map(
    "".join
)


def records(text: str) -> list[list[str]] | None:
    """The records of a text; None if it is broken."""
    try:
        return list(csv.reader(io.StringIO(text, newline=""), strict=True))
    except csv.Error:
        return None


def scanned(data: bytes, size: int, delimiter: str = ",") -> list[cuts.LineBlock]:
    return [
        cuts.scan_block(
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
    if not cuts.is_regular(text.encode(), ","):
        return
    for count in (1, 2, 3):
        columns = cuts.columns_of_lines(text, ",", count)
        if columns is not None:
            assert [list(row) for row in zip(*columns, strict=True)] == records(text)


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
    assert cuts.is_regular(lines, delimiter) is regular


def test_a_very_long_line_ends_the_cutting(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line may reach over several parts; too long a one is not looked for to its end."""
    data = b"a,b\n" + b"x" * 30 + b"\nc,d\n"
    assert scanned(data, 10) == [
        cuts.LineBlock(0, 35, 2, regular=True),
        cuts.LineBlock(35, 35, 0, regular=True),
        cuts.LineBlock(35, 35, 0, regular=True),
        cuts.LineBlock(35, 39, 1, regular=True),
    ]
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


def rows_of(file: io.BytesIO, groups: cuts.RowGroupRange | None) -> Rows:
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
    assert [part.size >= part_bytes for part in parts[:-1]] == [True] * len(parts[:-1])
    assert sum(part.rows for part in parts) == sum(groups)


@pytest.mark.parametrize("data", [b"", b"PAR1", b"uri,size\na,1\n" * 9])
def test_a_file_that_is_no_parquet_is_not_cut(data: bytes) -> None:
    """Nor is one that is cut short."""
    assert cuts.cut_row_groups(io.BytesIO(data), 1) == []
    assert cuts.cut_row_groups(io.BytesIO(file_of([3, 3]).getvalue()[:-1]), 1) == []


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
    batches = cuts.numbered_batches(parquet.ParquetFile(file), None, rows_at_once=4096)
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
    read = [*cuts.numbered_batches(opened, None, rows_at_once=4096, file=file)]
    assert read[0][1].num_rows == pytest.approx(rows, abs=5)
    first = [name for _, batch in read[:3] for name in batch["name"].to_pylist()]
    assert first == names[: 3 * rows]


def test_columns_without_a_dictionary_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """In large row groups as well: decimals, parts of structs, and columns of an empty row group."""
    monkeypatch.setattr(cuts, "_MOST_AT_ONCE", 1 << 20)
    names = [f"{n:09d}" for n in range(5000)]
    prices = pyarrow.array(map(Decimal, names), pyarrow.decimal128(38))
    columns = {"name": names, "price": prices, "struct": [{"name": name} for name in names]}
    file, table = io.BytesIO(), pyarrow.table(columns)
    with parquet.ParquetWriter(file, table.schema) as writer:
        writer.write_table(table)
        writer.write_table(table.slice(0, 0))
    batches = cuts.numbered_batches(parquet.ParquetFile(file), None, rows_at_once=4096, file=file)
    assert pyarrow.Table.from_batches(batch for _, batch in batches) == table


def test_values_that_repeat_are_no_bomb() -> None:
    """A table of few classes inflates by less than compression can, and its categories become texts."""
    n = 200_000
    classes = pyarrow.array(["cat", "dog"] * (n // 2)).dictionary_encode()
    table = pyarrow.table({"n": range(1, n + 1), "class": classes})
    file = io.BytesIO()
    parquet.write_table(table, file, compression="zstd")
    batches = [*cuts.numbered_batches(parquet.ParquetFile(file), None, rows_at_once=4096)]
    assert [number for number, _ in batches[:2]] == [1, 4097]
    assert batches[-1][1].to_pylist()[-1] == {"n": n, "class": "dog"}
