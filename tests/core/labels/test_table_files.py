"""Files of tables as people have them: encodings, separators, headers, rows, JSON Lines."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_pipeline.core.dead_letters import DeadLetter
from beam_pipeline.core.errors import LabelTableError
from beam_pipeline.core.labels.schema import CLASS_FOLDER_COLUMNS, Column, ColumnChoices
from beam_pipeline.core.labels.table_files import (
    LIST_HEADER,
    file_notes,
    guess_encoding,
    header_of_names,
    inspect_file,
    inspect_table,
)
from beam_pipeline.core.labels.table_rows import LabelTable, TableHead, read_chunks, split_line
from beam_pipeline.core.references import LabelRow
from tests.core.labels.fixtures import (
    BYTES,
    CLASS,
    CLASS_SCHEMA,
    FLOAT,
    INT64,
    PLAIN,
    PLAIN_ROWS,
    bad_row,
    inspect,
    json_lines,
    kinds,
    read,
    sound_rows,
)

# --- files as people have them ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "uri"),
    [
        (PLAIN, "labels.csv"),
        (PLAIN.rstrip("\n"), "labels.csv"),
        (PLAIN, "labels.txt"),
        (PLAIN, "labels"),
        (PLAIN, "gs://bucket/LABELS.CSV"),
        ("\ufeff" + PLAIN, "labels.csv"),
        (PLAIN.replace("\n", "\r\n"), "labels.csv"),
        (PLAIN.replace("\n", "\r"), "labels.csv"),
        (PLAIN.replace(",", ", "), "labels.csv"),
        (PLAIN.replace(",", " ,"), "labels.csv"),
        (PLAIN.replace(",", ";"), "labels.csv"),
        (PLAIN.replace(",", "\t"), "labels.csv"),
        (PLAIN.replace(",", "|"), "labels.txt"),
        (PLAIN.replace(",", "\t"), "labels.tsv"),
        (PLAIN.replace(",", "\t"), "labels.tab"),
        (PLAIN.encode("utf-16"), "labels.csv"),
        (PLAIN.encode("utf-16").replace(b"\n\0", b"\r\0\n\0"), "labels.csv"),
        (("\ufeff" + PLAIN).encode("utf-16-be"), "labels.csv"),
        (PLAIN.replace(",", "\t").encode("utf-16"), "labels.txt"),
        ('"filename","label"\n"a.jpg","cat"\n"b.jpg","dog"\n', "labels.csv"),
        ('filename, "label"\na.jpg, "cat"\nb.jpg, "dog"\n', "labels.csv"),
    ],
)
def test_a_table_says_the_same_however_it_was_saved(content: str | bytes, uri: str) -> None:
    """Byte order mark, encoding, line ends, separator, spaces and quotes change nothing."""
    assert sound_rows(content, uri) == PLAIN_ROWS
    assert inspect(content, uri)[0] == CLASS_SCHEMA


@pytest.mark.parametrize(
    ("content", "uri", "rows"),
    [
        (  # a cell is what stands between its quotes, and a row has the line on which it begins
            "filename,label,note\n"
            '"a, b.jpg",cat,"says ""hi"""\n'
            'c.jpg,dog,"two\nlines"\n'
            'd.jpg,dog,"three\r\nmore\r\nlines"\r\n'
            "e.jpg,cat,plain\n",
            "l.csv",
            [
                (2, "a, b.jpg", ("cat", 'says "hi"')),
                (3, "c.jpg", ("dog", "two\nlines")),
                (5, "d.jpg", ("dog", "three\r\nmore\r\nlines")),
                (8, "e.jpg", ("cat", "plain")),
            ],
        ),
        ('filename,label\na.jpg,5" pipe\n', "l.csv", [(2, "a.jpg", ('5" pipe',))]),
        (
            "사진,label,größe\n강아지/사진 1.jpg,강아지,1\n",
            "l.csv",
            [(2, "강아지/사진 1.jpg", ("강아지", 1))],
        ),
        (
            "\n\nfilename,label\n\na.jpg,cat\n   \n\r\nb.jpg,dog\n\n",
            "l.csv",
            [(5, "a.jpg", ("cat",)), (8, "b.jpg", ("dog",))],
        ),
        # the header has most of its separator
        ("filename;label;width, px\na,1.jpg;cat;3\n", "l.csv", [(2, "a,1.jpg", ("cat", 3))]),
        ("filename,label,a;b\nx;1.jpg,cat,3\n", "l.csv", [(2, "x;1.jpg", ("cat", 3))]),
        ("filename,a;b\nx.jpg,cat\n", "l.csv", [(2, "x.jpg", ("cat",))]),
        ("filename\tlabel\ta, b, c\nx.jpg\tcat\t3\n", "l.tsv", [(2, "x.jpg", ("cat", 3))]),
        ("filename\tlabel\ta, b, c\nx.jpg\tcat\t3\n", "l.tab", [(2, "x.jpg", ("cat", 3))]),
        # Excel's line is no row, and lines keep their numbers
        *(
            (content, "l.csv", [(3, "a.jpg", ("cat",)), (4, "b.jpg", ("dog",))])
            for content in (
                "\ufeffsep=;\r\nfilename;label\r\na.jpg;cat\r\nb.jpg;dog\r\n",
                '"sep=\t"\nfilename\tlabel\na.jpg\tcat\nb.jpg\tdog\n',
                "SEP=,\nfilename,label\na.jpg,cat\nb.jpg,dog\n",
                "sep=\nfilename|label\na.jpg|cat\nb.jpg|dog\n",
            )
        ),
        # a first column without a name is the key if it names images; one that counts rows is passed over
        (",filename,label\n0,a.jpg,cat\n1,b.jpg,dog\n", "l.csv", PLAIN_ROWS),
        (",label\na.jpg,cat\nb.jpg,dog\n", "l.csv", PLAIN_ROWS),
        (
            ",id,label\na.jpg,7,cat\nb.jpg,8,dog\n",
            "l.csv",
            [(2, "a.jpg", ("cat", 7)), (3, "b.jpg", ("dog", 8))],
        ),
        (",id,label\n0,a,cat\n1,b,dog\n", "l.csv", [(2, "a", ("cat",)), (3, "b", ("dog",))]),
        (",filename,label\nx.jpg,a.jpg,cat\ny.jpg,b.jpg,dog\n", "l.csv", PLAIN_ROWS),
        (",label\n007,cat\n012,dog\n", "l.csv", [(2, "007", ("cat",)), (3, "012", ("dog",))]),
        (",photo,label\nx,a.jpg,cat\ny,b.jpg,dog\n", "l.csv", PLAIN_ROWS),
        (",photo,label\nx,a,cat\nx,b,dog\n", "l.csv", [(2, "a", ("cat",)), (3, "b", ("dog",))]),
        # JSON: a class is called as in the file, a further column of booleans holds numbers
        (
            json_lines(
                {"file_name": "a.jpg", "label": True, "blurred": False},
                {"file_name": "b.jpg", "label": False, "blurred": True},
            ),
            "l.jsonl",
            [(1, "a.jpg", ("true", 0)), (2, "b.jpg", ("false", 1))],
        ),
        (
            json_lines({"file_name": "a.jpg", "label": 3}, {"file_name": "b.jpg", "label": 10}),
            "l.jsonl",
            [(1, "a.jpg", ("3",)), (2, "b.jpg", ("10",))],
        ),
        (
            json_lines({"file_name": "a.jpg", "label": 10**20 - 1}),
            "l.jsonl",
            [(1, "a.jpg", ("9" * 20,))],
        ),
        *(
            (
                '{"file_name": "강.jpg", "label": "cat"}\r\n'.encode(encoding),
                "l.jsonl",
                [(1, "강.jpg", ("cat",))],
            )
            for encoding in ("utf-8", "utf-8-sig", "utf-16")
        ),
        ("filename,label", "l.csv", []),
        ("filename,label\n", "l.csv", []),
    ],
)
def test_rows_are_read_as_they_are_meant(
    content: str | bytes, uri: str, rows: list[tuple[int, str, tuple[object, ...]]]
) -> None:
    """Quotes, separators, empty lines, an index as pandas writes it, and values of JSON."""
    assert sound_rows(content, uri) == rows


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
    assert sound_rows(out.getvalue(), kinds=texts) == expected


