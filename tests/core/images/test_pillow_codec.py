"""Images that are turned, scaled and encoded, read back by Pillow and TensorFlow."""

from __future__ import annotations

import io
import struct
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageCms, ImageOps, features

from beam_pipeline.core.dead_letters import Reason
from beam_pipeline.core.images.geometry import (
    RESIZE_MODES,
    ImageChanges,
    plan_geometry,
    turned_size,
)
from beam_pipeline.core.images.header import BadImageError, ImageHeader
from beam_pipeline.core.images.pillow_codec import codec_version, open_image, rewrite, to_srgb
from beam_pipeline.core.images.preparation import read_header
from tests.core.images.fixtures import to_size
from tests.rows import in_rows, raised

KEEP = ImageChanges()
HAS_AVIF = "avif" in features.get_supported()  # from Pillow 11.3 on


def saved(image: Image.Image, file_format: str, **options: Any) -> bytes:
    out = io.BytesIO()
    image.save(out, file_format, **options)
    return out.getvalue()


def rewritten(
    data: bytes, changes: ImageChanges = KEEP, resize: ImageChanges | None = None
) -> tuple[Image.Image, ImageHeader]:
    """The image that is written, decoded, after a check that its header is what it claims."""
    opened = open_image(data)
    size = (opened.header.width, opened.header.height)
    geometry = plan_geometry(size, opened.header.orientation, resize)
    written, header = rewrite(opened, geometry, changes)
    assert read_header(written) == header
    image = Image.open(io.BytesIO(written))
    image.load()
    assert (image.width, image.height) == geometry.size
    return image, header


def gradient(size: tuple[int, int], mode: str = "RGB") -> Image.Image:
    """Red grows to the right, green downwards."""
    x = np.linspace(0, 255, size[0])[None, :].repeat(size[1], 0)
    y = np.linspace(0, 255, size[1])[:, None].repeat(size[0], 1)
    image = Image.fromarray(np.stack((x, y, np.full_like(x, 90)), -1).astype(np.uint8))
    return image.convert(mode)


@settings(max_examples=60)
@given(
    st.tuples(st.integers(60, 200), st.integers(60, 200)),
    st.integers(1, 8),
    st.builds(
        to_size,
        st.integers(40, 250),
        st.integers(40, 250),
        st.sampled_from(RESIZE_MODES),
        st.booleans(),
    )
    | st.none(),
    st.data(),
)
def test_a_mark_is_where_its_box_is(
    size: tuple[int, int], orientation: int, resize: ImageChanges | None, data: Any
) -> None:
    """Through every turn and mode: the corners of what is left of a white rectangle, to a pixel or so."""
    left, top = data.draw(st.integers(0, size[0] - 30)), data.draw(st.integers(0, size[1] - 30))
    box = (left, top, left + 30, top + 30)
    image = Image.new("L", size)
    image.paste(255, box)
    exif = Image.Exif()
    exif[0x0112] = orientation
    png = saved(image, "PNG", exif=exif)
    geometry = plan_geometry(size, orientation, resize)
    moved = geometry.affine.box(box)
    width, height = geometry.size
    seen = (max(0, moved[0]), max(0, moved[1]), min(width, moved[2]), min(height, moved[3]))
    found, _ = rewritten(png, KEEP, resize)
    marked = found.point(lambda value: 255 * (value > 127)).getbbox()
    if seen[2] - seen[0] < 2 or seen[3] - seen[1] < 2:
        return  # nearly or altogether outside of the crop
    assert marked is not None
    assert marked == pytest.approx(seen, abs=1.01)


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("file_format", ["JPEG", "PNG", "WEBP"])
def test_turning_gives_the_picture_that_viewers_show(file_format: str, orientation: int) -> None:
    """As Pillow turns it, within the loss of encoding again, and without the tag."""
    exif = Image.Exif()
    exif[0x0112] = orientation
    data = saved(gradient((48, 32)), file_format, exif=exif, quality=95)
    found, header = rewritten(data)
    shown = ImageOps.exif_transpose(Image.open(io.BytesIO(data))).convert("RGB")
    difference = np.asarray(found).astype(int) - np.asarray(shown)
    assert np.abs(difference).mean() < (0.01 if file_format == "PNG" else 2)
    assert header.orientation == 1
    assert found.getexif().get(0x0112) is None
    assert (header.width, header.height) == turned_size((48, 32), orientation)


