from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from beam_pipeline.core.errors import LabelTableError
from beam_pipeline.core.labels.schema import (
    Column,
    ColumnChoices,
    ColumnKind,
    object_column,
    object_columns,
)
from beam_pipeline.core.labels.table_files import KEY_NAMES
from beam_pipeline.core.labels.table_rows import TableHead
from beam_pipeline.core.labels.tables import LABEL_NAMES, TEXT_NAMES, LabelSchema, inspect_tables
from beam_pipeline.core.references import LabelRow, LabelValue
from tests.core.labels.fixtures import (
    BYTES,
    CLASS,
    CLASS_SCHEMA,
    FLOAT,
    INT64,
    inspect,
    json_lines,
    kinds,
    read,
    read_rows,
    sound_rows,
)

Choices = Mapping[str, Any]
JSON = {"uri": "l.jsonl"}


def label(name: str = "label", kind: ColumnKind = CLASS, *, repeated: bool = False) -> Column:
    feature = "image/class" if kind is CLASS else "image/label"
    return Column(name, kind, feature, required=True, repeated=repeated)


def further(name: str, kind: ColumnKind, *, repeated: bool = False) -> Column:
    return Column(name, kind, f"label/{name}", required=repeated, repeated=repeated)


def label_rows(content: str, **choices: Any) -> list[LabelRow]:
    return [row for row in read(content, **choices) if isinstance(row, LabelRow)]


# --- which column is what -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("header", "choices", "key"),
    [
        *((f"label,x,{name.upper()}", {}, name.upper()) for name in KEY_NAMES),
        # the likelier name counts before the earlier place; without any, the first column is it
        ("id,filename,label", {}, "filename"),
        ("id,image_path,label", {}, "image_path"),
        ("image_id,image,label", {}, "image"),
        ("photo,label", {}, "photo"),
        ("label,photo", {}, "label"),
        ("FileName,filename,label", {}, "FileName"),
        (",photo,label", {}, "photo"),
        (",photo,label\na.jpg,x,cat\n1,y,dog\n2,z,dog", {}, "photo"),
        # as Hugging Face has it, behind the usual names of paths and before those of ids
        ("id,image_file_name,label", {}, "image_file_name"),
        ("label,left_File_Name", {}, "left_File_Name"),
        ("a_file_name,path,b_file_name,label", {}, "path"),
        ("filename,photo,label", {"key": "photo"}, "photo"),
        ("label,photo", {"label": "label"}, "photo"),
        ("id,photo", {"label": "id"}, "photo"),
    ],
)
def test_the_key_column(header: str, choices: Choices, key: str) -> None:
    """Wherever it stands and however it is capitalized; a column named as the label is not it."""
    assert inspect(f"{header}\n", **{"label": "none", **choices})[1].key_column == key


OBJECTS = json_lines(
    {"file_name": "a", "objects": {"bbox": [[1, 2, 3, 4]], "category": ["x"]}, "depth": 1},
    {"file_name": "b", "objects": None, "depth": None},
    {"file_name": "c", "objects": {"bbox": [[1, 2, 3, 4]], "category": []}, "depth": 2},
)
AREAS = json_lines({"file_name": "a", "objects": {"bbox": [], "area": [1]}})
SIZES = "filename,size,colour\na.jpg,1,red\n"
GAPS = "filename,label,size\na.jpg,cat,1\nb.jpg,,2\n"


