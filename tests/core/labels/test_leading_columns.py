from __future__ import annotations

import pickle

import pytest

from beam_pipeline.core.errors import LabelTableError
from beam_pipeline.core.labels.leading_columns import (
    FolderClass,
    chosen_one_hot,
    find_one_hot,
    one_hot_question,
)
from beam_pipeline.core.labels.schema import Column, ColumnKind
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


def test_the_question_has_the_answers() -> None:
    """The command that says yes, and the one that says no."""
    one_hot = chosen_one_hot(["a", "b"], ["a", "b"], rows_of("0 1"), "l.csv")
    assert one_hot.note == "one-hot columns are 2 classes: a, b; an image is of one"
    assert one_hot.question is None
    assert one_hot_question(["a", "b"]).answer == {"one_hot": ("a", "b")}


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
