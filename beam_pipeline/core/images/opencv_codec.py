"""Scales and turns ordinary JPEGs with OpenCV, which takes less time than Pillow.

A JPEG of grey or RGB that is to become a JPEG is decoded, scaled down and encoded by OpenCV. All other
images, and those that are enlarged or cut between pixels, are Pillow's, and so is every conversion of
colours. What OpenCV cannot decode or encode is left to Pillow as well, which can tell why.

To less than half of its sides, an image is scaled by the area of its pixels. Above, that would cost
half of the whole time, so it is first interpolated to twice the size wanted, where all its pixels
still count, and then averaged by two and two and sharpened, which comes closer to Lanczos:

    500 x 375    interpolated 682 x 512    averaged 341 x 256

Only functions of OpenCV are used that give the same pixels on every processor of a kind: not its cubic
or Lanczos interpolation, nor anything of Intel's IPP, whose results depend on the instructions that a
processor has.
"""

from __future__ import annotations

import contextlib
import platform
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import cv2
import numpy as np
from PIL import Image

from beam_pipeline.core.images import header, pillow_codec
from beam_pipeline.core.images.geometry import Geometry, Rectangle
from beam_pipeline.core.references import Size

if TYPE_CHECKING:
    from beam_pipeline.core.images.geometry import ImageChanges

_ORDERS = {"L": "L", "RGB": "BGR"}  # of the channels in OpenCV, by Pillow's mode
_AS_STORED = cv2.IMREAD_IGNORE_ORIENTATION
_PARTS = (8, 4, 2, 1)
_READ = {
    (mode, part): getattr(cv2, f"IMREAD_{'REDUCED_' * (part > 1)}{name}{f'_{part}' * (part > 1)}")
    for mode, name in (("L", "GRAYSCALE"), ("RGB", "COLOR"))
    for part in _PARTS
}
"""Mode, part of its sides that a JPEG is decoded to -> how to read it."""
_CACHED_PARTS = 1024  # most images of a data set are of a few sizes
_OFF = 0.1  # pixels of the scaled image that its edges may be off
_HALF = 2  # from this ratio on, areas are averaged
_SHARPER, _LESS_SHARP = 1.0, 0.35  # the sharpening at ratio r is 1.0 - 0.35 r
_SIGMA = 0.7
_SHARPENED = (3, 3)

_UP_DOWN, _LEFT_RIGHT, _BOTH = 0, 1, -1
_FLIPS = {2: _LEFT_RIGHT, 3: _BOTH, 4: _UP_DOWN, 6: _LEFT_RIGHT, 7: _BOTH, 8: _UP_DOWN}
"""Orientation -> the flip that turns an image, transposed first in quarter turns."""


def codec_version() -> str:
    """Names everything whose version may change the bytes that are written.

    The kind of processor does as well, as OpenCV rounds otherwise on another.
    """
    jpeg = re.search(r"JPEG:.*?\(ver ([^)]*)\)", cv2.getBuildInformation())
    own = f"OpenCV {cv2.__version__} on {platform.machine()}"
    parts = (own, f"its libjpeg {jpeg[1]}" if jpeg else "", pillow_codec.codec_version())
    return ", ".join(filter(None, parts))


def rewrite(
    opened: pillow_codec.Opened, geometry: Geometry, changes: ImageChanges
) -> tuple[bytes, header.ImageHeader]:
    """Decodes an image, changes its geometry and encodes it.

    Args, returns and raises: as `pillow_codec.rewrite`.
    """
    written = None
    if (
        opened.header.format == "jpeg"
        and opened.image.mode in _ORDERS
        and changes.image_format in ("keep", "jpeg")
        and (changes.color_profile == "srgb" or "icc_profile" not in opened.image.info)
    ):
        with _same_anywhere(), contextlib.suppress(cv2.error):  # too little memory, for instance
            written = _rewritten(opened, geometry, changes)
    return written or pillow_codec.rewrite(opened, geometry, changes)


@lru_cache(maxsize=1)
def _use_one_thread() -> None:
    """Makes OpenCV use one thread in this process, as there is a writer process for each CPU."""
    cv2.setNumThreads(1)


