"""Points in two columns, and numbers in such columns beside images that are resized."""

from __future__ import annotations

import pytest

from beam_pipeline.core.errors import LabelTableError
from beam_pipeline.core.images.geometry import Affine
from beam_pipeline.core.labels.boxes import Move, move_labels
from beam_pipeline.core.labels.further_columns import paired_columns, resize_questions
from beam_pipeline.core.labels.schema import Column, ColumnKind
from beam_pipeline.core.references import LabelRow
from tests.core.labels.fixtures import CLASS, inspect, read, sound_rows

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


def test_a_point_follows_its_image() -> None:
    """Beside numbers, which stay."""
    schema, _ = inspect(FACES, kinds={"nose": "point"})
    move = Move((10, 10), Affine(2, 0, 1, 0, 2, 0), (20, 20))
    assert move_labels(("cat", 30, (1.0, 4.5)), schema.columns, move) == (
        ("cat", 30, (3.0, 9.0)),
        0,
    )
    assert move_labels(("cat", 32, None), schema.columns, move) == (("cat", 32, None), 0)


def test_points_need_no_label() -> None:
    """Numbers of which none is above one are fractions of the image."""
    schema, _ = inspect("filename,x,y\na.jpg,0.5,1\n", kinds={"point": "point"})
    assert schema.columns == (Column("point", ColumnKind.POINT, "label/point"),)


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
