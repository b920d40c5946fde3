"""The files beside the shards: exact contents, cards, which are ours, and which give way to a person's own."""

from __future__ import annotations

import ast
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml as pyyaml
from hypothesis import given
from hypothesis import strategies as st

from beam_pipeline.core.dataset.manifest import Manifest, ShardEntry, SplitEntry, dump_json
from beam_pipeline.core.report import contents, metadata, side_files
from beam_pipeline.core.report.card import literal, readme
from tests import harness, rows
from tests.core.dataset.fixtures import manifest_with
from tests.core.report.cases import CASES, content_of, golden, manifest_of
from tests.pictures import write_files, write_pictures

MANIFEST = manifest_of("class_folders")

WRITTEN = {
    **dict(side_files.files_from_manifest(MANIFEST, card=True)),
    "manifest.json": dump_json(MANIFEST.content),
}

BY_NAME = {"manifest.json", "image.class.label.labels.txt"}


@pytest.mark.parametrize("case", CASES)
def test_the_files_made_from_a_manifest(case: str) -> None:
    """All their bytes; cards, schemas and reports have the seal of their content."""
    files = dict(side_files.files_from_manifest(manifest_of(case), card=True))
    assert files == golden(case)
    seals = {name for name, content in files.items() if contents.is_unchanged(content)}
    assert seals == {"README.md", "croissant.json", "schema.pbtxt"}
    assert dict(
        side_files.files_from_manifest(manifest_of(case), card=False)
    ).keys() == files.keys() - {*("README.md", "croissant.json")}


def is_ours(name: str, content: bytes, manifest: Manifest | None = MANIFEST) -> bool:
    entry = side_files.side_file(name)
    assert entry is not None
    return entry.is_ours is None or entry.is_ours(manifest, name, content)


@pytest.mark.parametrize("name", WRITTEN)
def test_a_written_file_is_known_again(name: str) -> None:
    """Until it is replaced; of some, the name alone tells."""
    assert is_ours(name, WRITTEN[name])
    assert is_ours(name, b"my own words\n") == (name in BY_NAME)


def test_names_of_other_files_are_not_known() -> None:
    """Nor a file of TFDS's that the data set does not have."""
    assert side_files.side_file("notes.txt") is side_files.side_file("readme.md") is None
    assert not is_ours("image.object.labels.txt", b"cat\n")
    assert not is_ours("changes.json", b"{}")
    assert not is_ours("labels.txt", WRITTEN["labels.txt"], None)


def test_a_sealed_file_is_unchanged_until_a_byte_changes() -> None:
    """The seal takes the place of the last placeholder; text from data may hold another."""
    content = f"{contents.PLACEHOLDER} is a class\n<!-- {contents.PLACEHOLDER} -->\n".encode()
    file = contents.sealed(content)
    assert file.startswith(f"{contents.PLACEHOLDER} is a class\n<!-- beam-tfrecord:".encode())
    assert len(file) == len(content)
    assert [tells(file) for tells in (contents.has_seal, contents.is_unchanged)] == [True, True]
    for changed in (file + b"\n", file.replace(b"a class", b"my class"), content, b"my words\n"):
        assert not contents.is_unchanged(changed)


@rows.in_rows
def test_files_say_which_class_has_which_id(
    classes: dict[str, int], kind: str, files: dict[str, bytes]
) -> None:
    """A list needs ids without gaps and a name a line; a label map needs boxes and ids from 1 on."""
    manifest = manifest_with(
        classes=[{"id": class_id, "name": name} for name, class_id in classes.items()],
        options={"columns": [{"name": "label", "kind": kind, "feature": "x"}]},
    )
    assert metadata.class_files(manifest) == files


def _feature(kind: str, *shape: int | None, optional: bool = False) -> dict[str, Any]:
    return {"kind": kind, "optional": optional, "shape": list(shape)}


