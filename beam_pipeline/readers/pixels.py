"""Example as stored -> the same with pixels, decoded by Pillow. TensorFlow is not needed."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from beam_pipeline.core.errors import DamagedRecordError, UsageError
from beam_pipeline.core.images.header import BadImageError
from beam_pipeline.core.labels.schema import ENCODED_KEY
from beam_pipeline.dataset import Dataset

IMAGE, MASK = "image", "mask"
"""The keys of the pixels."""
MASK_KEYS = ("image/segmentation/class/encoded", "image/panoptic/category_mask")
VOID = 255  # unlabelled pixels

_MODES = {1: "L", 3: "RGB", 4: "RGBA"}
_SIZES = ("image/height", "image/width", "image/channels")

Example = dict[str, Any]
"""Key -> value, as `example_values` returns it."""
Decoder = Callable[[Example], Any]
"""Turns an example as stored into a sample."""


def decoder_of(
    dataset: Dataset,
    decode: bool | Decoder | None,
    *,
    image_size: tuple[int, int] | None = None,
    channels: int = 3,
    exact: bool = False,
) -> Decoder | None:
    """The function that turns examples into samples; None to leave them as they are.

    Args:
      dataset: whose examples.
      decode: a function, or True for `PixelDecoder`.
      image_size: (height, width) to resize to.
      channels: of the image: 1, 3 or 4.
      exact: as `PixelDecoder` has it.

    Raises:
      UsageError: an option does not fit the data set, or is given without decode=True.
    """
    if decode is True:
        return PixelDecoder.of(dataset, image_size=image_size, channels=channels, exact=exact)
    if image_size is not None or channels != 3 or exact:
        raise UsageError("image_size, channels and exact are for decode=True")
    return decode or None


def checked_size(image_size: Any) -> tuple[int, int] | None:
    """The height and width to resize to. Raises UsageError."""
    if image_size is None:
        return None
    try:
        height, width = image_size
    except (TypeError, ValueError):
        raise UsageError(f"image_size is {image_size!r}, expected (height, width)") from None
    if height < 1 or width < 1:
        raise UsageError(f"image_size is {image_size!r}, expected 1 pixel or more each way")
    return height, width


def scaled_side(side: int) -> int:
    """The pixels that a JPEG is decoded to at least, to be resized to that many.

    libjpeg's scaling weighs pixels otherwise than resizing does. Measured on photographs, the result
    differs from that of full decoding by 0.4 to 0.8 % of the range if half as many pixels remain to be
    taken away, and by 1 % or more if none do.
    """
    return -(-3 * side // 2)


@dataclass(frozen=True)
class PixelDecoder:
    """Replaces the encoded image of an example by "image", and an encoded mask by "mask".

    The image is uint8 [height, width, channels], the mask uint8 or uint16 [height, width, 1].

    Attributes:
      encoded: key of the image.
      sizes: keys of height, width and channels if images are bare pixels, else empty.
      mask: key of the mask; empty if there is none.
      mask_pixels: type of the mask's ids.
      image_size: (height, width) to resize to; None for the stored size.
      channels: 1, 3 or 4.
      exact: decodes every pixel of a JPEG that is then made smaller.
    """

    encoded: str
    sizes: tuple[str, ...] = ()
    mask: str = ""
    mask_pixels: str = ""
    image_size: tuple[int, int] | None = None
    channels: int = 3
    exact: bool = False

    @classmethod
    def of(
        cls,
        dataset: Dataset,
        *,
        image_size: tuple[int, int] | None = None,
        channels: int = 3,
        exact: bool = False,
    ) -> PixelDecoder:
        """The decoder for a data set.

        Raises:
          UsageError: it has no images, or an option does not fit it.
        """
        if channels not in _MODES:
            raise UsageError(f"channels is {channels}, expected one of {tuple(_MODES)}")
        encoded = dataset.key_of(ENCODED_KEY)
        if encoded is None:
            raise UsageError(
                f"{dataset.path} has no images ({ENCODED_KEY}), so there is nothing to decode; "
                f"it has {', '.join(dataset.features)}"
            )
        sizes: tuple[str, ...] = ()
        if dataset.bare_pixels:
            sizes = dataset.keys_of(_SIZES) or ()
            if not sizes:
                raise UsageError(
                    f"{dataset.path} holds bare pixels without {', '.join(_SIZES)}, so they cannot "
                    "be decoded"
                )
        mask = next(filter(None, map(dataset.key_of, MASK_KEYS)), "")
        pixels = dataset.features[mask].pixels if mask else ""
        for made, key in ((IMAGE, encoded), (MASK, mask if pixels else MASK)):
            if made in dataset.features and key != made:
                raise UsageError(
                    f"{dataset.path} has a feature {made!r}, which is where decode=True puts pixels"
                )
        return cls(
            encoded=encoded,
            sizes=sizes,
            mask=mask if pixels else "",
            mask_pixels=pixels,
            image_size=checked_size(image_size),
            channels=channels,
            exact=exact,
        )

    def __call__(self, example: Mapping[str, Any]) -> Example:
        """Decodes the image and the mask of an example.

        Raises:
          DamagedRecordError: one of them cannot be decoded.
        """
        decoded = dict(example)
        data = decoded.pop(self.encoded)
        bare = tuple(example[key] for key in self.sizes)
        try:
            decoded[IMAGE] = image = self._image(data, bare)
            if self.mask:
                decoded[MASK] = self._mask(decoded.pop(self.mask), image.shape)
        except (BadImageError, OSError, ValueError, SyntaxError) as error:
            name = example.get("image/filename", b"")
            raise DamagedRecordError(f"image {name!r} cannot be decoded: {error}") from error
        return decoded

    def _image(self, data: bytes, bare: tuple[int, ...]) -> Any:
        import numpy as np
        from PIL import Image

        from beam_pipeline.core.images import pillow_codec, sixteen_bits

        if bare:
            pixels = np.frombuffer(data, np.uint8).reshape(bare)
            image = Image.fromarray(pixels if bare[2] > 1 else pixels[..., 0])
        else:
            image = pillow_codec.open_image(data).image
        if self.image_size and not self.exact and image.format in ("JPEG", "MPO"):
            height, width = map(scaled_side, self.image_size)
            if image.height >= 2 * height and image.width >= 2 * width:
                image.draft(image.mode, (width, height))
        mode = _MODES[self.channels]
        image = sixteen_bits.to_8_bits(image)
        if image.mode != mode:
            image = image.convert(mode)
        if self.image_size:
            image = image.resize(self.image_size[::-1], Image.Resampling.BILINEAR)
        array = np.array(image)
        return array if array.ndim == 3 else array[..., np.newaxis]

    def _mask(self, data: bytes | None, shape: tuple[int, ...]) -> Any:
        import numpy as np
        from PIL import Image

        if not data:  # the image was not labelled
            return np.full((*shape[:2], 1), VOID, self.mask_pixels)
        with Image.open(io.BytesIO(data), formats=["PNG"]) as image:
            mask = np.asarray(image).astype(self.mask_pixels)[..., np.newaxis]
        if not self.image_size:
            return mask
        rows, columns = (
            ((np.arange(wanted) + 0.5) * found / wanted).astype(np.int64)
            for wanted, found in zip(self.image_size, mask.shape[:2], strict=True)
        )
        return mask[rows[:, np.newaxis], columns]
