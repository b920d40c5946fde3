"""Columns that hold boxes, points, objects and flags of classes."""

from __future__ import annotations

import csv
import math
import pickle
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from beam_pipeline.core.errors import LabelTableError
from beam_pipeline.core.labels.box_columns import (
    CENTRE_AND_SIZE,
    CORNER_AND_SIZE,
    CORNERS,
    BoxColumns,
    claimed_sizes,
    find_boxes,
    find_size,
    inspect_boxes,
)
from beam_pipeline.core.labels.cells import BadCellError
from beam_pipeline.core.labels.further_columns import paired_columns, resize_questions
from beam_pipeline.core.labels.leading_columns import (
    FolderClass,
    chosen_one_hot,
    find_one_hot,
    has_objects,
    inspect_objects,
    list_names,
    parse_objects,
)
from beam_pipeline.core.labels.schema import Column, ColumnKind, object_column, object_columns
from beam_pipeline.core.labels.table_rows import TableRows
from beam_pipeline.core.references import LabelRow
from tests.core.labels.fixtures import CLASS, inspect, read, sound_rows


def boxes_of(header: str, rows: Sequence[str], label: str = "", **kinds: str) -> BoxColumns | None:
    names = header.split(",")
    fields = [dict(zip(names, cells_of(row), strict=True)) for row in rows]
    values = {name: [row[name] for row in fields] for name in names}
    return inspect_boxes(values, TableRows.of_fields(range(2, 2 + len(rows)), fields), label, kinds)


def cells_of(row: str) -> Sequence[str]:
    return next(csv.reader([row]))


def parse(header: str, rows: Sequence[str], label: str = "", line: int = 5) -> tuple[Any, ...]:
    """The values of the last row."""
    boxes = boxes_of(header, rows, label)
    assert boxes
    fields = dict(zip(header.split(","), cells_of(rows[-1]), strict=True))
    return parse_row(boxes, fields, line)


def parse_row(boxes: BoxColumns, fields: Mapping[str, Any], line: int = 1) -> tuple[Any, ...]:
    """The values of a row. Raises BadCellError if it has a problem."""
    values, problems = boxes.parse(TableRows.of_fields([line], [fields]))
    if problems:
        assert [value for (value,) in values] == [()] * len(boxes.columns)
        raise BadCellError(problems[0])
    return tuple(value for (value,) in values)


@pytest.mark.parametrize(
    ("names", "form", "columns"),
    [
        ("xmin,ymin,xmax,ymax", CORNERS, "xmin,ymin,xmax,ymax"),
        ("XMin,XMax,YMin,YMax", CORNERS, "XMin,YMin,XMax,YMax"),
        ("width,height,x_min,y_min,x_max,y_max", CORNERS, "x_min,y_min,x_max,y_max"),
        ("bbox_x1,bbox_y1,bbox_x2,bbox_y2", CORNERS, "bbox_x1,bbox_y1,bbox_x2,bbox_y2"),
        ("left,top,right,bottom", CORNERS, "left,top,right,bottom"),
        ("x,y,w,h", CORNER_AND_SIZE, "x,y,w,h"),
        ("left,top,width,height", CORNER_AND_SIZE, "left,top,width,height"),
        ("x_center,y_center,width,height", CENTRE_AND_SIZE, "x_center,y_center,width,height"),
        ("cx,cy,w,h", CENTRE_AND_SIZE, "cx,cy,w,h"),
        ("width,height,x,y,w,h", CORNER_AND_SIZE, "x,y,w,h"),
        ("width,height,x_center,y_center,w,h", CENTRE_AND_SIZE, "x_center,y_center,w,h"),
        *(
            (before + box, CORNER_AND_SIZE, box)
            for before, box in (
                ("", "bbox.x,bbox.y,bbox.width,bbox.height"),
                ("width,height,", "bbox_x,bbox_y,bbox_width,bbox_height"),
                ("w,h,", "bbox_x,bbox_y,bbox_width,bbox_height"),
                ("width,height,", "bbox_xmin,bbox_ymin,bbox_w,bbox_h"),
            )
        ),
        ("x,y,width", "", ""),
        ("width,height,age", "", ""),
    ],
)
def test_boxes_are_known_by_the_names_of_their_columns(names: str, form: str, columns: str) -> None:
    """In any case and order; image sizes beside corners are not taken for the box's."""
    assert find_boxes(names.split(",")) == (form, tuple(filter(None, columns.split(","))))


