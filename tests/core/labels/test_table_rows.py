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

from beam_pipeline.core import dead_letters, references
from beam_pipeline.core.errors import LabelTableError
from beam_pipeline.core.json_file import JsonFile
from beam_pipeline.core.labels import table_rows, typed_rows
from beam_pipeline.core.labels.parquet_columns import ParquetColumns, parquet_columns
from beam_pipeline.core.labels.schema import ColumnChoices
from beam_pipeline.core.labels.table_rows import (
    Format,
    LabelTable,
    TableHead,
    TableRows,
    read_chunks,
    read_lines,
)
from beam_pipeline.core.labels.tables import LabelSchema, inspect_tables
from beam_pipeline.core.listing.cuts import is_regular
from tests.core.labels.fixtures import CLASS, INT64, bad_row, kinds, read
from tests.pictures import picture

HEAD = b"filename,label,age,split\na.jpg,cat,3,train\nb.jpg,dog,4,val\n"
SCHEMA, (TABLE,) = inspect_tables([TableHead("/l.csv", HEAD, True)], ColumnChoices())
CELLS = st.sampled_from(["a.jpg", "cat", "7", "07", "", " b ", "1.5", "test", "x-y", '"q, r"', "é"])
LINES = st.lists(st.lists(CELLS, min_size=3, max_size=5).map(",".join), max_size=4)


def typed(rows: Iterable[TableRows], table: LabelTable, schema: LabelSchema) -> list[Any]:
    """The rows and dead letters, in the order of their lines."""
    items: list[Any] = []
    for part in typed_rows.label_rows(rows, table, schema):
        items += [part] if isinstance(part, dead_letters.DeadLetter) else part
    return sorted(items, key=lambda row: row.line)


BREAKS = st.sampled_from(["\n", "\r\n"])


@given(lines=LINES, line_break=BREAKS, first_line=st.sampled_from([1, 9]))
@example(lines=["a.jpg,cat,7,test", '"q, r",dog, 8 ,val'], line_break="\n", first_line=9)
@example(lines=["filename,label,age,split"], line_break="\n", first_line=1)
@example(lines=["a.jpg,cat,7,test", ",, ,"], line_break="\n", first_line=9)
def test_rows_read_by_columns_or_one_by_one_are_the_same(
    lines: list[str], line_break: str, first_line: int
) -> None:
    """Their values have types, and their lines are those of the file; a fault is left to the general way."""
    if first_line == 1:
        lines = ["filename,label,age,split", *lines]
    data = "".join(line + line_break for line in lines).encode()
    if not data or not is_regular(data, ","):
        return
    expected = read_chunks(io.BytesIO(data), TABLE, first_line=first_line)
    rows = read_lines(data, TABLE, first_line=first_line, regular=True)
    assert repr(typed(rows, TABLE, SCHEMA)) == repr(typed(expected, TABLE, SCHEMA))


@pytest.mark.parametrize(
    "head",
    [
        b"filename,label\na.jpg,cat\n",
        b"a.jpg,cat\nb.jpg,dog\n",
        b"sep=;\nfilename;label\na.jpg;cat\n",
        b"filename,xmin,ymin,xmax,ymax,class\na.jpg,1,2,3,4,cat\nb.jpg,,,,,\nc.jpg,1,,3,4,cat\n",
        b"image,cat,dog\na.jpg,1,0\nb.jpg,0,1\n",
        b"filename;score\na.jpg;0,5\nb.jpg;0,7\n",
        b"filename,label\n",
        b",filename,label\n0,a.jpg,cat\n1,b.jpg,dog\n",
        b"filename,label,\na.jpg,cat,\nb.jpg,dog,\n",
        b",filename,,label\n0,a.jpg,x,cat\n1,b.jpg,y,dog\n",
        b"a.jpg cat\nb.jpg dog\n",
    ],
)
def test_tables_of_all_forms_are_cut_into_columns(head: bytes) -> None:
    """With the header or without, the rows are those that are read record by record."""
    schema, (table,) = inspect_tables([TableHead("/l.csv", head, True)], ColumnChoices())
    expected = typed(read_chunks(io.BytesIO(head), table), table, schema)
    assert typed(read_lines(head, table), table, schema) == expected


