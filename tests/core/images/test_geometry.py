"""The plan of what becomes of an image's pixels, held against pixels that are marked."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageOps

from beam_pipeline.core.dead_letters import Reason
from beam_pipeline.core.images.geometry import (
    RESIZE_MODES,
    ImageChanges,
    Resize,
    check_claimed_size,
    measured_header,
    orienting,
    plan_geometry,
)
from beam_pipeline.core.images.header import BadImageError, ImageHeader

SIDES = st.integers(1, 3000)
SIZES = st.tuples(SIDES, SIDES)
RESIZES = st.builds(Resize, SIDES, SIDES, st.sampled_from(RESIZE_MODES), st.booleans())
ORIENTATIONS = st.integers(1, 8)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_turning_is_what_pillow_does(orientation: int) -> None:
    """A marked pixel of a picture of 5 x 3 goes where its box goes."""
    for x in range(5):
        for y in range(3):
            image = Image.new("L", (5, 3))
            image.putpixel((x, y), 255)
            image.getexif()[0x0112] = orientation
            shown = ImageOps.exif_transpose(image)
            box = orienting((5, 3), orientation).box((x, y, x + 1, y + 1))
            assert shown.getbbox() == box


@pytest.mark.parametrize(
    ("mode", "size", "expected"),
    [
        ("shortest", (600, 400), (384, 256)),
        ("shortest", (400, 600), (256, 384)),
        ("shortest", (300, 200), (300, 200)),
        ("shortest", (1000, 257), (996, 256)),
        ("longest", (600, 400), (256, 171)),
        ("longest", (5000, 1), (256, 1)),
        ("longest", (256, 9), (256, 9)),
        ("exact", (600, 400), (256, 256)),
        ("exact", (600, 100), (256, 100)),
        ("pad", (600, 400), (256, 256)),
        ("pad", (60, 40), (256, 256)),
        ("crop", (600, 400), (256, 256)),
        ("crop", (600, 100), (256, 100)),
    ],
)
def test_sizes_of_the_modes(mode: str, size: tuple[int, int], expected: tuple[int, int]) -> None:
    """With 256 as the target, and without enlarging."""
    assert plan_geometry(size, 1, Resize(256, 256, mode)).size == expected


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("shortest", (60, 40)),
        ("longest", (30, 20)),
        ("exact", (30, 40)),
        ("pad", (30, 40)),
        ("crop", (30, 40)),
    ],
)
def test_small_images_may_be_enlarged(mode: str, expected: tuple[int, int]) -> None:
    """A picture of 6 x 4, and a target of 30 x 40."""
    assert plan_geometry((6, 4), 1, Resize(30, 40, mode, never_enlarge=False)).size == expected


@given(SIZES, ORIENTATIONS, RESIZES)
def test_what_is_kept_fills_its_place(
    size: tuple[int, int], orientation: int, resize: Resize
) -> None:
    """The part of the image that is kept lies on the canvas, where the plan says, to a millionth."""
    geometry = plan_geometry(size, orientation, resize)
    left, top, right, bottom = geometry.crop
    width, height = geometry.turned
    assert 0 <= left < right <= width
    assert 0 <= top < bottom <= height
    unturned = orienting(size, orientation).inverse().box(geometry.crop)
    (x, y), (scaled_width, scaled_height) = geometry.offset, geometry.scaled
    assert geometry.affine.box(unturned) == pytest.approx(
        (x, y, x + scaled_width, y + scaled_height), rel=1e-9, abs=1e-9
    )
    assert 0 <= x <= geometry.size[0] - scaled_width
    assert 0 <= y <= geometry.size[1] - scaled_height


@given(SIZES, ORIENTATIONS, RESIZES)
def test_no_mode_enlarges_unless_it_may(
    size: tuple[int, int], orientation: int, resize: Resize
) -> None:
    """The part that is kept has no more pixels than before."""
    geometry = plan_geometry(size, orientation, resize)
    left, top, right, bottom = geometry.crop
    if resize.never_enlarge:
        # A side that is rounded up to one pixel is longer than it was to be, not than before.
        assert geometry.scaled[0] <= right - left + 1e-6 or geometry.scaled[0] == 1
        assert geometry.scaled[1] <= bottom - top + 1e-6 or geometry.scaled[1] == 1


# --- claimed size ----------------------------------------------------------------------------


HEADER = ImageHeader("jpeg", 30, 40, 3)


@pytest.mark.parametrize("claimed", [None, (40, 30), (0, 0), (0, 30), (-1, 7)])
def test_the_same_size_and_none_pass(claimed: tuple[int, int] | None) -> None:
    """Many tools write 0 for a size they do not know; the image's bytes are not looked at."""
    check_claimed_size(claimed, HEADER, boxes=True)


