from __future__ import annotations

import io
from typing import Any

import pytest

from beam_pipeline.core.dead_letters import DeadLetter
from beam_pipeline.core.errors import LabelTableError
from beam_pipeline.core.labels.schema import Column, ColumnKind, object_columns
from beam_pipeline.core.labels.table_files import TableHead
from beam_pipeline.core.references import LabelRow
from beam_pipeline.layouts.automl import (
    SETS,
    AutomlFormat,
    automl_names,
    inspect_automl,
    is_automl,
    read_automl,
)

ONE_CLASS, CLASSES, BOXES = (
    AutomlFormat(boxes=False, several=False),
    AutomlFormat(boxes=False, several=True),
    AutomlFormat(boxes=True, several=False),
)


def head(content: str | bytes, uri: str = "rows.csv") -> TableHead:
    return TableHead(uri, content.encode() if isinstance(content, str) else content, True)


def read(content: str, rows: AutomlFormat) -> list[LabelRow | DeadLetter]:
    return list(read_automl(io.BytesIO(content.encode()), "rows.csv", "utf-8-sig", rows))


def said(content: str, rows: AutomlFormat) -> list[tuple[Any, ...]]:
    """(split, name, values) of each row, all of which must be sound."""
    found = read(content, rows)
    assert all(isinstance(row, LabelRow) and not row.problem for row in found), found
    return [(row.split, row.name, row.values) for row in found if isinstance(row, LabelRow)]


def problems(content: str, rows: AutomlFormat) -> list[str]:
    return [row.problem for row in read(content, rows) if isinstance(row, LabelRow)]


# --- recognition --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "first",
    [
        "TRAIN,gs://b/a.jpg,cat",
        "training , gs://b/a,cat",
        "UNASSIGNED,a.jpg",
        "Validate,folder/a.PNG,,,,,,,,,",
        ",gs://b/a.jpg,cat",
        "gs://b/a.jpg,cat",
        "gs://b/a",
        "\ufeffTEST,gs://b/a.jpg,cat",
        "\r\n\r\nTEST,gs://b/a.jpg,cat\r\n",
        '"TEST","gs://b/a.jpg","cat"',
    ],
)
def test_a_row_of_automl_is_known_by_its_set_and_image(first: str) -> None:
    """Or by a URI in the first cell; a file in UTF-16 is one, too."""
    assert is_automl(head(first))
    assert is_automl(head(first.lstrip("\ufeff").encode("utf-16")))


@pytest.mark.parametrize(
    "first",
    [
        "",
        "\n\n",
        "filename,label",
        ",filename,label",
        "a.jpg,cat",
        "TRAIN,label",
        "set,gs://b/a.jpg,cat",
        "train",
        '{"image": "gs://b/a.jpg", "label": "cat"}',
        'TRAIN,"gs://b/a.jpg,cat',
        "image_uri,label\ngs://b/a.jpg,cat",
    ],
)
def test_a_header_or_anything_else_is_no_row_of_automl(first: str) -> None:
    """Only the first line is looked at."""
    assert not is_automl(head(first))


# --- what rows say ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "rows"),
    [
        ("TRAIN,gs://b/a.jpg,cat\nTRAIN,gs://b/b.jpg,dog\n", ONE_CLASS),
        ("TRAIN,gs://b/a.jpg\n", ONE_CLASS),
        ("TRAIN,gs://b/a.jpg,cat,cat,,\n", ONE_CLASS),
        ("TRAIN,gs://b/a.jpg,cat\nTRAIN,gs://b/b.jpg,dog,cat\n", CLASSES),
        ("TRAIN,gs://b/a.jpg,1,2,3,4,5\n", CLASSES),
        ("TRAIN,gs://b/a.jpg,0,1,2,3,4,5,6,7,8\n", CLASSES),
        ("TRAIN,gs://b/a.jpg,cat\nTRAIN,gs://b/b.jpg,cat,.1,.2,,,.3,.4,,\n", BOXES),
        ("TRAIN,gs://b/a.jpg,cat,0,0,,,1,1,,\n", BOXES),
        ("TRAIN,gs://b/a.jpg,cat,0,0,1,0,1,1,0,1\n", BOXES),
        ("TRAIN,gs://b/a.jpg,cat,0.1,0.2,0.3,0.4\n", BOXES),
        ("gs://b/a.jpg,cat,-0.01,0.2,,,1.01,0.4,,\n", BOXES),
    ],
)
def test_the_beginning_says_whether_rows_are_classes_or_boxes(
    content: str, rows: AutomlFormat
) -> None:
    """One row with coordinates makes boxes, one with two labels makes several classes."""
    assert inspect_automl([head(content)]) == rows
    assert inspect_automl([head("TEST,gs://b/z.jpg\n"), head(content)]) == rows


