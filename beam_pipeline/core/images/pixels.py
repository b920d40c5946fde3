"""Images stored as bare pixels, such as CIFAR's, and how they are encoded."""

from __future__ import annotations

import io
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from beam_pipeline.core.dead_letters import Reason
from beam_pipeline.core.images.header import BadImageError, ImageHeader

RAW_FORMAT = "raw"
"""The value of `image/format` where `image/encoded` is uint8 pixels, row by row, channels together."""
_PNG_LEVEL = 1  # as small as the default of 6 for small photographs, in a sixth less time


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


def pixel_preparer(
    pixels: PixelFormat, image_encoding: str
) -> Callable[[bytes], tuple[bytes, ImageHeader]]:
    """The function that encodes the pixels of an image.

    Args:
      pixels: their layout.
      image_encoding: a name in `IMAGE_ENCODINGS`; "raw" is height x width x 3 bytes.
    """
    return partial(_prepare, pixels=pixels, encode=_ENCODERS[image_encoding], name=image_encoding)


def _prepare(
    data: bytes,
    *,
    pixels: PixelFormat,
    encode: Callable[[bytes, PixelFormat], bytes],
    name: str,
) -> tuple[bytes, ImageHeader]:
    if len(data) != pixels.size:
        raise BadImageError(
            Reason.CORRUPT_IMAGE,
            f"{len(data)} bytes of pixels, expected {pixels.size} "
            f"({pixels.height} x {pixels.width} x 3)",
        )
    plane = pixels.width * pixels.height
    rows = bytearray(pixels.size)
    for channel in range(3):
        rows[channel::3] = data[channel * plane : (channel + 1) * plane]
    return encode(bytes(rows), pixels), ImageHeader(name, pixels.height, pixels.width, 3)


def _to_png(rows: bytes, pixels: PixelFormat) -> bytes:
    from PIL import Image  # few jobs have pixels

    out = io.BytesIO()
    image = Image.frombytes("RGB", (pixels.width, pixels.height), rows)
    image.save(out, "PNG", compress_level=_PNG_LEVEL)
    return out.getvalue()


def _to_raw(rows: bytes, _: PixelFormat) -> bytes:
    return rows


_ENCODERS: dict[str, Callable[[bytes, PixelFormat], bytes]] = {"png": _to_png, RAW_FORMAT: _to_raw}

IMAGE_ENCODINGS = tuple(_ENCODERS)
"""The names that --image_encoding takes; the first is the default."""
