from __future__ import annotations

from typing import Any

import pytest

from beam_pipeline.core.images.header import ImageHeader
from beam_pipeline.core.labels.schema import (
    Column,
    ColumnKind,
    further_column,
    label_column,
    object_column,
    object_columns,
)
from beam_pipeline.core.records.example_proto import Example
from beam_pipeline.core.records.features import (
    IMAGE_FEATURES,
    Feature,
    SampleEncoder,
    column_features,
    feature_kinds,
)
from beam_pipeline.core.records.wire import bytes_entry, int64_entry
from beam_pipeline.core.references import LabelValue, SampleRef

ANIMAL = (label_column("animal", ColumnKind.CLASS), further_column("age", ColumnKind.INT64))

# --- what is said and what is written -----------------------------------------------------------

FURTHER = (
    further_column("age", ColumnKind.INT64),
    further_column("weight", ColumnKind.FLOAT),
    further_column("note", ColumnKind.BYTES),
)
OBJECTS = (
    *object_columns(pixels=True),
    object_column("difficult", ColumnKind.INT64),
    object_column("truncated", ColumnKind.FLOAT),
    object_column("view", ColumnKind.BYTES),
)
TWO_OBJECTS: tuple[LabelValue, ...] = (
    ((1.0, 2.0, 3.0, 4.0, 7), (0.0, 0.0, 9.0, 7.0, 8)),
    ("cat", "cat"),
    (0, 1),
    (0.0, 0.5),
    ("left", "frontal"),
)


def one(kind: str, *, optional: bool = False) -> dict[str, Any]:
    return {"kind": kind, "optional": optional, "shape": []}


def several(kind: str, *, optional: bool = False) -> dict[str, Any]:
    return {"kind": kind, "optional": optional, "shape": [None]}


OF_EVERY_IMAGE = {
    "image/channels": one("int64"),
    "image/encoded": one("bytes"),
    "image/filename": one("bytes"),
    "image/format": one("bytes"),
    "image/height": one("int64"),
    "image/source_id": one("bytes"),
    "image/width": one("int64"),
}


def test_the_features_of_a_data_set_are_these() -> None:
    """Sorted by key, each with the kind of its list, one value, and whether it may be lacking."""
    columns = (
        label_column("animal", ColumnKind.CLASS),
        further_column("age", ColumnKind.INT64),
        further_column("note", ColumnKind.BYTES),
    )
    features = feature_kinds(columns)
    assert list(features) == sorted(features)
    assert features == {
        **OF_EVERY_IMAGE,
        "image/class/label": one("int64"),
        "image/class/text": one("bytes"),
        "label/age": one("int64", optional=True),
        "label/note": one("bytes", optional=True),
    }
    score = label_column("score", ColumnKind.FLOAT)
    assert feature_kinds((score,)) == {**OF_EVERY_IMAGE, "image/label": one("float")}


def test_the_features_of_a_detection_set_are_lists() -> None:
    """Boxes are four of them, classes two, and what else is known of each object is one."""
    columns = (
        *object_columns(pixels=True),
        object_column("truncated", ColumnKind.FLOAT),
        object_column("difficult", ColumnKind.INT64),
        object_column("view", ColumnKind.BYTES),
    )
    features = feature_kinds(columns)
    assert list(features) == sorted(features)
    assert features == {
        **OF_EVERY_IMAGE,
        "image/object/bbox/xmin": several("float"),
        "image/object/bbox/ymin": several("float"),
        "image/object/bbox/xmax": several("float"),
        "image/object/bbox/ymax": several("float"),
        "image/object/class/label": several("int64"),
        "image/object/class/text": several("bytes"),
        "image/object/difficult": several("int64"),
        "image/object/truncated": several("float"),
        "image/object/view": several("bytes"),
    }


def test_a_list_of_a_table_may_be_lacking() -> None:
    """A repeated column that is not required is a list, and optional."""
    column = Column("tags", ColumnKind.BYTES, "label/tags", repeated=True)
    assert feature_kinds((column,))["label/tags"] == several("bytes", optional=True)


