"""Batches of references: what the PCollections of this job hold.

A reference costs Beam as much as an element of any size does, so elements are batches of some
thousands. They stay packed on their way through an engine, which holds several copies of what it
moves and unpacks none.
"""

from __future__ import annotations

from typing import Any, ClassVar

from apache_beam import coders

from beam_pipeline.core.packed_batches import (
    BATCH_SIZE,
    Batch,
    DeadLetterBatch,
    ImageBatch,
    LabelBatch,
    SampleBatch,
)
from beam_pipeline.work.job import current_job, enter
from beam_pipeline.work.spill import spill, unspill

__all__ = [
    "BATCH_SIZE",
    "Batch",
    "DeadLetterBatch",
    "ImageBatch",
    "LabelBatch",
    "SampleBatch",
]

_ENCODED_BYTES = 16  # per item, roughly: paths that differ little deflate well


class BatchCoder(coders.Coder):
    """Encodes a batch of one kind of items."""

    batch: ClassVar[type[Batch[Any]]]

    def __init__(self) -> None:
        self._job = current_job()

    def encode(self, value: Batch[Any]) -> bytes:
        enter(self._job)
        return spill(value.encode())

    def decode(self, encoded: bytes) -> Batch[Any]:
        enter(self._job)
        return self.batch.decode(unspill(encoded))

    def estimate_size(self, value: Batch[Any]) -> int:
        """A rough size, for engines that ask how much they move; encoding would double the work."""
        return _ENCODED_BYTES * len(value)

    def is_deterministic(self) -> bool:
        return False

    def to_type_hint(self) -> type[Batch[Any]]:
        return self.batch

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and self._job is other._job

    def __hash__(self) -> int:
        return hash((type(self), self._job))


class ImageBatchCoder(BatchCoder):
    batch = ImageBatch


class LabelBatchCoder(BatchCoder):
    batch = LabelBatch


class SampleBatchCoder(BatchCoder):
    batch = SampleBatch


class DeadLetterBatchCoder(BatchCoder):
    batch = DeadLetterBatch


for _coder in (ImageBatchCoder, LabelBatchCoder, SampleBatchCoder, DeadLetterBatchCoder):
    coders.registry.register_coder(_coder.batch, _coder)
