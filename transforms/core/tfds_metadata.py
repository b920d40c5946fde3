"""What TensorFlow Datasets reads beside the shards, made from the manifest.

`tfds.builder_from_directory` reads `dataset_info.json` (names and lengths of the shards) and
`features.json` (how to decode an example); the names of classes stand in a file of their own.
Features keep their keys, slashes included, so an example is a flat dict. Source:
https://www.tensorflow.org/datasets/external_tfrecord, tensorflow_datasets/core/proto/feature.proto
and dataset_info.proto as protobuf's JSON mapping has them (int64 as strings).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from transforms.core.manifest import dump_json

DATASET_INFO_NAME = "dataset_info.json"
FEATURES_NAME = "features.json"
_CLASS_KEYS = ("image/class/label", "image/object/class/label")


def _names_file(key: str) -> str:
    return f"{key.replace('/', '.')}.labels.txt"


TFDS_NAMES = (DATASET_INFO_NAME, FEATURES_NAME, *map(_names_file, _CLASS_KEYS))
"""Every file name that `tfds_files` may return."""

_ENCODED_KEY = "image/encoded"
_ANY_LENGTH = -1
_DTYPES = {"int64": "int64", "float": "float32", "bytes": "string"}
_PACKAGE = "tensorflow_datasets.core.features"


def tfds_files(manifest: Mapping[str, Any]) -> dict[str, bytes]:
    """The files that make a data set one of TensorFlow Datasets', file name -> content.

    None where TFDS cannot read the shards: compressed ones, and 100,000 or more of a split, whose
    names it would write with more digits.

    Args:
      manifest: of a complete data set.
    """
    splits = {name: split for name, split in manifest["splits"].items() if _is_split(name)}
    if manifest["options"]["compression"] != "none" or not splits:
        return {}
    if any(len(split["shards"]) >= 10**5 for split in splits.values()):
        return {}
    class_key = next((key for key in _CLASS_KEYS if key in manifest["features"]), "")
    names = _class_names(manifest["classes"]) if class_key else None
    raw = manifest["options"].get("image_encoding") == "raw"
    features = {
        key: _feature(key, feature, names if key == class_key else None, raw)
        for key, feature in sorted(manifest["features"].items())
    }
    files = {
        DATASET_INFO_NAME: dump_json(_dataset_info(manifest, splits, class_key)),
        FEATURES_NAME: dump_json(
            {
                "type": f"{_PACKAGE}.features_dict.FeaturesDict",
                "content": {"features": features},
                "proto_cls": "tensorflow_datasets.FeaturesDict",
            }
        ),
    }
    if names and _fit_a_file(names):
        files[_names_file(class_key)] = "".join(f"{name}\n" for name in names).encode()
    return files


def _is_split(name: str) -> bool:
    """Whether TFDS reads a split of this name: it wants a letter or digit, and "all" is them all."""
    return name != "all" and any(map(str.isalnum, name))


def _dataset_info(
    manifest: Mapping[str, Any], splits: Mapping[str, Any], class_key: str
) -> dict[str, Any]:
    label = next((k for k in (_CLASS_KEYS[0], "image/label") if k in manifest["features"]), None)
    info: dict[str, Any] = {
        "name": _dataset_name(manifest["name"]),
        "version": "1.0.0",
        "fileFormat": "tfrecord",
        "splits": [_split_info(manifest["name"], *item) for item in splits.items()],
    }
    if label:
        pair = [{"featureKey": _ENCODED_KEY}, {"featureKey": label}]
        info["supervisedKeys"] = {"tuple": {"items": pair}}
    return info


def _dataset_name(name: str) -> str:
    """The name as TFDS has it: ASCII letters, digits and `_`, a letter first, no capitals."""
    name = re.sub(r"[^a-z0-9_]", "_", name.lower())
    return name if name[0].isalpha() else f"d{name}"


def _split_info(dataset: str, split: str, entry: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": split,
        "filepathTemplate": f"{dataset}-{{SPLIT}}.{{FILEFORMAT}}-{{SHARD_X_OF_Y}}",
        "numBytes": str(entry["bytes"]),
        "shardLengths": [str(shard["examples"]) for shard in entry["shards"]],
    }


def _class_names(classes: Sequence[Mapping[str, Any]]) -> list[str] | None:
    """The names in order of id, if the ids count from 0: a `ClassLabel` knows no others."""
    if not classes or [entry["id"] for entry in classes] != list(range(len(classes))):
        return None
    return [entry["name"] for entry in classes]


def _fit_a_file(names: Sequence[str]) -> bool:
    """Whether TFDS, which strips the lines of the file and drops empty ones, reads them unchanged."""
    return all(name and name == name.strip() and not set(name) & set("\r\n") for name in names)


def _feature(
    key: str, feature: Mapping[str, Any], class_names: Sequence[str] | None, raw: bool
) -> dict[str, Any]:
    shape = [_ANY_LENGTH if size is None else size for size in feature.get("shape", [])]
    optional = bool(feature["optional"])
    if key == _ENCODED_KEY and not raw:
        return _connector("image_feature.Image", image={**_shape([-1, -1, 3]), "dtype": "uint8"})
    if class_names and not optional:
        label = _connector(
            "class_label_feature.ClassLabel", classLabel={"numClasses": str(len(class_names))}
        )
        return _sequence(label) if shape else label
    if feature["kind"] == "bytes" and not shape and not optional and key != _ENCODED_KEY:
        return _connector("text_feature.Text", text={})
    tensor: dict[str, Any] = {
        **_shape(shape),
        "dtype": _DTYPES[feature["kind"]],
        "encoding": "none",
    }
    if optional and not shape:  # a list that is missing reads as an empty one
        tensor["optional"] = True
    return _connector("tensor_feature.Tensor", tensor=tensor)


def _connector(class_name: str, **content: Any) -> dict[str, Any]:
    return {"pythonClassName": f"{_PACKAGE}.{class_name}", **content}


def _sequence(feature: Mapping[str, Any]) -> dict[str, Any]:
    return _connector(
        "sequence_feature.Sequence", sequence={"feature": feature, "length": str(_ANY_LENGTH)}
    )


def _shape(sizes: Sequence[int]) -> dict[str, Any]:
    return {"shape": {"dimensions": [str(size) for size in sizes]}}
