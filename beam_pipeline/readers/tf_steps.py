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


def picture_readers(
    dataset: Dataset, plan: PixelPlan, *, antialias: bool, shares: tuple[float, float] | None = None
) -> dict[str, Reader]:
    """Name -> what decodes, crops and resizes the image, the mask, and each further picture.

    Args:
      dataset: whose examples.
      plan: the pictures.
      antialias: as in `load`.
      shares: the least and the greatest share of an image's area that is cut out; None for the whole image.
    """
    if antialias and not plan.size:
        raise UsageError("antialias is for images that are resized: give image_size, too")
    beside = replace(plan, bare=(), formats=frozenset())
    decoders = {name: Decoder(beside) for name in plan.pictures}
    decoders[samples.IMAGE] = Decoder(plan, shares)
    return {
        name: _picture_reader(dataset, picture, decoders[name], antialias=antialias)
        for name, picture in plan.pictures.items()
    }


def _picture_reader(
    dataset: Dataset, picture: samples.Picture, decoder: Decoder, *, antialias: bool
) -> Reader:
    """Reads a picture; one that is missing is of the size of the image."""
    key, kind, plan = picture.key, picture.kind, decoder.plan
    size, channels = plan.size, 1 if kind else plan.options.channels

    def decode(parsed: Parsed) -> Any:
        if kind:
            pixels = tf.io.decode_png(parsed[key], channels=1, dtype=tf.as_dtype(kind))
        else:
            pixels = decoder.pixels(parsed, key)
        pixels.set_shape([None, None, channels])
        if not size:
            return pixels
        if kind:
            return tf.image.resize(pixels, size, tf.image.ResizeMethod.NEAREST_NEIGHBOR)
        if not antialias:
            return tf.image.resize(pixels, size)
        return tf.cond(  # which takes long, and changes nothing where it has the size
            tf.reduce_all(tf.shape(pixels)[:2] == size),
            lambda: tf.cast(pixels, tf.float32),
            lambda: tf.image.resize(pixels, size, antialias=True),
        )

    def blank(parsed: Parsed) -> Any:
        sides = size or (1, 1)
        if not size and PIXELS in parsed:
            sides = tf.unstack(tf.shape(parsed[PIXELS])[:2])
        stored = tf.as_dtype(kind or (tf.float32 if size else plan.options.dtype))
        return tf.fill([*sides, channels], tf.cast(picture.missing, stored))

    def read(parsed: Parsed) -> Any:
        if picture.optional:
            there = tf.strings.length(parsed[key]) > 0
            pixels = tf.cond(there, lambda: decode(parsed), lambda: blank(parsed))
        else:
            pixels = decode(parsed)
        sides = size or (None, None)
        if picture.missing == samples.VOID and not size and PIXELS in parsed:
            sides = parsed[PIXELS].shape[:2]  # a mask has those of its image
        return tf.ensure_shape(pixels, [*sides, channels])

    return Reader(spec_of(dataset, key, *plan.bare), read)


def crop_shares(dataset: Dataset, random_crop: Any, plan: PixelPlan) -> tuple[float, float]:
    """The least and the greatest share of an image's area that `random_crop` asks for.

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
    if samples.IMAGE not in plan.pictures:
        raise UsageError(f"{dataset.path} has no images ({ENCODED_KEY}) for random_crop")
    placed = [key for key in (*BOX_SIDES, *samples.MASK_KEYS) if dataset.key_of(key)]
    kind = "boxes or masks" if placed else "further pictures"
    placed += [p.key for name, p in plan.pictures.items() if name != samples.IMAGE]
    if placed:
        raise UsageError(
            f"{dataset.path} has {kind} ({placed[0]}), which random_crop does not move; crop them "
            "together with their image in augment"
        )
    return least, greatest


@dataclass(frozen=True)
class Decoder:
    """Decodes images, or a random part of each.

    Attributes:
      plan: of the images. Unless pixels have to be exact, a JPEG is decoded at the smallest scale that leaves
        enough of them: libjpeg then leaves out the finest details of each block of 8 x 8 pixels instead of
        computing them.
      shares: as in `picture_readers`.
    """

    plan: PixelPlan
    shares: tuple[float, float] | None = None

    def pixels(self, parsed: Parsed, key: str) -> Any:
        """Decodes the image under a key."""
        data, number = parsed[key], parsed.get(NUMBER_DRAWN)
        if self.plan.bare:
            image = _bare_pixels(data, [parsed[key] for key in self.plan.bare], self.plan)
            return self._part(image, number)
        return self.of_file(data, number)

    def of_file(self, data: Any, number: Any = None) -> Any:
        """Decodes an image file, or the part of it that a number draws."""

        def of_any_format() -> Any:
            return self._part(decoded(data, self.plan), number)

        if self.plan.deep or not (self.shares or self._needed):
            return of_any_format()
        is_jpeg = _begins(data, self.plan, _JPEG)
        return _either(is_jpeg, lambda: self._of_jpeg(data, number), of_any_format)

    @property
    def _needed(self) -> Sequence[int]:
        """The height and width that are enough of a JPEG, or none where its pixels have to be exact."""
        exact = self.plan.options.exact or not self.plan.size
        return () if exact else [*map(samples.scaled_side, self.plan.size or ())]

    def _part(self, image: Any, number: Any) -> Any:
        if not self.shares:
            return image
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

    def _of_jpeg(self, data: Any, number: Any) -> Any:
        """Decodes a JPEG at the last scale that leaves enough pixels; at 1 if none does."""
        size = tf.io.extract_jpeg_shape(data)[:2]
        window = self.window(size, number) if self.shares else tf.concat([[0, 0], size], 0)

        def decode(scale: int) -> Any:
            # In pixels of the scaled image: a side of 1001 pixels becomes 126 at the scale 1/8.
            part = tf.concat([window[:2] // scale, -(-window[2:] // scale)], 0)
            function = partial(tf.io.decode_jpeg, data, ratio=scale)
            if self.shares:
                function = partial(tf.io.decode_and_crop_jpeg, data, part, ratio=scale)
            return _of_jpeg(data, self.plan.options.channels, function)

        if not self._needed:
            return decode(1)
        enough = [tf.reduce_all(-(-window[2:] // scale) >= self._needed) for scale in _SCALES]
        scales = [partial(decode, scale) for scale in (1, *_SCALES)]
        return tf.switch_case(tf.reduce_sum(tf.cast(enough, tf.int32)), scales)


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
    samples.check_first_image(dataset, shards, plan.pictures[samples.IMAGE].key)
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
