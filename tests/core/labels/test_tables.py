from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from beam_pipeline.core.errors import LabelTableError
from beam_pipeline.core.labels.schema import (
    Column,
    ColumnKind,
    object_column,
    object_columns,
)
from beam_pipeline.core.labels.table_files import TableHead
from beam_pipeline.core.labels.tables import (
    KEY_NAMES,
    LABEL_NAMES,
    TEXT_NAMES,
    ColumnChoices,
    LabelSchema,
    inspect_tables,
)
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

# --- which column is what -----------------------------------------------------------------------


@pytest.mark.parametrize("name", KEY_NAMES)
def test_a_usual_name_of_the_key_column_is_found(name: str) -> None:
    """Wherever it stands and however it is capitalized."""
    assert inspect(f"label,x,{name.upper()}\n")[1].key_column == name.upper()


@pytest.mark.parametrize(
    ("header", "key"),
    [
        ("id,filename,label", "filename"),
        ("image_id,image,label", "image"),
        ("photo,label", "photo"),
        ("label,photo", "label"),
        ("FileName,filename,label", "FileName"),
        (",photo,label", "photo"),
    ],
)
def test_the_likelier_key_column_wins(header: str, key: str) -> None:
    """The likelier name counts before the earlier place; without any, the first column is it."""
    content = f"{header}\n"
    assert inspect(content, label="none")[1].key_column == key


@pytest.mark.parametrize(
    ("header", "key"),
    [
        ("id,image_file_name,label", "image_file_name"),
        ("label,left_File_Name", "left_File_Name"),
        ("a_file_name,path,b_file_name,label", "path"),
    ],
)
def test_a_column_that_ends_in_file_name_is_the_key(header: str, key: str) -> None:
    """As Hugging Face has it, behind the usual names of paths and before those of ids."""
    assert inspect(f"{header}\n", label="none")[1].key_column == key


def test_two_columns_that_end_in_file_name_are_an_error() -> None:
    """Which of two images a row is about cannot be guessed; the person can say it."""
    content = "left_file_name,right_file_name,label\na.jpg,b.jpg,cat\n"
    with pytest.raises(LabelTableError) as caught:
        inspect(content, "l.csv")
    assert str(caught.value) == (
        "l.csv: which of the columns left_file_name, right_file_name names the image? Say "
        "--key_column NAME"
    )
    assert sound_rows(content, key="right_file_name") == [(2, "b.jpg", ("cat", "a.jpg"))]


def test_the_key_column_can_be_named() -> None:
    """What the person says counts before any guess, and must exist."""
    content = "filename,photo,label\nx,a.jpg,cat\n"
    assert inspect(content, key="photo")[1].key_column == "photo"
    assert sound_rows(content, key="photo") == [(2, "a.jpg", ("cat", "x"))]
    with pytest.raises(LabelTableError) as caught:
        inspect(content, "l.csv", key="Photo")
    assert (
        str(caught.value)
        == "l.csv: no column 'Photo' (--key_column); it has filename, photo, label"
    )


def test_the_label_column_is_not_the_key() -> None:
    """A column that was named as the label is not guessed to be the key."""
    assert inspect("label,photo\na,b\n", label="label")[1].key_column == "photo"
    assert inspect("id,photo\na,b\n", label="id")[1].key_column == "photo"


def test_one_column_cannot_be_key_and_label() -> None:
    """The person asked for a label, so a schema without it is an error."""
    with pytest.raises(LabelTableError, match="'filename'"):
        inspect("filename,x\na.jpg,b\n", key="filename", label="filename")


@pytest.mark.parametrize("name", LABEL_NAMES)
def test_a_usual_name_of_the_label_column_is_found(name: str) -> None:
    """Wherever it stands and however it is capitalized."""
    schema, _ = inspect(f"filename,x,{name.title()}\n")
    assert schema.columns[0] == Column(name.title(), CLASS, "image/class", required=True)


def test_the_only_other_column_is_the_label() -> None:
    """Whatever its name, there is nothing else that it could be."""
    assert kinds("filename,Hund\na.jpg,ja\n") == {"Hund": CLASS}


@pytest.mark.parametrize("name", TEXT_NAMES)
def test_a_text_is_no_class_though_it_is_the_only_column(name: str) -> None:
    """A caption is a feature, whatever the table is called; it can be named as the label."""
    content = f"filename,{name}\na.jpg,a cat\nb.jpg,\n"
    assert inspect(content)[0].columns == (Column(name, BYTES, f"label/{name}"),)
    assert not inspect(content)[0].has_label
    assert sound_rows(content) == [(2, "a.jpg", ("a cat",)), (3, "b.jpg", (None,))]
    assert kinds(content, label=name) == {name: CLASS}