@pytest.mark.parametrize(
    ("header", "row", "box"),
    [
        ("xmin,ymin,xmax,ymax", "10,20,40,80", (10, 20, 40, 80)),
        ("x,y,w,h", "10,20,30,60", (10, 20, 40, 80)),
        ("cx,cy,w,h", "25,50,30,60", (10, 20, 40, 80)),
        ("x_center,y_center,width,height", "0.5,0.5,0.5,0.25", (0.25, 0.375, 0.75, 0.625)),
    ],
)
def test_every_form_becomes_corners(header: str, row: str, box: tuple[float, ...]) -> None:
    """With the row's line, for what may be wrong with it; the only class is called object."""
    assert parse(header, [row]) == (((*box, 5),), ("object",))


@pytest.mark.parametrize(
    ("rows", "pixels", "mixed"),
    [
        (["1,1,5,5", "0,0,1,1"], True, False),
        (["0.1,0.1,0.5,0.5", "0,0,1,1"], False, False),
        (["0,0,1,1"], False, False),
        (["-0.01,0.1,1.02,1"], False, False),
        (["0.1,0.1,0.5,0.5", "1,1,5,5"], True, True),
        (["10.5,10.5,20.25,20.25"], True, False),
        ([",,,"], True, False),
        (["x,1,5,5", "1,1,5,5", *["1,1,5,5"] * 10], True, False),
    ],
)
def test_pixels_and_fractions_are_told_by_their_range(
    rows: list[str], pixels: bool, mixed: bool
) -> None:
    """A table with both is a question."""
    boxes = boxes_of("x1,y1,x2,y2", rows)
    assert boxes
    assert (boxes.columns[0].pixels, bool(boxes.question)) == (pixels, mixed)
    assert boxes.columns == object_columns(pixels=pixels)


def test_further_columns_are_lists_of_the_objects() -> None:
    """A gap is an empty text or NaN, so that lists stay parallel; a nested one is left out."""
    header = "x,y,w,h,note,score,count"
    rows = ["1,1,5,5,good,0.5,3", "1,1,5,5,,,"]
    boxes = boxes_of(header, rows)
    assert boxes
    assert [(column.name, column.kind) for column in boxes.columns[2:]] == [
        ("note", ColumnKind.BYTES),
        ("score", ColumnKind.FLOAT),
        ("count", ColumnKind.FLOAT),
    ]
    _, _, note, score, count = parse(header, rows)
    assert note == ("",)
    assert math.isnan(score[0])
    assert math.isnan(count[0])
    skipped = boxes_of(header, rows, note="skip", count="int", score="skip")
    assert skipped
    assert [column.name for column in skipped.columns[2:]] == ["count"]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("1,,5,5,cat", "column 'y': is empty, where the other sides are not"),
        ("1,a,5,5,cat", "column 'y': 'a' is not a number, the side of a box"),
        ("1,inf,5,5,cat", "column 'y': 'inf' is not a number, the side of a box"),
        ("1,1,5,5,", "column 'label': a box without a class"),
    ],
)
def test_a_row_that_is_no_object_is_a_bad_value(row: str, message: str) -> None:
    """It says which cell is wrong."""
    boxes = boxes_of("x,y,w,h,label", ["1,1,5,5,cat"], "label")
    assert boxes
    with pytest.raises(BadCellError) as caught:
        parse_row(boxes, dict(zip(["x", "y", "w", "h", "label"], row.split(","), strict=True)))
    assert str(caught.value) == message