# --- what makes a file unusable as a whole ------------------------------------------------------


EMPTY = "the file is empty; expected a header and rows"
NO_NAMES = "no header; expected column names in the first line"


def an_image(name: str, columns: int) -> str:
    """What is said of a first line that names an image."""
    return (
        f"the first line contains an image's name ({name!r}) where column names are expected; put a "
        f"line with names of its {columns} columns before it, such as filename,label,..."
    )


def twice(names: str) -> str:
    return f"the header names {names} more than once; give each column a different name"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", EMPTY),
        (b"\n\r\n  \n", EMPTY),
        (b"\xef\xbb\xbf\n", EMPTY),
        (b"\xff\xfe", NO_NAMES),
        (b",,\n , \n", NO_NAMES),
        (b"filename,label,label\na,b,c\n", twice("'label'")),
        (b"a,b, a,b ,c\n", twice("'a', 'b'")),
        (b"cat/1.jpg,cat,3\ncat/2.jpg,cat,4\n", an_image("cat/1.jpg", 3)),
        (b"1,gs://b/PHOTO.PNG\n", an_image("gs://b/PHOTO.PNG", 2)),
        (
            b"val_0.JPEG\tn0\t0\t32\t44\t44\nval_1.JPEG\tn1\t0\t0\t63\t63\n",
            an_image("val_0.JPEG", 6),
        ),
        (b"a.jpg b.jpg\n", an_image("a.jpg b.jpg", 1)),
        (b"a.jpg,1,2\n", an_image("a.jpg", 3)),
        (b"a.jpg,b.jpg\n", an_image("a.jpg", 2)),
        (b"a.jpg,x,2,3,4,cat\n", an_image("a.jpg", 6)),
    ],
)
def test_a_file_without_a_usable_header_is_an_error(content: bytes, message: str) -> None:
    """The message says what the first line holds and what was expected."""
    with pytest.raises(LabelTableError) as caught:
        inspect(content, "l.csv")
    assert str(caught.value) == f"l.csv: {message}"


