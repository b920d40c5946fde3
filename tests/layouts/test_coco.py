"""Tests for COCO's instances, end to end and of their parser."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

from beam_pipeline.core import errors, references
from beam_pipeline.layouts import layout, opening
from beam_pipeline.layouts.coco import Coco
from tests import harness, pictures
from tests.layouts.make_coco import (
    CATEGORIES,
    TRAIN,
    TRAIN_OBJECTS,
    VAL,
    dumped,
    entry,
    instances,
    make_coco,
    one,
)


@pytest.fixture
def folder(working_folder: Path) -> Path:
    """The working directory, with coco/ and export/ in it."""
    make_coco(str(working_folder))
    return working_folder


def labels_of(features: Mapping[str, Any]) -> dict[str, Any]:
    """Those features of an example that come from labels."""
    return {key: value for key, value in features.items() if "/object/" in key or "label/" in key}


def write_val(
    images: Sequence[Mapping[str, Any]], annotations: Sequence[Any], categories: Any = CATEGORIES
) -> None:
    """Writes coco/annotations/instances_val2017.json anew, and takes the training set away."""
    pictures.write_files(
        "coco", {"annotations/instances_val2017.json": instances(images, annotations, categories)}
    )
    os.remove("coco/annotations/instances_train2017.json")


# --- whole conversions ---------------------------------------------------------------------------


def test_an_example_says_what_the_file_says(folder: Path) -> None:
    """One with a crowd, every number written out; objects stand in the order of the annotations."""
    assert harness.convert("--images", "coco/", "--output", "out") == 0
    assert labels_of(harness.read_all("out")["train2017/000000000071.jpg"]) == {
        "image/object/bbox/xmin": harness.float32([3 / 150, 12.5 / 150]),
        "image/object/bbox/ymin": harness.float32([40 / 128, 20 / 128]),
        "image/object/bbox/xmax": harness.float32([123 / 150, 37.75 / 150]),
        "image/object/bbox/ymax": harness.float32([82 / 128, 90.5 / 128]),
        "image/object/class/label": [3, 1],
        "image/object/class/text": [b"car", b"person"],
        "image/object/area": [3120.0, 1003.75],
        "image/object/is_crowd": [1, 0],
        "image/object/id": [900100000071, 1802],
        "label/image_id": [b"71"],
    }


def test_model_gardens_decoder_reads_the_examples(folder: Path) -> None:
    """With image ids as source ids: what official/vision/dataloaders/tf_example_decoder.py parses."""
    argv = ("--images", "coco/", "--output", "out", "--features", "image/source_id=image_id")
    assert harness.convert(*argv) == 0
    lists = {
        **{f"image/object/bbox/{s}": tf.float32 for s in ("xmin", "xmax", "ymin", "ymax")},
        "image/object/class/label": tf.int64,
        "image/object/area": tf.float32,
        "image/object/is_crowd": tf.int64,
    }
    spec = {
        "image/encoded": tf.io.FixedLenFeature((), tf.string),
        "image/height": tf.io.FixedLenFeature((), tf.int64, -1),
        "image/width": tf.io.FixedLenFeature((), tf.int64, -1),
        "image/source_id": tf.io.FixedLenFeature((), tf.string),
        **{key: tf.io.VarLenFeature(dtype) for key, dtype in lists.items()},
    }
    records = tf.data.TFRecordDataset([f"out/{name}" for name in harness.shard_names("out")])
    parsed = [tf.io.parse_single_example(record, spec) for record in records]
    found = {int(example["image/source_id"].numpy()): example for example in parsed}
    assert sorted(found) == [34, 71, 139, 285, 508, 558840]
    assert tf.sparse.to_dense(found[71]["image/object/is_crowd"]).numpy().tolist() == [1, 0]
    assert tf.sparse.to_dense(found[34]["image/object/class/label"]).numpy().tolist() == [67, 1]


# --- which image is meant ------------------------------------------------------------------------


# --- what is wrong with an image or an annotation ------------------------------------------------


def problems_with_coco(*argv: str, code: int = 0) -> list[tuple[str, str, str, str]]:
    """(key, reason, file, message) of the dead letters of a conversion of coco/, unlabelled apart."""
    argv = ("--images", "coco/", "--output", "out", "--max_bad_fraction", "1", *argv)
    assert harness.convert(*argv) == code
    return [
        (
            dead_letter["key"],
            dead_letter["reason"],
            os.path.relpath(dead_letter["file"]),
            dead_letter["message"],
        )
        for dead_letter in harness.dead_letters_of("out")
        if dead_letter["reason"] != "unlabelled"
    ]


VAL_JSON = "coco/annotations/instances_val2017.json"
KEY = "val2017/000000000139.jpg"


def test_a_bad_annotation_leaves_its_image_out(folder: Path) -> None:
    """The dead letter names the annotation; an image with good ones only is not touched by it."""
    images = [entry("000000000285.jpg", 285), entry()]
    write_val(images, [one(id=1, image_id=285), one(), one(id=8, bbox=[1, 2, 3])])
    message = "annotation 8: bbox [1, 2, 3] is not [x, y, width, height], four numbers of pixels"
    assert problems_with_coco() == [(KEY, "bad_label_value", VAL_JSON, message)]
    assert list(harness.read_all("out")) == ["val2017/000000000285.jpg"]


@pytest.mark.slow
def test_an_annotation_without_an_id_is_named_by_its_number(folder: Path) -> None:
    """Ids are what evaluation and messages go by."""
    write_val([entry(), entry("000000000285.jpg", 285)], [one(), one(id=[5]), one(id=...)])
    message = "annotation number 2 of the list: id [5] is not an integer"
    assert problems_with_coco() == [(KEY, "bad_label_value", VAL_JSON, message)]


@pytest.mark.slow
def test_ids_of_annotations_may_be_texts(folder: Path) -> None:
    """As in LILA's files; then all are written as texts, also those of a file with integers."""
    pictures.write_files(
        "coco",
        {
            "annotations/instances_val2017.json": instances(
                [entry(), entry("000000000285.jpg", 285)],
                [one(id="0b8f-é"), one(id=8), one(id="c", image_id=285, category_id=2)],
                CATEGORIES,
            )
        },
    )
    assert problems_with_coco() == [
        (
            "val2017/000000000285.jpg",
            "bad_label_value",
            VAL_JSON,
            "annotation 'c': category_id 2 is not among the categories",
        )
    ]
    ids = {key: features["image/object/id"] for key, features in harness.read_all("out").items()}
    assert ids[KEY] == ["0b8f-é".encode(), b"8"]
    assert ids["train2017/000000000071.jpg"] == [b"900100000071", b"1802"]
    kind = {"kind": "bytes", "optional": False, "shape": [None]}
    assert harness.manifest_of("out")["features"]["image/object/id"] == kind