@pytest.mark.parametrize("orientation", [1, 6])
@pytest.mark.parametrize("mode", RESIZE_MODES)
def test_a_large_jpeg_is_scaled_as_well_as_from_all_its_pixels(mode: str, orientation: int) -> None:
    """Decoding it to fewer pixels moves nothing, not even by a fraction of a pixel."""
    exif = Image.Exif()
    exif[0x0112] = orientation
    data = saved(gradient((1203, 803)), "JPEG", exif=exif, quality=95)
    resize = to_size(60, 50, mode)
    found, header = rewritten(data, ImageChanges(quality=95), resize)
    geometry = plan_geometry((1203, 803), orientation, resize)
    shown = ImageOps.exif_transpose(Image.open(io.BytesIO(data)))
    expected = Image.new("RGB", geometry.size)
    part = shown.resize(geometry.scaled, Image.Resampling.LANCZOS, geometry.crop)
    expected.paste(part, geometry.offset)
    inner = (
        slice(geometry.offset[1] + 2, geometry.offset[1] + geometry.scaled[1] - 2),
        slice(geometry.offset[0] + 2, geometry.offset[0] + geometry.scaled[0] - 2),
    )
    difference = np.asarray(found).astype(int)[inner] - np.asarray(expected)[inner]
    assert np.abs(difference).mean() <= 1
    assert abs(difference.mean()) <= 0.3
    assert header == ImageHeader("jpeg", geometry.size[1], geometry.size[0], 3)


# --- formats --------------------------------------------------------------------------------------

PALETTE = gradient((20, 10)).quantize(16)
FRAMES = [Image.new("RGB", (20, 10), colour) for colour in ("red", "green")]


@in_rows
def test_formats(
    file_format: str, mode: str, options: Any, unreadable: bool, written: tuple[str, int]
) -> None:
    """What readers cannot decode, and what an image of each kind is written as."""
    if file_format == "AVIF" and not HAS_AVIF:
        pytest.skip("this Pillow has no AVIF")
    image = PALETTE if mode == "P" else gradient((20, 10), mode)
    frames = {"append_images": FRAMES} if "save_all" in options else {}
    data = saved(image, file_format, **options, **frames)
    assert open_image(data).unreadable == unreadable
    image, header = rewritten(data)
    assert header == (written[0], 10, 20, written[1], 1)
    assert rewritten(saved(image, "PNG"))[0].size == (20, 10)


@pytest.mark.parametrize("image_format", ["jpeg", "png", "webp"])
@pytest.mark.parametrize("mode", ["L", "RGB", "RGBA", "LA", "P", "I;16"])
def test_every_kind_of_pixels_in_every_format(tf: Any, image_format: str, mode: str) -> None:
    """TensorFlow decodes what is written, to the size and channels that its header says."""
    image = gradient((20, 10), "L" if mode == "I;16" else mode)
    if mode == "I;16":
        image = Image.fromarray(np.asarray(image).astype(np.uint16) * 257)
    data = saved(image, "PNG")
    opened = open_image(data)
    geometry = plan_geometry((20, 10), 1, to_size(5, 5))
    written, header = rewrite(opened, geometry, ImageChanges(image_format=image_format))
    dtype = tf.uint16 if (mode, image_format) == ("I;16", "png") else tf.uint8
    decoded = tf.io.decode_image(written, dtype=dtype, expand_animations=False)
    assert tuple(decoded.shape) == header[1:4]
    assert header[:3] == (image_format, 5, 10)


