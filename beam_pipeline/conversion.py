"""Conversions from Python: of files, by `convert`, and of samples that Python makes, by `convert_samples`.

Labels may also be a table in memory: a pandas or Polars data frame, a pyarrow table, or a list of dicts. It is written
to a JSON Lines file for the job, so its rows mean what the same rows mean in a file.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from beam_pipeline.config import ConvertConfig
from beam_pipeline.core import references, uris
from beam_pipeline.core.dataset.names import NOTE_NAME, WRITING_NAME, dataset_name
from beam_pipeline.core.errors import SampleError, UsageError
from beam_pipeline.core.records import example_source, feature_values, formats, sharding
from beam_pipeline.dataset import Dataset
from beam_pipeline.inputs import checked_config, output_folder
from beam_pipeline.layouts.layout import ContainerLabels, Source
from beam_pipeline.options import TABLE_IN_MEMORY, ConvertOptions, speaking_of_arguments
from beam_pipeline.startup import importing_beam
from beam_pipeline.work import job, records
from beam_pipeline.work.output_folder import delete_in_incomplete, prepare_output, unpacking_folder

_PREFIX = "beam-tfrecord-"

Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]

Sample = Mapping[str, Any]
"""Feature's key -> value; `beam_pipeline.core.records.feature_values` tells which values there are."""


def convert(
    images: Paths,
    *,
    labels: Any = None,
    output: str | os.PathLike[str],
    progress: bool = True,
    beam_options: Sequence[str] = (),
    **options: Any,
) -> Dataset:
    """Converts images and labels to shuffled, sharded TFRecords.

    Every option of `beam-tfrecord convert` is a keyword argument of the same name, as a Python
    value or in the form that the command takes:

        convert("photos/", output="out/", splits={"train": 0.9, "test": 0.1}, num_shards=16)
        convert("photos/", labels=frame, output="out/", label_column="species", shard_size="100MB")

    Args:
      images: folder, glob or file, or several of them.
      labels: path or paths of label files; or a table in memory: a pandas or Polars data frame, a pyarrow
        table, or a sequence of dicts, one row each. By default labels come from the images' layout.
      output: output folder, made if missing.
      progress: whether to show how the input was understood, and how far the job is.
      beam_options: options of Apache Beam, such as `["--runner=FlinkRunner"]`.
      **options: options of the command.

    Returns: the data set.

    Raises:
      UsageError: an argument cannot be used, or a guess about the labels is not safe (`yes=True` accepts
        it).
      ConversionError: the data set is incomplete; the message has the reason.
    """
    with speaking_of_arguments(), contextlib.ExitStack() as stack:
        typed = {**options, "images": images, "labels": labels, "output": output}
        beam_argv = [beam_options] if isinstance(beam_options, str) else list(beam_options)
        rows, reported = _rows(labels), {}
        if rows is not None:
            typed["labels"] = stack.enter_context(_table_file(rows, beam_argv))
            reported["labels"] = ("<a table in memory>",)
        converted = ConvertOptions.of_python(typed)
        config = checked_config(converted, shows=progress, shown_inputs=reported)
        with importing_beam(lean=False):
            from beam_pipeline.launch import Run, beam_parser

        unknown = beam_parser(beam_argv).parse_known_args(beam_argv)[1] if beam_argv else []
        if unknown:
            raise UsageError(f"beam_options: Apache Beam does not know {unknown[0]}")
        Run(config, beam_argv).in_program(progress=progress)
        notes, roles = config.source.notes, config.source.roles
        return dataclasses.replace(Dataset.open(config.output), notes=notes, input_roles=roles)


