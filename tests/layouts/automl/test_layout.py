"""AutoML Vision's CSV files: classes, several classes and boxes, of images in a bucket or copies."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from beam_pipeline.cli import main
from beam_pipeline.layouts.automl import Automl
from beam_pipeline.layouts.layout import SourceOptions
from tests.harness import (
    ALL_BAD,
    NONE_BAD,
    assert_the_same_bytes_everywhere,
    convert,
    dead_letters_of,
    digests,
    float32,
    manifest_of,
    problems_of,
    read_all,
    split_of_each,
)
from tests.layouts import bucket
from tests.layouts.make_automl import BUCKET, FLOWERS, SETS, boxes_of, make
from tests.pictures import write_files, write_pictures

SPLIT_OF = {"TRAIN": "train", "VALIDATION": "validation", "TEST": "test", "UNASSIGNED": "train"}


@pytest.fixture
def automl(working_folder: Path) -> Path:
    """A folder with CSV files and a copy of their bucket in it, which is the working directory."""
    make(str(working_folder))
    return working_folder


def labels_of(features: Mapping[str, Any]) -> dict[str, Any]:
    """The features that come from the labels."""
    prefixes = ("image/class/", "image/object/", "label/")
    return {key: value for key, value in features.items() if key.startswith(prefixes)}


def expected_street(number: int) -> dict[str, Any]:
    """What the example of a street must hold, from what was drawn."""
    ids = {"car": 1, "street sign": 2}
    objects = boxes_of(number)
    sides = zip(*(box for _, box in objects), strict=True) if objects else [[]] * 4
    return {
        **{
            f"image/object/bbox/{side}": float32(list(values))
            for side, values in zip(("xmin", "ymin", "xmax", "ymax"), sides, strict=True)
        },
        "image/object/class/label": [ids[label] for label, _ in objects],
        "image/object/class/text": [label.encode() for label, _ in objects],
    }


def test_a_row_an_image_is_its_class(automl: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Sets become splits, unassigned ones train; a copy of the bucket answers to its URIs."""
    argv = ["--images", "my-project-vcm/flowers", "--labels", "flowers.csv", "--output", "out"]
    assert convert(*argv, "--writers=0", NONE_BAD) == 0
    assert (
        f"Layout automl: no header in {automl}/flowers.csv, its first line is a set and an image, as "
        f"AutoML has it\n  label: classes, from label files\nNote: rows name images in {BUCKET}/flowers/; taken are their copies of the "
        "same path in --images\n"
    ) in capsys.readouterr().out
    found = {key: labels_of(features) for key, features in read_all("out").items()}
    assert found == {
        f"{FLOWERS[i % 3]}/img{i // 3:03d}.jpg": {
            "image/class/label": [i % 3],
            "image/class/text": [FLOWERS[i % 3].encode()],
        }
        for i in range(18)
    }
    assert split_of_each("out") == {
        f"{FLOWERS[i % 3]}/img{i // 3:03d}.jpg": SPLIT_OF[SETS[i % 6]] for i in range(18)
    }
    assert manifest_of("out")["options"]["layout"] == "automl"
    assert main(["verify", "out"]) == 0


@pytest.mark.slow
def test_a_row_an_object_is_its_box(automl: Path) -> None:
    """Rows of one image add up, in their order; a row without a box is an image without objects;
    ids begin at 1."""
    argv = ["--images", "my-project-vcm/streets", "--labels", "streets.csv", "--output", "out"]
    assert convert(*argv, "--writers=0", NONE_BAD) == 0
    found = {key: labels_of(features) for key, features in read_all("out").items()}
    assert found == {f"{i:04d}.png": expected_street(i) for i in range(18)}
    assert split_of_each("out") == {f"{i:04d}.png": SPLIT_OF[SETS[i % 6]] for i in range(18)}
    assert Path("out/labels.txt").read_text() == "car\nstreet sign\n"
    assert Path("out/label_map.pbtxt").read_text() == (
        'item {\n  id: 1\n  name: "car"\n}\n\nitem {\n  id: 2\n  name: "street sign"\n}\n'
    )
    manifest = manifest_of("out")
    assert [(c["id"], c["name"], c["objects"]) for c in manifest["classes"]] == [
        (1, "car", 12),
        (2, "street sign", 9),
    ]
    assert manifest["counts"]["label_rows"] == 24
    assert manifest["counts"]["label_rows_repeated"] == 0
    assert main(["verify", "out"]) == 0


