"""Reading the rows of tables: by columns or record by record, of JSON and of Parquet."""

from __future__ import annotations

import datetime
import decimal
import io
import json
from collections.abc import Iterable
from functools import partial
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pyarrow import parquet

from beam_pipeline.core import dead_letters, errors
from beam_pipeline.core.json_file import JsonFile
from beam_pipeline.core.labels import table_rows, typed_rows
from beam_pipeline.core.labels.parquet_columns import parquet_columns
from beam_pipeline.core.labels.schema import ColumnChoices
from beam_pipeline.core.labels.table_rows import LabelTable, TableHead, TableRows
from beam_pipeline.core.labels.tables import LabelSchema, inspect_tables
from beam_pipeline.core.listing.cuts import is_regular
from tests.core.labels.fixtures import inspect, read
from tests.pictures import picture
from tests.rows import in_rows, raised

HEAD = b"filename,label,age,split\na.jpg,cat,3,train\nb.jpg,dog,4,val\n"
CELLS = st.sampled_from(["a.jpg", "cat", "7", "07", "", " b ", "1.5", "test", "x-y", '"q, r"', "é"])
LINES = st.lists(st.lists(CELLS, min_size=3, max_size=5).map(",".join), max_size=4)


def inspected(head: bytes, uri: str = "/l.csv", **choices: Any) -> tuple[LabelSchema, LabelTable]:
    schema, (table,) = inspect_tables([TableHead(uri, head, True)], ColumnChoices(**choices))
    return schema, table


SCHEMA, TABLE = inspected(HEAD)


def typed(rows: Iterable[TableRows], table: LabelTable, schema: LabelSchema) -> list[Any]:
    """The rows and dead letters, in the order of their lines."""
    items: list[Any] = []
    for part in typed_rows.label_rows(rows, table, schema):
        items += [part] if isinstance(part, dead_letters.DeadLetter) else part
    return sorted(items, key=lambda row: row.line)


@given(lines=LINES, end=st.sampled_from(["\n", "\r\n"]), first_line=st.sampled_from([1, 9]))
@example(lines=["a.jpg,cat,7,test", '"q, r",dog, 8 ,val'], end="\n", first_line=9)
@example(lines=["filename,label,age,split"], end="\n", first_line=1)
@example(lines=["a.jpg,cat,7,test", ",, ,"], end="\n", first_line=9)
def test_rows_read_by_columns_or_one_by_one_are_the_same(
    lines: list[str], end: str, first_line: int
) -> None:
    """Their values have types, and their lines are those of the file; a fault is left to the general way."""
    if first_line == 1:
        lines = ["filename,label,age,split", *lines]
    data = "".join(line + end for line in lines).encode()
    if data and is_regular(data, ","):
        expected = table_rows.read_chunks(io.BytesIO(data), TABLE, first_line=first_line)
        rows = table_rows.read_lines(data, TABLE, first_line=first_line, regular=True)
        assert repr(typed(rows, TABLE, SCHEMA)) == repr(typed(expected, TABLE, SCHEMA))


@in_rows
def test_tables_of_all_forms_are_cut_into_columns(head: bytes) -> None:
    """With the header or without, the rows are those that are read record by record."""
    schema, table = inspected(head)
    expected = typed(table_rows.read_chunks(io.BytesIO(head), table), table, schema)
    assert typed(table_rows.read_lines(head, table), table, schema) == expected


def test_other_encodings_are_read_by_columns_too() -> None:
    """A byte that the encoding does not have is left to the general way."""
    head = "filename,label\na.jpg,cafés\n".encode("cp1252")
    schema, table = inspected(head, labels_encoding="cp1252")
    (row,) = typed(table_rows.read_lines(head, table), table, schema)
    assert row.values == ("cafés",)
    (rows,) = table_rows.read_lines(b"a.jpg,\x81\nb.jpg,dog\n", table, first_line=2)
    assert (rows.lines, [line for line, _ in rows.faults]) == ([3], [2])


# --- an array of JSON ---------------------------------------------------------------------------

ARRAY = """\ufeff[
  {"file_name": "a.jpg", "label": "cat", "size": 3},
  {"file_name": "b.jpg",
   "label": "\u732b", "size": null}, ["c.jpg"],
  {"file_name": "\\ud800.jpg", "label": "cat"}, {"label": "cat"}
]
"""


