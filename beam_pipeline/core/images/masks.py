"""Masks of objects, from polygons or run lengths to a PNG of the image's size: 1 inside, 0 outside.

An object's shape is a JSON text. It is a list of polygons, each x, y, x, y, ..., or COCO's run
lengths: how many pixels are outside, inside, outside, ..., column by column from the upper left
corner, as numbers or in COCO's compressed form. The same mask of 3 x 2 pixels, its right two columns
filled:

    [[1, 0, 3, 0, 3, 2, 1, 2]]
    {"size": [2, 3], "counts": [2, 4]}
    {"size": [2, 3], "counts": "24"}

A pixel belongs to a polygon if its centre lies inside, by the even-odd rule. Source of the run
lengths: pycocotools, maskApi.c. TensorFlow's Object Detection API and Model Garden read such PNGs as
image/object/mask.
"""

from __future__ import annotations

import io
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from beam_pipeline.core.dead_letters import Reason
from beam_pipeline.core.images.geometry import Affine
from beam_pipeline.core.images.header import BadImageError, ImageHeader
from beam_pipeline.core.labels.numbers import is_finite, is_integer
from beam_pipeline.core.references import Size

if TYPE_CHECKING:
    from PIL import Image

_PNG_LEVEL = 1  # a mask is a few runs; higher levels save nothing and take longer
_LEAST_POINTS = 3
_RUNS = re.compile(rb"\x00+|\x01+")


class BadShapeError(ValueError):
    """A shape is neither polygons nor run lengths."""


def check_shape(shape: Any) -> None:
    """Makes sure that a shape, as JSON has it, can be drawn on an image of its size.

    Raises:
      BadShapeError: says what it is instead.
    """
    if isinstance(shape, dict):
        size, counts = shape.get("size"), shape.get("counts")
        if not isinstance(size, list) or len(size) != 2 or not all(map(is_integer, size)):
            raise BadShapeError("run lengths without a size [height, width]")
        if min(size) < 0:
            raise BadShapeError(f"run lengths of {size[0]} x {size[1]} pixels")
        if sum(_counts(counts)) != size[0] * size[1]:
            raise BadShapeError(f"run lengths that do not add up to {size[0]} x {size[1]} pixels")
        return
    if not isinstance(shape, list) or not shape:
        raise BadShapeError("neither polygons nor run lengths")
    for polygon in shape:
        if not isinstance(polygon, list) or not all(map(is_finite, polygon)):
            raise BadShapeError("a polygon that is not a list of numbers")
        if len(polygon) % 2 or len(polygon) < 2 * _LEAST_POINTS:
            raise BadShapeError(
                f"a polygon of {len(polygon)} numbers, expected three points or more"
            )


def mask_png(shape: str, header: ImageHeader, *, pixels: bool) -> bytes:
    """Draws one object as a grey PNG of 8 bits.

    Args:
      shape: JSON text of a shape that `check_shape` accepts.
      header: of the image.
      pixels: whether polygons are in pixels, else fractions of the image.

    Raises:
      BadImageError: run lengths are of an image of another size.
    """
    from PIL import Image  # few jobs have masks

    width, height = header.width, header.height
    found = json.loads(shape)
    if isinstance(found, dict):
        image = _from_runs(found, (width, height))
    else:
        mask = bytearray(width * height)
        scale_x, scale_y = (1, 1) if pixels else (width, height)
        for polygon in found:
            points = [
                (x * scale_x, y * scale_y) for x, y in zip(polygon[::2], polygon[1::2], strict=True)
            ]
            _fill(mask, points, width, height)
        image = Image.frombytes("L", (width, height), bytes(mask))
    out = io.BytesIO()
    image.save(out, "PNG", compress_level=_PNG_LEVEL)
    return out.getvalue()


def moved_shape(shape: str, *, outlines: Affine, affine: Affine, size: Size, to_size: Size) -> str:
    """Moves an object's shape with its image.

    Args:
      shape: JSON text of a shape that `check_shape` accepts.
      outlines: the map for the points of polygons, in their own unit.
      affine: the map for pixels.
      size: (width, height) of the image before.
      to_size: (width, height) afterwards.

    Raises:
      BadImageError: run lengths are of an image of another size.
    """
    found = json.loads(shape)
    if isinstance(found, list):
        return json.dumps(
            [
                [
                    value
                    for x, y in zip(p[::2], p[1::2], strict=True)
                    for value in outlines.point(x, y)
                ]
                for p in found
            ]
        )
    from PIL import Image

    mask = moved_mask(_from_runs(found, size), affine, to_size)
    by_column = mask.transpose(Image.Transpose.TRANSPOSE).tobytes()
    runs = [len(run) for run in _RUNS.findall(by_column)]
    counts = [0, *runs] if by_column[:1] == b"\1" else runs
    return json.dumps({"size": [to_size[1], to_size[0]], "counts": counts})


