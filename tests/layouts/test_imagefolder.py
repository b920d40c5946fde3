"""Hugging Face's image folders: metadata.csv or metadata.jsonl among the images or in split folders."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from beam_pipeline.cli import main
from beam_pipeline.layouts.layout import SourceOptions
from beam_pipeline.layouts.table import ImageFolder
from tests.harness import (
    ALL_BAD,
    NONE_BAD,
    convert,
    digests,
    manifest_of,
    read_all,
    reasons_of,
)
from tests.layouts import bucket
from tests.layouts.make_imagefolder import make
from tests.pictures import write_files, write_pictures


@pytest.fixture
def folders(working_folder: Path) -> Path:
    """A folder with pets/, cppe/ and captions/ in it, which is the working directory."""
    make(str(working_folder))
    return working_folder


def json_lines(*rows: object) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def labels_of(features: Mapping[str, Any]) -> dict[str, Any]:
    """The features that come from the labels."""
    prefixes = ("image/class/", "image/object/", "image/label", "label/")
    return {key: value for key, value in features.items() if key.startswith(prefixes)}


def test_metadata_among_the_images(folders: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its label is the class, its other columns are features."""
    assert convert("--images", "pets", "--output", "out", "--writers=0", NONE_BAD) == 0
    assert (
        "Layout imagefolder: metadata.csv in pets names images in its column file_name\n"
        in capsys.readouterr().out
    )
    assert {key: labels_of(features) for key, features in read_all("out").items()} == {
        f"{i:04d}.jpg": {
            "image/class/label": [i % 2],
            "image/class/text": [(b"cat", b"dog")[i % 2]],
            "label/age": [i],
        }
        for i in range(24)
    }
    counts = manifest_of("out")["counts"]
    assert (counts["listed_images"], counts["ignored_files"]) == (24, {})
    assert main(["verify", "out"]) == 0


@pytest.mark.slow
def test_a_folder_in_a_bucket(folders: Path) -> None:
    """It is recognised as a folder on this machine is, and the examples are the same."""
    remote = f"{bucket.Bucket.scheme()}://{folders}/cppe"
    assert (
        ImageFolder()
        .recognise(SourceOptions((remote,)))
        .startswith("train/metadata.jsonl in bucket:")
    )
    argv = ["--writers=0", "--name", "d", NONE_BAD]
    assert convert("--images", remote, *argv, "--output", "remote") == 0
    assert convert("--images", "cppe", *argv, "--output", "local") == 0
    assert digests("remote") == digests("local")


# --- classes of objects -------------------------------------------------------------------------


def write_objects(*categories: Sequence[Any]) -> None:
    """pics/ with an image a list of categories, each object in a box of its own."""
    write_pictures("pics", [f"{i}.png" for i in range(len(categories))])
    write_files(
        "pics",
        {
            "metadata.jsonl": json_lines(
                *(
                    {
                        "file_name": f"{i}.png",
                        "objects": {"bbox": [[1, 1, 3, 3]] * len(found), "categories": found},
                    }
                    for i, found in enumerate(categories)
                )
            )
        },
    )


@pytest.mark.parametrize(
    ("categories", "options", "classes"),
    [
        (([10, 2], [2], []), [], [("2", 2), ("10", 10)]),
        (([10, 2], [2], []), ["--label_base=0"], [("2", 0), ("10", 1)]),
        (([10, 2], [2], []), ["--label_base=1"], [("2", 1), ("10", 2)]),
        ((["10", "2"], ["cat"]), [], [("10", 1), ("2", 2), ("cat", 3)]),
        ((["10", "2"], ["cat"]), ["--label_order=numeric"], [("2", 1), ("10", 2), ("cat", 3)]),
        ((["dog"], ["cat"]), ["--label_base=0"], [("cat", 0), ("dog", 1)]),
    ],
)
def test_ids_of_the_classes_of_objects(
    folders: Path,
    categories: Sequence[Sequence[Any]],
    options: list[str],
    classes: list[tuple[str, int]],
) -> None:
    """Integers are ids, unless the person says where ids begin; names are counted from 1."""
    write_objects(*categories)
    assert convert("--images", "pics", "--output", "out", "--writers=0", *options) == 0
    assert [(c["name"], c["id"]) for c in manifest_of("out")["classes"]] == classes
    ids = dict(classes)
    for key, features in read_all("out").items():
        names = [str(name) for name in categories[int(key[0])]]
        assert features["image/object/class/text"] == [name.encode() for name in names]
        assert features["image/object/class/label"] == [ids[name] for name in names]
    from_one = classes[0][1] > 0
    assert ("label_map.pbtxt" in os.listdir("out")) == from_one


