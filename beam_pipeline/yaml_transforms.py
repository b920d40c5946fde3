"""The public transforms as Beam YAML takes them: JSON arguments, rows in, rows out (see providers.yaml)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import apache_beam as beam

from beam_pipeline import image_transforms
from beam_pipeline.core.errors import SampleError
from beam_pipeline.transforms import samples, shuffled
from beam_pipeline.transforms.output import BadSample


class _InYaml(beam.PTransform):
    """Takes the arguments of a transform, and Beam YAML's `error_handling`.

    Attributes:
      made: the transform.
      output: the PCollection of its result that is the output.
      collecting: its arguments that keep bad samples from failing the pipeline; None if nothing but
        `error_handling` decides that.
    """

    made: ClassVar[Callable[..., beam.PTransform]]
    output: ClassVar[str] = "manifest"
    collecting: ClassVar[Mapping[str, Any] | None] = {"on_error": "collect"}

    def __init__(self, error_handling: Mapping[str, str] | None = None, **arguments: Any) -> None:
        super().__init__()
        self._bad = error_handling["output"] if error_handling else ""
        given = (self.collecting or {}) if self._bad else {}
        self._transform = type(self).made(**{**given, **arguments})

    def expand(self, rows: Any) -> dict[str, beam.PCollection]:
        result: Any = rows | self._transform
        if self._bad:
            return {"output": getattr(result, self.output), self._bad: result.bad}
        if self.collecting is None:
            _ = result.bad | "FailOnBad" >> beam.Map(_fail)
        return {"output": getattr(result, self.output)}


def _fail(bad: BadSample) -> None:
    where = f"{bad.file}, line {bad.line}: " if bad.file else ""
    raise SampleError(f"{where}{bad.key}: {bad.message} (error_handling collects bad samples)")


class WriteToShuffledTFRecord(_InYaml):
    """Writes rows as globally shuffled shards; its output is one row, once the manifest is there."""

    made = shuffled.WriteToShuffledTFRecord


class ConvertImages(_InYaml):
    """Converts images and labels; its output is one row, once the manifest is there."""

    _yaml_requires_inputs = False
    made = image_transforms.ConvertImages
    collecting: ClassVar[Mapping[str, Any] | None] = {"max_bad_fraction": 1.0}


class ReadLabels(_InYaml):
    """Reads label files; its output are their rows."""

    _yaml_requires_inputs = False
    made = samples.ReadLabels
    output = "rows"
    collecting = None


class JoinLabels(_InYaml):
    """Joins the inputs `images` and `rows`; its output are samples."""

    made = samples.JoinLabels
    output = "samples"
    collecting = None


def _write_image_shards(encoder: Mapping[str, Any] | None = None, **arguments: Any) -> Any:
    return image_transforms.WriteImageShards(
        encoder=image_transforms.Images(**(encoder or {})), **arguments
    )


class WriteImageShards(_InYaml):
    """Writes samples as shards; `encoder` has the arguments of `Images`. Its output is one row at the end."""

    made = _write_image_shards
