from __future__ import annotations

import base64
import json
import math
from typing import Any

import pytest
from hypothesis import given

from beam_pipeline.core.images.header import ImageHeader
from beam_pipeline.core.labels.schema import ColumnKind, further_column, label_column
from beam_pipeline.core.records.example import SampleEncoder
from beam_pipeline.core.records.record_format import EncodedSample
from beam_pipeline.core.records.webdataset_sample import example_of, sample_files
from beam_pipeline.core.records.wire import encode_example
from beam_pipeline.core.references import SampleRef
from tests.core.records.fixtures import FEATURES, record_of, with_kinds
from tests.pictures import picture

JPEG, PNG = picture(), picture(file_format="PNG")


def files_of(features: dict[str, Any], described: dict[str, Any] | None = None) -> dict[str, bytes]:
    """The files of an example in one piece."""
    return sample_files(EncodedSample(b"", record_of(features), b""), described or {})


def json_of(files: dict[str, bytes]) -> Any:
    return json.loads(files["json"])


def test_an_encoded_sample_is_its_image_its_class_and_its_features() -> None:
    """The image is the file's own bytes, not copied; the JSON has all else under its keys."""
    columns = (
        label_column("class", ColumnKind.CLASS),
        further_column("colour", ColumnKind.BYTES),
        further_column("score", ColumnKind.FLOAT),
    )
    encoder = SampleEncoder(columns, {"cat": 3})
    ref = SampleRef("a/1.jpg", "a/1.jpg", len(JPEG), "train", ("cat", None, 0.5))
    header = ImageHeader("jpeg", 7, 9, 3)
    before, after = encoder.encode(ref, header, JPEG)
    files = sample_files(EncodedSample(before, JPEG, after), {})
    assert list(files) == ["jpg", "cls", "json"]
    assert files["jpg"] is JPEG
    assert files["cls"] == b"3"
    assert json_of(files) == {
        "image/channels": 3,
        "image/class/label": 3,
        "image/class/text": "cat",
        "image/encoded": {"file": "jpg"},
        "image/filename": "a/1.jpg",
        "image/format": "jpeg",
        "image/height": 7,
        "image/source_id": "a/1.jpg",
        "image/width": 9,
        "label/score": 0.5,
    }
    assert example_of(files) == before + JPEG + after


def test_an_image_under_another_key_is_found() -> None:
    """The JSON says which feature the file is."""
    encoder = SampleEncoder((), {}, {"pixels": "image/encoded"})
    ref = SampleRef("a", "a", len(PNG), "train", ())
    before, after = encoder.encode(ref, ImageHeader("png", 7, 9, 3), PNG)
    files = sample_files(EncodedSample(before, PNG, after), {})
    assert list(files) == ["png", "json"]
    assert json_of(files)["pixels"] == {"file": "png"}
    assert example_of(files) == before + PNG + after


def test_bare_pixels_are_no_image_file() -> None:
    """Whatever they begin with."""
    pixels = JPEG[:3] + bytes(60)
    features = {"image/encoded": [pixels], "image/format": [b"raw"]}
    assert list(files_of(features)) == ["bin", "json"]


def test_lists_are_lists_as_the_manifest_says() -> None:
    """One box is a list of one; a size is a number."""
    features = {"image/height": [7], "image/object/bbox/xmin": [0.25], "tags": [b"a", b"b"]}
    described = {
        "image/height": {"kind": "int64", "shape": []},
        "image/object/bbox/xmin": {"kind": "float", "shape": [None]},
    }
    files = files_of(features, described)
    assert json_of(files) == {
        "image/height": 7,
        "image/object/bbox/xmin": [0.25],
        "tags": ["a", "b"],
    }


def test_several_classes_have_no_class_file() -> None:
    """The library reads one number from it."""
    assert "cls" not in files_of({"image/class/label": [1, 2]})
    described = {"image/class/label": {"kind": "int64", "shape": [None]}}
    assert "cls" not in files_of({"image/class/label": [1]}, described)


def test_a_list_without_values_keeps_its_kind() -> None:
    """An image without objects has lists of numbers, too."""
    record = encode_example({"a": ("float", []), "b": ("int64", []), "c": ("bytes", [])})
    files = sample_files(EncodedSample(b"", record, b""), {})
    assert json_of(files) == {
        "a": [],
        "b": [],
        "c": [],
        "__empty__": {"a": "float", "b": "int64", "c": "bytes"},
    }
    assert example_of(files) == record


def test_a_mask_is_a_file_and_masks_of_objects_are_urls() -> None:
    """The one is read as an image by the library, the others stay a list."""
    features = {
        "image/segmentation/class/encoded": [PNG],
        "image/object/mask": [PNG, JPEG, b"\0"],
    }
    files = files_of(features)
    assert list(files) == ["segmentation_class.png", "json"]
    assert files["segmentation_class.png"] == PNG
    found = json_of(files)
    assert found["image/segmentation/class/encoded"] == {"file": "segmentation_class.png"}
    starts, values = zip(*(url.split(",") for url in found["image/object/mask"]), strict=True)
    assert starts == (
        "data:image/png;base64",
        "data:image/jpeg;base64",
        "data:application/octet-stream;base64",
    )
    assert list(map(base64.b64decode, values)) == [PNG, JPEG, b"\0"]
    assert example_of(files) == record_of(features)


def test_two_features_do_not_share_a_file() -> None:
    """The second is a URL."""
    features = {"a/b": [PNG], "a_b": [PNG]}
    files = files_of(features)
    assert list(files) == ["a_b.png", "json"]
    assert example_of(files) == record_of(features)


def test_text_that_looks_like_a_url_is_text_again() -> None:
    """It is told from bytes that are no text."""
    features = {
        "a": [b"data:,x"],
        "b": [b"data:;base64,AAAA", b""],
        "c": [b""],
        "d": ["é\n".encode()],
    }
    files = files_of(features)
    assert json_of(files)["d"] == "é\n"
    assert example_of(files) == record_of(features)


@given(FEATURES)
def test_nothing_of_an_example_is_lost(features: dict[str, Any]) -> None:
    """Any example comes back with the same bytes; JSON has one number that is none."""
    features = {
        key: [math.nan if value != value else value for value in values]
        for key, values in features.items()
    }
    record = encode_example(with_kinds(features))
    assert example_of(sample_files(EncodedSample(b"", record, b""), {})) == record


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"jpg": b"", "cls": b""}, r"no \.json, only \.jpg, \.cls"),
        ({"json": b"[]"}, "not an object"),
        ({"json": b"{"}, "Expecting"),
        ({"json": b'{"a": {"file": "jpg"}}'}, r"names a file \.jpg for a"),
        ({"json": b'{"a": {}}'}, r"names a file \.None for a"),
        ({"json": b'{"a": [1, "b"]}'}, "has a neither as text nor"),
        ({"json": b'{"a": true}'}, "has a neither as text nor"),
        ({"json": b'{"a": [[]]}'}, "has a neither as text nor"),
        ({"json": b'{"a": "data:,!"}'}, "base64"),
    ],
)
def test_files_of_others_are_refused(files: dict[str, bytes], expected: str) -> None:
    """With what is wrong."""
    with pytest.raises(ValueError, match=expected):
        example_of(files)
