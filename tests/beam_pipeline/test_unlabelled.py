"""Images without labels in whole conversions, read back by every reader."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

import beam_pipeline
from tests.harness import (
    NONE_BAD,
    assert_the_same_bytes_everywhere,
    convert,
    dead_letters_of,
    manifest_of,
    read_all,
    run_convert,
)
from tests.layouts.make_voc import labelimg_xml
from tests.pictures import picture, write_files, write_pictures

NAMES = [f"{i}.jpg" for i in range(6)]
KEEP = ("--unlabelled", "keep", NONE_BAD)


@pytest.fixture
def photos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with six photographs."""
    write_pictures(str(tmp_path / "photos"), NAMES)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def labels_of(folder: str) -> dict[str, dict[str, Any]]:
    """Image -> the features of its labels."""
    prefixes = ("image/class/", "image/label", "label/", "image/object/")
    return {
        name: {key: value for key, value in features.items() if key.startswith(prefixes)}
        for name, features in read_all(folder).items()
    }


def loaded(folder: str) -> list[Any]:
    """The labels of the split train, as `load` gives them, in the stored order."""
    return [label for _, label in beam_pipeline.load(folder, shuffle=False)]


@pytest.mark.slow
def test_images_without_a_row_or_a_label_are_written(photos: Path) -> None:
    """Without label features, the same everywhere; the manifest counts them and has optional features."""
    write_files(".", {"labels.csv": "filename,label,age\n0.jpg,cat,3\n1.jpg,dog,\n2.jpg,,5\n"})
    argv = ("--images", "photos", "--labels", "labels.csv", *KEEP, "--name", "x")
    assert_the_same_bytes_everywhere(*argv)
    nothing = {"image/labelled": [0]}
    cat = {"image/class/label": [0], "image/class/text": [b"cat"], "image/labelled": [1]}
    dog = {"image/class/label": [1], "image/class/text": [b"dog"], "image/labelled": [1]}
    assert labels_of("one") == {
        "0.jpg": {**cat, "label/age": [3]},
        "1.jpg": dog,
        "2.jpg": {**nothing, "label/age": [5]},
        **dict.fromkeys(NAMES[3:], nothing),
    }
    manifest = manifest_of("one")
    assert manifest["options"]["unlabelled"] == "keep"
    assert manifest["counts"]["unlabelled"] == 4
    optional = {key for key, feature in manifest["features"].items() if feature["optional"]}
    assert optional == {"image/class/label", "image/class/text", "label/age"}
    assert dead_letters_of("one") == []
    assert sorted(int(label) for label in loaded("one")) == [-1, -1, -1, -1, 0, 1]


def test_a_folder_without_any_labels(photos: Path) -> None:
    """The error names the option, and with it the images are written."""
    assert (
        "--unlabelled keep writes images without labels"
        in run_convert("--images", "photos", "--output", "none", code=1).err
    )
    assert (
        "  unlabelled: 6 samples, without label features\n"
        in run_convert("--images", "photos", *KEEP, "--output", "out").out
    )
    assert labels_of("out") == {key: {"image/labelled": [0]} for key in NAMES}
    assert manifest_of("out")["classes"] == []
    assert [int(label) for label in loaded("out")] == [-1] * 6


def test_class_folders_beside_images_without_a_class(photos: Path) -> None:
    """Images beside the class folders, and those in a folder `unlabelled`."""
    write_pictures("photos", ["cat/a.jpg", "unlabelled/b.jpg"])
    assert convert("--images", "photos", *KEEP, "--output", "out") == 0
    assert [entry["name"] for entry in manifest_of("out")["classes"]] == ["cat"]
    assert {name for name, labels in labels_of("out").items() if len(labels) > 1} == {"cat/a.jpg"}
    assert manifest_of("out")["counts"]["unlabelled"] == 7


@pytest.mark.slow
def test_numbers_lists_and_objects_without_a_label(photos: Path) -> None:
    """NaN, -1 for each class, and boxes with `labelled` beside them; none is taken for a label."""
    tables = {
        "number.csv": "filename,label\n0.jpg,0.5\n1.jpg,1.5\n",
        "list.jsonl": '{"file_name": "0.jpg", "label": ["a", "b"]}\n{"file_name": "1.jpg", "label": []}\n',
        "boxes.jsonl": '{"file_name": "0.jpg", "objects": {"bbox": [[1, 1, 3, 3]], "category": ["a"]}}\n'
        '{"file_name": "1.jpg", "objects": {"bbox": [], "category": []}}\n',
    }
    write_files(".", tables)
    for table in tables:
        argv = ("--images", "photos", "--labels", table, *KEEP)
        assert convert(*argv, "--output", table.partition(".")[0]) == 0
        assert manifest_of(table.partition(".")[0])["counts"]["unlabelled"] == 4
    numbers = [float(label) for label in loaded("number")]
    assert sorted(number for number in numbers if not math.isnan(number)) == [0.5, 1.5]
    assert len(numbers) == 6
    assert sorted(label.numpy().tolist() for label in loaded("list")) == [
        *([[-1, -1]] * 4),
        [0, 0],
        [1, 1],
    ]
    found = [(int(label["labelled"]), len(label["boxes"])) for label in loaded("boxes")]
    assert sorted(found) == [(0, 0), (0, 0), (0, 0), (0, 0), (1, 0), (1, 1)]
    batch = next(iter(beam_pipeline.load("boxes", shuffle=False, batch_size=6)))
    assert batch[1]["labelled"].shape == (6,)


