"""Bounding boxes: checks, and conversion to fractions of the image."""

from __future__ import annotations

from collections.abc import Sequence

from beam_pipeline.core.images.header import ImageHeader
from beam_pipeline.core.references import Box

ROUNDING_PIXELS = 1.0
"""The distance that a corner may be outside its image and still count as a rounding error."""


class BadBoxError(Exception):
    """A box does not fit its image. `line` is the label file's, 0 without lines."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.line = line


def check_boxes(
    boxes: Sequence[Box],
    header: ImageHeader,
    *,
    pixels: bool,
    clip: bool = False,
    ids: Sequence[object] = (),
) -> None:
    """Checks that every box has an area and is inside its image.

    Args:
      boxes: the boxes of one sample.
      header: the header of its image.
      pixels: True if corners are in pixels, False if in fractions.
      clip: True to accept a box that extends beyond the image, which is clipped later. A box that
        is entirely outside is bad in any case.
      ids: the name of each box in the label file, for the message; empty if boxes are not named.

    Raises:
      BadBoxError: names the first bad box.
    """
    width, height = (header.width, header.height) if pixels else (1, 1)
    room_x, room_y = (
        (ROUNDING_PIXELS, ROUNDING_PIXELS)
        if pixels
        else (ROUNDING_PIXELS / header.width, ROUNDING_PIXELS / header.height)
    )
    for number, (xmin, ymin, xmax, ymax, line) in enumerate(boxes, 1):
        if not (xmin < xmax and ymin < ymax):
            problem = "is inverted or has no area (xmin < xmax and ymin < ymax are expected)"
        elif xmin >= width or ymin >= height or xmax <= 0 or ymax <= 0:
            problem = "is outside the image"
        elif not clip and (
            xmin < -room_x or ymin < -room_y or xmax > width + room_x or ymax > height + room_y
        ):
            problem = "reaches out of the image (--clip_boxes cuts such boxes at its edge)"
        else:
            continue
        unit = f"pixels of {header.width} x {header.height}" if pixels else "fractions of the image"
        name = f"box {number}, id {ids[number - 1]}," if ids else f"box {number}"
        raise BadBoxError(
            f"{name} (xmin {xmin:g}, ymin {ymin:g}, xmax {xmax:g}, ymax {ymax:g} in {unit}) "
            f"{problem}",
            line,
        )


def box_fractions(
    boxes: Sequence[Box], side: int, header: ImageHeader, *, pixels: bool
) -> list[float]:
    """Returns one side (0 xmin, 1 ymin, 2 xmax, 3 ymax) of each box, clipped to [0, 1]."""
    length = (header.height if side % 2 else header.width) if pixels else 1
    return [min(1.0, max(0.0, box[side] / length)) for box in boxes]
