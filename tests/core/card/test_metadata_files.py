"""Files with the names of the classes, beside the shards."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from beam_pipeline.core.card.metadata_files import (
    class_files,
    schema_files,
    tfds_files,
    tfds_names,
)
from beam_pipeline.core.card.seal import is_unchanged
from beam_pipeline.core.dataset.manifest import Manifest
from tests.core.dataset.manifests import manifest_with

LIST = ("labels.txt", b"cat\ndog\n")
MAP = (
    "label_map.pbtxt",
    b'item {\n  id: 1\n  name: "cat"\n}\n\nitem {\n  id: 2\n  name: "dog"\n}\n',
)


@pytest.mark.parametrize(
    ("classes", "has_boxes", "expected"),
    [
        ([("cat", 0), ("dog", 1)], False, [LIST]),
        ([("cat", 0), ("dog", 1)], True, [LIST]),
        ([("cat", 1), ("dog", 2)], False, [LIST]),
        ([("cat", 1), ("dog", 2)], True, [LIST, MAP]),
        ([("cat", 2), ("dog", 3)], False, []),
        ([("cat", 1), ("dog", 3)], False, []),
        ([("big\ncat", 0), ("dog", 1)], False, []),
        ([], True, []),
    ],
)
def test_files_say_which_class_has_which_id(
    classes: list[tuple[str, int]], has_boxes: bool, expected: list[tuple[str, bytes]]
) -> None:
    """A list needs ids without gaps and a name a line; a label map needs boxes and ids from 1 on."""
    assert class_files(_of_classes(classes, has_boxes=has_boxes)) == dict(expected)


def _of_classes(classes: list[tuple[str, int]], *, has_boxes: bool) -> Manifest:
    column = {"name": "label", "kind": "box" if has_boxes else "class", "feature": "x"}
    return manifest_with(
        classes=[{"id": class_id, "name": name} for name, class_id in classes],
        options={"compression": "none", "columns": [column]},
    )


def test_a_label_map_may_have_gaps() -> None:
    """It says every id, as COCO's 80 of 90 classes need."""
    assert class_files(_of_classes([("person", 1), ("chair", 62)], has_boxes=True)) == {
        "label_map.pbtxt": b'item {\n  id: 1\n  name: "person"\n}\n\nitem {\n  id: 62\n  name: "chair"\n}\n'
    }


def test_names_are_utf_8() -> None:
    """In the list as they are."""
    classes = _of_classes([("고양이", 0)], has_boxes=False)
    assert class_files(classes) == {"labels.txt": "고양이\n".encode()}


# --- The files for TensorFlow Datasets: exact contents, and what becomes of what it cannot name


PACKAGE = "tensorflow_datasets.core.features"


def _feature(kind: str, *shape: int | None, optional: bool = False) -> dict[str, Any]:
    return {"kind": kind, "optional": optional, "shape": list(shape)}


def _split(name: str, *examples: int, dataset: str = "pets") -> dict[str, Any]:
    shards = [
        {
            "path": f"{dataset}-{name}.tfrecord-{i:05d}-of-{len(examples):05d}",
            "examples": n,
            "bytes": 100 * n,
        }
        for i, n in enumerate(examples)
    ]
    return {"examples": sum(examples), "bytes": 100 * sum(examples), "shards": shards}


def _manifest(**changes: Any) -> Manifest:
    """A manifest of two classes, with what the files are made from."""
    features = {
        "image/encoded": _feature("bytes"),
        "image/class/label": _feature("int64"),
        "image/class/text": _feature("bytes"),
    }
    entries = {
        "features": features,
        "splits": {"train": _split("train", 3, 2)},
        "classes": [{"id": 0, "name": "cat"}, {"id": 1, "name": "dog"}],
    }
    return manifest_with(**{**entries, **changes})


def _features(manifest: Manifest) -> dict[str, Any]:
    features: dict[str, Any] = json.loads(tfds_files(manifest)["features.json"])
    return features["content"]["features"]