@pytest.mark.slow
def test_an_id_that_is_a_text_among_integers_is_a_fault(folder: Path) -> None:
    """The first annotation decides, as the kind of a feature has to be known before the job."""
    write_val([entry(), entry("000000000285.jpg", 285)], [one(image_id=285), one(id="a")])
    message = "annotation 'a': id 'a' is not an integer"
    assert problems_with_coco() == [(KEY, "bad_label_value", VAL_JSON, message)]


def test_area_and_crowd_may_be_left_out(folder: Path) -> None:
    """As some tools do: the box's area, and no crowd."""
    write_val(
        [entry()], [one(area=..., iscrowd=...), one(area=None, iscrowd=None), one(iscrowd=True)]
    )
    assert harness.convert("--images", "coco/", "--output", "out") == 0
    features = harness.read_all("out")[KEY]
    assert features["image/object/area"] == [1200.0, 1200.0, 600.5]
    assert features["image/object/is_crowd"] == [0, 0, 1]


def test_a_box_without_area_is_found_when_its_image_is_read(folder: Path) -> None:
    """COCO's train2017 has two of height 0. The message has the annotation's id."""
    write_val(
        [entry(), entry("000000000285.jpg", 285)],
        [one(), one(id=918, bbox=[29.5, 38.25, 1.0, 0.0])],
    )
    assert problems_with_coco() == [
        (
            KEY,
            "empty_box",
            VAL_JSON,
            "box 2, id 918, (xmin 29.5, ymin 38.25, xmax 30.5, ymax 38.25 in pixels of 160 x 106) has "
            "no area (xmin < xmax and ymin < ymax are expected)",
        )
    ]


