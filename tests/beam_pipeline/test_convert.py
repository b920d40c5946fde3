"""Conversions as a whole, of small images and of real ones."""

from __future__ import annotations

import csv
import os
from pathlib import Path

import pytest

from tests import harness
from tests.pictures import picture, write_files, write_pictures

# --- convert ---------------------------------------------------------------------------------------


def test_full_image_check_finds_what_the_header_hides(tmp_path: Path) -> None:
    """A JPEG that lost pixels in its middle passes the header check and fails the full one."""
    jpeg = picture(1, size=(200, 100))
    damaged = jpeg[:-250] + b"\xff\xc4" * 100 + jpeg[-50:]
    write_files(str(tmp_path / "photos"), {"cat/a.jpg": jpeg, "cat/damaged.jpg": damaged})
    argv = ("--images", f"{tmp_path}/photos", "--max_bad_fraction", "0.5")
    assert harness.convert(*argv, "--output", f"{tmp_path}/header") == 0
    assert harness.convert(*argv, "--output", f"{tmp_path}/full", "--image_check", "full") == 0
    assert set(harness.read_all(tmp_path / "header")) == {"cat/a.jpg", "cat/damaged.jpg"}
    assert set(harness.read_all(tmp_path / "full")) == {"cat/a.jpg"}
    assert harness.reasons_of(tmp_path / "full") == {"cat/damaged.jpg": "corrupt_image"}


def _sized(folder: Path) -> tuple[str, ...]:
    """Four images to keep and five to filter, one a reason or two; the arguments that filter them."""
    sizes = {"a": (64, 64), "b": (99, 40), "c": (40, 99), "d": (100, 80), "low": (200, 39)}
    sizes |= {"long": (201, 50), "tall": (50, 201), "many": (150, 150)}
    files = {
        f"photos/{'cat' if len(key) % 2 else 'dog'}/{key}.png": picture(
            i, file_format="PNG", size=size
        )
        for i, (key, size) in enumerate(sizes.items())
    }
    write_files(str(folder), {**files, "photos/cat/big.png": b"no image" * 500})
    filters = ("--min_side=40", "--max_aspect=4", "--max_pixels=20000", "--max_image_bytes=2KB")
    return ("--images", f"{folder}/photos", *filters)


def test_filters_leave_images_out_without_holding_them_against_the_run(tmp_path: Path) -> None:
    """Each with its reason, whatever else is allowed to be bad."""
    argv = _sized(tmp_path)
    printed = harness.run_convert(*argv, harness.NONE_BAD, "--output", f"{tmp_path}/out")
    assert sorted(harness.read_all(tmp_path / "out")) == [
        "cat/a.png",
        "cat/b.png",
        "cat/c.png",
        "cat/d.png",
    ]
    assert {(e["key"], e["stage"], e["reason"], e["message"]) for e in harness.dead_letters_of(tmp_path / "out")} == {
        ("cat/big.png", "check", "filtered_max_image_bytes", "4000 bytes; --max_image_bytes is 2000"),
        ("cat/low.png", "check", "filtered_min_side", "200 x 39 pixels; --min_side is 40"),
        ("dog/long.png", "check", "filtered_max_aspect", "201 x 50 pixels, 4.02 to 1; --max_aspect is 4"),
        ("dog/tall.png", "check", "filtered_max_aspect", "50 x 201 pixels, 4.02 to 1; --max_aspect is 4"),
        ("dog/many.png", "check", "filtered_max_pixels", "150 x 150 pixels, 22500 in all; --max_pixels is 20000"),
    }  # fmt: skip
    manifest = harness.manifest_of(tmp_path / "out")
    assert manifest["dead_letters"] == {
        "filtered_max_aspect": 2,
        "filtered_max_image_bytes": 1,
        "filtered_max_pixels": 1,
        "filtered_min_side": 1,
    }
    assert (manifest["counts"]["listed_images"], manifest["counts"]["examples"]) == (9, 4)
    lines = printed.out.splitlines()
    filtered = "1 by --min_side, 2 by --max_aspect, 1 by --max_pixels, 1 by --max_image_bytes"
    assert f"  filtered out: 5 ({filtered}), listed in {tmp_path}/out/dead_letters.jsonl" in lines
    assert "  other dead letters: none" in lines