def test_a_label_may_not_be_needed() -> None:
    """Then all columns are further ones if none is called as a label, and it is no error."""
    content = "filename,size,colour\na.jpg,1,red\n"
    assert inspect(content, label_needed=False)[0].columns == (
        Column("size", INT64, "label/size"),
        Column("colour", BYTES, "label/colour"),
    )
    assert kinds("filename,size\na,1\n", label_needed=False) == {"size": CLASS}
    with pytest.raises(LabelTableError, match="no column besides the key"):
        inspect("filename\na.jpg\n", label_needed=False)


def test_a_label_that_cannot_be_told_is_an_error() -> None:
    """The message lists the columns and both ways out."""
    with pytest.raises(LabelTableError) as caught:
        inspect("filename,size,colour\na.jpg,1,red\n", "l.csv")
    assert str(caught.value) == (
        "l.csv: which of the columns size, colour is the label? Say --label_column NAME, "
        "or --label_column none to keep all of them as features label/<column>"
    )


def test_the_label_column_can_be_named() -> None:
    """It comes first among the columns, and must exist."""
    content = "filename,size,colour\na.jpg,1,red\n"
    assert inspect(content, label="colour")[0].columns == (
        Column("colour", CLASS, "image/class", required=True),
        Column("size", INT64, "label/size"),
    )
    with pytest.raises(LabelTableError) as caught:
        inspect(content, "l.csv", label="Colour")
    assert (
        str(caught.value)
        == "l.csv: no column 'Colour' (--label_column); found filename, size, colour"
    )


def test_no_column_need_be_the_label() -> None:
    """With none, every column is a further one, and may be empty."""
    content = "filename,label,size\na.jpg,cat,1\nb.jpg,,2\n"
    assert inspect(content, label="none")[0].columns == (
        Column("label", BYTES, "label/label"),
        Column("size", INT64, "label/size"),
    )
    assert sound_rows(content, label="none") == [(2, "a.jpg", ("cat", 1)), (3, "b.jpg", (None, 2))]


def test_a_column_called_none_can_be_the_label() -> None:
    """The word means the column where there is one."""
    assert kinds("filename,none,size\na.jpg,x,1\n", label="none") == {"none": CLASS, "size": INT64}


def test_the_columns_of_several_files_are_those_of_all() -> None:
    """Each file has its own order, separator and key; what one lacks is empty there."""
    contents = {
        "a.csv": "filename,label,size\na.jpg,cat,1\n",
        "b.tsv": "label\tcolour\timage\ndog\tred\tb.jpg\n",
        "c.jsonl": json_lines({"path": "c.jpg", "label": "cat", "colour": "blue"}),
    }
    heads = [TableHead(uri, content.encode(), True) for uri, content in contents.items()]
    schema, tables = inspect_tables(heads, ColumnChoices())
    assert [(column.name, column.kind) for column in schema.columns] == [
        ("label", CLASS),
        ("size", INT64),
        ("colour", BYTES),
    ]
    assert [table.key_column for table in tables] == ["filename", "image", "path"]
    rows = [
        row
        for head, table in zip(heads, tables, strict=True)
        for row in read_rows(head.data, table, schema)
    ]
    assert rows == [
        LabelRow("a.jpg", ("cat", 1, None), "", "a.csv", 2),
        LabelRow("b.jpg", ("dog", None, "red"), "", "b.tsv", 2),
        LabelRow("c.jpg", ("cat", None, "blue"), "", "c.jsonl", 1),
    ]


def test_types_are_settled_by_the_whole_rows_of_a_files_beginning() -> None:
    """A row that the beginning cuts in two is not looked at: 12 of 123 would be another number."""
    data = b"filename,label,size\na.jpg,cat,1\nb.jpg,dog,2.5"
    assert inspect_tables([TableHead("l.csv", data, False)], ColumnChoices())[0].columns == (
        Column("label", CLASS, "image/class", required=True),
        Column("size", INT64, "label/size"),
    )
    assert kinds(data) == {"label": CLASS, "size": FLOAT}


# --- --columns ----------------------------------------------------------------------------------


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
    """What the person says counts before what the values look like."""
    content = "filename,label,size\na.jpg,cat,7\n"
    assert kinds(content, kinds={"size": asked}) == {"label": CLASS, "size": kind}
    ((_, _, values),) = sound_rows(content, kinds={"size": asked})
    assert values == ("cat", value)
    assert type(values[1]) is type(value)


