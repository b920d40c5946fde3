"""Files about the data set for programs that do not read the manifest, made from the manifest.

`labels.txt` and `label_map.pbtxt` name the classes. `dataset_info.json`, `features.json` and
`<feature>.labels.txt` are those of TensorFlow Datasets: `tfds.builder_from_directory` reads names and
lengths of the shards, and how to decode an example. Features keep their keys, slashes included, so an
example is a flat dict. `schema.pbtxt` has the features of an example for TensorFlow Data Validation,
Transform and TFX, as text:

    feature {
      name: "image/class/label"
      type: INT
      presence { min_fraction: 1 }
      shape { }
      int_domain { min: 0 max: 2 is_categorical: true }
    }

People complete a schema by hand, so it has a seal, and a changed one is never replaced. Sources:
https://www.tensorflow.org/datasets/external_tfrecord; tensorflow_datasets/core/proto/feature.proto and
dataset_info.proto as protobuf's JSON has them, with int64 as strings;
tensorflow_metadata/proto/v0/schema.proto.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from beam_pipeline.core.card.seal import PLACEHOLDER, sealed
from beam_pipeline.core.dataset.manifest import LABEL_MAP_NAME, LABELS_NAME, dump_json
from beam_pipeline.core.images.preparation import RAW_FORMAT
from beam_pipeline.core.labels.classes import fit_a_list, label_map, quoted
from beam_pipeline.core.labels.schema import ENCODED_KEY, ColumnKind, written_key
from beam_pipeline.core.records.formats import recorded_format


def class_files(
    classes: Sequence[tuple[str, int]], *, has_boxes: bool
) -> Iterator[tuple[str, bytes]]:
    """Yields the name and content of each file with the names of the classes.

    A list of names implies the ids only if they have no gaps. Ids of a label map begin at 1, as 0 is
    the background.

    Args:
      classes: (name, id) in order of id.
      has_boxes: whether the examples have boxes.
    """
    if classes and fit_a_list(classes):
        yield LABELS_NAME, b"".join(name.encode() + b"\n" for name, _ in classes)
    if classes and classes[0][1] > 0 and has_boxes:
        yield LABEL_MAP_NAME, label_map(classes).encode()


def class_files_of(manifest: Mapping[str, Any]) -> dict[str, bytes]:
    """The same, of a complete data set: name -> content."""
    classes = [(entry["name"], entry["id"]) for entry in manifest["classes"]]
    kinds = {column["kind"] for column in manifest["options"]["columns"]}
    return dict(class_files(classes, has_boxes=ColumnKind.BOX.value in kinds))


DATASET_INFO_NAME = "dataset_info.json"
FEATURES_NAME = "features.json"

_CLASS_KEYS = ("image/class/label", "image/object/class/label")
_LABEL_KEYS = ("image/class/label", "image/label")
_MAX_SHARDS = 10**5  # of a split; from there on TFDS writes more digits than we do
_ANY_LENGTH = "-1"
_DTYPES = {"int64": "int64", "float": "float32", "bytes": "string"}
_PACKAGE = "tensorflow_datasets.core.features"


def tfds_files(manifest: Mapping[str, Any]) -> dict[str, bytes]:
    """The files that make a data set one of TensorFlow Datasets', file name -> content.

    There are none where TFDS cannot read the shards: where they are compressed, or so many that
    TFDS numbers them differently. A split that TFDS cannot name, such as `all`, is left out.

    Args:
      manifest: of a complete data set.
    """
    splits = {name: split for name, split in manifest["splits"].items() if _is_split(name)}
    file_format = recorded_format(manifest["options"]).tfds_name
    if (
        not file_format
        or not splits
        or any(len(split["shards"]) >= _MAX_SHARDS for split in splits.values())
    ):
        return {}
    class_key = _first_written(_CLASS_KEYS, manifest)
    names = _class_names(class_key, manifest)
    image_key = _first_written([ENCODED_KEY], manifest)
    raw = manifest["options"].get("image_encoding") == RAW_FORMAT
    features = {}
    for key, feature in sorted(manifest["features"].items()):
        if key == class_key and names:
            features[key] = _class_label(feature, len(names))
        elif key == image_key:
            features[key] = _image(feature, raw=raw)
        elif feature.get("pixels"):
            features[key] = _mask(feature)
        else:
            features[key] = _text_or_numbers(feature)
    files = {
        DATASET_INFO_NAME: dump_json(_dataset_info(manifest, splits, file_format)),
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


def tfds_names(manifest: Mapping[str, Any]) -> list[str]:
    """The names of all files that `tfds_files` may have returned for a data set.

    Args:
      manifest: of the data set; an empty one stands for one that was never finished.
    """
    written = (written_key(key, _renames(manifest)) for key in _CLASS_KEYS)
    return [DATASET_INFO_NAME, FEATURES_NAME, *(_names_file(key) for key in written if key)]


def _names_file(key: str) -> str:
    return f"{key.replace('/', '.')}.labels.txt"


def _renames(manifest: Mapping[str, Any]) -> Mapping[str, str]:
    """Written key -> standard key, as --features has it."""
    renames: Mapping[str, str] = manifest.get("options", {}).get("features") or {}
    return renames


def _first_written(keys: Sequence[str], manifest: Mapping[str, Any]) -> str:
    """The key that the first of these standard features that there is was written under, or ""."""
    written = (written_key(key, _renames(manifest)) for key in keys)
    return next((key for key in written if key in manifest["features"]), None) or ""


def _is_split(name: str) -> bool:
    """Tells whether TFDS reads a split of this name: it needs a letter or digit, and "all" is reserved."""
    return name != "all" and any(map(str.isalnum, name))


def _dataset_info(
    manifest: Mapping[str, Any], splits: Mapping[str, Any], file_format: str
) -> dict[str, Any]:
    info: dict[str, Any] = {
        "name": _dataset_name(manifest["name"]),
        "version": "1.0.0",
        "fileFormat": file_format,
        "splits": [_split_info(manifest["name"], *item) for item in splits.items()],
    }
    pair = [_first_written([ENCODED_KEY], manifest), _first_written(_LABEL_KEYS, manifest)]
    if all(pair):
        info["supervisedKeys"] = {"tuple": {"items": [{"featureKey": key} for key in pair]}}
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


def _class_names(key: str, manifest: Mapping[str, Any]) -> list[str]:
    """The names of the classes in order of id; none where a `ClassLabel` cannot be made of them.

    Its ids count from 0, and it is never missing.
    """
    feature = manifest["features"].get(key, {})
    if feature.get("kind") != "int64" or feature["optional"]:
        return []
    counted = all(entry["id"] == i for i, entry in enumerate(manifest["classes"]))
    return [entry["name"] for entry in manifest["classes"]] if counted else []


def _fit_a_file(names: Sequence[str]) -> bool:
    """Tells whether TFDS, which strips lines and drops empty ones, reads the names unchanged."""
    return all(name and name == name.strip() and not set(name) & set("\r\n") for name in names)


def _class_label(feature: Mapping[str, Any], classes: int) -> dict[str, Any]:
    label = _connector("class_label_feature.ClassLabel", classLabel={"numClasses": str(classes)})
    for size in _sizes(feature):
        label = _connector("sequence_feature.Sequence", sequence={"feature": label, "length": size})
    return label


def _image(feature: Mapping[str, Any], *, raw: bool) -> dict[str, Any]:
    """An image that TFDS decodes; bytes where it could not."""
    if raw or feature["kind"] != "bytes" or feature["optional"] or _sizes(feature):
        return _tensor(feature)
    shape = {"dimensions": [_ANY_LENGTH, _ANY_LENGTH, "3"]}
    return _connector("image_feature.Image", image={"shape": shape, "dtype": "uint8"})


def _mask(feature: Mapping[str, Any]) -> dict[str, Any]:
    """A PNG of ids that TFDS decodes; bytes where some examples lack it."""
    if feature["optional"] or _sizes(feature):
        return _tensor(feature)
    shape = {"dimensions": [_ANY_LENGTH, _ANY_LENGTH, "1"]}
    image = {"shape": shape, "dtype": feature["pixels"], "encodingFormat": "png"}
    return _connector("image_feature.Image", image=image)


def _text_or_numbers(feature: Mapping[str, Any]) -> dict[str, Any]:
    if feature["kind"] == "bytes" and not feature["optional"] and not _sizes(feature):
        return _connector("text_feature.Text", text={})
    return _tensor(feature)


def _tensor(feature: Mapping[str, Any]) -> dict[str, Any]:
    tensor: dict[str, Any] = {
        "shape": {"dimensions": _sizes(feature)},
        "dtype": _DTYPES[feature["kind"]],
        "encoding": "none",
    }
    if feature["optional"] and _ANY_LENGTH not in _sizes(feature):  # a missing list reads as empty
        tensor["optional"] = True
    return _connector("tensor_feature.Tensor", tensor=tensor)


def _sizes(feature: Mapping[str, Any]) -> list[str]:
    """The lengths of a feature's dimensions; none for one value."""
    return [_ANY_LENGTH if size is None else str(size) for size in feature.get("shape", [])]


