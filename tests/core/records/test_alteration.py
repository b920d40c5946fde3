"""Images and labels that change together."""

from __future__ import annotations

import io
import struct

import pytest
from PIL import Image

from beam_pipeline.core.dead_letters import Reason
from beam_pipeline.core.images.geometry import ImageChanges
from beam_pipeline.core.images.header import BadImageError
from beam_pipeline.core.images.preparation import read_header
from beam_pipeline.core.labels.schema import ColumnKind, label_column, object_columns
from beam_pipeline.core.records.alteration import Alteration

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


@pytest.mark.parametrize(
    ("orientation", "size", "written", "events"),
    [
        (3, (40, 30), (40, 30), ("taken_as_shown",)),  # nothing tells how it was exported
        (6, (40, 30), (30, 40), ("encoded", "turned")),  # as the image is stored
        (6, (30, 40), (30, 40), ()),  # as viewers show it
        (3, (20, 20), (20, 20), ()),
        (1, (40, 30), (40, 30), ()),
    ],
)
@pytest.mark.parametrize("mode", ["RGB", "I;16"])
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
