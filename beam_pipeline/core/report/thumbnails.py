"""Thumbnails of images, with their masks drawn over them."""

from __future__ import annotations

import base64
import contextlib
import io
from typing import NamedTuple

from PIL import Image, ImageChops, JpegImagePlugin

from beam_pipeline.core.images import header, pillow_header

SIDE = 160  # pixels, of the longer side
LARGE_SIDE = 384  # where boxes are drawn over it
_MOST_PIXELS = 50_000_000  # that are decoded for a thumbnail; a JPEG is decoded smaller than it is
_JPEG_SCALE = 8**2
_QUALITY = 70
_SMALL = 64  # pixels; smaller images are shown as they are
_GREY = (128, 128, 128)  # under transparent pixels
_MASK_SHARE = 0.55
_UNDECODABLE = (*pillow_header.PARSER_ERRORS, header.BadImageError, Image.DecompressionBombError)


class Thumbnail(NamedTuple):
    """A small picture of an image.

    Attributes:
      uri: a data URI.
      width, height: of the thumbnail in pixels.
    """

    uri: str
    width: int
    height: int


def thumbnail(data: bytes, mask: bytes = b"", side: int = SIDE) -> Thumbnail | None:
    """Makes a thumbnail; None if Pillow cannot decode the image, or it is too large.

    Args:
      data: the image.
      mask: a PNG of its size whose pixels are ids, or empty.
      side: the most pixels of the longer side.

    Raises:
      MemoryError: the image needs more than there is.
    """
    small = small_image(data, side)
    if small is None:
        return None
    with contextlib.suppress(*_UNDECODABLE):
        drawn = pillow_header.open_as(mask, pillow_header.OWN_FORMATS) if mask else None
        if drawn is not None and not _is_too_large(drawn):
            small = _with_mask(small, drawn)
    return _encoded(small)


def small_image(data: bytes, side: int) -> Image.Image | None:
    """Decodes an image to RGB, at most so many pixels wide and high; what is transparent becomes grey.

    None if Pillow cannot decode it, or it is too large.
    """
    with contextlib.suppress(*_UNDECODABLE):
        pillow_header.check_scans(data)
        image = pillow_header.open_as(data, pillow_header.OWN_FORMATS)
        if image is not None and not _is_too_large(image):
            return _small(image, side)
    return None


def _is_too_large(image: Image.Image) -> bool:
    scale = _JPEG_SCALE if isinstance(image, JpegImagePlugin.JpegImageFile) else 1
    return image.width * image.height > _MOST_PIXELS * scale


def _small(image: Image.Image, side: int) -> Image.Image:
    """Decodes and scales an image, and makes it RGB."""
    if isinstance(image, JpegImagePlugin.JpegImageFile):
        image.draft("RGB", (side, side))
    if image.mode.startswith("I"):
        _, image = _bytes_of(image)
    elif image.mode not in ("RGB", "L"):
        colours = image.convert("RGBA")
        image = Image.new("RGB", image.size, _GREY)
        image.paste(colours, mask=colours.getchannel("A"))
    image.thumbnail((side, side), Image.Resampling.BILINEAR, reducing_gap=2.0)
    return image.convert("RGB")


def _bytes_of(image: Image.Image) -> tuple[Image.Image, Image.Image]:
    """The low and the high byte of each pixel of 16 bits."""
    data = image.tobytes("raw", "I;16" if image.mode.startswith("I;16") else "I")
    step = len(data) // (image.width * image.height)
    low, high = (Image.frombytes("L", image.size, data[start::step]) for start in (0, 1))
    return low, high


def _with_mask(image: Image.Image, mask: Image.Image) -> Image.Image:
    """Draws each id of a mask in a separate colour; 0, the background, is not drawn."""
    ids = mask.resize(image.size, Image.Resampling.NEAREST)
    drawn_ids = ids
    if ids.mode.startswith("I"):
        ids, high = _bytes_of(ids)
        drawn_ids = ImageChops.lighter(ids, high)
    colours = ids.convert("L")
    colours.putpalette([channel for number in range(256) for channel in mask_colour(number)])
    drawn = Image.blend(image, colours.convert("RGB"), _MASK_SHARE)
    return Image.composite(drawn, image, drawn_ids.convert("L").point([0] + [255] * 255))


def mask_colour(number: int) -> tuple[int, int, int]:
    """A colour for an id; numbers near each other differ."""
    channels = [0, 0, 0]
    for bit in range(8):  # the lowest bits of the number become the highest of the channels
        channels[bit % 3] |= (number >> bit & 1) << (7 - bit // 3)
    return channels[0], channels[1], channels[2]


def _encoded(image: Image.Image) -> Thumbnail:
    """Encodes a thumbnail: a small drawing as PNG, any other as JPEG."""
    file = io.BytesIO()
    kind = "png" if max(image.size) <= _SMALL else "jpeg"
    image.save(file, kind, quality=_QUALITY)
    data = base64.b64encode(file.getvalue()).decode()
    return Thumbnail(f"data:image/{kind};base64,{data}", *image.size)
