"""The steps of `load`: shards -> serialized examples -> parsed features -> the pixels of images and masks.

The window of a random crop is drawn in the pixels of the whole image. It has a random share of the image's
area and a ratio of width to height between 3/4 and 4/3; where none fits, it is the whole image. Only that
part of a JPEG is decoded. Decoded at 1/2, 1/4 or 1/8 of the size, it begins and ends at a multiple of 2,
4 or 8 pixels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import tensorflow as tf

from beam_pipeline.core.dataset.manifest import FeatureEntry
from beam_pipeline.core.errors import UsageError
from beam_pipeline.core.labels.schema import ENCODED_KEY
from beam_pipeline.core.records.record_format import RecordFormat
from beam_pipeline.core.text import counted
from beam_pipeline.core.uris import scheme_of
from beam_pipeline.dataset import Dataset, Shard
from beam_pipeline.readers import samples
from beam_pipeline.readers.samples import PixelPlan
from beam_pipeline.readers.shards import records_of_shard

BOX_SIDES = tuple(f"image/object/bbox/{side}" for side in ("ymin", "xmin", "ymax", "xmax"))
SHARDS_AT_ONCE = 16  # not the number of cores, so that a seed gives the same order on every machine
_TENSORFLOW_SCHEMES = frozenset({"", "gs", "hdfs", "viewfs", "har"})
_RECORDS_A_TURN = 16  # records of one shard before the next
_DTYPES = {"bytes": tf.string, "float": tf.float32, "int64": tf.int64}
_CHECKED_IMAGES = 32  # images whose sizes are compared
_JPEG, _PNG = b"\xff\xd8", b"\x89P"
_BEGINNINGS = {"jpeg": _JPEG, "png": _PNG, "gif": b"GI", "bmp": b"BM"}
_NATIVE = {1: (_PNG,), 3: tuple(_BEGINNINGS.values()), 4: ()}
"""Channels -> the beginnings of the formats that TensorFlow itself decodes to so many; 1-bit PNGs, for
example, get an alpha of 1. Others are converted."""
_SCALES = (2, 4, 8)  # that libjpeg can divide the sides of an image by, besides 1
_ASPECTS = (3 / 4, 4 / 3)
_ATTEMPTS = 10

Parsed = Mapping[str, Any]
"""Key -> tensor: the parsed features of one example; under these two names, which no feature has, what was
made of them or for them."""
NUMBER_DRAWN, PIXELS = "", " "


def own_shards(dataset: Dataset, split: str, input_context: Any) -> list[Shard]:
    """Returns the shards of a split, or one input pipeline's share of them: as much of each data set."""
    shards = dataset.shards(split)
    if input_context is None:
        return shards
    pipelines = input_context.num_input_pipelines
    if len(shards) < pipelines:
        raise UsageError(
            f"split {split!r} of {dataset.path} has {counted(len(shards), 'shard')} for {pipelines} input "
            f"pipelines, which each need one; convert with --num_shards {pipelines} or more"
        )
    by_data_set = sorted(range(len(shards)), key=lambda i: shards[i].uri.rpartition("/")[0])
    return [shards[i] for i in sorted(by_data_set[input_context.input_pipeline_id :: pipelines])]


def filtered(records: Any, dataset: Dataset, keep: Callable[..., Any]) -> Any:
    """Leaves out the examples whose features make a function return False."""
    spec = _spec_to_filter(dataset)
    examples = mapped(records, lambda record: (tf.io.parse_single_example(record, spec), record))
    wanted = examples.filter(lambda features, _: keep(features))
    return mapped(wanted, lambda _, record: record)


def _spec_to_filter(dataset: Dataset) -> dict[str, Any]:
    pixels = {dataset.key_of(key) for key in (ENCODED_KEY, *samples.MASK_KEYS)}
    spec = spec_of(dataset, *(key for key in dataset.features if key not in pixels))
    if not spec:
        raise UsageError(f"{dataset.path} lacks features besides its pixels to filter by")
    return spec