def test_the_note_says_how_boxes_are_read() -> None:
    """Form, unit, columns, classes, and how to have plain columns instead."""
    boxes = boxes_of("x,y,w,h,label", ["0.1,0.1,0.5,0.5,cat"], "label")
    assert boxes
    assert boxes.note == (
        "rows are objects: corner and size of a box in fractions of the image from x, y, w, h, "
        "classes from label; --columns x:float keeps them as plain columns"
    )


@pytest.mark.parametrize(
    ("names", "columns"),
    [
        ("width,height,class", ("width", "height")),
        ("Height,class,Width", ("Width", "Height")),
        ("img_w,img_h", ("img_w", "img_h")),
        ("width,height,image_width,image_height", ("image_width", "image_height")),
        ("bbox_width,bbox_height", ()),
        ("width,class", ()),
    ],
)
def test_the_size_of_an_image_is_known_by_its_columns(names: str, columns: tuple[str, ...]) -> None:
    """Width first; a pair of the box's is none."""
    assert find_size(names.split(",")) == columns


@pytest.mark.parametrize(
    ("row", "size"),
    [
        ({"w": "640", "h": "480"}, (640, 480)),
        ({"w": "640.0", "h": 480}, (640, 480)),
        ({"w": 640.0, "h": 480.0}, (640, 480)),
        ({"w": "0", "h": "0"}, None),
        ({"w": "", "h": "480"}, None),
        ({"w": None, "h": "480"}, None),
        ({"w": "nan", "h": "480"}, None),
        ({"w": "-640", "h": "480"}, None),
        ({"w": "640.5", "h": "480"}, None),
        ({"w": "wide", "h": "480"}, None),
        ({"w": ["640"], "h": "480"}, None),
        ({}, None),
    ],
)
def test_a_size_is_two_whole_numbers(row: Mapping[str, Any], size: tuple[int, int] | None) -> None:
    """Many tools write 0 where they do not know it; anything else claims nothing."""
    rows = TableRows.of_fields([2, 3], [row, {"w": "3", "h": 4}])
    assert list(claimed_sizes(rows, ("w", "h"))) == [size, (3, 4)]
    assert list(claimed_sizes(rows, ())) == [None, None]


@pytest.mark.parametrize(
    ("rows", "size"),
    [
        (["30,40,10,20,40,60", "30,40,0,0,30,40"], ()),
        (["29,39,10,20,40,60"], ()),
        (["0.25,0.5,0.5,0.25,0.75,0.75"], ()),
        (["30,40,0,0,30,40"], ("width", "height")),
        (["30,40,10,20,40,60", "64,48,10,20,40,60"], ("width", "height")),
        (["64,48,10,20,40,60"], ("width", "height")),
    ],
)
def test_sides_of_boxes_are_not_those_of_images(rows: list[str], size: tuple[str, ...]) -> None:
    """Width and height beside corners are the box's if they always are its sides, and too small to
    be the image's; they become no features in either case.
    """
    boxes = boxes_of("width,height,xmin,ymin,xmax,ymax", rows)
    assert boxes
    assert boxes.size == size
    assert boxes.columns == object_columns(pixels=boxes.columns[0].pixels)


