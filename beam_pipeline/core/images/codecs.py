"""The libraries that decode, scale and encode images.

A new one is a module with the functions of `CodecModule`, and a line in `IMAGE_CODECS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, Protocol

from beam_pipeline.core.errors import CodecError, UsageError
from beam_pipeline.core.text import shown

if TYPE_CHECKING:
    from beam_pipeline.core.images.changes import ImageChanges
    from beam_pipeline.core.images.geometry import Geometry
    from beam_pipeline.core.images.header import ImageHeader
    from beam_pipeline.core.images.pillow_codec import Opened


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