# --- where the metadata lies --------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("folder", ["VAL", "testing"])
def test_split_folders_have_their_usual_names(folders: Path, folder: str) -> None:
    """In any case, as where the classes are folders."""
    write_pictures(f"new/{folder}", ["sub/1.png", "2.png"])
    table = "file_name,label\nsub/1.png,cat\n./2.png,dog\n"
    write_files(f"new/{folder}", {"metadata.csv": table})
    assert convert("--images", "new", "--output", "out", "--writers=0", NONE_BAD) == 0
    assert {key: f["image/class/text"] for key, f in read_all("out").items()} == {
        f"{folder}/sub/1.png": [b"cat"],
        f"{folder}/2.png": [b"dog"],
    }
    split = {"VAL": "validation", "testing": "test"}[folder]
    assert list(manifest_of("out")["splits"]) == [split]


@pytest.mark.slow
def test_one_metadata_file_names_images_in_folders(folders: Path) -> None:
    """Their first folder says the split, if it is called so."""
    write_pictures("new", ["train/1.png", "test/1.png", "more/2.png"])
    rows = [("train/1.png", "cat"), ("test/1.png", "dog"), ("more/2.png", "cat")]
    lines = [{"image_file_name": name, "label": label} for name, label in rows]
    write_files("new", {"metadata.jsonl": json_lines(*lines)})
    assert convert("--images", "new", "--output", "out", "--writers=0", NONE_BAD) == 0
    assert {key: f["image/class/text"][0].decode() for key, f in read_all("out").items()} == dict(
        rows
    )
    splits = manifest_of("out")["splits"]
    assert {name: s["examples"] for name, s in splits.items()} == {"test": 1, "train": 2}


def test_a_row_of_one_split_names_no_image_of_another(folders: Path) -> None:
    """Though that is the only one of its name."""
    write_pictures("new", ["train/1.png", "test/2.png"])
    write_files(
        "new",
        {
            "train/metadata.csv": "file_name,label\n1.png,cat\n2.png,cat\n",
            "test/metadata.csv": "file_name,label\n../train/1.png,cat\n",
        },
    )
    assert convert("--images", "new", "--output", "out", "--writers=0", ALL_BAD) == 0
    assert set(read_all("out")) == {"train/1.png"}
    assert reasons_of("out") == {"train/2.png": "missing_image", "test/2.png": "unlabelled"}


def test_a_path_from_anywhere_stays_as_it_is(folders: Path) -> None:
    """An absolute one is not looked for below the split's folder."""
    write_pictures("new", ["train/1.png"])
    write_files("new", {"train/metadata.csv": f"file_name,label\n{folders}/new/train/1.png,cat\n"})
    assert convert("--images", "new", "--output", "out", "--writers=0", NONE_BAD) == 0
    assert set(read_all("out")) == {"train/1.png"}


@pytest.mark.slow
def test_several_folders_have_their_own_metadata(folders: Path) -> None:
    """One may even have none: its images are unlabelled."""
    write_pictures("a", ["1.png"])
    write_files("a", {"metadata.csv": "file_name,label\n1.png,cat\n"})
    write_pictures("b", ["2.png"])
    write_files("b", {"metadata.jsonl": json_lines({"file_name": "2.png", "label": "dog"})})
    write_pictures("c", ["3.png"])
    argv = ["--images", "c", "a", "b", "--output", "out", "--writers=0", NONE_BAD]
    assert convert(*argv) == 0
    assert {key: f["image/class/text"] for key, f in read_all("out").items()} == {
        "1.png": [b"cat"],
        "2.png": [b"dog"],
    }
    assert reasons_of("out") == {"3.png": "unlabelled"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "table", ["camera,price\nx,5\n", "id,comment\n1,x\n", "width;height\n5;6\n"]
)
def test_a_table_of_something_else_is_no_metadata(folders: Path, table: str) -> None:
    """Without a column that is called as paths are, class folders stay class folders."""
    write_pictures("new", ["cat/1.png"])
    write_files("new", {"metadata.csv": table})
    assert convert("--images", "new", "--output", "out", "--writers=0", NONE_BAD) == 0
    assert manifest_of("out")["options"]["layout"] == "class_folders"