# --- a box in one cell --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rows", "form", "box"),
    [
        (['"[834.0, 222.0, 56.0, 36.0]"'], CORNER_AND_SIZE, (834, 222, 890, 258)),
        (['"(1)"', *['"[30, 12, 17, 18]"'] * 20], CORNER_AND_SIZE, (30, 12, 47, 30)),
        (['"[10 20 40 80]"', '"[1 2 4 8]"'], CORNERS, (1, 2, 4, 8)),
        (
            ['"[0.5, 0.5, 0.25, 0.5]"', "", '"[0.1, 0.1, 0.3, 0.4]"'],
            CORNER_AND_SIZE,
            (0.1, 0.1, 0.4, 0.5),
        ),
    ],
)
def test_a_list_of_four_numbers_is_a_box(
    rows: list[str], form: str, box: tuple[float, ...]
) -> None:
    """As in Global Wheat's table; lists that may be corners, as all end behind their begin, are a question."""
    boxes = boxes_of("bbox,source", [f"{row},usask" for row in rows])
    assert boxes
    assert (boxes.names, boxes.form, bool(boxes.question)) == (("bbox",), form, form == CORNERS)
    (((*corners, line),), *further) = parse("bbox,source", [f"{row},usask" for row in rows])
    assert (corners, line, further) == (pytest.approx(box), 5, [("object",), ("usask",)])


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("[1, 2, 3]", "column 'bbox': '[1, 2, 3]' is not a list of four numbers"),
        ("wide", "column 'bbox': 'wide' is not a list of four numbers"),
        ("[1, 2, 3, x]", "column 'bbox': 'x' is not a number, the side of a box"),
    ],
)
def test_another_cell_among_lists_is_a_bad_value(cell: str, message: str) -> None:
    """An empty one is an image without objects."""
    boxes = boxes_of("bbox", ['"[30, 12, 17, 18]"'])
    assert boxes
    assert parse_row(boxes, {"bbox": " "}) == ((), ())
    with pytest.raises(BadCellError) as caught:
        parse_row(boxes, {"bbox": cell})
    assert str(caught.value) == message


def test_other_lists_are_no_boxes() -> None:
    """Of other numbers, in a column of another name, or in two columns of which nobody knows which is meant."""
    assert boxes_of("bbox", ['"[1, 2, 3]"']) is None
    assert boxes_of("scores", ['"[1, 2, 3, 4]"']) is None
    assert boxes_of("bbox,other_box", ['"[9, 2, 3, 4]","[9, 2, 3, 4]"']) is None


def test_good_and_bad_rows_of_a_chunk_are_told_apart() -> None:
    """Each value is in the list of its row; the first problem of a row is said."""
    boxes = boxes_of("x,y,w,h,label,n", ["1,1,5,5,cat,7"] * 20, "label")
    assert boxes
    cells = {
        "x": ["1", "2", "", "x", "5"],
        "y": ["1", "2", "", "y", "5"],
        "w": ["1", "2", "", "4", "5"],
        "h": ["1", "2", "", "4", "5"],
        "label": ["cat", "", "", "cat", "dog"],
        "n": ["7", "n", "", "8", "9"],
    }
    values, problems = boxes.parse(TableRows(range(2, 7), cells))
    assert problems == {
        1: "column 'label': a box without a class",
        3: "column 'x': 'x' is not a number, the side of a box",
    }
    assert values == [
        [((1, 1, 2, 2, 2),), (), (), (), ((5, 5, 10, 10, 6),)],
        [("cat",), (), (), (), ("dog",)],
        [(7,), (), (), (), (9,)],
    ]


FACES = "filename,nose_x,age,nose_y,label\na.jpg,1,30,4.5,cat\nb.jpg,2,31,5,dog\nc.jpg,,32,,cat\n"


def test_a_pair_of_columns_is_a_point() -> None:
    """By the option; it is None where both cells are empty."""
    schema, _ = inspect(FACES, kinds={"nose": "point"})
    assert schema.columns == (
        Column("label", CLASS, "image/class", required=True),
        Column("age", ColumnKind.INT64, "label/age"),
        Column("nose", ColumnKind.POINT, "label/nose", pixels=True),
    )
    assert sound_rows(FACES, kinds={"nose": "point"}) == [
        (2, "a.jpg", ("cat", 30, (1.0, 4.5))),
        (3, "b.jpg", ("dog", 31, (2.0, 5.0))),
        (4, "c.jpg", ("cat", 32, None)),
    ]


