"""Images that are kept as bare pixels, and how they are written."""

from __future__ import annotations

import io
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from PIL import Image

from transforms.core.dead_letters import Reason
from transforms.core.image_header import BadImageError, ImageHeader

IMAGE_ENCODINGS = ("png", "raw")
RAW_FORMAT = "raw"
"""The value of `image/format` where `image/encoded` is uint8 pixels, row by row, channels together."""


class PixelFormat(NamedTuple):
    """Attributes: height, width; RGB pixels, uint8, one plane of height x width a channel."""

    height: int
    width: int

    @property
    def size(self) -> int:
        """Bytes of an image."""
        return 3 * self.height * self.width


def pixel_preparer(
    pixels: PixelFormat, image_encoding: str
) -> Callable[[bytes], tuple[bytes, ImageHeader]]:
    """What turns the pixels of an image into what is written.

    Args:
      pixels: how they are laid out.
      image_encoding: "png", or "raw" for height x width x 3 bytes as they are.
    """
    encode = {"png": _to_png, "raw": _to_raw}[image_encoding]
    return partial(_prepare, pixels=pixels, encode=encode, name=image_encoding)


def _prepare(
    data: bytes, *, pixels: PixelFormat, encode: Callable[[Image.Image], bytes], name: str
) -> tuple[bytes, ImageHeader]:
    if len(data) != pixels.size:
        raise BadImageError(
            Reason.CORRUPT_IMAGE,
            f"{len(data)} bytes of pixels, expected {pixels.size} "
            f"({pixels.height} x {pixels.width} x 3)",
        )
    size = (pixels.width, pixels.height)
    plane = pixels.width * pixels.height
    planes = [
        Image.frombytes("L", size, data[start : start + plane])
        for start in range(0, pixels.size, plane)
    ]
    image = Image.merge("RGB", planes)
    return encode(image), ImageHeader(name, pixels.height, pixels.width, 3)


def _to_png(image: Image.Image) -> bytes:
    out = io.BytesIO()
    image.save(out, "PNG")
    return out.getvalue()


def _to_raw(image: Image.Image) -> bytes:
    return image.tobytes()
