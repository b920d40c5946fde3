"""The schema for TFDV and TFX: exact contents, and the same read by TensorFlow Metadata."""

from __future__ import annotations

from typing import Any

import pytest

from beam_pipeline.core.card.metadata_files import schema_files
from beam_pipeline.core.card.seal import is_unchanged


def _feature(kind: str, *shape: int | None, optional: bool = False, **more: Any) -> dict[str, Any]:
    return {"kind": kind, "optional": optional, "shape": list(shape), **more}


FEATURES = {
    "image/encoded": _feature("bytes"),
    "image/class/label": _feature("int64"),
    "image/class/text": _feature("bytes"),
    "image/object/bbox/xmin": _feature("float", None),
    "image/segmentation/class/encoded": _feature("bytes", optional=True, pixels="uint8"),
    "embedding": _feature("float", 8),
    "label/age": _feature("int64", optional=True),
}


def _manifest(**changes: Any) -> dict[str, Any]:
    return {
        "options": {"compression": "none"},
        "features": FEATURES,
        "classes": [{"id": 3, "name": "cat"}, {"id": 7, "name": 'a "dog"\n'}],
        **changes,
    }


def _schema(manifest: dict[str, Any]) -> str:
    (content,) = schema_files(manifest).values()
    assert is_unchanged(content)
    return content.decode()


def test_a_schema_is_this_text() -> None:
    """Its second line is the seal; features are in order of key."""
    head, seal, *lines = _schema(_manifest()).splitlines()
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
    features = {"y": _feature("int64", None), "image/class/text": _feature("int64")}
    assert (
        "\n".join(_schema(_manifest(options=options, features=features)).splitlines()[2:])
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
    assert "image_domain" not in _schema(_manifest(options=options, features=features))


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
    assert list(schema_files(_manifest(options=options))) == names


@pytest.mark.readers
def test_tensorflow_metadata_reads_it() -> None:
    """Every field arrives."""
    schema_pb2 = pytest.importorskip("tensorflow_metadata.proto.v0.schema_pb2")
    from google.protobuf import text_format

    schema = text_format.Parse(_schema(_manifest()), schema_pb2.Schema())
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