def _info(manifest: Manifest) -> dict[str, Any]:
    info: dict[str, Any] = json.loads(tfds_files(manifest)["dataset_info.json"])
    return info


def test_three_files_describe_a_data_set_of_classes() -> None:
    """These are their names and all their bytes."""
    files = tfds_files(_manifest())
    assert list(files) == ["dataset_info.json", "features.json", "image.class.label.labels.txt"]
    assert files["image.class.label.labels.txt"] == b"cat\ndog\n"
    assert (
        files["dataset_info.json"]
        == b"""{
  "name": "pets",
  "version": "1.0.0",
  "fileFormat": "tfrecord",
  "splits": [
    {
      "name": "train",
      "filepathTemplate": "pets-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}",
      "numBytes": "500",
      "shardLengths": [
        "3",
        "2"
      ]
    }
  ],
  "supervisedKeys": {
    "tuple": {
      "items": [
        {
          "featureKey": "image/encoded"
        },
        {
          "featureKey": "image/class/label"
        }
      ]
    }
  }
}
"""
    )
    assert (
        files["features.json"]
        == b"""{
  "type": "tensorflow_datasets.core.features.features_dict.FeaturesDict",
  "content": {
    "features": {
      "image/class/label": {
        "pythonClassName": "tensorflow_datasets.core.features.class_label_feature.ClassLabel",
        "classLabel": {
          "numClasses": "2"
        }
      },
      "image/class/text": {
        "pythonClassName": "tensorflow_datasets.core.features.text_feature.Text",
        "text": {}
      },
      "image/encoded": {
        "pythonClassName": "tensorflow_datasets.core.features.image_feature.Image",
        "image": {
          "shape": {
            "dimensions": [
              "-1",
              "-1",
              "3"
            ]
          },
          "dtype": "uint8"
        }
      }
    }
  },
  "proto_cls": "tensorflow_datasets.FeaturesDict"
}
"""
    )


def test_the_same_manifest_gives_the_same_bytes() -> None:
    """The order of the manifest's features does not matter."""
    manifest = _manifest()
    turned = replace(manifest, features=dict(reversed(manifest.features.items())))
    assert tfds_files(turned) == tfds_files(manifest)


@pytest.mark.parametrize(
    ("feature", "tensor"),
    [
        (_feature("int64"), {"shape": {"dimensions": []}, "dtype": "int64"}),
        (_feature("float"), {"shape": {"dimensions": []}, "dtype": "float32"}),
        (_feature("float", 4), {"shape": {"dimensions": ["4"]}, "dtype": "float32"}),
        (_feature("bytes", None), {"shape": {"dimensions": ["-1"]}, "dtype": "string"}),
        (
            _feature("int64", optional=True),
            {"shape": {"dimensions": []}, "dtype": "int64", "optional": True},
        ),
        (
            _feature("bytes", optional=True),
            {"shape": {"dimensions": []}, "dtype": "string", "optional": True},
        ),
        (
            _feature("float", 4, optional=True),
            {"shape": {"dimensions": ["4"]}, "dtype": "float32", "optional": True},
        ),
        (
            _feature("float", None, optional=True),
            {"shape": {"dimensions": ["-1"]}, "dtype": "float32"},
        ),
    ],
)
def test_a_feature_is_a_tensor(feature: dict[str, Any], tensor: dict[str, Any]) -> None:
    """Numbers, lists and all that may be missing; a list that is missing needs no word for it."""
    manifest = _manifest(features={"label/x": feature})
    expected = {**tensor, "encoding": "none"}
    assert _features(manifest) == {
        "label/x": {"pythonClassName": f"{PACKAGE}.tensor_feature.Tensor", "tensor": expected}
    }


def _python_class(manifest: Manifest, key: str) -> str:
    name: str = _features(manifest)[key]["pythonClassName"]
    return name.rpartition(".")[2]