@pytest.mark.parametrize("boxes", [True, False])
def test_another_size_is_named_with_the_image_s_own(boxes: bool) -> None:
    """And what to do."""
    with pytest.raises(BadImageError) as caught:
        check_claimed_size((20, 15), HEADER, boxes=boxes)
    assert caught.value.reason is Reason.SIZE_MISMATCH
    assert str(caught.value) == (
        "the label file is for an image of 20 x 15 pixels, this one has 40 x 30; take the image that "
        "was labelled, or correct the size and the boxes in the label file"
    )


def test_the_same_size_turned() -> None:
    """It passes without boxes, or where EXIF says that a viewer turns the image."""
    check_claimed_size((30, 40), HEADER, boxes=False)
    for orientation in (5, 6, 7, 8):
        check_claimed_size((30, 40), HEADER._replace(orientation=orientation), boxes=True)


@pytest.mark.parametrize("orientation", [1, 3])
def test_the_same_size_turned_without_a_reason(orientation: int) -> None:
    """Nobody knows where the boxes are."""
    header = HEADER._replace(orientation=orientation)
    with pytest.raises(
        BadImageError, match="this one has 40 x 30; width and height are swapped, and"
    ):
        check_claimed_size((30, 40), header, boxes=True)


@pytest.mark.parametrize(
    ("claimed", "as_shown", "size"),
    [
        (None, True, (30, 40)),
        (None, False, (40, 30)),
        ((30, 40), False, (30, 40)),
        ((40, 30), True, (40, 30)),
        ((0, 0), True, (30, 40)),
        ((7, 7), False, (40, 30)),
    ],
)
def test_a_claimed_size_tells_which_picture_was_labelled(
    claimed: tuple[int, int] | None, as_shown: bool, size: tuple[int, int]
) -> None:
    """Where it fits one of the two, the stored or the shown one; else the default decides."""
    header = HEADER._replace(orientation=6)
    measured = measured_header(header, claimed, as_shown=as_shown)
    assert (measured.width, measured.height) == size
    assert measured.orientation == (1 if size == (30, 40) else 6)


def test_a_half_turn_or_a_square_leaves_it_to_the_default() -> None:
    """The size is the same both ways."""
    upside_down = HEADER._replace(orientation=3)
    assert measured_header(upside_down, (40, 30), as_shown=True) == HEADER
    assert measured_header(upside_down, (40, 30), as_shown=False) == upside_down
    square = ImageHeader("jpeg", 9, 9, 3, 6)
    assert measured_header(square, (9, 9), as_shown=True) == square._replace(orientation=1)


# --- changes ---------------------------------------------------------------------------------


def test_what_is_recorded_gives_the_same_changes() -> None:
    """Through JSON, which has no tuples."""
    changes = ImageChanges(
        orientation="apply",
        resize=(320, 240),
        resize_mode="crop",
        never_enlarge=False,
        image_format="webp",
        quality=80,
        reencode="auto",
        color_profile="keep",
        animated="refuse",
        image_codec="opencv",
        codec="OpenCV 5",
    )
    assert ImageChanges.from_recorded(json.loads(json.dumps(changes.recorded()))) == changes
    assert len(changes.recorded()) == 11
    assert changes.target == Resize(320, 240, "crop", never_enlarge=False)