@pytest.mark.parametrize(
    ("uri", "content", "message"),
    [
        (
            "l.csv",
            b"filename,\xc3\xa9caf\xe9\na,b\n",
            "line 1: the header cannot be read: not UTF-8: ",
        ),
        (
            "l.csv",
            b'filename,"label\na,b\n',
            "line 1: the header cannot be read: line.*: not CSV: ",
        ),
        (
            "l.csv",
            PLAIN.replace(",label", "").replace(",cat", "").replace(",dog", ""),
            "no column besides the key",
        ),
        ("l.txt", "cat\ndog\n", "no column besides the key"),
        ("l.txt", "Abyssinian_1 1 1\nAbyssinian_2 1 1\n", "no column besides the key"),
        ("labels.json", PLAIN, r"labels are read from \.csv, .*, not \.json"),
        ("labels.csv.gz", PLAIN, r"labels are read from \.csv, .*, not \.gz"),
        (
            "l.json",
            '{"version": "5.0"}',
            r'\{"file_name": "a\.jpg", "label": "cat"\}; docs/datasets/official_lists\.md has commands$',
        ),
        (
            "l.mat",
            "MATLAB 5.0",
            r"scipy\.io\.loadmat reads, as in docs/datasets/official_lists\.md$",
        ),
        ("l.manifest", '{"source-ref": "s3://b/a.jpg"}', r"a name that ends in \.jsonl$"),
        ("l.xml", "<annotations>", "COCO's JSON as well$"),
        ("l.jsonl", '["a.jpg", "cat"]\nnonsense\n', r"no line contains a JSON object such as \{"),
    ],
)
def test_a_file_that_is_no_table_is_an_error(uri: str, content: str | bytes, message: str) -> None:
    """The message names what is read, or how to write other files as a table."""
    with pytest.raises(LabelTableError, match=f"^{uri}(: |, ).*{message}"):
        inspect(content, uri, may_be_lists=uri == "l.txt")


def test_numbered_captions_are_lists() -> None:
    """As Flickr8k and Flickr30k have them: without a header, each with the number of a caption."""
    content = (
        'a.jpg#0\t"Go !" , it says .\na.jpg#1\tA dog\'s toy .\nb.jpg\tno number\nb.jpg#0\tx\ty\n'
    )
    schema, table = inspect(content, "captions.token")
    assert schema.columns == (
        Column("caption", BYTES, "label/caption", required=True, repeated=True),
    )
    assert table.header == ("filename", "caption")
    assert read(content, "captions.token") == [
        LabelRow("a.jpg", (('"Go !" , it says .',),), "", "captions.token", 1),
        LabelRow("a.jpg", (("A dog's toy .",),), "", "captions.token", 2),
        bad_row(3, "names no image and its label: 'b.jpg\\tno number'", "captions.token"),
        LabelRow("b.jpg", (("x\ty",),), "", "captions.token", 4),
    ]