@pytest.mark.parametrize(
    ("content", "choices", "columns"),
    [
        *(
            (f"filename,x,{n.title()}\n", {}, (label(n.title()), further("x", BYTES)))
            for n in LABEL_NAMES
        ),
        ("filename,Hund\na.jpg,ja\n", {}, (label("Hund"),)),
        (SIZES, {"label_needed": False}, (further("size", INT64), further("colour", BYTES))),
        ("filename,size\na,1\n", {"label_needed": False}, (label("size"),)),
        (SIZES, {"label": "colour"}, (label("colour"), further("size", INT64))),
        (GAPS, {"label": "none"}, (further("label", BYTES), further("size", INT64))),
        (
            "filename,none,size\na.jpg,x,1\n",
            {"label": "none"},
            (label("none"), further("size", INT64)),
        ),
        ("filename,split\na.jpg,left\n", {"label": "split"}, (label("split"),)),
        # a column left out is neither a feature nor a candidate for the label
        ("filename,a,b\nx.jpg,cat,c\n", {"kinds": {"b": "skip"}}, (label("a"),)),
        (GAPS, {"kinds": {"size": "skip"}}, (label(),)),
        # text and integers are classes, a float is what to regress on
        ("filename,label\na.jpg,7\n", {"kinds": {"label": "int"}}, (label(),)),
        ("filename,label\na.jpg,7\n", {"kinds": {"label": "str"}}, (label(),)),
        ("filename,label\na.jpg,7\n", {"kinds": {"label": "float"}}, (label(kind=FLOAT),)),
        # a column called objects, without boxes, is as any other; no int64 holds an identifier
        (
            json_lines({"file_name": "a", "label": "cat", "objects": 3}),
            JSON,
            (label(), further("objects", INT64)),
        ),
        (
            json_lines({"file_name": "a", "label": "x", "id2": 10**20 - 1}),
            JSON,
            (label(), further("id2", BYTES)),
        ),
        # a side of a box with a type is a number as any other
        (
            "filename,label,x,y,w,h\na,cat,1,2,3,4\n",
            {"kinds": {"x": "float"}},
            (label(), further("x", FLOAT), *(further(name, INT64) for name in "ywh")),
        ),
        ("image,caption\na,Hello\nb,Bye\nb,Bye\n", {}, (further("caption", BYTES),)),
        # objects can be left out, or their lists typed
        (OBJECTS, {**JSON, "kinds": {"objects": "skip"}}, (label("depth"),)),
        (
            AREAS,
            {**JSON, "kinds": {"objects.area": "float"}},
            (*object_columns(pixels=True), object_column("area", FLOAT)),
        ),
    ],
)
def test_the_columns(content: str, choices: Choices, columns: tuple[Column, ...]) -> None:
    """By their names, by what the user says, by their values."""
    schema, _ = inspect(content, **choices)
    assert schema.columns == columns
    assert not schema.several_rows
    assert schema.has_label == columns[0].feature.startswith("image/")


@pytest.mark.parametrize("name", TEXT_NAMES)
def test_a_text_is_no_class_though_it_is_the_only_column(name: str) -> None:
    """A caption is a feature, whatever the table is called; it can be named as the label."""
    content = f"filename,{name}\na.jpg,a cat\nb.jpg,\n"
    assert inspect(content)[0].columns == (further(name, BYTES),)
    assert sound_rows(content) == [(2, "a.jpg", ("a cat",)), (3, "b.jpg", (None,))]
    assert kinds(content, label=name) == {name: CLASS}


TWO_NAMES = "left_file_name,right_file_name,label\na.jpg,b.jpg,cat\n"


