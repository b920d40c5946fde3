"""Random crops for training: only the part of a JPEG that is kept is decoded.

The window is drawn in the pixels of the whole image. It has a random share of the image's area and a
ratio of width to height between 3/4 and 4/3; where none fits, it is the whole image. Decoded at 1/2,
1/4 or 1/8 of the size, it begins and ends at a multiple of 2, 4 or 8 pixels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import tensorflow as tf

from beam_pipeline.core.errors import UsageError
from beam_pipeline.readers.pixels import scaled_side

JPEG = b"\xff\xd8"
"""The beginning of a JPEG."""
SCALES = (2, 4, 8)
"""That libjpeg can divide the sides of an image by, besides 1."""

_ASPECTS = (3 / 4, 4 / 3)
_ATTEMPTS = 10


def checked_shares(random_crop: Any) -> tuple[float, float]:
    """The least and the greatest share of an image's area. Raises UsageError."""
    try:
        least, greatest = map(float, random_crop)
    except (TypeError, ValueError):
        least = greatest = 0
    if not 0 < least <= greatest <= 1:
        raise UsageError(
            f"random_crop is {random_crop!r}, expected the least and the greatest share of an image's "
            "area, such as (0.08, 1)"
        )
    return least, greatest


def numbers(seed: int | None) -> Any:
    """An endless data set of random numbers; other ones in each pass, the same ones for a seed."""
    return tf.data.Dataset.random(seed, rerandomize_each_iteration=True)


@dataclass(frozen=True)
class CropDecoder:
    """Decodes a random part of an image file.

    Attributes:
      shares: the least and the greatest share of the image's area.
      image_size: (height, width) that the part will be resized to.
      channels: of the image.
      scaled: decodes a JPEG at the smallest scale at which the part is still large enough.
      decode_whole: (bytes of a file) -> all of its pixels.
    """

    shares: tuple[float, float]
    image_size: tuple[int, int]
    channels: int
    scaled: bool
    decode_whole: Callable[[Any], Any]

    def of_file(self, data: Any, number: Any) -> Any:
        """Decodes a part of an image file, as drawn by a number."""
        if self.channels > 3:  # TensorFlow decodes no JPEG to four channels
            return self.of_pixels(self.decode_whole(data), number)
        return tf.cond(
            tf.strings.substr(data, 0, 2) == JPEG,
            lambda: self._of_jpeg(data, number),
            lambda: self.of_pixels(self.decode_whole(data), number),
        )

    def of_pixels(self, image: Any, number: Any) -> Any:
        """A part of an image, as drawn by a number."""
        top, left, height, width = tf.unstack(self.window(tf.shape(image)[:2], number))
        return image[top : top + height, left : left + width]

    def window(self, size: Any, number: Any) -> Any:
        """Draws top, left, height and width, int32 [4], from the height and width of an image."""
        begin, extent, _ = tf.image.stateless_sample_distorted_bounding_box(
            tf.concat([size, [self.channels]], 0),
            tf.zeros([1, 0, 4]),
            seed=tf.stack([number, 0]),
            min_object_covered=0.0,
            aspect_ratio_range=_ASPECTS,
            area_range=self.shares,
            max_attempts=_ATTEMPTS,
            use_image_if_no_bounding_boxes=True,
        )
        return tf.concat([begin[:2], extent[:2]], 0)

    def _of_jpeg(self, data: Any, number: Any) -> Any:
        window = self.window(tf.io.extract_jpeg_shape(data)[:2], number)

        def decode(scale: int) -> Any:
            # In pixels of the scaled image.
            part = tf.concat([window[:2] // scale, tf.maximum(1, window[2:] // scale)], 0)
            return tf.io.decode_and_crop_jpeg(data, part, channels=self.channels, ratio=scale)

        if not self.scaled:
            return decode(1)
        needed = [scaled_side(side) for side in self.image_size]
        enough = [tf.reduce_all(window[2:] // scale >= needed) for scale in SCALES]
        decoders = [partial(decode, scale) for scale in (1, *SCALES)]
        return tf.switch_case(tf.reduce_sum(tf.cast(enough, tf.int32)), decoders)