@pytest.mark.slow
def test_boxes_reach_out_by_a_pixel_or_are_clipped(folder: Path) -> None:
    """A rounding is cut at the edge; what reaches out further is bad unless --clip_boxes is given."""
    write_val(
        [entry(), entry("000000000285.jpg", 285)],
        [one(bbox=[-0.5, 100, 161, 6.5]), one(id=8, image_id=285, bbox=[-5, 0, 50, 128])],
    )
    ((key, reason, _, message),) = problems_with_coco()
    assert (key, reason) == ("val2017/000000000285.jpg", "bad_box")
    assert message.startswith(
        "box 1, id 8, (xmin -5, ymin 0, xmax 45, ymax 128 in pixels of 117 x 128)"
    )
    sides = ("xmin", "ymin", "xmax", "ymax")
    rounded = harness.read_all("out")[KEY]
    assert [rounded[f"image/object/bbox/{side}"] for side in sides] == [
        [0.0],
        harness.float32([100 / 106]),
        [1.0],
        [1.0],
    ]
    assert problems_with_coco("--clip_boxes", "--overwrite") == []
    clipped = harness.read_all("out")["val2017/000000000285.jpg"]
    assert clipped["image/object/bbox/xmin"] == [0.0]
    assert clipped["image/object/bbox/xmax"] == harness.float32([45 / 117])


@pytest.mark.slow
def test_annotations_of_no_image_are_dead_letters(folder: Path) -> None:
    """One for each image that is missing, with the annotations that name it; the counts add up."""
    write_val(
        [entry()],
        [
            one(image_id=5, id=3),
            one(image_id=6, id=4),
            one(image_id=6, id=9),
            one(image_id="x", id=...),
        ],
    )
    at = f" is not among the images of {folder}/{VAL_JSON}"
    assert problems_with_coco() == [
        ("image_id 5", "missing_image", VAL_JSON, f"1 annotation: image_id 5{at}"),
        ("image_id 6", "missing_image", VAL_JSON, f"2 annotations: image_id 6{at}"),
        (
            "image_id x",
            "missing_image",
            VAL_JSON,
            f"annotation number 4 of the list: id None is not an integer: image_id 'x'{at}",
        ),
    ]
    counts = harness.manifest_of("out")["counts"]
    assert counts["label_rows"] == 4
    assert counts["label_rows_without_image"] == 3
    assert counts["listed_images"] == 6
    assert counts["examples"] == 1


def test_what_names_no_image_is_a_bad_row(folder: Path) -> None:
    """Entries that are no objects or have no id; those of an image without a name keep its annotations."""
    write_val(
        [entry(), {"id": 5}, {"id": 6, "file_name": 7}, {"file_name": "000000000285.jpg"}, "x",
         {"id": True, "file_name": "000000000285.jpg"}, {"id": 8, "file_name": "\ud800.jpg"}],
        [one(), one(image_id=5, id=3), 17, {"id": 4, "bbox": [1, 2, 3, 4]}, one(image_id=1.5, id=5)]
    )  # fmt: skip
    expected = "expected an object with an id and a file_name"
    found = problems_with_coco()
    assert [(key, reason, file) for key, reason, file, _ in found] == [
        (key, "bad_row", VAL_JSON)
        for key in (
            "annotation 4",
            "annotation 5",
            "annotation number 3 of the list",
            "image number 4 of the list",
            "image number 5 of the list",
            "image number 6 of the list",
            "image_id 5",
            "image_id 6",
            "image_id 8",
        )
    ]
    messages = {key: message for key, _, _, message in found}
    assert messages["annotation 4"] == (
        "annotation 4 is {'id': 4, 'bbox': [1, 2, 3, 4]}, expected an object with an image_id"
    )
    assert messages["annotation number 3 of the list"].startswith(
        "annotation number 3 of the list is 17, expected"
    )
    assert (
        messages["image number 5 of the list"] == f"image number 5 of the list is 'x', {expected}"
    )
    assert messages["image_id 5"] == "image_id 5 has the file_name None, expected a text"
    assert messages["image_id 8"] == r"image_id 8 has the file_name '\ud800.jpg', expected a text"


