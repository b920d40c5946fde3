"""Messages for tables whose label column cannot be told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from beam_pipeline.core.errors import LabelTableError
from beam_pipeline.core.labels.unclear_label import single_column, unclear_label
from tests.core.labels.fixtures import inspect

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


def test_run_lengths_are_no_labels() -> None:
    """Unless --label_column says that they are."""
    content = "ImageId,EncodedPixels\na.jpg,\nb.jpg,264661 17 265429 33\n"
    with pytest.raises(LabelTableError) as caught:
        inspect(content, "ships.csv")
    assert str(caught.value) == (
        "ships.csv: the column 'EncodedPixels' cannot be the label. It seems to contain masks as run "
        "lengths, which are not read. Write a PNG for each image, whose pixels are class ids, and name "
        "their folder with --masks (docs/datasets/segmentation.md)"
    )
    schema, _ = inspect(content, "ships.csv", label="EncodedPixels")
    assert schema.columns[0].name == "EncodedPixels"


BOX_ROWS = "filename,xmin,ymin,xmax,ymax,species,note\n" + "".join(
    f"{i}.jpg,1,1,5,6,{('cat', 'dog')[i % 2]},seen {i}\n" for i in range(4)
)


def test_texts_that_repeat_beside_boxes_without_classes_are_asked_about() -> None:
    """They may be the classes; those that differ everywhere are notes."""
    numbers = BOX_ROWS.replace("cat", "3").replace("dog", "4")
    assert inspect(numbers)[0].questions == inspect(BOX_ROWS)[0].questions
    assert inspect(numbers.replace("species", "difficult"))[0].questions == ()
    (question,) = inspect(BOX_ROWS)[0].questions
    assert (question.id, question.answer) == ("only_class", {"label_column": "species"})
    assert (
        question.reason == "all boxes would be of one class, although species may contain classes."
    )
    for choices in ({"label": "none"}, {"label": "species"}, {"kinds": {"species": "str"}}):
        assert inspect(BOX_ROWS, **choices)[0].questions == ()  # the option says what it is


@pytest.mark.parametrize(
    ("name", "values", "is_split"),
    [
        ("set", ["train", "val"], True),
        ("is_valid", ["True", "False"], True),
        ("usage", ["Training", "PublicTest", "PrivateTest"], True),
        ("usage", ["Training", "Public", "Private"], False),
        ("note", [f"a {word} {i}" for i in range(20) for word in ("train", "test")], False),
        ("fold", [0, 1, 2], True),
        ("IS_TRAIN", [1, 0], True),
        ("fold", range(21), False),  # more are no folds
        ("is_train", [1, 1], False),  # all the same
        ("training_hours", [1, 2], False),
        ("fold_id", [1, 2], True),
        ("trained", [1, 2], False),
    ],
)
def test_columns_that_seem_to_say_splits(name: str, values: Sequence[Any], is_split: bool) -> None:
    """By their values, or by a word of their name beside few values."""
    rows = "".join(f"{i}.jpg,cat,{value}\n" for i, value in enumerate(values))
    schema, _ = inspect(f"filename,label,{name}\n{rows}")
    assert schema.split_like == ((name,) if is_split else ())


def test_a_column_without_a_name_has_no_role() -> None:
    """Beside a key it counts the rows, whatever the label is."""
    rows = inspect(",image,label\n0,a.jpg,cat\n1,b.jpg,dog\n")[0].roles
    assert {row.subject: row.role for row in rows} == {
        "column without a name": "ignored",
        "column image": "key",
        "column label": "class",
    }