def test_rows_that_meet_no_image_are_no_unlabelled_images(photos: Path) -> None:
    """A table that names none of the images is the wrong one, and nothing is written."""
    write_files(".", {"labels.csv": "filename,label\nx.jpg,cat\n"})
    argv = ("--images", "photos", "--labels", "labels.csv", "--unlabelled", "keep")
    assert (
        "none of 6 images met one of 1 label rows"
        in run_convert(*argv, "--output", "out", code=1).err
    )


@pytest.mark.slow
def test_paths_of_another_place(photos: Path, capsys: pytest.CaptureFixture[str]) -> None:
    r"""A table made elsewhere, with `C:\` and folders that are not here: said in a note."""
    rows = "".join(f"C:\\data\\pets\\{name},cat\n" for name in NAMES[:5])
    write_files(".", {"labels.csv": f"filename,label\n{rows}"})
    argv = ("--images", "photos", "--labels", "labels.csv", "--name", "x")
    assert_the_same_bytes_everywhere(*argv)
    assert read_all("one").keys() == set(NAMES[:5])
    assert (
        "Note: rows name images in C:/data/pets/; taken are their copies of the same path in --images"
        in capsys.readouterr().out
    )


BOX = {"image/object/class/text": [b"cat"]}
WITHOUT_OBJECTS: dict[str, list[bytes]] = {"image/object/class/text": []}
KITTI_CAT = "cat 0.00 0 1.62 1.00 1.00 5.00 5.00 1.52 1.63 3.88 -4.36 1.71 14.20 1.33\n"
SETS = {
    "yolo": {"labels/a.txt": "0 0.5 0.5 0.25 0.25\n", "classes.txt": "cat\n"},
    "voc": {"annotations/a.xml": labelimg_xml("a.jpg", (9, 7), [("cat", ("1", "1", "5", "5"))])},
    "kitti": {"labels/a.txt": KITTI_CAT},
    "table": {"labels.csv": "filename,class,xmin,ymin,xmax,ymax\na.jpg,cat,1,1,5,5\n"},
    "coco": {
        "x.json": '{"images": [{"id": 1, "file_name": "a.jpg"}], "categories": [{"id": 1, "name": "cat"}], '
        '"annotations": [{"id": 1, "image_id": 1, "category_id": 1, "bbox": [1, 1, 4, 4]}]}'
    },
}


@pytest.mark.parametrize("choice", ["auto", "drop", "keep", "empty"])
@pytest.mark.parametrize("layout", SETS)
def test_every_layout_of_objects_has_one_rule(photos: Path, layout: str, choice: str) -> None:
    """An image that no label file names is left out, but in YOLO's sets, unless the option says otherwise."""
    files = {f"images/{name}.jpg": picture(i, size=(9, 7)) for i, name in enumerate("ab")}
    write_files("set", {**files, **SETS[layout]})
    (labels,) = {name.split("/")[0] for name in SETS[layout]} - {"classes.txt"}
    argv = ["--images", "set/images", "--labels", f"set/{labels}", "--layout", layout]
    if layout == "yolo":
        argv[1:4] = ["set"]
    assert convert(*argv, "--unlabelled", choice, "--output", "out", NONE_BAD) == 0
    objects = {
        key: {name: features[name] for name in (*BOX, "image/labelled") if name in features}
        for key, features in read_all("out").items()
    }
    expected: dict[str, dict[str, Any]] = {
        "drop": {"a.jpg": BOX},
        "keep": {"a.jpg": {**BOX, "image/labelled": [1]}, "b.jpg": {"image/labelled": [0]}},
        "empty": {"a.jpg": BOX, "b.jpg": WITHOUT_OBJECTS},
    }
    by_default = "empty" if layout == "yolo" else "drop"
    assert objects == expected[by_default if choice == "auto" else choice]
    left_out = choice == "drop" or (choice == "auto" and by_default == "drop")
    letters = [(letter["key"], letter["reason"]) for letter in dead_letters_of("out")]
    assert letters == ([("b.jpg", "unlabelled")] if left_out else [])


def test_only_images_of_objects_can_be_without(photos: Path) -> None:
    """A class is not a list that could be empty."""
    write_files(".", {"labels.csv": "filename,label\n0.jpg,cat\n1.jpg,dog\n"})
    argv = ("--images", "photos", "--labels", "labels.csv", "--unlabelled", "empty")
    assert (
        "--unlabelled empty means nothing for the layout table"
        in run_convert(*argv, "--output", "out", code=2).err
    )
