"""The size that a label file says, against the image's."""

from __future__ import annotations

import pytest

from beam_pipeline.core.dead_letters import Reason
from beam_pipeline.core.images.geometry import (
    check_claimed_size,
    measured_header,
)
from beam_pipeline.core.images.header import BadImageError, ImageHeader

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
