"""The changes to images that options ask for, and the libraries that decode, scale and encode images.

A new library is a module with the functions of `CodecModule`, and a line in `IMAGE_CODECS`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from beam_pipeline.core.errors import CodecError, UsageError
from beam_pipeline.core.images.geometry import RESIZE_MODES, Resize
from beam_pipeline.core.text import shown

if TYPE_CHECKING:
    from beam_pipeline.core.images.geometry import Geometry
    from beam_pipeline.core.images.header import ImageHeader
    from beam_pipeline.core.images.pillow_codec import Opened

ORIENTATIONS = ("keep", "apply", "refuse")
"""The values of --orientation."""

REENCODE = ("never", "auto", "always")
"""The values of --reencode."""

IMAGE_FORMATS = ("keep", "jpeg", "png", "webp")
COLOR_PROFILES = ("srgb", "keep")
ANIMATED = ("first_frame", "refuse")
"""The values of --image_format, --color_profile and --animated; the first is the default."""

PILLOW = "pillow"
"""The default of --image_codec; `codecs.IMAGE_CODECS` has all values."""

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
      image_codec: a name in `codecs.IMAGE_CODECS`.
      codec: the versions of the libraries that encode; empty where images are written anew only to
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

    @cached_property
    def encodes(self) -> bool:
        """True if images may be re-encoded for another reason than to turn them."""
        return bool(self.resize) or self.image_format != "keep" or self.reencode != "never"

    @cached_property
    def target(self) -> Resize | None:
        """The size that images are to have."""
        if self.resize is None:
            return None
        return Resize(*self.resize, self.resize_mode, self.never_enlarge)

    def recorded(self) -> dict[str, Any]:
        """The values that are not at their defaults, for JSON; `from_recorded` reads them."""
        plain = dataclasses.asdict(self)
        found = {
            field.name: plain[field.name]
            for field in dataclasses.fields(self)
            if plain[field.name] != field.default
        }
        if self.resize:
            found["resize"] = list(self.resize)
        return found

    @classmethod
    def from_recorded(cls, values: Mapping[str, Any]) -> ImageChanges:
        """The changes that `recorded` returned."""
        resize = values.get("resize")
        return cls(**{**values, "resize": tuple(resize) if resize else None})


class CodecModule(Protocol):
    """The functions by which a library changes images."""

    def codec_version(self) -> str:
        """Names everything whose version may change the bytes; begins with the library's name."""

    def rewrite(
        self, data: bytes, opened: Opened, geometry: Geometry, changes: ImageChanges
    ) -> tuple[bytes, ImageHeader]:
        """Decodes an image, changes its geometry and encodes it, as `pillow_codec.rewrite` does."""


class Codec(NamedTuple):
    """A library that can change images.

    Attributes:
      library: its name.
      package: that pip installs.
      load: imports its module, which takes long.
    """

    library: str
    package: str
    load: Callable[[], CodecModule]


def _pillow() -> CodecModule:
    from beam_pipeline.core.images import pillow_codec

    return pillow_codec


def _opencv() -> CodecModule:
    try:
        from beam_pipeline.core.images import opencv_codec
    except ImportError as error:
        raise UsageError(
            "--image_codec opencv needs the package opencv-python-headless, which cannot be imported here "
            f"({shown(error)}): pip install 'beam-tfrecord[opencv]'; or leave the option out"
        ) from error
    return opencv_codec


IMAGE_CODECS: Mapping[str, Codec] = MappingProxyType(
    {
        "pillow": Codec("Pillow", "Pillow", _pillow),
        "opencv": Codec("OpenCV", "opencv-python-headless", _opencv),
    }
)
"""--image_codec -> the library; the first, `changes.PILLOW`, is the default."""


def codec_in_use(image_codec: str) -> str:
    """Names what encodes images here, with versions.

    Args:
      image_codec: a name in `IMAGE_CODECS`.

    Raises:
      UsageError: it is not installed.
    """
    return IMAGE_CODECS[image_codec].load().codec_version()


def codec_here(recorded: str) -> str:
    """Names what would encode images here as a data set's were, with versions.

    Args:
      recorded: as `codec_in_use` had it when the data set was begun.

    Raises:
      UsageError: the library is not installed.
    """
    return _codec_of(recorded).load().codec_version()


def check_codec(expected: str) -> None:
    """Makes sure that images are encoded here by the versions that a data set was begun with.

    Args:
      expected: as `codec_in_use` has it; empty where it does not matter.

    Raises:
      CodecError: by others.
      UsageError: the library is not installed.
    """
    if expected and expected != (here := codec_here(expected)):
        raise CodecError(other_codec(expected, here))


def other_codec(expected: str, here: str) -> str:
    """The message for images that were encoded by another library, or by other versions."""
    codec = _codec_of(expected)
    advice = f"Install the same versions (the first decides: pip install {codec.package}==...)"
    if codec is not _codec_of(here):
        (name,) = (name for name, other in IMAGE_CODECS.items() if other is codec)
        advice = f"Give --image_codec {name}"
    return (
        f"images are encoded by {expected}, and here by {here}, which may give other bytes. "
        f"{advice}, or convert again with --overwrite"
    )


def _codec_of(recorded: str) -> Codec:
    """The library that a name with versions begins with; the default for an unknown one."""
    known = (codec for codec in IMAGE_CODECS.values() if recorded.startswith(codec.library))
    return next(known, next(iter(IMAGE_CODECS.values())))