def test_a_key_column_that_is_named_makes_it_metadata(folders: Path) -> None:
    """Whatever it is called."""
    write_pictures("new", ["cat/1.png"])
    write_files("new", {"metadata.csv": "photo,label\ncat/1.png,dog\n"})
    argv = ["--images", "new", "--output", "out", "--writers=0", NONE_BAD]
    assert convert(*argv, "--key_column", "photo") == 0
    assert read_all("out")["cat/1.png"]["image/class/text"] == [b"dog"]


@pytest.mark.slow
def test_lists_that_fit_no_feature_are_said(
    folders: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Polygons are left out with a note, and without one if the person left them out."""
    objects = {"bbox": [[1, 1, 3, 3]], "categories": ["a"], "segmentation": [[1, 1, 2, 2]]}
    write_pictures("new", ["1.png"])
    write_files("new", {"metadata.jsonl": json_lines({"file_name": "1.png", "objects": objects})})
    argv = ["--images", "new", "--writers=0", NONE_BAD]
    assert convert(*argv, "--output", "out") == 0
    note = "Note: left out, since it is not one value an object: objects.segmentation\n"
    assert note in capsys.readouterr().out
    assert convert(*argv, "--output", "quiet", "--columns", "objects.segmentation:skip") == 0
    assert "Note:" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("contents", "argv", "message"),
    [
        (
            {"metadata.parquet": b"PAR1"},
            [],
            "{here}/new/metadata.parquet is not a Parquet file, or is damaged or cut short (Parquet file "
            "size is 4 bytes, smaller than the minimum file footer (8 bytes)); write it again",
        ),
        (
            {"metadata.csv": "file_name,label\n", "metadata.jsonl": "{}\n"},
            [],
            "{here}/new/metadata.csv and metadata.jsonl are in one folder; remove the one that does "
            "not count",
        ),
        (
            {"metadata.csv": "file_name,label,label\n1.png,a,b\n"},
            [],
            "{here}/new/metadata.csv: the header names 'label' more than once; give each column a "
            "different name",
        ),
        (
            {"train/metadata.jsonl": "[1]\n"},
            [],
            "{here}/new/train/metadata.jsonl: no line contains a JSON object such as "
            '{{"file_name": "a.jpg", "label": "cat"}}',
        ),
        (
            {"metadata.csv": "a_file_name,b_file_name\n1.png,1.png\n"},
            [],
            "{here}/new/metadata.csv: which of the columns a_file_name, b_file_name names the image? "
            "Say --key_column NAME",
        ),
        (
            {},
            ["--layout", "imagefolder"],
            "--layout imagefolder: no metadata.csv, metadata.jsonl or metadata.parquet in new or in "
            "folders train, validation or test there",
        ),
        (
            {"metadata.csv": "file_name,label\n1.png,a\n"},
            ["--layout", "imagefolder", "--labels", "new/metadata.csv"],
            "--layout imagefolder takes labels from where the images are; leave out --labels",
        ),
    ],
)
def test_what_cannot_be_used_is_an_error(
    folders: Path,
    contents: dict[str, bytes | str],
    argv: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Before anything is written, with what was found, where, and what to do."""
    write_pictures("new", ["1.png"])
    write_files("new", contents)
    assert main(["convert", "--images", "new", "--output", "out", *argv]) == 2
    expected = message.format(here=folders)
    assert capsys.readouterr().err == f"beam-tfrecord: error: {expected}\n"
    assert not os.path.exists("out")


def test_recognising_never_fails(folders: Path) -> None:
    """Missing paths, files and buckets are for others to say."""
    for path in ("", "nowhere", "gs://bucket/photos", "*", "pets/0000.jpg", "pets/metadata.csv"):
        ImageFolder().recognise(SourceOptions((path,)))
    for path in ("", "nowhere", "gs://bucket/photos"):
        assert ImageFolder().recognise(SourceOptions((path,))) == ""
