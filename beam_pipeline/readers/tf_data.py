"""Output folder -> `tf.data.Dataset`, as described by the manifest.

The steps, in the order of the data flow, are: shards, records, filter, shuffle, repeat; then parse
and decode in one parallel map; augment, batch, prefetch. So the shuffle buffer contains encoded images,
not pixels. With a cache, which contains pixels, it follows decoding, and shuffle and repeat follow it.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import Any

from beam_pipeline.core.errors import UsageError
from beam_pipeline.core.labels.schema import ENCODED_KEY
from beam_pipeline.core.references import DEFAULT_SPLIT
from beam_pipeline.dataset import Dataset, Folders, Shard, fingerprint, is_count, open_to_read
from beam_pipeline.readers import samples
from beam_pipeline.readers.samples import PixelOptions, PixelPlan
from beam_pipeline.readers.shards import check_shards

try:
    import tensorflow as tf

    from beam_pipeline.readers import tf_steps
    from beam_pipeline.readers.tf_steps import (
        Parsed,
        Reader,
        checked_images,
        mapped,
        spec_of,
        unconverted,
    )
except ModuleNotFoundError as error:
    if error.name == "tensorflow":
        error.msg += "; reading with tf.data needs TensorFlow: pip install tensorflow"
    raise

_CLASS = "image/class/label"
_NUMBER = "image/label"
_BOX_CLASS = "image/object/class/label"
_NO_CLASS = -1
_LABELLED = "image/labelled"

Cache = bool | str | os.PathLike[str]
"""Memory, or the path of files, that keeps samples; False for none."""

SHUFFLE_BUFFER_BYTES = 128 << 20  # 128 MiB of records, as stored on disk


def load(
    folder: Folders,
    split: str = DEFAULT_SPLIT,
    *,
    features: Sequence[str] | None = None,
    weights: Sequence[int] | None = None,
    batch_size: int | None = None,
    image_size: Any = None,
    channels: int = 3,
    dtype: str = "uint8",
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
    or float32 from 0 to 255 if it was resized; with `dtype` uint16, or float32 from 0 to 65,535. The label is the first of these that the data set
    has:

    - a mask: uint8 [height, width, 1], or uint16 if masks have 16 bits: the ids, resized with the
      image, each pixel to its nearest neighbour;
    - boxes: {"boxes": float32 [n, 4], ymin, xmin, ymax, xmax from 0 to 1; "classes": int64 [n]};
      the classes are also there as "labels", as Keras names them;
    - a class: int64 [], the stored id, which counts from `--label_base`;
    - several classes: float32 [number of classes], 1 for the image's, in the order of
      `class_names`;
    - a number, or a fixed number of them: float32 [] or [n].

    An example without a label, as written by --unlabelled keep, has class -1, or -1 for each of
    several classes, or the number NaN, or a mask of 255. With boxes, there is also "labelled",
    int64 []: 0 if objects were not annotated.

    Args:
      folder: the output folder of a conversion, or its URI, such as gs://bucket/pets; or several of
        the same features and classes, which are mixed in proportion.
      split: name of a split, or a slice of one, such as `train[:10%]`.
      features: with as_dict, the keys of the features to read; others are not decoded. By default all.
      weights: for each of several folders, how many times a pass reads it.
      batch_size: images per batch; by default single elements. With `input_context` it is the
        global batch size, over all replicas, and each batch is one replica's share.
      image_size: (height, width) in pixels to resize to, bilinear, ignoring the aspect ratio. By
        default images keep their size, and all images to be batched must have the same size. One
        number applies to both, and "WIDTHxHEIGHT" may be given as for `--resize`.
      channels: 1, 3 or 4; images with another number are converted.
      dtype: "uint8", the upper 8 bits of PNGs of 16, so that data of 12 is at most 15; or "uint16" for all
        bits: then 8 bits are multiplied by 257, and 12 reach 4,095.
      shuffle: True, False, or the size of the shuffle buffer in samples. By default only what contains
        the split `train` is shuffled. True contains as many samples as take 128 MiB on disk. False gives the
        stored order, shard after shard.
      repeat: True to repeat forever, or the number of passes.
      augment: called in parallel on each element before it is batched, as augment(image, label) or
        augment(features); returns its replacement.
      seed: shuffle seed.
      deterministic: True if the order depends only on the seed, not on whether one sample is
        ready first. By default True if there is a seed, and always without shuffle.
      drop_remainder: True to drop the last batch if it is not full.
      max_boxes: pads and cuts boxes and classes to this number after `augment`, with boxes of
        zeros and class -1. By default batches of them are ragged.
      as_dict: True for every feature under its key (see `feature_spec`), with the pixels as "image"
        and "mask" instead of the encoded image and mask, and as "right" instead of `right/encoded` for
        each picture of --file_columns: uint16 [height, width, 1] if these have 16 bits and one channel,
        resized as masks are; else as the image; black if it is missing.
      input_context: the context of one of several input pipelines; each reads its own shards.
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
        boolean tensor, False to leave the example out. The features are the ones of `feature_spec`
        without image and mask. The data set then lacks a length.
      cache: True to keep the decoded, resized samples of the first pass in memory, or the path of
        local files to keep them in; later passes read no shards and decode nothing. Other shards,
        options or filters use other files of that path; a `filter` that calls Python, or looks up in a
        table, needs a path of its own.

    Returns: a data set of known length, unless there is a `filter`. Its iterator can be saved by
      `tf.train.Checkpoint`, except where tf.data lacks a reader for the format of the shards.

    Raises:
      DamagedRecordError: a local shard does not have the length in the manifest.
      UsageError: the split does not exist, or an option does not fit the data set.
      ConversionError: the folder does not contain a complete data set.
    """
    dataset: Dataset = unconverted(open_to_read)(folder, weights)  # where a tf.function calls us
    shards = tf_steps.own_shards(dataset, split, input_context)
    check_shards(dataset, shards, lengths=check_lengths)
    passes = _count("repeat", repeat, "True, False", {True: None, False: 1})
    _check_options(as_dict=as_dict, features=features, random_crop=random_crop, cache=cache)
    pixels = PixelOptions(image_size, channels, not antialias if exact is None else exact, dtype)
    plan = samples.plan_pixels(dataset, features, pixels, "as_dict" if as_dict else "")
    crop = None if random_crop is None else tf_steps.crop_shares(dataset, random_crop, plan)
    batch = _batch_size(batch_size, input_context)
    pictures = tf_steps.picture_readers(dataset, plan, antialias=antialias, shares=crop)
    if samples.IMAGE in pictures:
        checked = partial(unconverted(checked_images), pictures[samples.IMAGE])
        pictures[samples.IMAGE] = checked(dataset, shards, plan, batched=bool(batch))
    reader = (partial(_dict_reader, plan) if as_dict else _pair_reader)(dataset, pictures)
    _check_max_boxes(max_boxes, dataset, as_dict)
    shuffle = bool(re.search(rf"\b{DEFAULT_SPLIT}\b", split)) if shuffle is None else shuffle
    buffer = shuffle_buffer(shuffle, shards, plan, cache)

    def ordered(elements: Any) -> Any:
        elements = elements.shuffle(buffer, seed=seed) if buffer else elements
        return elements if passes == 1 else elements.repeat(passes)

    records = tf_steps.records_of(dataset, shards, shuffled=buffer > 0 and not cache, seed=seed)
    records = tf_steps.filtered(records, dataset, filter) if filter else records
    records = records if cache else ordered(records)
    records = tf.data.Dataset.zip((records, tf_steps.numbers(seed))) if crop else records
    elements = mapped(records, reader.of_record)
    if cache:
        read = (fingerprint(shards), plan.keys, pixels, antialias, as_dict)
        elements = ordered(elements.cache(_cache_file(cache, dataset, read, filter)))
    elements = elements.map(augment, num_parallel_calls=tf.data.AUTOTUNE) if augment else elements
    elements = _batched(elements, reader, max_boxes, batch, drop_remainder=drop_remainder)
    in_order = seed is not None if deterministic is None else deterministic
    return _prefetched(elements, in_order=in_order or not buffer)