# --- rows that cannot be told apart -------------------------------------------------------------


BEHIND_QUOTE = "not CSV: ',' expected after '\"'; look for a quote that is not closed"
TOO_LONG = "3 fields where the header has 2 (filename, label): "


@pytest.mark.parametrize(
    ("rows", "faults", "sound"),
    [
        (
            "a.jpg\nb.jpg,dog,9\nc.jpg,cat\n",
            {
                2: "1 fields where the header has 2 (filename, label): 'a.jpg'",
                3: f"{TOO_LONG}'b.jpg,dog,9'",
            },
            {4: "c.jpg"},
        ),
        # the message holds no more of a row than a person wants to see: 80 characters
        (f"{'x' * 76},,\n", {2: f"{TOO_LONG}'{'x' * 76},,'"}, {}),
        (f"{'x' * 77},,\n", {2: f"{TOO_LONG}'{'x' * 76}..."}, {}),
        (" ,cat\n", {2: "the key column 'filename' is empty"}, {}),
        # the lines that a quote swallowed are named, and those after them are read
        (
            'a.jpg,cat\n"b.jpg,dog\nc.jpg,cat\n"d.jpg",dog\ne.jpg,cat\n',
            {3: f"lines 3 to 5: {BEHIND_QUOTE}"},
            {2: "a.jpg", 6: "e.jpg"},
        ),
        (
            'a.jpg,cat\nb.jpg,"dog\nc.jpg,cat\n',
            {
                3: "lines 3 to 4: not CSV: unexpected end of data; look for a quote that is not closed"
            },
            {2: "a.jpg"},
        ),
        ('a.jpg,"a "big" cat"\nb.jpg,dog\n', {2: f"line 2: {BEHIND_QUOTE}"}, {3: "b.jpg"}),
    ],
)
def test_a_row_that_cannot_be_told_apart_is_a_dead_letter(
    rows: str, faults: dict[int, str], sound: dict[int, str]
) -> None:
    """It names file, line, what was found and what was expected; the next rows are read."""
    parts = read(f"filename,label\n{rows}")
    letters = [part for part in parts if isinstance(part, DeadLetter)]
    assert letters == [bad_row(line, message) for line, message in faults.items()]
    assert {part.line: part.name for part in parts if isinstance(part, LabelRow)} == sound


def test_a_utf16_file_with_half_a_character_at_its_end_is_read() -> None:
    """A byte too many costs the row that it stands in at most."""
    rows = read(PLAIN.encode("utf-16") + b"x")
    assert rows[:2] == [
        LabelRow("a.jpg", ("cat",), "", "labels.csv", 2),
        LabelRow("b.jpg", ("dog",), "", "labels.csv", 3),
    ]


def test_a_row_that_is_not_utf8_is_a_dead_letter() -> None:
    """A row of another encoding says so and what to do; the others are read."""
    content = "filename,label\na.jpg,cät\n".encode() + "café.jpg,dog\nb.jpg,dog\n".encode("latin-1")
    first, dead_letter, last = read(content)
    assert isinstance(first, LabelRow)
    assert isinstance(last, LabelRow)
    assert (first.line, last.line) == (2, 4)
    assert isinstance(dead_letter, DeadLetter)
    assert (dead_letter.reason, dead_letter.file, dead_letter.line) == ("bad_row", "labels.csv", 3)
    assert dead_letter.message.startswith("not UTF-8: ")
    assert "save the file as UTF-8 (iconv" in dead_letter.message
    assert dead_letter.to_json().encode()


# --- JSON Lines ---------------------------------------------------------------------------------


