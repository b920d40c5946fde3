"""The whole conversion as one step of somebody's pipeline."""

from __future__ import annotations

import os
from typing import Any

import apache_beam as beam

from beam_pipeline.conversion import (
    Paths,
    as_arguments,
    convert_options,
    paths,
    speaking_of_arguments,
)
from beam_pipeline.core.errors import UsageError
from beam_pipeline.core.failures import FailurePolicy
from beam_pipeline.inputs import check_buckets, check_questions, convert_config
from beam_pipeline.pipeline import build_pipeline, prepare_folder
from beam_pipeline.transforms.output import WriteResult

_OF_A_LAUNCHER = ("no_wait", "writers")
_FAILURES = FailurePolicy(reword=as_arguments)


class ConvertImages(beam.PTransform):
    """Converts images and labels to shuffled, sharded TFRecords: `beam-tfrecord convert` as a step.

    It is at the beginning of a pipeline, on any runner, and gives the bytes that the command gives.
    The layout is detected, and the beginnings of label files are read, when it is applied to a pipeline;
    the output folder is prepared, and images are listed and read, when that runs.
    """

    def __init__(
        self,
        images: Paths,
        output: str | os.PathLike[str],
        labels: Paths | None = None,
        **options: Any,
    ) -> None:
        """Takes what `beam_pipeline.convert` takes, with labels in files.

        Args:
          images: folder, glob or file, or several of them.
          output: output folder, made if missing. All workers must see it.
          labels: path or paths of label files; by default labels come from the images' layout.
          **options: options of the command, except its launcher's (`no_wait`, `writers`).

        Returns (of `expand`): a `WriteResult`.

        Raises:
          UsageError: an argument cannot be used; in `expand`, also a guess about the labels that is not
            safe (`yes=True` accepts it).
          ConversionError: in `expand`: a file cannot be used, and why.
        """
        super().__init__()
        launcher = next((name for name in _OF_A_LAUNCHER if name in options), None)
        if launcher:
            raise UsageError(f"ConvertImages has no argument {launcher!r}: only the command has it")
        given = {**options, "images": paths("images", images), "output": os.fspath(output)}
        if labels is not None:
            given["labels"] = paths("labels", labels)
        with speaking_of_arguments():
            self._options = convert_options(given)

    def expand(self, pipeline: beam.Pipeline) -> WriteResult:
        with speaking_of_arguments():
            config, _ = convert_config(self._options)
            check_buckets(config, writes=True)
            check_questions(config)
        prepared = prepare_folder(pipeline, config, _FAILURES)
        conversion = build_pipeline(pipeline, config, failures=_FAILURES, prepared=prepared)
        return WriteResult.of(config.output, *conversion)