def test_an_image_that_is_not_there_and_one_without_labels(folder: Path) -> None:
    """Each is a dead letter; the second does not count against --max_bad_fraction."""
    write_val([entry(), entry("gone.jpg", 1)], [one()])
    assert harness.convert("--images", "coco/", "--output", "out", "--max_bad_fraction", "1") == 0
    assert harness.reasons_of("out") == {
        **{f"train2017/{name}": "unlabelled" for name in TRAIN},
        f"{folder}/coco/val2017/gone.jpg": "missing_image",
        "val2017/000000000285.jpg": "unlabelled",
    }


def test_two_images_of_one_id_are_left_out(folder: Path) -> None:
    """Nobody knows which of them an annotation means."""
    write_val([entry(), entry("000000000285.jpg", 139)], [one()])
    message = "image id 139 is that of several images: '000000000139.jpg', '000000000285.jpg'"
    assert problems_with_coco(code=1) == [
        (KEY, "bad_label_value", VAL_JSON, message),
        ("val2017/000000000285.jpg", "bad_label_value", VAL_JSON, message),
    ]


def test_an_image_of_two_ids_is_left_out(folder: Path) -> None:
    """The objects of one of them would be lost."""
    write_val(
        [entry(), entry(image_id=5), entry("000000000285.jpg", 285)], [one(), one(image_id=5)]
    )
    message = "several images have this file_name, of ids 139, 5"
    assert problems_with_coco() == [(KEY, "bad_label_value", VAL_JSON, message)]


@pytest.mark.slow
def test_an_image_that_is_there_twice_alike_is_one_example(folder: Path) -> None:
    """Nothing is lost by it; the manifest counts it."""
    write_val([entry(), entry()], [one()])
    assert problems_with_coco() == []
    assert harness.read_all("out")[KEY]["image/object/id"] == [7]
    assert harness.manifest_of("out")["counts"]["label_rows_repeated"] == 1


def test_image_ids_may_be_texts(folder: Path) -> None:
    """As some tools write them."""
    write_val([{**entry(), "id": "000139"}], [one(image_id="000139")])
    assert problems_with_coco() == []
    features = harness.read_all("out")[KEY]
    assert (features["label/image_id"], features["image/object/id"]) == ([b"000139"], [7])


# --- files that cannot be used -------------------------------------------------------------------


