"""Beam transforms for shuffled, sharded data sets; `beam-tfrecord convert` is made of them.

Their constructors read and write nothing, and change no state of the process: one pipeline may hold
several, and several threads may run them. All other modules of this package are private.
"""

from beam_pipeline.transforms.finishing import CommittedDataset
from beam_pipeline.transforms.shuffled import (
    BadSample,
    Shard,
    WriteResult,
    WriteToShuffledTFRecord,
)

__all__ = ["BadSample", "CommittedDataset", "Shard", "WriteResult", "WriteToShuffledTFRecord"]
