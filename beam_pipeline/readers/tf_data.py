"""Output folder -> `tf.data.Dataset`, as described by the manifest.

The steps, in the order of the data flow, are: shards, records, filter, shuffle, repeat; then parse
and decode in one parallel map; augment, batch, prefetch. So the shuffle buffer holds encoded images,
not pixels. With a cache, which holds pixels, it follows decoding, and shuffle and repeat follow it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import Any, NamedTuple

from beam_pipeline.dataset import Dataset, Folders, Shard, StoredFeature, open_to_read
from beam_pipeline.readers.pixels import IMAGE, MASK, MASK_KEYS, VOID, checked_size, scaled_side
from beam_pipeline.readers.shards import check_regular, check_shards, open_shard
from beam_pipeline.transforms.core.dataset.sharding import DEFAULT_SPLIT
from beam_pipeline.transforms.core.errors import UsageError
from beam_pipeline.transforms.core.labels.schema import ENCODED_KEY
from beam_pipeline.transforms.core.records.record_format import RecordFormat
from beam_pipeline.transforms.core.text import counted
from beam_pipeline.transforms.core.uris import scheme_of

try:
    import tensorflow as tf

    from beam_pipeline.readers.tf_crops import JPEG, SCALES, CropDecoder, checked_shares, numbers
except ModuleNotFoundError as error:
    if error.name != "tensorflow":
        raise
    raise ModuleNotFoundError(
        "reading with tf.data needs TensorFlow: pip install tensorflow",
        name="tensorflow",
    ) from error

SHUFFLE_BUFFER_BYTES = 128 << 20  # 128 MiB of records, as stored on disk
SHARDS_AT_ONCE = 16  # not the number of cores, so that a seed gives the same order on every machine
_TENSORFLOW_SCHEMES = frozenset({"", "gs", "hdfs", "viewfs", "har"})
_RECORDS_A_TURN = 16  # records of one shard before those of the next
_CHECKED_IMAGES = 32  # images whose sizes are compared

_CLASS = "image/class/label"
_NUMBER = "image/label"
_BOX_SIDES = tuple(f"image/object/bbox/{side}" for side in ("ymin", "xmin", "ymax", "xmax"))
_BOX_CLASS = "image/object/class/label"

_DTYPES = {"bytes": tf.string, "float": tf.float32, "int64": tf.int64}
_MISSING: dict[str, Any] = {"bytes": b"", "float": float("nan"), "int64": tf.int64.min}
_CHANNELS = (1, 3, 4)
_SIDES = ("image/height", "image/width")
_OWN_CHANNELS = (b"RI", b"\xff\x0a", b"\0\0")
"""The beginnings of WebP and of JPEG XL, bare or in a container."""
_PADDING_CLASS = -1
_NO_CLASS = -1
_LABELLED = "image/labelled"
_NUMBER_DRAWN = ""  # no feature has this key

_Parsed = Mapping[str, Any]
"""Key -> tensor: the parsed features of one example."""


def load(
    folder: Folders,
    split: str = DEFAULT_SPLIT,
    *,
    batch_size: int | None = None,
    image_size: tuple[int, int] | None = None,
    channels: int = 3,
    shuffle: bool | int | None = None,
    repeat: bool | int = False,
    augment: Callable[..., Any] | None = None,
    seed: int | None = None,
    deterministic: bool | None = None,
    drop_remainder: bool = False,
    max_boxes: int | None = None,
    as_dict: bool = False,
    input_context: tf.distribute.InputContext | None = None,
    check_lengths: bool = False,
    antialias: bool = False,
    exact: bool | None = None,
    random_crop: tuple[float, float] | None = None,
    filter: Callable[..., Any] | None = None,  # noqa: A002
    cache: bool | str | os.PathLike[str] = False,
) -> tf.data.Dataset:
    """Reads one split of a data set as its manifest describes it.

    An element is (image, label), or a batch of them. The image is [height, width, channels]: uint8,
    or float32 from 0 to 255 if it was resized. The label is the first of these that the data set
    has:

    - a mask: uint8 [height, width, 1], or uint16 if masks have 16 bits: the ids, resized with the
      image, each pixel to its nearest neighbour;
    - boxes: {"boxes": float32 [n, 4], ymin, xmin, ymax, xmax from 0 to 1; "classes": int64 [n]};
      the classes are also there as "labels", as Keras names them;
    - a class: int64 [], the stored id, which counts from `--label_base`;
    - several classes: float32 [number of classes], 1 for those of the image, in the order of
      `class_names`;
    - a number, or a fixed number of them: float32 [] or [n].

    An example without a label, as written by --unlabelled keep, has class -1, or -1 for each of
    several classes, or the number NaN, or a mask of 255. With boxes, there is also "labelled",
    int64 []: 0 if objects were not annotated.

    Args:
      folder: the output folder of a conversion, or its URI, such as gs://bucket/pets; or several of
        the same features and classes, which are mixed in proportion.
      split: name of a split.
      batch_size: images per batch; by default single elements. With `input_context` it is the
        global batch size, over all replicas, and each batch is one replica's share.
      image_size: (height, width) in pixels to resize to, bilinear, ignoring the aspect ratio. By
        default images keep their size, and all images to be batched must have the same size.
      channels: 1, 3 or 4; images with another number are converted.
      shuffle: True, False, or the size of the shuffle buffer in samples. By default only the split
        `train` is shuffled. True holds as many samples as take 128 MiB on disk. False gives the
        stored order, shard after shard.
      repeat: True to repeat forever, or the number of passes.
      augment: called in parallel on each element before it is batched, as augment(image, label) or
        augment(features); returns its replacement.
      seed: shuffle seed.
      deterministic: True if the order depends only on the seed, not on which of two samples is
        ready first. By default True if there is a seed, and always without shuffle.
      drop_remainder: True to drop the last batch if it is not full.
      max_boxes: pads and cuts boxes and classes to this number after `augment`, with boxes of
        zeros and class -1. By default batches of them are ragged.
      as_dict: True for every feature under its key, as in `feature_spec`, with the pixels as "image"
        and "mask" instead of the encoded image and mask.
      input_context: the context of one of several input pipelines, each of which reads its own shards.
      check_lengths: True to check the header of every record first, for a data set from an untrusted
        source: TensorFlow crashes on a record that claims terabytes.
      antialias: True to average all pixels where `image_size` makes an image smaller, as Pillow and
        OpenCV's INTER_AREA do. By default a pixel is made of four neighbours, as in Keras's
        `image_dataset_from_directory`.
      exact: True to decode every pixel of a JPEG before it is resized; False to decode it at 1/2,
        1/4 or 1/8 of its size if that is still 1.5 times `image_size` or more. By default True
        without `antialias`, where it changes pixels by more than 1 % of the range, and False with it.
      random_crop: the least and the greatest share of an image's area, such as (0.08, 1): cuts a random
        part of such an area, and of a width between 3/4 and 4/3 of its height, out of each image, and
        resizes it to `image_size`. Only that part of a JPEG is decoded. Each pass has other crops; a
        `seed` gives the same ones in every run. Not for data sets with boxes or masks.
      filter: called as filter(features) on each example before its image is decoded; returns a
        boolean tensor, False to leave the example out. The features are those of `feature_spec`
        without image and mask. The data set has no length then.
      cache: True to keep the decoded, resized samples of the first pass in memory, or the path of
        local files to keep them in; later passes read no shards and decode nothing.

    Returns: a data set of known length, unless there is a `filter`. Its iterator can be saved by
      `tf.train.Checkpoint`, except where tf.data has no reader for the format of the shards.

    Raises:
      DamagedRecordError: a local shard does not have the length in the manifest.
      UsageError: there is no such split, or an option does not fit the data set.
      ConversionError: the folder holds no complete data set.
    """
    dataset: Dataset = _unconverted(open_to_read)(folder)  # where a tf.function calls us
    shards = _own_shards(dataset, split, input_context)
    check_shards(dataset, shards, lengths=check_lengths)
    buffer = _shuffle_buffer(split == DEFAULT_SPLIT if shuffle is None else shuffle, shards)
    passes = _passes(repeat)
    batch = _batch_size(batch_size, input_context)
    size = checked_size(image_size)
    if antialias and not size:
        raise UsageError("antialias is for images that are resized: give image_size, too")
    exact = not antialias if exact is None else exact
    crop = None
    if random_crop is not None:
        crop = _crop_decoder(dataset, random_crop, size, channels, scaled=not exact)
        if cache:
            raise UsageError("random_crop with cache would crop an image only once: leave one out")
    image = _image_reader(dataset, channels, size, antialias=antialias, scaled=not exact, crop=crop)
    if image and batch and not image_size:
        image = _of_one_size(image, dataset, shards)
    mask = _mask_reader(dataset, size) if image else None
    make_reader = _dict_reader if as_dict else _pair_reader
    reader = make_reader(dataset, image, mask)
    if max_boxes is not None:
        _check_max_boxes(max_boxes, dataset, as_dict)

    if cache and buffer and (shuffle is None or shuffle is True):
        buffer = _cached_buffer(buffer, shards, cache, size, channels)
    order = partial(_ordered, buffer=buffer, passes=passes, seed=seed)
    records = _records(dataset, shards, shuffled=buffer > 0 and not cache, seed=seed)
    if filter:
        records = _filtered(records, dataset, filter)
    ordered = records if cache else order(records)
    if crop:
        ordered = tf.data.Dataset.zip((ordered, numbers(seed)))
    elements = _mapped(ordered, reader.of_record)
    if cache:
        elements = order(elements.cache("" if cache is True else os.fspath(cache)))
    if augment:
        elements = elements.map(augment, num_parallel_calls=tf.data.AUTOTUNE)
    if max_boxes is not None:
        elements = _mapped(elements, partial(_with_max_boxes, max_boxes))
    if reader.named_twice:
        elements = _mapped(elements, _with_labels)
    if batch and reader.ragged and max_boxes is None:
        elements = elements.ragged_batch(batch, drop_remainder)
    elif batch:
        elements = elements.batch(batch, drop_remainder)
    options = tf.data.Options()
    options.deterministic = (
        not buffer or seed is not None if deterministic is None else deterministic or not buffer
    )
    return elements.prefetch(tf.data.AUTOTUNE).with_options(options)


def feature_spec(folder: Folders) -> dict[str, Any]:
    """Returns the specification of every feature for `tf.io.parse_example`.

    One value or a fixed number of them is a `FixedLenFeature`, a list of any length a
    `RaggedFeature` with int64 row splits. If an optional feature is missing, a value becomes b"",
    NaN or `tf.int64.min`, and a list is empty.

    Args:
      folder: the output folder of a conversion, or its URI.

    Raises:
      ConversionError: the folder holds no complete data set.
    """
    dataset = open_to_read(folder)
    return _spec(dataset, *dataset.features)


def _parser(feature: StoredFeature) -> Any:
    """Returns the specification of one feature for `tf.io.parse_example`."""
    dtype = _DTYPES[feature.kind]
    if feature.ragged:
        return tf.io.RaggedFeature(dtype, row_splits_dtype=tf.int64)
    missing = _MISSING[feature.kind]
    default = [missing] * feature.shape[0] if feature.shape else missing  # type: ignore[operator]
    return tf.io.FixedLenFeature(feature.shape, dtype, default if feature.optional else None)


def _spec(dataset: Dataset, *keys: str) -> dict[str, Any]:
    """Returns the specification of these features for `tf.io.parse_example`."""
    return {key: _parser(dataset.features[key]) for key in keys}


def _own_shards(dataset: Dataset, split: str, input_context: Any) -> list[Shard]:
    """Returns the shards of a split, or one input pipeline's share of them."""
    shards = dataset.shards(split)
    check_regular(shards)
    if input_context is None:
        return shards
    pipelines = input_context.num_input_pipelines
    if len(shards) < pipelines:
        raise UsageError(
            f"split {split!r} of {dataset.path} has {counted(len(shards), 'shard')} for {pipelines} input "
            f"pipelines, which each need one; convert with --num_shards {pipelines} or more"
        )
    return shards[input_context.input_pipeline_id :: pipelines]