def test_transparent_pixels_are_white_in_a_jpeg() -> None:
    """It has no place for transparency."""
    data = saved(Image.new("RGBA", (9, 9), (0, 0, 200, 0)), "PNG")
    image, _ = rewritten(data, ImageChanges(image_format="jpeg"))
    assert image.getpixel((4, 4)) == (255, 255, 255)


@pytest.mark.parametrize(("mode", "written"), [("RGB", ("jpeg", 3)), ("RGBA", ("png", 4))])
@pytest.mark.parametrize("library", ["pillow_heif", "pillow_jxl"])
def test_heic_and_jpeg_xl_are_decoded_where_their_library_is(
    library: str, mode: str, written: tuple[str, int]
) -> None:
    """They are written as JPEG, or with their transparency as PNG; a cut file is a bad image."""
    plugin: Any = pytest.importorskip(library)
    image = gradient((64, 32), mode)
    if mode == "RGBA":
        image.putalpha(gradient((64, 32)).getchannel("R"))
    out = io.BytesIO()
    if library == "pillow_heif":
        plugin.from_pillow(image).save(out, quality=95)
        assert open_image(out.getvalue()).unreadable
        error = raised(BadImageError, rewritten, out.getvalue()[:-30])
        assert (error.reason, "decoding fails" in str(error)) == (Reason.CORRUPT_IMAGE, True)
    else:
        image.save(out, "JXL", lossless=True)
    found, header = rewritten(out.getvalue())
    assert header == (written[0], 32, 64, written[1], 1)
    difference = np.asarray(found).astype(int) - np.asarray(image).astype(int)
    assert np.abs(difference).mean() < 3


BMP = saved(gradient((20, 10)), "BMP")


@pytest.mark.parametrize(
    ("data", "reason", "message"),
    [
        (saved(Image.new("F", (9, 9), 0.5), "TIFF"), Reason.UNSUPPORTED_FORMAT, "floating-point"),
        # it is sound, for all that is known
        (
            BMP[:30] + struct.pack("<I", 6) + BMP[34:],
            *(Reason.UNSUPPORTED_FORMAT, "Unsupported BMP compression"),
        ),
        (saved(Image.effect_noise((64, 64), 90), "TIFF")[:-3000], Reason.CORRUPT_IMAGE, ""),
    ],
)
def test_what_cannot_be_written_has_a_reason(data: bytes, reason: Reason, message: str) -> None:
    """Half a picture is not written."""
    error = raised(BadImageError, rewritten, data)
    assert (error.reason, message in str(error)) == (reason, True)


# --- 16 bits --------------------------------------------------------------------------------------


def sixteen(channels: int, size: tuple[int, int] = (30, 20)) -> np.ndarray:
    random = np.random.default_rng(0)
    return random.integers(0, 1 << 16, (size[1], size[0], channels), dtype=np.uint16)


def deep_png(tf: Any, pixels: np.ndarray) -> bytes:
    data: bytes = tf.io.encode_png(pixels).numpy()
    return data


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_a_png_of_16_bits_keeps_them(tf: Any, channels: int) -> None:
    """Scaled by a half with a margin left, each channel is what Pillow makes of it in 32 bits."""
    pixels = sixteen(channels)
    data = deep_png(tf, pixels)
    opened = open_image(data)
    geometry = plan_geometry((30, 20), 1, to_size(10, 10))
    written, header = rewrite(opened, geometry, KEEP)
    found = tf.io.decode_png(written, dtype=tf.uint16).numpy()
    assert found.shape == (10, 15, channels) == (header.height, header.width, header.channels)
    for channel in range(channels):
        wide = Image.fromarray(pixels[..., channel].astype(np.int32))
        expected = np.asarray(wide.resize((15, 10), Image.Resampling.LANCZOS))
        assert np.abs(found[..., channel].astype(int) - expected.clip(0, 65535)).max() <= 1
    assert read_header(written) == header


