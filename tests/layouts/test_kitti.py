"""KITTI's object detection set, and sets that are kept like it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from beam_pipeline.cli import main
from tests.harness import (
    ALL_BAD,
    NONE_BAD,
    convert,
    dead_letters_of,
    float32,
    manifest_of,
    objects_of,
    read_all,
    sources_of,
)
from tests.layouts.make_boxes import CAR, DONT_CARE, frame
from tests.pictures import write_files


def write_frames(folder: Path, labels: Mapping[str, str | bytes | None]) -> None:
    """training/image_2 and label_2 of frames of 100 x 50 pixels; None is no label file."""
    write_files(
        f"{folder}/training",
        {
            **{f"image_2/{name}.png": frame((100, 50)) for name in labels},
            **{f"label_2/{name}.txt": text for name, text in labels.items() if text is not None},
        },
    )


def expected_objects(
    size: tuple[int, int], lines: Sequence[str], ids: Mapping[str, int]
) -> dict[str, Any]:
    """What an example of these label lines must hold, worked out from the readme's columns."""
    rows = [line.split() for line in lines]
    objects = [row for row in rows if row[0] != "DontCare"]
    ignored = [row for row in rows if row[0] == "DontCare"]
    numbers = {
        "truncated": 1,
        "alpha": 3,
        "3d_bbox/height": 8,
        "3d_bbox/width": 9,
        "3d_bbox/length": 10,
        "3d_bbox/x": 11,
        "3d_bbox/y": 12,
        "3d_bbox/z": 13,
        "3d_bbox/rot_y": 14,
    }
    sides = {"xmin": (4, 0), "ymin": (5, 1), "xmax": (6, 0), "ymax": (7, 1)}
    return {
        "class/text": [row[0].encode() for row in objects],
        "class/label": [ids[row[0]] for row in objects],
        "occluded": [int(row[2]) for row in objects],
        **{key: float32([float(row[at]) for row in objects]) for key, at in numbers.items()},
        **{
            f"{key}/{side}": float32([float(row[at]) / size[axis] for row in found])
            for key, found in (("bbox", objects), ("ignore/bbox", ignored))
            for side, (at, axis) in sides.items()
        },
    }


IDS = {
    "Car": 1,
    "Van": 2,
    "Truck": 3,
    "Pedestrian": 4,
    "Person_sitting": 5,
    "Cyclist": 6,
    "Tram": 7,
    "Misc": 8,
}


def test_real_frames_are_read_to_the_last_digit(samples: Path, tmp_path: Path) -> None:
    """Three frames of KITTI itself: no box is bad, and every number is the label file's."""
    training = samples / "kitti-sample/training"
    argv = ("--images", str(samples / "kitti-sample"), "--output", f"{tmp_path}/out")
    assert convert(*argv, NONE_BAD) == 0
    sizes = {"000000": (1224, 370), "000001": (1242, 375), "000002": (1242, 375)}
    examples = read_all(tmp_path / "out")
    assert {name: len(objects_of(f)["class/text"]) for name, f in examples.items()} == {
        "000000.png": 1,
        "000001.png": 3,
        "000002.png": 2,
    }
    for name, size in sizes.items():
        lines = (training / f"label_2/{name}.txt").read_text().splitlines()
        features = examples[f"{name}.png"]
        assert objects_of(features) == expected_objects(size, lines, IDS)
        assert features["image/encoded"] == [(training / f"image_2/{name}.png").read_bytes()]
    assert len(examples["000001.png"]["image/object/ignore/bbox/xmin"]) == 4


def test_boxes_that_reach_the_last_pixel_or_the_edge_are_good(tmp_path: Path) -> None:
    """KITTI's last pixel is width - 1; exports of other tools end at the width itself."""
    edges = {"a": "0.00 0.00 99.00 49.00", "b": "0.00 0.00 100.00 50.00"}
    write_frames(
        tmp_path, {k: CAR.replace("10.00 20.00 30.00 40.00", box) for k, box in edges.items()}
    )
    assert convert("--images", str(tmp_path), "--output", f"{tmp_path}/out", NONE_BAD) == 0
    boxes = {
        key: [features[f"image/object/bbox/{side}"] for side in ("xmin", "ymin", "xmax", "ymax")]
        for key, features in read_all(tmp_path / "out").items()
    }
    assert boxes == {
        "a.png": [[0.0], [0.0], float32([0.99]), float32([0.98])],
        "b.png": [[0.0], [0.0], [1.0], [1.0]],
    }


