"""The files beside the shards: exact contents, which are ours, and which give way to a person's own."""

from __future__ import annotations

import json
from typing import Any

import pytest

from beam_pipeline.core.dataset.manifest import Manifest, dump_json
from beam_pipeline.core.report.contents import PLACEHOLDER, has_seal, is_unchanged, sealed
from beam_pipeline.core.report.metadata import class_files, schema_files, tfds_files, tfds_names
from beam_pipeline.core.report.side_files import files_from_manifest, side_file
from tests.core.dataset.manifests import manifest_with
from tests.core.report.cases import CASES, golden, manifest_of

MANIFEST = manifest_of("class_folders")

WRITTEN = {
    **dict(files_from_manifest(MANIFEST, card=True)),
    "manifest.json": dump_json(MANIFEST.content),
}

BY_NAME = {"manifest.json", "dataset_info.json", "features.json", "image.class.label.labels.txt"}


@pytest.mark.parametrize("case", CASES)
def test_the_files_made_from_a_manifest(case: str) -> None:
    """All their bytes; cards, schemas and reports have the seal of their content."""
    files = dict(files_from_manifest(manifest_of(case), card=True))
    assert files == golden(case)
    seals = {name for name, content in files.items() if is_unchanged(content)}
    assert seals == {"README.md", "croissant.json", "schema.pbtxt"}
    assert dict(files_from_manifest(manifest_of(case), card=False)).keys() == files.keys() - {
        *("README.md", "croissant.json")
    }


def is_ours(name: str, content: bytes, manifest: Manifest | None = MANIFEST) -> bool:
    entry = side_file(name)
    assert entry is not None
    return entry.is_ours is None or entry.is_ours(manifest, name, content)


@pytest.mark.parametrize("name", WRITTEN)
def test_a_written_file_is_known_again(name: str) -> None:
    """Until it is replaced; of some, the name alone tells."""
    assert is_ours(name, WRITTEN[name])
    assert is_ours(name, b"my own words\n") == (name in BY_NAME)


def test_names_of_other_files_are_not_known() -> None:
    """Nor a file of TFDS's that the data set does not have."""
    assert side_file("notes.txt") is side_file("readme.md") is None
    assert not is_ours("image.object.labels.txt", b"cat\n")
    assert not is_ours("changes.json", b"{}")
    assert not is_ours("labels.txt", WRITTEN["labels.txt"], None)


def test_a_sealed_file_is_unchanged_until_a_byte_changes() -> None:
    """The seal takes the place of the last placeholder; text from data may hold another."""
    content = f"{PLACEHOLDER} is a class\n<!-- {PLACEHOLDER} -->\n".encode()
    file = sealed(content)
    assert has_seal(file)
    assert file.startswith(f"{PLACEHOLDER} is a class\n<!-- beam-tfrecord:".encode())
    assert len(file) == len(content)
    assert is_unchanged(file)
    assert not is_unchanged(file + b"\n")
    assert not is_unchanged(file.replace(b"a class", b"my class"))
    assert not is_unchanged(content)
    assert not is_unchanged(b"my own words\n")


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
        ([("고양이", 0)], False, [("labels.txt", "고양이\n".encode())]),
        (  # as COCO's 80 of 90 classes
            [("cat", 1), ("dog", 62)],
            True,
            [(MAP[0], MAP[1].replace(b"2", b"62"))],
        ),
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


def test_every_name_of_a_file_is_known() -> None:
    """What a run may have written can be named from its manifest, or without one."""
    assert tfds_names(_manifest()) == [
        "dataset_info.json",
        "features.json",
        "image.class.label.labels.txt",
        "image.object.class.label.labels.txt",
    ]
    assert tfds_names(None) == tfds_names(_manifest())


def test_there_are_no_files_for_what_tfds_cannot_read() -> None:
    """It reads no compressed shards, and writes 100,000 of them with other digits than we do."""
    assert tfds_files(_manifest(options={"compression": "gzip"})) == {}
    assert tfds_files(_manifest(splits={"all": _split("all", 1)})) == {}
    assert tfds_files(_manifest(splits={"train": _split("train", *[0] * 100_000)})) == {}
    assert tfds_files(_manifest(splits={"train": _split("train", *[0] * 99_999)})) != {}


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({"compression": "gzip"}, ["schema.pbtxt"]),
        ({"record_format": "array_record"}, ["schema.pbtxt"]),
        ({"record_format": "webdataset"}, []),
    ],
)
def test_only_examples_have_a_schema(options: dict[str, str], names: list[str]) -> None:
    """Readers of a tar find files in it. Bare pixels are no image file."""
    raw = manifest_with(
        features={"image/encoded": _feature("bytes")}, options={"image_encoding": "raw", **options}
    )
    files = schema_files(raw)
    assert list(files) == names
    assert b"image_domain" not in b"".join(files.values())


@pytest.mark.readers
def test_tensorflow_metadata_reads_the_schema() -> None:
    """Every field arrives."""
    schema_pb2 = pytest.importorskip("tensorflow_metadata.proto.v0.schema_pb2")
    from google.protobuf import text_format

    manifest = manifest_of("kinds")
    schema = text_format.Parse(golden("kinds")["schema.pbtxt"].decode(), schema_pb2.Schema())
    features = {feature.name: feature for feature in schema.feature}
    assert list(features) == sorted(manifest.features)
    types = {"int64": schema_pb2.INT, "float": schema_pb2.FLOAT, "bytes": schema_pb2.BYTES}
    for key, feature in features.items():
        assert feature.type == types[manifest.features[key].kind]
        assert feature.presence.min_fraction == (not manifest.features[key].optional)
    assert [dim.size for dim in features["embedding"].shape.dim] == [8]
    assert features["image/encoded"].HasField("shape")
    assert features["image/encoded"].HasField("image_domain")
    ids = features["image/class/label"].int_domain
    assert (ids.min, ids.max, ids.is_categorical) == (3, 7, True)
    assert list(features["image/class/text"].string_domain.value) == ["cat", 'a "dog"\n']
    counts = features["label/age"].value_count
    assert (counts.min, counts.max) == (1, 1)