def test_a_bad_point_is_said_with_its_column() -> None:
    """A point has both numbers, or none."""
    content = "filename,nose_x,nose_y\na.jpg,1,\nb.jpg,1,left\n"
    rows = [row for row in read(content, kinds={"nose": "point"}) if isinstance(row, LabelRow)]
    assert [row.problem for row in rows] == [
        "column 'nose': 'nose_y': is empty",
        "column 'nose': 'nose_y': 'left' is not a number",
    ]


@pytest.mark.parametrize(
    ("content", "name", "message"),
    [
        (FACES, "ear", "no columns ear_x and ear_y"),
        (FACES, "age", "no columns age_x and age_y"),
        (
            "filename,xmin,ymin,xmax,ymax,nose_x,nose_y\na.jpg,1,1,2,2,3,3\n",
            "nose",
            "--columns nose:point is for a row an image, not an object",
        ),
    ],
)
def test_a_point_without_columns_is_an_error(content: str, name: str, message: str) -> None:
    """So is one in rows of objects."""
    with pytest.raises(LabelTableError, match=message):
        inspect(content, kinds={name: "point"})


def test_names_that_differ_in_an_x_and_a_y_are_pairs() -> None:
    """Whatever is around the letter; of two pairs of one name, the first counts."""
    names = ["x", "y", "left_x_1", "left_y_1", "x1", "Y1", "box", "tax", "pupilX", "pupilY"]
    assert paired_columns(names) == {
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
    (question,) = resize_questions(columns, {}, answered=True)
    assert (question.id, question.answer) == ("moved_points", {"columns": {"nose": "point"}})
    assert question.reason.startswith("nose_x, nose_y look like places in the images")
    of_objects = [number("a_x", "image/object/a_x"), number("a_y", "image/object/a_y")]
    lists = [number("landmarks", repeated=True), number("vector", repeated=True)]
    for columns, names in ((of_objects, "a_x, a_y look"), (lists, "landmarks look")):
        (question,) = resize_questions(columns, {}, answered=True)
        assert question.reason.startswith(names)
        assert question.answer is None


def test_declared_columns_and_texts_are_no_places() -> None:
    """The user knows them."""
    columns = [number("nose_x"), number("nose_y")]
    assert not list(resize_questions(columns, {"nose_x": "float"}, answered=True))
    texts = [Column(name, ColumnKind.BYTES, f"label/{name}") for name in ("nose_x", "nose_y")]
    assert not list(resize_questions(texts, {}, answered=True))


# --- leading columns


def rows_of(*cells: str) -> TableRows:
    columns = zip(*(row.split() for row in cells), strict=True)
    return TableRows(range(2, 2 + len(cells)), dict(zip("abc", columns, strict=False)))


@pytest.mark.parametrize(
    ("rows", "columns"),
    [
        (("1 0 0", "0 1 0", "0 0 1"), ("a", "b", "c")),
        (("1.0 0.0 0.0", "0.0 1.0 0.0"), ("a", "b", "c")),
        (("True False 7", "False True 8"), ("a", "b")),
        (("1 0 0", "1 1 0"), ()),
        (("1 0 0", "0 0 0"), ()),
        (("1 0 0",), ()),
        (("1 0 7", "1 0 8"), ()),
        (("1 x y", "1 x y"), ()),
        ((), ()),
    ],
)
def test_one_hot_columns_have_a_single_one_in_each_row(
    rows: tuple[str, ...], columns: tuple[str, ...]
) -> None:
    """Among columns of nothing but 0 and 1, in two columns at least."""
    assert find_one_hot(["a", "b", "c"], rows_of(*rows)) == columns


def test_named_columns_are_classes() -> None:
    """Of a pattern, what stands for the star."""
    rows = TableRows.of_fields([2], [{"id": "1", "is_cat": "1", "is_dog": "0"}])
    one_hot = chosen_one_hot(["is_*"], ["id", "is_cat", "is_dog"], rows, "l.csv")
    assert (one_hot.classes, one_hot.several) == ((("is_cat", "cat"), ("is_dog", "dog")), False)
    assert one_hot.columns == (Column("one_hot", ColumnKind.CLASS, "image/class", required=True),)
    assert one_hot.parse(rows) == ([["cat"]], {})
    assert set(one_hot.used) == {"is_cat", "is_dog"}


def test_several_ones_are_several_classes() -> None:
    """A single such row in the beginning is enough; none is an empty list then."""
    one_hot = chosen_one_hot(["a", "b", "c"], ["a", "b", "c"], rows_of("1 1 0", "0 0 0"), "l.csv")
    assert one_hot.several
    assert one_hot.columns[0].repeated
    assert one_hot.parse(rows_of("1 1 0", "0 0 0")) == ([[("a", "b"), ()]], {})


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("0 0 0", "one-hot columns: no 1, where the rows of the file's beginning have a single 1"),
        (
            "1 0 1",
            "one-hot columns: 1 for a, c, where the rows of the file's beginning have a single 1",
        ),
        ("0.5 0 1", "column 'a': '0.5' is neither 0 nor 1"),
    ],
)
def test_a_row_that_is_not_one_hot_is_a_bad_value(row: str, message: str) -> None:
    """It says what was found."""
    one_hot = chosen_one_hot(["a", "b", "c"], ["a", "b", "c"], rows_of("0 1 0"), "l.csv")
    assert one_hot.parse(rows_of("0 1 0", row)) == ([["b", ()]], {1: message})


