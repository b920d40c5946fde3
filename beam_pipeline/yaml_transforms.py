"""The public transforms as Beam YAML takes them: JSON arguments, rows in, rows out (see providers.yaml)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import apache_beam as beam

from beam_pipeline import convert_images
from beam_pipeline.transforms.output import WriteResult
from beam_pipeline.transforms.shuffled import WriteToShuffledTFRecord as _WriteToShuffledTFRecord


class _InYaml(beam.PTransform):
    """Takes the arguments of a transform, and Beam YAML's `error_handling`.

    Attributes:
      made: the transform.
      collecting: its arguments by which bad samples do not fail the pipeline.
    """

    made: ClassVar[Callable[..., beam.PTransform]]
    collecting: ClassVar[Mapping[str, Any]]

    def __init__(self, error_handling: Mapping[str, str] | None = None, **arguments: Any) -> None:
        super().__init__()
        self._bad = error_handling["output"] if error_handling else ""
        made = type(self).made
        self._transform = made(**{**(self.collecting if self._bad else {}), **arguments})

    def expand(self, rows: Any) -> dict[str, beam.PCollection]:
        result: WriteResult = rows | self._transform
        bad = {self._bad: result.bad} if self._bad else {}
        return {"output": result.manifest, **bad}


class WriteToShuffledTFRecord(_InYaml):
    """Writes rows as globally shuffled shards; its output is one row, once the manifest is there."""

    made = _WriteToShuffledTFRecord
    collecting: ClassVar[Mapping[str, Any]] = {"on_error": "collect"}


class ConvertImages(_InYaml):
    """Converts images and labels; its output is one row, once the manifest is there."""

    _yaml_requires_inputs = False
    made = convert_images.ConvertImages
    collecting: ClassVar[Mapping[str, Any]] = {"max_bad_fraction": 1.0}
