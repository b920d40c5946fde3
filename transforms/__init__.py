"""Beam transforms for shuffled, sharded data sets; `beam-tfrecord convert` is made of them.

Their constructors read and write nothing, and change no state of the process: one pipeline may contain
several, and several threads may run them. All other modules of this package are private.
"""

from typing import Any

from beam_pipeline.transforms.images import ImageFile, ReadAllImages, ReadImages
from beam_pipeline.transforms.output import BadSample, CommittedDataset, Shard, WriteResult
from beam_pipeline.transforms.samples import (
    ImageSample,
    JoinedSamples,
    JoinLabels,
    LabelRow,
    LabelRows,
    ReadLabels,
)
from beam_pipeline.transforms.shuffled import WriteToShuffledTFRecord

__all__ = [
    "BadSample",
    "CommittedDataset",
    "ConvertImages",
    "ImageFile",
    "ImageSample",
    "JoinLabels",
    "JoinedSamples",
    "LabelRow",
    "LabelRows",
    "ReadAllImages",
    "ReadImages",
    "ReadLabels",
    "Shard",
    "WriteResult",
    "WriteToShuffledTFRecord",
]


def __getattr__(name: str) -> Any:
    """`ConvertImages`, which is made of all of these and of the command's options, so is above them."""
    if name != "ConvertImages":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return import_module("beam_pipeline.convert_images").ConvertImages
