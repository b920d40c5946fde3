"""JPEGs that OpenCV scales, turns and encodes, compared with Pillow's; images that it leaves to Pillow."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageCms, ImageOps

from beam_pipeline.core.dead_letters import Reason
from beam_pipeline.core.images import header, pillow_codec, preparation
from beam_pipeline.core.images.geometry import RESIZE_MODES, ImageChanges, plan_geometry

pytestmark = pytest.mark.readers
cv2 = pytest.importorskip("cv2", reason="opencv-python-headless is not installed")
from beam_pipeline.core.images import opencv_codec  # noqa: E402
from tests.core.images.fixtures import to_size  # noqa: E402

CHANGES = ImageChanges(quality=95, image_codec="opencv")
Written = tuple[bytes, header.ImageHeader]


def saved(image: Image.Image, file_format: str = "JPEG", **options: Any) -> bytes:
    out = io.BytesIO()
    if file_format == "JPEG":
        options = {"quality": 95, "subsampling": 0, **options}
    image.save(out, file_format, **options)
    return out.getvalue()


def turned(orientation: int) -> Image.Exif:
    exif = Image.Exif()
    exif[0x0112] = orientation
    return exif


def picture(size: tuple[int, int], mode: str = "RGB") -> Image.Image:
    """Waves of several lengths, brighter to the right and downwards."""
    x = np.linspace(0, 1, size[0])[None, :]
    y = np.linspace(0, 1, size[1])[:, None]
    red = 90 * x + 60 * y + 40 * np.sin(40 * x) + 40
    green = 120 * y + 50 * np.cos(25 * x * y) + 60
    blue = 100 + 60 * np.sin(30 * (x + y)) + 0 * x
    return Image.fromarray(np.stack((red, green, blue), -1).clip(0, 255).astype(np.uint8)).convert(
        mode
    )


def by_both(
    data: bytes, resize: ImageChanges | None = None, changes: ImageChanges = CHANGES
) -> tuple[Written, Written]:
    """The image as OpenCV's codec and as Pillow's write it, of equal headers."""
    found: list[Written] = []
    for codec in (opencv_codec, pillow_codec):
        opened = pillow_codec.open_image(data)
        size = (opened.header.width, opened.header.height)
        geometry = plan_geometry(size, opened.header.orientation, resize)
        found.append(codec.rewrite(opened, geometry, changes))
    assert found[0][1] == found[1][1] == preparation.read_header(found[0][0])
    return found[0], found[1]


def pixels(data: bytes) -> Any:
    return np.asarray(Image.open(io.BytesIO(data))).astype(int)


def assert_alike(ours: Written, pillows: Written, mean: float = 1.0) -> None:
    difference = pixels(ours[0]) - pixels(pillows[0])
    assert np.abs(difference).mean() < mean
    assert abs(difference.mean()) < 0.3
    assert ours[0] != pillows[0]


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("mode", ["RGB", "L"])
def test_a_turned_image_is_the_picture_that_viewers_show(mode: str, orientation: int) -> None:
    """EXIF is read by us alone: OpenCV would turn the image a second time."""
    data = saved(picture((48, 32), mode), exif=turned(orientation))
    ours, pillows = by_both(data)
    shown = ImageOps.exif_transpose(Image.open(io.BytesIO(data)))
    assert np.abs(pixels(ours[0]) - np.asarray(shown).astype(int)).mean() < 1.5
    assert np.abs(pixels(ours[0]) - pixels(pillows[0])).mean() < 0.5
    assert Image.open(io.BytesIO(ours[0])).getexif().get(0x0112) is None


@pytest.mark.parametrize("orientation", [1, 6])
@pytest.mark.parametrize("mode", RESIZE_MODES)
@pytest.mark.parametrize("size", [(1200, 800), (1203, 805), (200, 140)])
def test_scaled_images_are_as_pillow_scales_them(
    size: tuple[int, int], mode: str, orientation: int
) -> None:
    """Through every mode, with JPEGs that are decoded to an eighth and to all of their sides."""
    data = saved(picture(size), exif=turned(orientation))
    ours, pillows = by_both(data, to_size(100, 100, mode))
    difference = pixels(ours[0]) - pixels(pillows[0])
    assert np.abs(difference).mean() < 1.5
    assert abs(difference.mean()) < 0.3


def test_the_edges_of_a_part_lie_between_pixels() -> None:
    """The smallest part of the sides that has the pixels wanted and moves nothing; else there is none."""
    part = opencv_codec._part
    assert part((0, 0, 4000, 3000), (341, 256)) == 8
    assert part((0, 0, 4000, 3000), (1000, 750)) == 4
    assert part((0, 0, 4000, 3000), (1001, 750)) == 2
    assert part((0, 0, 4000, 3000), (4000, 3000)) == 1
    assert part((0, 0, 4000, 3000), (4001, 3000)) == 0  # enlarged
    assert part((0, 0, 1001, 1001), (100, 100)) == 8  # an eighth of a pixel more than 125
    assert part((0, 0, 1004, 1004), (100, 100)) == 4  # half a pixel more than 125
    assert part((62.5, 0, 437.5, 375), (256, 256)) == 0  # cut through the middle of pixels


# --- what is left to Pillow -----------------------------------------------------------------------

ICC = ImageCms.ImageCmsProfile(ImageCms.createProfile("LAB")).tobytes()


@pytest.mark.parametrize(
    ("data", "changes"),
    [
        (saved(picture((64, 48), "CMYK")), CHANGES),
        (saved(picture((64, 48)), "PNG"), CHANGES),
        (saved(Image.fromarray(np.full((48, 64), 9, np.uint16)), "PNG"), CHANGES),
        (saved(picture((64, 48)).quantize(16), "PNG", transparency=3), CHANGES),
        (saved(picture((64, 48)).quantize(16), "GIF"), CHANGES),
        (saved(picture((64, 48)), "WEBP"), CHANGES),
        (saved(picture((64, 48)), "AVIF"), CHANGES),
        (saved(picture((64, 48)), "TIFF"), CHANGES),
        (saved(picture((64, 48)), "BMP"), CHANGES),
        (saved(picture((64, 48))), ImageChanges(image_format="png", image_codec="opencv")),
        (saved(picture((64, 48))), ImageChanges(image_format="webp", image_codec="opencv")),
        (
            saved(picture((64, 48)), icc_profile=ICC),
            ImageChanges(color_profile="keep", image_codec="opencv"),
        ),
    ],
)
def test_other_images_are_pillows(data: bytes, changes: ImageChanges) -> None:
    """To the byte."""
    ours, pillows = by_both(data, to_size(20, 20), changes)
    assert ours == pillows


def test_a_jpeg_that_cannot_be_decoded_has_pillows_reason() -> None:
    """Its tables are broken."""
    data = bytearray(saved(picture((64, 48))))
    at = data.index(b"\xff\xc4")
    data[at + 5 : at + 21] = b"\xff" * 16
    with pytest.raises(header.BadImageError, match="decoding fails") as caught:
        by_both(bytes(data), to_size(20, 20))
    assert caught.value.reason is Reason.CORRUPT_IMAGE


# --- colours --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options", [{}, {"progressive": True}, {"subsampling": 2}, {"keep_rgb": True}]
)
def test_every_kind_of_jpeg_keeps_its_colours(options: dict[str, Any]) -> None:
    """Progressive ones, those of fewer colour samples, and those stored as RGB."""
    ours, pillows = by_both(saved(picture((300, 200)), **options), to_size(100, 100))
    assert_alike(ours, pillows)


def swapped_colours() -> bytes:
    """A colour profile that swaps red and green: sRGB with two of its tags renamed."""
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    for old, new in ((b"rXYZ", b"----"), (b"gXYZ", b"rXYZ"), (b"----", b"gXYZ")):
        profile = profile.replace(old, new, 1)
    return profile.replace("sRGB".encode("utf-16-be"), "swap".encode("utf-16-be"))


@pytest.mark.parametrize("orientation", [1, 6])
def test_a_colour_profile_is_converted_as_pillow_does(orientation: int) -> None:
    """Also where the image is turned afterwards."""
    exif = turned(orientation)
    data = saved(picture((300, 200)), icc_profile=swapped_colours(), exif=exif)
    ours, pillows = by_both(data, to_size(100, 100))
    assert_alike(ours, pillows)
    plain, _ = by_both(saved(picture((300, 200)), exif=exif), to_size(100, 100))
    assert np.abs(pixels(ours[0]) - pixels(plain[0])[..., [1, 0, 2]]).mean() < 3


# --- the same bytes -------------------------------------------------------------------------------


def test_the_bytes_do_not_depend_on_threads_or_on_ipp() -> None:
    """Another thread of the process may have set OpenCV up differently; its settings stay."""
    data = saved(picture((1200, 800)))
    first, _ = by_both(data, to_size(100, 100))
    threads, ipp = cv2.getNumThreads(), cv2.ipp.useIPP()
    try:
        for number, used in ((1, False), (4, True)):
            cv2.setNumThreads(number)
            cv2.ipp.setUseIPP(used)
            allowed = cv2.ipp.useIPP()
            assert by_both(data, to_size(100, 100))[0] == first
            assert cv2.ipp.useIPP() == allowed
    finally:
        cv2.setNumThreads(threads)
        cv2.ipp.setUseIPP(ipp)


def test_the_codec_names_opencv_and_what_is_left_to_pillow() -> None:
    """With the kind of processor."""
    named = preparation.codec_here("opencv")
    assert named.startswith(f"OpenCV {cv2.__version__} on ")
    assert named.endswith(preparation.codec_here("pillow"))