@pytest.mark.parametrize(
    ("content", "choices", "message"),
    [
        (
            TWO_NAMES,
            {},
            "which of the columns left_file_name, right_file_name names the image? Say --key_column NAME",
        ),
        (
            SIZES,
            {"key": "Photo"},
            "no column 'Photo' (--key_column); it has filename, size, colour",
        ),
        (
            "filename,x\na.jpg,b\n",
            {"key": "filename", "label": "filename"},
            "the column 'filename' cannot be both key and label",
        ),
        (
            "filename\na.jpg\n",
            {"label_needed": False},
            "no column besides the key, so there are no labels: the only one is 'filename'. Expected a first "
            "line such as filename,label, then a line with the name and the label of each image",
        ),
        (
            SIZES,
            {},
            "which of the columns size, colour is the label? Give --label_column NAME, or --label_column none "
            "to keep all of them as features label/<column>",
        ),
        (
            SIZES,
            {"label": "Colour"},
            "no column 'Colour' (--label_column); found filename, size, colour",
        ),
        (
            ",filename,label\n",
            {"kinds": {"Size": "int"}},
            "no column 'Size' (--columns); found filename, label",
        ),
        (
            "filename,label,x\na.jpg,cat,1\n",
            {"kinds": {"label": "skip"}},
            "the label column 'label' cannot be skipped (--columns); give --label_column with the name of "
            "another column, or with none",
        ),
        (
            "filename,label\n",
            {"separators": {"tags": ";"}},
            "no column 'tags' (--list_column); found filename, label",
        ),
        (
            "filename,label\n",
            {"separators": {"filename": ";"}},
            "the column 'filename' names the image, so it contains no list (--list_column)",
        ),
        (
            "filename,label,score\na.jpg,cat,1\n",
            {"separators": {"label": "", "score": ";"}},
            "--list_column label means that an image has several rows, each with a value, so the cells of "
            "'score' cannot contain several",
        ),
        (
            OBJECTS,
            {**JSON, "label": "depth"},
            "the column 'objects' contains the classes, so 'depth' cannot be the label; leave out --label_column, "
            "or give --columns objects:skip",
        ),
        (
            AREAS,
            {**JSON, "kinds": {"objects.size": "float"}},
            "no column 'objects.size' (--columns); found file_name, objects, objects.bbox, objects.area",
        ),
    ],
)
def test_columns_that_cannot_be_told_are_an_error(
    content: str, choices: Choices, message: str
) -> None:
    """The message lists the columns and the ways out; a mistyped name is said, not passed over."""
    with pytest.raises(LabelTableError) as caught:
        inspect(content, **{"uri": "l.csv", **choices})
    assert str(caught.value) == f"{choices.get('uri', 'l.csv')}: {message}"


def test_the_columns_of_several_files_are_those_of_all() -> None:
    """Each file has its own order, separator and key; what one lacks is empty there."""
    contents = {
        "a.csv": "filename,label,size\na.jpg,cat,1\n",
        "b.tsv": "label\tcolour\timage\ndog\tred\tb.jpg\n",
        "c.jsonl": json_lines({"path": "c.jpg", "label": "cat", "colour": "blue"}),
    }
    heads = [TableHead(uri, content.encode(), True) for uri, content in contents.items()]
    schema, tables = inspect_tables(heads, ColumnChoices())
    assert schema.columns == (label(), further("size", INT64), further("colour", BYTES))
    assert [table.key_column for table in tables] == ["filename", "image", "path"]
    assert [
        row
        for head, table in zip(heads, tables, strict=True)
        for row in read_rows(head.data, table, schema)
    ] == [
        LabelRow("a.jpg", ("cat", 1, None), "", "a.csv", 2),
        LabelRow("b.jpg", ("dog", None, "red"), "", "b.tsv", 2),
        LabelRow("c.jpg", ("cat", None, "blue"), "", "c.jsonl", 1),
    ]


