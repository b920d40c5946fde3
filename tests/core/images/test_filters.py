from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_pipeline.core.dead_letters import Reason
from beam_pipeline.core.images.header import BadImageError, ImageHeader
from beam_pipeline.core.images.preparation import (
    FILTER_NAMES,
    FILTER_REASONS,
    PixelFormat,
    check_header,
    header_filter,
    image_preparer,
    outside_bytes,
)
from tests.pictures import picture

SIDES = st.integers(1, 70_000)


def found(limits: dict[str, float], height: int, width: int) -> tuple[Reason, str] | None:
    """(reason, message) of an image that is left out; None if it stays."""
    check = header_filter(limits)
    assert check is not None
    try:
        check(ImageHeader("jpeg", height, width, 3))
    except BadImageError as error:
        return error.reason, str(error)
    return None


@pytest.mark.parametrize(
    ("limits", "stays", "goes", "message"),
    [
        ({"min_side": 64}, (64, 64), (64, 63), "63 x 64 pixels; --min_side is 64"),
        ({"min_side": 64}, (64, 64), (63, 64), "64 x 63 pixels; --min_side is 64"),
        ({"max_aspect": 2.5}, (4, 10), (4, 11), "11 x 4 pixels, 2.75 to 1; --max_aspect is 2.5"),
        ({"max_aspect": 2.5}, (10, 4), (11, 4), "4 x 11 pixels, 2.75 to 1; --max_aspect is 2.5"),
        ({"max_aspect": 1}, (4, 4), (4, 5), "5 x 4 pixels, 1.25 to 1; --max_aspect is 1"),
        (
            {"max_pixels": 12},
            (3, 4),
            (1, 13),
            "13 x 1 pixels, 13 in all; --max_pixels is 12",
        ),
    ],
)
def test_the_limit_itself_stays(
    limits: dict[str, float], stays: tuple[int, int], goes: tuple[int, int], message: str
) -> None:
    """An image at the limit is kept; the next one says what was found, and the option."""
    reason = next(reason for reason, name in FILTER_REASONS.items() if name in limits)
    assert found(limits, *stays) is None
    assert found(limits, *goes) == (reason, message)


def test_the_first_filter_gives_the_reason() -> None:
    """An image that several leave out has one dead letter, whatever the order they were given in."""
    limits = {"max_pixels": 5, "max_aspect": 2.0, "min_side": 2}
    assert (found(limits, 1, 9) or ())[0] is Reason.FILTERED_MIN_SIDE
    assert (found(limits, 2, 9) or ())[0] is Reason.FILTERED_MAX_ASPECT
    assert (found(limits, 4, 4) or ())[0] is Reason.FILTERED_MAX_PIXELS


@given(height=SIDES, width=SIDES, limit=st.floats(1, 100))
def test_a_turned_image_fares_no_differently(height: int, width: int, limit: float) -> None:
    """Orientation makes no difference to any filter."""
    for name in ("min_side", "max_aspect", "max_pixels"):
        one, other = found({name: limit}, height, width), found({name: limit}, width, height)
        assert (one is None) == (other is None)


def test_files_are_judged_by_their_listed_size() -> None:
    """The limit itself stays, and other filters say nothing of it."""
    assert outside_bytes(1000, {"max_image_bytes": 1000}) == ""
    assert outside_bytes(1001, {"max_image_bytes": 1000}) == "1001 bytes; --max_image_bytes is 1000"
    assert outside_bytes(1 << 40, {"min_side": 3}) == ""


def test_without_a_filter_images_are_prepared_as_before() -> None:
    """The default costs nothing for each image: the preparer is that of the check itself."""
    assert header_filter({}) is None
    assert header_filter({"max_image_bytes": 5}) is None
    assert image_preparer("header", None, "png", {"max_image_bytes": 5}) is check_header


@pytest.mark.parametrize("check", ["header", "full"])
def test_filters_come_after_the_check(check: str) -> None:
    """A bad image is bad, whatever its size; a sound one passes unchanged or is left out."""
    prepare = image_preparer(check, None, "png", {"min_side": 8})
    sound = picture(5, size=(9, 8))
    assert prepare(sound) == (sound, ImageHeader("jpeg", 8, 9, 3))
    for data, reason in (
        (picture(5, size=(9, 7)), Reason.FILTERED_MIN_SIDE),
        (picture(5, size=(9, 7))[:-9], Reason.CORRUPT_IMAGE),
    ):
        with pytest.raises(BadImageError) as bad:
            prepare(data)
        assert bad.value.reason is reason


def test_bare_pixels_are_filtered_too() -> None:
    """CIFAR's images have sides as well."""
    prepare = image_preparer("header", PixelFormat(2, 3), "raw", {"min_side": 3})
    with pytest.raises(BadImageError, match="3 x 2 pixels; --min_side is 3"):
        prepare(bytes(18))


def test_every_filter_has_a_reason_of_its_own() -> None:
    """And the reason's name says which option it was."""
    assert [f"filtered_{name}" for name in FILTER_NAMES] == [r.value for r in FILTER_REASONS]
    assert sorted(FILTER_NAMES) == sorted(FILTER_REASONS.values())
