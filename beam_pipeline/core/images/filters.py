"""Filters: sound images that are not wanted, by their size.

A filter is a function from the header to what it found, and a line in `FILTERS`; its option has the
same name. Sides are those of the file, before an image is turned or resized. `MAX_IMAGE_BYTES` is
applied to the size that was listed, so that what it leaves out is not read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from beam_pipeline.core.dead_letters import Reason
from beam_pipeline.core.images.header import BadImageError, ImageHeader


class ImageFilter(NamedTuple):
    """A filter of images whose header is read.

    Attributes:
      reason: of the dead letter.
      is_outside: (header, limit) -> whether the image is left out.
      finding: (header) -> what the message says was found.
    """

    reason: Reason
    is_outside: Callable[[ImageHeader, float], bool]
    finding: Callable[[ImageHeader], str]


def _sides(header: ImageHeader) -> str:
    return f"{header.width} x {header.height} pixels"


def _aspect(header: ImageHeader) -> str:
    longest, shortest = max(header.height, header.width), min(header.height, header.width)
    return f"{_sides(header)}, {longest / shortest:.4g} to 1"


FILTERS: Mapping[str, ImageFilter] = MappingProxyType(
    {
        "min_side": ImageFilter(
            Reason.FILTERED_MIN_SIDE,
            lambda header, limit: min(header.height, header.width) < limit,
            _sides,
        ),
        "max_aspect": ImageFilter(
            Reason.FILTERED_MAX_ASPECT,
            lambda header, limit: (
                max(header.height, header.width) > limit * min(header.height, header.width)
            ),
            _aspect,
        ),
        "max_pixels": ImageFilter(
            Reason.FILTERED_MAX_PIXELS,
            lambda header, limit: header.height * header.width > limit,
            lambda header: f"{_sides(header)}, {header.height * header.width} in all",
        ),
    }
)
"""Option -> filter, in the order in which they are applied."""

MAX_IMAGE_BYTES = "max_image_bytes"
"""The option that limits the size of files."""

FILTER_NAMES = (*FILTERS, MAX_IMAGE_BYTES)
"""The options, in the order in which manifests record them."""

FILTER_REASONS: Mapping[Reason, str] = MappingProxyType(
    {
        **{chosen.reason: name for name, chosen in FILTERS.items()},
        Reason.FILTERED_MAX_IMAGE_BYTES: MAX_IMAGE_BYTES,
    }
)
"""Reason of a dead letter -> the option that asked for it."""

Limits = Mapping[str, float]
"""Option, of those given -> its value."""


def header_filter(limits: Limits) -> Callable[[ImageHeader], None] | None:
    """The filters that look at headers, as one function; None if none is given.

    It raises BadImageError for an image that is left out.
    """
    given: Sequence[tuple[str, ImageFilter, float]] = [
        (name, chosen, limits[name]) for name, chosen in FILTERS.items() if name in limits
    ]
    if not given:
        return None

    def check(header: ImageHeader) -> None:
        for name, chosen, limit in given:
            if chosen.is_outside(header, limit):
                raise BadImageError(
                    chosen.reason, f"{chosen.finding(header)}; --{name} is {limit:.17g}"
                )

    return check


def outside_bytes(size: int, limits: Limits) -> str:
    """Tells what is wrong with the size of a file; empty if it is not left out.

    Args:
      size: as listed, in bytes.
      limits: the filters given.
    """
    limit = limits.get(MAX_IMAGE_BYTES)
    if limit is None or size <= limit:
        return ""
    return f"{size} bytes; --{MAX_IMAGE_BYTES} is {limit}"