@pytest.mark.parametrize("mode", ["L", "RGB", "CMYK"])
@pytest.mark.parametrize("options", [{}, {"progressive": True}, {"keep_rgb": True}])
def test_a_jpeg_has_the_pixels_that_pillow_reads(mode: str, options: dict[str, Any]) -> None:
    """Whole, and decoded to fewer of them; its header may have been read without Pillow."""
    data = saved(gradient((300, 200), mode), "JPEG", **options)
    for size in ((300, 200), (70, 50)):
        image, pillows = open_image(data).image, Image.open(io.BytesIO(data))
        assert image.draft("", size) == pillows.draft("", size)
        assert (image.mode, image.tobytes()) == (pillows.mode, pillows.tobytes())


# --- colours --------------------------------------------------------------------------------------


def swapped_profile() -> bytes:
    """A profile for which no colour stays as it is: that of XYZ under another white, through Lab."""
    return ImageCms.ImageCmsProfile(ImageCms.createProfile("LAB")).tobytes()


def test_a_profile_is_converted_or_kept() -> None:
    """An sRGB profile changes nothing; it is dropped, or stays with --color_profile keep."""
    srgb = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    data = saved(gradient((20, 10)), "PNG", icc_profile=srgb)
    converted, _ = rewritten(data)
    assert "icc_profile" not in converted.info
    assert converted.tobytes() == gradient((20, 10)).tobytes()
    kept, _ = rewritten(data, ImageChanges(color_profile="keep"))
    assert kept.info["icc_profile"] == srgb
    of_jpeg = saved(gradient((20, 10)), "JPEG", icc_profile=srgb)
    kept_jpeg, _ = rewritten(of_jpeg, ImageChanges(color_profile="keep"))
    assert kept_jpeg.info["icc_profile"] == srgb
    assert kept.tobytes() == gradient((20, 10)).tobytes()


@pytest.mark.parametrize("mode", ["RGB", "RGBA"])
def test_colours_are_converted_from_a_profile_as_little_cms_does(mode: str) -> None:
    """In a profile whose red and green are swapped; transparency stays."""
    srgb = ImageCms.createProfile("sRGB")
    profile = ImageCms.ImageCmsProfile(srgb).tobytes()
    for old, new in ((b"rXYZ", b"----"), (b"gXYZ", b"rXYZ"), (b"----", b"gXYZ")):
        profile = profile.replace(old, new, 1)
    profile = profile.replace("sRGB".encode("utf-16-be"), "swap".encode("utf-16-be"))
    image = gradient((20, 10), mode)
    if mode == "RGBA":
        image.putalpha(gradient((20, 10)).getchannel("R"))
    converted, _ = rewritten(saved(image, "PNG", icc_profile=profile))
    expected = ImageCms.profileToProfile(image, io.BytesIO(profile), srgb)
    assert expected is not None
    assert converted.tobytes() == expected.tobytes() != image.tobytes()


def profile_of(space: bytes, whole: bytes, tables: dict[bytes, bytes]) -> bytes:
    """A profile of ICC's version 2, from a colour space to a whole one; its tables begin with their kinds."""
    named = b"desc" + bytes(4) + struct.pack(">I", 5) + b"test\0" + bytes(78)
    tables = {b"desc": named, b"wtpt": b"XYZ " + bytes(4) + WHITE, **tables}
    directory, content, start = struct.pack(">I", len(tables)), b"", 132 + 12 * len(tables)
    for name, table in tables.items():
        directory += struct.pack(">4sII", name, start + len(content), len(table))
        content += table + bytes(-len(table) % 4)
    fields = (start + len(content), 0x02100000, b"prtr", space, whole, b"acsp", WHITE)
    return struct.pack(">I4xI4s4s4s12x4s28x12s48x", *fields) + directory + content