@pytest.mark.parametrize(
    ("patterns", "message"),
    [
        (["x"], "l.csv: no column 'x' (--one_hot); found a, b"),
        (["x_*"], "l.csv: no column 'x_*' (--one_hot); found a, b"),
        (["a"], "l.csv: --one_hot names the column a alone; expected one a class"),
    ],
)
def test_columns_that_are_not_there_are_an_error(patterns: list[str], message: str) -> None:
    """So is a single one, which says nothing."""
    with pytest.raises(LabelTableError) as caught:
        chosen_one_hot(patterns, ["a", "b"], rows_of(), "l.csv")
    assert str(caught.value) == message


def test_minus_one_stands_for_zero_where_there_is_no_zero() -> None:
    """As in CelebA's attributes. Beside zeros it may mean that a class is uncertain."""
    rows = rows_of("1 -1 1", "-1 -1 -1")
    one_hot = chosen_one_hot(["a", "b", "c"], ["a", "b", "c"], rows, "l.csv")
    assert one_hot.parse(rows) == ([[("a", "c"), ()]], {})
    assert one_hot.parse(rows_of("1 0 1")) == ([[()]], {0: "column 'b': '0' is neither -1 nor 1"})
    uncertain = rows_of("1 -1 0")
    one_hot = chosen_one_hot(["a", "b", "c"], ["a", "b", "c"], uncertain, "l.csv")
    problem = "column 'b': '-1' is neither 0 nor 1"
    assert pickle.loads(pickle.dumps(one_hot)).parse(uncertain) == ([[()]], {0: problem})


def test_a_class_that_is_the_folder_is_empty_in_every_row() -> None:
    """The join fills it in."""
    folders = FolderClass()
    assert [column.required for column in folders.columns] == [False]
    values, problems = folders.parse(rows_of("1 2 3", "4 5 6"))
    assert ([list(column) for column in values], problems) == ([[None, None]], {})


BOXES_AND_CLASSES = object_columns(pixels=True)
INT64, FLOAT, BYTES = ColumnKind.INT64, ColumnKind.FLOAT, ColumnKind.BYTES


def parsed(value: Any, *first: Any, **kinds: Any) -> tuple[Any, ...]:
    """What a cell at line 7 is, of a column that begins with some cells, or with itself."""
    return parse_objects(value, inspect_objects("objects", first or (value,), kinds), 7)


