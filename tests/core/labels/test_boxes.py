from __future__ import annotations

import json
import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from beam_pipeline.core import dead_letters
from beam_pipeline.core.images.geometry import Affine, Resize, orienting, plan_geometry
from beam_pipeline.core.images.header import BadImageError, ImageHeader
from beam_pipeline.core.labels import schema
from beam_pipeline.core.labels.boxes import (
    BadBoxError,
    Move,
    box_fractions,
    check_boxes,
    move_labels,
)
from beam_pipeline.core.references import Box

WIDE = ImageHeader("jpeg", 100, 400, 3)  # 400 pixels wide, 100 high


def fault(box: Box, *, pixels: bool = True, clip: bool = False, empty: bool = False) -> str:
    """The fault of a box, or of one without an area; empty if there is none."""
    try:
        faults = check_boxes([box], WIDE, pixels=pixels, clip=clip)
    except BadBoxError as error:
        assert not empty
        return str(error)
    assert set(faults) == ({0} if empty else set())
    return str(faults[0]) if empty else ""


# --- boxes that are sound -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "box",
    [
        (0.0, 0.0, 400.0, 100.0, 1),
        (0.0, 0.0, 0.5, 0.5, 1),
        (399.0, 99.0, 400.0, 100.0, 1),
        (150.0, 50.0, 300.0, 60.0, 1),
        (-1.0, -1.0, 401.0, 101.0, 1),
        (399.5, 99.5, 401.0, 101.0, 1),
    ],
)
@pytest.mark.parametrize("clip", [False, True])
def test_a_box_in_its_image_is_sound(box: Box, clip: bool) -> None:
    """A corner may lie a pixel outside, for some formats count pixels and others their edges."""
    fractions = (box[0] / 400, box[1] / 100, box[2] / 400, box[3] / 100, 1)
    assert fault(box, clip=clip) == ""
    assert fault(fractions, pixels=False, clip=clip) == ""


# --- boxes that cannot be -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "box",
    [
        (30.0, 20.0, 10.0, 40.0, 1),
        (10.0, 40.0, 30.0, 20.0, 1),
        (10.0, 40.0, 10.0, 20.0, 1),
        (math.nan, 0.0, 5.0, 5.0, 1),
        (0.0, 0.0, 5.0, math.nan, 1),
    ],
)
@pytest.mark.parametrize("clip", [False, True])
@pytest.mark.parametrize("pixels", [False, True])
def test_an_inverted_box_is_bad(box: Box, clip: bool, pixels: bool) -> None:
    """Cutting at the edge does not mend it."""
    assert fault(box, pixels=pixels, clip=clip).endswith(
        " is inverted (xmin < xmax and ymin < ymax are expected)"
    )


@pytest.mark.parametrize(
    "box", [(10.0, 20.0, 10.0, 40.0, 1), (10.0, 20.0, 30.0, 20.0, 1), (0.0, 0.0, 0.0, 0.0, 1)]
)
@pytest.mark.parametrize("clip", [False, True])
@pytest.mark.parametrize("pixels", [False, True])
def test_a_box_without_area_is_empty(box: Box, clip: bool, pixels: bool) -> None:
    """It is returned, for its object may be dropped."""
    assert fault(box, pixels=pixels, clip=clip, empty=True).endswith(
        " has no area (xmin < xmax and ymin < ymax are expected)"
    )


@pytest.mark.parametrize(
    "box",
    [
        (400.0, 0.0, 401.0, 50.0, 1),
        (0.0, 100.0, 50.0, 101.0, 1),
        (-1.0, 0.0, 0.0, 50.0, 1),
        (0.0, -1.0, 50.0, 0.0, 1),
        (500.0, 200.0, 600.0, 300.0, 1),
        (-20.0, -20.0, -10.0, -10.0, 1),
    ],
)
@pytest.mark.parametrize("clip", [False, True])
def test_a_box_beside_its_image_is_empty_where_it_is_cut(box: Box, clip: bool) -> None:
    """A box that is a rounding away is always cut; one that is further away is bad otherwise."""
    fractions = (box[0] / 400, box[1] / 100, box[2] / 400, box[3] / 100, 1)
    empty = clip or max(map(abs, box[:4])) in (401, 101, 50)
    assert fault(box, clip=clip, empty=empty).endswith(" is outside the image")
    assert fault(fractions, pixels=False, clip=clip, empty=empty).endswith(" is outside the image")


