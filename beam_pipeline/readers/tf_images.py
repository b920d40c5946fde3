"""Parsed features -> the pixels of image and mask, and random crops of images.

The window of a crop is drawn in the pixels of the whole image. It has a random share of the image's area
and a ratio of width to height between 3/4 and 4/3; where none fits, it is the whole image. Only that
part of a JPEG is decoded. Decoded at 1/2, 1/4 or 1/8 of the size, it begins and ends at a multiple of 2,
4 or 8 pixels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import tensorflow as tf

from beam_pipeline.core.errors import UsageError
from beam_pipeline.core.labels.schema import ENCODED_KEY
from beam_pipeline.dataset import Dataset, Shard
from beam_pipeline.readers.samples import (
    BLACK,
    DEEP,
    DEEPER,
    MASK,
    MASK_KEYS,
    VOID,
    PixelPlan,
    check_first_image,
    scaled_side,
)
from beam_pipeline.readers.tf_records import (
    BOX_SIDES,
    NUMBER_DRAWN,
    Parsed,
    Reader,
    mapped,
    records_of,
    spec_of,
)

_CHECKED_IMAGES = 32  # images whose sizes are compared
_JPEG, _PNG = b"\xff\xd8", b"\x89P"
_NATIVE = {1: (_PNG,), 3: (_JPEG, _PNG, b"GI", b"BM"), 4: ()}
"""Channels -> the beginnings of the formats that TensorFlow itself decodes to so many; 1-bit PNGs, for
example, get an alpha of 1. Others are converted."""
_SCALES = (2, 4, 8)  # that libjpeg can divide the sides of an image by, besides 1
_ASPECTS = (3 / 4, 4 / 3)
_ATTEMPTS = 10


class MaskReader(NamedTuple):
    """Makes the mask of an example.

    Attributes:
      spec: the feature to parse.
      read: makes the mask from the parsed features and the image that was made of them, or None.
    """

    spec: dict[str, Any]
    read: Callable[[Parsed, Any], Any]


def image_reader(
    dataset: Dataset,
    plan: PixelPlan,
    *,
    antialias: bool,
    crop: CropDecoder | None = None,
) -> Reader | None:
    """Returns a reader that decodes, crops and resizes the image; None if the examples lack images."""
    encoded, image_size, channels = plan.encoded, plan.size, plan.options.channels
    if antialias and not image_size:
        raise UsageError("antialias is for images that are resized: give image_size, too")
    if not encoded:
        return None
    keys = [encoded]
    deep = plan.options.dtype == DEEP
    if plan.bare:
        keys += plan.bare
        decode = _raw_decoder(plan)
    elif crop:

        def decode(parsed: Parsed) -> Any:
            return crop.of_file(parsed[encoded], parsed[NUMBER_DRAWN])

    elif image_size and plan.sides and not plan.options.exact and not deep:
        keys += plan.sides
        decode = _scaled_decoder(plan)
    else:

        def decode(parsed: Parsed) -> Any:
            return decoded(parsed[encoded], channels, deep=deep)

    if crop and plan.bare:
        whole = decode

        def decode(parsed: Parsed) -> Any:
            return crop.of_pixels(whole(parsed), parsed[NUMBER_DRAWN])

    optional = dataset.features[encoded].optional

    def read(parsed: Parsed) -> Any:
        if optional:
            image = parsed[encoded]
            parsed = {**parsed, encoded: tf.where(tf.equal(image, b""), BLACK, image)}
        image = decode(parsed)
        image.set_shape([None, None, channels])
        if image_size and antialias:
            return _averaged(image, image_size, channels)
        return tf.image.resize(image, image_size) if image_size else image

    return Reader(spec_of(dataset, *keys), read)


def _averaged(image: Any, image_size: tuple[int, int], channels: int) -> Any:
    """Resizes an image with antialiasing, which takes long and changes nothing where it has the size."""
    resized = tf.cond(
        tf.reduce_all(tf.shape(image)[:2] == image_size),
        lambda: tf.cast(image, tf.float32),
        lambda: tf.image.resize(image, image_size, antialias=True),
    )
    return tf.ensure_shape(resized, [*image_size, channels])


def crop_decoder(dataset: Dataset, random_crop: Any, plan: PixelPlan) -> CropDecoder:
    """Returns what decodes random parts of images.

    Raises:
      UsageError: an option does not fit, or the data set has labels that belong to places in images.
    """
    if plan.size is None:
        raise UsageError("random_crop is for images that are resized: give image_size, too")
    if not plan.encoded:
        raise UsageError(f"{dataset.path} has no images ({ENCODED_KEY}) for random_crop")
    placed = [key for key in (*BOX_SIDES, *MASK_KEYS) if dataset.key_of(key)]
    kind = "boxes or masks" if placed else "further pictures"
    placed += [key for key, _ in plan.pictures.values()]
    if placed:
        raise UsageError(
            f"{dataset.path} has {kind} ({placed[0]}), which random_crop does not move; crop them "
            "together with their image in augment"
        )
    return CropDecoder(_checked_shares(random_crop), plan.size, plan)


def mask_readers(
    dataset: Dataset, plan: PixelPlan, *, antialias: bool = False
) -> dict[str, MaskReader]:
    """Name -> what decodes and resizes the mask, and each further picture."""
    made = (
        {MASK: _mask_reader(dataset, plan, plan.mask, plan.mask_pixels, VOID)} if plan.mask else {}
    )
    for name, (key, pixels) in plan.pictures.items():
        if pixels == DEEP:
            made[name] = _mask_reader(dataset, plan, key, pixels, 0)
        else:
            part = replace(plan, encoded=key, bare=(), sides=())
            image = image_reader(dataset, part, antialias=antialias)
            assert image
            made[name] = MaskReader(image.spec, _or_black(key, image, plan))
    return made


def _or_black(key: str, picture: Reader, plan: PixelPlan) -> Callable[[Parsed, Any], Any]:
    """Reads a picture; one that is missing is black, of the size of the image."""
    kind = tf.float32 if plan.size else tf.as_dtype(plan.options.dtype)

    def read(parsed: Parsed, image: Any) -> Any:
        def black() -> Any:
            size = plan.size or ((1, 1) if image is None else tf.unstack(tf.shape(image)[:2]))
            return tf.zeros([*size, plan.options.channels], kind)

        made = tf.cond(tf.strings.length(parsed[key]) > 0, lambda: picture.read(parsed), black)
        return tf.ensure_shape(made, [*(plan.size or (None, None)), plan.options.channels])

    return read


def _mask_reader(
    dataset: Dataset, plan: PixelPlan, key: str, pixels_type: str, missing: int
) -> MaskReader:
    pixels = tf.as_dtype(pixels_type)

    def read(parsed: Parsed, image: Any) -> Any:
        def decode() -> Any:
            return tf.io.decode_png(parsed[key], channels=1, dtype=pixels)

        def void() -> Any:
            size = tf.unstack(tf.shape(image)[:2]) if image is not None else (1, 1)
            return tf.fill([*size, 1], tf.cast(missing, pixels))

        if dataset.features[key].optional:
            mask = tf.cond(tf.strings.length(parsed[key]) > 0, decode, void)
        else:
            mask = decode()
        mask.set_shape([None, None, 1])
        if plan.size:
            nearest = tf.image.ResizeMethod.NEAREST_NEIGHBOR
            return tf.image.resize(mask, plan.size, nearest)
        of_image = image is not None and key == plan.mask
        return tf.ensure_shape(mask, [*image.shape[:2], 1]) if of_image else mask

    return MaskReader(spec_of(dataset, key), read)


def _scaled_decoder(plan: PixelPlan) -> Callable[[Parsed], Any]:
    """Decodes image files, JPEGs at the smallest scale with both sides long enough.

    libjpeg then leaves out the finest details of each block of 8 x 8 pixels instead of computing them.
    """
    channels, size = plan.options.channels, plan.size or (1, 1)

    def decode(parsed: Parsed) -> Any:
        data = parsed[plan.encoded]
        # A side of 1001 pixels becomes 126 at the scale 1/8.
        enough = [
            tf.reduce_all(
                [
                    -(-parsed[key] // scale) >= scaled_side(side)
                    for key, side in zip(plan.sides, size, strict=True)
                ]
            )
            for scale in _SCALES
        ]
        number = tf.where(_begins(data, _JPEG), tf.reduce_sum(tf.cast(enough, tf.int32)), 0)
        decoders = [partial(decoded, data, channels)]
        decoders += [
            partial(_of_jpeg, data, channels, partial(tf.io.decode_jpeg, data, ratio=scale))
            for scale in _SCALES
        ]
        return tf.switch_case(number, decoders)

    return decode


def _begins(data: Any, *beginnings: bytes) -> Any:
    return tf.reduce_any(tf.strings.substr(data, 0, 2) == beginnings)


def decoded(data: Any, channels: int, *, deep: bool = False) -> Any:
    """Decodes an image file, the first frame, to this many channels, and uint16 pixels if it is deep."""
    if deep:
        return tf.cond(
            _begins(data, _PNG),
            lambda: converted(tf.io.decode_png(data, dtype=tf.uint16), channels),
            lambda: tf.cast(decoded(data, channels), tf.uint16) * DEEPER,
        )
    image = partial(tf.io.decode_image, data, expand_animations=False)
    native = _NATIVE[channels]
    if not native:
        return converted(image(), channels)
    if channels == 1:  # a JPEG is grey without its colours, unless it is of CMYK
        return tf.cond(
            _begins(data, _JPEG),
            lambda: _of_jpeg(data, 1, partial(tf.io.decode_jpeg, data)),
            lambda: tf.cond(
                _begins(data, *native), lambda: image(channels=1), lambda: converted(image(), 1)
            ),
        )
    return tf.cond(
        _begins(data, *native),
        lambda: image(channels=channels),
        lambda: converted(image(), channels),
    )


def _of_jpeg(data: Any, channels: int, decode: Callable[..., Any]) -> Any:
    """A JPEG by a function that TensorFlow gives no 4 channels, nor grey pixels of an image in CMYK."""
    if channels == 3:
        return decode(channels=3)
    if channels == 4:
        return converted(decode(channels=3), 4)
    return tf.cond(
        tf.io.extract_jpeg_shape(data)[2] == 4,
        lambda: converted(decode(channels=3), 1),
        lambda: decode(channels=1),
    )


def converted(image: Any, channels: int) -> Any:
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
        has_colours, lambda: image[..., :3], lambda: tf.concat([image[..., :1]] * 3, axis=-1)
    )
    if channels == 3:
        return colours
    alpha = tf.cond(
        tf.shape(image)[-1] % 2 == 0,
        lambda: image[..., -1:],
        lambda: tf.fill(
            [*tf.unstack(tf.shape(image)[:2]), 1], tf.cast(image.dtype.max, image.dtype)
        ),
    )
    return tf.concat([colours, alpha], axis=-1)


def _raw_decoder(plan: PixelPlan) -> Callable[[Parsed], Any]:
    """Decodes bare pixels: uint8, rows of pixels of channels."""

    def decode(parsed: Parsed) -> Any:
        shape = tf.stack([parsed[key] for key in plan.bare])
        image = tf.reshape(tf.io.decode_raw(parsed[plan.encoded], tf.uint8), shape)
        image = converted(image, plan.options.channels)
        return tf.cast(image, tf.uint16) * DEEPER if plan.options.dtype == DEEP else image

    return decode


def checked_images(
    image: Reader, dataset: Dataset, shards: Sequence[Shard], plan: PixelPlan, *, batched: bool
) -> Reader:
    """Checks the first images, so that what is wrong with all of them is said at once.

    Raises:
      UsageError: they are arrays instead of files, or are to be batched and differ in size.
    """
    check_first_image(dataset, shards, plan.encoded)
    return _of_one_size(image, dataset, shards) if batched and not plan.size else image


def _of_one_size(image: Reader, dataset: Dataset, shards: Sequence[Shard]) -> Reader:
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
        (height, width), second = sizes[0], next(size for size in sizes if size != sizes[0])
        raise UsageError(
            f"images of {dataset.path} differ in size, such as {height} x {width} and "
            f"{second[0]} x {second[1]} pixels, so they make no batches; {hint}"
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


def _checked_shares(random_crop: Any) -> tuple[float, float]:
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
      size: (height, width) that the part will be resized to. Unless pixels have to be exact, a JPEG is
        decoded at the smallest scale where the part is still large enough.
      plan: of the images.
    """

    shares: tuple[float, float]
    size: tuple[int, int]
    plan: PixelPlan

    def of_file(self, data: Any, number: Any) -> Any:
        """Decodes a part of an image file, as drawn by a number."""
        deep = self.plan.options.dtype == DEEP

        def of_whole() -> Any:
            return self.of_pixels(decoded(data, self.plan.options.channels, deep=deep), number)

        if deep:
            return of_whole()
        return tf.cond(_begins(data, _JPEG), lambda: self._part_of_jpeg(data, number), of_whole)

    def of_pixels(self, image: Any, number: Any) -> Any:
        """A part of an image, as drawn by a number."""
        top, left, height, width = tf.unstack(self.window(tf.shape(image)[:2], number))
        return image[top : top + height, left : left + width]

    def window(self, size: Any, number: Any) -> Any:
        """Draws top, left, height and width, int32 [4], from the height and width of an image."""
        begin, extent, _ = tf.image.stateless_sample_distorted_bounding_box(
            tf.concat([size, [3]], 0),
            tf.zeros([1, 0, 4]),
            seed=tf.stack([number, 0]),
            min_object_covered=0.0,
            aspect_ratio_range=_ASPECTS,
            area_range=self.shares,
            max_attempts=_ATTEMPTS,
            use_image_if_no_bounding_boxes=True,
        )
        return tf.concat([begin[:2], extent[:2]], 0)

    def _part_of_jpeg(self, data: Any, number: Any) -> Any:
        window = self.window(tf.io.extract_jpeg_shape(data)[:2], number)

        def decode(scale: int) -> Any:
            # In pixels of the scaled image.
            part = tf.concat([window[:2] // scale, tf.maximum(1, window[2:] // scale)], 0)
            function = partial(tf.io.decode_and_crop_jpeg, data, part, ratio=scale)
            return _of_jpeg(data, self.plan.options.channels, function)

        if self.plan.options.exact:
            return decode(1)
        needed = [scaled_side(side) for side in self.size]
        enough = [tf.reduce_all(window[2:] // scale >= needed) for scale in _SCALES]
        decoders = [partial(decode, scale) for scale in (1, *_SCALES)]
        return tf.switch_case(tf.reduce_sum(tf.cast(enough, tf.int32)), decoders)