# --- kinds --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "kind", "value"),
    [
        ("int", INT64, 7),
        ("int64", INT64, 7),
        ("float", FLOAT, 7.0),
        ("float32", FLOAT, 7.0),
        ("str", BYTES, "7"),
        ("string", BYTES, "7"),
        ("bytes", BYTES, "7"),
    ],
)
def test_the_kind_of_a_column_can_be_said(asked: str, kind: ColumnKind, value: LabelValue) -> None:
    """What the person says counts before what the values look like; of a list it means the items."""
    for cell, separators, expected in (("7", {}, value), ("7;7", {"size": ";"}, (value, value))):
        choices: Choices = {"kinds": {"size": asked}, "separators": separators}
        content = f"filename,label,size\na.jpg,cat,{cell}\n"
        assert kinds(content, **choices) == {"label": CLASS, "size": kind}
        ((_, _, values),) = sound_rows(content, **choices)
        assert repr(values) == repr(("cat", expected))


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["cat", "dog"], CLASS),
        (["1", "2", "3"], CLASS),
        (["0", "1", "0"], CLASS),
        (["-1", "+1", "0"], CLASS),
        (["001", "002"], CLASS),
        (["0.5", "1.5"], FLOAT),
        (["0.5", "1", "2"], FLOAT),
        (["1e-3", "2e5"], FLOAT),
        (["0.5", "0.25", "oops"], FLOAT),
        (["1.0.0", "1.2.0"], CLASS),
        (["cat", "0.5", "dog"], CLASS),
        (["99999999999999999999", "5"], CLASS),
        (["", "NA", "null"], CLASS),
        (["1_000", "2_000"], CLASS),
    ],
)
def test_a_label_is_a_class_unless_it_has_fractions(values: list[str], kind: ColumnKind) -> None:
    """Whole numbers and words are classes; decimals in more than half are to regress on."""
    content = "filename,label\n" + "".join(f"{i}.jpg,{v}\n" for i, v in enumerate(values))
    assert kinds(content) == {"label": kind}


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["1", "-2", "+3", "0"], INT64),
        (["9223372036854775807", "-9223372036854775808"], INT64),
        (["9223372036854775808", "1"], BYTES),
        (["-9223372036854775809"], BYTES),
        (["1", "n/a", "", "NaN", "None", "null", "NA"], INT64),
        (["1", "2.5"], FLOAT),
        (["1.0", "2.0"], FLOAT),
        (["nan", "0.5", "inf"], FLOAT),
        (["1e400", "0.5"], FLOAT),
        (["007", "008"], BYTES),
        (["1", "2", "03"], BYTES),
        (["00"], BYTES),
        (["02139", *(str(10_000 + i) for i in range(50))], BYTES),  # postal codes
        (["1_0"], BYTES),
        (["1,5", "2,5"], BYTES),
        (["x"], BYTES),
        (["", ""], BYTES),
        (["1", "x"], BYTES),
        (["1"] * 19 + ["x"], INT64),
        (["1.5"] * 19 + ["x"], FLOAT),
        (["1"] * 8 + ["x"] * 2, BYTES),
        (["١", "٢"], BYTES),
    ],
)
def test_a_further_column_is_what_its_values_look_like(values: list[str], kind: ColumnKind) -> None:
    """Numbers if more than nine tenths are, text if a zero leads or a number is too large."""
    lines = "".join(f'{i}.jpg,cat,"{value}"\n' for i, value in enumerate(values))
    assert kinds("filename,label,x\n" + lines) == {"label": CLASS, "x": kind}


# --- rows ---------------------------------------------------------------------------------------

LABELS_OF_JSON = json_lines(
    {"file_name": "a", "labels": ["dog", "cat", "dog"]},
    {"file_name": "b", "labels": []},
    {"file_name": "c", "labels": 3},
)
SEVERAL_CLASSES = [(("dog", "cat"),), ((),), (("3",),)]
MISSING = ["", "n/a", "NaN", "NULL", "None", "NA"]


