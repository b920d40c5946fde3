"""Boxes, points and masks in their image: checked, converted to its fractions, and moved with it.

Labels follow an image which is turned, cropped, scaled or padded. They keep their unit: pixels become pixels of the
image that is written, fractions its fractions. An object whose box is outside of what a crop keeps is left out, with
all that is known of it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from beam_pipeline.core.images import geometry, png
from beam_pipeline.core.images.header import ImageHeader
from beam_pipeline.core.images.masks import moved_png, moved_shape
from beam_pipeline.core.labels import schema
from beam_pipeline.core.references import Box, LabelValue, Size

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
    room_x = ROUNDING_PIXELS * width / header.width
    room_y = ROUNDING_PIXELS * height / header.height
    are_fractions = pixels and min(width, height) > 1 and _are_fractions(boxes)
    for number, (xmin, ymin, xmax, ymax, line) in enumerate(boxes, 1):
        reaches_out = not clip and (
            xmin < -room_x or ymin < -room_y or xmax > width + room_x or ymax > height + room_y
        )
        has_area = xmin < xmax and ymin < ymax
        outside = xmin >= width or ymin >= height or xmax <= 0 or ymax <= 0
        if has_area and not (outside or reaches_out or are_fractions):
            continue
        is_fault = has_area and (reaches_out or are_fractions)
        is_empty = xmin <= xmax and ymin <= ymax and not is_fault
        problem = "reaches out of the image (--clip_boxes cuts such boxes at its edge)"
        if not has_area:
            problem = "has no area" if is_empty else "is inverted"
            problem += " (xmin < xmax and ymin < ymax are expected)"
        elif outside:
            problem = "is outside the image"
        elif are_fractions:
            problem = (
                "is inside the first pixel, like all of its image; such corners look like fractions"
            )
        unit = f"pixels of {header.width} x {header.height}" if pixels else "fractions of the image"
        name = f"box {number}, id {ids[number - 1]}," if ids else f"box {number}"
        corners = f"xmin {xmin:g}, ymin {ymin:g}, xmax {xmax:g}, ymax {ymax:g} in {unit}"
        fault = BadBoxError(f"{name} ({corners}) {problem}", line)
        if not is_empty:
            raise fault
        empty[number - 1] = fault
    return empty


def _are_fractions(boxes: Sequence[Box]) -> bool:
    """True for boxes that are all between 0 and 1, and not all of whole numbers."""
    in_a_pixel = all(0 <= corner <= 1 for box in boxes for corner in box[:4])
    return in_a_pixel and any(corner % 1 for box in boxes for corner in box[:4])


def box_fractions(
    boxes: Sequence[Box], side: int, header: ImageHeader, *, pixels: bool
) -> list[float]:
    """Returns one side (0 xmin, 1 ymin, 2 xmax, 3 ymax) of each box, clipped to [0, 1]."""
    length = (header.height if side % 2 else header.width) if pixels else 1
    return [min(1.0, max(0.0, box[side] / length)) for box in boxes]


_AREA = f"{schema.OBJECT_PREFIX}area"
_NUM = "/num"  # of a feature of points: how many of each object's are labelled


@dataclass(frozen=True)
class Move:
    """The map of labels from the picture that they were measured on to the one that is written.

    Attributes:
      size: (width, height) of the picture that they were measured on.
      affine: the map from its places, in pixels, to the other's.
      to_size: (width, height) of the other.
    """

    size: Size
    affine: geometry.Affine
    to_size: Size

    def in_unit(self, *, pixels: bool) -> geometry.Affine:
        """The map between places in pixels, or between fractions of both pictures."""
        if pixels:
            return self.affine
        (width, height), (to_width, to_height) = self.size, self.to_size
        enlarged = geometry.Affine(width, 0, 0, 0, height, 0).then(self.affine)
        return enlarged.then(geometry.Affine(1 / to_width, 0, 0, 0, 1 / to_height, 0))


def is_located(kind: schema.ColumnKind) -> bool:
    """Tells whether columns of a kind are coordinates in the image, or pictures that are changed with it."""
    return kind in _MOVERS or kind in schema.FOLLOWING


def move_labels(
    labels: Sequence[LabelValue], columns: Sequence[schema.Column], move: Move
) -> tuple[tuple[LabelValue, ...], int]:
    """Moves the labels of a sample.

    Args:
      labels: a value for each column.
      columns: the columns.
      move: where to.

    Returns: the labels, and the number of objects that were left out.

    Raises:
      BadImageError: a mask is of another size than the picture.
    """
    moved: list[Any] = [
        _MOVERS[column.kind](value, column, move) if value and column.kind in _MOVERS else value
        for column, value in zip(columns, labels, strict=True)
    ]
    dropped = 0
    for index, column in enumerate(columns):
        if column.kind is schema.ColumnKind.BOX and moved[index]:
            width, height = move.to_size if column.pixels else (1, 1)
            inside = [
                max(0, xmin) < min(width, xmax) and max(0, ymin) < min(height, ymax)
                for xmin, ymin, xmax, ymax, _ in moved[index]
            ]
            dropped = len(inside) - sum(inside)
            if dropped:
                moved = [*without_boxes(moved, columns, index, inside)]
            break
    index_of = {column.feature: index for index, column in enumerate(columns)}
    area = index_of.get(_AREA)
    if area is not None and moved[area]:
        moved[area] = tuple(value * move.affine.area for value in moved[area])
    for index, column in enumerate(columns):
        if column.kind is schema.ColumnKind.POINT and moved[index]:
            _hide_points(moved, index, column, index_of, move)
    return tuple(moved), dropped


def _boxes(boxes: Any, column: schema.Column, move: Move) -> Any:
    """Cuts boxes at the edges of their picture and moves them."""
    affine = move.in_unit(pixels=column.pixels)
    width, height = move.size if column.pixels else (1, 1)
    return tuple(
        (
            *affine.box((max(0.0, xmin), max(0.0, ymin), min(width, xmax), min(height, ymax))),
            line,
        )
        for xmin, ymin, xmax, ymax, line in boxes
    )


def _points(points: Any, column: schema.Column, move: Move) -> Any:
    affine = move.in_unit(pixels=column.pixels)
    pairs = map(affine.point, points[::2], points[1::2])
    return tuple(value for pair in pairs for value in pair)


def _masks(shapes: Any, column: schema.Column, move: Move) -> Any:
    outlines = move.in_unit(pixels=column.pixels)
    return tuple(
        moved_shape(
            shape, outlines=outlines, affine=move.affine, size=move.size, to_size=move.to_size
        )
        for shape in shapes
    )


def _files(masks: Any, _: schema.Column, move: Move) -> Any:
    """Moves masks that are files: each part that is a PNG, and leaves what else there is."""
    return tuple(
        tuple(
            moved_png(part, move.affine, move.to_size) if part.startswith(png.MAGIC) else part
            for part in parts
        )
        for parts in masks
    )


_MOVERS: Mapping[schema.ColumnKind, Callable[[Any, schema.Column, Move], Any]] = MappingProxyType(
    {
        schema.ColumnKind.BOX: _boxes,
        schema.ColumnKind.POINT: _points,
        schema.ColumnKind.MASK: _masks,
        **dict.fromkeys(schema.MASK_KINDS, _files),
    }
)
"""Functions that make values of a kind follow their image; other kinds are not coordinates."""


def without_boxes(
    labels: Sequence[LabelValue], columns: Sequence[schema.Column], boxes: int, keep: Sequence[bool]
) -> tuple[LabelValue, ...]:
    """The labels of a sample without some boxes of a column and all that is known of their objects.

    Args:
      labels: a value for each column.
      columns: the columns. The first of boxes is of objects; others are of regions to ignore.
      boxes: the index of the column.
      keep: a value for each of its boxes.
    """
    kinds = [column.kind for column in columns]
    if boxes != kinds.index(schema.ColumnKind.BOX):
        region: Any = labels[boxes]
        return (*labels[:boxes], tuple(itertools.compress(region, keep)), *labels[boxes + 1 :])
    return tuple(
        value
        if column.kind is schema.ColumnKind.BOX and index != boxes
        else _kept(value, column, keep)
        for index, (value, column) in enumerate(zip(labels, columns, strict=True))
    )


def _kept(values: Any, column: schema.Column, inside: Sequence[bool]) -> Any:
    """The values of the objects that are kept; an object may have several, one after another."""
    if not column.feature.startswith(schema.OBJECT_PREFIX) or not isinstance(values, tuple):
        return values
    each, rest = divmod(len(values), len(inside))
    of_values = (keep for keep in inside for _ in range(each))
    return values if rest else tuple(itertools.compress(values, of_values))


def _hide_points(
    moved: list[Any], points: int, column: schema.Column, index_of: Mapping[str, int], move: Move
) -> None:
    """Gives points that are not labelled, or outside now, the place 0, 0 and the visibility 0, if they have one."""
    visibility = index_of.get(f"{column.feature}{schema.VISIBILITY}")
    if visibility is None:
        return
    width, height = move.to_size if column.pixels else (1, 1)
    flags, places = list(moved[visibility]), list(moved[points])
    for number, flag in enumerate(flags):
        x, y = places[2 * number : 2 * number + 2]
        if not flag or not (0 <= x <= width and 0 <= y <= height):
            places[2 * number : 2 * number + 2] = (0.0, 0.0)
            flags[number] = 0
    moved[points], moved[visibility] = tuple(places), tuple(flags)
    num = index_of.get(f"{column.feature}{_NUM}")
    if num is not None and moved[num]:
        each = len(flags) // len(moved[num])
        objects = (flags[start : start + each] for start in range(0, len(flags), each))
        moved[num] = tuple(sum(flag > 0 for flag in of_object) for of_object in objects)