def test_json_lines_are_rows() -> None:
    """Columns are all names that occur; numbers keep their type, null is an empty cell."""
    content = json_lines(
        {"file_name": "a.jpg", "label": "cat", "age": 3, "weight": 4.5},
        {"file_name": "b.jpg", "label": "dog", "age": None, "note": "x"},
        {"label": "dog", "weight": 1, "file_name": "c.jpg", "age": 5},
    )
    assert kinds(content, "l.jsonl") == {
        "label": CLASS,
        "age": INT64,
        "weight": FLOAT,
        "note": BYTES,
    }
    assert sound_rows(content, "l.ndjson") == [
        (1, "a.jpg", ("cat", 3, 4.5, None)),
        (2, "b.jpg", ("dog", None, None, "x")),
        (3, "c.jpg", ("dog", 5, 1.0, None)),
    ]


def test_a_nested_value_is_a_bad_value() -> None:
    """A list of lists and an object are no feature; the row says so, and how to leave it out."""
    content = json_lines(
        {"file_name": "a.jpg", "label": "cat", "boxes": ["v"], "camera": "x"},
        {"file_name": "b.jpg", "label": "cat", "boxes": [[1, 2, 3, 4]], "camera": "y"},
        {"file_name": "c.jpg", "label": {"name": "cat"}, "boxes": ["w"], "camera": "z"},
        {"file_name": "d.jpg", "label": "cat", "boxes": {}, "camera": {"iso": 100}},
    )
    nested = (
        "column 'boxes': the item {} is not one text; --columns boxes:json keeps such values as text, "
        "boxes:skip leaves them out"
    )
    rows = [row for row in read(content, "l.jsonl") if isinstance(row, LabelRow)]
    assert [(row.values, row.problem) for row in rows] == [
        (("cat", ("v",), "x"), ""),
        (("cat", None, "y"), nested.format([1, 2, 3, 4])),
        ((None, ("w",), "z"), "column 'label': {'name': 'cat'} is not a class name"),
        (("cat", None, None), nested.format({})),
    ]


@pytest.mark.parametrize(("asked", "value"), [("int", "y"), ("float", "y"), ("str", {"y": 1})])
def test_a_message_names_no_python_class(asked: str, value: Any) -> None:
    """What was expected is said in words, whatever version of Python runs."""
    content = json_lines({"file_name": "a.jpg", "label": "cat", "x": value})
    (row,) = read(content, "l.jsonl", kinds={"x": asked})
    assert isinstance(row, LabelRow)
    assert row.problem.startswith(f"column 'x': {value!r} is not ")
    assert "ColumnKind" not in row.problem


def test_a_broken_line_of_json_is_a_dead_letter() -> None:
    """A line that is cut, that is no object or that is not UTF-8 costs itself alone."""
    content = (
        b'{"file_name": "a.jpg", "label": "cat"}\n{"file_name": "b.jpg", "lab\n["c.jpg", "cat"]\n\n'
        b'{"file_name": "caf\xe9.jpg", "label": "cat"}\n{"label": "cat"}\n'
        b'{"file_name": "d.jpg", "label": "dog"}'
    )
    first, *letters, last = read(content, "l.jsonl")
    assert first == LabelRow("a.jpg", ("cat",), "", "l.jsonl", 1)
    assert last == LabelRow("d.jpg", ("dog",), "", "l.jsonl", 7)
    expected = {
        2: "not JSON: ",
        3: "expected a JSON object, found ['c.jpg', 'cat']",
        5: "not UTF-8: ",
        6: "the key column 'file_name' is empty",
    }
    for letter, (line, start) in zip(letters, expected.items(), strict=True):
        assert isinstance(letter, DeadLetter)
        assert (letter.reason, letter.file, letter.line) == ("bad_row", "l.jsonl", line)
        assert letter.message.startswith(start)
        assert letter.to_json().encode()


@pytest.mark.parametrize(
    "row",
    [
        {"file_name": "a.jpg", "label": "\ud800"},
        {"file_name": "\udfff.jpg", "label": "cat"},
        {"file_name": "a.jpg", "label": "cat", "note": "x\ud83d"},
    ],
    ids=["label", "name", "further column"],
)
def test_half_a_character_in_json_is_a_fault_of_its_row(row: Mapping[str, str]) -> None:
    r"""Text with an escape such as \ud800 on its own cannot be written, so it is not passed on."""
    sound = {"file_name": "b.jpg", "label": "cat", "note": "y"}
    faulty, good = read(json_lines(row, sound), "l.jsonl")
    assert isinstance(faulty, DeadLetter) or faulty.problem
    assert isinstance(good, LabelRow)
    assert not good.problem
    texts = [value for value in faulty if isinstance(value, str)]
    if isinstance(faulty, LabelRow):
        texts += [value for value in faulty.values if isinstance(value, str)]
    for text in texts:
        text.encode()


