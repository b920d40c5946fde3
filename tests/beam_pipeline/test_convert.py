"""Conversions as a whole, of small images and of real ones."""

from __future__ import annotations

import base64
import csv
import os
from pathlib import Path

import pytest

from beam_pipeline.cli import main
from tests.harness import (
    NONE_BAD,
    convert,
    dead_letters_of,
    digests,
    manifest_of,
    read_all,
    read_shard,
    reasons_of,
    run_convert,
    shard_names,
)
from tests.pictures import picture, write_files, write_pictures

# --- convert ---------------------------------------------------------------------------------------


def test_class_folders_become_examples_with_every_feature(tmp_path: Path) -> None:
    """Each example holds the file's own bytes, what they are, where they lay and their class."""
    images = write_pictures(
        str(tmp_path / "photos"), ["cat/b.png", "cat/a.jpg", "dog/c.gif", "Zebra/größe 1.webp"]
    )
    output = tmp_path / "out"
    assert convert("--images", f"{tmp_path}/photos", "--output", str(output), NONE_BAD) == 0

    assert shard_names(output) == ["out-train.tfrecord-00000-of-00001"]
    assert (output / "labels.txt").read_text() == "Zebra\ncat\ndog\n"
    assert (output / "dead_letters.jsonl").read_bytes() == b""
    expected = {
        key: {
            "image/encoded": [images[key]],
            "image/format": [file_format],
            "image/height": [7],
            "image/width": [9],
            "image/channels": [3],
            "image/filename": [key.encode()],
            "image/source_id": [key.encode()],
            "image/class/label": [label],
            "image/class/text": [text],
        }
        for key, file_format, label, text in (
            ("cat/a.jpg", b"jpeg", 1, b"cat"),
            ("cat/b.png", b"png", 1, b"cat"),
            ("dog/c.gif", b"gif", 2, b"dog"),
            ("Zebra/größe 1.webp", b"webp", 0, b"Zebra"),
        )
    }
    assert read_all(output) == expected


@pytest.mark.promise("bad_image")
def test_broken_files_end_as_dead_letters_and_the_rest_goes_on(tmp_path: Path) -> None:
    """Each kind of bad image has its reason; a PNG named .jpg is a good image with format png."""
    jpeg = picture(1)
    write_files(
        str(tmp_path / "photos"),
        {
            "cat/good.jpg": jpeg,
            "cat/png_inside.jpg": picture(2, file_format="PNG"),
            "cat/empty.jpg": b"",
            "cat/cut.jpg": jpeg[:60],
            "cat/text.png": "not an image at all",
            "cat/tiff.png": picture(3, file_format="TIFF"),
            "cat/notes.txt": "passed over",
            "stray.jpg": jpeg,
        },
    )
    os.symlink(tmp_path / "nowhere.jpg", tmp_path / "photos/cat/gone.jpg")
    output = tmp_path / "out"
    argv = ("--images", f"{tmp_path}/photos", "--output", str(output))
    assert convert(*argv, "--max_bad_fraction", "0.9") == 0
    examples = read_all(output)
    assert {key: features["image/format"] for key, features in examples.items()} == {
        "cat/good.jpg": [b"jpeg"],
        "cat/png_inside.jpg": [b"png"],
    }
    assert reasons_of(output) == {
        "cat/empty.jpg": "empty_file",
        "cat/cut.jpg": "corrupt_image",
        "cat/text.png": "not_an_image",
        "cat/tiff.png": "unsupported_format",
        "cat/gone.jpg": "unreadable",
        "stray.jpg": "unlabelled",
    }
    counts = manifest_of(output)["counts"]
    assert counts["listed_images"] == 8
    assert counts["ignored_files"] == {".txt": 1}
    assert counts["listed_images"] == counts["examples"] + counts["dead_letters"]


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