@pytest.mark.parametrize(
    ("content", "choices", "values"),
    [
        (TWO_NAMES, {"key": "right_file_name"}, [("cat", "a.jpg")]),
        (GAPS, {"label": "none"}, [("cat", 1), (None, 2)]),
        (GAPS.replace(",,", ",x,"), {"kinds": {"size": "skip"}}, [("cat",), ("x",)]),
        ("filename,label\na.jpg,7\nb.jpg,8\n", {"kinds": {"label": "int"}}, [("7",), ("8",)]),
        ("filename,label\na.jpg,7\nb.jpg,8\n", {"kinds": {"label": "float"}}, [(7.0,), (8.0,)]),
        (
            json_lines({"file_name": "a.jpg", "label": "x", "id2": 10**20 - 1}),
            JSON,
            [("x", "9" * 20)],
        ),
        # a missing number is nothing, as people write it; among text, and as a class, NA is a word
        (
            "filename,label,age,note\nx,cat,3,hello\n"
            + "".join(f"{w},cat,{w},{w}\n" for w in MISSING if w),
            {},
            [("cat", 3, "hello"), *(("cat", None, word) for word in MISSING if word)],
        ),
        (
            "filename,label,age,note\nx,cat,3,hi\ny,cat,,\n",
            {},
            [("cat", 3, "hi"), ("cat", None, None)],
        ),
        ("filename,label\na.jpg,None\nb.jpg,NA\nc.jpg,cat\n", {}, [("None",), ("NA",), ("cat",)]),
        # two separators in a row, or one at an end, are no text of their own; NA is one
        (
            "filename,label,tags\na,cat,x;;y\nb,cat,;x; ;\nc,cat,;;\nd,cat,NA;x;x\n",
            {"separators": {"tags": ";"}},
            [("cat", tags) for tags in (("x", "y"), ("x",), (), ("NA", "x", "x"))],
        ),
        # `--list_column` splits the texts of JSON and leaves its lists
        (
            json_lines(
                {"file_name": "a", "label": "cat", "tags": "x;y"},
                {"file_name": "b", "label": "cat", "tags": ["x;y", "z"]},
            ),
            {**JSON, "separators": {"tags": ";"}},
            [("cat", ("x", "y")), ("cat", ("x;y", "z"))],
        ),
        # a label that is a list is several classes, each once, in the order of the cell
        (
            "filename,labels\na,dog; cat;dog\nb,\nc,3\n",
            {"separators": {"labels": ";"}},
            SEVERAL_CLASSES,
        ),
        (LABELS_OF_JSON, JSON, SEVERAL_CLASSES),
        # Excel leaves lines of commas behind a table, and before it
        (",\nfilename,label\na.jpg,cat\n,\n , \nb.jpg,dog\n", {}, [("cat",), ("dog",)]),
    ],
)
def test_the_values_of_rows(
    content: str, choices: Choices, values: list[tuple[LabelValue, ...]]
) -> None:
    """All rows are sound."""
    rows = [row for _, _, row in sound_rows(content, **choices)]
    assert repr(rows) == repr(values)


LISTS_OF_JSON = json_lines(
    {"file_name": "a", "label": "cat", "tags": ["red", 7, True, ""], "size": [1.5, 2]},
    {"file_name": "b", "label": "cat", "tags": "a;b", "size": None},
    {"file_name": "c", "label": "cat", "size": 3},
    {"file_name": "d", "label": "cat", "tags": [], "size": [1, None]},
)


