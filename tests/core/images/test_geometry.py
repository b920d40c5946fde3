"""Plans of what becomes of pixels, and images and labels that change together."""

from __future__ import annotations

import io
import json
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageOps

from beam_pipeline.core.dead_letters import Reason
from beam_pipeline.core.images.geometry import (
    RESIZE_MODES,
    CropBoxes,
    ImageChanges,
    check_claimed_size,
    orienting,
    plan_geometry,
    turned_size,
)
from beam_pipeline.core.images.header import BadImageError, ImageHeader
from beam_pipeline.core.images.preparation import read_header
from beam_pipeline.core.labels.schema import ColumnKind, label_column, object_columns
from beam_pipeline.core.records.alteration import Alteration
from tests.core.images.fixtures import to_size
from tests.rows import in_rows, raised

SIDES = st.integers(1, 3000)
SIZES = st.tuples(SIDES, SIDES)
RESIZES = st.builds(to_size, SIDES, SIDES, st.sampled_from(RESIZE_MODES), st.booleans())
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


@in_rows
def test_sizes_of_the_modes(mode: str, size: tuple[int, int], expected: tuple[int, int]) -> None:
    """With 256 as the target, and without enlarging."""
    assert plan_geometry(size, 1, to_size(256, 256, mode)).size == expected


@given(SIZES, ORIENTATIONS, RESIZES)
def test_what_is_kept_fills_its_place(
    size: tuple[int, int], orientation: int, resize: ImageChanges
) -> None:
    """The part of the image that is kept lies on the canvas, where the plan says, to a millionth."""
    geometry = plan_geometry(size, orientation, resize)
    left, top, right, bottom = geometry.crop
    width, height = turned_size(size, orientation)
    assert 0 <= left < right <= width
    assert 0 <= top < bottom <= height
    unturned = orienting(size, orientation).inverse().box(geometry.crop)
    (x, y), (scaled_width, scaled_height) = geometry.offset, geometry.scaled
    assert geometry.affine.box(unturned) == pytest.approx(
        (x, y, x + scaled_width, y + scaled_height), rel=1e-9, abs=1e-9
    )
    assert 0 <= x <= geometry.size[0] - scaled_width
    assert 0 <= y <= geometry.size[1] - scaled_height


# --- claimed size ----------------------------------------------------------------------------


HEADER = ImageHeader("jpeg", 30, 40, 3)


@in_rows
def test_a_claimed_size_is_that_of_the_image(
    claimed: Any, orientation: int, boxes: bool, message: str
) -> None:
    """The image of 40 x 30 pixels itself is not looked at."""
    header = HEADER._replace(orientation=orientation)
    if not message:
        check_claimed_size(claimed, header, boxes=boxes)
        return
    error = raised(BadImageError, check_claimed_size, claimed, header, boxes=boxes)
    assert (error.reason, message in str(error)) == (Reason.SIZE_MISMATCH, True)


def _measured(header: ImageHeader, claimed: tuple[int, int], *, as_shown: bool) -> ImageHeader:
    changes = ImageChanges(orientation="apply" if as_shown else "keep")
    return Alteration(changes).measured(header, claimed)


@in_rows
def test_a_claimed_size_tells_which_picture_was_labelled(
    claimed: tuple[int, int] | None, as_shown: bool, size: tuple[int, int]
) -> None:
    """Where it fits one of the two, the stored or the shown one; else the default decides."""
    header = HEADER._replace(orientation=6)
    measured = _measured(header, claimed, as_shown=as_shown)
    assert (measured.width, measured.height) == size
    assert measured.orientation == (1 if size == (30, 40) else 6)


def test_a_half_turn_or_a_square_leaves_it_to_the_default() -> None:
    """The size is the same both ways."""
    upside_down = HEADER._replace(orientation=3)
    assert _measured(upside_down, (40, 30), as_shown=True) == HEADER
    assert _measured(upside_down, (40, 30), as_shown=False) == upside_down
    square = ImageHeader("jpeg", 9, 9, 3, 6)
    assert _measured(square, (9, 9), as_shown=True) == square._replace(orientation=1)


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


def test_each_of_these_options_makes_images_be_encoded() -> None:
    """The others only say how. Small images may be enlarged."""
    options = ({"resize": (1, 1)}, {"crop": CropBoxes()}, {"image_format": "png"})
    assert all(ImageChanges(**one).encodes for one in (*options, {"reencode": "auto"}))
    for mode, size in {"shortest": (60, 40), "longest": (30, 20), "pad": (30, 40)}.items():
        assert plan_geometry((6, 4), 1, to_size(30, 40, mode, never_enlarge=False)).size == size


# --- Images and labels that change together


BOXES = object_columns(pixels=True)
CLASS = (label_column("animal", ColumnKind.CLASS),)


def jpeg(size: tuple[int, int] = (40, 30), orientation: int = 1) -> bytes:
    exif, out = Image.Exif(), io.BytesIO()
    exif[0x0112] = orientation
    Image.new("RGB", size, (9, 99, 199)).save(out, "JPEG", exif=exif)
    return out.getvalue()


