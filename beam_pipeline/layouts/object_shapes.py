"""Objects of labelling tools that are neither boxes nor polygons: round, or drawn pixel by pixel."""

from __future__ import annotations

import base64
import binascii
import io
import math
import re
import zlib
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from beam_pipeline.core.images.header import BadImageError
from beam_pipeline.core.images.preparation import read_header
from beam_pipeline.core.references import Size
from beam_pipeline.layouts.entries import LabelledObject
from beam_pipeline.layouts.label_files import BadLabelError

UNREAD: Mapping[str, Any] = MappingProxyType({"counts": ""})
"""The outline of a mask whose pixels are not needed."""

_RUNS = re.compile(rb"\x00+|\x01+")
_MOST_PIXELS = 1 << 28  # of an image with masks
_BITS = bytes([0, *[1] * 255])
_CIRCLE_POINTS = 64  # of the outline of a circle; a 1,000 pixels wide one is off by half a pixel


def ellipse(
    label: str, sides: Sequence[float], angle: float, attributes: Mapping[str, Any]
) -> LabelledObject:
    """An ellipse that is turned clockwise around its centre.

    Args:
      label: its class.
      sides: x and y of the centre, half of its width and height before it is turned.
      angle: in radians.
      attributes: further values.
    """
    x, y, width, height = sides
    if width <= 0 or height <= 0:
        raise BadLabelError(f"an ellipse whose half axes are {width:g} and {height:g}")
    steps = [2 * math.pi * i / _CIRCLE_POINTS for i in range(_CIRCLE_POINTS)]
    points = [(width * math.cos(step), height * math.sin(step)) for step in steps]
    half = math.hypot(width * math.cos(angle), height * math.sin(angle))
    across = math.hypot(width * math.sin(angle), height * math.cos(angle))
    box = (x - half, y - across, x + half, y + across)
    return LabelledObject(label, box, _turned(points, x, y, angle), attributes)


def _turned(points: Sequence[tuple[float, float]], x: float, y: float, angle: float) -> list[float]:
    cos, sin = math.cos(angle), math.sin(angle)
    return [value for a, b in points for value in (x + a * cos - b * sin, y + a * sin + b * cos)]


def with_holes(outer: Sequence[float], holes: Sequence[Sequence[float]]) -> list[float]:
    """One outline of a polygon with holes, joined by lines that are there twice and so enclose nothing."""
    outline = [*outer, *outer[:2]] if holes else [*outer]
    for hole in holes:
        outline += [*hole, *hole[:2], *outer[:2]]
    return outline


def run_lengths(
    pixels: bytes, width: int, corner: tuple[int, int], size: Size | None
) -> Mapping[str, Any]:
    """The run lengths, as in COCO, of a mask that is cut out of its image.

    Args:
      pixels: 0 or 1 for each pixel of the part, row by row.
      width: of the part.
      corner: x and y of its upper left corner in the image.
      size: the image's.

    Raises:
      BadLabelError: the part is not inside the image.
    """
    left, top = corner
    height = len(pixels) // width
    if not size or size[0] * size[1] > _MOST_PIXELS:
        raise BadLabelError("a mask without the size of its image, or of a too large one")
    if min(corner) < 0 or left + width > size[0] or top + height > size[1]:
        part = f"{width} x {height} pixels at {left}, {top}"
        raise BadLabelError(f"a mask of {part}, outside of the image of {size[0]} x {size[1]}")
    columns = bytes(size[1] - height).join(pixels[x::width] for x in range(width))
    before = left * size[1] + top
    whole = bytes(before) + columns + bytes(size[0] * size[1] - before - len(columns))
    counts = [len(run) for run in _RUNS.findall(whole)]
    return {"size": [size[1], size[0]], "counts": [0, *counts] if whole[:1] == b"\1" else counts}


def decoded(text: Any, *, compressed: bool = False) -> bytes:
    """The bytes of a mask's PNG in base64. Raises BadLabelError."""
    try:
        data = base64.b64decode(text, validate=True)
        return zlib.decompressobj().decompress(data, _MOST_PIXELS) if compressed else data
    except (TypeError, ValueError, binascii.Error, zlib.error) as error:
        raise BadLabelError(f"a mask that is not a PNG in base64: {error}") from error


def png_size(data: bytes) -> Size:
    """The size of a mask's PNG. Raises BadLabelError."""
    try:
        header = read_header(data)
    except BadImageError as error:
        raise BadLabelError(f"a mask that is not a PNG: {error}") from error
    if header.width * header.height > _MOST_PIXELS:
        raise BadLabelError(f"a mask of {header.width} x {header.height} pixels")
    return header.width, header.height


def png_runs(data: bytes, corner: tuple[int, int], size: Size | None) -> Mapping[str, Any]:
    """The `run_lengths` of a mask's PNG, whose alpha channel counts if it has one. Raises BadLabelError."""
    return run_lengths(_pixels(data), png_size(data)[0], corner, size)


def _pixels(data: bytes) -> bytes:
    from PIL import Image  # few jobs have masks

    png_size(data)
    try:
        with Image.open(io.BytesIO(data)) as image:
            band = image.getchannel("A") if "A" in image.getbands() else image
            band = band.convert("L") if band.mode == "1" else band
            pixels, mode = band.tobytes(), band.mode
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise BadLabelError(f"a mask whose PNG is broken: {error}") from error
    if mode not in ("L", "P"):
        raise BadLabelError(f"a mask in a PNG of mode {mode}, expected one channel of 1 or 8 bits")
    return pixels.translate(_BITS)
