"""Real photographs, decoded by TensorFlow. They are not part of the project."""

from __future__ import annotations

import csv
import os
from pathlib import Path

import pytest

from tests.harness import convert, manifest_of, read_all

pytest.importorskip("tensorflow")


def test_imagenet_photographs_with_a_csv(samples: Path, tmp_path: Path) -> None:
    """A hundred JPEGs in one folder, some grey, some rotated by EXIF, names with apostrophes."""
    import tensorflow as tf

    folder = samples / "imagenet-sample"
    names = sorted(os.listdir(folder))
    with open(tmp_path / "labels.csv", "w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["filename", "class", "synset"])
        for name in names:
            synset, _, words = name.removesuffix(".JPEG").partition("_")
            rows.writerow([name, words, synset])
    argv = ("--images", str(folder), "--labels", f"{tmp_path}/labels.csv", "--num_shards", "8")
    assert convert(*argv, "--output", f"{tmp_path}/out", "--max_bad_fraction=0") == 0
    examples = read_all(tmp_path / "out")
    assert sorted(examples) == names
    assert len(manifest_of(tmp_path / "out")["classes"]) == 100
    for name, features in examples.items():
        (encoded,) = features["image/encoded"]
        assert encoded == (folder / name).read_bytes()
        decoded = tf.io.decode_image(encoded).numpy()
        stored = (*features["image/height"], *features["image/width"], *features["image/channels"])
        assert decoded.shape == stored
        assert features["image/format"] == [b"jpeg"]
        assert features["label/synset"] == [name.partition("_")[0].encode()]
    assert {features["image/channels"][0] for features in examples.values()} == {1, 3}


def test_cifar_class_folders_with_splits(samples: Path, tmp_path: Path) -> None:
    """train/ and test/ above ten class folders become splits; every file is held as it is."""
    import tensorflow as tf

    folder = samples / "cifar10-sample"
    argv = ("--images", str(folder), "--output", f"{tmp_path}/out", "--max_bad_fraction=0")
    assert convert(*argv) == 0
    manifest = manifest_of(tmp_path / "out")
    assert {name: split["examples"] for name, split in manifest["splits"].items()} == {
        "train": 200,
        "test": 50,
    }
    names = [
        "airplane",
        "automobile",
        "bird",
        "cat",
        "deer",
        "dog",
        "frog",
        "horse",
        "ship",
        "truck",
    ]
    assert manifest["classes"] == [
        {"id": i, "name": name, "examples": 25, "splits": {"test": 5, "train": 20}}
        for i, name in enumerate(names)
    ]
    for key, features in read_all(tmp_path / "out").items():
        _, name, _ = key.split("/")
        assert names[features["image/class/label"][0]] == name
        assert features["image/encoded"] == [(folder / key).read_bytes()]
        assert tf.io.decode_image(features["image/encoded"][0]).shape == (32, 32, 3)