def _connector(class_name: str, **content: Any) -> dict[str, Any]:
    return {"pythonClassName": f"{_PACKAGE}.{class_name}", **content}


SCHEMA_NAME = "schema.pbtxt"

_HEAD = f"""\
# proto-message: tensorflow.metadata.v0.Schema
# {PLACEHOLDER}
"""
_TYPES = {"int64": "INT", "float": "FLOAT", "bytes": "BYTES"}
_CLASSES = ("image/class", "image/object/class")
_IDS = tuple(f"{key}/label" for key in _CLASSES)
_NAMES = tuple(f"{key}/text" for key in _CLASSES)


def schema_files(manifest: Mapping[str, Any]) -> dict[str, bytes]:
    """The schema of a data set, file name -> content; none where records are no `tf.train.Example`s.

    Args:
      manifest: of a complete data set.
    """
    if not recorded_format(manifest["options"]).of_examples:
        return {}
    features = (
        "".join(("feature {\n", *(f"  {line}\n" for line in _lines(key, manifest)), "}\n"))
        for key in sorted(manifest["features"])
    )
    return {SCHEMA_NAME: sealed("".join((_HEAD, *features)).encode())}


def _lines(key: str, manifest: Mapping[str, Any]) -> Iterator[str]:
    """The fields of a feature."""
    feature = manifest["features"][key]
    yield f"name: {quoted(key)}"
    yield f"type: {_TYPES[feature['kind']]}"
    shape = feature.get("shape", [])
    if not feature["optional"]:
        yield "presence { min_fraction: 1 }"
    if None in shape:
        yield "value_count { min: 0 }"
    elif feature["optional"]:  # one with a shape is in every example
        count = math.prod(shape)
        yield f"value_count {{ min: {count} max: {count} }}"
    else:
        yield " ".join(("shape {", *(f"dim {{ size: {size} }}" for size in shape), "}"))
    yield from _domain(key, manifest)


def _domain(key: str, manifest: Mapping[str, Any]) -> Iterator[str]:
    """The values of a class, or that they are images, whose statistics are not those of texts."""
    renames = manifest["options"].get("features") or {}
    standard, kind = renames.get(key, key), manifest["features"][key]["kind"]
    classes = manifest["classes"]
    if classes and standard in _IDS and kind == "int64":
        ids = [entry["id"] for entry in classes]
        yield f"int_domain {{ min: {min(ids)} max: {max(ids)} is_categorical: true }}"
    elif classes and standard in _NAMES and kind == "bytes":
        yield "string_domain {"
        yield from (f"  value: {quoted(entry['name'])}" for entry in classes)
        yield "}"
    elif kind == "bytes" and _is_image(standard, manifest["features"][key], manifest):
        yield "image_domain { }"


def _is_image(standard: str, feature: Mapping[str, Any], manifest: Mapping[str, Any]) -> bool:
    raw = manifest["options"].get("image_encoding") == RAW_FORMAT
    return bool(feature.get("pixels")) or (standard == ENCODED_KEY and not raw)
