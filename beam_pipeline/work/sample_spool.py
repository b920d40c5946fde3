"""Spools samples given from Python to one file; they are shuffled by reference like all others."""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import TracebackType

from beam_pipeline.core.dead_letters import DeadLetter
from beam_pipeline.core.references import SampleRef

_INDEX_CHUNK = 4096  # samples


@dataclass
class SampleSpool:
    """Takes serialized examples one by one; only a chunk of references stays in memory.

    Attributes:
      folder: for its two files; made if missing.
    """

    folder: str
    _refs: list[tuple[object, ...]] = field(default_factory=list)
    _offset: int = 0

    @property
    def records_path(self) -> str:
        """The file of all examples, one after another."""
        return os.path.join(self.folder, "samples")

    @property
    def index_path(self) -> str:
        """The file of references to them: pickled lists, one after another."""
        return os.path.join(self.folder, "samples.index")

    def __enter__(self) -> SampleSpool:
        os.makedirs(self.folder, exist_ok=True)
        self._records = open(self.records_path, "xb")
        self._index = open(self.index_path, "xb")
        return self

    def add(self, key: str, split: str, classes: tuple[str, ...], example: bytes) -> None:
        """Adds one sample.

        Args:
          key: what identifies it.
          split: the split it is in.
          classes: its classes.
          example: the serialized example.
        """
        self._records.write(example)
        ref = SampleRef(
            key=key,
            uri=self.records_path,
            size=len(example),
            split=split,
            labels=(classes,),
            offset=self._offset,
        )
        self._refs.append(tuple(ref))
        self._offset += len(example)
        if len(self._refs) >= _INDEX_CHUNK:
            self._flush()

    def _flush(self) -> None:
        pickle.dump(self._refs, self._index, pickle.HIGHEST_PROTOCOL)
        self._refs = []

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self._flush()
        self._records.close()
        self._index.close()


@dataclass(frozen=True)
class SpoolReader:
    """Reads the references of a `SampleSpool`."""

    def read(self, uri: str, unpack_to: str) -> Iterator[SampleRef | DeadLetter]:
        """Yields a reference to each sample, given the path of the index."""
        with open(uri, "rb") as index:
            while True:
                try:
                    refs = pickle.load(index)
                except EOFError:
                    return
                yield from map(SampleRef._make, refs)
