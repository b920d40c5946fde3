"""Batches of references: what the PCollections of this job hold.

A reference costs Beam as much as an element of any size does, so elements are batches of some
thousands. Each kind has a coder that packs them, as an engine holds several copies of what it moves.
"""

from __future__ import annotations

from typing import Any, ClassVar

from apache_beam import coders

from beam_pipeline.transforms.core.dead_letters import DeadLetter
from beam_pipeline.transforms.core.references import ImageRef, LabelRow, SampleRef, pack, unpack

BATCH_SIZE = 4096
_ENCODED_BYTES = 16  # per item, roughly: paths that differ little deflate well


class ImageBatch(list[ImageRef]):
    """Listed images."""


class LabelBatch(list[LabelRow]):
    """Rows of a label table."""


class SampleBatch(list[SampleRef]):
    """Images joined with their labels."""


class DeadLetterBatch(list[DeadLetter]):
    """Samples left out."""


class BatchCoder(coders.Coder):
    """Encodes a batch of one kind of items."""

    batch: ClassVar[type[list[Any]]]
    item: ClassVar[Any]

    def encode(self, value: list[Any]) -> bytes:
        return pack(value)

    def decode(self, encoded: bytes) -> list[Any]:
        return self.batch(unpack(self.item, encoded))

    def estimate_size(self, value: list[Any]) -> int:
        """A rough size, for engines that ask how much they move; encoding would double the work."""
        return _ENCODED_BYTES * len(value)

    def is_deterministic(self) -> bool:
        return False

    def to_type_hint(self) -> type[list[Any]]:
        return self.batch

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(type(self))


class ImageBatchCoder(BatchCoder):
    batch, item = ImageBatch, ImageRef


class LabelBatchCoder(BatchCoder):
    batch, item = LabelBatch, LabelRow


class SampleBatchCoder(BatchCoder):
    batch, item = SampleBatch, SampleRef


class DeadLetterBatchCoder(BatchCoder):
    batch, item = DeadLetterBatch, DeadLetter


for _coder in (ImageBatchCoder, LabelBatchCoder, SampleBatchCoder, DeadLetterBatchCoder):
    coders.registry.register_coder(_coder.batch, _coder)


CHANGES = "changes"
COMPARED = "compared"
DEAD_LETTERS = "dead_letters"
REFUSALS = "refusals"
TALLY = "tally"
"""Tags of the outputs that a stage may have beside its main one."""