def test_a_column_can_be_left_out() -> None:
    """Neither a feature nor a reason for a bad row is made of it."""
    content = "filename,label,size,note\na.jpg,cat,7,x\n"
    assert kinds(content, kinds={"size": "skip"}) == {"label": CLASS, "note": BYTES}
    assert sound_rows(content, kinds={"size": "skip", "note": "skip"}) == [(2, "a.jpg", ("cat",))]


def test_the_label_can_be_made_a_class_or_a_number() -> None:
    """Text and integers are classes, a float is what to regress on."""
    content = "filename,label\na.jpg,7\nb.jpg,8\n"
    for asked in ("int", "str"):
        assert inspect(content, kinds={"label": asked})[0] == CLASS_SCHEMA
        assert sound_rows(content, kinds={"label": asked}) == [
            (2, "a.jpg", ("7",)),
            (3, "b.jpg", ("8",)),
        ]
    assert inspect(content, kinds={"label": "float"})[0].columns == (
        Column("label", FLOAT, "image/label", required=True),
    )
    assert sound_rows(content, kinds={"label": "float"}) == [
        (2, "a.jpg", (7.0,)),
        (3, "b.jpg", (8.0,)),
    ]


def test_a_kind_for_a_column_that_is_not_there_is_an_error() -> None:
    """A mistyped name is said, not passed over."""
    with pytest.raises(LabelTableError) as caught:
        inspect(",filename,label\n", "l.csv", kinds={"Size": "int"})
    assert str(caught.value) == "l.csv: no column 'Size' (--columns); found filename, label"


def test_the_label_cannot_be_left_out() -> None:
    """Without a label column there is --label_column none; the message leads there."""
    with pytest.raises(LabelTableError, match="label"):
        inspect("filename,label,x\na.jpg,cat,1\n", kinds={"label": "skip"})


def test_a_column_left_out_is_no_candidate_for_the_label() -> None:
    """Of two columns one is skipped, so the other is the label."""
    assert kinds("filename,a,b\nx.jpg,cat,c\n", kinds={"b": "skip"}) == {"a": CLASS}


# --- kinds as values show them ------------------------------------------------------------------


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


def test_a_json_number_too_large_for_an_int64_is_an_identifier() -> None:
    """From JSON as from CSV it becomes text, and every digit is kept."""
    content = json_lines({"file_name": "a.jpg", "label": "x", "id2": 99999999999999999999})
    assert kinds(content, "l.jsonl") == {"label": CLASS, "id2": BYTES}
    assert sound_rows(content, "l.jsonl") == [(1, "a.jpg", ("x", "99999999999999999999"))]


# --- lists --------------------------------------------------------------------------------------


def test_a_list_column_of_a_csv_is_split_at_its_separator() -> None:
    """Its items are integers, floats or texts as they look; an empty cell is an empty list."""
    content = (
        "filename,label,tags,counts,weights\n"
        "a.jpg,cat,red; striped ,1|2,0.5 1\n"
        "b.jpg,dog,,,\n"
        "c.jpg,cat,plain,3,2\n"
    )
    separators = {"tags": ";", "counts": "|", "weights": " "}
    assert inspect(content, separators=separators)[0].columns == (
        Column("label", CLASS, "image/class", required=True),
        Column("tags", BYTES, "label/tags", required=True, repeated=True),
        Column("counts", INT64, "label/counts", required=True, repeated=True),
        Column("weights", FLOAT, "label/weights", required=True, repeated=True),
    )
    assert sound_rows(content, separators=separators) == [
        (2, "a.jpg", ("cat", ("red", "striped"), (1, 2), (0.5, 1.0))),
        (3, "b.jpg", ("dog", (), (), ())),
        (4, "c.jpg", ("cat", ("plain",), (3,), (2.0,))),
    ]


def test_the_kind_of_a_lists_items_can_be_said() -> None:
    """`--columns` means the items of a column that is a list."""
    content = "filename,label,tags\na.jpg,cat,1;2\n"
    for asked, kind, value in (
        ("float", FLOAT, (1.0, 2.0)),
        ("str", BYTES, ("1", "2")),
        ("int", INT64, (1, 2)),
    ):
        choices: dict[str, Any] = {"kinds": {"tags": asked}, "separators": {"tags": ";"}}
        assert kinds(content, **choices) == {"label": CLASS, "tags": kind}
        ((_, _, values),) = sound_rows(content, **choices)
        assert values == ("cat", value)
        assert [type(item) for item in values[1]] == [type(item) for item in value]


