"""Masks of objects as PNGs."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from PIL import Image

from beam_pipeline.core.dead_letters import Reason
from beam_pipeline.core.images.header import BadImageError, ImageHeader
from beam_pipeline.core.images.masks import BadShapeError, check_shape, mask_png


def rows_of(shape: Any, width: int, height: int, *, pixels: bool = True) -> list[str]:
    """The rows of a mask, 1 inside and 0 outside."""
    check_shape(shape)
    png = mask_png(json.dumps(shape), ImageHeader("png", height, width, 3), pixels=pixels)
    with Image.open(io.BytesIO(png)) as image:
        assert (image.format, image.mode, image.size) == ("PNG", "L", (width, height))
        data = image.tobytes()
    return ["".join(map(str, data[row * width : (row + 1) * width])) for row in range(height)]


@pytest.mark.parametrize(
    "shape",
    [
        [[1, 0, 3, 0, 3, 2, 1, 2]],
        {"size": [2, 3], "counts": [2, 4]},
        {"size": [2, 3], "counts": "24"},
    ],
)
def test_the_worked_example(shape: Any) -> None:
    """The three shapes of the module's docstring are one mask."""
    assert rows_of(shape, 3, 2) == ["011", "011"]


def test_fractions_are_scaled() -> None:
    """Each side by its own length."""
    assert rows_of([[0.5, 0, 1, 0, 1, 0.5, 0.5, 0.5]], 4, 2, pixels=False) == ["0011", "0000"]


def test_a_pixel_is_inside_if_its_centre_is() -> None:
    """Of a triangle, and of one that reaches out of the image."""
    assert rows_of([[0, 0, 4, 0, 0, 4]], 4, 4) == ["1110", "1100", "1000", "0000"]
    assert rows_of([[-9, -9, 2, -9, 2, 99, -9, 99]], 3, 2) == ["110", "110"]
    assert rows_of([[0.6, 0, 1.4, 0, 1.4, 2, 0.6, 2]], 2, 1) == ["00"]


def test_several_polygons_are_one_object() -> None:
    """Two parts of it; and a hole by the even-odd rule, in one polygon that crosses itself."""
    parts = [[0, 0, 1, 0, 1, 2, 0, 2], [2, 0, 3, 0, 3, 2, 2, 2]]
    assert rows_of(parts, 3, 2) == ["101", "101"]
    ring = [0, 0, 3, 0, 3, 3, 0, 3, 0, 0, 1, 1, 2, 1, 2, 2, 1, 2, 1, 1]
    assert rows_of([ring], 3, 3) == ["111", "101", "111"]


def test_compressed_run_lengths_as_pycocotools_writes_them() -> None:
    """Rows 2 to 4 of columns 3 to 9: runs of more than 31, and differences, negative ones too."""
    counts = [32, 3, *[7, 3] * 6, 105]
    assert sum(counts) == 200
    compressed = _compressed(counts)
    assert rows_of({"size": [10, 20], "counts": compressed}, 20, 10) == rows_of(
        {"size": [10, 20], "counts": counts}, 20, 10
    )
    filled = "000" + "1" * 7 + "0" * 10
    assert rows_of({"size": [10, 20], "counts": compressed}, 20, 10) == [
        filled if row in (2, 3, 4) else "0" * 20 for row in range(10)
    ]


def _compressed(counts: list[int]) -> str:
    """rleToString of maskApi.c."""
    out = []
    for i, count in enumerate(counts):
        number = count - counts[i - 2] if i > 2 else count
        more = True
        while more:
            bits = number & 31
            number >>= 5
            more = number != -1 if bits & 16 else number != 0
            out.append(chr((bits | 32 if more else bits) + 48))
    return "".join(out)


def test_run_lengths_of_another_size() -> None:
    """They are of another image."""
    with pytest.raises(
        BadImageError, match="a mask of 3 x 2 pixels, the image has 4 x 2; take"
    ) as e:
        rows_of({"size": [2, 3], "counts": [6]}, 4, 2)
    assert e.value.reason is Reason.SIZE_MISMATCH


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        (None, "neither polygons nor run lengths"),
        ([], "neither polygons nor run lengths"),
        ("x", "neither polygons nor run lengths"),
        ([1, 2], "a polygon that is not a list of numbers"),
        ([[1, 2, 3, "4", 5, 6]], "a polygon that is not a list of numbers"),
        ([[1, 2, 3, 4]], "a polygon of 4 numbers, expected three points or more"),
        ([[1, 2, 3, 4, 5, 6, 7]], "a polygon of 7 numbers, expected three points or more"),
        ({"counts": [6]}, r"run lengths without a size \[height, width\]"),
        ({"size": [2, 3]}, "run lengths that are neither whole numbers nor COCO's compressed"),
        ({"size": [2, 3], "counts": [5]}, "run lengths that do not add up to 2 x 3 pixels"),
        ({"size": [2, 3], "counts": [7, -1]}, "run lengths that are neither whole numbers"),
        ({"size": [2, 3], "counts": "2 4"}, "' ' in run lengths, expected COCO's compressed form"),
        ({"size": [2, 3], "counts": "2P"}, "run lengths that are cut short"),
    ],
)
def test_what_is_no_shape_is_refused(shape: Any, message: str) -> None:
    """Before the job draws it."""
    with pytest.raises(BadShapeError, match=message):
        check_shape(shape)