def _prefetched(elements: Any, *, in_order: bool) -> Any:
    options = tf.data.Options()
    options.deterministic = in_order
    return elements.prefetch(tf.data.AUTOTUNE).with_options(options)


def _cache_file(path: Cache, dataset: Dataset, read: tuple[Any, ...], keep: Any) -> str:
    """The file for samples of these shards, options and filter, so that those of no others are taken for them.

    It is empty where memory keeps them.
    """
    if isinstance(path, bool):
        return ""
    read = (*read, keep is None or tf_steps.traced(dataset, keep))
    return f"{os.fspath(path)}-{hashlib.sha256(repr(read).encode()).hexdigest()[:16]}"


def _check_options(*, as_dict: bool, features: Any, random_crop: Any, cache: Any) -> None:
    """Raises UsageError for options that contradict each other."""
    if features is not None and not as_dict:
        raise UsageError("features are for as_dict=True: other elements are an image and its label")
    if random_crop and cache:
        raise UsageError("random_crop with cache would crop an image only once: leave one out")


def _batched(
    elements: Any, reader: Reader, max_boxes: int | None, batch: int | None, *, drop_remainder: bool
) -> Any:
    """The elements as they are given: objects of one number, with both names, in batches."""
    if reader.named_twice or max_boxes is not None:
        elements = mapped(elements, partial(_with_labels, max_boxes))
    if not batch:
        return elements
    make_batches = elements.ragged_batch if reader.ragged and max_boxes is None else elements.batch
    return make_batches(batch, drop_remainder)