@speaking_of_arguments()
def convert_samples(
    samples: Iterable[Sample] | Callable[[], Iterable[Sample]],
    *,
    output: str | os.PathLike[str],
    name: str = "",
    key: str | Callable[[Sample], str] | None = None,
    split: str | Callable[[Sample], str] = references.DEFAULT_SPLIT,
    splits: Mapping[str, float] | None = None,
    class_names: Sequence[str] = (),
    num_shards: int | Mapping[str, int] | None = None,
    shard_size: int | str = sharding.DEFAULT_SHARD_BYTES,
    seed: int = 0,
    compression: str = "none",
    format: str = formats.DEFAULT_FORMAT,  # noqa: A002 - the name of the option
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
    folder = output_folder(os.fspath(output))
    numbers = {"num_shards": num_shards, "shard_size": shard_size, "seed": seed, "writers": writers}
    stored = {"output": output, "name": name, "compression": compression, "format": format}
    options = ConvertOptions.of_python({"splits": splits or None, **numbers, **stored})
    numbering = records.class_numbering(class_names)
    with job.claimed(folder, make=True):
        prepare_output(folder, overwrite)
        try:
            # Beside a local output, which has room for it, else on this machine.
            with (
                tempfile.TemporaryDirectory(prefix=_PREFIX)
                if uris.is_remote(folder)
                else contextlib.nullcontext(unpacking_folder(folder))
            ) as spool_folder:
                with records.sample_spool(spool_folder) as add:
                    given = samples() if callable(samples) else samples
                    schema = _spool(given, add, key, split, class_names)
                index = os.path.join(spool_folder, "samples.index")
                labels = ContainerLabels(records.SpoolReader(), (index,))
                examples = example_source.SerializedExamples(described=schema.features)
                config = ConvertConfig(
                    options=options,
                    source=Source("python", (), labels, examples, numbering=numbering),
                    output=folder,
                    name=name or dataset_name(folder),
                    made_by="beam_pipeline.convert_samples(...)",
                )
                from beam_pipeline.launch import Run  # imports Beam, which takes a second

                Run(config).convert()
        except BaseException:  # notes of a job stay, so that --overwrite knows its files
            with contextlib.suppress(OSError):
                delete_in_incomplete(folder, keep={NOTE_NAME, WRITING_NAME})
            raise
    return Dataset.open(folder)


def _spool(
    samples: Iterable[Sample],
    add: Callable[..., None],
    key: str | Callable[[Sample], str] | None,
    split: str | Callable[[Sample], str],
    class_names: Sequence[str],
) -> feature_values.FeatureSchema:
    """Adds samples, encoded, to a spool, each with its split and a key of its own; returns what features they have."""
    schema, taken = feature_values.FeatureSchema(), set[str]()
    for number, sample in enumerate(samples):
        try:
            if not isinstance(sample, Mapping):
                raise SampleError(f"a {type(sample).__qualname__}, expected a dict of features")
            own = str(number)
            if key is not None:
                own = records.checked_key(key(sample) if callable(key) else sample.get(key), key)
                if own in taken:
                    raise SampleError(
                        f"its key {own!r} is an earlier sample's, expected one of its own"
                    )
                taken.add(own)
            name = records.split_of(sample, split, sample)
            classes = records.named_classes(sample.get(records.CLASS_ID), class_names)
            example = schema.encode(sample)
        except SampleError as error:
            raise SampleError(f"sample {number}: {error}") from error
        add(own, name, classes, example)
    if not schema.samples:
        raise UsageError("samples gave not one sample, so there is nothing to write")
    return schema


# --- labels in memory -----------------------------------------------------------------------------


@contextlib.contextmanager
def _table_file(rows: Iterable[Sample], beam_argv: Sequence[str]) -> Iterator[str]:
    """A label file with the rows of a table, which exists while the block runs."""
    if any(option.startswith("--runner") for option in beam_argv):
        raise UsageError(
            "labels is a table in this process, which an engine's workers may not see; write it to a "
            "file that they can read, and give its path"
        )
    with tempfile.TemporaryDirectory(prefix=_PREFIX) as folder:
        path = os.path.join(folder, TABLE_IN_MEMORY)
        with open(path, "w", encoding="utf-8") as file:
            for row in rows:
                file.write(json.dumps(_plain(row), ensure_ascii=False, allow_nan=False) + "\n")
        yield path


def _rows(labels: Any) -> Iterable[Sample] | None:
    """The rows of a table in memory; None for anything else.

    The libraries are not imported here: their tables are known by what they can do.
    """
    if hasattr(labels, "to_pylist") and hasattr(labels, "schema"):  # pyarrow
        return list(labels.to_pylist())
    if hasattr(labels, "to_dicts"):  # Polars
        return list(labels.to_dicts())
    if hasattr(labels, "to_dict") and hasattr(labels, "columns"):  # pandas
        return list(labels.to_dict("records"))
    is_rows = isinstance(labels, Sequence) and not isinstance(labels, str | bytes)
    return labels if is_rows and labels and isinstance(labels[0], Mapping) else None


def _plain(value: Any) -> Any:
    """A cell in JSON's form; a missing value of pandas is null.

    Raises:
      UsageError: JSON cannot contain it.
    """
    if hasattr(value, "tolist"):  # of NumPy
        value = value.tolist()
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else repr(value)
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if type(value).__name__ in ("NAType", "NaTType"):
        return None
    if hasattr(value, "isoformat"):
        return value.isoformat()
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    raise UsageError(
        f"labels contains a {kind.removeprefix('builtins.')}, expected texts, numbers, booleans, dates or lists "
        "of them"
    )