@pytest.mark.parametrize(
    "box",
    [
        (-1.5, 0.0, 50.0, 50.0, 1),
        (0.0, -1.5, 50.0, 50.0, 1),
        (0.0, 0.0, 401.5, 50.0, 1),
        (0.0, 0.0, 50.0, 101.5, 1),
        (-1000.0, -1000.0, 1000.0, 1000.0, 1),
    ],
)
def test_a_box_that_reaches_out_is_bad_unless_boxes_are_cut(box: Box) -> None:
    """The message names the option that cuts it; half a pixel too far is too far."""
    fractions = (box[0] / 400, box[1] / 100, box[2] / 400, box[3] / 100, 1)
    for unit, sides in ((True, box), (False, fractions)):
        assert fault(sides, pixels=unit).endswith(
            " reaches out of the image (--clip_boxes cuts such boxes at its edge)"
        )
        assert fault(sides, pixels=unit, clip=True) == ""


def test_the_message_has_the_box_and_its_unit() -> None:
    """Its number among the sample's, its corners as they were given, and the size of the image."""
    assert fault((10.0, 20.5, 500.0, 90.0, 1)) == (
        "box 1 (xmin 10, ymin 20.5, xmax 500, ymax 90 in pixels of 400 x 100) "
        "reaches out of the image (--clip_boxes cuts such boxes at its edge)"
    )
    assert fault((0.5, 0.25, 0.125, 0.75, 1), pixels=False) == (
        "box 1 (xmin 0.5, ymin 0.25, xmax 0.125, ymax 0.75 in fractions of the image) "
        "is inverted (xmin < xmax and ymin < ymax are expected)"
    )


def test_the_first_bad_box_is_named_with_its_line() -> None:
    """Boxes are counted from 1, and the line is the one that the box came from."""
    boxes = [(0.0, 0.0, 5.0, 5.0, 11), (9.0, 0.0, 5.0, 5.0, 12), (7.0, 0.0, 5.0, 5.0, 13)]
    with pytest.raises(BadBoxError, match=r"^box 2 \(xmin 9, ") as caught:
        check_boxes(boxes, WIDE, pixels=True)
    assert caught.value.line == 12


# --- as fractions -------------------------------------------------------------------------------


COORDINATES = st.floats(-1e4, 1e4) | st.sampled_from([-1.0, 0.0, 1.0, 400.0, 401.0, 1e-300])