def test_empty_items_of_texts_are_passed_over() -> None:
    """Two separators in a row, or one at an end, are no text of their own; NA is one."""
    content = "filename,label,tags\na,cat,x;;y\nb,cat,;x; ;\nc,cat,;;\nd,cat,NA;x;x\n"
    assert [values[1] for _, _, values in sound_rows(content, separators={"tags": ";"})] == [
        ("x", "y"),
        ("x",),
        (),
        ("NA", "x", "x"),
    ]


def test_an_empty_item_among_numbers_is_a_fault() -> None:
    """A number's place may mean something, so none is passed over; a separator may end the last."""
    content = (
        "filename,label,n\na,cat,1;2;\nb,cat,1;;2\nc,cat,1;x\nd,cat,n/a\ne,cat,;1\nf,cat,1;null\n"
    )
    choices: dict[str, Any] = {"separators": {"n": ";"}, "kinds": {"n": "int"}}
    rows = [row for row in read(content, **choices) if isinstance(row, LabelRow)]
    assert [(row.values[1], row.problem) for row in rows] == [
        ((1, 2), ""),
        (None, "column 'n': an item is empty"),
        (None, "column 'n': the item 'x' is not an integer of 64 bits"),
        ((), ""),
        (None, "column 'n': an item is empty"),
        (None, "column 'n': an item is empty"),
    ]


def test_lists_of_json_are_lists() -> None:
    """One list among the values makes the column a list, and a single value a list of one."""
    content = json_lines(
        {"file_name": "a", "label": "cat", "tags": ["red", 7, True, ""], "size": [1.5, 2]},
        {"file_name": "b", "label": "cat", "tags": "a;b", "size": None},
        {"file_name": "c", "label": "cat", "size": 3},
        {"file_name": "d", "label": "cat", "tags": [], "size": [1, None]},
    )
    assert inspect(content, "l.jsonl")[0].columns[1:] == (
        Column("tags", BYTES, "label/tags", required=True, repeated=True),
        Column("size", FLOAT, "label/size", required=True, repeated=True),
    )
    rows = [row for row in read(content, "l.jsonl") if isinstance(row, LabelRow)]
    assert [(row.values[1:], row.problem) for row in rows] == [
        ((("red", "7", "true"), (1.5, 2.0)), ""),
        ((("a;b",), ()), ""),
        (((), (3.0,)), ""),
        (((), None), "column 'size': an item is empty"),
    ]


def test_a_separator_splits_the_texts_of_json_and_leaves_its_lists() -> None:
    """`--list_column` holds for JSON Lines, too."""
    content = json_lines(
        {"file_name": "a", "label": "cat", "tags": "x;y"},
        {"file_name": "b", "label": "cat", "tags": ["x;y", "z"]},
    )
    assert [
        values[1] for _, _, values in sound_rows(content, "l.jsonl", separators={"tags": ";"})
    ] == [
        ("x", "y"),
        ("x;y", "z"),
    ]


@pytest.mark.parametrize(
    ("content", "uri"),
    [
        ("filename,labels\na,dog; cat;dog\nb,\nc,3\n", "labels.csv"),
        (
            json_lines(
                {"file_name": "a", "labels": ["dog", "cat", "dog"]},
                {"file_name": "b", "labels": []},
                {"file_name": "c", "labels": 3},
            ),
            "labels.jsonl",
        ),
    ],
)
def test_a_label_that_is_a_list_is_several_classes(content: str, uri: str) -> None:
    """Each once, in the order of the cell; none is what it says."""
    choices: dict[str, Any] = {} if uri.endswith("jsonl") else {"separators": {"labels": ";"}}
    assert inspect(content, uri, **choices)[0].columns == (
        Column("labels", CLASS, "image/class", required=True, repeated=True),
    )
    assert [values for _, _, values in sound_rows(content, uri, **choices)] == [
        (("dog", "cat"),),
        ((),),
        (("3",),),
    ]


def test_a_label_that_is_a_list_of_decimals_is_numbers() -> None:
    """All must be there and finite, since they are to regress on."""
    content = "filename,label\na,0.5 1.5\nb,2.5 inf\nc,\nd,3.5 -1\ne,nan 1.5\n"
    assert inspect(content, separators={"label": " "})[0].columns == (
        Column("label", FLOAT, "image/label", required=True, repeated=True),
    )
    rows = [row for row in read(content, separators={"label": " "}) if isinstance(row, LabelRow)]
    assert [(row.values[0], row.problem) for row in rows] == [
        ((0.5, 1.5), ""),
        (None, "column 'label': the item 'inf' is not a number"),
        (None, "column 'label': is empty"),
        ((3.5, -1.0), ""),
        (None, "column 'label': an item is empty"),
    ]