def test_an_empty_label_file_is_an_image_without_objects(tmp_path: Path) -> None:
    """It becomes an example whose lists are empty; an image without a label file is unlabelled."""
    write_frames(tmp_path, {"a": CAR, "empty": "", "blank": " \r\n\r\n", "none": None})
    assert convert("--images", str(tmp_path), "--output", f"{tmp_path}/out", NONE_BAD) == 0
    examples = read_all(tmp_path / "out")
    assert sorted(examples) == ["a.png", "blank.png", "empty.png"]
    for name in ("blank.png", "empty.png"):
        assert objects_of(examples[name]) == expected_objects((100, 50), [], {})
    assert [(d["key"], d["reason"]) for d in dead_letters_of(tmp_path / "out")] == [
        ("none.png", "unlabelled")
    ]


def test_a_label_file_that_is_not_kittis_becomes_a_dead_letter(tmp_path: Path) -> None:
    """The image is left out, with the file, the line and what was found there; another goes on."""
    write_frames(tmp_path, {"good": CAR, "bad": f"{CAR}\n\n{CAR.replace('10.00', 'ten')}\n"})
    assert convert("--images", str(tmp_path), "--output", f"{tmp_path}/out", ALL_BAD) == 0
    assert list(read_all(tmp_path / "out")) == ["good.png"]
    assert dead_letters_of(tmp_path / "out") == [
        {
            "stage": "labels",
            "key": "bad.png",
            "uri": f"{tmp_path}/training/image_2/bad.png",
            "reason": "bad_label_value",
            "message": "left is 'ten', expected a number",
            "file": f"{tmp_path}/training/label_2/bad.txt",
            "line": 3,
        }
    ]


def test_objects_and_regions_without_an_area_are_dropped(tmp_path: Path) -> None:
    """The image is written with what is left; the counts add up, for `verify` as well."""
    thin = CAR.replace("10.00 20.00 30.00 40.00", "30 20 30 40")
    region, empty = DONT_CARE.format("5 5 9 9"), DONT_CARE.format("5 5 5 9")
    lines = {"a": f"{thin}\n{CAR}\n{CAR}\n{CAR}\n{CAR}\n{region}\n{empty}\n", "b": thin}
    write_frames(tmp_path, lines)
    assert convert("--images", str(tmp_path), "--output", f"{tmp_path}/out", NONE_BAD) == 0
    examples = read_all(tmp_path / "out")
    assert objects_of(examples["a.png"]) == expected_objects(
        (100, 50), [CAR, CAR, CAR, CAR, region], IDS
    )
    assert objects_of(examples["b.png"]) == expected_objects((100, 50), [], {})
    label = f"{tmp_path}/training/label_2"
    assert [
        (d["key"], d["reason"], d["file"], d["line"]) for d in dead_letters_of(tmp_path / "out")
    ] == [
        ("a.png", "empty_box", f"{label}/a.txt", 1),
        ("a.png", "empty_box", f"{label}/a.txt", 7),
        ("b.png", "empty_box", f"{label}/b.txt", 1),
    ]
    counts = manifest_of(tmp_path / "out")["counts"]
    assert [
        counts[name] for name in ("listed_images", "dropped_objects", "examples", "dead_letters")
    ] == [2, 3, 2, 3]
    assert main(["verify", f"{tmp_path}/out"]) == 0


def test_impossible_boxes_and_lone_files_become_dead_letters(tmp_path: Path) -> None:
    """Inverted boxes and boxes outside, of objects and of DontCare, name file and line; a label
    file without an image and an image without a label file are said; the counts add up."""
    boxes = {
        "inverted": f"{CAR}\n{CAR.replace('10.00 20.00 30.00 40.00', '30 20 10 40')}",
        "outside": CAR.replace("10.00 20.00 30.00 40.00", "110 20 130 40"),
        "reaches": CAR.replace("10.00 20.00 30.00 40.00", "90 20 105 40"),
        "dontcare": f"{CAR}\n\n{DONT_CARE.format('5 5 4 9')}\n",
    }
    write_frames(tmp_path, {"good": CAR, "bare": None, **boxes})
    write_files(str(tmp_path), {"training/label_2/000099.txt": CAR})
    assert convert("--images", str(tmp_path), "--output", f"{tmp_path}/out", ALL_BAD) == 0
    label = f"{tmp_path}/training/label_2"
    assert sources_of(tmp_path / "out") == {
        "inverted.png": ("bad_box", f"{label}/inverted.txt", 2),
        "outside.png": ("bad_box", f"{label}/outside.txt", 1),
        "reaches.png": ("bad_box", f"{label}/reaches.txt", 1),
        "dontcare.png": ("bad_box", f"{label}/dontcare.txt", 3),
        "bare.png": ("unlabelled", "", 0),
        "000099": ("missing_image", f"{label}/000099.txt", 0),
    }
    counts = manifest_of(tmp_path / "out")["counts"]
    assert (counts["listed_images"], counts["examples"], counts["dead_letters"]) == (6, 1, 6)