@pytest.mark.parametrize("piece", [1, 7, 1 << 20])
def test_the_objects_of_an_array_are_rows(piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has the line on which it starts; an item that is no row costs itself alone."""
    monkeypatch.setattr(table_rows, "JsonFile", partial(JsonFile, piece=piece))
    columns = inspect(ARRAY, "l.json")[0].columns
    assert [(column.name, column.kind) for column in columns] == [
        ("label", "class"),
        ("size", "int64"),
    ]
    rows = read(ARRAY, "l.json", kinds={"size": "skip"})
    assert rows[:2] == [
        ("a.jpg", ("cat",), "", "l.json", 2, "", None),
        ("b.jpg", ("\u732b",), "", "l.json", 3, "", None),
    ]
    assert [(row[3], row[4].partition(":")[0], row[6]) for row in rows[2:]] == [
        ("bad_row", "expected a JSON object, found ['c.jpg']", 4),
        ("bad_row", "not UTF-8", 5),
        ("bad_row", "the key column 'file_name' is empty", 5),
    ]


def test_the_beginning_of_an_array_is_enough_to_inspect_it() -> None:
    """An item that it cuts is left out."""
    data = json.dumps([{"file_name": f"{i}.jpg", "label": "cat"} for i in range(9)]).encode()
    schema, (table,) = inspect_tables([TableHead("l.json", data[:-60], False)], ColumnChoices())
    assert len(typed(table_rows.read_chunks(io.BytesIO(data), table), table, schema)) == 9
    assert table.cut is None


# --- Parquet ------------------------------------------------------------------------------------

PARQUET = LabelTable("l.parquet", table_rows.Format.PARQUET)


def chunks_of(file: io.BytesIO) -> list[TableRows]:
    return list(table_rows.read_chunks(file, PARQUET))


def parquet_file(table: Any) -> io.BytesIO:
    out = io.BytesIO()
    parquet.write_table(table if isinstance(table, pa.Table) else pa.table(table), out)
    return io.BytesIO(out.getvalue())


def test_values_are_those_that_json_has() -> None:
    """Numbers, texts, lists and dicts as they are; NaN is nothing, a date its text."""
    boxes = {"bbox": [[1.0, 2.0, 3.0, 4.0]], "category": [3]}
    columns: dict[str, tuple[Any, list[Any]]] = {  # name -> (cells, values)
        "number": ([1.5, float("nan")], [1.5, None]),
        "whole": ([7, None], [7, None]),
        "flag": ([True, False], [True, False]),
        "tags": ([["p", "q"], []], [["p", "q"], []]),
        "objects": ([boxes, None], [boxes, None]),
        "day": ([datetime.date(2020, 1, 2)] * 2, ["2020-01-02"] * 2),
        "price": ([decimal.Decimal("1.50")] * 2, ["1.50"] * 2),
        "kind": (pa.array(["u", "v"]).dictionary_encode(), ["u", "v"]),
    }
    (rows,) = chunks_of(parquet_file({name: cells for name, (cells, _) in columns.items()}))
    assert repr(rows.columns) == repr({name: values for name, (_, values) in columns.items()})


@in_rows
def test_a_file_that_is_no_parquet_is_an_error(data: bytes) -> None:
    """It names the file and what to do."""
    error = raised(errors.LabelTableError, chunks_of, io.BytesIO(data))
    assert str(error).startswith("l.parquet is not a Parquet file, or is damaged")


def test_images_are_told_by_their_bytes() -> None:
    """As structs, as bytes, and in lists; other bytes are no images, and nulls say nothing."""
    image = {"bytes": picture(1), "path": "a.jpg"}
    file = parquet_file(
        {
            "struct": [None, image],
            "plain": [picture(1), None],
            "several": [[], [image]],
            "sound": [{"bytes": b"RIFF....WAVE", "path": None}] * 2,
            "raw": [b"\x00\x01", b""],
            "nothing": pa.array([None, None], pa.binary()),
            "score": [0.5, 1],
            "numbers": [[0.5], []],
            "name": ["a", "b"],
            "label": [0, 1],
        }
    )
    columns = parquet_columns(file, "x.parquet")
    assert (columns.rows, columns.hold_images) == (2, True)
    assert (columns.images, columns.image_lists) == (("struct", "plain"), ("several",))
    assert columns.structs == ("struct", "several")
    assert columns.unused == ("sound", "raw", "nothing")
    assert columns.labels == ("score", "numbers", "name", "label")
    assert columns.kinds == {"score": "float", "numbers": "float", "name": "str"}


def classes_of(description: str) -> Any:
    """Those of a file that is described as Hugging Face does."""
    table = pa.table({"label": [0]}).replace_schema_metadata({"huggingface": description})
    return parquet_columns(parquet_file(table), "x.parquet").classes


@in_rows
def test_names_of_classes(described: Any, classes: dict[str, tuple[str, ...]]) -> None:
    """Wherever the description has them; names that are no names leave the ids."""
    assert classes_of(json.dumps({"info": {"features": {"label": described}}})) == classes


def test_a_description_that_is_none() -> None:
    """It is passed over."""
    for text in ("", "{", "[]", '{"info": 3}', '{"info": {"features": []}}', "[" * 99999):
        assert classes_of(text) == {}


def test_two_columns_of_one_name() -> None:
    """Nobody knows which of the two is meant."""
    file = parquet_file(pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"]))
    error = raised(errors.LabelTableError, parquet_columns, file, "x.parquet")
    assert "x.parquet has more than one column 'a'" in str(error)
