"""Shards -> serialized examples -> their features as tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
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
from beam_pipeline.readers.samples import MASK_KEYS
from beam_pipeline.readers.shards import records_of_shard

SHARDS_AT_ONCE = 16  # not the number of cores, so that a seed gives the same order on every machine
_TENSORFLOW_SCHEMES = frozenset({"", "gs", "hdfs", "viewfs", "har"})
_RECORDS_A_TURN = 16  # records of one shard before the next


def own_shards(dataset: Dataset, split: str, input_context: Any) -> list[Shard]:
    """Returns the shards of a split, or one input pipeline's share of them."""
    shards = dataset.shards(split)
    if input_context is None:
        return shards
    pipelines = input_context.num_input_pipelines
    if len(shards) < pipelines:
        raise UsageError(
            f"split {split!r} of {dataset.path} has {counted(len(shards), 'shard')} for {pipelines} input "
            f"pipelines, which each need one; convert with --num_shards {pipelines} or more"
        )
    return shards[input_context.input_pipeline_id :: pipelines]


def filtered(records: Any, dataset: Dataset, keep: Callable[..., Any]) -> Any:
    """Leaves out the examples whose features make a function return False."""
    pixels = {dataset.key_of(key) for key in (ENCODED_KEY, *MASK_KEYS)}
    spec = spec_of(dataset, *(key for key in dataset.features if key not in pixels))
    if not spec:
        raise UsageError(f"{dataset.path} lacks features besides its pixels to filter by")
    examples = mapped(records, lambda record: (tf.io.parse_single_example(record, spec), record))
    wanted = examples.filter(lambda features, _: keep(features))
    return mapped(wanted, lambda _, record: record)


def records_of(
    dataset: Dataset, shards: Sequence[Shard], *, shuffled: bool, seed: int | None
) -> Any:
    """Reads the serialized examples, shard after shard, or interleaved from shards in random order."""
    open_shards = _opener(dataset.record_format, shards)
    uris = tf.constant([shard.uri for shard in shards], tf.string)
    ranges = tf.constant([_skip_and_take(shard) for shard in shards], tf.int64, (len(shards), 2))
    whole = all(shard.part is None for shard in shards)

    def open_part(uri: Any, skip_and_take: Any) -> Any:
        records = open_shards(uri)
        return records if whole else records.skip(skip_and_take[0]).take(skip_and_take[1])

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


def _skip_and_take(shard: Shard) -> tuple[int, int]:
    return shard.wanted.start, len(shard.wanted)


def _opener(record_format: RecordFormat, shards: Sequence[Shard]) -> Callable[[Any], Any]:
    """Returns a function from one or several URIs of shards to a data set of all their records."""
    native = record_format.tf_data
    if native is None or not all(scheme_of(shard.uri) in _TENSORFLOW_SCHEMES for shard in shards):
        by_uri = {shard.uri: shard._replace(part=None) for shard in shards}
        return partial(_records_by_python, record_format, by_uri)
    return partial(getattr(tf.data, native.name), **native.arguments)


def _records_by_python(record_format: RecordFormat, shards: Mapping[str, Shard], uris: Any) -> Any:
    """Reads records of shards in a format or storage that tf.data cannot read."""

    def records(wanted: Sequence[bytes]) -> Iterator[bytes]:
        for uri in map(bytes.decode, wanted):
            yield from records_of_shard(shards[uri], record_format)

    return tf.data.Dataset.from_generator(
        records,
        output_signature=tf.TensorSpec([], tf.string),
        args=(tf.reshape(uris, [-1]),),
    )


def mapped(elements: Any, function: Callable[..., Any]) -> Any:
    """Maps one of our functions over a data set, in parallel."""
    return elements.map(unconverted(function), num_parallel_calls=tf.data.AUTOTUNE)


def unconverted(function: Callable[..., Any]) -> Any:
    """Excludes a function from AutoGraph's conversion, which saves half a second per process."""
    return tf.autograph.experimental.do_not_convert(function)


# --- features -------------------------------------------------------------------------------------


BOX_SIDES = tuple(f"image/object/bbox/{side}" for side in ("ymin", "xmin", "ymax", "xmax"))
_DTYPES = {"bytes": tf.string, "float": tf.float32, "int64": tf.int64}
NUMBER_DRAWN = ""  # no feature has this key
Parsed = Mapping[str, Any]
"""Key -> tensor: the parsed features of one example."""


def _parser(feature: FeatureEntry) -> Any:
    """Returns the specification of one feature for `tf.io.parse_example`."""
    dtype = _DTYPES[feature.kind]
    if feature.ragged:
        return tf.io.RaggedFeature(dtype, row_splits_dtype=tf.int64)
    missing = feature.missing
    default = [missing] * feature.shape[0] if feature.shape else missing  # type: ignore[operator]
    return tf.io.FixedLenFeature(feature.shape, dtype, default if feature.optional else None)


def spec_of(dataset: Dataset, *keys: str) -> dict[str, Any]:
    """Returns the specification of these features for `tf.io.parse_example`."""
    return {key: _parser(dataset.features[key]) for key in keys}


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