def head_of(content: bytes, uri: str = "l.csv", *, whole: bool = True) -> TableHead:
    return TableHead(uri, content, whole)


def rows_of(content: bytes, table: LabelTable) -> list[tuple[int, list[str], str]]:
    """(line, cells, problem) of every row."""
    rows: list[tuple[int, list[str], str]] = []
    for chunk in read_chunks(io.BytesIO(content), table):
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
    assert guess_encoding(head_of(data)) == encoding


def test_a_character_that_the_beginning_cuts_is_utf8() -> None:
    """Each place where the first bytes may end is tried."""
    data = "あいうえお€🙂".encode()
    for end in range(1, len(data)):
        assert guess_encoding(head_of(data[:end], whole=False)) == "utf-8-sig"


def test_another_encoding_is_said_with_a_word_in_it() -> None:
    """The note names the file, the encoding, a word to judge by and the option."""
    content = "filename;label\na.jpg;Käfer\n".encode("cp1252")
    head = head_of(content, "/data/l.csv")
    table = inspect_file(head)
    assert list(file_notes(head, table)) == [
        "l.csv is not UTF-8 and is read as Windows-1252, with words such as 'Käfer'; "
        "override it with --labels_encoding NAME"
    ]
    assert rows_of(content, table) == [(2, ["a.jpg", "Käfer"], "")]


# --- lists without a header ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "uri", "rows"),
    [
        (
            b"n01/a.JPEG 0\nn02/b c.JPEG 12\n",
            "train.txt",
            [["n01/a.JPEG", "0"], ["n02/b c.JPEG", "12"]],
        ),
        (b"a.jpg\tcat\n", "train.txt", [["a.jpg", "cat"]]),
        (b"a.jpg,cat\nb.jpg,dog\n", "l.csv", [["a.jpg", "cat"], ["b.jpg", "dog"]]),
        (b"\n a.jpg  golden retriever \n", "l.txt", [["a.jpg", "golden retriever"]]),
        (b"a.png tench, Tinca tinca\n", "l.txt", [["a.png", "tench, Tinca tinca"]]),
        (b"1\tx\n22\ty\n3\tx", "l.txt", [["1", "x"], ["22", "y"], ["3", "x"]]),
        (b"b/a-1,cat\nb/a-02,cat\n", "l.csv", [["b/a-1", "cat"], ["b/a-02", "cat"]]),
        (b"a1; 0.25\na2; 3\n", "l.csv", [["a1", "0.25"], ["a2", "3"]]),
    ],
)
def test_a_list_of_images_needs_no_header(content: bytes, uri: str, rows: list[list[str]]) -> None:
    """Its first line is an image and its label, with a space, a tab or a comma between."""
    head = head_of(content, uri)
    table = inspect_file(head)
    assert (table.header, table.header_lines) == (LIST_HEADER, 0)
    assert [cells for _, cells, _ in rows_of(content, table)] == rows
    assert list(file_notes(head, table)) == [
        f"{uri} has no header; its first line is an image, so its columns are filename, label"
    ]


@pytest.mark.parametrize(
    "content",
    [
        b"img1,class1\nimg2,class2\n",  # may name the columns: no row has this label
        b"img1,2\nimg2,x\n",
        b"image,cat\nimg2,cat\n",  # no digit
        b"image,cat\nimage,cat\n",
        b"col1,cat\nimg2,cat\n",  # no such name
        b"a1,cat,3\na2,cat,3\n",  # which of them is the label?
        b"a1,2\n",
        b"a1\na2\n",
    ],
)
def test_a_first_line_that_may_be_a_header_is_one(content: bytes) -> None:
    """Unless name and label are as those of the rows."""
    table = inspect_file(head_of(content, "l.csv"))
    assert table.header_lines or table.header != LIST_HEADER


def test_a_line_of_a_list_that_names_no_image_is_a_problem() -> None:
    """The others are read."""
    content = b"a.jpg 1\nsomething else\nb.jpg 2\n"
    assert rows_of(content, inspect_file(head_of(content, "l.txt"))) == [
        (1, ["a.jpg", "1"], ""),
        (2, [], "names no image and its label: 'something else'"),
        (3, ["b.jpg", "2"], ""),
    ]