@pytest.mark.parametrize(
    ("content", "choices", "columns", "rows"),
    [
        (  # an empty cell is an empty list
            "filename,label,tags,counts,weights\n"
            "a.jpg,cat,red; striped ,1|2,0.5 1\n"
            "b.jpg,dog,,,\n"
            "c.jpg,cat,plain,3,2\n",
            {"separators": {"tags": ";", "counts": "|", "weights": " "}},
            (
                label(),
                further("tags", BYTES, repeated=True),
                further("counts", INT64, repeated=True),
                further("weights", FLOAT, repeated=True),
            ),
            [
                (("cat", ("red", "striped"), (1, 2), (0.5, 1.0)), ""),
                (("dog", (), (), ()), ""),
                (("cat", ("plain",), (3,), (2.0,)), ""),
            ],
        ),
        (  # a number's place may mean something, so none is passed over; a separator may end the last
            "filename,label,n\na,cat,1;2;\nb,cat,1;;2\nc,cat,1;x\nd,cat,n/a\ne,cat,;1\nf,cat,1;null\n",
            {"separators": {"n": ";"}, "kinds": {"n": "int"}},
            (label(), further("n", INT64, repeated=True)),
            [
                (("cat", (1, 2)), ""),
                (("cat", None), "column 'n': an item is empty"),
                (("cat", None), "column 'n': the item 'x' is not an integer of 64 bits"),
                (("cat", ()), ""),
                (("cat", None), "column 'n': an item is empty"),
                (("cat", None), "column 'n': an item is empty"),
            ],
        ),
        (  # one list among the values of JSON makes the column a list, and a single value a list of one
            LISTS_OF_JSON,
            JSON,
            (label(), further("tags", BYTES, repeated=True), further("size", FLOAT, repeated=True)),
            [
                (("cat", ("red", "7", "true"), (1.5, 2.0)), ""),
                (("cat", ("a;b",), ()), ""),
                (("cat", (), (3.0,)), ""),
                (("cat", (), None), "column 'size': an item is empty"),
            ],
        ),
        (  # numbers to regress on must all be there and finite
            "filename,label\na,0.5 1.5\nb,2.5 inf\nc,\nd,3.5 -1\ne,nan 1.5\n",
            {"separators": {"label": " "}},
            (label(kind=FLOAT, repeated=True),),
            [
                (((0.5, 1.5),), ""),
                ((None,), "column 'label': the item 'inf' is not a number"),
                ((None,), "column 'label': is empty"),
                (((3.5, -1.0),), ""),
                ((None,), "column 'label': an item is empty"),
            ],
        ),
        (
            "filename,label\na,0.5\nb,0.25\nc,oops\nd,n/a\ne,inf\nf,nan\ng,1.5\nh,-2\ni,3.5\n",
            {},
            (label(kind=FLOAT),),
            [
                ((0.5,), ""),
                ((0.25,), ""),
                ((None,), "column 'label': 'oops' is not a number"),
                ((None,), "column 'label': is empty"),
                ((None,), "column 'label': 'inf' is not a number"),
                ((None,), "column 'label': is empty"),
                ((1.5,), ""),
                ((-2.0,), ""),
                ((3.5,), ""),
            ],
        ),
        (
            OBJECTS,
            JSON,
            (*object_columns(pixels=True), further("depth", INT64)),
            [
                ((((1, 2, 4, 6, 1),), ("x",), 1), ""),
                (((), (), None), ""),
                (
                    ((), (), 2),
                    "column 'objects': bbox has 1 items, category has 0; expected one an object",
                ),
            ],
        ),
        (
            "filename,label,age,weight\na.jpg,cat,3,1.5\nb.jpg,dog,old,heavy\nc.jpg,,4,2\n",
            {"kinds": {"age": "int", "weight": "float"}},
            (label(), further("age", INT64), further("weight", FLOAT)),
            [
                (("cat", 3, 1.5), ""),
                (("dog", None, None), "column 'age': 'old' is not an integer of 64 bits"),
                ((None, 4, 2.0), "column 'label': is empty"),
            ],
        ),
    ],
)
def test_bad_values_are_said_with_their_rows(
    content: str,
    choices: Choices,
    columns: tuple[Column, ...],
    rows: list[tuple[tuple[LabelValue, ...], str]],
) -> None:
    """A row keeps its name and line, so that the image can be found that it spoils."""
    schema, _ = inspect(content, **choices)
    assert (schema.columns, schema.has_label) == (columns, True)
    bad_rows = label_rows(content, **choices)
    assert [(row.values, row.problem) for row in bad_rows] == rows
    first = 1 if content.startswith("{") else 2
    assert [row.line for row in bad_rows] == list(range(first, first + len(rows)))


def test_a_list_column_without_a_separator_has_a_value_in_each_row() -> None:
    """Of one image; a label is a list of classes then, and other columns must agree as ever."""
    content = "filename,label,score,source\na.jpg,cat,1,web\na.jpg,dog,2,web\nb.jpg,,3,web\n"
    separators = {"label": "", "score": ""}
    schema, _ = inspect(content, separators=separators)
    assert schema.several_rows
    assert schema.columns == (
        label(repeated=True),
        further("score", INT64, repeated=True),
        further("source", BYTES),
    )
    assert schema.notes == (
        "several rows name one image; each has a list of label and of score, a value a row",
    )
    assert sound_rows(content, separators=separators) == [
        (2, "a.jpg", (("cat",), (1,), "web")),
        (3, "a.jpg", (("dog",), (2,), "web")),
        (4, "b.jpg", ((), (3,), "web")),
    ]
    single, _ = inspect("filename,label\na.jpg,cat;dog\nb.jpg,dog\n", separators={"label": ""})
    assert single.notes == (
        "each of the first rows names another image, so its list of label has one value; cells with several "
        "are split with --list_column 'label=SEPARATOR'",
    )