class _Reader(NamedTuple):
    """Turns an example into an element, or a part of one.

    Attributes:
      spec: the features to parse.
      read: makes the element from the parsed features.
      ragged: True if elements differ in length.
      named_twice: True if elements get their classes as "labels", too, after `augment`.
    """

    spec: dict[str, Any]
    read: Callable[[_Parsed], Any]
    ragged: bool = False
    named_twice: bool = False

    def of_record(self, record: Any, number: Any = None) -> Any:
        """Returns the element of a serialized example; a number draws the part of its image."""
        parsed = tf.io.parse_single_example(record, self.spec)
        return self.read(parsed if number is None else {**parsed, _NUMBER_DRAWN: number})


class _MaskReader(NamedTuple):
    """Makes the mask of an example.

    Attributes:
      spec: the feature to parse.
      key: its key.
      read: makes the mask from the parsed features and the image that was made of them.
    """

    spec: dict[str, Any]
    key: str
    read: Callable[[_Parsed, Any], Any]


def _shuffle_buffer(shuffle: bool | int, shards: Sequence[Shard]) -> int:
    """Returns the number of samples to hold; 0 for the stored order."""
    if not isinstance(shuffle, bool):
        if shuffle < 1:
            raise UsageError(f"shuffle is {shuffle}, expected True, False or a number from 1 on")
        return shuffle
    if not shuffle:
        return 0
    examples, size = sum(s.examples for s in shards), sum(s.bytes for s in shards)
    return max(1, examples * min(size, SHUFFLE_BUFFER_BYTES) // max(1, size))


def _cached_buffer(
    buffer: int,
    shards: Sequence[Shard],
    cache: bool | str | os.PathLike[str],
    image_size: tuple[int, int] | None,
    channels: int,
) -> int:
    """Returns the number of decoded samples to hold: all if they are in memory anyway."""
    examples = sum(shard.examples for shard in shards)
    if cache is True:
        return max(1, examples)
    if image_size is None:
        return buffer
    sample_bytes = image_size[0] * image_size[1] * channels * 4  # float32
    return max(1, min(examples, SHUFFLE_BUFFER_BYTES // sample_bytes))


def _ordered(elements: Any, *, buffer: int, passes: int | None, seed: int | None) -> Any:
    """Shuffles and repeats a data set."""
    if buffer:
        elements = elements.shuffle(buffer, seed=seed)
    return elements if passes == 1 else elements.repeat(passes)


def _filtered(records: Any, dataset: Dataset, keep: Callable[..., Any]) -> Any:
    """Leaves out the examples for whose features a function returns False."""
    pixels = {dataset.key_of(key) for key in (ENCODED_KEY, *MASK_KEYS)}
    spec = _spec(dataset, *(key for key in dataset.features if key not in pixels))
    if not spec:
        raise UsageError(f"{dataset.path} has no features besides its pixels to filter by")
    examples = _mapped(records, lambda record: (tf.io.parse_single_example(record, spec), record))
    kept = examples.filter(lambda features, _: keep(features))
    return _mapped(kept, lambda _, record: record)


def _passes(repeat: bool | int) -> int | None:
    """Returns the number of passes; None to repeat forever."""
    if isinstance(repeat, bool):
        return None if repeat else 1
    if repeat < 1 or int(repeat) != repeat:
        raise UsageError(f"repeat is {repeat}, expected True, False or a number from 1 on")
    return int(repeat)


def _batch_size(batch_size: int | None, input_context: Any) -> int | None:
    """Returns the images per batch on each replica; None for no batches."""
    if batch_size is None:
        return None
    if batch_size < 1:
        raise UsageError(f"batch_size is {batch_size}, expected 1 or more, or None")
    if input_context is None:
        return batch_size
    replicas = input_context.num_replicas_in_sync
    if batch_size % replicas:
        raise UsageError(
            f"batch_size is {batch_size}, the images of one step on all {replicas} replicas; "
            f"expected a multiple of {replicas}"
        )
    return int(input_context.get_per_replica_batch_size(batch_size))


def _records(dataset: Dataset, shards: Sequence[Shard], *, shuffled: bool, seed: int | None) -> Any:
    """Reads the serialized examples, shard after shard, or interleaved from shards in random order."""
    open_shards = _opener(dataset.record_format, shards)
    uris = tf.constant([shard.uri for shard in shards], tf.string)
    if shuffled:
        order = tf.data.Dataset.from_tensor_slices(uris).shuffle(max(1, len(shards)), seed=seed)
        records = order.interleave(
            _unconverted(open_shards),
            cycle_length=SHARDS_AT_ONCE,
            block_length=_RECORDS_A_TURN,
            num_parallel_calls=tf.data.AUTOTUNE,
        )
    else:
        records = open_shards(uris)
    # Gives the data set a length, and raises an error at the end of a shard that lost records.
    examples = sum(shard.examples for shard in shards)
    return records.apply(tf.data.experimental.assert_cardinality(examples))


def _opener(record_format: RecordFormat, shards: Sequence[Shard]) -> Callable[[Any], Any]:
    """Returns a function from one or several URIs of shards to a data set of their records."""
    native = record_format.tf_data
    if native is None or not all(scheme_of(shard.uri) in _TENSORFLOW_SCHEMES for shard in shards):
        return partial(_records_by_python, record_format)
    return partial(getattr(tf.data, native.name), **native.arguments)


def _records_by_python(record_format: RecordFormat, uris: Any) -> Any:
    """Reads records of shards in a format, or in storage, for which tf.data has no reader."""

    def records(found: Sequence[bytes]) -> Iterator[bytes]:
        for uri in map(bytes.decode, found):
            with open_shard(uri) as file:
                yield from record_format.records(file, uri)

    return tf.data.Dataset.from_generator(
        records,
        output_signature=tf.TensorSpec([], tf.string),
        args=(tf.reshape(uris, [-1]),),
    )


def _mapped(elements: Any, function: Callable[..., Any]) -> Any:
    """Maps one of our functions over a data set, in parallel."""
    return elements.map(_unconverted(function), num_parallel_calls=tf.data.AUTOTUNE)


def _unconverted(function: Callable[..., Any]) -> Any:
    """Excludes a function from AutoGraph's conversion, which saves half a second per process."""
    return tf.autograph.experimental.do_not_convert(function)


def _image_reader(
    dataset: Dataset,
    channels: int,
    image_size: tuple[int, int] | None,
    *,
    antialias: bool,
    scaled: bool,
    crop: CropDecoder | None = None,
) -> _Reader | None:
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
        spec = _spec(dataset, encoded)

        def decode(parsed: _Parsed) -> Any:
            return crop.of_file(parsed[encoded], parsed[_NUMBER_DRAWN])

    elif image_size and sides:
        spec, decode = _scaled_decoder(dataset, encoded, channels, image_size, sides)
    else:
        spec, decode = _file_decoder(dataset, encoded, channels)

    def read(parsed: _Parsed) -> Any:
        image = decode(parsed)
        image.set_shape([None, None, channels])
        if image_size and antialias:
            return _averaged(image, image_size, channels)
        return tf.image.resize(image, image_size) if image_size else image

    return _Reader(spec, read)


def _averaged(image: Any, image_size: tuple[int, int], channels: int) -> Any:
    """Resizes an image with antialiasing, which takes long and changes nothing where it has the size."""
    resized = tf.cond(
        tf.reduce_all(tf.shape(image)[:2] == image_size),
        lambda: tf.cast(image, tf.float32),
        lambda: tf.image.resize(image, image_size, antialias=True),
    )
    return tf.ensure_shape(resized, [*image_size, channels])


def _crop_decoder(
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
    placed = [key for key in (*_BOX_SIDES, *MASK_KEYS) if dataset.key_of(key)]
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


def _cropped(decode: Callable[[_Parsed], Any], crop: CropDecoder) -> Callable[[_Parsed], Any]:
    """Takes a random part of what a function decodes."""
    return lambda parsed: crop.of_pixels(decode(parsed), parsed[_NUMBER_DRAWN])


def _mask_reader(dataset: Dataset, image_size: tuple[int, int] | None) -> _MaskReader | None:
    """Decodes and resizes the mask; None if the examples have none."""
    key = next(filter(None, map(dataset.key_of, MASK_KEYS)), None)
    if key is None or not dataset.features[key].pixels:
        return None
    pixels = tf.as_dtype(dataset.features[key].pixels)

    def read(parsed: _Parsed, image: Any) -> Any:
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

    return _MaskReader(_spec(dataset, key), key, read)


def _file_decoder(
    dataset: Dataset, encoded: str, channels: int
) -> tuple[dict[str, Any], Callable[[_Parsed], Any]]:
    """Decodes image files; takes the first frame."""

    def decode(parsed: _Parsed) -> Any:
        return _decoded(parsed[encoded], channels)

    return _spec(dataset, encoded), decode


def _scaled_decoder(
    dataset: Dataset,
    encoded: str,
    channels: int,
    image_size: tuple[int, int],
    sides: Sequence[str],
) -> tuple[dict[str, Any], Callable[[_Parsed], Any]]:
    """Decodes image files, JPEGs at the smallest scale at which both sides are still long enough.

    libjpeg then leaves out the finest details of each block of 8 x 8 pixels instead of computing them.
    """

    def decode(parsed: _Parsed) -> Any:
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

    return _spec(dataset, encoded, *sides), decode


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
) -> tuple[dict[str, Any], Callable[[_Parsed], Any]]:
    """Decodes bare pixels: uint8, rows of pixels of channels."""
    sizes = dataset.keys_of(("image/height", "image/width", "image/channels"))
    if sizes is None:
        raise UsageError(
            f"{dataset.path} holds bare pixels without image/height, image/width and "
            "image/channels, so they cannot be decoded; feature_spec() reads them as bytes"
        )
    if channels > 3:
        raise UsageError(f"channels is {channels}, but {dataset.path} holds bare pixels: 1 or 3")

    def decode(parsed: _Parsed) -> Any:
        stored = parsed[sizes[2]]
        shape = tf.stack([parsed[key] for key in sizes])
        image = tf.reshape(tf.io.decode_raw(parsed[encoded], tf.uint8), shape)
        convert = tf.image.grayscale_to_rgb if channels == 3 else tf.image.rgb_to_grayscale
        return tf.cond(stored == channels, lambda: image, lambda: convert(image))

    return _spec(dataset, encoded, *sizes), decode


def _of_one_size(image: _Reader, dataset: Dataset, shards: Sequence[Shard]) -> _Reader:
    """Gives images the size of the first one as their static shape.

    Raises:
      UsageError: the first few differ in size. A later image of another size fails its batch.
    """
    if not tf.executing_eagerly():
        raise UsageError("batch_size needs image_size too where load() is called in a tf.function")
    records = _records(dataset, shards, shuffled=False, seed=None).take(_CHECKED_IMAGES)
    first = _mapped(records, lambda record: tf.shape(image.of_record(record)))
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

    def read(parsed: _Parsed) -> Any:
        made = image.read(parsed)
        message = f"images of {dataset.path} differ in size; {hint}"
        with tf.control_dependencies(
            [tf.debugging.assert_equal(tf.shape(made)[:2], sizes[0], message)]
        ):
            return tf.ensure_shape(made, [*sizes[0], made.shape[2]])

    return image._replace(read=read)


def _dict_reader(dataset: Dataset, image: _Reader | None, mask: _MaskReader | None) -> _Reader:
    """Every feature under its key, with the pixels instead of the encoded image and mask."""
    features = dataset.features
    encoded = dataset.key_of(ENCODED_KEY)
    for made, name, key in ((image, IMAGE, encoded), (mask, MASK, mask.key if mask else "")):
        if made and name in features and key != name:
            raise UsageError(
                f"{dataset.path} has a feature {name!r}, which is where as_dict puts the pixels; "
                "feature_spec() reads them both"
            )

    def read(parsed: _Parsed) -> dict[str, Any]:
        if image is None:
            return dict(parsed)
        element = {
            key: value for key, value in parsed.items() if key not in (encoded, _NUMBER_DRAWN)
        }
        element[IMAGE] = image.read(parsed)
        if mask:
            del element[mask.key]
            element[MASK] = mask.read(parsed, element[IMAGE])
        return element

    ragged = any(feature.ragged for feature in features.values())
    return _Reader(_spec(dataset, *features), read, ragged)


def _pair_reader(dataset: Dataset, image: _Reader | None, mask: _MaskReader | None) -> _Reader:
    """(image, label)."""
    if image and mask:
        read_mask = mask.read
        read = image.read

        def pair(parsed: _Parsed) -> Any:
            pixels = read(parsed)
            return pixels, read_mask(parsed, pixels)

        return _Reader({**image.spec, **mask.spec}, pair)
    label = _label_reader(dataset)
    if image is None or label is None:
        missing = (
            f"images ({ENCODED_KEY})"
            if image is None
            else (
                f"masks ({MASK_KEYS[0]}), classes ({_CLASS}), numbers ({_NUMBER}) or boxes ({_BOX_SIDES[0]}, ... and {_BOX_CLASS})"
            )
        )
        raise UsageError(
            f"{dataset.path} has no {missing}, so it has no pairs of image and label; "
            f"as_dict=True gives what it has: {', '.join(dataset.features)}"
        )
    read_image, read_label = image.read, label.read
    return _Reader(
        {**image.spec, **label.spec},
        lambda parsed: (read_image(parsed), read_label(parsed)),
        label.ragged,
        label.named_twice,
    )


def _label_reader(dataset: Dataset) -> _Reader | None:
    """Returns a reader of the label: boxes, classes or numbers; None if there are none."""
    boxes = dataset.keys_of((*_BOX_SIDES, _BOX_CLASS))
    if boxes:
        return _box_reader(dataset, boxes)
    features = dataset.features
    key = dataset.key_of(_CLASS)
    if key and features[key].kind == "int64":
        return _classes_reader(dataset, key) if features[key].shape else _class(dataset, key)
    key = dataset.key_of(_NUMBER)
    if key and features[key].kind == "float" and not features[key].ragged:
        return _value(dataset, key)
    return None


def _value(dataset: Dataset, key: str) -> _Reader:
    return _Reader(_spec(dataset, key), itemgetter(key))


def _class(dataset: Dataset, key: str) -> _Reader:
    """Returns the id of the class; -1 if the example has none."""
    spec = _spec(dataset, key)
    if dataset.features[key].optional:
        spec[key] = spec[key]._replace(default_value=_NO_CLASS)
    return _Reader(spec, itemgetter(key))


def _box_reader(dataset: Dataset, keys: Sequence[str]) -> _Reader:
    labelled = dataset.key_of(_LABELLED)

    def read(parsed: _Parsed) -> dict[str, Any]:
        *sides, classes = (parsed[key] for key in keys)
        label = {"boxes": tf.stack(sides, axis=-1), "classes": classes}
        return {**label, "labelled": parsed[labelled]} if labelled else label

    return _Reader(
        _spec(dataset, *keys, *filter(None, [labelled])), read, ragged=True, named_twice=True
    )


def _classes_reader(dataset: Dataset, key: str) -> _Reader:
    """Returns a reader of a vector with one number per class: 1 if in the example's list, else 0.

    If the example was not labelled, and so has no list, all numbers are -1.
    """
    labelled = dataset.key_of(_LABELLED)
    ids = list(dataset.classes)
    if not ids:
        raise UsageError(
            f"{dataset.path} has lists of classes ({key}), but its manifest names no classes, "
            "so their number is not known; as_dict=True gives the lists"
        )

    def read(parsed: _Parsed) -> Any:
        found = tf.equal(parsed[key][:, tf.newaxis], tf.constant(ids, tf.int64))
        vector = tf.cast(tf.reduce_any(found, axis=0), tf.float32)
        if labelled is None:
            return vector
        return tf.where(parsed[labelled] == 1, vector, tf.fill([len(ids)], float(_NO_CLASS)))

    return _Reader(_spec(dataset, key, *filter(None, [labelled])), read)


def _check_max_boxes(max_boxes: int, dataset: Dataset, as_dict: bool) -> None:
    if max_boxes < 1:
        raise UsageError(f"max_boxes is {max_boxes}, expected 1 or more, or None")
    if as_dict:
        raise UsageError("max_boxes is for pairs of image and boxes; as_dict gives lists as stored")
    if not dataset.keys_of((*_BOX_SIDES, _BOX_CLASS)):
        raise UsageError(f"max_boxes is given, but {dataset.path} has no boxes")


def _with_max_boxes(max_boxes: int, *element: Any) -> tuple[Any, dict[str, Any]]:
    """Pads or cuts the boxes and classes of an element to a fixed number."""
    try:
        image, label = element
        boxes, classes = label["boxes"], label["classes"]
    except (TypeError, ValueError, KeyError) as error:
        raise UsageError(
            'with max_boxes, augment must return (image, {"boxes": ..., "classes": ...}), '
            f"not {element!r}"
        ) from error
    padded = {
        "boxes": _padded(boxes, max_boxes, 0),
        "classes": _padded(classes, max_boxes, _PADDING_CLASS),
    }
    return image, {**label, **padded}


def _padded(values: Any, length: int, filler: int) -> Any:
    cut = values[:length]
    paddings = [[0, length - tf.shape(cut)[0]]] + [[0, 0]] * (values.shape.rank - 1)
    padded = tf.pad(cut, paddings, constant_values=tf.cast(filler, values.dtype))
    return tf.ensure_shape(padded, [length, *values.shape[1:]])


def _with_labels(*element: Any) -> Any:
    """Adds the classes of objects as "labels", as layers and models of Keras name them."""
    if len(element) == 2 and isinstance(element[1], Mapping) and "classes" in element[1]:
        image, label = element
        return image, {"labels": label["classes"], **label}
    return element if len(element) > 1 else element[0]
