"""Decodes, turns, scales and encodes images with Pillow.

The same bytes and the same versions of the libraries (`codec_version`) give the same result anywhere:
Pillow's scaling and its JPEG, PNG and WebP encoders are used in one thread, with fixed parameters.

JPEGs are decoded at the smallest of the sizes 1/8, 1/4, 1/2 and 1/1 that has twice the pixels wanted
on each side, which costs no visible quality. Colour is stored in full (4:4:4): at the same size of file,
that is worth more than a higher quality.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import io
import logging
import math
import re
import sys
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import PIL
from PIL import Image, ImageCms, JpegImagePlugin, features

from beam_pipeline.core.dead_letters import Reason
from beam_pipeline.core.images import gif_bmp_jxl, jpeg, png
from beam_pipeline.core.images import header as headers
from beam_pipeline.core.images.geometry import Geometry, Rectangle, turned_size
from beam_pipeline.core.images.header import UPRIGHT, BadImageError, ImageHeader, unsupported
from beam_pipeline.core.images.pillow_header import OWN_FORMATS, PARSER_ERRORS, check_scans, open_as

if TYPE_CHECKING:
    from beam_pipeline.core.images.geometry import ImageChanges

_ENOUGH = 2  # times the pixels wanted, on each side, that a JPEG is decoded to
_REDUCING_GAP = 3.0  # above, other images are first scaled by a whole number, which is quicker
_TURNED_QUALITY = 95  # of a JPEG that is encoded only to turn it
_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
_FOREIGN_FORMATS = ("TIFF", "PPM", "AVIF", "HEIF", "JPEG2000", "JXL")
_NAMES = {"MPO": "jpeg", "JPEG2000": "jp2", "HEIF": "heic"}
_WRITTEN_AS = {"webp": "webp", **dict.fromkeys(("jpeg", "avif", "heic", "jp2", "jxl"), "jpeg")}
_WHITE = 255
_MAX_SAMPLE = (1 << 16) - 1
_SRGB = ImageCms.createProfile("sRGB")

# Its errors are raised as well, and become dead letters.
logging.getLogger("PIL.TiffImagePlugin").setLevel(logging.CRITICAL)


def codec_version() -> str:
    """Names everything whose version may change the bytes that are written."""
    parts = {
        "Pillow": PIL.__version__,
        "libjpeg-turbo": features.version("libjpeg_turbo"),
        "libwebp": features.version("webp"),
        "zlib": _zlib_version(),
        "zlib-ng": features.version("zlib_ng"),
        "Little CMS": features.version("littlecms2"),
    }
    return ", ".join(f"{name} {version}" for name, version in parts.items() if version)


def _zlib_version() -> str | None:
    """The version of zlib that Pillow has where nothing replaces it.

    TensorFlow's libraries export a zlib. In a process that loaded them first, Pillow calls that one in
    place of the system's, which the writer processes of the same job call. Releases of zlib compress
    alike; a fork, such as zlib-ng, adds its name to the version and may not.
    """
    version = features.version("zlib")
    if "tensorflow" in sys.modules and sys.platform == "linux":
        with contextlib.suppress(OSError):
            system = ctypes.CDLL("libz.so.1").zlibVersion
            system.restype = ctypes.c_char_p
            release: str = system().decode()
            if re.fullmatch(r"[\d. ]+", f"{version} {release}"):
                return release
    return version


class Opened(NamedTuple):
    """An image whose header Pillow has read.

    Attributes:
      data: the file.
      image: undecoded, at its first frame.
      header: with Pillow's size, which for a GIF is the screen's.
      animated: it has several frames.
      unreadable: readers of TFRecords do not show its pixels as a viewer does, or not at all.
    """

    data: bytes
    image: Image.Image
    header: ImageHeader
    animated: bool
    unreadable: bool


# --- opening --------------------------------------------------------------------------------------


class _PlainJpegFile(JpegImagePlugin.JpegImageFile):
    """A JPEG whose header is known, so that Pillow does not read it, which takes four times as long."""

    def __init__(self, data: bytes, plain: jpeg.PlainJpeg) -> None:
        self._plain = plain
        super().__init__(io.BytesIO(data), "")
        self.decodermaxblock = len(data)  # not in pieces, because Pillow copies each

    def _open(self) -> None:
        header = self._plain.header
        self._size = header.size
        self._mode = "L" if header.channels == 1 else "RGB"
        # Pillow 10 has no `_Tile`, and later ones take a plain tuple, too.
        self.tile = [("jpeg", (0, 0, *self._size), 0, (self._mode, ""))]  # type: ignore[list-item]
        if self._plain.icc_profile:
            self.info["icc_profile"] = self._plain.icc_profile


def open_image(data: bytes) -> Opened:
    """Reads the header of an image of any format that may be re-encoded.

    Of an ordinary JPEG, Pillow's `info` has the colour profile and nothing else.

    Raises:
      BadImageError: it is not an image, or has too many pixels or scans.
    """
    plain = jpeg.plain_jpeg(data)
    if not (plain and plain.single_scan):
        check_scans(data)
    if plain:
        file = _PlainJpegFile(data, plain)
        return Opened(data, file, plain.header, animated=False, unreadable=False)
    try:
        image = open_as(data, OWN_FORMATS) or open_as(data, _foreign_formats())
        if image is None:
            formats = ", ".join((*OWN_FORMATS, *_foreign_formats()))
            raise unsupported(
                "Pillow cannot open it, to re-encode it: it is broken, of a rare kind (of a TIFF of more than four "
                f"bands, write three as a PNG), or of none of the formats {formats}"
                + ("" if "HEIF" in Image.OPEN else " (HEIC: pip install pillow-heif)"),
            )
        width, height = image.size
        headers.check_pixels(height, width)
        name = _NAMES.get(image.format or "", (image.format or "").lower())
        # TIFF and HEIF are turned when they are decoded.
        exif = b"" if image.format in ("TIFF", "HEIF") else image.info.get("exif")
        orientation = headers.exif_orientation(exif or b"")
        animated = image.format != "MPO" and bool(getattr(image, "is_animated", False))
    except PARSER_ERRORS as error:
        unknown = str(error).startswith("Unsupported")
        raise BadImageError(
            Reason.UNSUPPORTED_FORMAT if unknown else Reason.CORRUPT_IMAGE,
            f"its header cannot be read by Pillow: {error}",
        ) from error
    channels = {"1": 1, "L": 1, "LA": 2, "RGBA": 4, "PA": 4, "I;16": 1}.get(image.mode, 3)
    unreadable = (
        image.format in _FOREIGN_FORMATS
        or image.mode in ("CMYK", "YCCK")
        or (image.mode == "P" and name == "png" and "transparency" in image.info)
        or (animated and name == "webp")
        or (name == "bmp" and _is_unusual_bmp(data, image))
    )
    header = ImageHeader(name, height, width, channels, orientation)
    return Opened(data, image, header, animated, unreadable)


def _is_unusual_bmp(data: bytes, image: Image.Image) -> bool:
    """True if TensorFlow refuses a BMP, or takes numbers of colours or padding for channels."""
    try:
        header = gif_bmp_jxl.bmp_header(data)
    except BadImageError:
        return True
    return image.mode == "P" or header.channels != len(image.getbands())


@lru_cache(maxsize=1)
def _foreign_formats() -> tuple[str, ...]:
    """Those of `_FOREIGN_FORMATS` that Pillow reads here, with plugins of others where they are installed.

    The first call loads all plugins, which takes long.
    """
    Image.init()
    with contextlib.suppress(ImportError):
        import pillow_heif  # type: ignore[import-not-found, unused-ignore]

        pillow_heif.options.THUMBNAILS = False
        pillow_heif.register_heif_opener()
    with contextlib.suppress(ImportError):
        importlib.import_module("pillow_jxl")  # registers JPEG XL
    return tuple(name for name in _FOREIGN_FORMATS if name in Image.OPEN)


# --- pixels ---------------------------------------------------------------------------------------


def rewrite(opened: Opened, geometry: Geometry, changes: ImageChanges) -> tuple[bytes, ImageHeader]:
    """Decodes an image, changes its geometry and encodes it.

    Args:
      opened: what `open_image` returned; not to be used again.
      geometry: planned for the size in its header.
      changes: the encoding.

    Returns: the new file and its header, upright if the geometry turns the image.

    Raises:
      BadImageError: its pixels cannot be decoded, or not be encoded in the format.
    """
    try:
        keeps_16_bits = changes.image_format in ("keep", "png")
        if keeps_16_bits and (deep := png.colour_channels(opened.data, opened.header)):
            channels = [_changed(channel, geometry, None) for channel in deep]
            header = written_header("png", len(channels), opened, geometry)
            return png.png_of_channels(channels), header
        image = _changed(opened.image, geometry, changes)
    except MemoryError as error:
        raise headers.out_of_memory("decoding") from error
    except PARSER_ERRORS as error:
        raise headers.undecodable(opened.header.format, error) from error
    return _encoded(image, opened, geometry, changes)


def written_header(name: str, channels: int, opened: Opened, geometry: Geometry) -> ImageHeader:
    """The header of an image after its change, upright if that turned it."""
    orientation = opened.header.orientation if geometry.orientation == UPRIGHT else UPRIGHT
    width, height = geometry.size
    return ImageHeader(name, height, width, channels, orientation)


def _changed(image: Image.Image, geometry: Geometry, changes: ImageChanges | None) -> Image.Image:
    """Decodes, scales, turns and pads; converts the colours, if there are changes to tell how."""
    extent = _draft(image, geometry) if geometry.is_resized else None
    profile = image.info.get("icc_profile")
    image = _plain(image)
    if extent:
        image = _scaled(image, geometry, extent)
    if changes and profile and changes.color_profile == "srgb":
        image = to_srgb(image, profile)
    if image.mode in ("CMYK", "YCbCr", "LAB", "HSV"):
        image = image.convert("RGB")
    if geometry.orientation != UPRIGHT:
        image = image.transpose(_TURNS[geometry.orientation])
    if image.size != geometry.size:
        canvas = Image.new(image.mode, geometry.size)
        canvas.paste(image, geometry.offset)
        image = canvas
    return image


def _draft(image: Image.Image, geometry: Geometry) -> Rectangle:
    """Lets a JPEG be decoded to fewer pixels; returns the area of the whole image then."""
    left, top, right, bottom = geometry.crop
    (width, height), turned = geometry.scaled, turned_size(geometry.stored, geometry.orientation)
    wanted = (width * turned[0] / (right - left), height * turned[1] / (bottom - top))
    if geometry.orientation in headers.QUARTER_TURNS:
        wanted = wanted[::-1]
    across, down = (math.ceil(_ENOUGH * side) for side in wanted)
    drafted = image.draft("", (across, down))  # None for other formats
    return drafted[1] if drafted else (0, 0, *geometry.stored)


def _plain(image: Image.Image) -> Image.Image:
    """Decodes an image to a mode whose pixels can be averaged."""
    image.load()
    if image.mode in ("P", "PA"):
        return image.convert("RGBA" if image.has_transparency_data else "RGB")
    if image.mode.startswith("I"):
        return grey_16_bits(image)
    if image.mode == "F":
        raise unsupported("its pixels are floating-point numbers, which no output format supports")
    plain = {"1": "L", "RGBX": "RGB", "La": "LA", "RGBa": "RGBA"}.get(image.mode)
    return image.convert(plain) if plain else image


def _scaled(image: Image.Image, geometry: Geometry, extent: Rectangle) -> Image.Image:
    """Scales the part to keep, before the image is turned, because it has fewer pixels afterwards."""
    (left, top, right, bottom), size = geometry.unturned
    across, down = extent[2] / geometry.stored[0], extent[3] / geometry.stored[1]
    box = (
        max(0.0, left * across),
        max(0.0, top * down),
        min(image.width, right * across),
        min(image.height, bottom * down),
    )
    if image.mode == "I;16":
        return grey_16_bits(image.convert("I").resize(size, Image.Resampling.LANCZOS, box))
    return image.resize(size, Image.Resampling.LANCZOS, box, _REDUCING_GAP)


# --- 16 bits per sample, which Pillow supports for grey images ---------------------------------------------


def grey_16_bits(image: Image.Image) -> Image.Image:
    """A grey image of 16 bits, from one of more or of other byte order; wider values are cut."""
    import numpy as np

    if image.mode == "I;16":
        return image
    return Image.fromarray(np.clip(np.asarray(image), 0, _MAX_SAMPLE).astype("<u2"))


def to_8_bits(image: Image.Image) -> Image.Image:
    """The upper 8 bits of a grey image of 16, which Pillow before 11 reads into 32; others as they are."""
    if not image.mode.startswith("I"):
        return image
    import numpy as np  # takes long to import, and few images are of 16 bits

    return Image.fromarray((np.asarray(grey_16_bits(image)) >> 8).astype(np.uint8))


# --- colours --------------------------------------------------------------------------------------


@lru_cache(maxsize=64)
def srgb_transform(profile: bytes, mode: str) -> Any:
    """The conversion from a profile to RGB, or RGBA; None without a profile, or with a broken one."""
    if mode not in ("L", "RGB", "RGBA", "CMYK", "LAB"):
        return None
    to_mode = "RGBA" if mode == "RGBA" else "RGB"
    try:
        opened = ImageCms.getOpenProfile(io.BytesIO(profile))
        if "srgb" in ImageCms.getProfileDescription(opened).lower() and mode != "CMYK":
            return None
        return ImageCms.buildTransform(opened, _SRGB, mode, to_mode)
    except (ImageCms.PyCMSError, OSError, ValueError, TypeError):
        return None


def to_srgb(image: Image.Image, profile: bytes) -> Image.Image:
    """Converts the colours from an ICC profile, in the image itself where its mode stays."""
    transform = srgb_transform(profile, image.mode)
    if transform is None:
        return image
    if image.mode == transform.output_mode:
        ImageCms.applyTransform(image, transform, inPlace=True)
        return image
    converted = ImageCms.applyTransform(image, transform)
    assert converted is not None
    return converted.convert("L") if image.mode == "L" else converted


# --- encoding -------------------------------------------------------------------------------------


def _encoded(
    image: Image.Image, opened: Opened, geometry: Geometry, changes: ImageChanges
) -> tuple[bytes, ImageHeader]:
    name = changes.image_format
    if name == "keep":
        name = _WRITTEN_AS.get(opened.header.format, "png")
        if name == "jpeg" and image.mode not in ("L", "RGB"):  # of AVIF, HEIC or JPEG 2000
            name = "png"
    settings: dict[str, Any] = {}
    if name == "jpeg":
        image = to_8_bits(image)
        if image.mode in ("LA", "RGBA"):  # transparent pixels become white
            white = Image.new("RGBA", image.size, (_WHITE,) * 4)
            on_white = Image.alpha_composite(white, image.convert("RGBA"))
            image = on_white.convert("L" if image.mode == "LA" else "RGB")
        settings = {"quality": jpeg_quality(opened, geometry, changes), "subsampling": 0}
    elif name == "webp":
        image = to_8_bits(image)
        # libwebp stores transparency only where it is used.
        opaque = image.mode not in ("LA", "RGBA") or image.getchannel("A").getextrema()[0] == _WHITE
        image = image.convert("RGB" if opaque else "RGBA")
        lossless = opened.header.format == "webp" and b"VP8L" in _chunks(opened.data)
        settings = {"quality": changes.quality, "lossless": lossless, "exact": lossless}
    profile = opened.image.info.get("icc_profile")
    if changes.color_profile == "keep" and profile and opened.image.mode not in ("CMYK", "LAB"):
        settings["icc_profile"] = profile  # pixels of the two others are RGB now
    image.info = {}
    out = io.BytesIO()
    try:
        image.save(out, name.upper(), **settings)
    except PARSER_ERRORS as error:
        raise unsupported(
            f"{geometry.size[0]} x {geometry.size[1]} pixels cannot be written as {name}: {error}",
        ) from error
    return out.getvalue(), written_header(name, len(image.getbands()), opened, geometry)


def jpeg_quality(opened: Opened, geometry: Geometry, changes: ImageChanges) -> int:
    """The quality of a JPEG that is written; one that is only turned has a higher one."""
    if opened.header.format == "jpeg" and not geometry.is_resized:
        return max(changes.quality, _TURNED_QUALITY)
    return changes.quality


def _chunks(data: bytes) -> list[bytes]:
    """The names of a WebP's chunks."""
    names, offset = [], 12
    while offset + 8 <= len(data):
        names.append(data[offset : offset + 4])
        length = int.from_bytes(data[offset + 4 : offset + 8], "little")
        offset += 8 + length + length % 2
    return names