def error_of(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    """What a conversion that must fail prints; it leaves no manifest."""
    capsys.readouterr()
    assert harness.convert(*(argv or ("--images", "coco/")), "--output", "out") == 2
    assert not os.path.exists("out/manifest.json")
    error = capsys.readouterr().err
    assert "Traceback" not in error
    return error.splitlines(keepends=True)[-1].replace(f"{os.getcwd()}/", "")


@pytest.mark.slow
def test_a_fault_in_the_middle_is_refused_by_the_job(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The categories come first, and so the job starts; it ends with the reason and without shards."""
    lists = {"categories": CATEGORIES, "images": [entry()], "annotations": [one(), one(id=8)]}
    text = "bbox".join(dumped(lists).rsplit('"bbox"', 1))
    pictures.write_files("coco", {"annotations/instances_val2017.json": text})
    assert error_of(capsys).startswith(
        f"beam-tfrecord: error: {VAL_JSON} is broken: expected a key in quotes "
        f"at byte {text.rindex('bbox')}, near "
    )
    assert [(x["key"], x["reason"]) for x in harness.dead_letters_of("out")] == [
        (f"val2017/{name}", "unlabelled") for name in sorted(VAL)
    ]
    assert harness.shard_names("out") == []


def test_instances_and_key_points_of_the_same_images_contradict_each_other(folder: Path) -> None:
    """Their objects are not put together: images with others than persons are left out."""
    train = [
        f"coco/annotations/{task}_train2017.json" for task in ("instances", "person_keypoints")
    ]
    argv = ("--images", "coco/", "--labels", *train, "--output", "out", "--max_bad_fraction", "1")
    assert harness.convert(*argv) == 0
    others = {image for _, image, category, *_ in TRAIN_OBJECTS if category != 1}
    contradicted = {f"train2017/{name}" for name, (i, _) in TRAIN.items() if i in others}
    assert {
        key for key, reason in harness.reasons_of("out").items() if reason != "unlabelled"
    } == contradicted
    assert set(harness.read_all("out")) == {f"train2017/{name}" for name in TRAIN} - contradicted


def test_files_may_each_have_some_of_the_categories(folder: Path) -> None:
    """An id means what its own file says."""
    other = [{"id": 2, "name": "bicycle"}, {"id": 18, "name": "dog"}]
    train = Path("coco/annotations/instances_train2017.json").read_text()
    write_val(
        [entry(), entry("000000000285.jpg", 285)], [one(), one(image_id=285, category_id=1)], other
    )
    pictures.write_files("coco", {"annotations/instances_train2017.json": train})
    ((key, _, _, message),) = problems_with_coco()
    assert key == "val2017/000000000285.jpg"
    assert message == "annotation 7: category_id 1 is not among the categories"
    assert [c["id"] for c in harness.manifest_of("out")["classes"]] == [1, 2, 3, 18, 67, 90]


# --- what is taken for COCO ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        '{"info": {"year": 2017},"images": []}',
        '\ufeff{\r\n  "licenses": [],\r\n  "images": []\r\n}',
        '{"images":[{"id":0}]}',
        '{"categories": [],\n"images": []}',
        '{"annotations": [{"id": 1}]}\n',
        '{"type": "instances", "images": []}',
    ],
)
def test_a_json_file_of_any_name_is_known_by_its_beginning(tmp_path: Path, text: str) -> None:
    """Whatever tool wrote it."""
    pictures.write_files(str(tmp_path), {"all.json": text})
    labels = f"{tmp_path}/all.json"
    assert Coco().recognise(layout.SourceOptions(("x",), (labels,))) == f"COCO's JSON in {labels}"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("all.json", '{"image": "a.jpg", "label": "cat"}'),
        ("all.json", '{"images": ["a.jpg"], "label": "cat"}'),
        ("all.json", '{"type": "cat", "image": "a.jpg"}'),
        (
            "all.json",
            '{"annotations": [{"id": 1}], "image": "a.jpg"}\n{"annotations": [{"id": 2}]}\n',
        ),
        ("all.jsonl", '{"info": {}}'),
        ("all.csv", "filename,label\na.jpg,cat\n"),
        ("all.json", "[]"),
        ("all.json", ""),
    ],
)
def test_tables_and_other_json_are_not_taken_for_coco(tmp_path: Path, name: str, text: str) -> None:
    """JSON Lines, too, begin with a brace."""
    pictures.write_files(str(tmp_path), {name: text})
    assert Coco().recognise(layout.SourceOptions(("x",), (f"{tmp_path}/{name}",))) == ""


@pytest.mark.parametrize(
    ("path", "split"),
    [
        ("annotations/instances_train2017.json", "train"),
        ("annotations/instances_val2014.json", "validation"),
        ("annotations/instances_valminusminival2014.json", ""),
        ("annotations/instances_default.json", ""),
        ("annotations/instances_trainval.json", ""),
        ("annotations/instances_train_val.json", ""),
        ("annotations/Test.json", "test"),
        ("annotations/my-validation-set.json", "validation"),
        ("test/_annotations.coco.json", "test"),
        ("valid/_annotations.coco.json", "validation"),
        ("Train2017/labels.json", "train"),
        ("valid/train.json", "train"),
        ("export/_annotations.coco.json", ""),
    ],
)
def test_the_split_is_in_the_name_of_the_file_or_its_folder(
    tmp_path: Path, path: str, split: str
) -> None:
    """Words of it, that is; two of them say nothing."""
    pictures.write_files(str(tmp_path / "x"), {path: instances([entry()], [])})
    given = layout.SourceOptions((str(tmp_path),), (str(tmp_path / "x" / path),))
    source, _ = opening.open_source("coco", given)
    assert isinstance(source.labels, layout.FileLabels)
    (uri,) = source.labels.files
    with open(uri, "rb") as file:
        (row,) = source.labels.reader.read(file, uri)
    assert isinstance(row, references.LabelRow)
    assert (row.name, row.split) == ("000000000139.jpg", split)


def test_a_file_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    """As a link to nowhere is one."""
    os.symlink("nowhere", tmp_path / "instances_x.json")
    given = layout.SourceOptions((str(tmp_path),), (str(tmp_path / "instances_x.json"),))
    with pytest.raises(
        errors.UsageError, match=r"instances_x\.json cannot be read: No such file or directory"
    ):
        opening.open_source("coco", given)
