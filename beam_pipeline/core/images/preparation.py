"""Prepares an image for its example: checks its bytes, reads its header, and filters it by size.

A new check is a function of the type `ImageCheck` and a line in `IMAGE_CHECKS`; a new filter is a
line in `FILTERS`, whose option has the same name. Sides are the file's, before an image is
turned or resized. `MAX_IMAGE_BYTES` is applied to the size that was listed, so that what it leaves out
is not read. A new library that encodes images is a module with two functions, and a line in `IMAGE_CODECS`.
"""

from __future__ import annotations

import importlib
import io
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from xxhash import xxh3_128_digest

from beam_pipeline.core import errors, text
from beam_pipeline.core.dead_letters import Reason
from beam_pipeline.core.images import gif_bmp_jxl, jpeg, png
from beam_pipeline.core.images.geometry import PILLOW
from beam_pipeline.core.images.header import RAW_FORMAT as RAW_FORMAT
from beam_pipeline.core.images.header import BadImageError, ImageHeader, out_of_memory

if TYPE_CHECKING:
    from PIL import Image

    from beam_pipeline.core.images.pillow_codec import Opened

digest_of: Callable[[bytes], bytes] = xxh3_128_digest
"""An image -> its digest: XXH3 of 128 bits, which takes 4 us for 110 kB, where SHA-256 takes 150.

It is not a cryptographic hash: somebody who wants to can make two images with the same one.
"""


_PNG_LEVEL = 1  # as small as the default of 6 for masks and small photographs, in a sixth less time


class PixelFormat(NamedTuple):
    """The layout of RGB pixels: uint8, one plane of height x width a channel.

    Attributes:
      height, width: in pixels.
    """

    height: int
    width: int

    @property
    def size(self) -> int:
        """Bytes of an image."""
        return 3 * self.height * self.width


def encoded_pixels(data: bytes, pixels: PixelFormat, encoding: str) -> tuple[bytes, ImageHeader]:
    """Encodes the bare pixels of an image.

    Args:
      data: the pixels.
      pixels: their layout.
      encoding: a name in `IMAGE_ENCODINGS`; "raw" is height x width x 3 bytes.

    Raises:
      BadImageError: there are more or fewer.
    """
    height, width = pixels
    if len(data) != pixels.size:
        raise BadImageError(
            Reason.CORRUPT_IMAGE,
            f"{len(data)} bytes of pixels, expected {pixels.size} ({height} x {width} x 3)",
        )
    rows = bytearray(pixels.size)
    for channel in range(3):
        rows[channel::3] = data[channel * height * width : (channel + 1) * height * width]
    image = bytes(rows)
    if encoding == "png":
        from PIL import Image  # few jobs have pixels

        image = png_of(Image.frombytes("RGB", (width, height), image))
    return image, ImageHeader(encoding, height, width, 3)


def png_of(image: Image.Image) -> bytes:
    """An image as a PNG, of the same bytes with the same zlib."""
    out = io.BytesIO()
    image.save(out, "PNG", compress_level=_PNG_LEVEL)
    return out.getvalue()


IMAGE_ENCODINGS = ("png", RAW_FORMAT)
"""The names that --image_encoding takes; the first is the default."""


FILTERS: Mapping[str, tuple[Reason, Callable[[int, int, float], bool]]] = {
    "min_side": (Reason.FILTERED_MIN_SIDE, lambda short, _, limit: short < limit),
    "max_aspect": (Reason.FILTERED_MAX_ASPECT, lambda short, long, limit: long > limit * short),
    "max_pixels": (Reason.FILTERED_MAX_PIXELS, lambda short, long, limit: short * long > limit),
}
"""Option -> the reason of the dead letter, and (shorter side, longer side, limit) -> whether an image is left out.

They are applied in this order.
"""

MAX_IMAGE_BYTES = "max_image_bytes"
"""The option that limits the size of files."""

FILTER_NAMES = (*FILTERS, MAX_IMAGE_BYTES)
"""The options, in the order of manifests."""

FILTER_REASONS: Mapping[Reason, str] = {
    **{reason: name for name, (reason, _) in FILTERS.items()},
    Reason.FILTERED_MAX_IMAGE_BYTES: MAX_IMAGE_BYTES,
}
"""Reason of a dead letter -> the option that asked for it."""

Limits = Mapping[str, float]
"""Option, of those given -> its value."""


def check_sides(header: ImageHeader, limits: Limits) -> None:
    """Applies the filters that look at headers. Raises BadImageError for an image that is left out."""
    short, long = sorted(header.size)
    for name, (reason, is_outside) in FILTERS.items():
        if name in limits and is_outside(short, long, limits[name]):
            limit = str(limits[name]).removesuffix(".0")
            fault = f"{header.width} x {header.height} pixels; --{name} is {limit}"
            raise BadImageError(reason, fault)


def outside_bytes(size: int, limits: Limits) -> str:
    """Tells what is wrong with the size of a file; empty if it is not left out.

    Args:
      size: as listed, in bytes.
      limits: the filters given.
    """
    limit = limits.get(MAX_IMAGE_BYTES, size)
    return f"{size} bytes; --{MAX_IMAGE_BYTES} is {limit}" if size > limit else ""