def test_jpeg_xl_is_written_as_it_is(tmp_path: Path) -> None:
    """Listed by its extension or without one; TensorFlow decodes it to what the example says."""
    tf = pytest.importorskip("tensorflow", minversion="2.21")

    data = base64.b64decode("/wowMLASCAAQAGgASxiLFQAMxLsLIQLGFc28ASgMCwBAOQdKNwA=")
    write_files(f"{tmp_path}/photos", {"cat/a.jxl": data, "dog/b": data})
    assert convert("--images", f"{tmp_path}/photos", "--output", f"{tmp_path}/out", NONE_BAD) == 0
    examples = read_all(tmp_path / "out")
    assert sorted(examples) == ["cat/a.jxl", "dog/b"]
    for example in examples.values():
        assert example["image/encoded"] == [data]
        assert example["image/format"] == [b"jxl"]
        claimed = [example[f"image/{side}"][0] for side in ("height", "width", "channels")]
        assert claimed == [7, 9, 4] == list(tf.io.decode_image(data).shape)


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
    printed = run_convert(*argv, NONE_BAD, "--output", f"{tmp_path}/out")
    assert sorted(read_all(tmp_path / "out")) == [
        "cat/a.png",
        "cat/b.png",
        "cat/c.png",
        "cat/d.png",
    ]
    assert {(e["key"], e["stage"], e["reason"], e["message"]) for e in dead_letters_of(tmp_path / "out")} == {
        ("cat/big.png", "check", "filtered_max_image_bytes", "4000 bytes; --max_image_bytes is 2000"),
        ("cat/low.png", "check", "filtered_min_side", "200 x 39 pixels; --min_side is 40"),
        ("dog/long.png", "check", "filtered_max_aspect", "201 x 50 pixels, 4.02 to 1; --max_aspect is 4"),
        ("dog/tall.png", "check", "filtered_max_aspect", "50 x 201 pixels, 4.02 to 1; --max_aspect is 4"),
        ("dog/many.png", "check", "filtered_max_pixels", "150 x 150 pixels, 22500 in all; --max_pixels is 20000"),
    }  # fmt: skip
    manifest = manifest_of(tmp_path / "out")
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
    assert (
        "1 bad sample among 9 listed images"
        in run_convert(*argv, NONE_BAD, "--output", f"{tmp_path}/out", code=1).err
    )
    lines = run_convert(
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
    assert (
        "no image is left: of 2 listed images, the filters leave out 2 by --min_side"
        in run_convert(*argv, "--min_side=512", code=1).err
    )
    assert not (tmp_path / "out/manifest.json").exists()
    assert convert(*argv, "--min_side=7", "--overwrite") == 0


def test_a_shard_with_filters_is_continued_and_repaired(tmp_path: Path) -> None:
    """Receipts hold the filters: another limit is a change, and a lost shard comes back the same."""
    argv = (*_sized(tmp_path), "--output", f"{tmp_path}/out")
    assert convert(*argv) == 0
    assert convert(*argv, "--resume") == 0
    before = digests(tmp_path / "out")
    assert convert(*argv, "--resume", "--min_side=41") == 1
    (shard,) = shard_names(tmp_path / "out")
    os.unlink(tmp_path / "out" / shard)
    assert main(["repair", f"{tmp_path}/out"]) == 0
    assert digests(tmp_path / "out") == before


@pytest.mark.promise("books")
def test_the_books_balance_with_every_kind_of_row(tmp_path: Path) -> None:
    """Listed images + rows without an image = examples + dead letters, each with its reason."""
    write_pictures(
        str(tmp_path / "photos"),
        ["x/one.jpg", "y/one.jpg", "two.jpg", "three.jpg", "four.jpg", "five.jpg", "six.jpg"],
    )
    table = (
        "filename,label,score\n"
        "one.jpg,cat,1\n"  # x/ or y/?
        "two.jpg,cat,1\n"
        "two.jpg,cat,1\n"
        "three,cat,2\n"
        "three.jpg,dog,2\n"
        "four.jpg,,3\n"
        "seven.jpg,dog,1\n"
        "broken,row\n"
        "five.jpg,dog,much\n"
    )
    write_files(str(tmp_path), {"labels.csv": table})
    output = tmp_path / "out"
    argv = ("--images", f"{tmp_path}/photos", "--labels", f"{tmp_path}/labels.csv")
    more = ("--columns", "score:int", "--max_bad_fraction", "1")
    assert convert(*argv, *more, "--output", str(output)) == 0
    assert set(read_all(output)) == {"two.jpg"}
    dead_letters = [
        (dead_letter["stage"], dead_letter["reason"], dead_letter["key"], dead_letter.get("line"))
        for dead_letter in dead_letters_of(output)
    ]
    assert sorted(dead_letters, key=str) == sorted(
        [
            ("join", "ambiguous_key", "one.jpg", 2),
            ("join", "unlabelled", "x/one.jpg", None),
            ("join", "unlabelled", "y/one.jpg", None),
            ("join", "conflicting_labels", "three.jpg", 6),
            ("labels", "bad_label_value", "four.jpg", 7),
            ("join", "missing_image", "seven.jpg", 8),
            ("labels", "bad_row", "", 9),
            ("labels", "bad_label_value", "five.jpg", 10),
            ("join", "unlabelled", "six.jpg", None),
        ],
        key=str,
    )
    assert manifest_of(output)["counts"] == {
        "listed_images": 7,
        "ignored_files": {},
        "label_rows": 9,
        "label_rows_repeated": 1,
        "label_rows_without_image": 3,
        "joined_samples": 1,
        "examples": 1,
        "dead_letters": 9,
    }


def test_splits_by_fraction_keep_every_sample_on_its_side_when_others_come(tmp_path: Path) -> None:
    """A sample's split depends on its key alone."""
    names = [f"cat/{i:03d}.jpg" for i in range(120)]
    write_pictures(str(tmp_path / "photos"), names)
    argv = ("--images", f"{tmp_path}/photos", "--splits", "train=0.8,validation=0.2", "--name", "d")
    assert convert(*argv, "--output", f"{tmp_path}/before") == 0
    write_pictures(str(tmp_path / "photos"), [f"dog/{i:03d}.jpg" for i in range(80)])
    assert convert(*argv, "--output", f"{tmp_path}/after") == 0

    def sides(folder: Path) -> dict[str, set[str]]:
        return {
            split: {
                features["image/source_id"][0].decode()
                for features in read_shard(folder, f"d-{split}.tfrecord-00000-of-00001")
            }
            for split in ("train", "validation")
        }

    before, after = sides(tmp_path / "before"), sides(tmp_path / "after")
    assert 10 < len(before["validation"]) < 40
    assert before["train"] == {key for key in after["train"] if key.startswith("cat/")}
    assert before["validation"] == {key for key in after["validation"] if key.startswith("cat/")}


@pytest.mark.slow
@pytest.mark.parametrize("compression", ["none", "gzip"])
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
    assert {name for name in ours if ours[name] != theirs[name]} == {
        "README.md",
        "manifest.json",
        "report.html",
    }
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


def test_two_roots_with_the_same_relative_path_are_duplicates(tmp_path: Path) -> None:
    """Neither of two images of one key is taken; both are dead letters that name the other."""
    write_pictures(str(tmp_path / "one"), ["cat/1.jpg", "cat/2.jpg"])
    write_pictures(str(tmp_path / "two"), ["cat/1.jpg", "cat/3.jpg"])
    argv = ("--images", f"{tmp_path}/one", f"{tmp_path}/two", "--max_bad_fraction", "0.5")
    assert convert(*argv, "--output", f"{tmp_path}/out") == 0
    assert set(read_all(tmp_path / "out")) == {"cat/2.jpg", "cat/3.jpg"}
    dead_letters = dead_letters_of(tmp_path / "out")
    assert [
        (dead_letter["key"], dead_letter["reason"], dead_letter["uri"])
        for dead_letter in dead_letters
    ] == [
        ("cat/1.jpg", "duplicate_key", f"{tmp_path}/one/cat/1.jpg"),
        ("cat/1.jpg", "duplicate_key", f"{tmp_path}/two/cat/1.jpg"),
    ]
    assert f"{tmp_path}/two/cat/1.jpg" in dead_letters[0]["message"]


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