def test_filters_and_bad_images_are_counted_apart(tmp_path: Path) -> None:
    """A bad image is still one too many; with more of them allowed, the summary lists both."""
    argv = _sized(tmp_path)[:-1]  # nothing filters big.png, which is no image
    error = harness.run_convert(*argv, harness.NONE_BAD, "--output", f"{tmp_path}/out", code=1).err
    assert "1 bad sample among 9 listed images" in error
    lines = harness.run_convert(
        *argv, "--max_bad_fraction=0.12", "--overwrite", "--output", f"{tmp_path}/out"
    ).out.splitlines()
    assert [line.partition(", each")[0] for line in lines if "dead letters" in line] == [
        "  dead letters: 1"
    ]
    assert "    not_an_image: 1" in lines


def test_filters_that_leave_nothing_are_refused(tmp_path: Path) -> None:
    """An empty data set is never meant."""
    write_pictures(f"{tmp_path}/photos", ["cat/1.jpg", "dog/2.jpg"])
    argv = ("--images", f"{tmp_path}/photos", "--output", f"{tmp_path}/out")
    error = harness.run_convert(*argv, "--min_side=512", code=1).err
    assert "no image is left: of 2 listed images, the filters leave out 2 by --min_side" in error
    assert not (tmp_path / "out/manifest.json").exists()
    assert harness.convert(*argv, "--min_side=7", "--overwrite") == 0


@pytest.mark.parametrize("compression", ["none", pytest.param("gzip", marks=pytest.mark.slow)])
def test_records_mode_gives_the_same_shards(tmp_path: Path, compression: str) -> None:
    """`--shuffle=records` gives the same files, but no receipts, and lists the images once."""
    write_pictures(str(tmp_path / "photos"), [f"{'abc'[i % 3]}/{i}.jpg" for i in range(40)])
    write_files(str(tmp_path / "photos"), {"a/bad.jpg": "x"})
    argv = ("--images", f"{tmp_path}/photos", "--max_bad_fraction", "0.1", "--name", "d")
    more = ("--splits", "train=0.7,test=0.3", "--compression", compression, "--num_shards", "3")
    assert harness.convert(*argv, *more, "--output", f"{tmp_path}/references") == 0
    records = f"{tmp_path}/records"
    assert harness.convert(*argv, *more, "--output", records, "--shuffle", "records") == 0
    ours, theirs = harness.digests(records), harness.digests(tmp_path / "references")
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
    assert (
        harness.convert("--images", f"{tmp_path}/photos", *argv, "--output", f"{tmp_path}/1") == 0
    )
    assert (
        harness.convert("--images", f"{tmp_path}/photos", *argv, "--output", f"{tmp_path}/2") == 0
    )
    copy = f"{tmp_path}/elsewhere/deep/copy/"
    assert harness.convert("--images", copy, *argv, "--output", f"{tmp_path}/3") == 0
    assert (
        harness.digests(tmp_path / "1")
        == harness.digests(tmp_path / "2")
        == harness.digests(tmp_path / "3")
    )


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
    assert harness.convert(*argv, "--output", f"{tmp_path}/out", "--max_bad_fraction=0") == 0
    examples = harness.read_all(tmp_path / "out")
    assert sorted(examples) == names
    assert len(harness.manifest_of(tmp_path / "out")["classes"]) == 100
    for name, features in examples.items():
        (encoded,) = features["image/encoded"]
        assert encoded == (folder / name).read_bytes()
        decoded = tf.io.decode_image(encoded).numpy()
        stored = (*features["image/height"], *features["image/width"], *features["image/channels"])
        assert decoded.shape == stored
        assert features["image/format"] == [b"jpeg"]
        assert features["label/synset"] == [name.partition("_")[0].encode()]
    assert {features["image/channels"][0] for features in examples.values()} == {1, 3}
