"""Facts about a data set that its report and its cards give, derived from the manifest; and their seal.

A seal tells a file that a run wrote from one that somebody changed since. It is a digest of the file,
inside the file:

    beam-tfrecord:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08

computed while `PLACEHOLDER` is in its place. People complete a data card by hand, with a licence
or a description; a changed card, schema or report is theirs and is never replaced or deleted.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterator
from pathlib import Path
from string import Template
from typing import NamedTuple

from beam_pipeline.core.dataset.manifest import Manifest, SplitEntry
from beam_pipeline.core.labels.schema import BOX_SIDES, MASK_KINDS, Column, ColumnKind
from beam_pipeline.core.text import counted


def template(name: str) -> Template:
    """The file beside this one that has what is the same in all data sets."""
    return Template(Path(__file__).with_name(name).read_text(encoding="utf-8"))


_NUMBER = re.compile(r"-\d{5,}(-of-\d{5,}[^-]*)$")
_NUMBER_OF_A_TAR = re.compile(r"-\d{5,}(\.tar)$")

CONTAINERS = {
    "tfrecord": "TFRecords of tf.train.Example",
    "array_record": "ArrayRecords of tf.train.Example",
    "webdataset": "WebDataset's tar files",
}
"""Record format -> its shards, in words; one that is not here is called by its name."""

_IMAGE_FEATURES = {
    "image/encoded": "the encoded image",
    "image/format": "format of the encoded image, such as jpeg",
    "image/height": "height in pixels",
    "image/width": "width in pixels",
    "image/channels": "number of channels after decoding",
    "image/filename": "path of the image file, relative to its folder",
    "image/source_id": "key of the sample; for image files, their path",
    "image/orientation": "EXIF orientation, of images that a viewer turns",
    "image/labelled": "1, or 0 for an image without a label",
}
_SIDES = dict(zip(BOX_SIDES, ("left", "top", "right", "bottom"), strict=True))


def split_rows(manifest: Manifest) -> list[tuple[str, int, int, int]]:
    """(name, examples, shards, bytes) of each split."""
    return [
        (name, split.examples, len(split.shards), split.bytes)
        for name, split in manifest.splits.items()
    ]


class FeatureRow(NamedTuple):
    """A feature of the examples.

    Attributes:
      key: the key as written.
      kind: bytes, float or int64.
      values: how many there are, in words.
      content: a short description, or empty.
    """

    key: str
    kind: str
    values: str
    content: str


def feature_rows(manifest: Manifest) -> Iterator[FeatureRow]:
    """The features of a data set, in order of key."""
    contents = dict(_contents(manifest))
    for key, feature in sorted(manifest.features.items()):
        count = math.prod(length or 0 for length in feature.shape)
        values = "a list" if feature.ragged else counted(count, "value")
        values += ", or none" if feature.optional else ""
        content = contents.get(manifest.renames.get(key, key), "")
        yield FeatureRow(key, feature.kind, values, content)


def _contents(manifest: Manifest) -> Iterator[tuple[str, str]]:
    """(standard key, description) of the features that have one."""
    for entry in manifest.options.columns:
        kind = ColumnKind(entry.kind)
        each = "each object's " if entry.feature.startswith("image/object/") else ""
        for key in Column(entry.name, kind, entry.feature, repeated=entry.repeated).feature_keys:
            end = key.rpartition("/")[2]
            if kind is ColumnKind.CLASS:
                yield key, f"{each}class {'id' if end == 'label' else 'name'}"
            elif kind is ColumnKind.BOX:
                side = "width" if end.startswith("x") else "height"
                yield key, f"{_SIDES[end]} of each object's box, a fraction of the image's {side}"
            elif key == "image/label":
                yield key, "the number to predict"
            else:
                yield key, f"column {entry.name}"
    yield from _IMAGE_FEATURES.items()
    if manifest.bare_pixels:
        yield "image/encoded", "bare pixels, height x width x channels bytes"


def tasks(manifest: Manifest) -> list[str]:
    """The tasks that the labels are for, by the names that Hugging Face has for them."""
    columns = manifest.options.columns
    kinds = {column.kind for column in columns}
    of_tasks = {
        "image-classification": any(column.feature == "image/class" for column in columns),
        "object-detection": ColumnKind.BOX.value in kinds,
        "image-segmentation": any(kind.value in kinds for kind in (ColumnKind.MASK, *MASK_KINDS)),
    }
    return [task for task, is_one in of_tasks.items() if is_one]


def shard_pattern(split: SplitEntry) -> str:
    """A wildcard for the shards of a split: `pets-train.tfrecord-*-of-00016`."""
    literal = re.sub(r"[*?[]", r"[\g<0>]", split.shards[0].path)
    return _NUMBER_OF_A_TAR.sub(r"-[0-9]*\1", _NUMBER.sub(r"-*\1", literal))


def summary(manifest: Manifest) -> str:
    """One sentence on what the data set contains: `300 images of 3 classes, in 2 splits and 2 shards`."""
    classes = len(manifest.classes)
    images = counted(manifest.counts.examples, "image")
    of = f" of {counted(classes, 'class/classes')}" if classes else ""
    splits, shards = counted(len(manifest.splits), "split"), counted(len(manifest.shards), "shard")
    return f"{images}{of}, in {splits} and {shards}"


# --- the seal --------------------------------------------------------------------------------------

_LABEL = "beam-tfrecord:"
_SEAL = re.compile(rb"beam-tfrecord:([0-9a-f]{64})")

PLACEHOLDER = _LABEL + "0" * 64
"""The last one in a file is where the seal goes."""


def sealed(content: bytes) -> bytes:
    """Puts the seal in the place of the last `PLACEHOLDER`."""
    before, _, after = content.rpartition(PLACEHOLDER.encode())
    return before + _LABEL.encode() + _digest(content) + after


def is_unchanged(content: bytes) -> bool:
    """Tells whether a file has the seal of its content."""
    *_, seal = (None, *_SEAL.finditer(content))
    if seal is None:
        return False
    unsealed = content[: seal.start()] + PLACEHOLDER.encode() + content[seal.end() :]
    return seal[1] == _digest(unsealed)


def has_seal(content: bytes) -> bool:
    """Tells whether a file has a seal, broken or not, like a card, a schema or a report."""
    return bool(re.search(rb"beam-tfrecord:[0-9a-f]|\"beam-tfrecord\"", content))


def _digest(content: bytes) -> bytes:
    return hashlib.sha256(content).hexdigest().encode()