def traced(dataset: Dataset, keep: Callable[..., Any]) -> list[Any]:
    """What a filter computes: its graph, and the values from outside."""
    spec = _spec_to_filter(dataset)
    graph_of = tf.function(lambda record: keep(tf.io.parse_single_example(record, spec)))
    function = graph_of.get_concrete_function(tf.TensorSpec([], tf.string))
    values = [v.numpy().tolist() for v in function.captured_inputs if v.dtype != tf.resource]
    return [function.graph.as_graph_def().SerializeToString(deterministic=True), *values]


def records_of(
    dataset: Dataset, shards: Sequence[Shard], *, shuffled: bool, seed: int | None
) -> Any:
    """Reads the serialized examples, shard after shard, or interleaved from shards in random order."""
    open_shards = _opener(dataset.manifest.record_format, shards)
    uris = tf.constant([shard.uri for shard in shards], tf.string)
    skip_and_take = [(shard.wanted.start, len(shard.wanted)) for shard in shards]
    ranges = tf.constant(skip_and_take, tf.int64, (len(shards), 2))
    whole = all(shard.part is None for shard in shards)

    def open_part(uri: Any, span: Any) -> Any:
        records = open_shards(uri)
        return records if whole else records.skip(span[0]).take(span[1])

    order = tf.data.Dataset.from_tensor_slices((uris, ranges))
    if shuffled:
        order = order.shuffle(max(1, len(shards)), seed=seed)
        records = order.interleave(
            unconverted(open_part),
            cycle_length=SHARDS_AT_ONCE,
            block_length=_RECORDS_A_TURN,
            num_parallel_calls=tf.data.AUTOTUNE,
        )
    elif whole:
        records = open_shards(uris)
    else:
        records = order.flat_map(unconverted(open_part))
    # Gives the data set a length, and raises an error at the end of a shard that lost records.
    examples = sum(len(shard.wanted) for shard in shards)
    return records.apply(tf.data.experimental.assert_cardinality(examples))


def _opener(record_format: RecordFormat, shards: Sequence[Shard]) -> Callable[[Any], Any]:
    """Returns a function from one or several URIs of shards to a data set of all their records."""
    native = record_format.tf_data
    if native and all(scheme_of(shard.uri) in _TENSORFLOW_SCHEMES for shard in shards):
        class_name, arguments = native
        return partial(getattr(tf.data, class_name), **arguments)
    by_uri = {shard.uri: shard._replace(part=None) for shard in shards}

    def records(uris: Sequence[bytes]) -> Iterator[bytes]:
        for uri in map(bytes.decode, uris):
            yield from records_of_shard(by_uri[uri], record_format)

    def by_python(uris: Any) -> Any:
        signature = tf.TensorSpec([], tf.string)
        return tf.data.Dataset.from_generator(
            records, output_signature=signature, args=(tf.reshape(uris, [-1]),)
        )

    return by_python


def mapped(elements: Any, function: Callable[..., Any]) -> Any:
    """Maps one of our functions over a data set, in parallel."""
    return elements.map(unconverted(function), num_parallel_calls=tf.data.AUTOTUNE)


unconverted: Callable[[Any], Any] = tf.autograph.experimental.do_not_convert
"""Excludes a function from AutoGraph's conversion, which saves half a second per process."""


# --- features -------------------------------------------------------------------------------------


def spec_of(dataset: Dataset, *keys: str | None) -> dict[str, Any]:
    """Returns the specification of these features for `tf.io.parse_example`; None is of no feature."""
    return {key: _parser(dataset.features[key]) for key in keys if key}


def _parser(feature: FeatureEntry) -> Any:
    """Returns the specification of one feature for `tf.io.parse_example`."""
    dtype = _DTYPES[feature.kind]
    if feature.ragged:
        return tf.io.RaggedFeature(dtype, row_splits_dtype=tf.int64)
    missing = feature.missing
    default = [missing] * feature.shape[0] if feature.shape else missing  # type: ignore[operator]
    return tf.io.FixedLenFeature(feature.shape, dtype, default if feature.optional else None)


