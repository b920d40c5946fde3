"""Facts about a data set that both of its cards give, derived from the manifest."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from beam_pipeline.core.images.preparation import RAW_FORMAT
from beam_pipeline.core.labels.schema import BOX_SIDES, Column, ColumnKind
from beam_pipeline.core.text import counted

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


class FeatureRow(NamedTuple):
    """One feature of the examples.

    Attributes:
      key: the key as written.
      kind: bytes, float or int64.
      values: how many there are, in words.
      content: a short description; empty if there is none.
    """

    key: str
    kind: str
    values: str
    content: str


def feature_rows(manifest: Mapping[str, Any]) -> Iterator[FeatureRow]:
    """The features of a data set, in order of key."""
    renames: Mapping[str, str] = manifest["options"].get("features") or {}
    contents = dict(_contents(manifest["options"]))
    for key, feature in sorted(manifest["features"].items()):
        values = _values(feature.get("shape", []), optional=feature["optional"])
        yield FeatureRow(key, feature["kind"], values, contents.get(renames.get(key, key), ""))


def _contents(options: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """(standard key, description) of the features that have one."""
    for entry in options["columns"]:
        try:
            kind = ColumnKind(entry["kind"])
        except ValueError:  # of a later version
            continue
        column = Column(entry["name"], kind, entry["feature"], repeated=bool(entry.get("repeated")))
        each = "each object's " if column.feature.startswith("image/object/") else ""
        for key in column.feature_keys:
            end = key.rpartition("/")[2]
            if kind is ColumnKind.CLASS:
                yield key, f"{each}class {'id' if end == 'label' else 'name'}"
            elif kind is ColumnKind.BOX:
                side = "width" if end.startswith("x") else "height"
                yield key, f"{_SIDES[end]} of each object's box, a fraction of the image's {side}"
            elif key == "image/label":
                yield key, "the number to predict"
            else:
                yield key, f"column {column.name}"
    yield from _IMAGE_FEATURES.items()
    if options.get("image_encoding") == RAW_FORMAT:
        yield "image/encoded", "bare pixels, height x width x channels bytes"


def _values(shape: list[int | None], *, optional: bool) -> str:
    if None in shape:
        words = "a list"
    else:
        size = 1
        for length in shape:
            size *= length or 0
        words = counted(size, "value")
    return f"{words}, or none" if optional else words


def tasks(manifest: Mapping[str, Any]) -> list[str]:
    """The tasks that the labels are for, by the names that Hugging Face has for them."""
    columns = manifest["options"]["columns"]
    kinds = {column["kind"] for column in columns}
    found = []
    if any(column["feature"] == "image/class" for column in columns):
        found.append("image-classification")
    if ColumnKind.BOX.value in kinds:
        found.append("object-detection")
    masks = (
        ColumnKind.MASK,
        ColumnKind.SEGMENTATION,
        ColumnKind.SEGMENTATION_16,
        ColumnKind.PANOPTIC,
    )
    if kinds & {kind.value for kind in masks}:
        found.append("image-segmentation")
    return found


def shard_pattern(split: Mapping[str, Any]) -> str:
    """A wildcard for the shards of a split: `pets-train.tfrecord-*-of-00016`."""
    first = split["shards"][0]["path"]
    literal = re.sub(r"[*?[]", r"[\g<0>]", first)
    return _NUMBER_OF_A_TAR.sub(r"-[0-9]*\1", _NUMBER.sub(r"-*\1", literal))


def summary(manifest: Mapping[str, Any]) -> str:
    """One sentence on what the data set holds: `300 images of 3 classes, in 2 splits and 2 shards`."""
    classes = manifest["classes"]
    shards = sum(len(split["shards"]) for split in manifest["splits"].values())
    images = counted(manifest["counts"]["examples"], "image")
    of = f" of {counted(len(classes), 'class/classes')}" if classes else ""
    return f"{images}{of}, in {counted(len(manifest['splits']), 'split')} and {counted(shards, 'shard')}"
