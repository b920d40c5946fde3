"""Masks, key points and LVIS's lists of categories in COCO's files, up to examples."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from beam_pipeline.layouts.coco.tasks import Instances
from beam_pipeline.layouts.label_files import BadLabelError
from tests.harness import (
    ALL_BAD,
    NONE_BAD,
    convert,
    dead_letters_of,
    float32,
    manifest_of,
    read_all,
)
from tests.pictures import picture, write_files

CATEGORIES = [
    {"id": 1, "name": "person", "keypoints": ["nose", "left_eye"]},
    {"id": 7, "name": "mug"},
]
SQUARE = [[1, 0, 3, 0, 3, 2, 1, 2]]
RUNS = {"size": [4, 8], "counts": [4, 2, 26]}


def entry(name: str = "a.png", image_id: int = 5, **changes: Any) -> dict[str, Any]:
    return {"id": image_id, "file_name": name, "width": 8, "height": 4, **changes}


def one(object_id: int, **changes: Any) -> dict[str, Any]:
    fields = {"image_id": 5, "category_id": 1, "bbox": [1, 0, 2, 2], "segmentation": SQUARE}
    return {"id": object_id, **fields, **changes}


def write(name: str, images: list[dict[str, Any]], annotations: list[dict[str, Any]]) -> None:
    whole = {"images": images, "annotations": annotations, "categories": CATEGORIES}
    write_files("coco", {f"annotations/{name}": json.dumps(whole)})
    write_files("coco", {"a.png": picture(1, file_format="PNG", size=(8, 4))})


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def convert_coco(*argv: str, bad: str = NONE_BAD) -> dict[str, Any]:
    assert convert("--images", "coco", *argv, "--output", "out", bad) == 0
    return read_all("out")


def test_polygons_and_run_lengths_become_masks() -> None:
    """PNGs of the image's size, in the order of the objects; without the option there are none."""
    write("instances_val.json", [entry()], [one(1), one(2, segmentation=RUNS, iscrowd=1)])
    assert "image/object/mask" not in convert_coco()["a.png"]
    found = convert_coco("--object_features", "masks", "--overwrite")["a.png"]
    masks = []
    for png in found["image/object/mask"]:
        with Image.open(io.BytesIO(png)) as mask:
            assert (mask.format, mask.mode, mask.size) == ("PNG", "L", (8, 4))
            masks.append(mask.tobytes())
    square = b"\0\1\1\0\0\0\0\0"
    runs = b"\0\1\0\0\0\0\0\0"
    assert masks == [square * 2 + b"\0" * 16, runs * 2 + b"\0" * 16]
    assert found["image/object/id"] == [1, 2]


def test_masks_that_cannot_be_drawn() -> None:
    """Each is a dead letter of its image, which says what is wrong."""
    write(
        "instances_val.json",
        [entry(), entry("b.png", 6), entry("c.png", 7)],
        [
            one(1, segmentation=None),
            one(2, image_id=6, segmentation={"size": [2, 2], "counts": [4]}),
            one(3, image_id=7, segmentation=[[float("nan")] * 6]),
        ],
    )
    write_files(
        "coco", {name: picture(1, file_format="PNG", size=(8, 4)) for name in ("b.png", "c.png")}
    )
    assert convert_coco("--object_features", "masks", bad=ALL_BAD) == {}
    assert {x["key"]: (x["reason"], x["message"]) for x in dead_letters_of("out")} == {
        "a.png": (
            "bad_label_value",
            "annotation 1: segmentation None is neither polygons nor run lengths",
        ),
        "b.png": (
            "size_mismatch",
            "a mask of 2 x 2 pixels, the image has 8 x 4; take the image that was labelled, or scale "
            "the mask",
        ),
        "c.png": (
            "bad_label_value",
            "annotation 3: segmentation [[nan, nan, nan, nan, nan, nan]] is a polygon that is not a "
            "list of numbers",
        ),
    }