@pytest.mark.parametrize("content", [b"a.jpg 1 0 1\n", b"a.jpg 1,2,3,4,0 5,6,7,8,1\n"])
def test_several_numbers_behind_an_image_are_no_class(content: bytes) -> None:
    """They are labels or boxes of which nobody knows how they are meant."""
    table = inspect_file(head_of(content, "l.txt"))
    assert table.header_lines


# --- numbers, sheets and quotes -----------------------------------------------------------------


def test_decimal_commas_are_points_where_semicolons_separate() -> None:
    """In columns of numbers only: `1,2` among words stays, and so does a column called a text."""
    content = b"filename;size;note;zip\na;0,5;1,2;1,5\nb;12;x;2,5\nc;-1,5e3;y;3\n"
    head = head_of(content)
    table, _ = inspect_table(head, ColumnChoices(columns={"zip": "str"}))
    assert table.decimal_commas == ("size",)
    assert [cells for _, cells, _ in rows_of(content, table)] == [
        ["a", "0.5", "1,2", "1,5"],
        ["b", "12", "x", "2,5"],
        ["c", "-1.5e3", "y", "3"],
    ]
    assert list(file_notes(head, table)) == [
        "l.csv: numbers with a decimal comma in size are read as with a point; --columns NAME:str "
        "keeps them as text"
    ]


@pytest.mark.parametrize("ending", ["xlsx", "xls", "ods"])
def test_a_spreadsheet_is_refused_with_the_way_out(ending: str) -> None:
    """The message has the line of pandas that makes a CSV of it."""
    with pytest.raises(LabelTableError) as caught:
        inspect_file(head_of(b"PK\x03\x04", f"/data/l.{ending}"))
    assert str(caught.value) == (
        f"/data/l.{ending}: spreadsheets are not read; save the sheet as CSV UTF-8 in its program, "
        f"or: pandas.read_excel('/data/l.{ending}').to_csv('/data/l.csv', index=False). Then "
        "--labels /data/l.csv"
    )


@pytest.mark.parametrize("lines", [9, 11, 200])
def test_a_quote_that_swallows_many_lines_ends_the_run(lines: int) -> None:
    """Up to ten lines are one bad row; the rows in more of them would be missed without a word."""
    content = b'filename,label\na.jpg,"cat\n' + b"b.jpg,dog\n" * lines
    table = inspect_file(head_of(content, whole=False))
    problem = f"lines 2 to {lines + 2}: not CSV: unexpected end of data; look for a quote that is not closed"
    if lines < 10:
        assert rows_of(content, table) == [(2, [], problem)]
        return
    with pytest.raises(LabelTableError) as caught:
        rows_of(content, table)
    assert str(caught.value) == f"l.csv, {problem} in line 2"
    (rows,) = read_chunks(io.BytesIO(content), table, strict=False)
    assert rows.faults == [(2, problem)]


def test_a_json_number_that_no_float_holds_stays_a_text() -> None:
    """So its cell is a bad value and not infinite."""
    content = b'{"file_name": "a", "x": 1e400, "y": [-1e400], "z": 1e3}\n'
    (rows,) = read_chunks(io.BytesIO(content), inspect_file(head_of(content, "l.jsonl")))
    (fields,) = rows.fields()
    assert fields == {"file_name": "a", "x": "1e400", "y": ["-1e400"], "z": 1000.0}


# --- lists of names, with labels or without -------------------------------------------------------

PAGE = "docs/datasets/official_lists.md"