ImageCheck = Callable[[bytes], ImageHeader]
"""An image file -> its header. Raises BadImageError."""


_OWN_READERS = (
    (png.MAGIC, png.png_header, png.check_png),
    (gif_bmp_jxl.GIF_MAGIC, gif_bmp_jxl.gif_header, gif_bmp_jxl.check_gif),
    (gif_bmp_jxl.BMP_MAGIC, gif_bmp_jxl.bmp_header, gif_bmp_jxl.bmp_header),
    (gif_bmp_jxl.JXL_STARTS, gif_bmp_jxl.jxl_header, gif_bmp_jxl.check_jxl),
)
"""(first bytes, reader of the header, reader of all) of each format, by TensorFlow's rules."""


def read_header(data: bytes) -> ImageHeader:
    """Reads the header of an image, without decoding it, and looks for its end.

    Raises:
      BadImageError: not an image, not of a format that `tf.io.decode_image` reads, broken, cut short, or too many pixels.
    """
    if header := jpeg.jpeg_header(data):
        return header
    for magic, read, _ in _OWN_READERS:
        if data.startswith(magic):
            return read(data)
    # Pillow takes long to import, and most jobs never need it.
    from beam_pipeline.core.images.pillow_header import read_any

    return _in_memory(read_any, data)


def decode_fully(data: bytes) -> ImageHeader:
    """Reads the header of an image and decodes every pixel, as TensorFlow does and as Pillow does.

    Raises:
      BadImageError: as `read_header`, and where the pixels cannot be decoded.
    """
    from beam_pipeline.core.images.pillow_header import check_agreement, read_any

    for magic, _, check in _OWN_READERS:
        if data.startswith(magic):
            header = _in_memory(check, data)
            if header.format == "jxl":  # which Pillow alone cannot read
                return header
            return _in_memory(partial(check_agreement, header), data)
    return _in_memory(partial(read_any, pixels=True), data)


def _in_memory(read: ImageCheck, data: bytes) -> ImageHeader:
    """Reads an image with Pillow; an image that needs too much memory is a bad image."""
    try:
        return read(data)
    except MemoryError as error:
        raise out_of_memory("reading") from error


IMAGE_CHECKS: Mapping[str, ImageCheck] = {"header": read_header, "full": decode_fully}
"""--image_check -> how an image file is checked; the first is the default."""


def check_any_format(check: ImageCheck, image: bytes) -> ImageHeader:
    """Checks an image; passes those also which readers cannot decode, but which can be re-encoded."""
    try:
        return check(image)
    except BadImageError as error:
        if error.reason is not Reason.UNSUPPORTED_FORMAT:
            raise
    return opened(image).header


def opened(image: bytes) -> Opened:
    """An image as `pillow_codec.open_image` opens it, which most jobs never need: Pillow takes long to import."""
    from beam_pipeline.core.images.pillow_codec import open_image

    return open_image(image)


IMAGE_CODECS: Mapping[str, str] = {"pillow": "Pillow", "opencv": "opencv-python-headless"}
"""--image_codec -> package that pip installs; the first, `geometry.PILLOW`, is the default.

The module of a codec, beside this one, has the functions of `pillow_codec`.
"""


def load_codec(name: str) -> Any:
    """Imports the module of a codec, which takes long, by its name in `IMAGE_CODECS`.

    Raises:
      UsageError: its library is not installed.
    """
    try:
        return importlib.import_module(f"beam_pipeline.core.images.{name}_codec")
    except ImportError as error:
        raise errors.UsageError(
            f"--image_codec {name} needs the package {IMAGE_CODECS[name]}, which cannot be imported here "
            f"({text.excerpt(error)}): pip install 'beam-tfrecord[{name}]'; or leave the option out"
        ) from error


def codec_here(name: str) -> str:
    """Names what encodes images here, with versions, by a name in `IMAGE_CODECS`. Raises UsageError.

    Args:
      name: or what this returned when a data set was begun, with other versions.
    """
    return str(load_codec(_codec_of(name)).codec_version())


def check_codec(expected: str) -> None:
    """Makes sure that images are encoded here by the versions that a data set was begun with.

    Args:
      expected: as `codec_here` has it; empty where it does not matter.

    Raises:
      CodecError: by others.
      UsageError: the library is not installed.
    """
    if expected and expected != (here := codec_here(expected)):
        raise errors.CodecError(other_codec(expected, here))


def other_codec(expected: str, here: str) -> str:
    """The message for images that were encoded by another library, or by other versions."""
    name = _codec_of(expected)
    advice = f"Give --image_codec {name}"
    if name == _codec_of(here):
        package = IMAGE_CODECS[name]
        advice = f"Install the same versions (the first decides: pip install {package}==...)"
    return (
        f"images are encoded by {expected}, and here by {here}, which may give other bytes. "
        f"{advice}, or convert again with --overwrite"
    )


def _codec_of(recorded: str) -> str:
    """The --image_codec that a name with versions begins with; the default for an unknown one."""
    return next((name for name in IMAGE_CODECS if recorded.lower().startswith(name)), PILLOW)
