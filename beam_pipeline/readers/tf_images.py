"""Parsed features -> the pixels of image and mask."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import tensorflow as tf

from beam_pipeline.core.errors import UsageError
from beam_pipeline.core.labels.schema import ENCODED_KEY
from beam_pipeline.dataset import Dataset, Shard
from beam_pipeline.readers.pixels import MASK_KEYS, VOID, scaled_side
from beam_pipeline.readers.tf_crops import JPEG, SCALES, CropDecoder, checked_shares
from beam_pipeline.readers.tf_features import BOX_SIDES, NUMBER_DRAWN, Parsed, Reader, spec_of
from beam_pipeline.readers.tf_records import mapped, records_of

_CHECKED_IMAGES = 32  # images whose sizes are compared
_CHANNELS = (1, 3, 4)
_SIDES = ("image/height", "image/width")
_OWN_CHANNELS = (b"RI", b"\xff\x0a", b"\0\0")
"""The beginnings of WebP and of JPEG XL, bare or in a container."""


class MaskReader(NamedTuple):
    """Makes the mask of an example.

    Attributes:
      spec: the feature to parse.
      key: its key.
      read: makes the mask from the parsed features and the image that was made of them.
    """

    spec: dict[str, Any]
    key: str
    read: Callable[[Parsed, Any], Any]


def image_reader(
    dataset: Dataset,
    channels: int,
    image_size: tuple[int, int] | None,
    *,
    antialias: bool,
    scaled: bool,
    crop: CropDecoder | None = None,
) -> Reader | None:
    """Returns a reader that decodes, crops and resizes the image; None if the examples have no image."""
    if channels not in _CHANNELS:
        raise UsageError(f"channels is {channels}, expected one of {_CHANNELS}")
    encoded = dataset.key_of(ENCODED_KEY)
    if encoded is None:
        return None
    # TensorFlow decodes no JPEG to four channels.
    sides = dataset.keys_of(_SIDES) if scaled and channels < 4 else None
    if dataset.bare_pixels:
        spec, decode = _raw_decoder(dataset, encoded, channels)
        if crop:
            decode = _cropped(decode, crop)
    elif crop:
        spec = spec_of(dataset, encoded)

        def decode(parsed: Parsed) -> Any:
            return crop.of_file(parsed[encoded], parsed[NUMBER_DRAWN])

    elif image_size and sides:
        spec, decode = _scaled_decoder(dataset, encoded, channels, image_size, sides)
    else:
        spec, decode = _file_decoder(dataset, encoded, channels)

    def read(parsed: Parsed) -> Any:
        image = decode(parsed)
        image.set_shape([None, None, channels])
        if image_size and antialias:
            return _averaged(image, image_size, channels)
        return tf.image.resize(image, image_size) if image_size else image

    return Reader(spec, read)


def _averaged(image: Any, image_size: tuple[int, int], channels: int) -> Any:
    """Resizes an image with antialiasing, which takes long and changes nothing where it has the size."""
    resized = tf.cond(
        tf.reduce_all(tf.shape(image)[:2] == image_size),
        lambda: tf.cast(image, tf.float32),
        lambda: tf.image.resize(image, image_size, antialias=True),
    )
    return tf.ensure_shape(resized, [*image_size, channels])


def crop_decoder(
    dataset: Dataset,
    random_crop: Any,
    image_size: tuple[int, int] | None,
    channels: int,
    *,
    scaled: bool,
) -> CropDecoder:
    """Returns what decodes random parts of images.

    Raises:
      UsageError: an option does not fit, or the data set has labels that belong to places in images.
    """
    if image_size is None:
        raise UsageError("random_crop is for images that are resized: give image_size, too")
    if dataset.key_of(ENCODED_KEY) is None:
        raise UsageError(f"{dataset.path} has no images ({ENCODED_KEY}) for random_crop")
    placed = [key for key in (*BOX_SIDES, *MASK_KEYS) if dataset.key_of(key)]
    if placed:
        raise UsageError(
            f"{dataset.path} has boxes or masks ({placed[0]}), which random_crop does not move; crop them "
            "together with their image in augment"
        )
    return CropDecoder(
        checked_shares(random_crop),
        image_size,
        channels,
        scaled,
        partial(_decoded, channels=channels),
    )


def _cropped(decode: Callable[[Parsed], Any], crop: CropDecoder) -> Callable[[Parsed], Any]:
    """Takes a random part of what a function decodes."""
    return lambda parsed: crop.of_pixels(decode(parsed), parsed[NUMBER_DRAWN])


def mask_reader(dataset: Dataset, image_size: tuple[int, int] | None) -> MaskReader | None:
    """Decodes and resizes the mask; None if the examples have none."""
    key = next(filter(None, map(dataset.key_of, MASK_KEYS)), None)
    if key is None or not dataset.features[key].pixels:
        return None
    pixels = tf.as_dtype(dataset.features[key].pixels)

    def read(parsed: Parsed, image: Any) -> Any:
        def decode() -> Any:
            return tf.io.decode_png(parsed[key], channels=1, dtype=pixels)

        def void() -> Any:
            return tf.fill([*tf.unstack(tf.shape(image)[:2]), 1], tf.cast(VOID, pixels))

        if dataset.features[key].optional:
            mask = tf.cond(tf.strings.length(parsed[key]) > 0, decode, void)
        else:
            mask = decode()
        mask.set_shape([None, None, 1])
        if image_size:
            nearest = tf.image.ResizeMethod.NEAREST_NEIGHBOR
            return tf.image.resize(mask, image_size, nearest)
        return tf.ensure_shape(mask, [*image.shape[:2], 1])

    return MaskReader(spec_of(dataset, key), key, read)


def _file_decoder(
    dataset: Dataset, encoded: str, channels: int
) -> tuple[dict[str, Any], Callable[[Parsed], Any]]:
    """Decodes image files; takes the first frame."""

    def decode(parsed: Parsed) -> Any:
        return _decoded(parsed[encoded], channels)

    return spec_of(dataset, encoded), decode


def _scaled_decoder(
    dataset: Dataset,
    encoded: str,
    channels: int,
    image_size: tuple[int, int],
    sides: Sequence[str],
) -> tuple[dict[str, Any], Callable[[Parsed], Any]]:
    """Decodes image files, JPEGs at the smallest scale at which both sides are still long enough.

    libjpeg then leaves out the finest details of each block of 8 x 8 pixels instead of computing them.
    """

    def decode(parsed: Parsed) -> Any:
        data = parsed[encoded]
        # A side of 1001 pixels becomes 126 at the scale 1/8.
        enough = [
            tf.reduce_all(
                [
                    -(-parsed[key] // scale) >= scaled_side(side)
                    for key, side in zip(sides, image_size, strict=True)
                ]
            )
            for scale in SCALES
        ]
        is_jpeg = tf.strings.substr(data, 0, 2) == JPEG
        number = tf.where(is_jpeg, tf.reduce_sum(tf.cast(enough, tf.int32)), 0)
        decoders = [partial(_decoded, data, channels)]
        decoders += [
            partial(tf.io.decode_jpeg, data, channels=channels, ratio=scale) for scale in SCALES
        ]
        return tf.switch_case(number, decoders)

    return spec_of(dataset, encoded, *sides), decode


def _decoded(data: Any, channels: int) -> Any:
    """Decodes an image file to this many channels; WebP and JPEG XL keep their own number."""
    own_channels = tf.reduce_any(tf.strings.substr(data, 0, 2) == _OWN_CHANNELS)
    return tf.cond(
        own_channels,
        lambda: _converted(tf.io.decode_image(data, expand_animations=False), channels),
        lambda: tf.io.decode_image(data, channels=channels, expand_animations=False),
    )


def _converted(image: Any, channels: int) -> Any:
    """Converts between grey and colour; drops the alpha channel, or adds an opaque one."""
    has_colours = tf.shape(image)[-1] > 2
    if channels == 1:
        colours = image[..., :3]
        return tf.cond(
            has_colours,
            lambda: tf.image.rgb_to_grayscale(tf.ensure_shape(colours, [None, None, 3])),
            lambda: image[..., :1],
        )
    colours = tf.cond(
        has_colours, lambda: image[..., :3], lambda: tf.repeat(image[..., :1], 3, axis=-1)
    )
    if channels == 3:
        return colours
    alpha = tf.cond(
        tf.shape(image)[-1] % 2 == 0,
        lambda: image[..., -1:],
        lambda: tf.fill([*tf.unstack(tf.shape(image)[:2]), 1], tf.constant(255, tf.uint8)),
    )
    return tf.concat([colours, alpha], axis=-1)


def _raw_decoder(
    dataset: Dataset, encoded: str, channels: int
) -> tuple[dict[str, Any], Callable[[Parsed], Any]]:
    """Decodes bare pixels: uint8, rows of pixels of channels."""
    sizes = dataset.keys_of(("image/height", "image/width", "image/channels"))
    if sizes is None:
        raise UsageError(
            f"{dataset.path} holds bare pixels without image/height, image/width and "
            "image/channels, so they cannot be decoded; feature_spec() reads them as bytes"
        )
    if channels > 3:
        raise UsageError(f"channels is {channels}, but {dataset.path} holds bare pixels: 1 or 3")

    def decode(parsed: Parsed) -> Any:
        stored = parsed[sizes[2]]
        shape = tf.stack([parsed[key] for key in sizes])
        image = tf.reshape(tf.io.decode_raw(parsed[encoded], tf.uint8), shape)
        convert = tf.image.grayscale_to_rgb if channels == 3 else tf.image.rgb_to_grayscale
        return tf.cond(stored == channels, lambda: image, lambda: convert(image))

    return spec_of(dataset, encoded, *sizes), decode


def of_one_size(image: Reader, dataset: Dataset, shards: Sequence[Shard]) -> Reader:
    """Gives images the size of the first one as their static shape.

    Raises:
      UsageError: the first few differ in size. A later image of another size fails its batch.
    """
    if not tf.executing_eagerly():
        raise UsageError("batch_size needs image_size too where load() is called in a tf.function")
    records = records_of(dataset, shards, shuffled=False, seed=None).take(_CHECKED_IMAGES)
    first = mapped(records, lambda record: tf.shape(image.of_record(record)))
    sizes = [tuple(shape[:2]) for shape in first.as_numpy_iterator()]
    hint = "give image_size=(height, width), or no batch_size"
    if len(set(sizes)) > 1:
        (height, width), other = sizes[0], next(size for size in sizes if size != sizes[0])
        raise UsageError(
            f"images of {dataset.path} differ in size, such as {height} x {width} and "
            f"{other[0]} x {other[1]} pixels, so they make no batches; {hint}"
        )
    if not sizes:
        return image

    def read(parsed: Parsed) -> Any:
        made = image.read(parsed)
        message = f"images of {dataset.path} differ in size; {hint}"
        with tf.control_dependencies(
            [tf.debugging.assert_equal(tf.shape(made)[:2], sizes[0], message)]
        ):
            return tf.ensure_shape(made, [*sizes[0], made.shape[2]])

    return image._replace(read=read)
