"""The encoding of the examples of a data set, as a value that can be handed to any worker.

Nothing here imports Beam, so that a process that does nothing else starts in a tenth of a second.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from beam_pipeline.core.images.changes import ImageChanges
from beam_pipeline.core.images.preparation import outside_bytes
from beam_pipeline.core.labels.schema import Column, class_column, class_label_key
from beam_pipeline.core.records.example_source import (
    ExampleOptions,
    ExampleSource,
    foreign_source,
    recorded_source,
)
from beam_pipeline.core.records.shard_writer import Maker
from beam_pipeline.core.references import SampleRef, bytes_of, files_of
from beam_pipeline.storage import files
from beam_pipeline.storage.read_ahead import (
    ReadOptions,
    Request,
    read_ahead,
)


@dataclass(frozen=True)
class EncodingOptions:
    """Everything that determines the examples of a data set, given its samples.

    Attributes:
      examples: what the samples are.
      seed: of the hash that orders samples.
      options: the user's options.
    """

    examples: ExampleSource
    seed: int = 0
    options: ExampleOptions = field(default_factory=ExampleOptions)

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of a sample's labels."""
        return self.examples.columns

    @property
    def written_features(self) -> Mapping[str, Any]:
        """Every feature of an example where all images are upright, as the manifest has it."""
        return self.features()

    def features(self, *, turned: bool = False) -> Mapping[str, Any]:
        """Every feature of an example; `turned` says whether images were written that are not upright."""
        return self.examples.features(self.options.renames, turned=turned)

    @property
    def class_key(self) -> str:
        """The key under which class ids are written; empty where there are no classes."""
        return class_label_key(self.columns, self.options.renames)

    def class_names(self, refs: Iterable[SampleRef]) -> list[str]:
        """The classes that samples have, sorted, each once."""
        index = class_column(self.columns)
        if index is None:
            return []
        return sorted({name for ref in refs for name in _texts(ref.labels[index])})

    def recorded(self) -> dict[str, Any]:
        """Everything, as JSON has it in receipts; `from_recorded` reads it."""
        options, examples = self.options, self.examples.recorded()
        return {
            "columns": examples["columns"],
            "image_check": options.image_check,
            "seed": self.seed,
            "renames": dict(options.renames),
            "clip_boxes": options.clip_boxes,
            "pixels": examples["pixels"],
            "image_encoding": options.image_encoding,
            "features": examples["features"],
            **({"filters": dict(options.filters)} if options.filters else {}),
            **{name: examples[name] for name in ("mask_colours",) if name in examples},
            **({"source": source} if (source := foreign_source(self.examples)) else {}),
            **({"changes": changes} if (changes := options.changes.recorded()) else {}),
        }

    @classmethod
    def from_recorded(cls, values: Mapping[str, Any]) -> EncodingOptions:
        """The options that `recorded` returned."""
        names = ("image_check", "renames", "clip_boxes", "image_encoding", "filters")
        changes = ImageChanges.from_recorded(values.get("changes", {}))
        return cls(
            examples=recorded_source(values),
            seed=values["seed"],
            options=ExampleOptions(
                **{name: values[name] for name in names if name in values}, changes=changes
            ),
        )

    @contextmanager
    def maker(
        self, class_ids: Mapping[str, int], refs: Iterable[SampleRef], reading: ReadOptions
    ) -> Iterator[Maker]:
        """Turns references into examples while the block runs; reads ahead.

        Args:
          class_ids: class -> id, of all classes in the references at least.
          refs: the references that it will be asked for, in this order.
          reading: how far it reads ahead.
        """
        columns, largest = self.examples.file_columns, self.examples.max_bytes
        filters = self.options.filters
        wanted = (ref for ref in refs if not outside_bytes(ref.size, filters)) if filters else refs
        requests = (
            (
                request
                for ref in wanted
                if bytes_of(ref, columns) <= largest
                for request in _requests(ref, columns)
            )
            if columns
            else (Request(ref.uri, ref.size, ref.offset) for ref in wanted if ref.size <= largest)
        )
        with read_ahead(requests, files.read_image, reading) as ahead:
            yield self.examples.maker(self.options, class_ids, ahead.read)


def _requests(ref: SampleRef, file_columns: Sequence[int]) -> list[Request]:
    """The reads of a sample, in order: the image, then its files."""
    files_beside = [Request(uri, size, -1) for _, uri, size in files_of(ref, file_columns)]
    return [Request(ref.uri, ref.size, ref.offset), *files_beside]


def _texts(names: Any) -> Sequence[str]:
    if names is None:
        return ()
    return names if isinstance(names, tuple) else (names,)
