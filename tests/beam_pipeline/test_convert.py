"""Conversions as a whole, of small images and of real ones."""

from __future__ import annotations

import csv
import os
from pathlib import Path

import pytest

from tests.harness import (
    convert,
    manifest_of,
    read_all,
    reasons_of,
)
from tests.pictures import picture, write_files

# --- convert ---------------------------------------------------------------------------------------


def test_full_image_check_finds_what_the_header_hides(tmp_path: Path) -> None:
    """A JPEG that lost pixels in its middle passes the header check and fails the full one."""
    jpeg = picture(1, size=(200, 100))
    damaged = jpeg[:-250] + b"\xff\xc4" * 100 + jpeg[-50:]
    write_files(str(tmp_path / "photos"), {"cat/a.jpg": jpeg, "cat/damaged.jpg": damaged})
    argv = ("--images", f"{tmp_path}/photos", "--max_bad_fraction", "0.5")
    assert convert(*argv, "--output", f"{tmp_path}/header") == 0
    assert convert(*argv, "--output", f"{tmp_path}/full", "--image_check", "full") == 0
    assert set(read_all(tmp_path / "header")) == {"cat/a.jpg", "cat/damaged.jpg"}
    assert set(read_all(tmp_path / "full")) == {"cat/a.jpg"}
    assert reasons_of(tmp_path / "full") == {"cat/damaged.jpg": "corrupt_image"}


# --- real images -----------------------------------------------------------------------------------

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
