"""Tables with lists in their cells, several classes an image, and names of images in a bucket."""

from __future__ import annotations

import io
import json
import os
import re
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from PIL import Image
from pyarrow import parquet

from beam_pipeline.cli import main
from beam_pipeline.core.labels.table_files import TableHead
from beam_pipeline.layouts.heads import head
from tests.harness import (
    ALL_BAD,
    NONE_BAD,
    assert_the_same_bytes_everywhere,
    convert,
    convert_asking,
    dead_letters_of,
    float32,
    manifest_of,
    read_all,
    read_shard,
    reasons_of,
    shard_names,
    split_of_each,
)
from tests.layouts import make_captions, make_table_boxes
from tests.layouts.make_multi_label import PHOTOS, TAGS, make, tags_of
from tests.pictures import picture, write_files, write_pictures

LISTS = ["--list_column", "tags=;", "--list_column", "people= "]
SEVERAL = ["--images", "photos", "--label_column", "tags", "--writers=0", NONE_BAD]


@pytest.fixture
def tagged(working_folder: Path) -> Path:
    """A folder with photos/, labels.csv and labels.jsonl in it, which is the working directory."""
    make(str(working_folder))
    return working_folder


def labels_of(features: Mapping[str, Any]) -> dict[str, Any]:
    """The features that come from the labels."""
    prefixes = ("image/class/", "image/label", "label/")
    return {key: value for key, value in features.items() if key.startswith(prefixes)}


def expected(number: int) -> dict[str, Any]:
    """What the example of a photograph must hold, from how the table was made."""
    return {
        "image/class/label": [TAGS.index(tag) for tag in tags_of(number % 16)],
        "image/class/text": [tag.encode() for tag in tags_of(number % 16)],
        "label/people": [20 + number, 30][: number % 3],
        "label/rating": [number % 5 + 0.5],
    }


