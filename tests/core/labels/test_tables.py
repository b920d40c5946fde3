"""Tables of labels beyond the rows of conformance: several files, long ones, and parts that are tested alone."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_pipeline.core.errors import LabelTableError
from beam_pipeline.core.labels import further_columns, table_files
from beam_pipeline.core.labels.leading_columns import FolderClass
from beam_pipeline.core.labels.schema import Column, ColumnChoices, ColumnKind
from beam_pipeline.core.labels.table_rows import TableHead, TableRows, read_chunks
from beam_pipeline.core.labels.tables import inspect_tables
from tests.core.labels.fixtures import inspect, read, read_rows
from tests.rows import in_rows, raised


def test_the_columns_of_several_files_are_those_of_all() -> None:
    """Each file has its own order, separator and key; what one lacks is empty there."""
    contents = {
        "a.csv": b"filename,label,size\na.jpg,cat,1\n",
        "b.tsv": b"label\tcolour\timage\ndog\tred\tb.jpg\n",
        "c.jsonl": b'{"path": "c.jpg", "label": "cat", "colour": "blue"}\n',
    }
    heads = [TableHead(uri, content, True) for uri, content in contents.items()]
    schema, tables = inspect_tables(heads, ColumnChoices())
    assert schema.columns == (
        Column("label", ColumnKind.CLASS, "image/class", required=True),
        Column("size", ColumnKind.INT64, "label/size"),
        Column("colour", ColumnKind.BYTES, "label/colour"),
    )
    assert [table.key_column for table in tables] == ["filename", "image", "path"]
    pairs = zip(heads, tables, strict=True)
    rows = [row for head, table in pairs for row in read_rows(head.data, table, schema)]
    assert [row[:5] for row in rows] == [
        ("a.jpg", ("cat", 1, None), "", "a.csv", 2),
        ("b.jpg", ("dog", None, "red"), "", "b.tsv", 2),
        ("c.jpg", ("cat", None, "blue"), "", "c.jsonl", 1),
    ]


def test_a_table_without_the_split_column_of_another_names_no_split() -> None:
    """Its rows are sound; only a cell of the column that is empty is a fault."""
    head, other = b"filename,label,split\na.jpg,cat,test\n", b"filename,label\nb.jpg,dog\n"
    heads = [TableHead("a.csv", head, True), TableHead("b.csv", other, True)]
    schema, (with_split, without) = inspect_tables(heads, ColumnChoices())
    (row,) = read_rows(other, without, schema)
    assert (row.split, row.problem) == ("", "")
    (row,) = read_rows(head.replace(b"test", b""), with_split, schema)
    assert row.problem == "column 'split': '' names no split"


@in_rows
def test_a_name_with_line_breaks_is_an_error(content: str, line: int, column: str) -> None:
    """A quote that is closed too late swallowed the rows between; the error says where it opens."""
    schema, table = inspect(content.replace(chr(34), ""))
    message = str(raised(LabelTableError, read_rows, content.encode(), table, schema))
    assert message.startswith(f"labels.csv, line {line}: ")
    assert f" in column {column!r} has " in message
    assert message.endswith("look for a quote that opens there and is closed too late")


@pytest.mark.slow
def test_a_hundred_thousand_columns_are_read() -> None:
    """Work grows with the number of columns: with its square, this would run into the time limit."""
    names = [f"c{number}" for number in range(100_000)]
    schema, _ = inspect(f"filename,label,{','.join(names)}\na.jpg,x,{','.join('1' * 100_000)}\n")
    assert [column.name for column in schema.columns] == ["label", *names]


def test_more_columns_than_anybody_means_are_asked_about() -> None:
    """Each would be a feature."""
    for count in (9_999, 10_000):
        names = ",".join(f"c{i}" for i in range(count))
        content = f"filename,label,{names}\na.jpg,x{',1' * count}\nb.jpg,y{',2' * count}\n"
        questions = inspect(content, "l.csv")[0].questions
        assert len(questions) == count - 9_999
    assert questions[0].reason.startswith(
        "l.csv: each of 10,001 columns would be a feature of its own"
    )


NAMES = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1)
NOTES = st.text(st.characters(codec="utf-8", exclude_characters="\0"))


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@given(rows=st.lists(st.tuples(NAMES, NOTES), max_size=6))
def test_rows_come_back_as_python_wrote_them(
    delimiter: str, line_end: str, rows: Sequence[tuple[str, str]]
) -> None:
    """Any text in any cell, written by the csv module, is read, stripped, with its line."""
    out = io.StringIO()
    writer = csv.writer(
        out, delimiter=delimiter, lineterminator=line_end, quoting=csv.QUOTE_NONNUMERIC
    )
    writer.writerow(["filename", "label", "note"])
    expected = []
    for name, note in rows:
        line = 1 + len(io.StringIO(out.getvalue(), newline="").readlines())
        writer.writerow([name, "cat", note])
        expected.append((name, ("cat", note.strip() or None), "", "labels.csv", line, "", None))
    assert read(out.getvalue(), kinds={"note": "str"}) == expected


@in_rows
def test_the_encoding_is_found_in_the_bytes(data: bytes, encoding: str) -> None:
    """One broken byte among characters of UTF-8 is a fault of its row and no other encoding."""
    assert table_files.guess_encoding(TableHead("l.csv", data, True)) == encoding


def test_a_character_that_the_beginning_cuts_is_utf8() -> None:
    """Each place where the first bytes may end is tried."""
    data = "あいうえお€🙂".encode()
    heads = [TableHead("l.csv", data[:end], False) for end in range(1, len(data))]
    assert {*map(table_files.guess_encoding, heads)} == {"utf-8-sig"}


@pytest.mark.parametrize("lines", [9, 11, 200])
def test_a_quote_that_swallows_many_lines_ends_the_run(lines: int) -> None:
    """Up to ten lines are one bad row; the rows in more of them would be missed without a word."""
    content = b'filename,label\na.jpg,"cat\n' + b"b.jpg,dog\n" * lines
    table = table_files.inspect_file(TableHead("l.csv", content, False))
    problem = f"lines 2 to {lines + 2}: not CSV: unexpected end of data; look for a quote that is not closed"
    if lines > 10:
        error = raised(LabelTableError, lambda: list(read_chunks(io.BytesIO(content), table)))
        assert str(error) == f"l.csv, {problem} in line 2"
    (rows,) = read_chunks(io.BytesIO(content), table, strict=lines < 10)
    assert (list(rows.lines), rows.faults) == ([], [(2, problem)])


def test_a_line_of_a_list_with_labels_may_lack_one() -> None:
    """Among those that the beginning of the file does not show, as here one beyond it."""
    lines = [f"{number}7 Boeing {number % 3}" for number in range(1000)]
    *rows, last = read("\n".join([*lines, "10007"]), "l.txt")
    assert len(rows) == 1000
    message = "names no image and its label: '10007'"
    assert last == ("labels", "", "", "bad_row", message, "l.txt", 1001)


def test_a_column_without_a_name_has_no_role() -> None:
    """Beside a key it counts the rows, whatever the label is."""
    rows = inspect(",image,label\n0,a.jpg,cat\n1,b.jpg,dog\n")[0].roles
    assert [(row.subject, row.role) for row in rows] == [
        ("column without a name", "ignored"),
        ("column image", "key"),
        ("column label", "class"),
    ]


def number(name: str, feature: str = "", *, repeated: bool = False) -> Column:
    """A column of numbers."""
    return Column(name, ColumnKind.FLOAT, feature or f"label/{name}", repeated=repeated)


NOSE = [number("nose_x"), number("nose_y")]
OF_OBJECTS = [number(f"a_{axis}", f"image/object/a_{axis}") for axis in "xy"]
LISTS = [number("landmarks", repeated=True), number("vector", repeated=True)]
TEXTS = [Column(name, ColumnKind.BYTES, f"label/{name}") for name in ("nose_x", "nose_y")]


@pytest.mark.parametrize(
    ("columns", "declared", "beginning", "answer"),
    [
        ([*NOSE, number("age")], {}, "nose_x, nose_y look", {"columns": {"nose": "point"}}),
        (OF_OBJECTS, {}, "a_x, a_y look", None),
        (LISTS, {}, "landmarks look", None),
        (NOSE, {"nose_x": "float"}, "", None),
        (TEXTS, {}, "", None),
    ],
)
def test_numbers_like_places_are_asked_about(
    columns: list[Column], declared: dict[str, str], beginning: str, answer: Any
) -> None:
    """The answer makes points of them, where that is possible; the user knows declared columns."""
    questions = list(further_columns.resize_questions(columns, declared, answered=True))
    assert [(question.id, question.answer) for question in questions] == (
        [("moved_points", answer)] if beginning else []
    )
    assert all(
        question.reason.startswith(f"{beginning} like places in the images")
        for question in questions
    )


def test_a_class_that_is_the_folder_is_empty_in_every_row() -> None:
    """The join fills it in."""
    folders = FolderClass()
    assert [column.required for column in folders.columns] == [False]
    values, problems = folders.parse(TableRows(range(2, 4), {"a": ["1", "4"], "b": ["2", "5"]}))
    assert ([list(column) for column in values], problems) == ([[None, None]], {})