def feature_spec(folder: Folders) -> dict[str, Any]:
    """Returns the specification of every feature for `tf.io.parse_example`.

    One value or a fixed number of them is a `FixedLenFeature`, a list of any length a
    `RaggedFeature` with int64 row splits. If an optional feature is missing, a value becomes b"",
    NaN or `tf.int64.min`, and a list is empty.

    Args:
      folder: the output folder of a conversion, or its URI.

    Raises:
      ConversionError: the folder does not contain a complete data set.
    """
    dataset = open_to_read(folder)
    return spec_of(dataset, *dataset.features)


def _count(
    name: str, value: Any, alternatives: str, meanings: Mapping[Any, int | None]
) -> int | None:
    """Returns an option that is a whole number from 1 on, or what another value means. Raises UsageError."""
    if value is None or isinstance(value, bool):
        if value in meanings:
            return meanings[value]
    elif is_count(value):
        return int(value)
    raise UsageError(f"{name} is {value!r}, expected {alternatives} or a whole number from 1 on")


def shuffle_buffer(
    shuffle: bool | int, shards: Sequence[Shard], plan: PixelPlan, cache: Cache = False
) -> int:
    """Returns the number of samples to keep; 0 for the stored order.

    With a cache, they are decoded samples: all if they are in memory anyway.
    """
    if shuffle is not True:
        return _count("shuffle", shuffle, "True, False", {False: 0}) or 0
    examples, size = sum(len(s.wanted) for s in shards), sum(s.bytes for s in shards)
    if cache is True:
        return max(1, examples)
    if cache and plan.size:
        height, width = plan.size
        sample_bytes = height * width * plan.options.channels * 4  # float32
        return max(1, min(examples, SHUFFLE_BUFFER_BYTES // sample_bytes))
    return max(1, examples * min(size, SHUFFLE_BUFFER_BYTES) // max(1, size))


def _batch_size(batch_size: int | None, input_context: Any) -> int | None:
    """Returns the images per batch on each replica; None for no batches."""
    batch_size = _count("batch_size", batch_size, "None", {None: None})
    if batch_size is None or input_context is None:
        return batch_size
    replicas = input_context.num_replicas_in_sync
    if batch_size % replicas:
        raise UsageError(
            f"batch_size is {batch_size}, the images of one step on all {replicas} replicas; "
            f"expected a multiple of {replicas}"
        )
    return int(input_context.get_per_replica_batch_size(batch_size))


# --- elements -------------------------------------------------------------------------------------


def _dict_reader(plan: PixelPlan, dataset: Dataset, pictures: Mapping[str, Reader]) -> Reader:
    """The features that were asked for under their keys, with the pixels instead of encoded ones."""
    encoded = {picture.key for picture in plan.pictures.values()}
    stored = [key for key in plan.keys if key not in encoded]
    spec = spec_of(dataset, *stored)
    for picture in pictures.values():
        spec |= picture.spec

    def read(parsed: Parsed) -> dict[str, Any]:
        element = {key: parsed[key] for key in stored}
        for name, picture in pictures.items():
            element[name] = picture.read(parsed)
            if name == samples.IMAGE:
                parsed = {**parsed, tf_steps.PIXELS: element[name]}
        return element

    return Reader(spec, read, any(dataset.features[key].ragged for key in stored))


def _pair_reader(dataset: Dataset, pictures: Mapping[str, Reader]) -> Reader:
    """(image, label); the label is a mask, or what `_label_reader` finds.

    Raises:
      UsageError: the data set lacks images, or labels of that kind.
    """
    image = pictures.get(samples.IMAGE)
    label = pictures.get(samples.MASK) or _label_reader(dataset)
    if image is None or label is None:
        missing = f"images ({ENCODED_KEY})"
        if image:
            missing = f"masks ({samples.MASK_KEYS[0]}), classes ({_CLASS}), numbers ({_NUMBER}) or boxes ({tf_steps.BOX_SIDES[0]}, ... and {_BOX_CLASS})"
        raise UsageError(
            f"{dataset.path} has no {missing}, so it cannot give pairs of image and label; "
            f"as_dict=True gives what it has: {', '.join(dataset.features)}"
        )
    read_image, read_label = image.read, label.read

    def read(parsed: Parsed) -> Any:
        pixels = read_image(parsed)
        return pixels, read_label({**parsed, tf_steps.PIXELS: pixels})

    return label._replace(spec={**image.spec, **label.spec}, read=read)


def _label_reader(dataset: Dataset) -> Reader | None:
    """Returns a reader of the label: boxes, classes or numbers; None if there are none."""
    boxes, features = dataset.keys_of((*tf_steps.BOX_SIDES, _BOX_CLASS)), dataset.features
    if boxes:
        labelled = dataset.key_of(_LABELLED)

        def read(parsed: Parsed) -> dict[str, Any]:
            *sides, classes = (parsed[key] for key in boxes)
            label = {"boxes": tf.stack(sides, axis=-1), "classes": classes}
            return {**label, "labelled": parsed[labelled]} if labelled else label

        return Reader(spec_of(dataset, *boxes, labelled), read, ragged=True, named_twice=True)
    key = dataset.key_of(_CLASS)
    if key and features[key].kind == "int64":
        if features[key].shape:
            return _classes_reader(dataset, key)
        spec = spec_of(dataset, key)
        if features[key].optional:
            spec[key] = spec[key]._replace(default_value=_NO_CLASS)
        return Reader(spec, itemgetter(key))
    key = dataset.key_of(_NUMBER)
    if key and features[key].kind == "float" and not features[key].ragged:
        return Reader(spec_of(dataset, key), itemgetter(key))
    return None


def _classes_reader(dataset: Dataset, key: str) -> Reader:
    """Returns a reader of a vector with one number per class: 1 if in the example's list, else 0.

    If the example was not labelled, and so lacks a list, all numbers are -1.
    """
    labelled = dataset.key_of(_LABELLED)
    ids = list(dataset.classes)
    if not ids:
        raise UsageError(
            f"{dataset.path} has lists of classes ({key}), but its manifest names no classes, "
            "so their number is not known; as_dict=True gives the lists"
        )

    def read(parsed: Parsed) -> Any:
        is_class = tf.equal(parsed[key][:, tf.newaxis], tf.constant(ids, tf.int64))
        vector = tf.cast(tf.reduce_any(is_class, axis=0), tf.float32)
        if labelled is None:
            return vector
        return tf.where(parsed[labelled] == 1, vector, tf.fill([len(ids)], float(_NO_CLASS)))

    return Reader(spec_of(dataset, key, labelled), read)


def _check_max_boxes(max_boxes: int | None, dataset: Dataset, as_dict: bool) -> None:
    """Checks that there are boxes to pad if they are to be padded. Raises UsageError."""
    if max_boxes is None:
        return
    _count("max_boxes", max_boxes, "None", {})
    if as_dict:
        raise UsageError("max_boxes is for pairs of image and boxes; as_dict gives lists as stored")
    if not dataset.keys_of((*tf_steps.BOX_SIDES, _BOX_CLASS)):
        raise UsageError(f"max_boxes is given, but {dataset.path} has no boxes")


def _with_labels(max_boxes: int | None, *element: Any) -> Any:
    """Adds the classes of objects as "labels", as layers and models of Keras name them.

    With `max_boxes`, boxes and classes are padded or cut to that number before.
    """
    label = element[1] if len(element) == 2 and isinstance(element[1], Mapping) else {}
    if max_boxes is not None:
        if not label.keys() >= {"boxes", "classes"}:
            raise UsageError(
                'with max_boxes, augment must return (image, {"boxes": ..., "classes": ...}), '
                f"not {element!r}"
            )
        boxes = _padded(label["boxes"], max_boxes, 0)
        label = {
            **label,
            "boxes": boxes,
            "classes": _padded(label["classes"], max_boxes, _NO_CLASS),
        }
    if "classes" in label:
        return element[0], {"labels": label["classes"], **label}
    return element if len(element) > 1 else element[0]


def _padded(values: Any, length: int, filler: int) -> Any:
    cut = values[:length]
    paddings = [[0, length - tf.shape(cut)[0]]] + [[0, 0]] * (values.shape.rank - 1)
    padded = tf.pad(cut, paddings, constant_values=tf.cast(filler, values.dtype))
    return tf.ensure_shape(padded, [length, *values.shape[1:]])