def _split(name: str, *examples: int) -> dict[str, Any]:
    path = f"pets-{name}.tfrecord-{{:05d}}-of-{len(examples):05d}"
    shards = [
        {"path": path.format(i), "examples": n, "bytes": 100 * n} for i, n in enumerate(examples)
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


@rows.in_rows
def test_classes_that_tfds_cannot_name_are_plain(
    classes: list[Any], feature: dict[str, Any]
) -> None:
    """Ids from 0 on are those of a `ClassLabel`, which strips lines of names and drops empty ones."""
    manifest = _manifest(classes=[{"id": i, "name": name} for i, name in classes])
    files = metadata.tfds_files(manifest)
    label = json.loads(files["features.json"])["content"]["features"]["image/class/label"]
    assert list(files) == ["dataset_info.json", "features.json"]
    assert feature.items() <= label.items()


def test_there_are_no_files_for_what_tfds_cannot_read() -> None:
    """It reads no compressed shards, and writes 100,000 of them with other digits than we do."""
    assert metadata.tfds_files(_manifest(options={"compression": "gzip"})) == {}
    assert metadata.tfds_files(_manifest(splits={"all": _split("all", 1)})) == {}
    assert metadata.tfds_files(_manifest(splits={"train": _split("train", *[0] * 100_000)})) == {}
    assert metadata.tfds_files(_manifest(splits={"train": _split("train", *[0] * 99_999)})) != {}


@rows.in_rows
def test_only_examples_have_a_schema(options: dict[str, str], names: list[str]) -> None:
    """Readers of a tar find files in it. Bare pixels are no image file."""
    raw = manifest_with(
        features={"image/encoded": _feature("bytes")}, options={"image_encoding": "raw", **options}
    )
    files = metadata.schema_files(raw)
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


# --- The cards of a data set: facts, YAML that its readers understand, code that runs, and mlcroissant


@rows.in_rows
def test_a_wildcard_finds_the_shards_of_a_split(first: str, pattern: str) -> None:
    """It finds neither indexes nor shards of another number, and takes other wildcards as text."""
    assert contents.shard_pattern(SplitEntry(1, 9, (ShardEntry(first, 1, 9),))) == pattern


@given(st.text())
def test_yaml_and_python_read_any_text_back(text: str) -> None:
    """Line ends, quotes, colons and control characters come back as they were, from one line."""
    scalar = literal(text)
    assert "\n" not in scalar
    assert pyyaml.safe_load(f"- {scalar}\n- 1\n") == [text, 1]
    assert ast.literal_eval(scalar) == text


def front_matter(card: bytes) -> dict[str, Any]:
    """The YAML at the top, as a YAML reader has it."""
    _, text, _ = card.decode().split("---\n", 2)
    found: dict[str, Any] = pyyaml.safe_load(text)
    return found


def test_many_classes_are_listed_in_part() -> None:
    """A hundred in the table."""
    manifest = content_of("class_folders")
    splits = {"test": 0, "train": 1}
    manifest["classes"] = [
        {"id": i, "name": f"c{i}", "examples": 1, "splits": splits} for i in range(1001)
    ]
    card = readme(Manifest.of(manifest))
    assert b"\n| 99 | c99 | 1 | 0 | 1 |\n\nAnd 901 more, which `manifest.json` lists.\n" in card


@rows.in_rows
def test_the_size_is_one_of_the_hubs(examples: int, category: str) -> None:
    """Its bounds are powers of ten."""
    manifest = content_of("regression")
    manifest["counts"]["examples"] = examples
    assert front_matter(readme(Manifest.of(manifest)))["size_categories"] == [category]


@pytest.mark.slow
def test_the_code_of_a_card_reads_its_data_set(tmp_path: Path) -> None:
    """Run in the output folder, each block reads every example: compressed, with boxes and lists."""
    write_pictures(f"{tmp_path}/photos", ["1.jpg", "2.png"])
    table = "image,xmin,ymin,xmax,ymax,class,note\n1.jpg,0,0,2,2,a,x\n2.png,1,1,3,3,b,\n"
    write_files(str(tmp_path), {"boxes.csv": table})
    argv = ("--images", f"{tmp_path}/photos", "--labels", f"{tmp_path}/boxes.csv")
    assert harness.convert(*argv, "--compression", "gzip", "--output", f"{tmp_path}/out") == 0
    text = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    ours, plain = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    script = f"{ours}\nprint(sum(len(images) for images, _ in dataset))\n{plain}\n"
    script += 'print(sorted(one["image/filename"].numpy() for one in examples))'
    done = harness.run_shell(f"{sys.executable} - <<'END'\n{script}\nEND\n", tmp_path / "out")
    assert done.stdout == "2\n[b'1.jpg', b'2.png']\n"


def records(folder: Path, name: str) -> list[dict[str, Any]]:
    """The records of a record set, as mlcroissant reads them, by the names of their fields."""
    import mlcroissant

    dataset = mlcroissant.Dataset(jsonld=folder / "croissant.json")
    assert dataset.metadata.ctx.issues.errors == set()
    return [
        {
            key.partition("/")[2]: value.decode() if isinstance(value, bytes) else value
            for key, value in record.items()
        }
        for record in dataset.records(name)
    ]


@pytest.mark.croissant
def test_mlcroissant_reads_what_a_conversion_wrote(tmp_path: Path) -> None:
    """It finds no error; splits, classes, features and dead letters are those of the data set."""
    folder = tmp_path / "out"
    write_pictures(f"{tmp_path}/photos", ["train/cat/1.jpg", "train/dog/2.png", "test/dog/3.jpg"])
    write_files(f"{tmp_path}/photos", {"train/cat/empty.jpg": b"", "test/cat/text.jpg": "no image"})
    argv = ("--images", f"{tmp_path}/photos", "--max_bad_fraction", "1")
    assert harness.convert(*argv, "--output", str(folder)) == 0
    manifest = json.loads((folder / "manifest.json").read_bytes())
    assert records(folder, "splits") == [
        {
            "name": name,
            "examples": split["examples"],
            "shards": len(split["shards"]),
            "bytes": split["bytes"],
        }
        for name, split in manifest["splits"].items()
    ]
    assert records(folder, "classes") == [
        {key: entry[key] for key in ("id", "name", "examples")} for entry in manifest["classes"]
    ]
    assert [one["key"] for one in records(folder, "features")] == sorted(manifest["features"])
    expected = [
        {key: one[key] for key in ("stage", "key", "uri", "reason", "message")}
        for one in harness.dead_letters_of(folder)
    ]
    assert records(folder, "dead_letters") == expected != []