@pytest.mark.parametrize(
    ("column", "values", "asked"),
    [
        ("label", ["0.0", "1.0", "", "2.0"], True),
        ("Target", ["0.", "10.0"], True),
        ("label", ["0.0", "1.5"], False),
        ("label", ["0.0"], False),
        ("age", ["0.0", "1.0"], False),
        ("label", ["-1.0", "1.0"], False),
        ("label", [f"{i}.0" for i in range(21)], False),
    ],
)
def test_few_whole_numbers_with_a_point_are_questioned(
    column: str, values: Sequence[str], asked: bool
) -> None:
    """As pandas writes classes' numbers beside gaps, in a column that is called as a label."""
    cells = (values * 12)[:24]
    content = f"filename,{column}\n" + "".join(f"{i}.jpg,{cell}\n" for i, cell in enumerate(cells))
    questions = inspect(content, "l.csv")[0].questions
    assert [question.answer for question in questions] == [{"columns": {column: "str"}}] * asked
    for kind in ("str", "float"):
        assert inspect(content, "l.csv", kinds={column: kind})[0].questions == ()
    assert inspect(f"filename,{column}\na.jpg,1.0\nb.jpg,0.0\n", "l.csv")[0].questions == ()


# --- splits -------------------------------------------------------------------------------------


def test_a_split_column_says_the_split() -> None:
    """Its values are the usual words in any case, or names of the person's own."""
    splits = {
        **dict.fromkeys(["train", "Training"], "train"),
        **dict.fromkeys(["VAL", "valid", "validation", "dev"], "validation"),
        "TEST": "test",
        "eval": "test",
        "Fold_1": "Fold_1",
    }
    content = "filename,label,Split\n" + "".join(f"a.jpg,cat, {word} \n" for word in splits)
    assert inspect(content)[0] == LabelSchema(CLASS_SCHEMA.columns, "Split")
    rows = label_rows(content)
    assert [(row.split, row.problem) for row in rows] == [(split, "") for split in splits.values()]
    assert [row.split for row in label_rows("filename,label\na.jpg,cat\n")] == [""]


@pytest.mark.parametrize("word", ["", "my split", "a/b", "..", "train,val", "-"])
def test_a_word_that_names_no_split_is_a_bad_value(word: str) -> None:
    """A split becomes part of file names, so it is letters, digits and underscores."""
    (row,) = label_rows(f'filename,label,split\na.jpg,cat,"{word}"\n')
    assert (row.values, row.problem) == (("cat",), f"column 'split': {word!r} names no split")


def test_a_table_without_the_split_column_of_another_names_no_split() -> None:
    """Its rows are sound; only a cell of the column that is empty is a fault."""
    schema, (with_split, without) = inspect_tables(
        [
            TableHead("a.csv", b"filename,label,split\na.jpg,cat,test\n", True),
            TableHead("b.csv", b"filename,label\nb.jpg,dog\n", True),
        ],
        ColumnChoices(),
    )
    (row,) = read_rows(b"filename,label\nb.jpg,dog\n", without, schema)
    assert (row.split, row.problem) == ("", "")
    (row,) = read_rows(b"filename,label,split\na.jpg,cat,\n", with_split, schema)
    assert row.problem == "column 'split': '' names no split"


# --- names with line breaks, and numbers that may be names --------------------------------------


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
    schema, table = inspect(content.replace(chr(34), ""))
    with pytest.raises(LabelTableError) as caught:
        read_rows(content.encode(), table, schema)
    assert str(caught.value).startswith(f"labels.csv, line {line}: ")
    assert f" in column {column!r} has " in str(caught.value)
    assert str(caught.value).endswith("look for a quote that opens there and is closed too late")