def moved_mask(mask: Image.Image, affine: Affine, size: Size) -> Image.Image:
    """Moves a mask with its image: each pixel becomes that of the nearest place before, or 0.

    Args:
      mask: of any mode that holds one number a pixel.
      affine: the map from its places, in pixels, to those of the result.
      size: (width, height) of the result.
    """
    from PIL import Image

    return mask.transform(
        size, Image.Transform.AFFINE, tuple(affine.inverse()), Image.Resampling.NEAREST
    )


def moved_png(mask: bytes, affine: Affine, size: Size) -> bytes:
    """Moves a mask that is a grey PNG of 8 or 16 bits, as `moved_mask` does."""
    from PIL import Image

    with Image.open(io.BytesIO(mask)) as opened:
        moved = moved_mask(opened, affine, size)
    moved.info = {}
    out = io.BytesIO()
    moved.save(out, "PNG", compress_level=_PNG_LEVEL)
    return out.getvalue()


def _from_runs(shape: Mapping[str, Any], size: Size) -> Image.Image:
    """The mask of run lengths. Raises BadImageError if the image is not of their size."""
    from PIL import Image

    width, height = size
    if shape["size"] != [height, width]:
        raise BadImageError(
            Reason.SIZE_MISMATCH,
            f"a mask of {shape['size'][1]} x {shape['size'][0]} pixels, the image has {width} x "
            f"{height}; take the image that was labelled, or scale the mask",
        )
    by_column = Image.frombytes("L", (height, width), _runs(shape))
    return by_column.transpose(Image.Transpose.TRANSPOSE)


def _fill(mask: bytearray, points: Sequence[tuple[float, float]], width: int, height: int) -> None:
    """Sets the pixels of a polygon, row by row: between each two crossings of a row's centre line."""
    crossings: dict[int, list[float]] = {}
    for (x1, y1), (x2, y2) in zip(points, (*points[1:], points[0]), strict=True):
        if y1 > y2:
            x1, y1, x2, y2 = x2, y2, x1, y1
        for row in range(max(0, math.ceil(y1 - 0.5)), min(height, math.ceil(y2 - 0.5))):
            crossings.setdefault(row, []).append(x1 + (row + 0.5 - y1) / (y2 - y1) * (x2 - x1))
    for row, columns in crossings.items():
        columns.sort()
        for start, end in zip(columns[::2], columns[1::2], strict=True):
            first = min(width, max(0, math.ceil(start - 0.5)))
            last = min(width, max(0, math.ceil(end - 0.5)))
            mask[row * width + first : row * width + last] = b"\1" * (last - first)


def _runs(shape: Mapping[str, Any]) -> bytes:
    """The pixels of run lengths, column by column."""
    return b"".join(bytes((i % 2,)) * count for i, count in enumerate(_counts(shape["counts"])))


def _counts(counts: Any) -> list[int]:
    """Run lengths as numbers. Raises BadShapeError."""
    if isinstance(counts, str):
        counts = list(_decompressed(counts))
    if not isinstance(counts, list) or not all(is_integer(n) and n >= 0 for n in counts):
        raise BadShapeError("run lengths that are neither whole numbers nor COCO's compressed form")
    return counts


def _decompressed(text: str) -> Iterator[int]:
    """Run lengths of COCO's text: 5 bits a character from "0" on, the sixth says that more follow.

    From the fourth on, a number is the difference to the one two places before it.
    """
    before: list[int] = []
    number = shift = 0
    for character in text:
        bits = ord(character) - 48
        if not 0 <= bits < 64:
            raise BadShapeError(f"{character!r} in run lengths, expected COCO's compressed form")
        number |= (bits & 31) << shift
        shift += 5
        if bits & 32:
            continue
        if bits & 16:
            number -= 1 << shift
        if len(before) > 2:
            number += before[-2]
        before.append(number)
        yield number
        number = shift = 0
    if shift:
        raise BadShapeError("run lengths that are cut short")
