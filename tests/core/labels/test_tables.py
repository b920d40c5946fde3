"""Tables of labels beyond the rows of conformance: several files, long ones, and parts that are tested alone."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_pipeline.core import dead_letters, errors, references
from beam_pipeline.core.labels import further_columns, leading_columns, table_files, table_rows
from beam_pipeline.core.labels.schema import (
    Column,
    ColumnChoices,
    ColumnKind,
)
from beam_pipeline.core.labels.tables import inspect_tables
from beam_pipeline.core.labels.unclear_label import single_column, unclear_label
from tests.core.labels import fixtures


def label(
    name: str = "label", kind: ColumnKind = fixtures.CLASS, *, repeated: bool = False
) -> Column:
    feature = "image/class" if kind is fixtures.CLASS else "image/label"
    return Column(name, kind, feature, required=True, repeated=repeated)


def further(name: str, kind: ColumnKind, *, repeated: bool = False) -> Column:
    return Column(name, kind, f"label/{name}", required=repeated, repeated=repeated)


def test_the_columns_of_several_files_are_those_of_all() -> None:
    """Each file has its own order, separator and key; what one lacks is empty there."""
    contents = {
        "a.csv": "filename,label,size\na.jpg,cat,1\n",
        "b.tsv": "label\tcolour\timage\ndog\tred\tb.jpg\n",
        "c.jsonl": fixtures.json_lines({"path": "c.jpg", "label": "cat", "colour": "blue"}),
    }
    heads = [table_rows.TableHead(uri, content.encode(), True) for uri, content in contents.items()]
    schema, tables = inspect_tables(heads, ColumnChoices())
    assert schema.columns == (
        label(),
        further("size", fixtures.INT64),
        further("colour", fixtures.BYTES),
    )
    assert [table.key_column for table in tables] == ["filename", "image", "path"]
    assert [
        row
        for head, table in zip(heads, tables, strict=True)
        for row in fixtures.read_rows(head.data, table, schema)
    ] == [
        references.LabelRow("a.jpg", ("cat", 1, None), "", "a.csv", 2),
        references.LabelRow("b.jpg", ("dog", None, "red"), "", "b.tsv", 2),
        references.LabelRow("c.jpg", ("cat", None, "blue"), "", "c.jsonl", 1),
    ]


# --- splits -------------------------------------------------------------------------------------


def test_a_table_without_the_split_column_of_another_names_no_split() -> None:
    """Its rows are sound; only a cell of the column that is empty is a fault."""
    schema, (with_split, without) = inspect_tables(
        [
            table_rows.TableHead("a.csv", b"filename,label,split\na.jpg,cat,test\n", True),
            table_rows.TableHead("b.csv", b"filename,label\nb.jpg,dog\n", True),
        ],
        ColumnChoices(),
    )
    (row,) = fixtures.read_rows(b"filename,label\nb.jpg,dog\n", without, schema)
    assert (row.split, row.problem) == ("", "")
    (row,) = fixtures.read_rows(b"filename,label,split\na.jpg,cat,\n", with_split, schema)
    assert row.problem == "column 'split': '' names no split"


# --- long quotes, and many columns -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "line", "column"),
    [
        ('filename,label\na.jpg,"cat\nb.jpg,dog\nc.jpg,cat"\n', 2, "label"),
        ('filename,label\nz.jpg,cat\n"a.jpg,cat\nb.jpg",dog\n', 3, "filename"),
        ('filename,label,split\na.jpg,cat,"test\nb.jpg,dog,train"\n', 2, "split"),
        ('filename,class,x,y,w,h\na.jpg,"cat\nb.jpg",1,1,5,5\n', 2, "class"),
    ],
)
def test_a_name_with_line_breaks_is_an_error(content: str, line: int, column: str) -> None:
    """A quote that is closed too late swallowed the rows between; the error says where it opens."""
    schema, table = fixtures.inspect(content.replace(chr(34), ""))
    with pytest.raises(errors.LabelTableError) as caught:
        fixtures.read_rows(content.encode(), table, schema)
    assert str(caught.value).startswith(f"labels.csv, line {line}: ")
    assert f" in column {column!r} has " in str(caught.value)
    assert str(caught.value).endswith("look for a quote that opens there and is closed too late")


@pytest.mark.slow
def test_a_hundred_thousand_columns_are_read() -> None:
    """Work grows with the number of columns: with its square, this would run into the time limit."""
    names = [f"c{number}" for number in range(100_000)]
    schema, _ = fixtures.inspect(
        f"filename,label,{','.join(names)}\na.jpg,x,{','.join('1' * 100_000)}\n"
    )
    assert [column.name for column in schema.columns] == ["label", *names]


def test_more_columns_than_anybody_means_are_asked_about() -> None:
    """Each would be a feature."""
    for count in (9_999, 10_000):
        names = ",".join(f"c{i}" for i in range(count))
        content = f"filename,label,{names}\na.jpg,x{',1' * count}\nb.jpg,y{',2' * count}\n"
        questions = fixtures.inspect(content, "l.csv")[0].questions
        assert len(questions) == count - 9_999
    assert questions[0].reason.startswith(
        "l.csv: each of 10,001 columns would be a feature of its own"
    )


# --- files as people have them ------------------------------------------------------------------


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@given(
    rows=st.lists(
        st.tuples(
            st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1),
            st.text(st.characters(codec="utf-8", exclude_characters="\0")),
        ),
        max_size=6,
    )
)
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
        expected.append((line, name, ("cat", note.strip() or None)))
    texts = {"note": "str"}
    assert fixtures.sound_rows(out.getvalue(), kinds=texts) == expected


def head_of(content: bytes, uri: str = "l.csv", *, whole: bool = True) -> table_rows.TableHead:
    return table_rows.TableHead(uri, content, whole)


def rows_of(content: bytes, table: table_rows.LabelTable) -> list[tuple[int, list[str], str]]:
    """(line, cells, problem) of every row."""
    rows: list[tuple[int, list[str], str]] = []
    for chunk in table_rows.read_chunks(io.BytesIO(content), table):
        for line, fields in zip(chunk.lines, chunk.fields(), strict=True):
            rows.append((line, list(fields.values()), ""))
        rows += [(line, [], problem) for line, problem in chunk.faults]
    return sorted(rows)


# --- encodings ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "encoding"),
    [
        (b"plain", "utf-8-sig"),
        ("Käfer".encode(), "utf-8-sig"),
        ("Käfer".encode("cp1252"), "cp1252"),
        ("10 €".encode("cp1252"), "cp1252"),
        (b"x\x81\xe4", "latin-1"),
        ("Käfer, Vögel und Mäuse".encode() + b"\xe4", "utf-8-sig"),
        ("Käfer".encode("utf-16"), "utf-16"),
    ],
)
def test_the_encoding_is_found_in_the_bytes(data: bytes, encoding: str) -> None:
    """One broken byte among characters of UTF-8 is a fault of its row and no other encoding."""
    assert table_files.guess_encoding(head_of(data)) == encoding


def test_a_character_that_the_beginning_cuts_is_utf8() -> None:
    """Each place where the first bytes may end is tried."""
    data = "あいうえお€🙂".encode()
    for end in range(1, len(data)):
        assert table_files.guess_encoding(head_of(data[:end], whole=False)) == "utf-8-sig"


# --- quotes that swallow lines ---------------------------------------------------------------------


@pytest.mark.parametrize("lines", [9, 11, 200])
def test_a_quote_that_swallows_many_lines_ends_the_run(lines: int) -> None:
    """Up to ten lines are one bad row; the rows in more of them would be missed without a word."""
    content = b'filename,label\na.jpg,"cat\n' + b"b.jpg,dog\n" * lines
    table = table_files.inspect_file(head_of(content, whole=False))
    problem = f"lines 2 to {lines + 2}: not CSV: unexpected end of data; look for a quote that is not closed"
    if lines < 10:
        assert rows_of(content, table) == [(2, [], problem)]
        return
    with pytest.raises(errors.LabelTableError) as caught:
        rows_of(content, table)
    assert str(caught.value) == f"l.csv, {problem} in line 2"
    (rows,) = table_rows.read_chunks(io.BytesIO(content), table, strict=False)
    assert rows.faults == [(2, problem)]


# --- lists of names, with labels or without -------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        *("", "filename", "apple_pie\nbaklava", "filename,label\na.jpg,cat", "a.jpg b.jpg"),
        *("a.jpg,cat", "a.jpg\tcat", "Abyssinian_100 1 1 1\nAbyssinian_101 1 1 1"),
        *("file name\na b", "0787226 Boeing 707-320\nAirbus", "'a b.jpg'"),
    ],
)
def test_other_lines_are_no_list(text: str) -> None:
    """They have a header, separators, several numbers, or words that may name columns."""
    assert table_files.header_of_names(text.splitlines(), "l.txt") == ()


def test_a_line_of_a_list_with_labels_may_lack_one() -> None:
    """Among those that the beginning of the file does not show, as here one beyond it."""
    lines = [f"{number}7 Boeing {number % 3}" for number in range(1000)]
    *rows, last = fixtures.read("\n".join([*lines, "10007"]), "l.txt")
    assert len(rows) == 1000
    assert isinstance(last, dead_letters.DeadLetter)
    assert (last.reason, last.line) == ("bad_row", 1001)
    assert last.message == "names no image and its label: '10007'"


SAY = "Give --label_column NAME, or --label_column none to keep all of them as features label/<column>"
PIXELS = (
    "It seems to contain the pixels of images, not names of image files. Such a table is not read; "
    "beam_pipeline.convert_samples takes images from arrays in Python (docs/datasets/python.md)"
)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"size": ["1"], "colour": ["red"]}, f"size, colour is the label? {SAY}"),
        (
            {f"c{i}": ["x"] for i in range(10)},
            f"c0, c1, c2, c3, c4, c5, c6, c7, and 2 more is the label? {SAY}",
        ),
        (
            {f"{row}x{column}": ["0"] for row in range(1, 9) for column in range(1, 9)},
            f"1x1, 1x2, 1x3, 1x4, 1x5, 1x6, 1x7, 1x8, and 56 more is the label? {PIXELS}",
        ),
        (
            {f"pixel{i}": [] for i in range(4)},
            f"pixel0, pixel1, pixel2, pixel3 is the label? {SAY}",
        ),
        ({"pixels": ["0 255 3"], "Usage": ["Training"]}, f"pixels, Usage is the label? {PIXELS}"),
        (
            {"cat": ["0", "1"], "dog": ["1", "1"], "age": ["3", "4"]},
            "cat, dog, age is the label? If 1 means that an image has a column's class: --one_hot cat,dog. "
            f"Otherwise, give {SAY[5:]}",
        ),
        (
            {"Bald": ["-1", "1"], "Male": ["1", ""]},
            "Bald, Male is the label? If 1 means that an image has a column's class: --one_hot Bald,Male. "
            f"Otherwise, give {SAY[5:]}",
        ),
        (
            {"width": ["9"], "bbox": ["[834.0, 222.0, 56.0, 36.0]", ""], "source": ["usask"]},
            f"width, bbox, source is the label? {SAY}",
        ),
        (
            {"box": [[1, 2, 3, 4]], "source": ["usask"]},
            "box, source is the label? " + SAY.replace("bbox", "box"),
        ),
        ({"a": ["[1, 2, 3]"], "b": [""]}, f"a, b is the label? {SAY}"),
        ({"a": ["0", "1", "-1"], "b": ["", ""]}, f"a, b is the label? {SAY}"),
        (
            {"size": ["1"], "shape": ['{"name": "rect"}']},
            "size, shape is the label? Cells of shape contain objects, which are not read. To keep "
            "them as text: --columns shape:json --label_column none. Otherwise write a table with a row for each image, such as filename,label, or for each object, such as "
            "filename,label,xmin,ymin,xmax,ymax. To take the label from another: --label_column NAME "
            "--columns shape:skip",
        ),
        (
            {"boxes": [{"x": 1}], "more": [[{"x": 1}]]},
            "boxes, more is the label? Cells of boxes, more contain objects, which are not read. To "
            "keep them as text: --columns boxes:json --label_column none. Otherwise write a table with a row for each image, such as filename,label, or for each object, such as "
            "filename,label,xmin,ymin,xmax,ymax",
        ),
    ],
)
def test_the_error_says_what_the_columns_look_like(
    values: Mapping[str, Sequence[Any]], message: str
) -> None:
    """Pixels, flags and objects have answers of their own."""
    assert (
        str(unclear_label("l.csv", list(values), values))
        == f"l.csv: which of the columns {message}"
    )


def test_a_single_column_is_shown() -> None:
    """It may be a line that was taken for the header."""
    end = "Expected a first line such as filename,label, then a line with the name and the label of each image"
    assert str(single_column("l.txt", ["100 Boeing 7"])) == (
        "l.txt: no column besides the key, so there are no labels: the only one is '100 Boeing 7'. "
        + end
        + ". Spaces separate no columns, except a name from its label; docs/datasets/official_lists.md "
        "has commands that write tables of such files"
    )
    assert str(single_column("l.jsonl", [])) == (
        "l.jsonl: no column besides the key, so there are no labels. " + end
    )


def test_a_column_without_a_name_has_no_role() -> None:
    """Beside a key it counts the rows, whatever the label is."""
    rows = fixtures.inspect(",image,label\n0,a.jpg,cat\n1,b.jpg,dog\n")[0].roles
    assert {row.subject: row.role for row in rows} == {
        "column without a name": "ignored",
        "column image": "key",
        "column label": "class",
    }


def test_names_that_differ_in_an_x_and_a_y_are_pairs() -> None:
    """Whatever is around the letter; of two pairs of one name, the first counts."""
    names = ["x", "y", "left_x_1", "left_y_1", "x1", "Y1", "box", "tax", "pupilX", "pupilY"]
    assert further_columns.paired_columns(names) == {
        "point": ("x", "y"),
        "left_1": ("left_x_1", "left_y_1"),
        "pupil": ("pupilX", "pupilY"),
    }


def number(name: str, feature: str = "", *, repeated: bool = False) -> Column:
    """A column of numbers."""
    return Column(name, ColumnKind.FLOAT, feature or f"label/{name}", repeated=repeated)


def test_numbers_like_places_are_asked_about() -> None:
    """The answer makes points of them, where that is possible."""
    columns = [number("nose_x"), number("nose_y"), number("age")]
    (question,) = further_columns.resize_questions(columns, {}, answered=True)
    assert (question.id, question.answer) == ("moved_points", {"columns": {"nose": "point"}})
    assert question.reason.startswith("nose_x, nose_y look like places in the images")
    of_objects = [number("a_x", "image/object/a_x"), number("a_y", "image/object/a_y")]
    lists = [number("landmarks", repeated=True), number("vector", repeated=True)]
    for columns, names in ((of_objects, "a_x, a_y look"), (lists, "landmarks look")):
        (question,) = further_columns.resize_questions(columns, {}, answered=True)
        assert question.reason.startswith(names)
        assert question.answer is None


def test_declared_columns_and_texts_are_no_places() -> None:
    """The user knows them."""
    columns = [number("nose_x"), number("nose_y")]
    assert not list(further_columns.resize_questions(columns, {"nose_x": "float"}, answered=True))
    texts = [Column(name, ColumnKind.BYTES, f"label/{name}") for name in ("nose_x", "nose_y")]
    assert not list(further_columns.resize_questions(texts, {}, answered=True))


# --- leading columns


def three_columns(*cells: str) -> table_rows.TableRows:
    columns = zip(*(row.split() for row in cells), strict=True)
    return table_rows.TableRows(range(2, 2 + len(cells)), dict(zip("abc", columns, strict=False)))


def test_a_class_that_is_the_folder_is_empty_in_every_row() -> None:
    """The join fills it in."""
    folders = leading_columns.FolderClass()
    assert [column.required for column in folders.columns] == [False]
    values, problems = folders.parse(three_columns("1 2 3", "4 5 6"))
    assert ([list(column) for column in values], problems) == ([[None, None]], {})
