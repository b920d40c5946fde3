"""Labels that follow their image."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_pipeline.core.dead_letters import Reason
from beam_pipeline.core.images.geometry import (
    RESIZE_MODES,
    Affine,
    Resize,
    orienting,
    plan_geometry,
)
from beam_pipeline.core.images.header import BadImageError
from beam_pipeline.core.labels.boxes import Move, is_located, move_labels
from beam_pipeline.core.labels.schema import (
    Column,
    ColumnKind,
    keypoint_columns,
    mask_column,
    object_column,
    object_columns,
    point_column,
)

AREA = object_column("area", ColumnKind.FLOAT)
BOXES = object_columns(pixels=True)
FRACTIONS = object_columns(pixels=False)
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
    size: tuple[int, int],
    orientation: int,
    resize: Resize,
    box: tuple[float, float, float, float],
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
        point_column("corner", pixels=True),
        Column("tags", ColumnKind.BYTES, "image/tags", repeated=True),
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
    columns = (*BOXES, object_column("ignore/bbox", ColumnKind.BOX))
    labels = (((0.0, 0.0, 5.0, 5.0, 1), (12.0, 1.0, 20.0, 9.0, 2)), ("a", "b"))
    regions = ((11.0, 2.0, 15.0, 9.0, 3), (13.0, 2.0, 16.0, 9.0, 4))
    moved, outside = move_labels((*labels, regions), columns, crop((40, 20), (20, 20)))
    assert (moved[1], outside) == (("b",), 1)
    assert [line for *_, line in moved[2]] == [3, 4]


def test_an_image_may_lose_all_its_objects() -> None:
    """It is one without objects then."""
    moved, outside = move_labels(
        (((0.0, 0.0, 5.0, 5.0, 1),), ("a",)), BOXES, crop((40, 20), (20, 20))
    )
    assert (moved, outside) == (((), ()), 1)


def test_points_without_a_place_stay_without_one() -> None:
    """So does a point that the crop cuts off, which is no longer labelled."""
    columns = (*BOXES, *keypoint_columns(pixels=True))
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
    ((first, second),) = move_labels(((runs, polygon),), (mask_column(pixels=True),), move)[0]
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
        move_labels(((runs,),), (mask_column(pixels=True),), crop((40, 20), (20, 20)))
    assert caught.value.reason is Reason.SIZE_MISMATCH


def test_a_class_is_nowhere() -> None:
    """And stays as it is; every mode is known here."""
    assert [is_located(column.kind) for column in (*BOXES, AREA)] == [True, False, False]
    assert set(RESIZE_MODES) == {"shortest", "longest", "exact", "pad", "crop"}
