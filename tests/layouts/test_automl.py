"""AutoML Vision's CSV files: classes, several classes and boxes, of images in a bucket or copies."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from beam_pipeline.core.errors import LabelTableError
from beam_pipeline.core.labels.table_rows import TableHead
from beam_pipeline.layouts.automl import Automl, is_automl
from beam_pipeline.layouts.layout import SourceOptions
from tests import harness, pictures
from tests.layouts import bucket, make_boxes


@pytest.fixture
def automl(working_folder: Path) -> Path:
    """A folder with CSV files and a copy of their bucket in it, which is the working directory."""
    make_boxes.make_automl(str(working_folder))
    return working_folder


def labels_of(features: Mapping[str, Any]) -> dict[str, Any]:
    """The features that come from the labels."""
    prefixes = ("image/class/", "image/object/", "label/")
    return {key: value for key, value in features.items() if key.startswith(prefixes)}


def expected_street(number: int) -> dict[str, Any]:
    """What the example of a street must hold, from what was drawn."""
    ids = {"car": 1, "street sign": 2}
    objects = make_boxes.boxes_of(number)
    sides = zip(*(box for _, box in objects), strict=True) if objects else [[]] * 4
    return {
        **{
            f"image/object/bbox/{side}": harness.float32(list(values))
            for side, values in zip(("xmin", "ymin", "xmax", "ymax"), sides, strict=True)
        },
        "image/object/class/label": [ids[label] for label, _ in objects],
        "image/object/class/text": [label.encode() for label, _ in objects],
    }


@pytest.mark.slow
def test_images_in_a_bucket_are_met_by_their_uris(automl: Path) -> None:
    """Labels in the bucket, too: their first line is seen when they are opened."""
    remote = f"{bucket.Bucket.scheme()}://{automl}/my-project-vcm"
    rows = Path("streets.csv").read_text().replace(make_boxes.BUCKET, remote)
    pictures.write_files(str(automl), {"my-project-vcm/labels.csv": rows})
    argv = ["--images", f"{remote}/streets", "--labels", f"{remote}/labels.csv", "--name", "d"]
    assert harness.convert(*argv, "--writers=0", "--output", "remote", harness.NONE_BAD) == 0
    argv = ["--images", "my-project-vcm/streets", "--labels", "streets.csv", "--name", "d"]
    assert harness.convert(*argv, "--writers=0", "--output", "local", harness.NONE_BAD) == 0
    assert harness.digests("remote") == harness.digests("local")


@pytest.mark.slow
def test_a_uri_of_another_folder_of_a_bucket_is_no_image_of_this_one(automl: Path) -> None:
    """Though the file names are the same."""
    remote = f"{bucket.Bucket.scheme()}://{automl}"
    pictures.write_pictures(str(automl), ["mine/1.jpg"])
    pictures.write_files(
        str(automl), {"l.csv": f"TRAIN,{remote}/other/1.jpg,cat\nTRAIN,{remote}/mine/1.jpg,dog"}
    )
    argv = ["--images", f"{remote}/mine", "--labels", "l.csv", "--output", "out", harness.ALL_BAD]
    assert harness.convert(*argv, "--writers=0") == 0
    assert harness.read_all("out")["1.jpg"]["image/class/text"] == [b"dog"]
    (dead_letter,) = harness.dead_letters_of("out")
    assert (dead_letter["key"], dead_letter["reason"]) == (f"{remote}/other/1.jpg", "missing_image")


@pytest.mark.parametrize(
    ("images", "note"),
    [
        (".", f"rows name images in {make_boxes.BUCKET}/; taken"),
        ("my-project-vcm", f"rows name images in {make_boxes.BUCKET}/; taken"),
        ("my-project-vcm/streets", f"rows name images in {make_boxes.BUCKET}/streets/; taken"),
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
    assert harness.convert(*argv, harness.NONE_BAD) == 0
    assert note in capsys.readouterr().out
    found = {key.rpartition("/")[2]: labels_of(f) for key, f in harness.read_all("out").items()}
    assert found == {f"{i:04d}.png": expected_street(i) for i in range(18)}


def test_bad_boxes_and_rows_are_dead_letters_with_their_places(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each image or row with its reason, its file and line, and what was expected."""
    monkeypatch.chdir(tmp_path)
    pictures.write_pictures("b", [f"{i}.jpg" for i in range(12)])
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
    pictures.write_files(".", {"l.csv": "\n".join(rows)})
    argv = ["--images", "b", "--labels", "l.csv", "--output", "out", harness.ALL_BAD, "--writers=0"]
    assert harness.convert(*argv) == 0
    found = {key: labels_of(features) for key, features in harness.read_all("out").items()}
    box = {"xmin": 0.1, "ymin": 0.1, "xmax": 0.5, "ymax": 0.5}
    sound = {
        **{f"image/object/bbox/{side}": harness.float32([value]) for side, value in box.items()},
        "image/object/class/label": [1],
        "image/object/class/text": [b"car"],
    }
    empty = {key: [] for key in sound}
    assert found == {"0.jpg": sound, "10.jpg": sound, "3.jpg": empty}
    assert [problem[:3] for problem in harness.problems_of("out")] == [
        ("11.jpg", "unlabelled", 0),
        ("9.jpg", "unlabelled", 0),
        ("1.jpg", "bad_box", 2),
        ("2.jpg", "bad_box", 4),
        ("3.jpg", "empty_box", 5),
        ("4.jpg", "bad_label_value", 6),
        ("5.jpg", "bad_label_value", 7),
        ("6.jpg", "bad_label_value", 8),
        ("7.jpg", "conflicting_labels", 10),
        ("nowhere.jpg", "missing_image", 11),
        ("entry 12", "bad_row", 12),
        ("8.jpg", "bad_box", 13),
        ("entry 14", "bad_row", 14),
    ]
    assert all(
        dead_letter["file"] == f"{tmp_path}/l.csv"
        for dead_letter in harness.dead_letters_of("out")
        if "line" in dead_letter
    )
    counts = harness.manifest_of("out")["counts"]
    assert (counts["label_rows"], counts["label_rows_repeated"]) == (17, 1)