class Reader(NamedTuple):
    """Turns an example into an element, or a part of one.

    Attributes:
      spec: the features to parse.
      read: makes the element from the parsed features.
      ragged: True if elements differ in length.
      named_twice: True if elements also get their classes as "labels", after `augment`.
    """

    spec: dict[str, Any]
    read: Callable[[Parsed], Any]
    ragged: bool = False
    named_twice: bool = False

    def of_record(self, record: Any, number: Any = None) -> Any:
        """Returns the element of a serialized example; a number draws the part of its image."""
        parsed = tf.io.parse_single_example(record, self.spec)
        return self.read(parsed if number is None else {**parsed, NUMBER_DRAWN: number})


# --- pixels ---------------------------------------------------------------------------------------


def image_reader(
    dataset: Dataset, plan: PixelPlan, *, antialias: bool, crop: CropDecoder | None = None
) -> Reader | None:
    """Returns a reader that decodes, crops and resizes the image; None if the examples lack images."""
    encoded, size, channels = plan.encoded, plan.size, plan.options.channels
    if antialias and not size:
        raise UsageError("antialias is for images that are resized: give image_size, too")
    if not encoded:
        return None
    optional = dataset.features[encoded].optional
    if optional:
        plan = replace(plan, formats=frozenset())
    no_jpeg = plan.formats and "jpeg" not in plan.formats
    exact = plan.options.exact or plan.deep or plan.bare or crop or not size or no_jpeg

    def decode(parsed: Parsed) -> Any:
        data, number = parsed[encoded], parsed.get(NUMBER_DRAWN)
        if optional:
            data = tf.where(tf.equal(data, b""), samples.BLACK, data)
        if plan.bare:
            image = _bare_pixels(data, [parsed[key] for key in plan.bare], plan)
            return crop.of_pixels(image, number) if crop else image
        if crop:
            return crop.of_file(data, number)
        if plan.sides and not exact:
            return _scaled(data, [parsed[key] for key in plan.sides], plan)
        return decoded(data, plan)

    def read(parsed: Parsed) -> Any:
        image = decode(parsed)
        image.set_shape([None, None, channels])
        if not size:
            return image
        if not antialias:
            return tf.image.resize(image, size)
        resized = tf.cond(  # which takes long, and changes nothing where it has the size
            tf.reduce_all(tf.shape(image)[:2] == size),
            lambda: tf.cast(image, tf.float32),
            lambda: tf.image.resize(image, size, antialias=True),
        )
        return tf.ensure_shape(resized, [*size, channels])

    return Reader(spec_of(dataset, encoded, *plan.bare, *(() if exact else plan.sides)), read)


def crop_decoder(dataset: Dataset, random_crop: Any, plan: PixelPlan) -> CropDecoder:
    """Returns what decodes random parts of images.

    Raises:
      UsageError: an option does not fit, or the data set has labels that belong to places in images.
    """
    try:
        least, greatest = map(float, random_crop)
    except (TypeError, ValueError):
        least = greatest = 0
    if not 0 < least <= greatest <= 1:
        raise UsageError(
            f"random_crop is {random_crop!r}, expected the least and the greatest share of an image's "
            "area, such as (0.08, 1)"
        )
    if plan.size is None:
        raise UsageError("random_crop is for images that are resized: give image_size, too")
    if not plan.encoded:
        raise UsageError(f"{dataset.path} has no images ({ENCODED_KEY}) for random_crop")
    placed = [key for key in (*BOX_SIDES, *samples.MASK_KEYS) if dataset.key_of(key)]
    kind = "boxes or masks" if placed else "further pictures"
    placed += [key for key, _ in plan.pictures.values()]
    if placed:
        raise UsageError(
            f"{dataset.path} has {kind} ({placed[0]}), which random_crop does not move; crop them "
            "together with their image in augment"
        )
    return CropDecoder((least, greatest), plan)


