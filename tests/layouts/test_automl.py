"""AutoML Vision's CSV files: classes, several classes and boxes, of images in a bucket or copies."""

from __future__ import annotations

import io
import os
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from beam_pipeline.core.dead_letters import DeadLetter
from beam_pipeline.core.errors import LabelTableError
from beam_pipeline.core.labels.schema import ColumnKind, label_column
from beam_pipeline.core.labels.table_rows import TableHead
from beam_pipeline.core.references import LabelRow
from beam_pipeline.layouts.automl import SETS as WORDS
from beam_pipeline.layouts.automl import Automl, is_automl
from beam_pipeline.layouts.image_records import RecordColumns, RecordReader
from beam_pipeline.layouts.layout import SourceOptions
from tests.harness import (
    ALL_BAD,
    NONE_BAD,
    convert,
    dead_letters_of,
    digests,
    float32,
    manifest_of,
    problems_of,
    read_all,
)
from tests.layouts import bucket
from tests.layouts.make_boxes import BUCKET, boxes_of, make_automl
from tests.pictures import write_files, write_pictures


@pytest.fixture
def automl(working_folder: Path) -> Path:
    """A folder with CSV files and a copy of their bucket in it, which is the working directory."""
    make_automl(str(working_folder))
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
    empty = {key: [] for key in sound}
    assert found == {"0.jpg": sound, "10.jpg": sound, "3.jpg": empty}
    assert [problem[:3] for problem in problems_of("out")] == [
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
        for dead_letter in dead_letters_of("out")
        if "line" in dead_letter
    )
    counts = manifest_of("out")["counts"]
    assert (counts["label_rows"], counts["label_rows_repeated"]) == (17, 1)


ONE_CLASS, CLASSES, BOXES = (False, False), (False, True), (True, False)
"""(whether a row is an object with its box, whether an image may have several classes)"""


def kind(*contents: str) -> tuple[bool, bool]:
    """What the beginnings of files say about their rows."""
    names = [f"{number}.csv" for number, _ in enumerate(contents)]
    write_files(".", dict(zip(names, contents, strict=True)))
    labels: Any = Automl().open(SourceOptions((".",), tuple(names))).labels
    label = labels.reader.columns.label
    return labels.merge_rows, bool(label and label.repeated)


def head(content: str | bytes, uri: str = "rows.csv") -> TableHead:
    return TableHead(uri, content.encode() if isinstance(content, str) else content, True)


def read(content: str, rows: tuple[bool, bool]) -> list[LabelRow | DeadLetter]:
    boxes, several = rows
    label = None if boxes else replace(label_column("label", ColumnKind.CLASS), repeated=several)
    reader = RecordReader(Automl(boxes=boxes), RecordColumns(label, pixels=False))
    return list(reader.read(io.BytesIO(content.encode()), "rows.csv"))


def said(content: str, rows: tuple[bool, bool]) -> list[tuple[Any, ...]]:
    """(split, name, values) of each row, all of which must be sound."""
    found = read(content, rows)
    assert all(isinstance(row, LabelRow) and not row.problem for row in found), found
    return [(row.split, row.name, row.values) for row in found if isinstance(row, LabelRow)]


def problems(content: str, rows: tuple[bool, bool]) -> list[str]:
    return [row.problem for row in read(content, rows) if isinstance(row, LabelRow)]


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


# --- classes ------------------------------------------------------------------------------------


def test_a_row_is_a_set_an_image_and_its_class() -> None:
    """Sets are the usual splits in any case; without one the split is left to others."""
    content = "".join(
        f"{word},gs://b/{i}.jpg, daisy \n"
        for i, word in enumerate([*WORDS, "train", "Validation", "unassigned"])
    )
    assert said(content, ONE_CLASS) == [
        ("train", "gs://b/0.jpg", ("daisy",)),
        ("train", "gs://b/1.jpg", ("daisy",)),
        ("validation", "gs://b/2.jpg", ("daisy",)),
        ("validation", "gs://b/3.jpg", ("daisy",)),
        ("test", "gs://b/4.jpg", ("daisy",)),
        ("", "gs://b/5.jpg", ("daisy",)),
        ("", "gs://b/6.jpg", ("daisy",)),
        ("train", "gs://b/7.jpg", ("daisy",)),
        ("validation", "gs://b/8.jpg", ("daisy",)),
        ("", "gs://b/9.jpg", ("daisy",)),
    ]


def test_the_set_may_be_left_out() -> None:
    """Then the image stands first: a URI, or a name with an image's extension."""
    content = "gs://b/a,daisy\nfolder/b.jpg,rose\n"
    assert said(content, ONE_CLASS) == [
        ("", "gs://b/a", ("daisy",)),
        ("", "folder/b.jpg", ("rose",)),
    ]


def test_rows_that_are_not_as_the_beginning_are_faults() -> None:
    """None or two labels where there is one, and a box where there are none."""
    content = "TRAIN,gs://b/a.jpg,,\nTRAIN,gs://b/b.jpg,x,y\nTRAIN,gs://b/c.jpg,x,.1,.2,,,.3,.4\n"
    assert problems(content, ONE_CLASS) == [
        "label: is empty",
        "the image has several values of label, ['x', 'y']; --list_column label=, writes lists",
        "a box, in a file whose beginning has none",
    ]


# --- boxes --------------------------------------------------------------------------------------