def test_key_points() -> None:
    """Places as fractions, all points of all objects one behind another, and zeros where none are."""
    points = [4, 1, 2, 0, 0, 0]
    write("instances_val.json", [entry()], [])
    write("person_keypoints_val.json", [entry()], [one(1, keypoints=points), one(2)])
    found = convert_coco("--object_features", "keypoints")["a.png"]
    assert found["image/object/keypoint/x"] == [0.5, 0, 0, 0]
    assert found["image/object/keypoint/y"] == [0.25, 0, 0, 0]
    assert found["image/object/keypoint/visibility"] == [2, 0, 0, 0]
    assert found["image/object/keypoint/num"] == [1, 0]
    assert found["image/object/keypoint/text"] == [b"nose", b"left_eye"] * 2
    assert found["image/object/bbox/xmax"] == float32([3 / 8] * 2)
    both = convert_coco("--object_features", "keypoints", "masks", "--overwrite")["a.png"]
    assert len(both.pop("image/object/mask")) == 2
    assert both == found


@pytest.mark.slow
def test_an_image_without_objects_has_empty_lists() -> None:
    """Of every further feature."""
    write("person_keypoints_val.json", [entry()], [])
    found = convert_coco("--object_features", "keypoints", "masks")["a.png"]
    for key in ("mask", "keypoint/x", "keypoint/y", "keypoint/num", "keypoint/text"):
        assert found[f"image/object/{key}"] == []


@pytest.mark.parametrize(
    ("points", "problem"),
    [
        ([1, 2, 2], "3 numbers of keypoints, expected x, y and visibility of 2"),
        ([1, 2, 2, 1, 2, "x"], "keypoints [1, 2, 2, 1, 2, 'x'] are not a list of numbers"),
        ("x", "keypoints 'x' are not a list of numbers"),
    ],
)
def test_key_points_that_are_wrong(points: Any, problem: str) -> None:
    """What was found, and what was expected."""
    with pytest.raises(BadLabelError) as caught:
        Instances(keypoints=("a", "b")).parse(one(1, keypoints=points))
    assert str(caught.value) == problem


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (
            ("--object_features", "keypoints", "--labels", "coco/annotations/mugs.json"),
            "have key points in no category; name person_keypoints_*.json with --labels",
        ),
        (
            ("--object_features", "keypoints"),
            "--images coco: no annotations/person_keypoints_*.json below it",
        ),
        (("--object_features", "poses"), "--object_features is 'poses', expected one of (masks,"),
    ],
)
def test_features_that_the_files_do_not_have(
    argv: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Are an error, not an empty list."""
    write("instances_val.json", [entry()], [one(1)])
    mugs = {"images": [entry()], "annotations": [one(1)], "categories": CATEGORIES[1:]}
    write_files("coco/annotations", {"mugs.json": json.dumps(mugs)})
    layout = ("--layout", "coco")
    assert convert("--images", "coco", *layout, *argv, "--output", "out") == 2
    assert message in capsys.readouterr().err


def test_lvis() -> None:
    """Images by coco_url, and the categories that were looked for and not found."""
    image = entry(coco_url="http://images.cocodataset.org/val2017/a.png", neg_category_ids=[7, 3])
    del image["file_name"]
    write("lvis_v1_val.json", [{**image, "not_exhaustive_category_ids": []}], [one(1)])
    found = convert_coco("--labels", "coco/annotations/lvis_v1_val.json")["a.png"]
    assert found["image/neg_category_ids"] == [7, 3]
    assert found["image/not_exhaustive_category_ids"] == []
    assert found["image/object/class/label"] == [1]
    assert manifest_of("out")["splits"].keys() == {"validation"}


@pytest.mark.slow
def test_an_image_of_another_size_than_its_entry_says() -> None:
    """It is left out; one of an unknown size is taken."""
    write(
        "instances_val.json",
        [entry(width=16, height=8), entry("b.png", 6, width=0), entry("c.png", 7, height="x")],
        [one(1)],
    )
    write_files(
        "coco", {name: picture(1, file_format="PNG", size=(8, 4)) for name in ("b.png", "c.png")}
    )
    assert sorted(convert_coco(bad=ALL_BAD)) == ["b.png", "c.png"]
    (dead_letter,) = dead_letters_of("out")
    assert (dead_letter["key"], dead_letter["reason"]) == ("a.png", "size_mismatch")
    assert dead_letter["message"].startswith(
        "the label file is for an image of 16 x 8 pixels, this one"
    )
    assert dead_letter["file"].endswith("annotations/instances_val.json")