def mask_readers(
    dataset: Dataset, plan: PixelPlan, *, antialias: bool = False
) -> dict[str, Reader]:
    """Name -> what decodes and resizes the mask, and each further picture."""
    made = {}
    if plan.mask:
        made[samples.MASK] = _mask_reader(dataset, plan, plan.mask, plan.mask_pixels, samples.VOID)
    for name, (key, pixels) in plan.pictures.items():
        if pixels == samples.DEEP:
            made[name] = _mask_reader(dataset, plan, key, pixels, 0)
        else:
            part = replace(plan, encoded=key, bare=(), sides=(), formats=frozenset())
            image = image_reader(dataset, part, antialias=antialias)
            assert image
            made[name] = image._replace(read=_or_black(key, image, plan))
    return made


def _or_black(key: str, picture: Reader, plan: PixelPlan) -> Callable[[Parsed], Any]:
    """Reads a picture; one that is missing is black, of the size of the image."""
    kind = tf.float32 if plan.size else tf.as_dtype(plan.options.dtype)

    def read(parsed: Parsed) -> Any:
        made = tf.cond(
            tf.strings.length(parsed[key]) > 0,
            lambda: picture.read(parsed),
            lambda: tf.zeros([*(plan.size or _size_of_image(parsed)), plan.options.channels], kind),
        )
        return tf.ensure_shape(made, [*(plan.size or (None, None)), plan.options.channels])

    return read


def _size_of_image(parsed: Parsed) -> Sequence[Any]:
    return tf.unstack(tf.shape(parsed[PIXELS])[:2]) if PIXELS in parsed else (1, 1)


def _mask_reader(
    dataset: Dataset, plan: PixelPlan, key: str, pixels_type: str, missing: int
) -> Reader:
    pixels = tf.as_dtype(pixels_type)

    def read(parsed: Parsed) -> Any:
        decode = partial(tf.io.decode_png, parsed[key], channels=1, dtype=pixels)
        if dataset.features[key].optional:
            mask = tf.cond(
                tf.strings.length(parsed[key]) > 0,
                decode,
                lambda: tf.fill([*_size_of_image(parsed), 1], tf.cast(missing, pixels)),
            )
        else:
            mask = decode()
        mask.set_shape([None, None, 1])
        if plan.size:
            return tf.image.resize(mask, plan.size, tf.image.ResizeMethod.NEAREST_NEIGHBOR)
        of_image = PIXELS in parsed and key == plan.mask
        return tf.ensure_shape(mask, [*parsed[PIXELS].shape[:2], 1]) if of_image else mask

    return Reader(spec_of(dataset, key), read)


