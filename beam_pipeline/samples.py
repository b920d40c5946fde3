"""Converts samples from Python, dicts of features, to the same shuffled, sharded TFRecords."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from beam_pipeline.config import ConvertConfig
from beam_pipeline.core.dataset.names import dataset_name
from beam_pipeline.core.errors import SampleError, UsageError
from beam_pipeline.core.records.example_source import SerializedExamples
from beam_pipeline.core.records.feature_values import FeatureSchema
from beam_pipeline.core.records.formats import DEFAULT_FORMAT
from beam_pipeline.core.records.sharding import DEFAULT_SHARD_BYTES
from beam_pipeline.core.references import DEFAULT_SPLIT
from beam_pipeline.core.uris import is_remote
from beam_pipeline.dataset import Dataset
from beam_pipeline.inputs import output_folder
from beam_pipeline.layouts.layout import ContainerLabels, Source
from beam_pipeline.options import ConvertOptions, EngineOptions, OutputOptions, SplitOptions
from beam_pipeline.work.incomplete_folder import delete_incomplete, unpacking_folder
from beam_pipeline.work.output_claim import claimed
from beam_pipeline.work.output_folder import prepare_output
from beam_pipeline.work.records import (
    CLASS_ID,
    checked_key,
    checked_split,
    class_numbering,
    fractions_of,
    named_classes,
)
from beam_pipeline.work.sample_spool import SampleSpool, SpoolReader

Sample = Mapping[str, Any]
"""Feature's key -> value; `beam_pipeline.core.records.feature_values` tells which values there are."""

SAMPLES_LAYOUT = "python"


def convert_samples(
    samples: Iterable[Sample] | Callable[[], Iterable[Sample]],
    *,
    output: str,
    name: str = "",
    key: str | Callable[[Sample], str] | None = None,
    split: str | Callable[[Sample], str] = DEFAULT_SPLIT,
    splits: Mapping[str, float] | None = None,
    class_names: Sequence[str] = (),
    num_shards: int | Mapping[str, int] | None = None,
    shard_size: int = DEFAULT_SHARD_BYTES,
    seed: int = 0,
    compression: str = "none",
    format: str = DEFAULT_FORMAT,  # noqa: A002 - the name of the option
    overwrite: bool = False,
    writers: int | None = None,
) -> Dataset:
    """Writes samples as shuffled, sharded TFRecords with a manifest.

    Samples are taken one at a time and go to a file beside the output (or, for an output in a
    bucket, in this machine's folder for temporary files), so there may be more than memory contains.
    A value is bytes, str, bool, int, float, a NumPy array, a list of these, or None for no feature.

    Args:
      samples: dicts of features, or a function that returns them, such as a generator function.
      output: folder for the data set; made if missing.
      name: prefix of file names; by default the output folder's name.
      key: what identifies a sample, and so decides its shard and position: the name of a feature
        that contains a string or an integer, or a function of the sample. By default its number.
      split: the split of all samples, or a function that returns a sample's split.
      splits: split -> share, to split by a hash of the key instead.
      class_names: names of the classes 0, 1, 2, ... that the feature `image/class/label` contains.
      num_shards: shards per split; by default as many as `shard_size` asks for.
      shard_size: target shard size in bytes.
      seed: shuffle seed.
      compression: "none" or "gzip".
      format: "tfrecord", "array_record" or "webdataset".
      overwrite: whether the data set that an earlier run wrote to `output` may be replaced.
      writers: processes that write shards; by default one per core.

    Returns: the data set.

    Raises:
      SampleError: a value cannot be a feature; names the sample, the feature and what was found.
      UsageError: an argument cannot be used, or the output folder is not empty.
      Exception: whatever `samples` raises.
    """
    folder = output_folder(output)
    options = ConvertOptions(
        splits=SplitOptions(
            fractions_of(splits), num_shards=num_shards, shard_size=shard_size, seed=seed
        ),
        output=OutputOptions(
            output, name, overwrite=overwrite, compression=compression, format=format
        ),
        engine=EngineOptions(writers=writers),
    )
    numbering = class_numbering(class_names)
    with claimed(folder, make=True):
        prepare_output(folder, options.output.overwrite)
        try:
            # Beside a local output, which has room for it, else on this machine.
            with (
                tempfile.TemporaryDirectory(prefix="beam-tfrecord-")
                if is_remote(folder)
                else contextlib.nullcontext(unpacking_folder(folder))
            ) as spool_folder:
                spool = SampleSpool(spool_folder)
                numbered = _numbered(samples() if callable(samples) else samples, key, split)
                with spool:
                    schema = _spooled(numbered, spool, class_names)
                labels = ContainerLabels(SpoolReader(), (spool.index_path,))
                examples = SerializedExamples(schema.features)
                config = ConvertConfig(
                    options=options,
                    source=Source(SAMPLES_LAYOUT, (), labels, examples, numbering=numbering),
                    output=folder,
                    name=name or dataset_name(folder),
                    made_by="beam_pipeline.convert_samples(...)",
                )
                from beam_pipeline.launch import Run  # imports Beam, which takes a second

                Run(config).convert()
        except BaseException:
            delete_incomplete(folder)
            raise
    return Dataset.open(folder)


def _spooled(
    samples: Iterable[_Numbered], spool: SampleSpool, class_names: Sequence[str]
) -> FeatureSchema:
    """Encodes samples into a spool; returns what features they have."""
    schema = FeatureSchema()
    for sample in samples:
        with _naming_sample(schema.samples):
            classes = named_classes(sample.features.get(CLASS_ID), class_names)
            example = schema.encode(sample.features)
        spool.add(sample.key, sample.split, classes, example)
    if not schema.samples:
        raise UsageError("samples gave not one sample, so there is nothing to write")
    return schema


class _Numbered(NamedTuple):
    key: str
    split: str
    features: Sample


def _numbered(
    samples: Iterable[Sample],
    key: str | Callable[[Sample], str] | None,
    split: str | Callable[[Sample], str],
) -> Iterator[_Numbered]:
    """Gives each sample its split and its key, which must be unique."""
    taken: set[str] = set()
    for number, sample in enumerate(samples):
        with _naming_sample(number):
            if not isinstance(sample, Mapping):
                raise SampleError(f"a {type(sample).__qualname__}, expected a dict of features")
            own = str(number) if key is None else _key(sample, key)
            if key is not None:
                if own in taken:
                    raise SampleError(
                        f"its key {own!r} is an earlier sample's, expected one of its own"
                    )
                taken.add(own)
            name = checked_split(split(sample) if callable(split) else split)
        yield _Numbered(own, name, sample)


@contextlib.contextmanager
def _naming_sample(number: int) -> Iterator[None]:
    """Names the sample in errors."""
    try:
        yield
    except SampleError as error:
        raise SampleError(f"sample {number}: {error}") from error


def _key(sample: Sample, key: str | Callable[[Sample], str]) -> str:
    return checked_key(key(sample) if callable(key) else sample.get(key), key)
