from __future__ import annotations

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from beam_pipeline.core.images.header import ImageHeader
from beam_pipeline.core.labels.boxes import BadBoxError, box_fractions, check_boxes
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


@pytest.mark.parametrize("pixels", [True, False])
def test_an_image_without_boxes_is_sound(pixels: bool) -> None:
    """There is nothing that could be wrong."""
    check_boxes((), WIDE, pixels=pixels)
    assert box_fractions((), 0, WIDE, pixels=pixels) == []


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


def test_pixels_become_fractions_of_width_and_height() -> None:
    """Each side of all boxes is a list of its own, in the order of the boxes."""
    boxes = [(100.0, 25.0, 300.0, 50.0, 1), (0.0, 0.0, 400.0, 100.0, 2)]
    sides = [box_fractions(boxes, side, WIDE, pixels=True) for side in range(4)]
    assert sides == [[0.25, 0.0], [0.25, 0.0], [0.75, 1.0], [0.5, 1.0]]


def test_fractions_stay_as_they_are() -> None:
    """They do not depend on the image."""
    boxes = [(0.1, 0.2, 0.3, 0.4, 1)]
    sides = [box_fractions(boxes, side, WIDE, pixels=False) for side in range(4)]
    assert sides == [[0.1], [0.2], [0.3], [0.4]]


@pytest.mark.parametrize("pixels", [True, False])
def test_what_reaches_out_is_cut_at_the_edge(pixels: bool) -> None:
    """No fraction is below 0 or above 1."""
    box = (-20.0, -0.5, 9000.0, 100.5, 1) if pixels else (-0.05, -0.005, 22.5, 1.005, 1)
    sides = [box_fractions([box], side, WIDE, pixels=pixels) for side in range(4)]
    assert sides == [[0.0], [0.0], [1.0], [1.0]]


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