@pytest.mark.parametrize(
    "ids", [(1, 2), (0, 2), (1, 0)], ids=["from 1", "with a gap", "out of order"]
)
def test_other_ids_than_0_1_2_are_plain_integers(ids: tuple[int, int]) -> None:
    """A `ClassLabel` would give such ids the names of others, so there is none and no names."""
    classes = [{"id": i, "name": name} for i, name in zip(ids, "ab", strict=True)]
    manifest = _manifest(classes=classes)
    assert _python_class(manifest, "image/class/label") == "Tensor"
    assert list(tfds_files(manifest)) == ["dataset_info.json", "features.json"]


@pytest.mark.parametrize("name", [" cat", "cat\x85", "a\nb", "a\rb", ""])
def test_names_that_a_file_of_lines_cannot_hold_are_left_out(name: str) -> None:
    """TFDS strips lines and drops empty ones; then classes have numbers but no names."""
    manifest = _manifest(classes=[{"id": 0, "name": name}, {"id": 1, "name": "dog"}])
    assert _features(manifest)["image/class/label"]["classLabel"] == {"numClasses": "2"}
    assert list(tfds_files(manifest)) == ["dataset_info.json", "features.json"]


def test_the_classes_of_boxes_are_a_sequence() -> None:
    """Where objects have classes, the names are theirs, and there is no pair for `as_supervised`."""
    features = {
        "image/encoded": _feature("bytes"),
        "image/object/class/label": _feature("int64", None),
    }
    manifest = _manifest(features=features)
    assert _features(manifest)["image/object/class/label"] == {
        "pythonClassName": f"{PACKAGE}.sequence_feature.Sequence",
        "sequence": {
            "feature": {
                "pythonClassName": f"{PACKAGE}.class_label_feature.ClassLabel",
                "classLabel": {"numClasses": "2"},
            },
            "length": "-1",
        },
    }
    assert tfds_files(manifest)["image.object.class.label.labels.txt"] == b"cat\ndog\n"
    assert "supervisedKeys" not in _info(manifest)


def test_a_number_to_regress_on_is_the_supervised_label() -> None:
    """Without classes, `image/label` is what `as_supervised` gives beside the image."""
    features = {"image/encoded": _feature("bytes"), "image/label": _feature("float")}
    items = _info(_manifest(features=features, classes=[]))["supervisedKeys"]["tuple"]["items"]
    assert items == [{"featureKey": "image/encoded"}, {"featureKey": "image/label"}]


@pytest.mark.parametrize(
    ("feature", "options"),
    [
        (_feature("bytes"), {"image_encoding": "raw"}),
        (_feature("bytes", optional=True), {}),
        (_feature("bytes", None), {}),
        (_feature("int64", None), {}),
    ],
    ids=["raw pixels", "optional", "several", "numbers"],
)
def test_an_image_that_tfds_cannot_decode_stays_as_it_is(
    feature: dict[str, Any], options: dict[str, Any]
) -> None:
    """Bare pixels, a list, or what may be missing is no `Image`."""
    manifest = _manifest(
        features={"image/encoded": feature}, options={"compression": "none", **options}
    )
    assert _python_class(manifest, "image/encoded") == "Tensor"


def test_png_of_bare_pixels_is_an_image() -> None:
    """Only the encoding `raw` is none."""
    manifest = _manifest(options={"compression": "none", "image_encoding": "png"})
    assert _python_class(manifest, "image/encoded") == "Image"


def test_features_under_other_keys_keep_their_meaning() -> None:
    """--features may write the image and the class elsewhere; a stranger at their keys is neither."""
    manifest = _manifest(
        features={"image": _feature("bytes"), "y": _feature("int64"), "z": _feature("int64")},
        options={
            "compression": "none",
            "features": {"image": "image/encoded", "y": "image/class/label"},
        },
    )
    files = tfds_files(manifest)
    assert _python_class(manifest, "image") == "Image"
    assert _python_class(manifest, "y") == "ClassLabel"
    assert _python_class(manifest, "z") == "Tensor"
    assert files["y.labels.txt"] == b"cat\ndog\n"
    items = _info(manifest)["supervisedKeys"]["tuple"]["items"]
    assert items == [{"featureKey": "image"}, {"featureKey": "y"}]
    assert set(files) < set(tfds_names(manifest))