@pytest.mark.slow
@pytest.mark.parametrize("argv", [["--labels", "labels.csv", *LISTS], ["--labels", "labels.jsonl"]])
def test_a_list_of_labels_is_several_classes(tagged: Path, argv: list[str]) -> None:
    """From cells with a separator as from lists of JSON; no tag and no person are empty lists."""
    assert convert(*SEVERAL, *argv, "--output", "out") == 0
    assert {key: labels_of(features) for key, features in read_all("out").items()} == {
        f"IMG_{number:04d}.jpg": expected(number) for number in range(PHOTOS)
    }
    manifest = manifest_of("out")
    assert {
        key: (manifest["features"][key]["optional"], manifest["features"][key]["shape"])
        for key in ("image/class/label", "image/class/text", "label/people", "label/rating")
    } == {
        "image/class/label": (False, [None]),
        "image/class/text": (False, [None]),
        "label/people": (False, [None]),
        "label/rating": (True, []),
    }
    assert [(c["id"], c["name"], c["examples"]) for c in manifest["classes"]] == [
        (i, tag, PHOTOS // 2) for i, tag in enumerate(TAGS)
    ]
    assert Path("out/labels.txt").read_text().split() == list(TAGS)
    assert main(["verify", "out"]) == 0


@pytest.mark.slow
def test_the_same_bytes_with_other_workers(tagged: Path) -> None:
    """Whoever reads the rows and writes the shards."""
    argv = [*SEVERAL, "--labels", "labels.csv", *LISTS, "--name", "d", "--num_shards", "2"]
    assert_the_same_bytes_everywhere(*argv)


@pytest.mark.slow
def test_lists_of_other_columns_and_kinds(tmp_path: Path) -> None:
    """Integers, floats and texts, by their looks or as the person says; a class once a cell."""
    write_pictures(f"{tmp_path}/p", ["a.jpg", "b.jpg", "c.jpg"])
    rows = "a,cat,1|2|3,0.5;1,1 2,x|x\nb,dog,,,,\nc,cat,7,-2.25,5,|y|\n"
    write_files(str(tmp_path), {"l.csv": f"id,label,n,w,zip,t\n{rows}"})
    argv = ["--images", f"{tmp_path}/p", "--labels", f"{tmp_path}/l.csv", "--writers=0", NONE_BAD]
    lists = [x for column in ("n=|", "w=;", "zip= ", "t=|") for x in ("--list_column", column)]
    output = tmp_path / "out"
    assert convert(*argv, *lists, "--columns", "zip:str", "--output", str(output)) == 0
    assert {key: labels_of(features) for key, features in read_all(output).items()} == {
        "a.jpg": {
            "image/class/label": [0],
            "image/class/text": [b"cat"],
            "label/n": [1, 2, 3],
            "label/w": [0.5, 1.0],
            "label/zip": [b"1", b"2"],
            "label/t": [b"x", b"x"],
        },
        "b.jpg": {
            "image/class/label": [1],
            "image/class/text": [b"dog"],
            "label/n": [],
            "label/w": [],
            "label/zip": [],
            "label/t": [],
        },
        "c.jpg": {
            "image/class/label": [0],
            "image/class/text": [b"cat"],
            "label/n": [7],
            "label/w": [-2.25],
            "label/zip": [b"5"],
            "label/t": [b"y"],
        },
    }
    assert main(["verify", str(output)]) == 0


@pytest.mark.slow
def test_a_list_of_numbers_can_be_the_label(tmp_path: Path) -> None:
    """Points of a face, say: a list of floats that must not be empty."""
    write_pictures(f"{tmp_path}/p", ["a.jpg", "b.jpg"])
    lines = [{"image": "a", "label": [0.25, 1, 0.1]}, {"image": "b", "label": []}]
    write_files(str(tmp_path), {"l.jsonl": "".join(json.dumps(line) + "\n" for line in lines)})
    argv = ["--images", f"{tmp_path}/p", "--labels", f"{tmp_path}/l.jsonl", "--writers=0", ALL_BAD]
    assert convert(*argv, "--output", f"{tmp_path}/out") == 0
    (example,) = read_all(tmp_path / "out").values()
    (tenth,) = struct.unpack("<f", struct.pack("<f", 0.1))
    assert labels_of(example) == {"image/label": [0.25, 1.0, tenth]}
    (dead_letter,) = dead_letters_of(tmp_path / "out")
    assert (
        dead_letter["key"],
        dead_letter["reason"],
        dead_letter["line"],
        dead_letter["message"],
    ) == (
        "b.jpg",
        "bad_label_value",
        2,
        "column 'label': is empty",
    )


@pytest.mark.slow
def test_bad_items_are_dead_letters_with_their_places(tmp_path: Path) -> None:
    """An item that is of another kind, or missing among numbers, and rows that disagree."""
    write_pictures(f"{tmp_path}/p", [f"{i}.jpg" for i in range(14)])
    sound = "".join(f"{i}.jpg,a;b,1;2\n" for i in range(4, 14))
    rows = "0.jpg,a;b,1;two\n1.jpg,a,1;;2\n2.jpg,a;b,1;2\n2.jpg,b;a,1;2\n3.jpg,a,1\n3.jpg,a; ,1;\n"
    write_files(str(tmp_path), {"l.csv": f"filename,labels,n\n{rows}{sound}"})
    argv = ["--images", f"{tmp_path}/p", "--labels", f"{tmp_path}/l.csv", "--writers=0", ALL_BAD]
    lists = ["--list_column", "labels=;", "--list_column", "n=;"]
    assert convert(*argv, *lists, "--output", f"{tmp_path}/out") == 0
    assert set(read_all(tmp_path / "out")) == {f"{i}.jpg" for i in range(3, 14)}
    dead_letters = [
        (
            dead_letter["key"],
            dead_letter["reason"],
            dead_letter["file"],
            dead_letter["line"],
            dead_letter["message"],
        )
        for dead_letter in dead_letters_of(tmp_path / "out")
    ]
    table = f"{tmp_path}/l.csv"
    assert sorted(dead_letters) == [
        (
            "0.jpg",
            "bad_label_value",
            table,
            2,
            "column 'n': the item 'two' is not an integer of 64 bits",
        ),
        ("1.jpg", "bad_label_value", table, 3, "column 'n': an item is empty"),
        (
            "2.jpg",
            "conflicting_labels",
            table,
            5,
            f"{table}, line 4 says ['a', 'b'], [1, 2], {table}, line 5 says ['b', 'a'], [1, 2]; "
            "remove the wrong one",
        ),
    ]
    assert manifest_of(tmp_path / "out")["counts"]["label_rows_repeated"] == 1


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (
            ["--labels", "labels.csv", "--list_column", "tag=;"],
            "{here}/labels.csv: no column 'tag' (--list_column); found filename, tags, people, rating",
        ),
        (
            ["--labels", "labels.csv", "--list_column", "filename=;"],
            "{here}/labels.csv: the column 'filename' names the image, so it holds no list "
            "(--list_column)",
        ),
        (
            ["--labels", "twice.csv"],
            "{here}/twice.csv: the header names 'label' more than once; give each column a "
            "different name",
        ),
        (
            ["--labels", "labels.csv", "--layout", "class_folders", "--list_column", "tags=;"],
            "--list_column means nothing for the layout class_folders; it is for webdataset, parquet, "
            "coco, imagefolder, caption_files, table",
        ),
    ],
)
def test_what_cannot_be_used_is_an_error(
    tagged: Path, argv: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before anything is written, with what was found and expected."""
    write_files(".", {"twice.csv": "filename,label,label\na,b,c\n"})
    assert main(["convert", "--images", "photos", "--output", "out", *argv]) == 2
    assert capsys.readouterr().err == f"beam-tfrecord: error: {message.format(here=tagged)}\n"
    assert not os.path.exists("out")


def test_a_large_table_is_looked_at_in_part_before_the_job_starts(tmp_path: Path) -> None:
    """4 MiB of it settle its columns; a file of just that size is there as a whole."""
    path = tmp_path / "l.csv"
    for size, whole in ((4 << 20, True), ((4 << 20) + 1, False)):
        path.write_bytes(b"x" * size)
        assert head(str(path)) == TableHead(str(path), b"x" * (4 << 20), whole)


# --- names of images in a bucket ----------------------------------------------------------------


@pytest.mark.slow
def test_uris_of_a_bucket_name_their_local_copies(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the path in the bucket, of which the beginning is found from the first rows."""
    write_pictures(f"{tmp_path}/copy", ["cat/1.jpg", "dog/1.jpg"])
    rows = (
        "gs://pets/2024/cat/1.jpg,cat\ngs://pets/2024/dog/1.jpg,dog\ngs://pets/old/dog/1.jpg,cat\n"
    )
    write_files(str(tmp_path), {"l.csv": f"image_uri,label\n{rows}"})
    argv = ["--images", f"{tmp_path}/copy", "--labels", f"{tmp_path}/l.csv", "--writers=0", ALL_BAD]
    assert convert(*argv, "--output", f"{tmp_path}/out") == 0
    assert "Note: rows name images in gs://pets/2024/; taken are" in capsys.readouterr().out
    assert {key: f["image/class/text"] for key, f in read_all(tmp_path / "out").items()} == {
        "cat/1.jpg": [b"cat"],
    }
    assert reasons_of(tmp_path / "out") == {"dog/1.jpg": "conflicting_labels"}


# --- the class id under another key -------------------------------------------------------------


@pytest.mark.slow
def test_the_class_id_can_take_the_place_of_the_source_id(tmp_path: Path) -> None:
    """For a table as for folders; a further column can have a key of its own, too."""
    write_pictures(f"{tmp_path}/p", ["a.jpg", "b.jpg"])
    write_files(str(tmp_path), {"l.csv": "filename,breed,age\na.jpg,poodle,3\nb.jpg,beagle,4\n"})
    argv = ["--images", f"{tmp_path}/p", "--labels", f"{tmp_path}/l.csv", "--writers=0", NONE_BAD]
    argv += ["--label_column", "breed", "--output", f"{tmp_path}/out"]
    assert convert(*argv, "--features", "image/source_id=label,years=age") == 0
    found = {
        features["image/filename"][0].decode(): features
        for name in shard_names(tmp_path / "out")
        for features in read_shard(tmp_path / "out", name)
    }
    assert {key: (f["image/source_id"], f["years"]) for key, f in found.items()} == {
        "a.jpg": ([1], [3]),
        "b.jpg": ([0], [4]),
    }
    for features in found.values():
        assert not {"image/class/label", "label/age"} & set(features)
        assert "image/class/text" in features
    kinds = {key: what["kind"] for key, what in manifest_of(tmp_path / "out")["features"].items()}
    assert (kinds["image/source_id"], kinds["years"]) == ("int64", "int64")
    assert main(["verify", f"{tmp_path}/out"]) == 0


@pytest.mark.slow
def test_classes_that_only_some_splits_have_are_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With several classes an image as with one."""
    write_pictures(f"{tmp_path}/p", ["a.jpg", "b.jpg", "c.jpg"])
    rows = "a,cat;dog,train\nb,cat,test\nc,owl,test\n"
    write_files(str(tmp_path), {"l.csv": f"filename,labels,split\n{rows}"})
    argv = ["--images", f"{tmp_path}/p", "--labels", f"{tmp_path}/l.csv", "--writers=0", NONE_BAD]
    assert convert(*argv, "--list_column", "labels=;", "--output", f"{tmp_path}/out") == 0
    said = capsys.readouterr().out
    assert "note: test has no dog\n" in said
    assert "note: train has no owl\n" in said


# --- tables as people have them -------------------------------------------------------------------

QUOTE = '"'
PICTURES = [f"{number:02d}.jpg" for number in range(12)]


@pytest.fixture
def pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with photos/, which is the working directory."""
    monkeypatch.chdir(tmp_path)
    write_pictures("photos", PICTURES)
    return tmp_path


def converted(table: str, *argv: str, none_bad: str = NONE_BAD) -> dict[str, dict[str, Any]]:
    """Key -> the features that come from the labels, of a conversion of photos/ with a table."""
    assert convert("--images", "photos", "--labels", table, none_bad, "--output", "out", *argv) == 0
    prefixes = ("image/class/", "image/label", "image/object/", "label/")
    return {
        key: {name: value for name, value in features.items() if name.startswith(prefixes)}
        for key, features in read_all("out").items()
    }


@pytest.mark.slow
def test_boxes_in_a_table_become_objects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of an image add up, one without a box is an image without objects; ids begin at 1."""
    monkeypatch.chdir(tmp_path)
    make_table_boxes.make(".")
    argv = ("--images", "train", "--labels", "train_labels.csv", NONE_BAD, "--name", "shapes")
    assert_the_same_bytes_everywhere(*argv)
    found = read_all("one")
    classes = {"disc": 1, "square": 2}
    for name, boxes in make_table_boxes.objects().items():
        assert found[name]["image/object/class/text"] == [label.encode() for label, *_ in boxes]
        assert found[name]["image/object/class/label"] == [classes[label] for label, *_ in boxes]
        for index, side in enumerate(("xmin", "ymin", "xmax", "ymax"), 1):
            length = (make_table_boxes.HEIGHT, make_table_boxes.WIDTH)[index % 2]
            assert found[name][f"image/object/bbox/{side}"] == float32(
                box[index] / length for box in boxes
            )
    assert "image/object/width" not in manifest_of("one")["features"]
    assert Path("one/label_map.pbtxt").read_text().count("item {") == 2


def turned_picture() -> bytes:
    """An image stored as 9 x 7 pixels, which a viewer shows as 7 x 9."""
    exif, out = Image.Exif(), io.BytesIO()
    exif[0x0112] = 6  # a quarter turn clockwise
    Image.new("RGB", (9, 7), (40, 80, 120)).save(out, "PNG", exif=exif)
    return out.getvalue()


def test_a_table_claims_sizes_beside_boxes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An image of another size is left out, and so is one of which rows claim two; 0 claims nothing.

    Of a turned image, the size says whether boxes were measured on the picture as shown.
    """
    monkeypatch.chdir(tmp_path)
    images = {f"p/{name}.png": picture(1, file_format="PNG") for name in ("same", "none", "other")}
    images |= {f"p/{name}.png": picture(1, file_format="PNG") for name in ("swapped", "two")}
    images |= {f"p/{name}.png": turned_picture() for name in ("shown", "stored")}
    rows = [
        *("same.png,9,7,cat,1,2,3,4", "same.png,,,dog,3,2,5,4", "none.png,0,0,cat,1,2,3,4"),
        *("other.png,18,14,cat,1,2,3,4", "swapped.png,7,9,cat,1,2,3,4"),
        *("two.png,9,7,cat,1,2,3,4", "two.png,7,9,dog,1,2,3,4"),
        *("shown.png,7,9,cat,1,2,3,4", "stored.png,9,7,cat,1,2,3,4"),
    ]
    header = "filename,width,height,class,xmin,ymin,xmax,ymax"
    write_files(".", {**images, "l.csv": "\n".join([header, *rows, ""])})
    argv = ("--images", "p", "--labels", "l.csv", "--output", "out", "--writers=0", ALL_BAD)
    assert convert(*argv) == 0
    found = read_all("out")
    sides = [f"image/object/bbox/{side}" for side in ("xmin", "ymin", "xmax", "ymax")]
    boxes = {name: [example[side][0] for side in sides] for name, example in found.items()}
    upright = float32([1 / 9, 2 / 7, 3 / 9, 4 / 7])
    assert boxes == {
        "same.png": upright,
        "none.png": upright,
        "shown.png": float32([1 / 7, 2 / 9, 3 / 7, 4 / 9]),
        "stored.png": float32([3 / 7, 1 / 9, 5 / 7, 3 / 9]),
    }
    letters = {letter["key"]: letter for letter in dead_letters_of("out")}
    assert {key: (letter["reason"], letter.get("line", 0)) for key, letter in letters.items()} == {
        "other.png": ("size_mismatch", 0),
        "swapped.png": ("size_mismatch", 0),
        "two.png": ("conflicting_labels", 8),
    }
    assert letters["other.png"]["file"] == f"{tmp_path}/l.csv"
    assert letters["two.png"]["message"] == (
        f"{tmp_path}/l.csv, line 7 claims an image of 9 x 7 pixels, {tmp_path}/l.csv, line 8 one of "
        "7 x 9; correct the wrong one"
    )


@pytest.mark.slow
def test_bad_boxes_of_a_table_are_dead_letters_with_their_lines(pictures: Path) -> None:
    """One that is inverted is found when its image is read, one that is no number before."""
    lines = ["00.jpg,cat,1,1,5,5", "01.jpg,cat,5,1,1,5", "02.jpg,cat,1,x,5,5", "03.jpg,,1,1,5,5"]
    lines += [f"{name},dog,1,1,5,5" for name in PICTURES[4:]]
    write_files(".", {"l.csv": "\n".join(["image,class,x1,y1,x2,y2", *lines, ""])})
    assert sorted(converted("l.csv", none_bad=ALL_BAD)) == ["00.jpg", *PICTURES[4:]]
    assert [(d["key"], d["reason"], d["line"]) for d in dead_letters_of("out")] == [
        ("01.jpg", "bad_box", 3),
        ("02.jpg", "bad_label_value", 4),
        ("03.jpg", "bad_label_value", 5),
    ]


def test_captions_of_an_image_are_a_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the order of the rows, and no row is a conflict or repeated."""
    monkeypatch.chdir(tmp_path)
    make_captions.make(".")
    argv = ("--images", "Images", "--labels", "captions.txt", NONE_BAD, "--output", "out")
    assert convert(*argv) == 0
    assert {name: features["label/caption"] for name, features in read_all("out").items()} == {
        name: [text.encode() for text in texts] for name, texts in make_captions.captions().items()
    }
    assert manifest_of("out")["features"]["label/caption"]["shape"] == [None]


def test_one_hot_columns_are_classes(pictures: Path) -> None:
    """With --one_hot and without; the manifest records the option where it was given."""
    rows = [f"{name},{i % 2}.0,{1 - i % 2}.0" for i, name in enumerate(PICTURES)]
    write_files(".", {"l.csv": "\n".join(["image,is_cat,is_dog", *rows, ""])})
    named = converted("l.csv", "--one_hot", "is_*")
    assert [named[name]["image/class/text"] for name in PICTURES[:2]] == [[b"dog"], [b"cat"]]
    assert manifest_of("out")["options"]["one_hot"] == ["is_*"]
    found = converted("l.csv", "--overwrite", "--yes")
    assert [found[name]["image/class/text"] for name in PICTURES[:2]] == [[b"is_dog"], [b"is_cat"]]
    assert "one_hot" not in manifest_of("out")["options"]


def test_a_parquet_table_is_read(pictures: Path) -> None:
    """Numbers, lists and nothing keep their kinds; a dead letter has the row's number."""
    table = {
        "path": [*PICTURES[:11], "none.jpg"],
        "label": ["cat", "dog"] * 6,
        "score": [0.5, None, *[1.5] * 10],
        "tags": [["a", "b"], [], *[["c"]] * 10],
    }
    parquet.write_table(pa.table(table), "l.parquet", row_group_size=5)
    found = converted("l.parquet", none_bad=ALL_BAD)
    assert found["00.jpg"] == {
        "image/class/label": [0],
        "image/class/text": [b"cat"],
        "label/score": [0.5],
        "label/tags": [b"a", b"b"],
    }
    assert "label/score" not in found["01.jpg"]
    assert [(d["key"], d["reason"], d.get("line")) for d in dead_letters_of("out")] == [
        ("11.jpg", "unlabelled", None),
        ("none.jpg", "missing_image", 12),
    ]


def test_a_table_of_excel_in_german_is_read(
    pictures: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Windows-1252, semicolons and decimal commas, each in a note."""
    rows = [f"{name};{'Vögel' if i % 2 else 'Käfer'};{i},5" for i, name in enumerate(PICTURES)]
    write_files(".", {"l.csv": "\r\n".join(["Datei;label;Größe", *rows, ""]).encode("cp1252")})
    found = converted("l.csv")
    assert found["03.jpg"] == {
        "image/class/label": [1],
        "image/class/text": ["Vögel".encode()],
        "label/Größe": [3.5],
    }
    out = capsys.readouterr().out
    assert "Note: l.csv is not UTF-8 and is read as Windows-1252, with words such as 'Größe'" in out
    assert "Note: l.csv: numbers with a decimal comma in Größe are read as with a point" in out


def test_a_list_as_imagenet_has_it_is_read(
    pictures: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No header, a space between name and class, and a note."""
    write_files(".", {"train.txt": "".join(f"{name} {i % 3}\n" for i, name in enumerate(PICTURES))})
    found = converted("train.txt")
    assert [found[name]["image/class/text"] for name in PICTURES[:3]] == [[b"0"], [b"1"], [b"2"]]
    assert "Note: train.txt has no header; its first line is an image" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("closed", "message"),
    [
        (
            None,
            "l.csv, lines 2 to 14: not CSV: unexpected end of data; look for a quote that is not ",
        ),
        (
            3,
            "l.csv, line 2: 'cat\\n01.jpg,cat\\n02.jpg,cat\\n03.jpg,cat' in column 'label' has 4 lines",
        ),
    ],
)
def test_a_stray_quote_ends_the_run(
    pictures: Path, closed: int | None, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2 with file and line; no data set without the samples that it swallowed."""
    rows = [
        f"{name},{QUOTE * (i == 0)}cat{QUOTE * (i == closed)}\n" for i, name in enumerate(PICTURES)
    ]
    write_files(".", {"l.csv": "filename,label\n" + "".join(rows) + "x.jpg,dog\n"})
    assert convert("--images", "photos", "--labels", "l.csv", ALL_BAD, "--output", "out") == 2
    assert message in capsys.readouterr().err
    assert not os.path.exists("out/manifest.json")


@pytest.mark.slow
def test_most_images_without_a_label_stop_the_run(
    pictures: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2 and the way out, which ends well."""
    write_files(".", {"l.csv": "filename,label\n" + "".join(f"{n},a\n" for n in PICTURES[:5])})
    argv = ("--images", "photos", "--labels", "l.csv")
    assert convert_asking(*argv, "--output", "out") == 2
    assert "7 of 12 images have no label, such as '05.jpg', '06.jpg', '07.jpg'. A data" in (
        capsys.readouterr().err
    )
    assert convert_asking(*argv, "--output", "other", "--yes") == 0
    assert len(read_all("other")) == 5


SPLIT_TABLES = {
    "train.csv": PICTURES[:7],
    "labels_val.csv": PICTURES[7:9],
    "Test.csv": PICTURES[9:],
}


def write_split_tables(header: str = "filename,label", tail: str = "") -> list[str]:
    """Writes a table for each split; returns the arguments that name them."""
    rows = {
        name: "".join(f"{picture},{'ab'[i % 2]}{tail}\n" for i, picture in enumerate(pictures))
        for name, pictures in SPLIT_TABLES.items()
    }
    write_files(".", {name: f"{header}\n{lines}" for name, lines in rows.items()})
    return ["--images", "photos", "--labels", *rows]


def splits_of(folder: str) -> dict[str, int]:
    """Split -> examples."""
    return {split: entry["examples"] for split, entry in manifest_of(folder)["splits"].items()}


def test_tables_named_like_splits_are_asked_about(
    pictures: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command of the question puts each into its split; --yes puts all into train, as ever."""
    argv = write_split_tables()
    assert convert_asking(*argv, "--output", "out") == 2
    said = capsys.readouterr().err
    assert "those of 'Test.csv', 'labels_val.csv' too" in said
    answer = next(line.strip() for line in said.splitlines() if "label_files" in line)
    assert answer.startswith(
        f"beam-tfrecord convert {' '.join(argv)} --splits label_files --output "
    )
    assert convert_asking(*argv, "--output", "out", "--splits", "label_files") == 0
    assert splits_of("out") == {"test": 3, "train": 7, "validation": 2}
    assert manifest_of("out")["options"]["splits_from"] == "label_files"
    assert convert_asking(*argv, "--output", "all", "--yes") == 0
    assert splits_of("all") == {"train": 12}


@pytest.mark.slow
def test_folders_of_images_and_columns_say_splits_themselves(pictures: Path) -> None:
    """Nothing is asked then."""
    argv = write_split_tables("filename,label,split", ",dev")
    assert convert_asking(*argv, "--output", "out") == 0
    assert splits_of("out") == {"validation": 12}
    os.rename("photos", "test")
    argv = write_split_tables()
    assert convert_asking("--images", ".", *argv[2:], "--output", "other") == 0
    assert splits_of("other") == {"test": 12}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--labels", "a.csv"], "the name of .*/a.csv says no split, or several; expected names"),
        (["--labels", "train_test.csv"], "the name of .*/train_test.csv says no split, or several"),
        (["--labels", "train.csv"], "the column 'split' says the split of each row; leave"),
        ([], "means nothing for the layout class_folders; it is for tables named with --labels"),
        (["--labels", "train.csv", "--stratify"], "--stratify needs --splits with the split sizes"),
    ],
)
def test_what_does_not_fit_splits_by_tables(
    pictures: Path, options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2, and why."""
    write_split_tables("filename,label,split", ",train")
    write_files(".", dict.fromkeys(["a.csv", "train_test.csv"], "filename,label\n00.jpg,a\n"))
    argv = ("--images", "photos", *options, "--splits", "label_files", "--output", "out")
    assert convert(*argv) == 2
    assert re.search(message, capsys.readouterr().err)


# --- lists of images without labels ---------------------------------------------------------------

LISTED = ("b/1.jpg", "b/2.png", "c/d/3.jpg", "c/d/4.jpg", "b/5.jpg", "c/d/6.jpg")


@pytest.fixture
def listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with data/images/ and lists of two splits, which is the working directory."""
    monkeypatch.chdir(tmp_path)
    write_pictures("data/images", LISTED)
    write_files(".", {"train.txt": "b/1\nb/2\n/c/d/3.jpg\n", "TestList.txt": "c/d/4\n5.jpg\n"})
    return tmp_path


def test_lists_say_the_split_and_folders_the_class(
    listed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without the option for splits, the run asks; an image in no list is left out."""
    argv = ["--images", "data/images", "--labels", "train.txt", "TestList.txt"]
    assert convert_asking(*argv, "--output", "out") == 2
    assert "--splits label_files" in capsys.readouterr().err
    assert convert_asking(*argv, "--splits", "label_files", "--output", "out") == 0
    found = {
        key: (split_of_each("out")[key], features["image/class/text"])
        for key, features in read_all("out").items()
    }
    assert found == {
        "b/1.jpg": ("train", [b"b"]),
        "b/2.png": ("train", [b"b"]),
        "c/d/3.jpg": ("train", [b"c/d"]),
        "c/d/4.jpg": ("test", [b"c/d"]),
        "b/5.jpg": ("test", [b"b"]),
    }
    assert reasons_of("out") == {"c/d/6.jpg": "unlabelled"}
    assert "  label: classes, each image's folder\n" in capsys.readouterr().out


def test_a_list_of_two_splits_refuses_what_both_name(
    listed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is written; both places are said."""
    write_files(".", {"TestList.txt": "c/d/4\nb/2\n"})
    argv = ["--images", "data/images", "--labels", "train.txt", "TestList.txt"]
    assert convert(*argv, "--splits", "label_files", "--output", "out", NONE_BAD) == 1
    said = capsys.readouterr().err
    assert "1 conflicting_labels" in said
    assert re.search(r"TestList.txt, line 2 says the split test, .*train.txt, line 2 says", said)


@pytest.mark.slow
def test_a_folder_above_the_class_folders_is_asked_about(
    listed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command of the question names the folder below."""
    lists = {
        "train.txt": "images/b/1\nimages/b/2\n",
        "TestList.txt": "images/c/d/3\nimages/c/d/4\n",
    }
    write_files(".", lists)
    argv = ["--labels", *lists, "--splits", "label_files", "--output", "out"]
    assert convert_asking("--images", "data", *argv) == 2
    assert "--images data/images" in capsys.readouterr().err


@pytest.mark.slow
def test_listed_images_in_no_class_folder_are_an_error(
    listed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It says that folders were to be the classes; nothing is written."""
    write_pictures("flat", ["1.jpg", "2.jpg"])
    write_files(".", {"train.txt": "1\n2\n"})
    assert convert("--images", "flat", "--labels", "train.txt", "--output", "out") == 1
    said = capsys.readouterr().err
    assert "none of 2 images has labels that can be used, in 2 label rows (2 unlabelled)" in said
    assert "is in a list without labels, and lies in no class folder" in said


@pytest.mark.slow
def test_groups_come_from_a_table_and_classes_from_folders(listed: Path) -> None:
    """A table with no column but the key and the group is a list; whole classes are asked about."""
    rows = "".join(f"{name},{'pq'[i % 2]}\n" for i, name in enumerate(LISTED))
    write_files(".", {"groups.csv": f"filename,patient\n{rows}"})
    argv = ["--images", "data/images", "--labels", "groups.csv", "--splits", "train=0.5,test=0.5"]
    argv += ["--output", "out", "--stratify", "--split_by"]
    assert convert_asking(*argv, "patient") == 0
    found = split_of_each("out")
    assert {found[name] for name in LISTED[::2]} != {found[name] for name in LISTED[1::2]}
    assert {key: f["label/patient"] for key, f in read_all("out").items()} == {
        name: [b"pq"[i % 2 : i % 2 + 1]] for i, name in enumerate(LISTED)
    }
    write_files(".", {"groups.csv": rows.replace(",p", "").replace(",q", "")})
    assert convert_asking(*argv, "folder", "--overwrite") == 2


@pytest.mark.slow
def test_lists_give_the_same_bytes_everywhere(listed: Path) -> None:
    """On every engine, with any number of workers."""
    argv = ["--images", "data/images", "--labels", "train.txt", "TestList.txt"]
    assert_the_same_bytes_everywhere(*argv, "--splits", "label_files", "--name=x")
