"""KITTI's object detection set, and sets that are kept like it."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from beam_pipeline.cli import main
from beam_pipeline.core.references import LabelRow
from beam_pipeline.layouts.kitti import COLUMNS, KittiFormat
from beam_pipeline.layouts.label_files import LabelFileReader, Place
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


URI = "/data/label_2/000007.txt"


BAD_LINES: dict[str, tuple[str | bytes, str]] = {
    "columns14": (
        CAR.rpartition(" ")[0],
        "14 columns, expected the 15 of KITTI's labels: type, truncated, occluded, alpha, left, "
        "top, right, bottom, height, width, length, x, y, z, rotation_y",
    ),
    "score": (
        f"{CAR} 0.97",
        "16 columns, expected the 15 of KITTI's labels: type, truncated, occluded, alpha, left, "
        "top, right, bottom, height, width, length, x, y, z, rotation_y; a 16th is the score of a "
        "detector's results, which are not labels",
    ),
    "text": (CAR.replace("10.00", "ten"), "left is 'ten', expected a number"),
    "nan": (CAR.replace("14.20", "nan"), "z is 'nan', expected a number"),
    "infinite": (CAR.replace("40.00", "inf"), "bottom is 'inf', expected a number"),
    "large": (CAR.replace("1.33", "1e39"), "rotation_y is '1e39', expected a number"),
    "underscore": (CAR.replace("40.00", "4_0"), "bottom is '4_0', expected a number"),
    "fraction": (CAR.replace(" 0 ", " 0.5 "), "occluded is '0.5', expected an integer"),
    "ignored": (DONT_CARE.format("1 2 3 x"), "bottom is 'x', expected a number"),
    "latin1": (
        CAR.replace("Car", "V\xe9lo").encode("latin-1"),
        "b'V\\xe9lo 0.00 0 1.62 10.00 20.00 30.00 40.00 1.52 1.63 3.88 -4.36 1.71 14.20... is not UTF-8; save it as UTF-8",
    ),
    "utf16": (
        f"{CAR}\n".encode("utf-16"),
        "b'\\xff\\xfeC\\x00a\\x00r\\x00 \\x000\\x00.\\x000\\x000\\x00 \\x000\\x00 \\x001\\x00.\\x006\\... is not UTF-8; save it as UTF-8",
    ),
    "number_latin1": (
        CAR.encode().replace(b"20.00", b"\xb2"),
        "b'Car 0.00 0 1.62 10.00 \\xb2 30.00 40.00 1.52 1.63 3.88 -4.36 1.71 14.20 1.33' is not UTF-8; save it as UTF-8",
    ),
}


"""name -> (line, what is wrong with it)."""


def parse_labels(data: bytes, uri: str) -> LabelRow:
    """The row of a label file."""
    folder = uri.rpartition("/")[0]
    (row,) = LabelFileReader(KittiFormat(), (Place(folder, bare=True),)).read(io.BytesIO(data), uri)
    assert isinstance(row, LabelRow)
    return row


@pytest.mark.parametrize(("line", "problem"), BAD_LINES.values(), ids=BAD_LINES)
def test_a_line_that_is_not_kittis_is_the_rows_problem(line: str | bytes, problem: str) -> None:
    """The row names the line and what was found there, and has no values."""
    data = line.encode() if isinstance(line, str) else line
    number = 1
    if not data.startswith(b"\xff\xfe"):  # UTF-16 is not to be had in the middle of a file
        data, number = f"{CAR}\n\n".encode() + data, 3
    assert parse_labels(data, URI) == LabelRow(
        name="000007", values=((),) * len(COLUMNS), split="", file=URI, line=number, problem=problem
    )


def test_a_label_file_is_one_row() -> None:
    """The row is named by the file, boxes carry their lines, and DontCare regions come last."""
    data = f"{DONT_CARE.format('1 2 3 4')}\n{CAR}\n".encode()
    assert parse_labels(data, URI) == LabelRow(
        name="000007",
        values=(
            ((10.0, 20.0, 30.0, 40.0, 2),),
            ("Car",),
            (0.0,),
            (0,),
            (1.62,),
            *((1.52,), (1.63,), (3.88,), (-4.36,), (1.71,), (14.2,), (1.33,)),
            ((1.0, 2.0, 3.0, 4.0, 1),),
        ),
        split="",
        file=URI,
        line=0,
    )


@pytest.mark.parametrize(
    "data",
    [
        f"{CAR}\r\n{CAR}\r\n",
        f"{CAR}   \n{CAR}",
        f"\ufeff{CAR}\n{CAR}\n",
        f"{CAR}\r{CAR}\r",
        "{}\n{}\n".format(*[CAR.replace(" ", "\t")] * 2),
        f"  {CAR}\n{CAR}\n",
    ],
)
def test_line_ends_blanks_and_a_byte_order_mark_do_not_count(data: str) -> None:
    """Windows', old Macs' and missing line ends, trailing blanks and tabs read as KITTI's own do."""
    assert parse_labels(data.encode(), URI) == parse_labels(f"{CAR}\n{CAR}\n".encode(), URI)


def test_dontcare_in_lower_case_is_no_object_either() -> None:
    """NVIDIA's tools write dontcare."""
    row = parse_labels(DONT_CARE.format("1 2 3 4").lower().encode(), "a.txt")
    assert row.values == (*[()] * (len(COLUMNS) - 1), ((1.0, 2.0, 3.0, 4.0, 1),))
    assert row.problem == ""