def test_other_encodings_are_read_by_columns_too() -> None:
    """A byte that the encoding does not have is left to the general way."""
    head = "filename,label\na.jpg,cafés\n".encode("cp1252")
    table_head = TableHead("/l.csv", head, True)
    schema, (table,) = inspect_tables([table_head], ColumnChoices(labels_encoding="cp1252"))
    assert [row.values for row in typed(read_lines(head, table), table, schema)] == [("cafés",)]
    (rows,) = read_lines(b"a.jpg,\x81\nb.jpg,dog\n", table, first_line=2)
    assert rows.lines == [3]
    assert [line for line, _ in rows.faults] == [2]


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
    assert kinds(ARRAY, "l.json") == {"label": CLASS, "size": INT64}
    first, second, *letters = read(ARRAY, "l.json", kinds={"size": "skip"})
    assert first == references.LabelRow("a.jpg", ("cat",), "", "l.json", 2)
    assert second == references.LabelRow("b.jpg", ("\u732b",), "", "l.json", 3)
    assert letters[0] == bad_row(4, "expected a JSON object, found ['c.jpg']", "l.json")
    assert isinstance(letters[1], dead_letters.DeadLetter)
    assert letters[1].message.startswith("not UTF-8: ")
    assert letters[2] == bad_row(5, "the key column 'file_name' is empty", "l.json")


def test_the_beginning_of_an_array_is_enough_to_inspect_it() -> None:
    """An item that it cuts is left out."""
    data = json.dumps([{"file_name": f"{i}.jpg", "label": "cat"} for i in range(9)]).encode()
    schema, (table,) = inspect_tables([TableHead("l.json", data[:-60], False)], ColumnChoices())
    assert len(typed(read_chunks(io.BytesIO(data), table), table, schema)) == 9
    assert table.cut is None


# --- Parquet ------------------------------------------------------------------------------------

PARQUET = LabelTable("l.parquet", Format.PARQUET)


def fields_of(file: io.BytesIO) -> list[Any]:
    return [fields for rows in read_chunks(file, PARQUET) for fields in rows.fields()]


def parquet_file(columns: dict[str, Any], **settings: Any) -> io.BytesIO:
    out = io.BytesIO()
    parquet.write_table(pa.table(columns), out, **settings)
    return io.BytesIO(out.getvalue())


def test_values_are_those_that_json_has() -> None:
    """Numbers, texts, lists and dicts as they are; NaN is nothing, a date its text."""
    boxes = {"bbox": [[1.0, 2.0, 3.0, 4.0]], "category": [3]}
    columns: dict[str, tuple[Any, list[Any]]] = {  # name -> (cells, values)
        "number": ([1.5, float("nan")], [1.5, None]),
        "whole": ([7, None], [7, None]),
        "flag": ([True, False], [True, False]),
        "bytes": ([b"x", "é".encode()], ["x", "é"]),
        "tags": ([["p", "q"], []], [["p", "q"], []]),
        "objects": ([boxes, None], [boxes, None]),
        "day": ([datetime.date(2020, 1, 2)] * 2, ["2020-01-02"] * 2),
        "price": ([decimal.Decimal("1.50")] * 2, ["1.50"] * 2),
        "kind": (pa.array(["u", "v"]).dictionary_encode(), ["u", "v"]),
    }
    fields = fields_of(parquet_file({name: cells for name, (cells, _) in columns.items()}))
    values = zip(*(values for _, values in columns.values()), strict=True)
    assert repr(fields) == repr([dict(zip(columns, row, strict=True)) for row in values])