def test_every_name_of_a_file_is_known() -> None:
    """What a run may have written can be named from its manifest, or without one."""
    assert tfds_names(_manifest()) == [
        "dataset_info.json",
        "features.json",
        "image.class.label.labels.txt",
        "image.object.class.label.labels.txt",
    ]
    assert tfds_names(None) == tfds_names(_manifest())


@pytest.mark.parametrize(
    ("name", "tfds_name"),
    [
        ("pets", "pets"),
        ("Pets", "pets"),
        ("my.pets-2", "my_pets_2"),
        ("2023", "d2023"),
        ("_x", "d_x"),
        ("Ünï", "d_n_"),
    ],
)
def test_a_name_that_tfds_does_not_take_is_changed(name: str, tfds_name: str) -> None:
    """Only the name that TFDS shows changes; the shards are found under their own."""
    info = _info(_manifest(name=name))
    assert info["name"] == tfds_name
    template = f"{name}-{{SPLIT}}.{{FILEFORMAT}}-{{SHARD_X_OF_Y}}"
    assert [split["filepathTemplate"] for split in info["splits"]] == [template]


def test_a_split_that_tfds_cannot_name_is_left_out() -> None:
    """`all` means all splits there, and a name wants a letter or a digit; without any, no files."""
    splits = {name: _split(name, 1) for name in ("all", "__", "1", "é", "train_2")}
    info = _info(_manifest(splits=splits))
    assert [split["name"] for split in info["splits"]] == ["1", "é", "train_2"]
    assert tfds_files(_manifest(splits={"all": _split("all", 1)})) == {}


def test_there_are_no_files_for_what_tfds_cannot_read() -> None:
    """It reads no compressed shards, and writes 100,000 of them with other digits than we do."""
    assert tfds_files(_manifest(options={"compression": "gzip"})) == {}
    assert tfds_files(_manifest(splits={"train": _split("train", *[0] * 100_000)})) == {}
    assert tfds_files(_manifest(splits={"train": _split("train", *[0] * 99_999)})) != {}


@pytest.mark.parametrize("pixels", ["uint8", "uint16"])
def test_a_mask_is_an_image_of_ids(pixels: str) -> None:
    """With one channel; bytes where some examples lack it."""
    key = "image/segmentation/class/encoded"
    mask = {**_feature("bytes"), "pixels": pixels}
    described = _features(_manifest(features={key: mask}))[key]
    assert described == {
        "pythonClassName": "tensorflow_datasets.core.features.image_feature.Image",
        "image": {
            "shape": {"dimensions": ["-1", "-1", "1"]},
            "dtype": pixels,
            "encodingFormat": "png",
        },
    }
    assert _python_class(_manifest(features={key: {**mask, "optional": True}}), key) == "Tensor"


# --- The schema for TFDV and TFX: exact contents, and the same read by TensorFlow Metadata


def _feature_in_schema(
    kind: str, *shape: int | None, optional: bool = False, **more: Any
) -> dict[str, Any]:
    return {"kind": kind, "optional": optional, "shape": list(shape), **more}


FEATURES = {
    "image/encoded": _feature_in_schema("bytes"),
    "image/class/label": _feature_in_schema("int64"),
    "image/class/text": _feature_in_schema("bytes"),
    "image/object/bbox/xmin": _feature_in_schema("float", None),
    "image/segmentation/class/encoded": _feature_in_schema("bytes", optional=True, pixels="uint8"),
    "embedding": _feature_in_schema("float", 8),
    "label/age": _feature_in_schema("int64", optional=True),
}


def _manifest_of_schema(**changes: Any) -> Manifest:
    classes = [{"id": 3, "name": "cat"}, {"id": 7, "name": 'a "dog"\n'}]
    return manifest_with(**{"features": FEATURES, "classes": classes, **changes})


def _schema(manifest: Manifest) -> str:
    (content,) = schema_files(manifest).values()
    assert is_unchanged(content)
    return content.decode()