def test_one_number_of_another_kind_leaves_a_column_of_numbers() -> None:
    """007 and what no int64 holds are bad values of their rows, and the column is no text."""
    cells = [str(i) for i in range(100, 138)]
    cells[3], cells[5] = "007", "99999999999999999999"
    content = "filename,label,n\n" + "".join(f"{i},cat,{cell}\n" for i, cell in enumerate(cells))
    assert kinds(content + "98,cat,5\n") == {"label": CLASS, "n": INT64}
    rows = label_rows(content + "98,cat,5\n")
    assert [(row.line, row.problem) for row in rows if row.problem] == [
        (
            5,
            "column 'n': '007' begins with a zero, so it may be a name; --columns n:str makes the "
            "column a text, n:int reads it as a number",
        ),
        (7, "column 'n': '99999999999999999999' is not an integer of 64 bits"),
    ]
    assert label_rows(content, kinds={"n": "int"})[3].values == ("cat", 7)


# --- boxes, one-hot columns and captions --------------------------------------------------------

BOXES = "filename,width,height,class,xmin,ymin,xmax,ymax\na,9,7,cat,1,2,3,4\na,9,7,dog,2,2,3,4\nb,9,7,,,,,\n"


def test_rows_with_boxes_are_objects() -> None:
    """Each is a list of one, to be put together with those of its image."""
    schema, _ = inspect(BOXES)
    assert schema.columns == object_columns(pixels=True)
    assert schema.several_rows
    assert schema.has_label
    assert schema.notes == (
        "rows are objects: corners of a box in pixels from xmin, ymin, xmax, ymax, classes from "
        "class, the image's size from width, height; --columns xmin:float keeps them as plain "
        "columns",
    )
    assert sound_rows(BOXES) == [
        (2, "a", (((1, 2, 3, 4, 2),), ("cat",))),
        (3, "a", (((2, 2, 3, 4, 3),), ("dog",))),
        (4, "b", ((), ())),
    ]
    assert label_rows("filename,label,x,y,w,h\n" + "a,cat,1,2,3,4\n" * 20 + "b,cat,1,,3,4\n")[
        -1
    ] == LabelRow(
        *("b", ((), ()), "", "labels.csv", 22),
        "column 'y': is empty, where the other sides are not",
    )


def test_one_hot_columns_without_a_label_are_a_question() -> None:
    """They are taken for the class, and the person is asked; named, they are none."""
    content = "image,cat,dog,age\na,1,0,7\nb,0,1,8\n"
    schema, _ = inspect(content)
    assert [column.name for column in schema.columns] == ["one_hot", "age"]
    assert len(schema.questions) == 1
    assert sound_rows(content) == [(2, "a", ("cat", 7)), (3, "b", ("dog", 8))]
    named, _ = inspect(content, one_hot=("cat", "dog"))
    assert (named.columns, named.questions) == (schema.columns, ())
    assert kinds(content, label="none") == {"cat": INT64, "dog": INT64, "age": INT64}
    rows = label_rows(content + "c,0,0,9\n", one_hot=("cat", "dog"))
    assert rows[2].problem.startswith("one-hot columns: no 1, ")


@pytest.mark.parametrize("text", TEXT_NAMES)
def test_captions_of_several_rows_are_a_list(text: str) -> None:
    """So is what differs between the rows; what is the same stays one value."""
    content = f"image,n,{text},label,size\na,0,Hello,x,3\na,1,World,x,3\nb,0,Bye,y,4\n"
    schema, _ = inspect(content)
    assert schema.several_rows
    assert schema.columns == (
        label(),
        further("n", INT64, repeated=True),
        further(text, BYTES, repeated=True),
        further("size", INT64),
    )
    assert sound_rows(content) == [
        (2, "a", ("x", (0,), ("Hello",), 3)),
        (3, "a", ("x", (1,), ("World",), 3)),
        (4, "b", ("y", (0,), ("Bye",), 4)),
    ]
    assert schema.notes == (
        f"several rows name one image; each has a list of n and of {text}, a value a row",
    )


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
