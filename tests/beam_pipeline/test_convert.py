"""Conversions as a whole, of small images and of real ones."""

from __future__ import annotations

import csv
import os
from pathlib import Path

import pytest

from tests.harness import (
    convert,
    digests,
    manifest_of,
    read_all,
    reasons_of,
)
from tests.pictures import picture, write_files, write_pictures

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


@pytest.mark.parametrize("compression", ["none", pytest.param("gzip", marks=pytest.mark.slow)])
def test_records_mode_gives_the_same_shards(tmp_path: Path, compression: str) -> None:
    """`--shuffle=records` gives the same files, but no receipts, and lists the images once."""
    write_pictures(str(tmp_path / "photos"), [f"{'abc'[i % 3]}/{i}.jpg" for i in range(40)])
    write_files(str(tmp_path / "photos"), {"a/bad.jpg": "x"})
    argv = ("--images", f"{tmp_path}/photos", "--max_bad_fraction", "0.1", "--name", "d")
    more = ("--splits", "train=0.7,test=0.3", "--compression", compression, "--num_shards", "3")
    assert convert(*argv, *more, "--output", f"{tmp_path}/references") == 0
    records = f"{tmp_path}/records"
    assert convert(*argv, *more, "--output", records, "--shuffle", "records") == 0
    ours, theirs = digests(records), digests(tmp_path / "references")
    different = {name for name in ours if ours[name] != theirs[name]}
    assert different == {"README.md", "manifest.json"}
    assert not [name for name in os.listdir(records) if name.startswith(".")]


@pytest.mark.promise("same_bytes")
def test_two_runs_give_the_same_files_wherever_the_images_lie(tmp_path: Path) -> None:
    """A second run, also from a copy of the folder elsewhere, gives every file byte for byte."""
    names = [f"{'abc'[i % 3]}/{i}.jpg" for i in range(30)]
    write_pictures(str(tmp_path / "photos"), names)
    write_pictures(str(tmp_path / "elsewhere/deep/copy"), names)
    argv = ("--num_shards", "4", "--name", "d", "--splits", "train=0.5,test=0.5")
    assert convert("--images", f"{tmp_path}/photos", *argv, "--output", f"{tmp_path}/1") == 0
    assert convert("--images", f"{tmp_path}/photos", *argv, "--output", f"{tmp_path}/2") == 0
    copy = f"{tmp_path}/elsewhere/deep/copy/"
    assert convert("--images", copy, *argv, "--output", f"{tmp_path}/3") == 0
    assert digests(tmp_path / "1") == digests(tmp_path / "2") == digests(tmp_path / "3")


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
