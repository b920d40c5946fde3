"""The changes to images that options ask for, and the map from an image to its changed copy, in pixels.

A `Geometry` is planned from the size of an image alone. The image follows it, and so do boxes, points
and masks, through its `affine` map. Places are in pixels from the upper left corner: a pixel of the
first row reaches from y = 0 to y = 1, its centre is at y = 0.5.

    stored 40 x 30    turned 30 x 40    cropped 30 x 30    scaled 15 x 15    on a canvas of 20 x 20
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

from beam_pipeline.core.dead_letters import Reason
from beam_pipeline.core.images.header import QUARTER_TURNS, UPRIGHT, BadImageError, ImageHeader
from beam_pipeline.core.references import Size

Rectangle = tuple[float, float, float, float]
"""xmin, ymin, xmax, ymax."""

_DECIMALS = 2  # of a pixel: fractions of an image, as YOLO has them, are not exact
_CACHED_PLANS = 1024  # most images of a data set are of a few sizes


class Affine(NamedTuple):
    """The map x' = a x + b y + c, y' = d x + e y + f."""

    a: float = 1
    b: float = 0
    c: float = 0
    d: float = 0
    e: float = 1
    f: float = 0

    def point(self, x: float, y: float) -> tuple[float, float]:
        """The image of a point."""
        return self.a * x + self.b * y + self.c, self.d * x + self.e * y + self.f

    def box(self, box: Rectangle) -> Rectangle:
        """The image of a rectangle, whose sides stay parallel to the axes."""
        x1, y1 = self.point(box[0], box[1])
        x2, y2 = self.point(box[2], box[3])
        return min(x1, x2), min(y1, y2), max(x1, x2), max(y1, y2)

    def then(self, after: Affine) -> Affine:
        """This map, and another after it."""
        return Affine(
            after.a * self.a + after.b * self.d,
            after.a * self.b + after.b * self.e,
            after.a * self.c + after.b * self.f + after.c,
            after.d * self.a + after.e * self.d,
            after.d * self.b + after.e * self.e,
            after.d * self.c + after.e * self.f + after.f,
        )

    def inverse(self) -> Affine:
        """The map back."""
        scale = 1 / (self.a * self.e - self.b * self.d)
        a, b, d, e = self.e * scale, -self.b * scale, -self.d * scale, self.a * scale
        return Affine(a, b, -(a * self.c + b * self.f), d, e, -(d * self.c + e * self.f))

    @property
    def area(self) -> float:
        """The area of the unit square's image."""
        return abs(self.a * self.e - self.b * self.d)


def turned_size(size: Size, orientation: int) -> Size:
    """Width and height of an image as a viewer shows it, given those stored."""
    return (size[1], size[0]) if orientation in QUARTER_TURNS else size


def orienting(size: Size, orientation: int) -> Affine:
    """The map from places in the stored image, of this size, to those in the image as shown."""
    width, height = size
    return {
        1: Affine(),
        2: Affine(-1, 0, width, 0, 1, 0),
        3: Affine(-1, 0, width, 0, -1, height),
        4: Affine(1, 0, 0, 0, -1, height),
        5: Affine(0, 1, 0, 1, 0, 0),
        6: Affine(0, -1, height, 1, 0, 0),
        7: Affine(0, -1, height, -1, 0, width),
        8: Affine(0, 1, 0, -1, 0, width),
    }[orientation]


@dataclass(frozen=True)
class Geometry:
    """The steps that change the pixels of an image.

    Attributes:
      stored: (width, height) before.
      orientation: the EXIF rotation that is applied; 1 for none.
      crop: the part of the turned image that is kept.
      scaled: (width, height) of that part, after scaling.
      offset: (x, y) of its upper left corner on the canvas.
      size: (width, height) of the canvas, which is the image that is written.
    """

    stored: Size
    orientation: int
    crop: Rectangle
    scaled: Size
    offset: tuple[int, int]
    size: Size

    @cached_property
    def is_identity(self) -> bool:
        """True if the image is not changed."""
        return self == plan_geometry(self.stored, UPRIGHT, None)

    @cached_property
    def is_resized(self) -> bool:
        """True if it does more than turn the image."""
        return self != plan_geometry(self.stored, self.orientation, None)

    @cached_property
    def unturned(self) -> tuple[Rectangle, Size]:
        """The part of the stored image that is kept, and (width, height) of that part, scaled but not turned."""
        box = orienting(self.stored, self.orientation).inverse().box(self.crop)
        return box, turned_size(self.scaled, self.orientation)

    @property
    def affine(self) -> Affine:
        """The map from places in the stored image to those in the image that is written."""
        left, top, right, bottom = self.crop
        x, y = self.scaled[0] / (right - left), self.scaled[1] / (bottom - top)
        placed = Affine(x, 0, self.offset[0] - left * x, 0, y, self.offset[1] - top * y)
        return orienting(self.stored, self.orientation).then(placed)