def test_bytes_that_are_no_text_are_a_problem_of_their_row() -> None:
    """The message names the column."""
    file = parquet_file({"name": ["a", "b"], "image": [b"\xff\xd8", b"x"]})
    (rows,) = read_chunks(file, PARQUET)
    assert rows.faults == [(1, "bytes that are not UTF-8 text in image")]
    assert (rows.lines, rows.fields()) == ([2], [{"name": "b", "image": "x"}])


@pytest.mark.parametrize("data", [b"", b"filename,label\n", b"PAR1" + b"x" * 40 + b"PAR1"])
def test_a_file_that_is_no_parquet_is_an_error(data: bytes) -> None:
    """It names the file and what to do."""
    with pytest.raises(LabelTableError, match=r"^l\.parquet is not a Parquet file, or is damaged"):
        list(read_chunks(io.BytesIO(data), PARQUET))


# --- What the columns of a Parquet file hold


def columns_of(columns: dict[str, Any], features: Any = None) -> ParquetColumns:
    """The columns of a file with these, described as Hugging Face does if there are `features`."""
    table = pa.table(columns)
    if features is not None:
        described = features if isinstance(features, str) else json.dumps(features)
        table = table.replace_schema_metadata({"huggingface": described})
    out = io.BytesIO()
    parquet.write_table(table, out)
    return parquet_columns(io.BytesIO(out.getvalue()), "x.parquet")


def test_images_are_told_by_their_bytes() -> None:
    """As structs, as bytes, and in lists; other bytes are no images, and nulls say nothing."""
    image = {"bytes": picture(1), "path": "a.jpg"}
    columns = columns_of(
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
    assert columns.rows == 2
    assert columns.hold_images
    assert columns.images == ("struct", "plain")
    assert columns.image_lists == ("several",)
    assert columns.structs == ("struct", "several")
    assert columns.unused == ("sound", "raw", "nothing")
    assert columns.labels == ("score", "numbers", "name", "label")
    assert (columns.floats, columns.texts) == (("score", "numbers"), ("name",))


NAMES = {"names": ["a", "b"], "_type": "ClassLabel"}


@pytest.mark.parametrize(
    ("described", "classes"),
    [
        (NAMES, {"label": ("a", "b")}),
        ({"feature": NAMES, "_type": "Sequence"}, {"label": ("a", "b")}),
        ({"feature": NAMES, "_type": "List"}, {"label": ("a", "b")}),
        ([NAMES], {"label": ("a", "b")}),
        (
            {"feature": {"category": NAMES, "id": {"_type": "Value"}}, "_type": "Sequence"},
            {"label.category": ("a", "b")},
        ),
        ({"category": {"feature": NAMES, "_type": "List"}}, {"label.category": ("a", "b")}),
        ({"_type": "Value"}, {}),
        ({"_type": "ClassLabel"}, {}),
        ({"_type": "ClassLabel", "names": ["a", "a "]}, {}),
        ({"_type": "ClassLabel", "names": ["a", 1]}, {}),
        ({"_type": "ClassLabel", "names": ["", "a"]}, {}),
        ("text", {}),
        (None, {}),
    ],
)
def test_names_of_classes(described: Any, classes: dict[str, tuple[str, ...]]) -> None:
    """Wherever the description has them; names that are no names leave the ids."""
    columns = columns_of({"label": [0]}, {"info": {"features": {"label": described}}})
    assert columns.classes == classes


@pytest.mark.parametrize(
    "described", ["", "{", "[]", '{"info": 3}', '{"info": {"features": []}}', "[" * 99999]
)
def test_a_description_that_is_none(described: str) -> None:
    """It is passed over."""
    assert columns_of({"label": [0]}, described).classes == {}


def test_two_columns_of_one_name() -> None:
    """Nobody knows which of the two is meant."""
    out = io.BytesIO()
    table = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    parquet.write_table(table, out)
    with pytest.raises(LabelTableError, match=r"x\.parquet has more than one column 'a'"):
        parquet_columns(io.BytesIO(out.getvalue()), "x.parquet")
