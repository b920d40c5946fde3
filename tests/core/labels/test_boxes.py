"""Boxes that are sound, bad or empty, and objects that move with their image."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from beam_pipeline.core.dead_letters import Reason
from beam_pipeline.core.images.geometry import Affine, ImageChanges, orienting, plan_geometry
from beam_pipeline.core.images.header import BadImageError, ImageHeader
from beam_pipeline.core.labels import schema
from beam_pipeline.core.labels.boxes import (
    BadBoxError,
    Move,
    box_fractions,
    check_boxes,
    move_labels,
)
from tests.core.images.fixtures import to_size
from tests.rows import in_rows, raised

Corners = tuple[float, float, float, float]


def judged(corners: Corners, *, pixels: bool, clip: bool) -> str:
    """The fault of a box in an image of 400 x 100 pixels; `empty:` before that of one without an area."""
    header = ImageHeader("jpeg", 100, 400, 3)
    try:
        faults = check_boxes([(*corners, 1)], header, pixels=pixels, clip=clip)
    except BadBoxError as error:
        return str(error)
    return f"empty: {faults[0]}" if faults else ""


@in_rows
def test_a_box_is_judged_as_it_is_and_where_boxes_are_cut(
    corners: Corners, kept: str, clipped: str
) -> None:
    """In pixels, and the same as fractions."""
    fractions = tuple(side / (100 if i % 2 else 400) for i, side in enumerate(corners))
    for sides, pixels in ((corners, True), (fractions, False)):
        for fault, clip in ((kept, False), (clipped, True)):
            found = judged(sides, pixels=pixels, clip=clip)
            assert found.startswith("empty: ") == fault.startswith("empty: ")
            assert found.endswith(fault.removeprefix("empty: "))
            assert bool(found) == bool(fault)


@pytest.mark.parametrize("corners", [(math.nan, 0.0, 5.0, 5.0), (0.0, 0.0, 5.0, math.nan)])
def test_a_corner_that_is_no_number_is_bad(corners: Corners) -> None:
    """In either unit, and where boxes are cut."""
    for pixels, clip in itertools.product((True, False), repeat=2):
        assert " is inverted (" in judged(corners, pixels=pixels, clip=clip)


def test_the_message_has_the_box_and_its_unit() -> None:
    """Its number among the sample's, its corners as they were given, and the size of the image."""
    assert judged((10.0, 20.5, 500.0, 90.0), pixels=True, clip=False) == (
        "box 1 (xmin 10, ymin 20.5, xmax 500, ymax 90 in pixels of 400 x 100) "
        "reaches out of the image (--clip_boxes cuts such boxes at its edge)"
    )
    assert judged((0.5, 0.25, 0.125, 0.75), pixels=False, clip=False) == (
        "box 1 (xmin 0.5, ymin 0.25, xmax 0.125, ymax 0.75 in fractions of the image) "
        "is inverted (xmin < xmax and ymin < ymax are expected)"
    )


def test_the_first_bad_box_is_named_with_its_line() -> None:
    """Boxes are counted from 1, and the line is the one that the box came from."""
    boxes = [(0.0, 0.0, 5.0, 5.0, 11), (9.0, 0.0, 5.0, 5.0, 12), (7.0, 0.0, 5.0, 5.0, 13)]
    error = raised(BadBoxError, check_boxes, boxes, ImageHeader("png", 9, 9, 3), pixels=True)
    assert (str(error).split(",")[0], error.line) == ("box 2 (xmin 9", 12)


def test_boxes_in_the_first_pixel_are_bad_if_all_of_an_image_are() -> None:
    """Fractions look like that; small objects in a corner beside others, or of whole pixels, do not."""
    header = ImageHeader("png", 9, 9, 3)
    fraction, whole, large = (
        (0.0, 0.1, 0.5, 0.9, 1),
        (0.0, 0.0, 1.0, 1.0, 2),
        (2.0, 2.0, 5.0, 5.0, 3),
    )
    error = raised(BadBoxError, check_boxes, [whole, fraction], header, pixels=True)
    assert "like all of its image; such corners look like fractions" in str(error)
    for boxes in ([fraction, large], [whole]):
        assert not check_boxes(boxes, header, pixels=True)


COORDINATES = st.floats(-1e4, 1e4, allow_subnormal=False) | st.sampled_from(
    [-1.0, 0.0, 1.0, 400.0, 401.0, 1e-300]
)


@given(st.tuples(*[COORDINATES] * 4), st.integers(1, 10_000), st.integers(1, 10_000), st.booleans())
@example((-1.0, -1.0, 2.0, 2.0), 1, 1, True)
@example((-1.0, -1.0, 2.0, 2.0), 1, 1, False)
def test_a_box_that_passes_is_a_box_in_its_image(
    corners: Corners, width: int, height: int, pixels: bool
) -> None:
    """Whatever its corners, it is found bad, or its fractions lie in [0, 1] in their order. One
    that passes as it is passes where boxes are cut as well."""
    header = ImageHeader("png", height, width, 3)
    box = (*corners, 1)
    passes = {}
    for clip in (False, True):
        try:
            passes[clip] = not check_boxes([box], header, pixels=pixels, clip=clip)
        except BadBoxError:
            passes[clip] = False
    assert passes[True] or not passes[False]
    if passes[True]:
        sides = (box_fractions([box], side, header, pixels=pixels) for side in range(4))
        (xmin,), (ymin,), (xmax,), (ymax,) = sides
        assert 0 <= xmin <= xmax <= 1
        assert 0 <= ymin <= ymax <= 1
        assert xmax > 0
        assert xmin < 1
    if passes[False]:
        limits = (width, height) if pixels else (1, 1)
        room = (1, 1) if pixels else (1 / width, 1 / height)
        for axis in (0, 1):
            assert corners[axis] >= -room[axis]
            assert corners[axis + 2] <= limits[axis] + room[axis]