def test_a_schema_is_this_text() -> None:
    """Its second line is the seal; features are in order of key."""
    head, seal, *lines = _schema(_manifest_of_schema()).splitlines()
    assert head == "# proto-message: tensorflow.metadata.v0.Schema"
    assert seal.startswith("# beam-tfrecord:")
    assert (
        "\n".join(lines)
        == r"""
feature {
  name: "embedding"
  type: FLOAT
  presence { min_fraction: 1 }
  shape { dim { size: 8 } }
}
feature {
  name: "image/class/label"
  type: INT
  presence { min_fraction: 1 }
  shape { }
  int_domain { min: 3 max: 7 is_categorical: true }
}
feature {
  name: "image/class/text"
  type: BYTES
  presence { min_fraction: 1 }
  shape { }
  string_domain {
    value: "cat"
    value: "a \"dog\"\012"
  }
}
feature {
  name: "image/encoded"
  type: BYTES
  presence { min_fraction: 1 }
  shape { }
  image_domain { }
}
feature {
  name: "image/object/bbox/xmin"
  type: FLOAT
  presence { min_fraction: 1 }
  value_count { min: 0 }
}
feature {
  name: "image/segmentation/class/encoded"
  type: BYTES
  value_count { min: 1 max: 1 }
  image_domain { }
}
feature {
  name: "label/age"
  type: INT
  value_count { min: 1 max: 1 }
}
""".strip()
    )


def test_a_renamed_class_keeps_its_values() -> None:
    """And a feature of another kind under its key has none."""
    options = {"compression": "none", "features": {"y": "image/class/label"}}
    features = {
        "y": _feature_in_schema("int64", None),
        "image/class/text": _feature_in_schema("int64"),
    }
    assert (
        "\n".join(_schema(_manifest_of_schema(options=options, features=features)).splitlines()[2:])
        == r"""
feature {
  name: "image/class/text"
  type: INT
  presence { min_fraction: 1 }
  shape { }
}
feature {
  name: "y"
  type: INT
  presence { min_fraction: 1 }
  value_count { min: 0 }
  int_domain { min: 3 max: 7 is_categorical: true }
}
""".strip()
    )


def test_bare_pixels_are_no_image_file() -> None:
    options = {"compression": "none", "image_encoding": "raw"}
    features = {"image/encoded": FEATURES["image/encoded"]}
    assert "image_domain" not in _schema(_manifest_of_schema(options=options, features=features))


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({"compression": "gzip"}, ["schema.pbtxt"]),
        ({"compression": "none", "record_format": "array_record"}, ["schema.pbtxt"]),
        ({"compression": "none", "record_format": "webdataset"}, []),
    ],
)
def test_only_examples_have_a_schema(options: dict[str, str], names: list[str]) -> None:
    """Readers of a tar find files in it."""
    assert list(schema_files(_manifest_of_schema(options=options))) == names


@pytest.mark.readers
def test_tensorflow_metadata_reads_it() -> None:
    """Every field arrives."""
    schema_pb2 = pytest.importorskip("tensorflow_metadata.proto.v0.schema_pb2")
    from google.protobuf import text_format

    schema = text_format.Parse(_schema(_manifest_of_schema()), schema_pb2.Schema())
    found = {feature.name: feature for feature in schema.feature}
    assert list(found) == sorted(FEATURES)
    types = {"int64": schema_pb2.INT, "float": schema_pb2.FLOAT, "bytes": schema_pb2.BYTES}
    for key, feature in found.items():
        assert feature.type == types[FEATURES[key]["kind"]]
        assert feature.presence.min_fraction == (not FEATURES[key]["optional"])
    assert [dim.size for dim in found["embedding"].shape.dim] == [8]
    assert found["image/encoded"].HasField("shape")
    assert found["image/encoded"].HasField("image_domain")
    ids = found["image/class/label"].int_domain
    assert (ids.min, ids.max, ids.is_categorical) == (3, 7, True)
    assert list(found["image/class/text"].string_domain.value) == ["cat", 'a "dog"\n']
    counts = found["label/age"].value_count
    assert (counts.min, counts.max) == (1, 1)
