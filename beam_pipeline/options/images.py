"""Options that say how images are checked and stored."""

from __future__ import annotations

import math
from dataclasses import dataclass

from beam_pipeline.options.group import OptionGroup, option
from beam_pipeline.options.values import parse_size
from beam_pipeline.transforms.core.images.filters import FILTER_NAMES
from beam_pipeline.transforms.core.images.pixels import IMAGE_ENCODINGS
from beam_pipeline.transforms.core.images.preparation import IMAGE_CHECKS


@dataclass(frozen=True)
class ImageOptions(OptionGroup):
    """Image checks, filters and encoding, and how many bad images to accept."""

    title = "images"

    image_check: str = option(
        next(iter(IMAGE_CHECKS)),
        choices=tuple(IMAGE_CHECKS),
        help="header checks that each file is an image, full also decodes it (default: %(default)s)",
    )
    image_encoding: str | None = option(
        None,
        choices=IMAGE_ENCODINGS,
        help="encoding of images stored as bare pixels, as in CIFAR (default: png)",
    )
    clip_boxes: bool = option(
        False,
        help="clip boxes at the edge of their image (default: an image with a box outside is "
        "rejected)",
    )
    max_bad_fraction: float = option(
        0.01,
        metavar="FRACTION",
        parse=float,
        between=(0, 1),
        help="fail if more than this fraction of the listed images is bad (default: %(default)s)",
    )
    min_side: int | None = option(
        None,
        metavar="PIXELS",
        parse=int,
        between=(1, math.inf),
        help="leave out images with a shorter side (default: none)",
    )
    max_aspect: float | None = option(
        None,
        metavar="RATIO",
        parse=float,
        between=(1, 1e9),
        help="leave out images whose longer side is more than RATIO times the shorter (default: none)",
    )
    max_pixels: int | None = option(
        None,
        metavar="N",
        parse=int,
        between=(1, math.inf),
        help="leave out images with more pixels than width x height = N (default: none)",
    )
    max_image_bytes: int | None = option(
        None,
        metavar="SIZE",
        parse=parse_size,
        between=(1, math.inf),
        help="leave out larger files, such as 20MB, without reading them (default: none)",
    )

    @property
    def filters(self) -> dict[str, float]:
        """The filters given: option -> its value, in the order of `FILTER_NAMES`."""
        values = {name: getattr(self, name) for name in FILTER_NAMES}
        return {name: value for name, value in values.items() if value is not None}