# --- objects that move --------------------------------------------------------------------------

AREA = schema.object_column("area", schema.ColumnKind.FLOAT)
BOXES = schema.object_columns(pixels=True)
FRACTIONS = schema.object_columns(pixels=False)
SIDES = st.integers(1, 5000)
SHARES = st.floats(0, 1)


def move_of(size: tuple[int, int], resize: ImageChanges | None, orientation: int = 1) -> Move:
    geometry = plan_geometry(size, orientation, resize)
    return Move(size, geometry.affine, geometry.size)


CROP = move_of((40, 20), to_size(20, 20, "crop"))


@given(
    st.tuples(SIDES, SIDES),
    st.integers(1, 8),
    st.builds(to_size, SIDES, SIDES, st.sampled_from(["shortest", "longest", "exact"])),
    st.tuples(SHARES, SHARES, SHARES, SHARES),
)
def test_fractions_are_right_to_a_millionth(
    size: tuple[int, int], orientation: int, resize: ImageChanges, box: Corners
) -> None:
    """Scaling leaves them alone, and turning only turns them: in pixels, and as fractions."""
    move = move_of(size, resize, orientation)
    expected = orienting((1, 1), orientation).box(box)
    (fractions,) = move_labels([((*box, 7),)], [FRACTIONS[0]], move)[0]
    in_pixels = (box[0] * size[0], box[1] * size[1], box[2] * size[0], box[3] * size[1])
    (pixels,) = move_labels([((*in_pixels, 7),)], [BOXES[0]], move)[0]
    if fractions:  # else it has no area
        assert fractions[0] == pytest.approx((*expected, 7), abs=1e-6)
    if pixels:
        width, height = plan_geometry(size, orientation, resize).size
        scaled = [pixels[0][i] / (height if i % 2 else width) for i in range(4)]
        assert scaled == pytest.approx(expected, abs=1e-6)


MOVES = {
    "crop": CROP,
    "pad": move_of((40, 20), to_size(40, 40, "pad")),
    "halve": Move((40, 20), Affine(0.5, 0, 0, 0, 0.5, 0), (20, 10)),
}
KNOWN = {
    "boxes": (),
    "area": (AREA,),
    "ignored": (replace(schema.object_column("ignore/bbox", schema.ColumnKind.BOX), pixels=True),),
    "key points": schema.keypoint_columns(pixels=True),
    "area, corner, tags": (
        *(AREA, schema.object_column("corner", schema.ColumnKind.POINT, pixels=True)),
        schema.Column("tags", schema.ColumnKind.BYTES, "image/tags", repeated=True),
    ),
}


@in_rows
def test_what_is_known_of_objects_moves_with_them(
    known: str, move: str, labels: Any, moved: Any, outside: int
) -> None:
    """A picture of 40 x 20 pixels that is cut to 20 x 20, padded or scaled."""
    assert move_labels(labels, (*BOXES, *KNOWN[known]), MOVES[move]) == (moved, outside)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_mask_of_run_lengths_follows_as_its_polygon_does(orientation: int) -> None:
    """A rectangle of 2 x 1 pixels in a picture of 4 x 3, column by column."""
    runs = json.dumps({"size": [3, 4], "counts": [4, 1, 2, 1, 4]})
    polygon = json.dumps([[1, 1, 3, 1, 3, 2, 1, 2]])
    move = move_of((4, 3), None, orientation)
    ((first, second),) = move_labels(((runs, polygon),), (schema.mask_column(pixels=True),), move)[
        0
    ]
    run_lengths = json.loads(first)
    height, width = run_lengths["size"]
    assert (width, height) == plan_geometry((4, 3), orientation, None).size
    pixels = [bit % 2 for bit, count in enumerate(run_lengths["counts"]) for _ in range(count)]
    inside = {(i // height, i % height) for i, pixel in enumerate(pixels) if pixel}
    (outline,) = json.loads(second)
    xs, ys = sorted({*outline[::2]}), sorted({*outline[1::2]})
    assert inside == {
        (x, y) for x in range(int(xs[0]), int(xs[-1])) for y in range(int(ys[0]), int(ys[-1]))
    }


def test_a_mask_of_another_size_is_no_mask_of_the_picture() -> None:
    """As where the image stays as it is."""
    runs = json.dumps({"size": [9, 9], "counts": [81]})
    columns = (schema.mask_column(pixels=True),)
    assert raised(BadImageError, move_labels, ((runs,),), columns, CROP).reason is (
        Reason.SIZE_MISMATCH
    )
