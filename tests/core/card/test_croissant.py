"""croissant.json: exact contents, and what MLCommons' own library makes of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from beam_pipeline.core.card.croissant import croissant
from beam_pipeline.core.card.seal import is_unchanged
from beam_pipeline.core.dataset.manifest import Manifest
from tests.core.card.cases import CASES, content_of, golden, manifest_of
from tests.harness import convert, dead_letters_of
from tests.pictures import write_files, write_pictures


@pytest.mark.parametrize("case", CASES)
def test_the_description_of_a_data_set(case: str) -> None:
    """All its bytes, made from nothing but the manifest."""
    found = croissant(manifest_of(case))
    assert found == golden(f"{case}.croissant.json")
    assert is_unchanged(found)


def test_the_shards_of_each_split_are_a_set_of_files() -> None:
    """Wildcards in names stand for themselves; a compressed shard has two formats."""
    manifest = content_of("boxes")
    shard = manifest["splits"]["train"]["shards"][0]
    shard["path"] = "a[1]*-train.tfrecord-00000-of-00016.gz"
    distribution = json.loads(croissant(Manifest.of(manifest)))["distribution"]
    assert distribution[0] == {
        "@type": "cr:FileSet",
        "@id": "shards-0",
        "name": "shards-train",
        "description": "The shards of the split train.",
        "encodingFormat": ["application/x-tfrecord", "application/gzip"],
        "includes": "a[[]1][*]-train.tfrecord-*-of-00016.gz",
    }


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
    assert convert(*argv, "--output", str(folder)) == 0
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
        for one in dead_letters_of(folder)
    ]
    assert records(folder, "dead_letters") == expected != []


@pytest.mark.croissant
@pytest.mark.parametrize("case", CASES)
def test_mlcroissant_finds_no_error(case: str, tmp_path: Path) -> None:
    """Nor in hostile names of classes."""
    (tmp_path / "croissant.json").write_bytes(croissant(manifest_of(case)))
    keys = [one["key"] for one in records(tmp_path, "features")]
    assert keys == sorted(manifest_of(case).features)
