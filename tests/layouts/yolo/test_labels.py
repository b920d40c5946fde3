"""YOLO's label files, line by line."""

from __future__ import annotations

import pytest

from beam_pipeline.layouts.label_files import BadLabelError
from beam_pipeline.layouts.yolo import (
    LineFormat,
    guess_task,
    line_lengths,
)

NAMES = {0: "cat", 1: "dog", 5: "owl"}


def test_boxes_are_centres_and_sizes() -> None:
    """Corners are fractions, each box knows its line, and the class is named by its number."""
    data = b"\xef\xbb\xbf5 0.5 0.5 0.25 0.5\r\n\r\n0.0 0.25 0.125 0.5 0.25\n"
    assert LineFormat(names=NAMES).parse(data, "a.txt").values == (
        ((0.375, 0.25, 0.625, 0.75, 1), (0.0, 0.0, 0.5, 0.25, 3)),
        ("owl", "cat"),
    )


def test_without_names_numbers_are_names() -> None:
    """As they are written."""
    assert LineFormat().parse(b"7 0.5 0.5 1 1", "a.txt").values[1] == ("7",)


@pytest.mark.parametrize("data", [b"", b"\n \n", b"\xef\xbb\xbf"])
def test_a_file_without_lines_has_no_objects(data: bytes) -> None:
    """All columns are there, and empty."""
    assert LineFormat().parse(data, "a.txt").values == ((), ())
    assert LineFormat("pose", keypoints=2, dimensions=3).parse(data, "a.txt").values == ((),) * 5


def test_the_box_of_an_outline_is_around_it() -> None:
    """The outline itself is kept for masks only; a line with a box has the box's corners."""
    data = b"1 0.1 0.5 0.3 0.25 0.2 0.75\n0 0.5 0.5 0.5 0.5\n"
    boxes = ((0.1, 0.25, 0.3, 0.75, 1), (0.25, 0.25, 0.75, 0.75, 2))
    assert LineFormat("segment", NAMES).parse(data, "a.txt").values == (boxes, ("dog", "cat"))
    assert LineFormat("segment", NAMES, masks=True).parse(data, "a.txt").values == (
        boxes,
        ("dog", "cat"),
        (
            "[[0.1, 0.5, 0.3, 0.25, 0.2, 0.75]]",
            "[[0.25, 0.25, 0.75, 0.25, 0.75, 0.75, 0.25, 0.75]]",
        ),
    )


def test_key_points_of_three_values() -> None:
    """All points of all objects one behind another, visibility of each, and how many are labelled."""
    data = b"0 0.5 0.5 1 1 0.1 0.2 2 0 0 0\n0 0.5 0.5 0.5 0.5 0.3 0.4 1 0.5 0.6 2.000\n"
    found = LineFormat("pose", NAMES, 2, 3).parse(data, "a.txt").values
    assert found[2:] == ((0.1, 0.2, 0.0, 0.0, 0.3, 0.4, 0.5, 0.6), (2, 0, 1, 2), (1, 2))


def test_key_points_of_two_values() -> None:
    """One with a negative place is not labelled, as in Ultralytics."""
    found = LineFormat("pose", NAMES, 2, 2).parse(b"0 0.5 0.5 1 1 0.1 0.2 -1 -1", "a.txt").values
    assert found[2:] == ((0.1, 0.2, -1.0, -1.0), (2, 0), (1,))


def test_boxes_that_are_turned() -> None:
    """The four corners, and the box around them."""
    line = b"0 0.5 0.1 0.9 0.5 0.5 0.9 0.1 0.5"
    assert LineFormat("obb", NAMES).parse(line, "a.txt").values == (
        ((0.1, 0.1, 0.9, 0.9, 1),),
        ("cat",),
        (0.5, 0.1, 0.9, 0.5, 0.5, 0.9, 0.1, 0.5),
    )


@pytest.mark.parametrize(
    ("lines", "data", "message"),
    [
        (LineFormat(), b"0 0.1 0.2 0.3", "4 columns, expected the 5 of a class and its box"),
        (LineFormat(), b"0 0.1 0.2 0.3 0.4 0.9", "6 columns, expected the 5 of a class and its box; "
         "a label has no column for the confidence of a model's results"),
        (LineFormat(), b"0 0.1 0.2 0.3 0.4 0.1 0.2", "7 columns, expected the 5 of a class and its "
         "box; --yolo_task segment reads such lines"),
        (LineFormat(), b"0 0 0 1 0 1 1 0 1", "9 columns, expected the 5 of a class and its box; "
         "--yolo_task segment or obb reads such lines"),
        (LineFormat("segment"), b"0 0 0 1 0 1 1 0", "8 columns, expected a class and the points of "
         "its outline, or the 5 of a class and its box"),
        (LineFormat("obb"), b"0 0 0 1 1", "5 columns, expected the 9 of a class and four corners"),
        (LineFormat("pose", None, 17, 3), b"0 0 0 1 1", "5 columns, expected the 56 of a class, its "
         "box and 17 key points of 3 values"),
        (LineFormat(), b"cat 0 0 1 1", "the class is 'cat', expected its number"),
        (LineFormat(), b"-1 0 0 1 1", "the class is '-1', expected a whole number from 0 on"),
        (LineFormat(), b"0.5 0 0 1 1", "the class is '0.5', expected a whole number from 0 on"),
        (LineFormat(names=NAMES), b"2 0 0 1 1", "class 2 is not among the 3 names, which end at 5; add "
         "its name to them"),
        (LineFormat(), b"0 0 0 1 x\xff", r"'x\\xff' is not a number"),
        (LineFormat(), b"0 0 0 1 nan", "'nan' is not a number"),
        (LineFormat(), b"0 0 0 1 1e999", "'1e999' is not a number"),
    ],
)  # fmt: skip
def test_a_bad_line_is_named(lines: LineFormat, data: bytes, message: str) -> None:
    """What was found, what was expected, and in which line."""
    with pytest.raises(BadLabelError) as caught:
        lines.parse(b"\n" + data, "a.txt")
    assert (str(caught.value), caught.value.line) == (message, 2)


@pytest.mark.parametrize(
    ("lengths", "task"),
    [
        ([], "detect"),
        ([5, 5], "detect"),
        ([9, 9], "obb or segment"),
        ([7, 9], "segment"),
        ([5, 21], "segment"),
        ([56, 56], "pose"),
    ],
)
def test_the_task_shows_in_the_number_of_columns(lengths: list[int], task: str) -> None:
    """Nine in every line may be either of two."""
    assert guess_task(lengths) == task


@pytest.mark.parametrize(
    ("data", "lengths"),
    [
        (b"", []),
        (b"0 0.5 0.5 1 1\n\n1 0 0 0 0 1 1\n", [5, 7]),
        (b"1 2 3 4\n", None),
        (b"Car 0.00 0 1.62 10.00\n", None),
        (b"5\n", None),
        (b"0 312 170 468 262\n", None),
        (b"a photo of a cat and a dog\n", None),
    ],
)
def test_other_text_files_are_told_apart(data: bytes, lengths: list[int] | None) -> None:
    """A line of YOLO's is a class and fractions."""
    assert line_lengths(data) == lengths
