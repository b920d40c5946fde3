"""Prepares an image for its example: checks its bytes, reads its header, and may encode it anew.

A new kind of preparation is a function of the type `ImagePreparer` and a line in `IMAGE_CHECKS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import TypeVar

from beam_pipeline.core.dead_letters import Reason
from beam_pipeline.core.images import bmp, gif, jxl, png
from beam_pipeline.core.images.filters import Limits, header_filter
from beam_pipeline.core.images.header import BadImageError, ImageHeader
from beam_pipeline.core.images.pixels import PixelFormat, pixel_preparer
from beam_pipeline.core.images.plain_header import plain_header

_Read = TypeVar("_Read")

ImagePreparer = Callable[[bytes], tuple[bytes, ImageHeader]]
"""An image's bytes -> the bytes to write, and their header. Raises BadImageError."""


_OWN_READERS = (
    (png.MAGIC, png.png_header, png.check_png),
    (gif.MAGIC, gif.gif_header, gif.check_gif),
    (bmp.MAGIC, bmp.bmp_header, bmp.bmp_header),
    ((jxl.MAGIC, jxl.CONTAINER), jxl.jxl_header, jxl.check_jxl),
)
"""(first bytes, reader of the header, reader of all) of each format, by TensorFlow's rules."""


def read_header(data: bytes) -> ImageHeader:
    """Reads the header of an image, without decoding it, and looks for its end.

    Raises:
      BadImageError: not an image, not one of `FORMATS`, broken, cut short, or too many pixels.
    """
    return plain_header(data) or read_unusual_header(data)


def read_unusual_header(data: bytes) -> ImageHeader:
    """Does what `read_header` does, for any file and slowly.

    Raises:
      BadImageError: as `read_header`.
    """
    for magic, read, _ in _OWN_READERS:
        if data.startswith(magic):
            return read(data)
    # Pillow takes long to import, and most jobs never need it.
    from beam_pipeline.core.images.pillow_header import read_any_header

    return _in_memory(read_any_header, data)


def decode_fully(data: bytes) -> ImageHeader:
    """Reads the header of an image and decodes every pixel, as TensorFlow does and as Pillow does.

    Raises:
      BadImageError: as `read_header`, and where the pixels cannot be decoded.
    """
    from beam_pipeline.core.images.pillow_header import check_agreement, decode_any

    for magic, _, check in _OWN_READERS:
        if not data.startswith(magic):
            continue
        header = check(data)
        if header.format != "jxl":  # which Pillow alone cannot read
            _in_memory(partial(check_agreement, header), data)
        return header
    return _in_memory(decode_any, data)


def _in_memory(read: Callable[[bytes], _Read], data: bytes) -> _Read:
    """Reads an image with Pillow; an image that needs too much memory is a bad image."""
    try:
        return read(data)
    except MemoryError as error:
        raise BadImageError(
            Reason.DECOMPRESSION_BOMB, "reading it takes more memory than there is"
        ) from error


def check_header(image: bytes) -> tuple[bytes, ImageHeader]:
    """Passes an image on unchanged, after reading its header."""
    return image, read_header(image)


def check_fully(image: bytes) -> tuple[bytes, ImageHeader]:
    """Passes an image on unchanged, after decoding every pixel."""
    return image, decode_fully(image)


IMAGE_CHECKS: Mapping[str, ImagePreparer] = MappingProxyType(
    {"header": check_header, "full": check_fully}
)
"""--image_check -> how an image file is checked; the first is the default."""


def passing_any_format(check: ImagePreparer) -> ImagePreparer:
    """A check that also passes images which readers cannot decode, but which can be encoded anew."""

    def check_any(image: bytes) -> tuple[bytes, ImageHeader]:
        try:
            return check(image)
        except BadImageError as error:
            if error.reason is not Reason.UNSUPPORTED_FORMAT:
                raise
        from beam_pipeline.core.images.pillow_codec import open_image

        return image, open_image(image).header

    return check_any


def image_preparer(
    image_check: str,
    pixels: PixelFormat | None,
    image_encoding: str,
    filters: Limits = MappingProxyType({}),
    *,
    any_format: bool = False,
) -> ImagePreparer:
    """The preparation of all images of a data set.

    Args:
      image_check: a name in `IMAGE_CHECKS`, for images that are files.
      pixels: the layout of images that are bare pixels; None where they are files.
      image_encoding: a name in `IMAGE_ENCODINGS`, for bare pixels.
      filters: those given.
      any_format: whether images that readers cannot decode pass, to be encoded anew.
    """
    check = pixel_preparer(pixels, image_encoding) if pixels else IMAGE_CHECKS[image_check]
    return _filtered(passing_any_format(check) if any_format else check, filters)


def _filtered(prepare: ImagePreparer, filters: Limits) -> ImagePreparer:
    """Filters images by their headers; the same preparer where nothing is to be filtered."""
    check = header_filter(filters)
    if check is None:
        return prepare

    def prepare_wanted(image: bytes) -> tuple[bytes, ImageHeader]:
        image, header = prepare(image)
        check(header)
        return image, header

    return prepare_wanted