def test_boxes_of_coco_become_corners_with_their_line() -> None:
    """x, y, width and height in pixels are the two corners, whatever numbers they are."""
    assert parsed({"bbox": [[302.0, 109, 73.5, 52]], "categories": ["cat"]}) == (
        ((302.0, 109.0, 375.5, 161.0, 7),),
        ("cat",),
    )


def test_the_likelier_list_of_classes_counts() -> None:
    """Another that could be it is a feature of the objects."""
    cell = {"label": ["x"], "bbox": [[1, 2, 3, 4]], "category": ["cat"]}
    objects = inspect_objects("objects", [cell], {})
    assert objects.categories == "category"
    assert objects.columns == (*BOXES_AND_CLASSES, object_column("label", BYTES))
    assert parse_objects(cell, objects, 1)[1:] == (("cat",), ("x",))


def test_integer_classes_are_known_as_such() -> None:
    """Their text is the integer as it is; with more than a few words among them they are names."""
    ints = {"bbox": [[1, 2, 3, 4]] * 2, "categories": [10, 0]}
    words = {"bbox": [[1, 2, 3, 4]], "categories": ["10"]}
    empty = {"bbox": [], "categories": []}
    assert inspect_objects("objects", [empty, ints], {}).integer_classes
    assert not inspect_objects("objects", [ints, words], {}).integer_classes
    assert not inspect_objects("objects", [empty], {}).integer_classes
    assert not inspect_objects(
        "objects", [{"bbox": [[1, 2, 3, 4]], "categories": [True]}], {}
    ).integer_classes
    many = {"bbox": [[1, 2, 3, 4]] * 9, "categories": [7] * 9}
    assert inspect_objects("objects", [many, words], {}).integer_classes
    assert parsed(ints)[1] == ("10", "0")
    assert parsed(ints, ints, words)[1] == ("10", "0")


def test_further_lists_are_of_the_kind_they_look_like() -> None:
    """Each becomes a column of its own name."""
    cell = {
        "id": [114, 115],
        "area": [3796, 1596.5],
        "bbox": [[1, 2, 3, 4], [5, 6, 7, 8]],
        "category": ["a", "b"],
        "colour": ["red", 7],
        "iscrowd": [False, True],
    }
    objects = inspect_objects("objects", [cell], {})
    assert objects.columns == (
        *BOXES_AND_CLASSES,
        object_column("id", INT64),
        object_column("area", FLOAT),
        object_column("colour", BYTES),
        object_column("iscrowd", INT64),
    )
    assert objects.note == ""
    assert parse_objects(cell, objects, 1)[2:] == (
        (114, 115),
        (3796.0, 1596.5),
        ("red", "7"),
        (0, 1),
    )
    assert list_names("objects", [cell, None, {"x": []}]) == [
        "objects.id",
        "objects.area",
        "objects.bbox",
        "objects.category",
        "objects.colour",
        "objects.iscrowd",
        "objects.x",
    ]


def test_what_is_not_one_value_an_object_is_left_out_and_said() -> None:
    """Polygons and single values fit no feature of objects; one that was left out on purpose is
    not said again."""
    cell = {
        "bbox": [[1, 2, 3, 4]],
        "category": ["a"],
        "segmentation": [[[1, 1, 2, 2]]],
        "image_id": 5,
        "crop": None,
        "area": [1],
    }
    objects = inspect_objects("objects", [cell], {})
    left_out = "left out, since it is not one value an object: objects."
    assert objects.note == f"{left_out}image_id, objects.segmentation"
    assert objects.columns == (*BOXES_AND_CLASSES, object_column("area", INT64))
    objects = inspect_objects("objects", [cell], {"objects.image_id": None, "objects.area": None})
    assert objects.note == f"{left_out}segmentation"
    assert objects.columns == BOXES_AND_CLASSES