# --- what is asked for ----------------------------------------------------------------------------

RESIZE_MODES = ("shortest", "longest", "exact", "pad", "crop")
"""The values of --resize_mode; the first is the default.

shortest covers the target and longest fits into it, both with their aspect ratio; exact stretches; pad
fits and fills up; crop covers and cuts off.
"""

ORIENTATIONS = ("keep", "apply", "refuse")
"""The values of --orientation."""

REENCODE = ("never", "auto", "always")
"""The values of --reencode."""

IMAGE_FORMATS = ("keep", "jpeg", "png", "webp")
COLOR_PROFILES = ("srgb", "keep")
ANIMATED = ("first_frame", "refuse")
"""The values of --image_format, --color_profile and --animated; the first is the default."""

PILLOW = "pillow"
"""The default of --image_codec; `preparation.IMAGE_CODECS` has all values."""

QUALITY = 90


@dataclass(frozen=True)
class CropBoxes:
    """Cuts an object out of its image.

    Attributes:
      margin: fraction of the box's width and height that is added on each side.
      min_side: the shortest side of a box, in pixels, that is cut out.
    """

    margin: float = 0.0
    min_side: int = 1

    def window(self, box: Rectangle, size: Size) -> Rectangle:
        """The whole pixels of an image of this size that are cut out.

        Raises:
          BadImageError: the box is too small.
        """
        width, height = box[2] - box[0], box[3] - box[1]
        if min(width, height) < self.min_side:
            raise BadImageError(
                Reason.SMALL_BOX,
                f"the box has {width:g} x {height:g} pixels, its shorter side fewer than {self.min_side}; "
                "--crop_min_side sets the limit",
            )
        x, y = self.margin * width, self.margin * height
        sides = (box[0] - x, box[1] - y, box[2] + x, box[3] + y)
        left, top, right, bottom = (round(side, _DECIMALS) for side in sides)
        return (
            *(max(0, math.floor(left)), max(0, math.floor(top))),
            *(min(size[0], math.ceil(right)), min(size[1], math.ceil(bottom))),
        )


@dataclass(frozen=True)
class ImageChanges:
    """The changes to images before they are written.

    Attributes:
      orientation: one of `ORIENTATIONS`; empty for the default, which depends on the labels
        and the other changes.
      resize: width and height of the target; None to leave sizes.
      resize_mode: a name in `RESIZE_MODES`.
      never_enlarge: images are never scaled up.
      image_format: one of `IMAGE_FORMATS`.
      quality: of JPEG and WebP, up to 100.
      reencode: one of `REENCODE`.
      color_profile: one of `COLOR_PROFILES`.
      animated: one of `ANIMATED`.
      image_codec: a name in `preparation.IMAGE_CODECS`.
      crop: how objects are cut out; None to keep images whole.
      codec: the versions of the libraries that encode; empty where images are rewritten only to
        turn them, by the default library.
    """

    orientation: str = ""
    resize: tuple[int, int] | None = None
    resize_mode: str = RESIZE_MODES[0]
    never_enlarge: bool = True
    image_format: str = IMAGE_FORMATS[0]
    quality: int = QUALITY
    reencode: str = REENCODE[0]
    color_profile: str = COLOR_PROFILES[0]
    animated: str = ANIMATED[0]
    image_codec: str = PILLOW
    codec: str = ""
    crop: CropBoxes | None = None

    @cached_property
    def encodes(self) -> bool:
        """True if images may be re-encoded for another reason than to turn them."""
        changed = self.resize or self.crop or self.image_format != "keep"
        return bool(changed) or self.reencode != "never"

    def recorded(self) -> dict[str, Any]:
        """The values that are not at their defaults, for JSON; `from_recorded` reads them."""
        defaults = dataclasses.asdict(ImageChanges())
        given = dataclasses.asdict(self)
        return {name: value for name, value in given.items() if value != defaults[name]}

    @classmethod
    def from_recorded(cls, values: Mapping[str, Any]) -> ImageChanges:
        """The changes that `recorded` returned."""
        resize, crop = values.get("resize"), values.get("crop")
        sides = tuple(resize) if resize else None
        return cls(**{**values, "resize": sides, "crop": CropBoxes(**crop) if crop else None})