ONE_CLASS, CLASSES, BOXES = (False, False), (False, True), (True, False)
"""(whether a row is an object with its box, whether an image may have several classes)"""


def kind(*contents: str) -> tuple[bool, bool]:
    """What the beginnings of files say about their rows."""
    names = [f"{number}.csv" for number, _ in enumerate(contents)]
    pictures.write_files(".", dict(zip(names, contents, strict=True)))
    labels: Any = Automl().open(SourceOptions((".",), tuple(names))).labels
    label = labels.reader.columns.label
    return labels.merge_rows, bool(label and label.repeated)


def head(content: str | bytes, uri: str = "rows.csv") -> TableHead:
    return TableHead(uri, content.encode() if isinstance(content, str) else content, True)


# --- recognition --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "first",
    [
        "TRAIN,gs://b/a.jpg,cat",
        "training , gs://b/a,cat",
        "UNASSIGNED,a.jpg",
        "Validate,folder/a.PNG,,,,,,,,,",
        ",gs://b/a.jpg,cat",
        "gs://b/a.jpg,cat",
        "gs://b/a",
        "\ufeffTEST,gs://b/a.jpg,cat",
        "\r\n\r\nTEST,gs://b/a.jpg,cat\r\n",
        '"TEST","gs://b/a.jpg","cat"',
    ],
)
def test_a_row_of_automl_is_known_by_its_set_and_image(first: str) -> None:
    """Or by a URI in the first cell; a file in UTF-16 is one, too."""
    assert is_automl(head(first))
    assert is_automl(head(first.lstrip("\ufeff").encode("utf-16")))


@pytest.mark.parametrize(
    "first",
    [
        "",
        "\n\n",
        "filename,label",
        ",filename,label",
        "a.jpg,cat",
        "TRAIN,label",
        "set,gs://b/a.jpg,cat",
        "train",
        '{"image": "gs://b/a.jpg", "label": "cat"}',
        'TRAIN,"gs://b/a.jpg,cat',
        "image_uri,label\ngs://b/a.jpg,cat",
    ],
)
def test_a_header_or_anything_else_is_no_row_of_automl(first: str) -> None:
    """Only the first line is looked at."""
    assert not is_automl(head(first))


# --- what rows say ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "rows"),
    [
        ("TRAIN,gs://b/a.jpg,cat\nTRAIN,gs://b/b.jpg,dog\n", ONE_CLASS),
        ("TRAIN,gs://b/a.jpg\n", ONE_CLASS),
        ("TRAIN,gs://b/a.jpg,cat,cat,,\n", ONE_CLASS),
        ("TRAIN,gs://b/a.jpg,cat\nTRAIN,gs://b/b.jpg,dog,cat\n", CLASSES),
        ("TRAIN,gs://b/a.jpg,1,2,3,4,5\n", CLASSES),
        ("TRAIN,gs://b/a.jpg,0,1,2,3,4,5,6,7,8\n", CLASSES),
        ("TRAIN,gs://b/a.jpg,cat\nTRAIN,gs://b/b.jpg,cat,.1,.2,,,.3,.4,,\n", BOXES),
        ("TRAIN,gs://b/a.jpg,cat,0,0,,,1,1,,\n", BOXES),
        ("TRAIN,gs://b/a.jpg,cat,0,0,1,0,1,1,0,1\n", BOXES),
        ("TRAIN,gs://b/a.jpg,cat,0.1,0.2,0.3,0.4\n", BOXES),
        ("gs://b/a.jpg,cat,-0.01,0.2,,,1.01,0.4,,\n", BOXES),
    ],
)
def test_the_beginning_says_whether_rows_are_classes_or_boxes(
    content: str, rows: tuple[bool, bool], working_folder: Path
) -> None:
    """One row with coordinates makes boxes, one with two labels makes several classes."""
    assert kind(content) == rows
    assert kind("TEST,gs://b/z.jpg\n", content) == rows


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            "filename,label\na.jpg,cat\n",
            "0.csv, line 1 names no image: 'filename,label'; expected rows such as "
            "TRAIN,gs://bucket/a.jpg,label, and no header",
        ),
        (
            '\n"TRAIN,gs://b/a.jpg\n',
            "0.csv, line 2 names no image: line 2: not CSV: unexpected end of data; look for a quote that is "
            "not closed; expected rows such as TRAIN,gs://bucket/a.jpg,label, and no header",
        ),
        (
            "\n,,\n",
            "0.csv: the file is empty; expected rows such as TRAIN,gs://bucket/a.jpg,label, and no header",
        ),
    ],
)
def test_a_file_that_begins_with_something_else_is_an_error(
    content: str, message: str, working_folder: Path
) -> None:
    """The message shows what a row should look like."""
    with pytest.raises(LabelTableError) as caught:
        kind(content)
    assert str(caught.value) == f"{working_folder}/{message}"