def test_a_list_column_without_a_separator_has_a_value_in_each_row() -> None:
    """Of one image; a label is a list of classes then, and other columns must agree as ever."""
    content = "filename,label,score,source\na.jpg,cat,1,web\na.jpg,dog,2,web\nb.jpg,,3,web\n"
    schema, _ = inspect(content, separators={"label": "", "score": ""})
    assert schema.several_rows
    assert schema.columns == (
        Column("label", CLASS, "image/class", required=True, repeated=True),
        Column("score", INT64, "label/score", required=True, repeated=True),
        Column("source", BYTES, "label/source"),
    )
    assert schema.notes == (
        "several rows name one image; each has a list of label and of score, a value a row",
    )
    assert sound_rows(content, separators={"label": "", "score": ""}) == [
        (2, "a.jpg", (("cat",), (1,), "web")),
        (3, "a.jpg", (("dog",), (2,), "web")),
        (4, "b.jpg", ((), (3,), "web")),
    ]
    single, _ = inspect("filename,label\na.jpg,cat;dog\nb.jpg,dog\n", separators={"label": ""})
    assert single.notes == (
        "each of the first rows names another image, so its list of label has one value; cells with several "
        "are split with --list_column 'label=SEPARATOR'",
    )
    with pytest.raises(LabelTableError) as caught:
        inspect(content, "l.csv", separators={"label": "", "score": ";"})
    assert str(caught.value) == (
        "l.csv: --list_column label says that an image has several rows, with a value each, so the cells "
        "of 'score' cannot hold several"
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
    assert bool(questions) is asked
    for kind in ("str", "float"):
        assert inspect(content, "l.csv", kinds={column: kind})[0].questions == ()
    if asked:
        assert questions[0].answer == {"columns": {column: "str"}}
    assert inspect(f"filename,{column}\na.jpg,1.0\nb.jpg,0.0\n", "l.csv")[0].questions == ()


def test_a_list_column_that_is_not_there_is_an_error() -> None:
    """As for --columns; and the column that names images is no list."""
    with pytest.raises(LabelTableError) as caught:
        inspect("filename,label\n", "l.csv", separators={"tags": ";"})
    assert str(caught.value) == "l.csv: no column 'tags' (--list_column); found filename, label"
    with pytest.raises(LabelTableError) as caught:
        inspect("filename,label\n", "l.csv", separators={"filename": ";"})
    assert str(caught.value) == (
        "l.csv: the column 'filename' names the image, so it holds no list (--list_column)"
    )


# --- objects ------------------------------------------------------------------------------------

OBJECTS = json_lines(
    {"file_name": "a", "objects": {"bbox": [[1, 2, 3, 4]], "category": ["x"]}, "depth": 1},
    {"file_name": "b", "objects": None, "depth": None},
    {"file_name": "c", "objects": {"bbox": [[1, 2, 3, 4]], "category": []}, "depth": 2},
)


def test_a_column_of_objects_is_boxes_and_their_classes() -> None:
    """They stand first, other columns are further ones, and there is no label besides."""
    schema, table = inspect(OBJECTS, "l.jsonl")
    assert schema.columns == (*object_columns(pixels=True), Column("depth", INT64, "label/depth"))
    assert schema.table_columns == schema.columns[2:]
    assert schema.has_label
    rows = read_rows(OBJECTS.encode(), table, schema)
    assert rows == [
        LabelRow("a", (((1, 2, 4, 6, 1),), ("x",), 1), "", "l.jsonl", 1),
        LabelRow("b", ((), (), None), "", "l.jsonl", 2),
        LabelRow(
            "c",
            ((), (), 2),
            "",
            "l.jsonl",
            3,
            "column 'objects': bbox has 1 items, category has 0; expected one an object",
        ),
    ]


def test_a_column_of_objects_can_be_left_out() -> None:
    """Then the table has the label that it has without it."""
    schema, _ = inspect(OBJECTS, "l.jsonl", kinds={"objects": "skip"})
    assert schema.columns == (Column("depth", CLASS, "image/class", required=True),)


def test_a_label_column_beside_objects_is_an_error() -> None:
    """Classes have one place; the message says both ways out."""
    with pytest.raises(LabelTableError) as caught:
        inspect(OBJECTS, "l.jsonl", label="depth")
    assert str(caught.value) == (
        "l.jsonl: the column 'objects' says the classes, so 'depth' cannot be the label; leave out "
        "--label_column, or say --columns objects:skip"
    )


def test_the_lists_of_objects_have_names_for_the_columns_option() -> None:
    """A kind for one that is not there is an error, which names those that are."""
    content = json_lines({"file_name": "a", "objects": {"bbox": [], "area": [1]}})
    schema, _ = inspect(content, "l.jsonl", kinds={"objects.area": "float"})
    assert schema.columns[2] == object_column("area", FLOAT)
    with pytest.raises(LabelTableError) as caught:
        inspect(content, "l.jsonl", kinds={"objects.size": "float"})
    assert str(caught.value) == (
        "l.jsonl: no column 'objects.size' (--columns); found file_name, objects, objects.bbox, "
        "objects.area"
    )


def test_a_column_called_objects_may_be_something_else() -> None:
    """Without boxes it is a column as any other."""
    content = json_lines({"file_name": "a", "label": "cat", "objects": 3})
    assert kinds(content, "l.jsonl") == {"label": CLASS, "objects": INT64}


# --- values -------------------------------------------------------------------------------------


def test_a_bad_value_is_said_with_its_row() -> None:
    """The row keeps its name and line, so that the image can be found that it spoils."""
    content = "filename,label,age,weight\na.jpg,cat,3,1.5\nb.jpg,dog,old,heavy\nc.jpg,,4,2\n"
    choices = {"age": "int", "weight": "float"}
    first, second, third = read(content, kinds=choices)
    assert first == LabelRow("a.jpg", ("cat", 3, 1.5), "", "labels.csv", 2)
    assert third == LabelRow(
        "c.jpg", (None, 4, 2.0), "", "labels.csv", 4, "column 'label': is empty"
    )
    assert isinstance(second, LabelRow)
    assert second._replace(problem="") == LabelRow(
        "b.jpg", ("dog", None, None), "", "labels.csv", 3
    )
    assert second.problem.startswith("column 'age': 'old' is not ")


def test_a_word_among_decimals_is_a_bad_label() -> None:
    """So are a missing number and one that is not finite: nothing can be regressed on them."""
    content = "filename,label\na,0.5\nb,0.25\nc,oops\nd,n/a\ne,inf\nf,nan\ng,1.5\nh,-2\ni,3.5\n"
    problems = [row.problem for row in read(content) if isinstance(row, LabelRow)]
    assert problems == [
        "",
        "",
        "column 'label': 'oops' is not a number",
        "column 'label': is empty",
        "column 'label': 'inf' is not a number",
        "column 'label': is empty",
        "",
        "",
        "",
    ]


def test_a_missing_value_of_a_further_column_is_nothing() -> None:
    """Among numbers, all that people write for it is; among text, NA is a text."""
    words = ["", "n/a", "NaN", "NULL", "None", "NA"]
    content = "filename,label,age,note\nx.jpg,cat,3,hello\n" + "".join(
        f"{i}.jpg,cat,{word},{word}\n" for i, word in enumerate(words)
    )
    assert [values for _, _, values in sound_rows(content)] == [
        ("cat", 3, "hello"),
        ("cat", None, None),
        *(("cat", None, word) for word in words[1:]),
    ]


def test_a_class_may_be_called_none() -> None:
    """What is a missing number elsewhere is a name where names are expected."""
    content = "filename,label\na.jpg,None\nb.jpg,NA\nc.jpg,cat\n"
    assert [values for _, _, values in sound_rows(content)] == [("None",), ("NA",), ("cat",)]


# --- splits -------------------------------------------------------------------------------------


def test_a_split_column_says_the_split() -> None:
    """Its values are the usual words in any case, or names of the person's own."""
    words = ["train", "Training", "VAL", "valid", "validation", "dev", "TEST", "eval", "Fold_1"]
    content = "filename,label,Split\n" + "".join(f"a.jpg,cat, {word} \n" for word in words)
    schema, _ = inspect(content)
    assert schema == LabelSchema(CLASS_SCHEMA.columns, "Split")
    rows = read(content)
    assert all(isinstance(row, LabelRow) and not row.problem for row in rows)
    assert [row.split for row in rows if isinstance(row, LabelRow)] == [
        "train",
        "train",
        "validation",
        "validation",
        "validation",
        "validation",
        "test",
        "test",
        "Fold_1",
    ]


@pytest.mark.parametrize("word", ["", "my split", "a/b", "..", "train,val", "-"])
def test_a_word_that_names_no_split_is_a_bad_value(word: str) -> None:
    """A split becomes part of file names, so it is letters, digits and underscores."""
    (row,) = read(f'filename,label,split\na.jpg,cat,"{word}"\n')
    assert isinstance(row, LabelRow)
    assert row.problem == f"column 'split': {word!r} names no split"
    assert row.values == ("cat",)


def test_a_table_without_a_split_column_asks_for_none() -> None:
    """The split is left to folders and options."""
    (row,) = read("filename,label\na.jpg,cat\n")
    assert isinstance(row, LabelRow)
    assert row.split == ""


def test_the_split_column_can_be_the_label() -> None:
    """A column that was named as the label is that, whatever it is called."""
    content = "filename,split\na.jpg,left\n"
    assert inspect(content, label="split")[0].columns == (
        Column("split", CLASS, "image/class", required=True),
    )


def test_lines_of_commas_are_empty_lines() -> None:
    """Excel leaves them behind a table, and before it."""
    assert sound_rows("filename,label\na.jpg,cat\n,\n , \nb.jpg,dog\n") == [
        (2, "a.jpg", ("cat",)),
        (5, "b.jpg", ("dog",)),
    ]


def test_a_path_is_a_likelier_key_than_an_id() -> None:
    """A table with both names its images by the path."""
    _, table = inspect("id,image_path,label\n1,a.jpg,cat\n")
    assert table.key_column == "image_path"


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


# --- names with line breaks ---------------------------------------------------------------------


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


# --- numbers that may be names ------------------------------------------------------------------


def test_one_number_of_another_kind_leaves_a_column_of_numbers() -> None:
    """007 and what no int64 holds are bad values of their rows, and the column is no text."""
    cells = [str(i) for i in range(100, 138)]
    cells[3], cells[5] = "007", "99999999999999999999"
    content = "filename,label,n\n" + "".join(f"{i},cat,{cell}\n" for i, cell in enumerate(cells))
    assert kinds(content + "98,cat,5\n") == {"label": CLASS, "n": INT64}
    rows = [row for row in read(content + "98,cat,5\n") if isinstance(row, LabelRow)]
    assert [(row.line, row.problem) for row in rows if row.problem] == [
        (
            5,
            "column 'n': '007' begins with a zero, so it may be a name; --columns n:str makes the "
            "column a text, n:int reads it as a number",
        ),
        (7, "column 'n': '99999999999999999999' is not an integer of 64 bits"),
    ]
    asked = [row for row in read(content, kinds={"n": "int"}) if isinstance(row, LabelRow)]
    assert asked[3].values == ("cat", 7)


def test_numbers_of_one_width_with_a_zero_before_one_are_names() -> None:
    """As postal codes are, of which few begin with a zero."""
    codes = ["02139", *(str(10_000 + i) for i in range(50))]
    content = "filename,label,zip\n" + "".join(f"{i},cat,{c}\n" for i, c in enumerate(codes))
    assert kinds(content) == {"label": CLASS, "zip": BYTES}


@pytest.mark.parametrize("number", ["1e39", "1e400", "-1e400"])
@pytest.mark.parametrize("uri", ["l.csv", "l.jsonl"])
def test_a_number_that_no_float32_holds_is_a_bad_value(number: str, uri: str) -> None:
    """However much too large; `inf` is what it says."""
    numbers = [*["0.5"] * 20, number]
    if uri == "l.csv":
        content = "filename,label,x\n" + "".join(f"{i},cat,{n}\n" for i, n in enumerate(numbers))
    else:
        content = "".join(
            f'{{"file_name": "{i}", "label": "cat", "x": {n}}}\n' for i, n in enumerate(numbers)
        )
    *_, last = read(content, uri)
    assert isinstance(last, LabelRow)
    assert last.problem.startswith("column 'x': ")
    assert last.problem.endswith(" is not a number that a float32 holds")


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


def size_columns(content: str, uri: str = "l.csv", **choices: Any) -> tuple[str, ...]:
    leading = inspect(content, uri, **choices)[0].leading
    assert leading
    return leading.size


def test_rows_with_boxes_claim_the_size_of_their_image() -> None:
    """A side that is 0, empty or no whole number claims nothing; a column left out neither."""
    content = f"{BOXES}c,0,0,cat,1,2,3,4\nd,,7,cat,1,2,3,4\ne,9.0,7.0,cat,1,2,3,4\nf,9.5,7,,,,,\n"
    assert size_columns(content) == ("width", "height")
    sizes = {row.name: row.size for row in read(content) if isinstance(row, LabelRow)}
    assert sizes == {"a": (9, 7), "b": (9, 7), "c": None, "d": None, "e": (9, 7), "f": None}
    assert size_columns(content, kinds={"height": "skip"}) == ()


def test_rows_without_boxes_claim_no_size() -> None:
    """Width and height are columns as any other."""
    content = "filename,label,width,height\na,cat,9,7\n"
    assert kinds(content) == {"label": CLASS, "width": INT64, "height": INT64}
    assert [row.size for row in read(content) if isinstance(row, LabelRow)] == [None]


def test_a_row_with_a_list_of_objects_claims_a_size_too() -> None:
    """Width and height stay columns, as they were."""
    objects = {"bbox": [[1, 2, 3, 4]], "category": ["x"]}
    content = json_lines(
        {"file_name": "a", "objects": objects, "width": 9, "height": 7},
        {"file_name": "b", "objects": objects, "width": None, "height": 7},
    )
    schema, table = inspect(content, "l.jsonl")
    assert [column.feature for column in schema.columns[2:]] == ["label/width", "label/height"]
    rows = read_rows(content.encode(), table, schema)
    assert [row.size for row in rows if isinstance(row, LabelRow)] == [(9, 7), None]
    assert size_columns(content, "l.jsonl", kinds={"width": "skip"}) == ()


def test_columns_of_boxes_stay_columns_if_one_is_named() -> None:
    """`--columns` for a side says that it is a number as any other."""
    content = "filename,label,x,y,w,h\na,cat,1,2,3,4\n"
    assert kinds(content, kinds={"x": "float"}) == {
        "label": CLASS,
        "x": FLOAT,
        "y": INT64,
        "w": INT64,
        "h": INT64,
    }


def test_a_row_whose_box_is_broken_keeps_its_place() -> None:
    """Its image becomes a dead letter with file and line."""
    rows = read("filename,label,x,y,w,h\n" + "a,cat,1,2,3,4\n" * 20 + "b,cat,1,,3,4\n")
    assert rows[-1] == LabelRow(
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
    rows = read(content + "c,0,0,9\n", one_hot=("cat", "dog"))
    assert isinstance(rows[2], LabelRow)
    assert rows[2].problem.startswith("one-hot columns: no 1, ")


@pytest.mark.parametrize("text", TEXT_NAMES)
def test_captions_of_several_rows_are_a_list(text: str) -> None:
    """So is what differs between the rows; what is the same stays one value."""
    content = f"image,n,{text},label,size\na,0,Hello,x,3\na,1,World,x,3\nb,0,Bye,y,4\n"
    schema, _ = inspect(content)
    assert schema.several_rows
    assert schema.columns == (
        Column("label", CLASS, "image/class", required=True),
        Column("n", INT64, "label/n", required=True, repeated=True),
        Column(text, BYTES, f"label/{text}", required=True, repeated=True),
        Column("size", INT64, "label/size"),
    )
    assert sound_rows(content) == [
        (2, "a", ("x", (0,), ("Hello",), 3)),
        (3, "a", ("x", (1,), ("World",), 3)),
        (4, "b", ("y", (0,), ("Bye",), 4)),
    ]
    assert schema.notes == (
        f"several rows name one image; each has a list of n and of {text}, a value a row",
    )


def test_one_caption_an_image_is_one_text() -> None:
    """As is one that another row says again."""
    schema, _ = inspect("image,caption\na,Hello\nb,Bye\nb,Bye\n")
    assert schema.columns == (Column("caption", BYTES, "label/caption"),)
    assert not schema.several_rows


@pytest.mark.slow
def test_a_hundred_thousand_columns_are_read() -> None:
    """Work grows with the number of columns: with its square, this would run into the time limit."""
    names = [f"c{number}" for number in range(100_000)]
    schema, _ = inspect(f"filename,label,{','.join(names)}\na.jpg,x,{','.join('1' * 100_000)}\n")
    assert [column.name for column in schema.columns] == ["label", *names]


@pytest.mark.parametrize(
    ("content", "columns"),
    [
        ("filename,label,set\na.jpg,cat,train\nb.jpg,dog,Val\nc.jpg,dog,\n", ("set",)),
        (
            "filename,x1,y1,x2,y2,class,set\na.jpg,1,2,3,4,cat,train\na.jpg,1,2,5,6,cat,test\n",
            ("set",),
        ),
        ("filename,label,set\na.jpg,cat,train\nb.jpg,dog,training\n", ()),
        ("filename,label,set\na.jpg,cat,train\nb.jpg,dog,bus\n", ()),
        ("filename,label\na.jpg,train\nb.jpg,test\n", ()),
        ("filename,label,set,split\na.jpg,cat,train,x\nb.jpg,dog,test,x\n", ()),
    ],
)
def test_columns_with_names_of_splits_are_noticed(content: str, columns: tuple[str, ...]) -> None:
    """Of two splits, and nothing else; neither the label nor beside a column `split`."""
    assert inspect(content)[0].split_like == columns


def test_a_declared_column_is_not_noticed() -> None:
    """The user knows that it is a feature."""
    content = "filename,label,set\na.jpg,cat,train\nb.jpg,dog,val\n"
    assert inspect(content, kinds={"set": "str"})[0].split_like == ()


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