# --- plans ----------------------------------------------------------------------------------------


def _scaled(size: Size, target: Size, *, cover: bool, never_enlarge: bool) -> Size:
    """A size scaled, with its aspect ratio, to cover the target or to fit into it."""
    (width, height), (target_width, target_height) = size, target
    by_width = (target_width * height >= target_height * width) == cover
    over, under = (target_width, width) if by_width else (target_height, height)
    if over >= under and never_enlarge:
        return size
    # The other side is rounded half up, in integers.
    return (
        target_width if by_width else max(1, (2 * width * over + under) // (2 * under)),
        max(1, (2 * height * over + under) // (2 * under)) if by_width else target_height,
    )


def _fitted(
    size: Size, target: Size, mode: str, *, never_enlarge: bool
) -> tuple[Rectangle, Size, tuple[int, int], Size]:
    """(crop, scaled, offset, size), as `Geometry` has them, of a turned image."""
    (width, height), whole = size, (0, 0, *size)
    least = (min(width, target[0]), min(height, target[1]))
    if mode == "exact":
        scaled = least if never_enlarge else target
    else:
        cover = mode in ("shortest", "crop")
        scaled = _scaled(size, target, cover=cover, never_enlarge=never_enlarge)
    if mode == "pad":
        offset = ((target[0] - scaled[0]) // 2, (target[1] - scaled[1]) // 2)
        return whole, scaled, offset, target
    if mode != "crop":
        return whole, scaled, (0, 0), scaled
    if scaled == size:  # whole pixels are cut off
        left, top = (width - least[0]) // 2, (height - least[1]) // 2
        return (left, top, left + least[0], top + least[1]), least, (0, 0), least
    part = (min(scaled[0], target[0]), min(scaled[1], target[1]))
    x = (width - min(float(width), target[0] * height / target[1])) / 2
    y = (height - min(float(height), target[1] * width / target[0])) / 2
    return (x, y, width - x, height - y), part, (0, 0), part


@lru_cache(_CACHED_PLANS)
def plan_geometry(
    size: Size, orientation: int, changes: ImageChanges | None, window: Rectangle | None = None
) -> Geometry:
    """Plans what happens to an image.

    Args:
      size: (width, height) as stored.
      orientation: EXIF's, if the image is to be turned; else 1.
      changes: the size that it is to have, if any.
      window: whole pixels of the turned image that are cut out before; None for all of it.
    """
    left, top, right, bottom = window or (0, 0, *turned_size(size, orientation))
    part = int(right - left), int(bottom - top)
    if not changes or not changes.resize:
        return Geometry(size, orientation, (left, top, right, bottom), part, (0, 0), part)
    mode, never_enlarge = changes.resize_mode, changes.never_enlarge
    crop, *steps = _fitted(part, changes.resize, mode, never_enlarge=never_enlarge)
    crop = (left + crop[0], top + crop[1], left + crop[2], top + crop[3])
    return Geometry(size, orientation, crop, *steps)


def check_claimed_size(claimed: Size | None, header: ImageHeader, *, boxes: bool) -> None:
    """Makes sure that an image has the size that its label file states.

    Boxes in pixels of another size would be in the wrong places. Width and height may be swapped
    where the label file lacks boxes, or where EXIF states that a viewer turns the image.

    Args:
      claimed: (width, height); None if the label file gives none, and many tools write 0.
      header: of the image.
      boxes: whether the labels have boxes.

    Raises:
      BadImageError: it has another size.
    """
    if claimed is None or claimed == header.size or min(claimed) <= 0:
        return
    swapped = claimed == header.size[::-1]
    if swapped and (not boxes or header.orientation in QUARTER_TURNS):
        return
    hint = "; width and height are swapped, and EXIF does not turn the image" if swapped else ""
    raise BadImageError(
        Reason.SIZE_MISMATCH,
        f"the label file is for an image of {claimed[0]} x {claimed[1]} pixels, this one has "
        f"{header.width} x {header.height}{hint}; take the image that was labelled, or correct the "
        "size and the boxes in the label file; in a table, --columns width:skip ignores the size",
    )
