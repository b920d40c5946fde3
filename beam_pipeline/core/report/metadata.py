"""Files about the data set for programs that do not read the manifest, made from the manifest.

`labels.txt` and `label_map.pbtxt` name the classes. `dataset_info.json`, `features.json` and
`<feature>.labels.txt` are for TensorFlow Datasets: `tfds.builder_from_directory` reads names and
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

`croissant.json` is the data set in MLCommons' Croissant format, for search engines and loaders.
Croissant cannot reach into a TFRecord: a field comes from a column, a JSON path or a whole
file. So the shards of each split are a `FileSet`, and the records that loaders can read are the
splits, the classes, the features of an example, and what was left out. Source:
https://docs.mlcommons.org/croissant/docs/croissant-spec-1.1.html.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from beam_pipeline.core.dataset.manifest import FeatureEntry, Manifest, SplitEntry, dump_json
from beam_pipeline.core.dataset.names import LABEL_MAP_NAME, LABELS_NAME
from beam_pipeline.core.labels.classes import fit_a_list, label_map, quoted
from beam_pipeline.core.labels.schema import ENCODED_KEY, ColumnKind, written_key
from beam_pipeline.core.report import contents


def class_files(manifest: Manifest) -> dict[str, bytes]:
    """The files with the names of the classes, name -> content.

    A list of names implies the ids only without gaps. Ids of a label map begin at 1, as 0 is
    the background.
    """
    classes = [(entry.name, entry.id) for entry in manifest.classes]
    files = {}
    if classes and fit_a_list(classes):
        files[LABELS_NAME] = b"".join(name.encode() + b"\n" for name, _ in classes)
    has_boxes = any(column.kind == ColumnKind.BOX.value for column in manifest.options.columns)
    if classes and classes[0][1] > 0 and has_boxes:
        files[LABEL_MAP_NAME] = label_map(classes).encode()
    return files


DATASET_INFO_NAME = "dataset_info.json"
FEATURES_NAME = "features.json"

CLASS_KEYS = ("image/class/label", "image/object/class/label")
_LABEL_KEYS = ("image/class/label", "image/label")
_MAX_SHARDS = 10**5  # of a split; from there on TFDS writes more digits than we do
_ANY_LENGTH = "-1"
_DTYPES = {"int64": "int64", "float": "float32", "bytes": "string"}
_PACKAGE = "tensorflow_datasets.core.features"


def tfds_files(manifest: Manifest) -> dict[str, bytes]:
    """The files that make a data set one of TensorFlow Datasets', file name -> content.

    There are none where TFDS cannot read the shards: where they are compressed, or so many that
    TFDS numbers them differently. A split that TFDS cannot name, such as `all`, is left out.
    """
    splits = {  # the name of a split needs a letter or digit, and "all" is reserved
        name: split
        for name, split in manifest.splits.items()
        if name != "all" and any(map(str.isalnum, name))
    }
    file_format = manifest.record_format.tfds_name
    most = max((len(split.shards) for split in splits.values()), default=_MAX_SHARDS)
    if not file_format or most >= _MAX_SHARDS:
        return {}
    class_key = _first_written(CLASS_KEYS, manifest)
    names = _class_names(class_key, manifest)
    features = {
        key: _tfds_feature(key, manifest, len(names) if key == class_key else 0)
        for key in sorted(manifest.features)
    }
    content = {
        "type": f"{_PACKAGE}.features_dict.FeaturesDict",
        "content": {"features": features},
        "proto_cls": "tensorflow_datasets.FeaturesDict",
    }
    info = _dataset_info(manifest, splits, file_format)
    files = {DATASET_INFO_NAME: dump_json(info), FEATURES_NAME: dump_json(content)}
    # TFDS strips lines and drops empty ones.
    if names and all(n and n == n.strip() and not set(n) & set("\r\n") for n in names):
        files[_names_file(class_key)] = "".join(f"{name}\n" for name in names).encode()
    return files


def _names_file(key: str) -> str:
    return f"{key.replace('/', '.')}.labels.txt"


def _first_written(keys: Sequence[str], manifest: Manifest) -> str:
    """The key that the first of these standard features that there is was written under, or ""."""
    written = (written_key(key, manifest.renames) for key in keys)
    return next((key for key in written if key in manifest.features), None) or ""


def _dataset_info(
    manifest: Manifest, splits: Mapping[str, SplitEntry], file_format: str
) -> dict[str, Any]:
    name = re.sub(r"[^a-z0-9_]", "_", manifest.name.lower())  # as TFDS has it, a letter first
    info: dict[str, Any] = {
        "name": name if name[:1].isalpha() else f"d{name}",
        "version": "1.0.0",
        "fileFormat": file_format,
        "splits": [
            {
                "name": split,
                "filepathTemplate": f"{manifest.name}-{{SPLIT}}.{{FILEFORMAT}}-{{SHARD_X_OF_Y}}",
                "numBytes": str(entry.bytes),
                "shardLengths": [str(shard.examples) for shard in entry.shards],
            }
            for split, entry in splits.items()
        ],
    }
    pair = [_first_written([ENCODED_KEY], manifest), _first_written(_LABEL_KEYS, manifest)]
    if all(pair):
        info["supervisedKeys"] = {"tuple": {"items": [{"featureKey": key} for key in pair]}}
    return info


def _class_names(key: str, manifest: Manifest) -> list[str]:
    """The names of the classes in order of id; none where a `ClassLabel` cannot be made of them.

    Its ids count from 0, and it is never missing.
    """
    feature = manifest.features.get(key)
    if not feature or feature.kind != "int64" or feature.optional:
        return []
    counted = all(entry.id == i for i, entry in enumerate(manifest.classes))
    return [entry.name for entry in manifest.classes] if counted else []


def _tfds_feature(key: str, manifest: Manifest, classes: int) -> dict[str, Any]:
    """The class of TFDS that decodes a feature, and its arguments.

    Args:
      key: of the feature, as written.
      manifest: of the data set.
      classes: how many there are, if the feature has their ids; else 0.
    """
    feature = manifest.features[key]
    sizes = [_ANY_LENGTH if size is None else str(size) for size in feature.shape]
    is_image = key == _first_written([ENCODED_KEY], manifest)
    if classes:
        number = {"numClasses": str(classes)}
        label = _connector("class_label_feature.ClassLabel", classLabel=number)
        for size in sizes:
            sequence = {"feature": label, "length": size}
            label = _connector("sequence_feature.Sequence", sequence=sequence)
        return label
    if feature.kind == "bytes" and not (feature.optional or feature.shape):
        is_picture = is_image and not manifest.bare_pixels
        if dtype := "uint8" if is_picture else feature.pixels or feature.picture:
            channels = "1" if feature.pixels or feature.picture == "uint16" else "3"
            image: dict[str, Any] = {
                "shape": {"dimensions": [_ANY_LENGTH, _ANY_LENGTH, channels]},
                "dtype": dtype,
            }
            image |= {"encodingFormat": "png"} if feature.pixels else {}
            return _connector("image_feature.Image", image=image)
        if not is_image:
            return _connector("text_feature.Text", text={})
    dtype, shape = _DTYPES[feature.kind], {"dimensions": sizes}
    tensor: dict[str, Any] = {"shape": shape, "dtype": dtype, "encoding": "none"}
    if feature.optional and _ANY_LENGTH not in sizes:  # a missing list reads as an empty one
        tensor["optional"] = True
    return _connector("tensor_feature.Tensor", tensor=tensor)


def _connector(class_name: str, **content: Any) -> dict[str, Any]:
    return {"pythonClassName": f"{_PACKAGE}.{class_name}", **content}


SCHEMA_NAME = "schema.pbtxt"

_HEAD = f"""\
# proto-message: tensorflow.metadata.v0.Schema
# {contents.PLACEHOLDER}
"""
_TYPES = {"int64": "INT", "float": "FLOAT", "bytes": "BYTES"}
_TEXT_KEYS = ("image/class/text", "image/object/class/text")


def schema_files(manifest: Manifest) -> dict[str, bytes]:
    """The schema of a data set, file name -> content; none where records are no `tf.train.Example`s."""
    if not manifest.record_format.of_examples:
        return {}
    lines = [_HEAD]
    for key in sorted(manifest.features):
        lines += ["feature {\n", *(f"  {line}\n" for line in _lines(key, manifest)), "}\n"]
    return {SCHEMA_NAME: contents.sealed("".join(lines).encode())}


def _lines(key: str, manifest: Manifest) -> Iterator[str]:
    """The fields of a feature."""
    feature = manifest.features[key]
    yield f"name: {quoted(key)}"
    yield f"type: {_TYPES[feature.kind]}"
    if not feature.optional:
        yield "presence { min_fraction: 1 }"
    if feature.ragged:
        yield "value_count { min: 0 }"
    elif feature.optional:  # one with a shape is in every example
        count = math.prod(size or 0 for size in feature.shape)
        yield f"value_count {{ min: {count} max: {count} }}"
    else:
        yield " ".join(("shape {", *(f"dim {{ size: {size} }}" for size in feature.shape), "}"))
    yield from _domain(manifest.renames.get(key, key), feature, manifest)


def _domain(standard: str, feature: FeatureEntry, manifest: Manifest) -> Iterator[str]:
    """The values of a class, or that they are images, whose statistics differ from texts."""
    classes, kind = manifest.classes, feature.kind
    is_file = standard == ENCODED_KEY and not manifest.bare_pixels
    if classes and standard in CLASS_KEYS and kind == "int64":
        ids = [entry.id for entry in classes]
        yield f"int_domain {{ min: {min(ids)} max: {max(ids)} is_categorical: true }}"
    elif classes and standard in _TEXT_KEYS and kind == "bytes":
        yield "string_domain {"
        yield from (f"  value: {quoted(entry.name)}" for entry in classes)
        yield "}"
    elif kind == "bytes" and (is_file or feature.pixels or feature.picture):
        yield "image_domain { }"


CROISSANT_NAME = "croissant.json"


def croissant(manifest: Manifest) -> bytes:
    """The Croissant description of a complete data set; `croissant.json` has what is the same in all."""
    shards, unit = manifest.record_format, manifest.unit
    described = json.loads(contents.template(CROISSANT_NAME).substitute(unit=unit))
    if not manifest.dead_letters:  # a file without lines lacks columns
        described["distribution"].clear()
        del described["recordSet"][-1]
    described.update(
        name=manifest.name,
        description=f"{contents.summary(manifest)}, as {contents.CONTAINERS.get(shards.name, shards.name)}.",
        keywords=[shards.name, *contents.tasks(manifest)],
        distribution=[*_file_sets(manifest), *described["distribution"]],
        identifier=contents.PLACEHOLDER,
    )
    records: dict[str, Sequence[Sequence[Any]]] = {
        "splits": contents.split_rows(manifest),
        "classes": [[c.id, c.name, c.count][: 3 if unit else 2] for c in manifest.classes],
        "features": [*contents.feature_rows(manifest)],
    }
    for record_set in described["recordSet"]:
        if rows := records.get(record_set["name"]):
            fields = record_set["field"] = record_set["field"][: len(rows[0])]
            ids = [field["@id"] for field in fields]
            record_set["data"] = [dict(zip(ids, row, strict=True)) for row in rows]
    sets = [each for each in described["recordSet"] if each.get("data", True)]
    return contents.sealed(dump_json({**described, "recordSet": sets}))


def _file_sets(manifest: Manifest) -> Iterator[dict[str, Any]]:
    """The shards of each split."""
    shards = manifest.record_format
    kinds = [f"application/x-{shards.name}"]
    kinds += [f"application/{shards.compression}"] if shards.compression != "none" else []
    filled = [(name, split) for name, split in manifest.splits.items() if split.shards]
    for number, (name, split) in enumerate(filled):
        yield {
            "@type": "cr:FileSet",
            "@id": f"shards-{number}",
            "name": f"shards-{name}",
            "description": f"The shards of the split {name}.",
            "encodingFormat": kinds,
            "includes": contents.shard_pattern(split),
        }