@contextlib.contextmanager
def _same_anywhere() -> Iterator[None]:
    """Keeps OpenCV in this thread from using IPP."""
    _use_one_thread()
    used = cv2.ipp.useIPP()
    cv2.ipp.setUseIPP(False)
    try:
        yield
    finally:
        cv2.ipp.setUseIPP(used)


def _rewritten(
    opened: pillow_codec.Opened, geometry: Geometry, changes: ImageChanges
) -> tuple[bytes, header.ImageHeader] | None:
    """The new file and its header; None if OpenCV cannot make it."""
    box, size = geometry.unturned
    part = _part(box, size)
    if not part:
        return None
    mode = opened.image.mode
    pixels = cv2.imdecode(np.frombuffer(opened.data, np.uint8), _READ[mode, part] | _AS_STORED)
    width, height = (-(-side // part) for side in geometry.stored)
    if pixels is None or pixels.shape[:2] != (height, width):
        return None
    left, top, right, bottom = (round(edge / part) for edge in box)
    pixels = _scaled(pixels[top:bottom, left:right], size)
    pixels = _to_srgb(pixels, opened)
    if geometry.orientation in header.QUARTER_TURNS:
        pixels = cv2.transpose(pixels)
    if geometry.orientation in _FLIPS:
        pixels = cv2.flip(pixels, _FLIPS[geometry.orientation])
    height, width = pixels.shape[:2]
    if (width, height) != geometry.size:  # on a canvas, which is black
        canvas = np.zeros((geometry.size[1], geometry.size[0], *pixels.shape[2:]), np.uint8)
        x, y = geometry.offset
        canvas[y : y + height, x : x + width] = pixels
        pixels = canvas
    settings = (
        cv2.IMWRITE_JPEG_QUALITY,
        pillow_codec.jpeg_quality(opened, geometry, changes),
        cv2.IMWRITE_JPEG_SAMPLING_FACTOR,
        cv2.IMWRITE_JPEG_SAMPLING_FACTOR_444,
    )
    encoded, file = cv2.imencode(".jpg", pixels, settings)
    if not encoded:
        return None
    return file.tobytes(), pillow_codec.written_header("jpeg", len(mode), opened, geometry)


@lru_cache(_CACHED_PARTS)
def _part(box: Rectangle, size: Size) -> int:
    """The part of its sides, 8 for an eighth, that a JPEG is decoded to.

    It is the smallest with enough pixels where the edges of the part to keep are between
    two pixels, or 0.
    """
    sides = (box[2] - box[0], box[3] - box[1])
    for part in _PARTS:
        scales = [part * wanted / side for wanted, side in zip(size, sides, strict=True)]
        displaced = [abs(edge / part - round(edge / part)) for edge in box]
        if max(scales) <= 1 and all(
            off * scale <= _OFF for off, scale in zip(displaced, scales * 2, strict=True)
        ):
            return part
    return 0


def _scaled(pixels: Any, size: Size) -> Any:
    """Scales an array of height x width, or of height x width x 3, down to (width, height)."""
    height, width = pixels.shape[:2]
    across, down = width / size[0], height / size[1]
    if (across, down) == (1, 1):
        return pixels
    if max(across, down) >= _HALF:
        return cv2.resize(pixels, size, interpolation=cv2.INTER_AREA)
    sharper = _SHARPER - _LESS_SHARP * (across + down) / 2
    scaled = cv2.resize(pixels, (2 * size[0], 2 * size[1]), interpolation=cv2.INTER_LINEAR)
    scaled = cv2.resize(scaled, size, interpolation=cv2.INTER_AREA)
    blurred = cv2.GaussianBlur(scaled, _SHARPENED, _SIGMA)
    return cv2.addWeighted(scaled, 1 + sharper, blurred, -sharper, 0, dst=blurred)


def _to_srgb(pixels: Any, opened: pillow_codec.Opened) -> Any:
    """Converts the colours, where a file has a profile."""
    profile, mode = opened.image.info.get("icc_profile"), opened.image.mode
    if not profile or not pillow_codec.srgb_transform(profile, mode):
        return pixels
    order = _ORDERS[mode]
    height, width = pixels.shape[:2]
    image = Image.frombuffer(mode, (width, height), pixels.tobytes(), "raw", order, 0, 1)
    converted = pillow_codec.to_srgb(image, profile).tobytes("raw", order)
    return np.frombuffer(converted, np.uint8).reshape(pixels.shape)
