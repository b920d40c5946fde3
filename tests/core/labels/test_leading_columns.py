from __future__ import annotations

import pickle
from typing import Any

import pytest

from beam_pipeline.core.errors import LabelTableError
from beam_pipeline.core.labels.cells import BadCellError
from beam_pipeline.core.labels.leading_columns import (
    chosen_one_hot,
    find_one_hot,
    has_objects,
    inspect_objects,
    list_names,
    parse_objects,
)
from beam_pipeline.core.labels.schema import Column, ColumnKind, object_column, object_columns
from beam_pipeline.core.labels.table_rows import TableRows


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


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        (
            {"bbox": [[1, 2, 3, 4]], "category": ["a", "b"], "area": [1]},
            "bbox has 1 items, category has 2; expected one an object",
        ),
        (
            {"bbox": [[1, 2, 3, 4]], "category": ["a"]},
            "bbox has 1 items, area has 0; expected one an object",
        ),
        (
            {"bbox": [], "category": ["a"], "area": [1]},
            "bbox has 0 items, category has 1; expected one an object",
        ),
        (
            {"bbox": [[1, 2, 3]], "category": ["a"], "area": [1]},
            "bbox: item 1: [1, 2, 3] is not [x, y, width, height] in pixels",
        ),
        (
            {"bbox": [[1, 2, 3, 4], [1, 2, 3, "4"]], "category": ["a", "b"], "area": [1, 2]},
            "bbox: item 2: [1, 2, 3, '4'] is not [x, y, width, height] in pixels",
        ),
        (
            {"bbox": [[1, 2, 3, float("nan")]], "category": ["a"], "area": [1]},
            "bbox: item 1: [1, 2, 3, nan] is not [x, y, width, height] in pixels",
        ),
        (
            {"bbox": [[1, 2, 3, float("inf")]], "category": ["a"], "area": [1]},
            "bbox: item 1: [1, 2, 3, inf] is not [x, y, width, height] in pixels",
        ),
        (
            {"bbox": [[1, 2, 3, True]], "category": ["a"], "area": [1]},
            "bbox: item 1: [1, 2, 3, True] is not [x, y, width, height] in pixels",
        ),
        (
            {"bbox": [None], "category": ["a"], "area": [1]},
            "bbox: item 1: None is not [x, y, width, height] in pixels",
        ),
        ({"bbox": 5, "category": ["a"], "area": [1]}, "bbox: 5 is not a list"),
        ({"bbox": [[1, 2, 3, 4]], "category": "a", "area": [1]}, "category: 'a' is not a list"),
        (
            {"bbox": [[1, 2, 3, 4]], "category": [None], "area": [1]},
            "category: item 1: is empty",
        ),
        (
            {"bbox": [[1, 2, 3, 4]], "category": [["a"]], "area": [1]},
            "category: item 1: ['a'] is not a class name",
        ),
        (
            {"bbox": [[1, 2, 3, 4]], "category": ["a"], "area": ["large"]},
            "area: item 1: 'large' is not an integer of 64 bits",
        ),
        (
            {"bbox": [[1, 2, 3, 4]], "category": ["a"], "area": [None]},
            "area: item 1: is empty",
        ),
        (5, "5 is not an object with the lists bbox, ..."),
        ([1, 2], "[1, 2] is not an object with the lists bbox, ..."),
    ],
)
def test_objects_that_are_not_as_they_should_be_are_a_fault(cell: Any, message: str) -> None:
    """The message says which list, which item and what was expected."""
    first = {"bbox": [[1, 2, 3, 4]], "category": ["a"], "area": [1]}
    with pytest.raises(BadCellError) as caught:
        parsed(cell, first)
    assert str(caught.value) == message