@pytest.mark.parametrize(
    ("changes", "columns", "expected"),
    [
        (ImageChanges(), CLASS, "keep"),
        (ImageChanges(), BOXES, "apply"),
        (ImageChanges(resize=(9, 9)), CLASS, "apply"),
        (ImageChanges(orientation="keep", resize=(9, 9)), BOXES, "keep"),
        (ImageChanges(orientation="refuse"), CLASS, "refuse"),
    ],
)
def test_the_default_depends_on_the_labels(
    changes: ImageChanges, columns: tuple, expected: str
) -> None:
    """Where something has a place, pixels and places must agree on which way is up."""
    assert Alteration(changes, columns).orientation == expected


def test_an_image_that_needs_no_change_keeps_its_bytes() -> None:
    """And is counted, if it might have been changed."""
    image = jpeg()
    altered = Alteration(ImageChanges(resize=(64, 64))).alter(image, read_header(image))
    assert altered.image is image
    assert altered.events == ("unchanged",)
    assert Alteration().alter(image, read_header(image)).events == ()


def test_a_gif_whose_frame_is_smaller_than_its_screen_is_encoded_anew() -> None:
    """TensorFlow would give the frame, and Pillow the screen, which is written."""
    out = io.BytesIO()
    Image.new("P", (8, 6)).save(out, "GIF")
    image = out.getvalue()
    image = image[:6] + struct.pack("<HH", 12, 9) + image[10:]
    assert read_header(image)[:3] == ("gif", 6, 8)
    altered = Alteration(ImageChanges(reencode="auto")).alter(image, read_header(image))
    assert altered.header[:3] == ("png", 9, 12)
    assert read_header(altered.image) == altered.header
    assert altered.events == ("encoded",)
    kept = Alteration(ImageChanges(resize=(64, 64))).alter(image, read_header(image))
    assert kept.image is image


def test_an_animated_png_that_pillow_refuses_is_left_out() -> None:
    """TensorFlow reads its picture and passes over the frames; a sound one keeps its bytes."""
    out = io.BytesIO()
    frames = [Image.new("RGB", (8, 6), colour) for colour in ("red", "blue")]
    frames[0].save(out, "PNG", save_all=True, append_images=frames[1:])
    image = out.getvalue()
    auto = Alteration(ImageChanges(reencode="auto"))
    assert auto.alter(image, read_header(image)).image is image
    while b"fcTL" in image:  # what says where a frame lies
        start = image.index(b"fcTL") - 4
        image = image[:start] + image[start + 38 :]
    with pytest.raises(BadImageError, match="Pillow does not decode it") as caught:
        auto.alter(image, read_header(image))
    assert caught.value.reason is Reason.CORRUPT_IMAGE


def test_an_image_resized_without_turning_it_still_has_its_orientation() -> None:
    """The tag is gone from the bytes, so the feature has to tell."""
    image = jpeg(orientation=6)
    keep = Alteration(ImageChanges(orientation="keep", resize=(15, 15)))
    altered = keep.alter(image, read_header(image))
    assert altered.header == ("jpeg", 15, 20, 3, 6)
    assert altered.events == ("encoded", "resized", "left_turned")
    assert read_header(altered.image).orientation == 1


def test_a_format_that_cannot_hold_the_size_is_said() -> None:
    """WebP has sides of 16,383 pixels at most."""
    image = jpeg((17_000, 2))
    webp = Alteration(ImageChanges(image_format="webp"))
    with pytest.raises(BadImageError, match="17000 x 2 pixels cannot be written as webp") as caught:
        webp.alter(image, read_header(image))
    assert caught.value.reason is Reason.UNSUPPORTED_FORMAT


def test_labels_without_places_are_left_alone() -> None:
    """Whatever becomes of the image."""
    image = jpeg(orientation=6)
    header = read_header(image)
    alteration = Alteration(ImageChanges(resize=(10, 10)), CLASS)
    altered = alteration.alter(image, header)
    measured = alteration.measured(header, None)
    assert alteration.labels(("cat",), header, measured, altered.geometry) == (("cat",), 0)


@pytest.mark.parametrize("mode", ["RGB", "I;16"])
@in_rows
def test_a_picture_without_exif_beside_an_image_that_is_turned(
    mode: str,
    orientation: int,
    size: tuple[int, int],
    written: tuple[int, int],
    events: tuple[str, ...],
) -> None:
    """Its sides tell which way up it is; where they do not, it is taken as shown, and counted."""
    out = io.BytesIO()
    Image.new(mode, size).save(out, "PNG")
    picture, image = out.getvalue(), read_header(jpeg(orientation=orientation))
    turning = Alteration(ImageChanges(orientation="apply"), CLASS)
    altered = turning.beside(picture, read_header(picture), image)
    assert (altered.header.width, altered.header.height) == written
    assert altered.events == (events if mode == "RGB" or "turned" not in events else ())
    assert (altered.image is picture) == ("turned" not in events)
