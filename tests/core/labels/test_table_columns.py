"""Reading tables by columns: the rows of the general way, or none where it has to decide."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from beam_pipeline.core.labels.table_columns import row_columns
from beam_pipeline.core.labels.table_files import TableHead
from beam_pipeline.core.labels.tables import ColumnChoices, inspect_tables, read_rows
from beam_pipeline.core.listing.line_blocks import is_regular
from beam_pipeline.core.packing import items_of
from beam_pipeline.core.references import LabelRow

HEAD = b"filename,label,age,split\na.jpg,cat,3,train\nb.jpg,dog,4,val\n"
SCHEMA, (TABLE,) = inspect_tables([TableHead("/l.csv", HEAD, True)], ColumnChoices())
CELLS = st.sampled_from(["a.jpg", "cat", "7", "07", "", " b ", "1.5", "test", "x-y", '"q, r"', "é"])
LINES = st.lists(st.lists(CELLS, min_size=3, max_size=5).map(",".join), max_size=4)
BREAKS = st.sampled_from(["\n", "\r\n"])


@given(lines=LINES, line_break=BREAKS, first_line=st.sampled_from([1, 9]))
@example(lines=["a.jpg,cat,7,test", '"q, r",dog, 8 ,val'], line_break="\n", first_line=9)
@example(lines=["filename,label,age,split"], line_break="\n", first_line=1)
def test_rows_read_by_columns_or_one_by_one_are_the_same(
    lines: list[str], line_break: str, first_line: int
) -> None:
    """Their values have types, and their lines are those of the file; a fault is left to the general way."""
    if first_line == 1:
        lines = ["filename,label,age,split", *lines]
    data = "".join(line + line_break for line in lines).encode()
    if not data or not is_regular(data, ","):
        return
    columns = row_columns(data, TABLE, SCHEMA, first_line)
    expected = list(read_rows(io.BytesIO(data), TABLE, SCHEMA, first_line))
    if columns is not None:
        assert repr(list(items_of(LabelRow, columns))) == repr(expected)
    if columns is None:
        plain = all(isinstance(row, LabelRow) and not row.problem for row in expected)
        assert not plain or len(expected) < len(lines) - (first_line == 1)


@pytest.mark.parametrize(
    ("head", "columns"),
    [
        (b"filename,label\na.jpg,cat\n", 1),
        (b"a.jpg,cat\nb.jpg,dog\n", 1),
        (b"filename;label\na.jpg;cat\n", 1),
        (b"filename,xmin,ymin,xmax,ymax,class\na.jpg,1,2,3,4,cat\n", 0),
        (b"a.jpg cat\nb.jpg dog\n", 0),
        (b"filename;score\na.jpg;0,5\nb.jpg;0,7\n", 0),
    ],
)
def test_simple_tables_are_read_by_columns(head: bytes, columns: int) -> None:
    """Boxes, lists with spaces and decimal commas are read row by row."""
    schema, (table,) = inspect_tables([TableHead("/l.csv", head, True)], ColumnChoices())
    found = row_columns(head, table, schema, 1)
    assert (found is not None) == bool(columns)
    if found is not None:
        assert list(items_of(LabelRow, found)) == list(read_rows(io.BytesIO(head), table, schema))


def test_other_encodings_are_read_by_columns_too() -> None:
    """A byte that the encoding does not have is left to the general way."""
    head = "filename,label\na.jpg,cafés\n".encode("cp1252")
    table_head = TableHead("/l.csv", head, True)
    schema, (table,) = inspect_tables([table_head], ColumnChoices(encoding="cp1252"))
    found = row_columns(head, table, schema, 1)
    assert found is not None
    assert [row.values for row in items_of(LabelRow, found)] == [("cafés",)]
    assert row_columns(b"a.jpg,\x81\n", table, schema, 2) is None


def test_a_table_may_be_a_split() -> None:
    """Its rows are of that split."""
    head = b"filename,label\na.jpg,cat\n"
    schema, (table,) = inspect_tables([TableHead("/test.csv", head, True)], ColumnChoices())
    found = row_columns(head, replace(table, split="test"), schema, 1)
    assert found is not None
    assert [row.split for row in items_of(LabelRow, found)] == ["test"]


@pytest.mark.parametrize(
    "head",
    [
        b",filename,label\n0,a.jpg,cat\n1,b.jpg,dog\n",
        b"filename,label,\na.jpg,cat,\nb.jpg,dog,\n",
        b",filename,,label\n0,a.jpg,x,cat\n1,b.jpg,y,dog\n",
    ],
)
def test_a_column_without_a_name_is_passed_over(head: bytes) -> None:
    """As the index that pandas writes; it gives no splits."""
    schema, (table,) = inspect_tables([TableHead("/l.csv", head, True)], ColumnChoices())
    found = row_columns(head, table, schema, 1)
    assert found is not None
    rows = list(items_of(LabelRow, found))
    assert rows == list(read_rows(io.BytesIO(head), table, schema))
    assert [(row.name, row.values, row.split) for row in rows] == [
        ("a.jpg", ("cat",), ""),
        ("b.jpg", ("dog",), ""),
    ]