def test_a_list_of_objects_says_the_same() -> None:
    """An object of its own for each, as newer versions of Hugging Face's library write them."""
    cell = [
        {"bbox": [1, 2, 3, 4], "category": "a", "area": 12},
        {"bbox": [5, 6, 7, 8], "category": "b", "area": 56},
    ]
    assert has_objects([None, [], cell])
    assert inspect_objects("objects", [cell], {}).columns == (
        *BOXES_AND_CLASSES,
        object_column("area", INT64),
    )
    assert parsed(cell) == (((1, 2, 4, 6, 7), (5, 6, 12, 14, 7)), ("a", "b"), (12, 56))
    cell[1] = {"bbox": [5, 6, 7, 8], "area": 56}
    with pytest.raises(BadCellError) as caught:
        parsed(cell)
    assert str(caught.value) == "category: item 2: is empty"


@pytest.mark.parametrize("cell", [None, "", {}, [], {"bbox": []}, {"bbox": None, "category": []}])
def test_an_image_may_have_no_objects(cell: Any) -> None:
    """An empty cell, an empty object and empty lists all say so."""
    first = {"bbox": [[1, 2, 3, 4]], "category": ["a"], "area": [1]}
    assert parsed(cell, first) == ((), (), ())


def test_cells_without_boxes_are_no_objects() -> None:
    """A column of that name may be something else."""
    assert has_objects([None, {"bbox": []}])
    assert not has_objects([])
    assert not has_objects([None, "", {}, [], ["a"], 3, {"boxes": []}])


def objects_with(**lists: Any) -> dict[str, Any]:
    """One object, as it should be but for these lists."""
    return {"bbox": [[1, 2, 3, 4]], "category": ["a"], "area": [1]} | lists


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        (
            objects_with(category=["a", "b"]),
            "bbox has 1 items, category has 2; expected one an object",
        ),
        (
            {"bbox": [[1, 2, 3, 4]], "category": ["a"]},
            "bbox has 1 items, area has 0; expected one an object",
        ),
        (objects_with(bbox=[]), "bbox has 0 items, category has 1; expected one an object"),
        *(
            (
                objects_with(bbox=[box]),
                f"bbox: item 1: {text} is not [x, y, width, height] in pixels",
            )
            for box, text in (
                *(([1, 2, 3], "[1, 2, 3]"), ([1, 2, 3, "4"], "[1, 2, 3, '4']"), (None, "None")),
                *(([1, 2, 3, math.nan], "[1, 2, 3, nan]"), ([1, 2, 3, math.inf], "[1, 2, 3, inf]")),
                ([1, 2, 3, True], "[1, 2, 3, True]"),
                ([1, 2, 3, 10**400], f"[1, 2, 3, 1{'0' * 66}..."),
            )
        ),
        (objects_with(bbox=5), "bbox: 5 is not a list"),
        (objects_with(category="a"), "category: 'a' is not a list"),
        (objects_with(category=[None]), "category: item 1: is empty"),
        (objects_with(category=[["a"]]), "category: item 1: ['a'] is not a class name"),
        (objects_with(area=["large"]), "area: item 1: 'large' is not an integer of 64 bits"),
        (objects_with(area=[None]), "area: item 1: is empty"),
        (5, "5 is not an object with the lists bbox, ..."),
        ([1, 2], "[1, 2] is not an object with the lists bbox, ..."),
    ],
)
def test_objects_that_are_not_as_they_should_be_are_a_fault(cell: Any, message: str) -> None:
    """The message says which list, which item and what was expected."""
    with pytest.raises(BadCellError) as caught:
        parsed(cell, objects_with())
    assert str(caught.value) == message


def test_a_word_among_integer_classes_is_a_fault() -> None:
    """An id cannot be made of it."""
    message = "^category: item 1: 'cat' is not an integer, as most others are$"
    with pytest.raises(BadCellError, match=message):
        parsed(objects_with(category=["cat"]), objects_with(category=[3]))