@pytest.mark.parametrize(
    ("lines", "labelled"),
    [
        (["apple_pie/1005649", "apple_pie/1011328"], False),
        (["banded/banded_0002.jpg", "banded/banded_0004.jpg"], False),
        (["/a/abbey/sun_aakbdcgfpksytcwj.jpg"], False),
        (["kitchen/int 474.jpg", "a kitchen/x, y.jpg"], False),
        (["2008_000008", "2008_000015"], False),
        (["1025794", "1340192"], False),
        (["1.jpg", "2.jpg"], False),
        (["0787226 Boeing 707-320", "1481091 Boeing 737-200"], True),
        (["2008_000001 -1", "2008_000002  1", "2008_000003 -1"], True),
        (["a/b 3"], True),
        (["a/b 1", "a/c 2", "a/d 2"], True),
    ],
)
def test_names_are_a_list_with_labels_or_without(lines: list[str], labelled: bool) -> None:
    """With or without folder and extension; a name with one may have spaces, else the first ends it."""
    assert header_of_names(lines, "l.txt") == LIST_HEADER[: 1 + labelled]
    table = inspect_file(head_of("\n".join(lines).encode(), "l.txt"))
    cells = [line.split(maxsplit=1) if labelled else [line] for line in lines]
    assert [split_line(line, table) for line in lines] == cells


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
    assert header_of_names(text.splitlines(), "l.txt") == ()


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (
            ["1 001.Albatross/a.jpg", "2 001.Albatross/b.jpg"],
            "l.txt: the lines begin with 1, 2, 3, ... ('1 001.Albatross/a.jpg'), which are ids and no names "
            "of images. If several files share the ids, as those of CUB-200-2011 do, join them into one "
            f"table first; {PAGE} has the commands",
        ),
        (
            ["n01/n01_26 1", "n01/n01_27 2"],
            "l.txt: the numbers after the names count the lines ('n01/n01_26 1', 'n01/n01_27 2'), so they "
            "are no labels. To take the names alone, in another folder: cut -d' ' -f1 l.txt > l.txt",
        ),
        (
            ["202599", "5_o_Clock_Shadow Young"],
            "l.txt: the first line is a number (202599), as a count of the others, where column names or "
            f"an image's name are expected. {PAGE} has commands that write a table of such a file, as "
            "CelebA has it",
        ),
        (
            ["490", "361", "490"],
            "l.txt: the lines are numbers, some of them several times, and name no image. If they are the "
            "labels of the images in the order of their names, as those of ImageNet's validation set are, "
            f"write a table of both; {PAGE} has the command",
        ),
    ],
)
def test_ids_counts_and_labels_are_no_names(lines: list[str], message: str) -> None:
    """The message says what they look like, and what to do."""
    with pytest.raises(LabelTableError) as caught:
        header_of_names(lines, "l.txt")
    assert str(caught.value) == message


def test_a_list_is_a_table_with_the_folders_as_classes() -> None:
    """The first line is a row; commas and quotes are part of a name."""
    content = 'b/1\n\n  b/2 \nb/3, "x"\n'
    schema, table = inspect(content, "train.txt", may_be_lists=True)
    assert (table.header, table.header_lines, table.key_column) == (("filename",), 0, "filename")
    assert schema.class_by_folder
    assert [column.feature for column in schema.columns] == [CLASS_FOLDER_COLUMNS[0].feature]
    assert sound_rows(content, "train.txt", may_be_lists=True) == [
        (1, "b/1", (None,)),
        (3, "b/2", (None,)),
        (4, 'b/3, "x"', (None,)),
    ]
    assert schema.notes == (
        "train.txt has no header, and is read as a list of images without labels",
    )


def test_a_line_of_a_list_with_labels_may_lack_one() -> None:
    """Among those that the beginning of the file does not show, as here one beyond it."""
    lines = [f"{number}7 Boeing {number % 3}" for number in range(1000)]
    *rows, last = read("\n".join([*lines, "10007"]), "l.txt")
    assert len(rows) == 1000
    assert isinstance(last, DeadLetter)
    assert (last.reason, last.line) == ("bad_row", 1001)
    assert last.message == "names no image and its label: '10007'"


@pytest.mark.parametrize(
    ("content", "group", "columns"),
    [
        ("filename\na.jpg\n", "", ["folder"]),
        ("image_id,split\na,train\n", "", ["folder"]),
        ("filename,patient\na.jpg,7\n", "patient", ["folder", "patient", "patient"]),
    ],
)
def test_a_table_without_a_label_column_is_a_list(
    content: str, group: str, columns: list[str]
) -> None:
    """It may have the split and the group of each image."""
    schema, _ = inspect(content, may_be_lists=True, group=group)
    assert schema.class_by_folder
    assert [column.name for column in schema.columns] == columns


def test_only_some_layouts_have_lists() -> None:
    """Those without a table of their own."""
    with pytest.raises(LabelTableError, match="no column besides the key"):
        inspect("a/1\na/2\n", "l.txt")