WHITE = struct.pack(">iii", 63_190, 65_536, 54_061)  # of D50
IDENTITY = struct.pack(">9i", *(65_536 * (i % 4 == 0) for i in range(9)))
RAMP = bytes(range(256))
LINEAR = profile_of(b"GRAY", b"XYZ ", {b"kTRC": struct.pack(">4s4xIH", b"curv", 1, 256)})
BLACK_ALONE = profile_of(  # a corner of the cube of inks is white if it is without the last one
    b"CMYK",
    b"Lab ",
    {
        b"A2B0": b"mft1\0\0\0\0\4\3\2\0"
        + IDENTITY
        + RAMP * 4
        + b"\xff\x80\x80\0\x80\x80" * 8
        + RAMP * 3
    },
)


@pytest.mark.parametrize(
    ("mode", "profile", "colours"),
    [
        ("L", LINEAR, [0, 168, 255]),
        ("LA", LINEAR, [0, 9, 100, 9, 255, 9]),
        ("CMYK", BLACK_ALONE, [255, 255, 255, 147, 147, 147, 0, 0, 0]),
    ],
)
def test_colours_of_other_spaces_are_those_of_their_profiles(
    mode: str, profile: bytes, colours: list[int]
) -> None:
    """Grey stays grey; with transparency it is left as it is, as LittleCMS does not take it."""
    pixels = [bytes({"L": (v,), "LA": (v, 9), "CMYK": (7, 8, 9, v)}[mode]) for v in (0, 100, 255)]
    image = Image.frombytes(mode, (3, 1), b"".join(pixels))
    assert [*to_srgb(image, profile).tobytes()] == colours


def test_a_profile_that_is_damaged_or_of_another_kind_is_ignored() -> None:
    """As viewers ignore it."""
    for profile in (b"no profile", swapped_profile()):
        data = saved(gradient((20, 10)), "PNG", icc_profile=profile)
        assert rewritten(data)[0].tobytes() == gradient((20, 10)).tobytes()


# --- determinism ----------------------------------------------------------------------------------


def test_the_codec_has_the_versions_of_what_encodes() -> None:
    """Pillow's first: its scaling is its own."""
    assert codec_version().startswith(f"Pillow {Image.__version__}, libjpeg-turbo ")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="symbols of libraries meet on Linux alone")
def test_the_codec_is_the_same_beside_tensorflow() -> None:
    """Its zlib takes the place of the system's, which processes without TensorFlow still call."""
    pytest.importorskip("tensorflow")
    code = (
        "import hashlib, io\nfrom PIL import Image\n"
        "from beam_pipeline.core.images.pillow_codec import codec_version\n"
        "Image.linear_gradient('L').rotate(30).save(file := io.BytesIO(), 'PNG')\n"
        "print(codec_version(), hashlib.sha256(file.getvalue()).hexdigest())"
    )
    plain, beside = (
        subprocess.run([sys.executable, "-c", start + code], capture_output=True, check=True).stdout
        for start in ("", "import tensorflow\n")
    )
    assert plain == beside


@pytest.mark.parametrize("order", ["<", ">"])
def test_a_tiff_of_many_bands_is_left_out_with_advice(order: str) -> None:
    """As EuroSAT's images of Sentinel-2, of which Pillow only says that it cannot open them."""
    fields = {256: 2, 257: 2, 258: 16, 259: 1, 262: 1, 273: 8, 277: 13, 278: 2, 279: 104}
    entries = b"".join(
        struct.pack(f"{order}HHIHH", tag, 3, 1, value, 0) for tag, value in fields.items()
    )
    start = struct.pack(f"{order}2sHI", b"II" if order == "<" else b"MM", 42, 8 + 104)
    directory = struct.pack(f"{order}H", len(fields)) + entries + bytes(4)
    with pytest.raises(BadImageError, match="more than four bands, write three as a PNG") as caught:
        open_image(start + bytes(104) + directory)
    assert caught.value.reason is Reason.UNSUPPORTED_FORMAT