def _scaled(data: Any, sides: Sequence[Any], plan: PixelPlan) -> Any:
    """Decodes an image file, a JPEG at the smallest scale with both sides long enough.

    libjpeg then leaves out the finest details of each block of 8 x 8 pixels instead of computing them.
    """

    def decode(scale: int) -> Any:
        if scale == 1:
            return decoded(data, plan)
        return _of_jpeg(data, plan.options.channels, partial(tf.io.decode_jpeg, data, ratio=scale))

    # A side of 1001 pixels becomes 126 at the scale 1/8.
    pairs = list(zip(sides, map(samples.scaled_side, plan.size or ()), strict=True))
    enough = [
        tf.reduce_all([-(-side // scale) >= least for side, least in pairs]) for scale in _SCALES
    ]
    return _at_scale(enough, decode, where=_begins(data, plan, _JPEG))


def _at_scale(enough: Sequence[Any], decode: Callable[[int], Any], where: Any = True) -> Any:
    """Decodes at the last scale that leaves enough pixels; at 1 if none does, or not where it may be less."""
    number = tf.where(where, tf.reduce_sum(tf.cast(enough, tf.int32)), 0)
    return tf.switch_case(number, [partial(decode, scale) for scale in (1, *_SCALES)])


def _begins(data: Any, plan: PixelPlan, *beginnings: bytes) -> Any:
    """Tells whether an image file begins in one of these ways; a bool where the plan's formats tell it of all."""
    known = {_BEGINNINGS.get(name, b"") for name in plan.formats}
    if known and (known <= {*beginnings} or known.isdisjoint(beginnings)):
        return known <= {*beginnings}
    return tf.reduce_any(tf.strings.substr(data, 0, 2) == beginnings)


def _either(test: Any, first: Callable[[], Any], second: Callable[[], Any]) -> Any:
    """`tf.cond`, which takes time for each image, unless the test is a bool."""
    if isinstance(test, bool):
        return first() if test else second()
    return tf.cond(test, first, second)


def decoded(data: Any, plan: PixelPlan) -> Any:
    """Decodes an image file, the first frame, to the plan's channels, and uint16 pixels if it is deep."""
    channels = plan.options.channels
    if plan.deep:
        shallow = replace(plan, options=plan.options._replace(dtype="uint8"))
        return _either(
            _begins(data, plan, _PNG),
            lambda: converted(tf.io.decode_png(data, dtype=tf.uint16), channels),
            lambda: tf.cast(decoded(data, shallow), tf.uint16) * samples.DEEPER,
        )
    image = partial(tf.io.decode_image, data, expand_animations=False)
    native = _NATIVE[channels]

    def of_any_format() -> Any:
        return _either(
            bool(native) and _begins(data, plan, *native),
            lambda: image(channels=channels),
            lambda: converted(image(), channels),
        )

    if channels != 1:
        return of_any_format()
    # A JPEG is grey without its colours, unless it is of CMYK.
    of_jpeg = partial(_of_jpeg, data, 1, partial(tf.io.decode_jpeg, data))
    return _either(_begins(data, plan, _JPEG), of_jpeg, of_any_format)


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


def _bare_pixels(data: Any, shape: Sequence[Any], plan: PixelPlan) -> Any:
    """Decodes bare pixels: uint8, rows of pixels of channels."""
    image = tf.reshape(tf.io.decode_raw(data, tf.uint8), tf.stack(shape))
    image = converted(image, plan.options.channels)
    return tf.cast(image, tf.uint16) * samples.DEEPER if plan.deep else image


def checked_images(
    image: Reader, dataset: Dataset, shards: Sequence[Shard], plan: PixelPlan, *, batched: bool
) -> Reader:
    """Checks the first images; to be batched, all get the size of the first one as their static shape.

    Raises:
      UsageError: they are arrays instead of files, or are to be batched and differ in size. A later image of
        another size fails its batch.
    """
    samples.check_first_image(dataset, shards, plan.encoded)
    if not batched or plan.size:
        return image
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
        same = tf.debugging.assert_equal(tf.shape(made)[:2], sizes[0], message)
        with tf.control_dependencies([same]):
            return tf.ensure_shape(made, [*sizes[0], made.shape[2]])

    return image._replace(read=read)


def numbers(seed: int | None) -> Any:
    """An endless data set of random numbers; other ones in each pass, the same ones for a seed."""
    return tf.data.Dataset.random(seed, rerandomize_each_iteration=True)


@dataclass(frozen=True)
class CropDecoder:
    """Decodes a random part of an image file.

    Attributes:
      shares: the least and the greatest share of the image's area.
      plan: of the images, which are resized. Unless pixels have to be exact, a JPEG is decoded at the smallest
        scale where the part is still large enough.
    """

    shares: tuple[float, float]
    plan: PixelPlan

    def of_file(self, data: Any, number: Any) -> Any:
        """Decodes a part of an image file, as drawn by a number."""

        def of_whole() -> Any:
            return self.of_pixels(decoded(data, self.plan), number)

        if self.plan.deep:
            return of_whole()
        is_jpeg = _begins(data, self.plan, _JPEG)
        return _either(is_jpeg, lambda: self._part_of_jpeg(data, number), of_whole)

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
        needed = [samples.scaled_side(side) for side in self.plan.size or ()]
        enough = [tf.reduce_all(window[2:] // scale >= needed) for scale in _SCALES]
        return _at_scale(enough, decode)