@pytest.mark.slow
def test_a_row_with_several_labels_is_several_classes(automl: Path) -> None:
    """As many as the row has, or none."""
    argv = ["--images", "my-project-vcm/flowers", "--labels", "several.csv", "--output", "out"]
    assert convert(*argv, "--writers=0", NONE_BAD) == 0
    expected = {}
    for number in range(18):
        first = number % 3
        names = [*FLOWERS, *FLOWERS][first : first + number % 4]
        expected[f"{FLOWERS[first]}/img{number // 3:03d}.jpg"] = {
            "image/class/label": [FLOWERS.index(name) for name in names],
            "image/class/text": [name.encode() for name in names],
        }
    assert {key: labels_of(features) for key, features in read_all("out").items()} == expected
    assert manifest_of("out")["features"]["image/class/label"] == {
        "kind": "int64",
        "optional": False,
        "shape": [None],
    }
    assert main(["verify", "out"]) == 0


@pytest.mark.slow
def test_the_same_bytes_with_other_workers(automl: Path) -> None:
    """Whoever reads the rows and writes the shards."""
    argv = ["--images", "my-project-vcm/streets", "--labels", "streets.csv", "--name", "d"]
    argv += ["--num_shards", "2", NONE_BAD]
    assert_the_same_bytes_everywhere(*argv)


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["table", "automl"])
def test_the_layout_may_be_named(
    automl: Path, layout: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A person to whom it is a table gets the same, and is told."""
    argv = ["--images", "my-project-vcm/streets", "--labels", "streets.csv", "--name", "d"]
    assert convert(*argv, "--writers=0", "--output", "auto") == 0
    capsys.readouterr()
    assert convert(*argv, "--writers=0", "--output", layout, "--layout", layout) == 0
    assert digests(layout) == digests("auto")
    note = f"Note: {automl}/streets.csv has no header: its first line is a set and an image"
    assert (note in capsys.readouterr().out) == (layout == "table")


@pytest.mark.slow
def test_images_in_a_bucket_are_met_by_their_uris(automl: Path) -> None:
    """Labels in the bucket, too: their first line is seen when they are opened."""
    remote = f"{bucket.Bucket.scheme()}://{automl}/my-project-vcm"
    rows = Path("streets.csv").read_text().replace(BUCKET, remote)
    write_files(str(automl), {"my-project-vcm/labels.csv": rows})
    argv = ["--images", f"{remote}/streets", "--labels", f"{remote}/labels.csv", "--name", "d"]
    assert convert(*argv, "--writers=0", "--output", "remote", NONE_BAD) == 0
    argv = ["--images", "my-project-vcm/streets", "--labels", "streets.csv", "--name", "d"]
    assert convert(*argv, "--writers=0", "--output", "local", NONE_BAD) == 0
    assert digests("remote") == digests("local")


@pytest.mark.slow
def test_a_uri_of_another_folder_of_a_bucket_is_no_image_of_this_one(automl: Path) -> None:
    """Though the file names are the same."""
    remote = f"{bucket.Bucket.scheme()}://{automl}"
    write_pictures(str(automl), ["mine/1.jpg"])
    write_files(
        str(automl), {"l.csv": f"TRAIN,{remote}/other/1.jpg,cat\nTRAIN,{remote}/mine/1.jpg,dog"}
    )
    argv = ["--images", f"{remote}/mine", "--labels", "l.csv", "--output", "out", ALL_BAD]
    assert convert(*argv, "--writers=0") == 0
    assert read_all("out")["1.jpg"]["image/class/text"] == [b"dog"]
    (dead_letter,) = dead_letters_of("out")
    assert (dead_letter["key"], dead_letter["reason"]) == (f"{remote}/other/1.jpg", "missing_image")


@pytest.mark.parametrize(
    ("images", "note"),
    [
        (".", f"rows name images in {BUCKET}/; taken"),
        ("my-project-vcm", f"rows name images in {BUCKET}/; taken"),
        ("my-project-vcm/streets", f"rows name images in {BUCKET}/streets/; taken"),
        ("elsewhere", "matched by their bare file names"),
    ],
)
def test_a_copy_may_be_of_any_part_of_the_bucket(
    automl: Path, images: str, note: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """And even lie otherwise, as long as file names tell images apart."""
    if images == ".":
        os.rename("my-project-vcm/streets", "streets")
        shutil.rmtree("my-project-vcm")
    if images == "elsewhere":
        shutil.copytree("my-project-vcm/streets", "elsewhere/2021/part-1")
    argv = ["--images", images, "--labels", "streets.csv", "--output", "out", "--writers=0"]
    assert convert(*argv, NONE_BAD) == 0
    assert note in capsys.readouterr().out
    found = {key.rpartition("/")[2]: labels_of(f) for key, f in read_all("out").items()}
    assert found == {f"{i:04d}.png": expected_street(i) for i in range(18)}


@pytest.mark.slow
def test_splits_by_fraction_count_before_sets(automl: Path) -> None:
    """`--splits` is the person's own word."""
    argv = ["--images", "my-project-vcm/streets", "--labels", "streets.csv", "--output", "out"]
    assert convert(*argv, "--writers=0", "--splits", "a=0.5,b=0.5") == 0
    assert {name: s["examples"] for name, s in manifest_of("out")["splits"].items()} in [
        {"a": a, "b": 18 - a} for a in range(3, 16)
    ]


@pytest.mark.slow
def test_label_base_counts_for_boxes(automl: Path) -> None:
    """Ids from 0 need no background, and make no label map."""
    argv = ["--images", "my-project-vcm/streets", "--labels", "streets.csv", "--output", "out"]
    assert convert(*argv, "--writers=0", "--label_base=0") == 0
    assert [c["id"] for c in manifest_of("out")["classes"]] == [0, 1]
    assert "label_map.pbtxt" not in os.listdir("out")


def test_classes_that_only_some_splits_have_are_said(
    automl: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A summary says which split lacks which class."""
    argv = ["--images", "my-project-vcm/streets", "--labels", "streets.csv", "--output", "out"]
    assert convert(*argv, "--writers=0") == 0
    said = capsys.readouterr().out
    assert "note: test has no street sign\n  note: validation has no car\n" in said


def test_bad_boxes_and_rows_are_dead_letters_with_their_places(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each image or row with its reason, its file and line, and what was expected."""
    monkeypatch.chdir(tmp_path)
    write_pictures("b", [f"{i}.jpg" for i in range(12)])
    rows = [
        "TRAIN,gs://b/0.jpg,car,0.1,0.1,,,0.5,0.5,,",
        "TRAIN,gs://b/1.jpg,car,0.5,0.1,,,0.1,0.5,,",  # inverted
        "TRAIN,gs://b/2.jpg,car,0.1,0.1,,,0.5,0.5,,",
        "TRAIN,gs://b/2.jpg,car,0.1,0.1,,,0.5,1.5,,",  # reaches out
        "TRAIN,gs://b/3.jpg,car,0.1,0.1,0.1,0.1,0.1,0.1,0.1,0.1",  # no area
        "TRAIN,gs://b/4.jpg,car,0.1,o.1,,,0.5,0.5,,",
        "TRAIN,gs://b/5.jpg,car",
        "HOLDOUT,gs://b/6.jpg,car,0.1,0.1,,,0.5,0.5,,",
        "TRAIN,gs://b/7.jpg,car,0.1,0.1,,,0.5,0.5,,",
        "TEST,gs://b/7.jpg,car,0.2,0.1,,,0.5,0.5,,",  # in two sets
        "TRAIN,gs://b/nowhere.jpg,car,0.1,0.1,,,0.5,0.5,,",
        "TRAIN,,car,0.1,0.1,,,0.5,0.5,,",
        "TRAIN,gs://b/8.jpg,car,2,2,,,3,3,,",  # outside
        'TRAIN,"gs://b/9.jpg"x,car,0.1,0.1,,,0.5,0.5,,',
        "TRAIN,gs://b/10.jpg,car,0.1,0.1,,,0.5,0.5,,",
        "TRAIN,gs://b/10.jpg,car,0.1,0.1,,,0.5,0.5,,",  # said twice
        "TRAIN,gs://b/10.jpg,,,,,,,,,",
    ]
    write_files(".", {"l.csv": "\n".join(rows)})
    argv = ["--images", "b", "--labels", "l.csv", "--output", "out", ALL_BAD, "--writers=0"]
    assert convert(*argv) == 0
    found = {key: labels_of(features) for key, features in read_all("out").items()}
    box = {"xmin": 0.1, "ymin": 0.1, "xmax": 0.5, "ymax": 0.5}
    sound = {
        **{f"image/object/bbox/{side}": float32([value]) for side, value in box.items()},
        "image/object/class/label": [1],
        "image/object/class/text": [b"car"],
    }
    assert found == {"0.jpg": sound, "10.jpg": sound}
    in_fractions = "in fractions of the image)"
    assert problems_of("out") == [
        ("11.jpg", "unlabelled", 0, "no label row names this image"),
        ("9.jpg", "unlabelled", 0, "no label row names this image"),
        (
            "1.jpg",
            "bad_box",
            2,
            f"box 1 (xmin 0.5, ymin 0.1, xmax 0.1, ymax 0.5 {in_fractions} is inverted or has no "
            "area (xmin < xmax and ymin < ymax are expected)",
        ),
        (
            "2.jpg",
            "bad_box",
            4,
            f"box 2 (xmin 0.1, ymin 0.1, xmax 0.5, ymax 1.5 {in_fractions} reaches out of the image "
            "(--clip_boxes cuts such boxes at its edge)",
        ),
        (
            "3.jpg",
            "bad_box",
            5,
            f"box 1 (xmin 0.1, ymin 0.1, xmax 0.1, ymax 0.1 {in_fractions} is inverted or has no "
            "area (xmin < xmax and ymin < ymax are expected)",
        ),
        ("4.jpg", "bad_label_value", 6, "'o.1' is not a coordinate, a fraction of the image"),
        (
            "5.jpg",
            "bad_label_value",
            7,
            "the label 'car' has no box, where other rows of the file have one",
        ),
        (
            "6.jpg",
            "bad_label_value",
            8,
            "'HOLDOUT' names no set; expected TRAIN, VALIDATION, TEST or UNASSIGNED",
        ),
        (
            "7.jpg",
            "conflicting_labels",
            10,
            f"{tmp_path}/l.csv, line 9 says [(0.1, 0.1, 0.5, 0.5)], ['car'] in train, "
            f"{tmp_path}/l.csv, line 10 says [(0.2, 0.1, 0.5, 0.5)], ['car'] in test; remove the "
            "wrong one",
        ),
        (
            "nowhere.jpg",
            "missing_image",
            11,
            "no listed image has this name, with or without folder or extension",
        ),
        ("", "bad_row", 12, "names no image: 'TRAIN,,car,0.1,0.1,,,0.5,0.5'"),
        (
            "8.jpg",
            "bad_box",
            13,
            f"box 1 (xmin 2, ymin 2, xmax 3, ymax 3 {in_fractions} lies outside the image",
        ),
        (
            "",
            "bad_row",
            14,
            "line 14: not CSV: ',' expected after '\"'; look for a quote that is not closed",
        ),
    ]
    assert all(
        dead_letter["file"] == f"{tmp_path}/l.csv"
        for dead_letter in dead_letters_of("out")
        if "line" in dead_letter
    )
    counts = manifest_of("out")["counts"]
    assert (counts["label_rows"], counts["label_rows_repeated"]) == (17, 1)


@pytest.mark.slow
def test_boxes_may_be_clipped(tmp_path: Path) -> None:
    """With the option, one that reaches out is cut at the image's edge."""
    write_pictures(f"{tmp_path}/b", ["1.jpg"])
    write_files(str(tmp_path), {"l.csv": "TRAIN,gs://b/1.jpg,car,-0.5,0.25,,,0.5,1.5,,\n"})
    argv = ["--images", f"{tmp_path}/b", "--labels", f"{tmp_path}/l.csv", "--writers=0"]
    assert convert(*argv, "--clip_boxes", "--output", f"{tmp_path}/out") == 0
    example = read_all(tmp_path / "out")["1.jpg"]
    sides = ("xmin", "ymin", "xmax", "ymax")
    assert [example[f"image/object/bbox/{s}"] for s in sides] == [[0.0], [0.25], [0.5], [1.0]]


def test_two_rows_that_disagree_about_a_class_are_a_conflict(tmp_path: Path) -> None:
    """Rows of classes do not add up; the same said twice is said once."""
    write_pictures(f"{tmp_path}/b", ["1.jpg", "2.jpg"])
    rows = "TRAIN,gs://b/1.jpg,cat\nTRAIN,gs://b/1.jpg,dog\nTEST,gs://b/2.jpg,cat\nTEST,gs://b/2.jpg,cat\n"
    write_files(str(tmp_path), {"l.csv": rows})
    argv = ["--images", f"{tmp_path}/b", "--labels", f"{tmp_path}/l.csv", "--writers=0", ALL_BAD]
    assert convert(*argv, "--output", f"{tmp_path}/out") == 0
    assert set(read_all(tmp_path / "out")) == {"2.jpg"}
    (dead_letter,) = dead_letters_of(tmp_path / "out")
    assert (dead_letter["key"], dead_letter["reason"], dead_letter["line"]) == (
        "1.jpg",
        "conflicting_labels",
        2,
    )


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (
            ["--labels", "flowers.csv", "--key_column", "x"],
            "--key_column means nothing for the layout automl (no header in ",
        ),
        (
            ["--labels", "flowers.csv", "--layout", "table", "--list_column", "x=;"],
            "--list_column means nothing: {here}/flowers.csv has no header: its first line is",
        ),
        (["--layout", "automl"], "--layout automl needs --labels"),
        (
            ["--labels", "flowers.csv", "header.csv"],
            "{here}/header.csv, line 1: names no image: 'filename,label'; expected rows such as "
            "TRAIN,gs://bucket/a.jpg,label, and no header",
        ),
        (
            ["--labels", "header.csv", "--layout", "automl"],
            "{here}/header.csv, line 1: names no image: 'filename,label'; expected rows such as ",
        ),
        (
            ["--labels", "names.csv"],
            "{here}/names.csv: the first line holds an image's name ('a.jpg') where column names are",
        ),
    ],
)
def test_what_cannot_be_used_is_an_error(
    automl: Path, argv: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before anything is written, with what was found and expected."""
    write_files(
        str(automl), {"header.csv": "filename,label\na.jpg,cat\n", "names.csv": "a.jpg,cat,3\n"}
    )
    assert main(["convert", "--images", "my-project-vcm", "--output", "out", *argv]) == 2
    assert message.format(here=automl) in capsys.readouterr().err
    assert not os.path.exists("out")


@pytest.mark.slow
def test_names_of_local_files_may_be_said_to_be_automl(tmp_path: Path) -> None:
    """Without a URI or a set there must be no guess, but a person may say it."""
    write_pictures(f"{tmp_path}/p", ["a.jpg", "sub/b.jpg"])
    write_files(str(tmp_path), {"l.csv": "a.jpg,cat\nTEST,sub/b.jpg,dog\n"})
    argv = ["--images", f"{tmp_path}/p", "--labels", f"{tmp_path}/l.csv", "--layout", "automl"]
    assert convert(*argv, "--writers=0", "--output", f"{tmp_path}/out", NONE_BAD) == 0
    assert split_of_each(f"{tmp_path}/out") == {"a.jpg": "train", "sub/b.jpg": "test"}


def test_recognising_never_fails(automl: Path) -> None:
    """Missing paths, folders and buckets are for others to say."""
    for path in (
        "",
        "nowhere.csv",
        "my-project-vcm",
        "gs://b/l.csv",
        "*",
        "my-project-vcm/streets/0000.png",
    ):
        assert Automl().recognise(SourceOptions(("my-project-vcm",), (path,))) == ""
    assert Automl().recognise(SourceOptions(("my-project-vcm",))) == ""
    assert Automl().recognise(SourceOptions(("x",), ("flowers.csv", "gs://b/l.csv"))) == ""