def test_two_vertices_are_a_box_as_written() -> None:
    """An inverted box stays one, so that it is found when the image is read."""
    content = (
        "TRAIN,gs://b/a.jpg,car,0.1,0.2,,,0.5,0.6,,\n"
        "TRAIN,gs://b/a.jpg,bus,0.1,0.2,,,0.5,0.6\n"
        "TRAIN,gs://b/a.jpg,car,0.1,0.2,0.5,0.6\n"
        "TRAIN,gs://b/a.jpg,car,0.5,0.6,,,0.1,0.2,,\n"
    )
    assert [values for _, _, values in said(content, BOXES)] == [
        (((0.1, 0.2, 0.5, 0.6, 1),), ("car",)),
        (((0.1, 0.2, 0.5, 0.6, 2),), ("bus",)),
        (((0.1, 0.2, 0.5, 0.6, 3),), ("car",)),
        (((0.5, 0.6, 0.1, 0.2, 4),), ("car",)),
    ]


@pytest.mark.parametrize(
    "vertices",
    [
        "0.1,0.2,0.5,0.2,0.5,0.6,0.1,0.6",
        "0.5,0.6,0.1,0.6,0.1,0.2,0.5,0.2",
        "0.1,0.4,0.3,0.2,0.5,0.4,0.3,0.6",
    ],
)
def test_four_vertices_are_the_smallest_rectangle_around_them(vertices: str) -> None:
    """Whichever is first, and of a polygon that is no rectangle, too."""
    assert said(f"TRAIN,gs://b/a.jpg,car,{vertices}\n", BOXES) == [
        ("train", "gs://b/a.jpg", (((0.1, 0.2, 0.5, 0.6, 1),), ("car",)))
    ]


@pytest.mark.parametrize("row", ["TRAIN,gs://b/a.jpg", "TRAIN,gs://b/a.jpg,,,,,,,,,"])
def test_an_image_may_have_no_objects(row: str) -> None:
    """With or without the empty cells of a box."""
    assert said(f"{row}\n", BOXES) == [("train", "gs://b/a.jpg", ((), ()))]


@pytest.mark.parametrize(
    ("cells", "problem"),
    [
        ("car", "['car']: expected a label and its box, as in other rows"),
        (
            ",0.1,0.2,,,0.5,0.6,,",
            "['', '0.1', '0.2', '', '', '0.5', '0.6']: expected a label and its box, as in other rows",
        ),
        ("car,0.1,x,,,0.5,0.6,,", "a coordinate is 'x', expected a number"),
        ("car,0.1,,,,0.5,0.6,,", "a coordinate is missing or empty, expected a number"),
        ("car,0.1,nan,,,0.5,0.6,,", "a coordinate is 'nan', expected a number"),
        ("car,0.1,1e999,,,0.5,0.6,,", "a coordinate is '1e999', expected a number"),
        ("car,0.1,0_1,,,0.5,0.6,,", "a coordinate is '0_1', expected a number"),
        ("car,0.1,0.2", "['0.1', '0.2']: expected 2 or 4 vertices of a box"),
        ("car,0,0,1,0,1,1", "['0', '0', '1', '0', '1', '1']: expected 2 or 4 vertices of a box"),
        (
            "car,0,0,1,0,1,1,0,1,9",
            "['0', '0', '1', '0', '1', '1', '0', '1', '9']: expected 2 or 4 vertices of a box",
        ),
    ],
)
def test_a_box_that_cannot_be_understood_is_a_fault_of_its_image(cells: str, problem: str) -> None:
    """With what was found and what was expected; the row keeps name and line."""
    assert read(f"\nTRAIN,gs://b/a.jpg,{cells}\n", BOXES) == [
        LabelRow("gs://b/a.jpg", ((), ()), "", "rows.csv", 2, problem)
    ]


# --- broken rows --------------------------------------------------------------------------------


def test_a_set_that_is_none_is_a_fault_of_its_image() -> None:
    """The image is known, so it becomes a dead letter and is in no split."""
    (row,) = read("HOLDOUT,gs://b/a.jpg,cat\n", ONE_CLASS)
    assert isinstance(row, LabelRow)
    assert (row.name, row.values, row.line) == ("gs://b/a.jpg", (None,), 1)
    assert row.problem == ("'HOLDOUT' names no set; expected TRAIN, VALIDATION, TEST or UNASSIGNED")


@pytest.mark.parametrize("row", ["cat,dog", "TRAIN", "TRAIN,,cat", "a"])
def test_a_row_that_names_no_image_is_a_dead_letter(row: str) -> None:
    """It says file, line and what was found; the next rows are read."""
    dead_letter, last = read(f"{row}\nTRAIN,gs://b/a.jpg,cat\n", ONE_CLASS)
    assert dead_letter == DeadLetter(
        "labels", "entry 1", "", "bad_row", f"entry 1 names no image: {row!r}", "rows.csv", 1
    )
    assert last == LabelRow("gs://b/a.jpg", ("cat",), "train", "rows.csv", 2)


def test_a_quote_that_is_not_closed_is_a_dead_letter() -> None:
    """As in any other table."""
    first, dead_letter = read('TRAIN,gs://b/a.jpg,cat\nTRAIN,"gs://b/b.jpg,cat\n', ONE_CLASS)
    assert isinstance(first, LabelRow)
    assert dead_letter == DeadLetter(
        "labels",
        "entry 2",
        "",
        "bad_row",
        "entry 2 names no image: line 2: not CSV: unexpected end of data; look for a quote that is not closed",
        "rows.csv",
        2,
    )
