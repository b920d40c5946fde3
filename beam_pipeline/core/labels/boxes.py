"""Bounding boxes: checks, and conversion to fractions of the image."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from beam_pipeline.core.images.header import ImageHeader
from beam_pipeline.core.references import Box

BAD_BOXES = ("drop_object", "drop_image")
"""The values of --bad_boxes: what a box without an area leaves out. The first is the default."""

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
) -> Mapping[int, BadBoxError]:
    """Checks that every box has an area and is inside its image.

    Args:
      boxes: the boxes of one sample.
      header: the header of its image.
      pixels: True if corners are in pixels, False if in fractions.
      clip: True to accept a box that extends beyond the image, which is clipped later.
      ids: the name of each box in the label file, for the message; empty if boxes are not named.

    Returns: index -> fault, of boxes without an area, as they are or cut at the edge of the image.

    Raises:
      BadBoxError: names the first other bad box.
    """
    empty: dict[int, BadBoxError] = {}
    width, height = (header.width, header.height) if pixels else (1, 1)
    room_x, room_y = (
        (ROUNDING_PIXELS, ROUNDING_PIXELS)
        if pixels
        else (ROUNDING_PIXELS / header.width, ROUNDING_PIXELS / header.height)
    )
    for number, (xmin, ymin, xmax, ymax, line) in enumerate(boxes, 1):
        reaches_out = not clip and (
            xmin < -room_x or ymin < -room_y or xmax > width + room_x or ymax > height + room_y
        )
        has_area = xmin < xmax and ymin < ymax
        outside = xmin >= width or ymin >= height or xmax <= 0 or ymax <= 0
        if has_area and not outside and not reaches_out:
            continue
        is_empty = xmin <= xmax and ymin <= ymax and not (has_area and reaches_out)
        if not has_area:
            problem = "has no area" if is_empty else "is inverted"
            problem += " (xmin < xmax and ymin < ymax are expected)"
        elif outside:
            problem = "is outside the image"
        else:
            problem = "reaches out of the image (--clip_boxes cuts such boxes at its edge)"
        unit = f"pixels of {header.width} x {header.height}" if pixels else "fractions of the image"
        name = f"box {number}, id {ids[number - 1]}," if ids else f"box {number}"
        fault = BadBoxError(
            f"{name} (xmin {xmin:g}, ymin {ymin:g}, xmax {xmax:g}, ymax {ymax:g} in {unit}) "
            f"{problem}",
            line,
        )
        if not is_empty:
            raise fault
        empty[number - 1] = fault
    return empty


def box_fractions(
    boxes: Sequence[Box], side: int, header: ImageHeader, *, pixels: bool
) -> list[float]:
    """Returns one side (0 xmin, 1 ymin, 2 xmax, 3 ymax) of each box, clipped to [0, 1]."""
    length = (header.height if side % 2 else header.width) if pixels else 1
    return [min(1.0, max(0.0, box[side] / length)) for box in boxes]
