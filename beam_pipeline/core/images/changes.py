"""The changes to images that options ask for: orientation, size and encoding."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from beam_pipeline.core.images.geometry import RESIZE_MODES, CropBoxes, Resize

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
    resize_mode: str = next(iter(RESIZE_MODES))
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

    @cached_property
    def target(self) -> Resize | None:
        """The size that images are to have."""
        if self.resize is None:
            return None
        return Resize(*self.resize, self.resize_mode, self.never_enlarge)

    def recorded(self) -> dict[str, Any]:
        """The values that are not at their defaults, for JSON; `from_recorded` reads them."""
        plain = dataclasses.asdict(self)
        values = {
            field.name: plain[field.name]
            for field in dataclasses.fields(self)
            if plain[field.name] != field.default
        }
        if self.resize:
            values["resize"] = list(self.resize)
        return values

    @classmethod
    def from_recorded(cls, values: Mapping[str, Any]) -> ImageChanges:
        """The changes that `recorded` returned."""
        resize, crop = values.get("resize"), values.get("crop")
        sides = tuple(resize) if resize else None
        return cls(**{**values, "resize": sides, "crop": CropBoxes(**crop) if crop else None})
