"""The header of an image: its format and size, and the error for bytes that are no usable image."""

from __future__ import annotations

from typing import NamedTuple

from beam_pipeline.core.dead_letters import Reason

FORMATS = {"JPEG": "jpeg", "PNG": "png", "GIF": "gif", "BMP": "bmp", "WEBP": "webp"}
"""Pillow's name -> the value of `image/format`: the formats that `tf.io.decode_image` reads, but for
JPEG XL, which Pillow cannot read by itself."""

MAX_PIXELS = 178_956_970
"""A larger image is a decompression bomb. This is Pillow's own limit for an error."""

REENCODED = "--reencode auto makes it a PNG or JPEG"
"""The way out for images that readers of TFRecords do not decode, and Pillow does."""

PNG_PALETTE = 3
PNG_CHANNELS = {0: 1, 2: 3, PNG_PALETTE: 3, 4: 2, 6: 4}
"""A PNG's colour type -> its channels, as `tf.io.decode_image` returns them."""


class ImageHeader(NamedTuple):
    """The header of an image.

    Attributes:
      format: "jpeg", "png", "gif", "bmp", "webp", "jxl" or "raw".
      height, width: in pixels as stored, before any EXIF rotation.
      channels: as `tf.io.decode_image` returns them.
      orientation: EXIF's, from 1 (upright) to 8.
    """

    format: str
    height: int
    width: int
    channels: int
    orientation: int = 1


class BadImageError(Exception):
    """The bytes cannot become an example. Carries the reason for the dead letter."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def is_bomb(height: int, width: int) -> bool:
    """Tells whether an image claims more pixels than `MAX_PIXELS`."""
    return max(1, height) * max(1, width) > MAX_PIXELS


def bomb(height: int, width: int) -> BadImageError:
    """The error for an image that claims too many pixels."""
    return BadImageError(
        Reason.DECOMPRESSION_BOMB,
        f"the header claims {width} x {height} pixels: more than {MAX_PIXELS} pixels, or a side longer "
        "than decoders accept; scale the image down to keep it",
    )


def cut_short(name: str, what: str) -> BadImageError:
    """The error for an image whose header is sound and whose end is missing."""
    return BadImageError(
        Reason.CORRUPT_IMAGE, f"the {name} header is sound, but the file is cut short: {what}"
    )
