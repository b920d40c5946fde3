from __future__ import annotations

import json
import pickle
from typing import Any

import pytest

from beam_pipeline.core.images.preparation import PixelFormat
from beam_pipeline.core.labels.schema import (
    Column,
    ColumnKind,
    label_column,
    object_column,
    object_columns,
)
from beam_pipeline.core.records.example_source import (
    ExampleOptions,
    ExampleSource,
    LabelledImages,
    SerializedExamples,
    recorded_source,
)
from beam_pipeline.core.records.features import feature_kinds
from beam_pipeline.core.records.record_format import EncodedSample
from beam_pipeline.core.records.shard_writer import MAX_IMAGE_BYTES
from beam_pipeline.core.records.wire import MAX_EXAMPLE_BYTES
from beam_pipeline.core.references import SampleRef
from tests.core.records.fixtures import made
from tests.pictures import picture

ANIMAL = (label_column("animal", ColumnKind.CLASS),)
FEATURES = {"x": {"kind": "int64", "optional": False, "shape": []}}
SOURCES = [
    LabelledImages(()),
    LabelledImages((*object_columns(pixels=True), object_column("id", ColumnKind.INT64))),
    LabelledImages(ANIMAL, PixelFormat(32, 32)),
    SerializedExamples(FEATURES),
]


def nothing(uri: str, size: int, offset: int) -> bytes:
    raise AssertionError(f"{uri} is read")


@pytest.mark.parametrize("source", SOURCES)
def test_a_recorded_source_is_read_back_from_json(source: ExampleSource) -> None:
    """So `repair` makes the examples of a receipt as the conversion did."""
    assert recorded_source(json.loads(json.dumps(source.recorded()))) == source
    assert pickle.loads(pickle.dumps(source)) == source


def test_what_older_receipts_say_is_understood() -> None:
    """The JSON that the first version wrote gives the same sources; its other keys are not theirs."""
    column = {
        "name": "animal",
        "kind": "class",
        "feature": "image/class",
        "required": True,
        "repeated": False,
        "pixels": False,
    }
    older = {"columns": [column], "image_check": "header", "seed": 0, "pixels": [32, 32]}
    assert recorded_source({**older, "features": None}) == LabelledImages(
        ANIMAL, PixelFormat(32, 32)
    )
    assert recorded_source({**older, "pixels": None}) == LabelledImages(ANIMAL)
    assert recorded_source({**older, "features": FEATURES}) == SerializedExamples(FEATURES)


def test_images_have_the_features_of_their_columns() -> None:
    """Under the keys that a person asked for."""
    renames = {"h": "image/height"}
    assert LabelledImages(ANIMAL).features(renames) == feature_kinds(ANIMAL, renames)


def test_images_are_encoded_with_their_labels_and_options() -> None:
    """Boxes are checked under the object ids of their label file, and cut where that is asked for."""
    columns = (*object_columns(pixels=True), object_column("id", ColumnKind.INT64))
    box = (0.0, 0.0, 99.0, 99.0, 7)
    ref = SampleRef("a.jpg", "uri", 1, "train", ((box,), ("cat",), (42,)))
    read: Any = lambda uri, size, offset: picture()  # noqa: E731
    dead_letter: Any = made(LabelledImages(columns).maker(ExampleOptions(), {"cat": 3}, read), ref)
    assert (dead_letter.reason, dead_letter.line) == ("bad_box", 7)
    assert "42" in dead_letter.message
    maker = LabelledImages(columns).maker(ExampleOptions(clip_boxes=True), {"cat": 3}, read)
    assert maker.make(ref).classes == [3]


def test_serialized_examples_are_passed_on_unchanged() -> None:
    """Their one label is the list of their classes; they are lost with the job that spooled them."""
    source = SerializedExamples(FEATURES)
    maker = source.maker(ExampleOptions(), {"b": 1, "c": 2}, lambda uri, size, offset: b"example")
    ref = SampleRef("0", "uri", 7, "train", (("c", "b", "c"),), 0)
    assert maker.make(ref) == EncodedSample(b"", b"example", b"", classes=[2, 1, 2])
    assert source.features({}) == FEATURES
    assert source.columns == (Column("class", ColumnKind.CLASS, "image/class", repeated=True),)
    assert (source.resumable, source.pixels) == (False, None)
    assert LabelledImages(()).resumable


@pytest.mark.parametrize(
    ("source", "limit"),
    [(LabelledImages(()), MAX_IMAGE_BYTES), (SerializedExamples({}), MAX_EXAMPLE_BYTES)],
)
def test_what_is_larger_than_the_limit_is_not_read(source: ExampleSource, limit: int) -> None:
    """It becomes a dead letter by its listed size alone."""
    assert source.max_bytes == limit
    ref = SampleRef("a", "uri", limit + 1, "train", ())
    dead_letter: Any = made(source.maker(ExampleOptions(), {}, nothing), ref)
    assert dead_letter.reason == "too_large"
