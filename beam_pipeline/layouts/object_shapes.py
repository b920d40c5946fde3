"""Objects of labelling tools that are neither boxes nor polygons: round, or drawn pixel by pixel."""

from __future__ import annotations

import base64
import io
import math
import re
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from beam_pipeline.core.references import Size
from beam_pipeline.layouts.entries import LabelledObject
from beam_pipeline.layouts.label_files import BadLabelError

MOST_PIXELS = 1 << 28
"""Of an image with masks."""

_RUNS = re.compile(rb"\x00+|\x01+")
_BITS = bytes([0, *[1] * 255])
_CIRCLE_POINTS = 64  # of an outline; for a circle of 1,000 pixels it is off by half a pixel


def objects_of(
    shapes: Iterable[Any], read: Callable[[Any], LabelledObject | str], noun: str
) -> tuple[list[LabelledObject], list[str]]:
    """The objects of an image, and the kinds of those without a box.

    Args:
      shapes: as the label file has them.
      read: the object of a shape, or its kind.
      noun: for messages.

    Raises:
      BadLabelError: names the number of a faulty shape.
    """
    objects, left_out = [], []
    for number, shape in enumerate(shapes, 1):
        try:
            labelled = read(shape)
        except BadLabelError as error:
            raise BadLabelError(f"{noun} {number}: {error}") from error
        if isinstance(labelled, str):
            left_out.append(labelled)
        else:
            objects.append(labelled)
    return objects, left_out


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
    cos, sin = math.cos(angle), math.sin(angle)
    outline: list[float] = []
    for i in range(_CIRCLE_POINTS):
        step = 2 * math.pi * i / _CIRCLE_POINTS
        right, down = width * math.cos(step), height * math.sin(step)
        outline += [x + right * cos - down * sin, y + right * sin + down * cos]
    across, up = math.hypot(width * cos, height * sin), math.hypot(width * sin, height * cos)
    return LabelledObject(label, (x - across, y - up, x + across, y + up), outline, attributes)


def with_holes(outer: Sequence[float], holes: Sequence[Sequence[float]]) -> list[float]:
    """One outline of a polygon with holes, joined by lines that are there twice and so enclose nothing."""
    outline = [*outer, *outer[:2]] if holes else [*outer]
    for hole in holes:
        outline += [*hole, *hole[:2], *outer[:2]]
    return outline


def pixels_of(text: Any, *, compressed: bool = False) -> tuple[Size, bytes]:
    """The size of a mask's PNG in base64, and 0 or 1 for each of its pixels, row by row.

    Its alpha channel counts if it has one.

    Args:
      text: the PNG.
      compressed: True if zlib has compressed it.
    """
    from PIL import Image  # few jobs have masks

    try:
        data = base64.b64decode(text, validate=True)
        data = zlib.decompressobj().decompress(data, MOST_PIXELS) if compressed else data
        with Image.open(io.BytesIO(data), formats=("PNG",)) as image:
            band = image.getchannel("A") if "A" in image.getbands() else image
            if band.mode not in ("1", "L", "P"):
                raise ValueError(f"{band.mode} is not one channel of 1 or 8 bits")
            band = band.convert("L") if band.mode == "1" else band
            return band.size, band.tobytes().translate(_BITS)
    except (
        *(TypeError, ValueError, OSError, SyntaxError, zlib.error),
        *(Image.DecompressionBombError, Image.DecompressionBombWarning),
    ) as error:
        raise BadLabelError(f"a mask that is not a PNG in base64: {error}") from error


def cut_out(
    label: str,
    corner: Sequence[float],
    part: tuple[Size, bytes],
    size: Size | None,
    attributes: Mapping[str, Any],
    *,
    masks: bool,
) -> LabelledObject:
    """An object that is drawn pixel by pixel, whose outline is run lengths as in COCO.

    Args:
      label: its class.
      corner: x and y of the part's upper left corner.
      part: size of the part of the image that it is in, and 0 or 1 for each pixel, row by row.
      size: the image's.
      attributes: further values.
      masks: False if the outline is not needed; making it takes the memory of the image.

    Raises:
      BadLabelError: the part is not inside the image.
    """
    (left, top), ((width, height), pixels) = map(int, corner), part
    box = (left, top, left + width, top + height)
    if not masks:
        return LabelledObject(label, box, {"counts": ""}, attributes)
    if not size or size[0] * size[1] > MOST_PIXELS:
        raise BadLabelError("a mask without the size of its image, or of a too large one")
    if min(left, top) < 0 or left + width > size[0] or top + height > size[1]:
        place = f"{width} x {height} pixels at {left}, {top}"
        raise BadLabelError(f"a mask of {place}, outside of the image of {size[0]} x {size[1]}")
    columns = bytes(size[1] - height).join(pixels[x::width] for x in range(width))
    before = left * size[1] + top
    whole = bytes(before) + columns + bytes(size[0] * size[1] - before - len(columns))
    counts = [0] * (whole[:1] == b"\1") + [len(run) for run in _RUNS.findall(whole)]
    outline = {"size": [size[1], size[0]], "counts": counts}
    return LabelledObject(label, box, outline, attributes)
