"""Options that tell how images are checked and stored."""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass

from beam_pipeline.core.dataset.duplicates import POLICIES
from beam_pipeline.core.errors import UsageError
from beam_pipeline.core.images.changes import (
    ANIMATED,
    COLOR_PROFILES,
    IMAGE_FORMATS,
    ORIENTATIONS,
    QUALITY,
    REENCODE,
    ImageChanges,
)
from beam_pipeline.core.images.geometry import RESIZE_MODES
from beam_pipeline.core.images.preparation import (
    FILTER_NAMES,
    IMAGE_CHECKS,
    IMAGE_CODECS,
    IMAGE_ENCODINGS,
)
from beam_pipeline.core.labels.boxes import BAD_BOXES
from beam_pipeline.options.group import OptionGroup, option
from beam_pipeline.options.values import (
    parse_side_lengths,
    parse_size,
    parse_truth,
    side_lengths,
)


@dataclass(frozen=True)
class ImageOptions(OptionGroup):
    """Image checks, filters and encoding, and how many bad images to accept."""

    title = "images"

    image_check: str = option(
        next(iter(IMAGE_CHECKS)),
        choices=tuple(IMAGE_CHECKS),
        help="header reads the header and the end of each file; full also decodes it (default: %(default)s)",
    )
    image_encoding: str | None = option(
        None,
        choices=IMAGE_ENCODINGS,
        help="encoding of images stored as bare pixels, as in CIFAR (default: png)",
    )
    orientation: str | None = option(
        None,
        choices=ORIENTATIONS,
        help="images with an EXIF rotation: keep them as stored, apply the rotation to pixels and labels, or "
        "refuse them (default: apply if labels have boxes, masks or points, or if images are encoded "
        "anyway; otherwise keep)",
    )
    resize: str | None = option(
        None,
        common=True,
        metavar="SIZE",
        parse=parse_side_lengths,
        help="scale images with their boxes, masks and points: 256, or WIDTHxHEIGHT such as 320x240 "
        "(default: no scaling)",
    )
    resize_mode: str = option(
        next(iter(RESIZE_MODES)),
        choices=tuple(RESIZE_MODES),
        help="shortest (cover the size), longest (fit into it), exact (stretch), pad (fit, then fill the "
        "rest), or crop (cover, then trim) (default: %(default)s)",
    )
    never_enlarge: bool = option(
        True,
        metavar="true|false",
        parse=parse_truth,
        choices=(True, False),
        help="do not enlarge images that are smaller than --resize (default: true)",
    )
    image_format: str = option(
        IMAGE_FORMATS[0],
        choices=IMAGE_FORMATS,
        help="format of all images (default: %(default)s)",
    )
    quality: int = option(
        QUALITY,
        metavar="N",
        parse=int,
        between=(1, 100),
        help="quality of JPEG and WebP images that are encoded (default: %(default)s)",
    )
    reencode: str | None = option(
        None,
        choices=REENCODE,
        help="re-encode images: never, auto (those that readers cannot decode or show wrongly: TIFF, AVIF, "
        "HEIC, JPEG 2000, CMYK, transparent palettes), or always (default: auto with --resize or "
        "--image_format, otherwise never)",
    )
    image_codec: str = option(
        next(iter(IMAGE_CODECS)),
        choices=tuple(IMAGE_CODECS),
        help="library that scales, rotates and encodes; opencv is faster for JPEGs, and pillow still "
        "handles other formats (default: %(default)s)",
    )
    color_profile: str = option(
        COLOR_PROFILES[0],
        choices=COLOR_PROFILES,
        help="convert re-encoded images to sRGB, or keep their ICC profile (default: %(default)s)",
    )
    animated: str = option(
        ANIMATED[0],
        choices=ANIMATED,
        help="re-encode the first frame of an animation, or refuse animations (default: %(default)s)",
    )
    clip_boxes: bool = option(
        False,
        help="clip boxes at the edge of their image (default: leave the image out)",
    )
    bad_boxes: str = option(
        BAD_BOXES[0],
        choices=BAD_BOXES,
        help="what a box without an area leaves out: its object, or its whole image (default: %(default)s)",
    )
    max_bad_fraction: float = option(
        0.01,
        common=True,
        metavar="FRACTION",
        parse=float,
        between=(0, 1),
        help="fail if more than this fraction of the listed images is bad (default: %(default)s)",
    )
    duplicates: str = option(
        POLICIES[0],
        choices=POLICIES,
        help="byte-identical images: keep all and warn; first: keep one per group (drops the train copy "
        "if another split has one); error: fail (default: %(default)s)",
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

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.resize is None:
            for name in ("resize_mode", "never_enlarge"):
                if getattr(self, name) != ImageOptions.__dataclass_fields__[name].default:
                    raise UsageError(f"--{name} means nothing without --resize")
        else:
            try:
                parse_side_lengths(str(self.resize))
            except argparse.ArgumentTypeError as error:
                raise UsageError(f"--resize: {error}") from error

    @property
    def changes(self) -> ImageChanges:
        """The changes to images, without the codec that makes them."""
        encodes = self.resize is not None or self.image_format != IMAGE_FORMATS[0]
        return ImageChanges(
            orientation=self.orientation or "",
            resize=side_lengths(parse_side_lengths(str(self.resize)))
            if self.resize is not None
            else None,
            resize_mode=self.resize_mode,
            never_enlarge=self.never_enlarge,
            image_format=self.image_format,
            quality=self.quality,
            reencode=self.reencode or ("auto" if encodes else "never"),
            color_profile=self.color_profile,
            animated=self.animated,
            image_codec=self.image_codec,
        )