def test_renamed_features_are_listed_under_the_keys_they_have() -> None:
    """What they are goes with them, and what they replaced is gone."""
    renames = {"z": "image/encoded", "image/source_id": "label/age", "A": "image/class/text"}
    features = feature_kinds(ANIMAL, renames)
    assert list(features) == sorted(features)
    expected = {
        **OF_EVERY_IMAGE,
        "image/class/label": one("int64"),
        "image/source_id": one("int64", optional=True),
        "A": one("bytes"),
        "z": one("bytes"),
    }
    del expected["image/encoded"]
    assert features == expected


@pytest.mark.parametrize(
    "renames",
    [
        {},
        {"image/source_id": "label/age", "z": "image/encoded"},
        {"image/height": "image/width", "image/width": "image/height", "a": "image/object/view"},
    ],
)
@pytest.mark.parametrize(
    ("columns", "labels"),
    [
        ((label_column("animal", ColumnKind.CLASS), *FURTHER), ("cat", 3, 0.5, "x")),
        ((*OBJECTS, *FURTHER), (*TWO_OBJECTS, 3, 0.5, "x")),
    ],
)
def test_what_is_said_of_features_is_what_is_written(
    columns: tuple[Column, ...], labels: tuple[LabelValue, ...], renames: dict[str, str]
) -> None:
    """An example has these features, each of this kind, and one value where one is said."""
    ref = SampleRef("a.jpg", "uri", 1, "train", labels)
    encoder = SampleEncoder(columns, {"cat": 0}, renames)
    before, after = encoder.encode(ref, ImageHeader("jpeg", 7, 9, 3), b"x")
    example = Example.FromString(before + b"x" + after)
    found = {}
    for key, feature in example.features.feature.items():
        kind = feature.WhichOneof("kind")
        count = len(getattr(feature, kind).value)
        found[key] = (kind.removesuffix("_list"), [] if count == 1 else [None])
    features = feature_kinds(columns, renames)
    assert found == {key: (what["kind"], what["shape"]) for key, what in features.items()}
    if not renames:
        assert (
            features.items()
            >= {feature.key: one(feature.kind) for feature in IMAGE_FEATURES}.items()
        )


def test_every_feature_but_the_image_has_a_writer() -> None:
    """One entry of the table says key, kind and writer; the encoder itself writes the image."""
    unwritten = [feature.key for feature in IMAGE_FEATURES if feature.writer is None]
    assert unwritten == ["image/encoded"]
    keys = [feature.key for feature in IMAGE_FEATURES]
    assert keys == sorted(set(keys))


def test_a_column_becomes_features_that_write_its_own_label() -> None:
    """The index says which of a sample's labels; class texts become ids."""
    ids, texts = column_features(1, label_column("animal", ColumnKind.CLASS), {"cat": 5})
    ref = SampleRef("a.jpg", "uri", 1, "train", ("dog", "cat"))
    header = ImageHeader("jpeg", 7, 9, 3)
    assert ids.writer
    assert texts.writer
    assert ids.writer("id")(ref, header, b"") == int64_entry("id", [5])
    assert texts.writer("text")(ref, header, b"") == bytes_entry("text", [b"cat"])
    assert (ids.kind, texts.kind, ids.optional) == ("int64", "bytes", False)


def test_a_writer_may_look_at_the_image() -> None:
    """It gets the image's bytes, so a checksum, say, is one entry of the table."""
    feature = Feature(
        "size", "int64", lambda key: lambda _r, _h, image: int64_entry(key, [len(image)])
    )
    ref = SampleRef("a.jpg", "uri", 1, "train", ())
    assert feature.writer
    entry = feature.writer("size")(ref, ImageHeader("jpeg", 7, 9, 3), b"12345")
    assert entry == int64_entry("size", [5])
    assert feature.described == one("int64")