def test_the_columns_are_those_of_all_detection_or_classification_sets() -> None:
    """Boxes in fractions and their classes, a class, or a list of classes."""
    assert BOXES.columns == object_columns(pixels=False)
    assert ONE_CLASS.columns == (Column("label", ColumnKind.CLASS, "image/class", required=True),)
    assert CLASSES.columns == (
        Column("label", ColumnKind.CLASS, "image/class", required=True, repeated=True),
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            "filename,label\na.jpg,cat\n",
            "rows.csv, line 1: names no image: 'filename,label'; expected rows such as "
            "TRAIN,gs://bucket/a.jpg,label, and no header",
        ),
        (
            '\n"TRAIN,gs://b/a.jpg\n',
            "rows.csv, line 2: line 2: not CSV: unexpected end of data; look for a quote that is "
            "not closed; expected rows such as TRAIN,gs://bucket/a.jpg,label, and no header",
        ),
        (
            "\n,,\n",
            "rows.csv: the file is empty; expected rows such as TRAIN,gs://bucket/a.jpg,label",
        ),
    ],
)
def test_a_file_that_begins_with_something_else_is_an_error(content: str, message: str) -> None:
    """The message shows what a row should look like."""
    with pytest.raises(LabelTableError) as caught:
        inspect_automl([head(content)])
    assert str(caught.value) == message


def test_the_names_of_a_beginning_are_those_of_its_sound_rows() -> None:
    """Broken rows have none."""
    content = 'TRAIN,gs://b/a.jpg,cat\nTRAIN\n"TEST","gs://b/b.jpg",x"y\ngs://b/c.jpg\n'
    assert list(automl_names(head(content))) == ["gs://b/a.jpg", "gs://b/b.jpg", "gs://b/c.jpg"]


# --- classes ------------------------------------------------------------------------------------


def test_a_row_is_a_set_an_image_and_its_class() -> None:
    """Sets are the usual splits in any case; without one the split is left to others."""
    content = "".join(
        f"{word},gs://b/{i}.jpg, daisy \n"
        for i, word in enumerate([*SETS, "train", "Validation", "unassigned"])
    )
    assert said(content, ONE_CLASS) == [
        ("train", "gs://b/0.jpg", ("daisy",)),
        ("train", "gs://b/1.jpg", ("daisy",)),
        ("validation", "gs://b/2.jpg", ("daisy",)),
        ("validation", "gs://b/3.jpg", ("daisy",)),
        ("test", "gs://b/4.jpg", ("daisy",)),
        ("", "gs://b/5.jpg", ("daisy",)),
        ("", "gs://b/6.jpg", ("daisy",)),
        ("train", "gs://b/7.jpg", ("daisy",)),
        ("validation", "gs://b/8.jpg", ("daisy",)),
        ("", "gs://b/9.jpg", ("daisy",)),
    ]


def test_the_set_may_be_left_out() -> None:
    """Then the image stands first: a URI, or a name with an image's extension."""
    content = "gs://b/a,daisy\nfolder/b.jpg,rose\n"
    assert said(content, ONE_CLASS) == [
        ("", "gs://b/a", ("daisy",)),
        ("", "folder/b.jpg", ("rose",)),
    ]


def test_a_row_with_several_labels_is_several_classes() -> None:
    """Each once, in their order; none is none."""
    content = "TRAIN,gs://b/a.jpg,rose,daisy,rose\nTRAIN,gs://b/b.jpg,\nTRAIN,gs://b/c.jpg,,x,\n"
    assert said(content, CLASSES) == [
        ("train", "gs://b/a.jpg", (("rose", "daisy"),)),
        ("train", "gs://b/b.jpg", ((),)),
        ("train", "gs://b/c.jpg", (("x",),)),
    ]


def test_rows_that_are_not_as_the_beginning_are_faults() -> None:
    """None or two labels where there is one, and a box where there are none."""
    content = "TRAIN,gs://b/a.jpg,,\nTRAIN,gs://b/b.jpg,x,y\nTRAIN,gs://b/c.jpg,x,.1,.2,,,.3,.4\n"
    assert problems(content, ONE_CLASS) == [
        "no label",
        "2 labels (x, y), in a file whose beginning has one a row; move the row to its beginning "
        "if images may have several",
        "a box, in a file whose beginning has none; expected labels alone, or boxes from the "
        "file's first rows on",
    ]


# --- boxes --------------------------------------------------------------------------------------


def test_two_vertices_are_a_box_as_written() -> None:
    """An inverted box stays one, so that it is found when the image is read."""
    content = (
        "TRAIN,gs://b/a.jpg,car,0.1,0.2,,,0.5,0.6,,\n"
        "TRAIN,gs://b/a.jpg,bus,0.1,0.2,,,0.5,0.6\n"
        "TRAIN,gs://b/a.jpg,car,0.1,0.2,0.5,0.6\n"
        "TRAIN,gs://b/a.jpg,car,0.5,0.6,,,0.1,0.2,,\n"
    )
    assert [values for _, _, values in said(content, BOXES)] == [
        (((0.1, 0.2, 0.5, 0.6, 1),), ("car",)),
        (((0.1, 0.2, 0.5, 0.6, 2),), ("bus",)),
        (((0.1, 0.2, 0.5, 0.6, 3),), ("car",)),
        (((0.5, 0.6, 0.1, 0.2, 4),), ("car",)),
    ]