@given(
    corners=st.tuples(*[COORDINATES] * 4),
    width=st.integers(1, 10_000),
    height=st.integers(1, 10_000),
    pixels=st.booleans(),
)
@example(corners=(-1.0, -1.0, 2.0, 2.0), width=1, height=1, pixels=True)
@example(corners=(-1.0, -1.0, 2.0, 2.0), width=1, height=1, pixels=False)
def test_a_box_that_passes_is_a_box_in_its_image(
    corners: tuple[float, float, float, float], width: int, height: int, pixels: bool
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


AREA = schema.object_column("area", schema.ColumnKind.FLOAT)
BOXES = schema.object_columns(pixels=True)
FRACTIONS = schema.object_columns(pixels=False)
SIDES = st.integers(1, 5000)
SIZES = st.tuples(SIDES, SIDES)
SHARES = st.floats(0, 1)


def crop(size: tuple[int, int], to: tuple[int, int]) -> Move:
    geometry = plan_geometry(size, 1, Resize(*to, "crop"))
    return Move(size, geometry.affine, geometry.size)


@given(
    SIZES,
    st.integers(1, 8),
    st.builds(Resize, SIDES, SIDES, st.sampled_from(["shortest", "longest", "exact"])),
    st.tuples(SHARES, SHARES, SHARES, SHARES),
)
def test_fractions_are_right_to_a_millionth(
    size: tuple[int, int], orientation: int, resize: Resize, box: tuple[float, float, float, float]
) -> None:
    """Scaling leaves them alone, and turning only turns them: in pixels, and as fractions."""
    geometry = plan_geometry(size, orientation, resize)
    move = Move(size, geometry.affine, geometry.size)
    expected = orienting((1, 1), orientation).box(box)
    (fractions,) = move_labels([((*box, 7),)], [FRACTIONS[0]], move)[0]
    in_pixels = (box[0] * size[0], box[1] * size[1], box[2] * size[0], box[3] * size[1])
    (pixels,) = move_labels([((*in_pixels, 7),)], [BOXES[0]], move)[0]
    if fractions:  # else it has no area
        assert fractions[0] == pytest.approx((*expected, 7), abs=1e-6)
    if pixels:
        width, height = geometry.size
        scaled = [pixels[0][i] / (height if i % 2 else width) for i in range(4)]
        assert scaled == pytest.approx(expected, abs=1e-6)


def test_an_object_outside_of_a_crop_is_left_out_with_all_that_is_known_of_it() -> None:
    """One of three; what is known of the image stays. A picture of 40 x 20 is cut to 20 x 20."""
    columns = (
        *BOXES,
        AREA,
        schema.point_column("corner", pixels=True),
        schema.Column("tags", schema.ColumnKind.BYTES, "image/tags", repeated=True),
    )
    labels = (
        ((0.0, 0.0, 10.0, 9.0, 1), (12.0, 1.0, 20.0, 9.0, 2), (5.0, 5.0, 15.0, 15.0, 3)),
        ("a", "b", "c"),
        (90.0, 64.0, 100.0),
        tuple(float(value) for value in range(12)),
        ("x", "y", "z"),
    )
    moved, outside = move_labels(labels, columns, crop((40, 20), (20, 20)))
    assert outside == 1
    assert moved == (
        ((2.0, 1.0, 10.0, 9.0, 2), (-5.0, 5.0, 5.0, 15.0, 3)),
        ("b", "c"),
        (64.0, 100.0),
        (-6.0, 5.0, -4.0, 7.0, -2.0, 9.0, 0.0, 11.0),
        ("x", "y", "z"),
    )


def test_regions_to_ignore_are_not_objects() -> None:
    """They are as many as objects here, and none goes with the object that is cropped."""
    columns = (*BOXES, schema.object_column("ignore/bbox", schema.ColumnKind.BOX))
    labels = (((0.0, 0.0, 5.0, 5.0, 1), (12.0, 1.0, 20.0, 9.0, 2)), ("a", "b"))
    regions = ((11.0, 2.0, 15.0, 9.0, 3), (13.0, 2.0, 16.0, 9.0, 4))
    moved, outside = move_labels((*labels, regions), columns, crop((40, 20), (20, 20)))
    assert (moved[1], outside) == (("b",), 1)
    assert [line for *_, line in moved[2]] == [3, 4]


def test_points_without_a_place_stay_without_one() -> None:
    """So does a point that the crop cuts off, which is no longer labelled."""
    columns = (*BOXES, *schema.keypoint_columns(pixels=True))
    labels = (
        ((12.0, 0.0, 38.0, 20.0, 1),),
        ("a",),
        (12.0, 1.0, 36.0, 2.0, 0.0, 0.0),
        (2, 1, 0),
        (2,),
    )
    moved, _ = move_labels(labels, columns, crop((40, 20), (20, 20)))
    assert moved[2:] == ((2.0, 1.0, 0.0, 0.0, 0.0, 0.0), (2, 0, 0), (1,))


def test_the_area_of_an_object_is_scaled() -> None:
    """It is in pixels of the image."""
    move = Move((40, 20), Affine(0.5, 0, 0, 0, 0.5, 0), (20, 10))
    labels = (((0.0, 0.0, 10.0, 10.0, 0),), ("a",), (100.0,))
    assert move_labels(labels, (*BOXES, AREA), move)[0][2] == (25.0,)


@pytest.mark.parametrize("labels", [((), (), ()), (None, None, None)])
def test_an_image_without_objects_has_none_afterwards(labels: tuple[None, None, None]) -> None:
    """Nor one without labels."""
    assert move_labels(labels, (*BOXES, AREA), crop((40, 20), (20, 20))) == (labels, 0)


def test_a_box_that_reaches_over_the_edge_is_cut_there() -> None:
    """Padding would otherwise get the part outside."""
    geometry = plan_geometry((40, 20), 1, Resize(40, 40, "pad"))
    move = Move((40, 20), geometry.affine, geometry.size)
    moved, _ = move_labels((((-0.5, -1.0, 40.7, 20.2, 1),), ("a",)), BOXES, move)
    assert moved[0] == ((0.0, 10.0, 40.0, 30.0, 1),)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_mask_of_run_lengths_follows_as_its_polygon_does(orientation: int) -> None:
    """A rectangle of 2 x 1 pixels in a picture of 4 x 3, column by column."""
    counts = [4, 1, 2, 1, 4]
    runs = json.dumps({"size": [3, 4], "counts": counts})
    polygon = json.dumps([[1, 1, 3, 1, 3, 2, 1, 2]])
    geometry = plan_geometry((4, 3), orientation, None)
    move = Move((4, 3), geometry.affine, geometry.size)
    ((first, second),) = move_labels(((runs, polygon),), (schema.mask_column(pixels=True),), move)[
        0
    ]
    width, height = geometry.size
    run_lengths = json.loads(first)
    assert run_lengths["size"] == [height, width]
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
    with pytest.raises(BadImageError) as caught:
        move_labels(((runs,),), (schema.mask_column(pixels=True),), crop((40, 20), (20, 20)))
    assert caught.value.reason is dead_letters.Reason.SIZE_MISMATCH
