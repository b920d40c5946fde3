from __future__ import annotations

import gzip
import io
from typing import Any, NamedTuple

import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from beam_pipeline.core.errors import InventoryError
from beam_pipeline.core.listing.inventory import groups_for, read_inventory, rows_in


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
        for rows in read_inventory(file, "i.csv")
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
    ("columns", "rows"),
    [
        ({"uri": ["a", "b"], "size": [1, 2]}, [("a", 1, 0), ("b", 2, 0)]),
        ({"bucket": ["p"], "name": ["é"], "size": ["7"]}, [("gs://p/é", 7, 0)]),
        ({"uri": ["a"], "size": [1], "generation": [5], "timeDeleted": [None]}, [("a", 1, 5)]),
        ({"uri": ["a"], "size": [1], "generation": pyarrow.nulls(1)}, [("a", 1, 0)]),
        ({"uri": ["a"], "size": [" 1"]}, [("a", 1, 0)]),
        ({"uri": ["a", "b"], "size": [1, 2], "generation": [None, 7]}, [("a", 1, 0), ("b", 2, 7)]),
        ({"uri": ["a"], "size": [1], "timeDeleted": [""]}, [("a", 1, 0)]),
    ],
)
def test_cells_of_parquet_are_numbers_or_texts(
    columns: dict[str, Any], rows: list[tuple[str, int, int]]
) -> None:
    """Missing ones are 0 where they may be missing."""
    assert [(row.uri, row.size, row.version) for row in read(as_parquet(columns))] == rows


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"uri": ["a", ""], "size": [1, 2]}, "row 2: the column uri contains '', expected text"),
        (
            {"uri": ["a", None], "size": [1, 2]},
            "row 2: the column uri contains None, expected text",
        ),
        ({"uri": [b"a"], "size": [1]}, "row 1: the column uri contains b'a', expected text"),
        (
            {"uri": ["a"], "size": [-1]},
            "row 1: the column size contains -1, expected a whole number",
        ),
        (
            {"uri": ["a"], "size": [1.0]},
            "row 1: the column size contains 1.0, expected a whole number",
        ),
        (
            {"uri": ["a"], "size": [True]},
            "row 1: the column size contains True, expected a whole number",
        ),
        (
            {"uri": ["", "b"], "size": [1, None], "generation": ["x", "y"]},
            "row 1: the column generation contains 'x', expected a whole number",
        ),
    ],
)
def test_a_cell_of_parquet_that_is_neither_is_an_error(
    columns: dict[str, Any], message: str
) -> None:
    """Of the first row with one, its size before its generation before its name."""
    assert problem(as_parquet(columns)) == f"--inventory i.csv, {message}"


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
        ("a.jpg,", "the column size contains '', expected a whole number"),
        ("a.jpg,-1", "the column size contains '-1', expected a whole number"),
        ("a.jpg,1.5", "the column size contains '1.5', expected a whole number"),
        ("a.jpg,1 kB", "the column size contains '1 kB', expected a whole number"),
        ("a.jpg,²", "the column size contains '²', expected a whole number"),
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
        ({}, 256),
        ({"a.csv": 640_000_000}, 256),
        ({"gs://b/a.csv": 5 * 10**10, "b.csv": 5 * 10**10}, 40_000),
        ({"a.parquet": 10**10, "b.csv.gz": 10**10}, 50_000),
    ],
)
def test_large_inventories_are_compared_in_more_groups(
    inventories: dict[str, int], groups: int
) -> None:
    """A worker holds one group, which has some 50,000 rows."""
    assert groups_for(rows_in(inventories)) == groups