@pytest.mark.parametrize(
    "vertices",
    [
        "0.1,0.2,0.5,0.2,0.5,0.6,0.1,0.6",
        "0.5,0.6,0.1,0.6,0.1,0.2,0.5,0.2",
        "0.1,0.4,0.3,0.2,0.5,0.4,0.3,0.6",
    ],
)
def test_four_vertices_are_the_smallest_rectangle_around_them(vertices: str) -> None:
    """Whichever is first, and of a polygon that is no rectangle, too."""
    assert said(f"TRAIN,gs://b/a.jpg,car,{vertices}\n", BOXES) == [
        ("train", "gs://b/a.jpg", (((0.1, 0.2, 0.5, 0.6, 1),), ("car",)))
    ]


@pytest.mark.parametrize("row", ["TRAIN,gs://b/a.jpg", "TRAIN,gs://b/a.jpg,,,,,,,,,"])
def test_an_image_may_have_no_objects(row: str) -> None:
    """With or without the empty cells of a box."""
    assert said(f"{row}\n", BOXES) == [("train", "gs://b/a.jpg", ((), ()))]


@pytest.mark.parametrize(
    ("cells", "problem"),
    [
        ("car", "the label 'car' has no box, where other rows of the file have one"),
        (",0.1,0.2,,,0.5,0.6,,", "a box without a label"),
        ("car,0.1,x,,,0.5,0.6,,", "'x' is not a coordinate, a fraction of the image"),
        ("car,0.1,,,,0.5,0.6,,", "'' is not a coordinate, a fraction of the image"),
        ("car,0.1,nan,,,0.5,0.6,,", "'nan' is not a coordinate, a fraction of the image"),
        ("car,0.1,1e999,,,0.5,0.6,,", "'1e999' is not a coordinate, a fraction of the image"),
        ("car,0.1,0_1,,,0.5,0.6,,", "'0_1' is not a coordinate, a fraction of the image"),
        ("car,0.1,0.2", "1 vertices of a box, expected 2 or 4: ['0.1', '0.2']"),
        (
            "car,0,0,1,0,1,1",
            "3 vertices of a box, expected 2 or 4: ['0', '0', '1', '0', '1', '1']",
        ),
        ("car,0,0,1,0,1,1,0,1,9", "9 cells after the label, expected 8"),
    ],
)
def test_a_box_that_cannot_be_understood_is_a_fault_of_its_image(cells: str, problem: str) -> None:
    """With what was found and what was expected; the row keeps name and line."""
    assert read(f"\nTRAIN,gs://b/a.jpg,{cells}\n", BOXES) == [
        LabelRow("gs://b/a.jpg", ((), ()), "train", "rows.csv", 2, problem)
    ]


# --- broken rows --------------------------------------------------------------------------------


def test_a_set_that_is_none_is_a_fault_of_its_image() -> None:
    """The image is known, so it becomes a dead letter and is in no split."""
    (row,) = read("HOLDOUT,gs://b/a.jpg,cat\n", ONE_CLASS)
    assert isinstance(row, LabelRow)
    assert (row.name, row.values, row.line) == ("gs://b/a.jpg", (None,), 1)
    assert row.problem == ("'HOLDOUT' names no set; expected TRAIN, VALIDATION, TEST or UNASSIGNED")


@pytest.mark.parametrize("row", ["cat,dog", "TRAIN", "TRAIN,,cat", "a"])
def test_a_row_that_names_no_image_is_a_dead_letter(row: str) -> None:
    """It says file, line and what was found; the next rows are read."""
    dead_letter, last = read(f"{row}\nTRAIN,gs://b/a.jpg,cat\n", ONE_CLASS)
    assert dead_letter == DeadLetter(
        "labels", "", "", "bad_row", f"names no image: {row!r}", "rows.csv", 1
    )
    assert last == LabelRow("gs://b/a.jpg", ("cat",), "train", "rows.csv", 2)


def test_a_quote_that_is_not_closed_is_a_dead_letter() -> None:
    """As in any other table."""
    first, dead_letter = read('TRAIN,gs://b/a.jpg,cat\nTRAIN,"gs://b/b.jpg,cat\n', ONE_CLASS)
    assert isinstance(first, LabelRow)
    assert dead_letter == DeadLetter(
        "labels",
        "",
        "",
        "bad_row",
        "line 2: not CSV: unexpected end of data; look for a quote that is not closed",
        "rows.csv",
        2,
    )
