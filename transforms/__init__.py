"""Beam transforms for shuffled, sharded data sets; `beam-tfrecord convert` is made of them.

Their constructors read and write nothing, and change no state of the process: one pipeline may contain
several, and several threads may run them. All other modules of this package are private.
"""

from typing import TYPE_CHECKING

from beam_pipeline.transforms.encoding import Encoder
from beam_pipeline.transforms.output import BadSample, CommittedDataset, Shard, WriteResult
from beam_pipeline.transforms.samples import (
    ImageFile,
    ImageSample,
    JoinedSamples,
    JoinLabels,
    LabelRow,
    LabelRows,
    ReadAllImages,
    ReadImages,
    ReadLabels,
)
from beam_pipeline.transforms.shuffled import WriteToShuffledTFRecord

__all__ = [
    "BadSample",
    "CommittedDataset",
    "ConvertImages",
    "EncodeImages",
    "EncodedImages",
    "Encoder",
    "ImageFile",
    "ImageSample",
    "Images",
    "JoinLabels",
    "JoinedSamples",
    "LabelRow",
    "LabelRows",
    "ReadAllImages",
    "ReadImages",
    "ReadLabels",
    "Shard",
    "WriteImageShards",
    "WriteResult",
    "WriteToShuffledTFRecord",
]


# Those that make whole conversions are in a module that imports this package.
if TYPE_CHECKING:
    from beam_pipeline.image_transforms import (
        ConvertImages,
        EncodedImages,
        EncodeImages,
        Images,
        WriteImageShards,
    )
else:

    def __getattr__(name):
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        return getattr(import_module("beam_pipeline.image_transforms"), name)
