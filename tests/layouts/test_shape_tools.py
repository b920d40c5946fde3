"""LabelMe, Supervisely, CVAT and VIA."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import pytest

from tests import harness
from tests.layouts import make_shape_tools as tools
from tests.layouts import parsers, proofs
from tests.layouts.make_label_tools import exported
from tests.pictures import write_files

CVAT = exported("cvat")["annotations.xml"]


def written(output: Path) -> dict[str, list[tuple[str, tuple[float, ...]]]]:
    """Name of an image without folder and extension -> class and box of each object, in pixels."""
    samples = proofs.written(str(output), {})
    return {
        Path(key).stem: [(label, tuple(box)) for label, *box in values.get(parsers.OBJECTS, ())]
        for key, (_, values) in samples.items()
    }


# --- conversions ----------------------------------------------------------------------------------


def emptied(text: str, inside: str = "") -> str:
    """An export without shapes; with an element in each image of CVAT."""
    if text.startswith("<"):
        return re.sub(r"(?s)(<image [^>]*>\n).*?(?=  </image>)", rf"\1{inside}", text)
    lists = dict.fromkeys(("shapes", "objects", "regions"), ())
    return json.dumps(
        json.loads(text, object_hook=lambda each: {k: lists.get(k, v) for k, v in each.items()})
    )


@pytest.mark.parametrize(
    ("tool", "option", "classes"),
    [
        ("labelme", (), {"4": [b"night"]}),
        ("supervisely", ("--unlabelled", "keep"), {"4": [b"night"]}),
        ("cvat", (), {name: [b"day"] for name in ("yard 1", "2", "3", "4")}),
        ("via", (), {"4": [b"yes"]}),
    ],
)
def test_images_without_shapes_have_the_class_of_their_tag(
    tmp_path: Path,
    tool: str,
    option: tuple[str, ...],
    classes: dict[str, list[bytes]],
) -> None:
    """Flags of LabelMe, tags of Supervisely and CVAT, file attributes of VIA; without one they are unlabelled."""
    place = "/img/" if tool == "supervisely" else "/"
    images = {name.replace("/", place): data for name, data in tools.images().items()}
    tag = '    <tag label="day" source="manual"></tag>\n'
    export = {name: emptied(text, tag) for name, text in exported(tool).items()}
    files = {**export, **images}
    write_files(f"{tmp_path}/set", files)
    argv = ("--images", f"{tmp_path}/set", "--output", f"{tmp_path}/out", harness.ALL_BAD, *option)
    assert harness.convert(*argv) == 0
    found = {
        Path(key).stem: features["image/class/text"]
        for key, features in harness.read_all(tmp_path / "out").items()
        if "image/class/text" in features
    }
    assert found == classes
    unlabelled = [
        d["key"] for d in harness.dead_letters_of(tmp_path / "out") if d["reason"] == "unlabelled"
    ]
    assert len(unlabelled) == (0 if option else 5 - len(classes))


@pytest.mark.parametrize(
    ("angle", "box"),
    [("90.0", (13.0, 7.0, 17.0, 17.0)), ("360", (10.0, 10.0, 20.0, 14.0)), ("45", None)],
)
def test_a_turned_box_of_cvat(tmp_path: Path, angle: str, box: tuple[float, ...] | None) -> None:
    """It turns around its centre; the box around it is written."""
    place = 'xtl="10" ytl="10" xbr="20" ybr="14"'
    element = f'<box label="car" occluded="1" {place} rotation="{angle}" z_order="0"></box>\n'
    files = tools.images()
    files["a.xml"] = emptied(CVAT, element)
    write_files(f"{tmp_path}/set", files)
    assert (
        harness.convert(
            "--images", f"{tmp_path}/set", "--output", f"{tmp_path}/out", harness.ALL_BAD
        )
        == 0
    )
    ((label, around),) = written(tmp_path / "out")["2"]
    half = (10 + 4) / 2 / math.sqrt(2)
    expected = box or (15 - half, 12 - half, 15 + half, 12 + half)
    assert (label, around) == ("car", pytest.approx(expected, abs=1e-3))


# --- recognition ----------------------------------------------------------------------------------


def test_label_files_of_labelme_may_be_elsewhere(tmp_path: Path) -> None:
    """In a folder beside that of the images, or one that --labels names; other JSON is a fault of no image."""
    files = tools.images()
    beside = {f"data/images/{name}": data for name, data in files.items()}
    labels = exported("labelme")
    write_files(str(tmp_path), {**beside, **{f"data/json/{n}": text for n, text in labels.items()}})
    write_files(f"{tmp_path}/notes", {**labels, "train/config.json": "{}"})
    for number, argv in enumerate(
        [
            ("--images", f"{tmp_path}/data"),
            ("--images", f"{tmp_path}/data/images", "--labels", f"{tmp_path}/notes"),
        ]
    ):
        output = tmp_path / f"out{number}"
        assert harness.convert(*argv, "--output", str(output), harness.ALL_BAD) == 0
        assert written(output).keys() == {"yard 1", "2", "3", "4"}
        assert set(harness.split_of_each(output).values()) == {"train", "test"}
    reasons = [(d["key"], d["reason"]) for d in harness.dead_letters_of(output)]
    assert sorted(reasons) == [("test/5.jpg", "unlabelled"), ("train/config", "missing_image")]


def test_data_sets_of_supervisely_may_be_nested(tmp_path: Path) -> None:
    """In `datasets` of another one; the first folder is the split, if it is called like one."""
    image = tools.images()["train/2.jpg"]
    for folder in ("test", "test/datasets/a[1]", "test/datasets/b"):
        name = folder.replace("/", "_")
        label = exported("supervisely")["test/ann/4.jpg.json"]
        files = {f"img/{name}.jpg": image, f"ann/{name}.jpg.json": label}
        write_files(f"{tmp_path}/set/{folder}", files)
    assert harness.convert("--images", f"{tmp_path}/set", "--output", f"{tmp_path}/out") == 0
    assert harness.split_of_each(tmp_path / "out") == {
        "test/img/test.jpg": "test",
        "test/datasets/a[1]/img/test_datasets_a[1].jpg": "test",
        "test/datasets/b/img/test_datasets_b.jpg": "test",
    }


def test_the_attribute_that_is_the_class_may_have_any_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where several could be it, --label_column tells; a single one is not asked about, and none is `object`."""
    rect = {"name": "rect", "x": 1, "y": 2, "width": 3, "height": 4}
    for given, label in (
        ({"kind": "cat", "place": "yard"}, b"yard"),
        ({"kind": "cat", "class": "dog"}, b"dog"),
        ({"kind": "cat"}, b"cat"),
        ({}, b"object"),
    ):
        region = {"shape_attributes": rect, "region_attributes": given}
        entry = {
            "filename": "train/2.jpg",
            "size": 1,
            "regions": {"0": region},
            "file_attributes": {},
        }
        write_files(f"{tmp_path}/set", {**tools.images(), "a.json": json.dumps({"2.jpg1": entry})})
        output = tmp_path / label.decode()
        argv = ("--images", f"{tmp_path}/set", "--output", str(output), harness.ALL_BAD)
        if label == b"yard":
            assert harness.convert_asking(*argv) == 2
            message = "which attribute is the class of a region? Give --label_column, one of 'kind', 'place'"
            assert message in capsys.readouterr().err
            argv = (*argv, "--label_column", "place")
        assert harness.convert_asking(*argv) == 0
        (features,) = harness.read_all(output).values()
        assert features["image/object/class/text"] == [label]


# --- faults ---------------------------------------------------------------------------------------


UNUSABLE = {
    "video": (
        CVAT.replace("</annotations>", '<track id="0" label="car"></track></annotations>'),
        'contains the tracks of "CVAT for video"; export it as "CVAT for images 1.1"',
    ),
    "doctype": (
        CVAT.replace("<annotations>", "<!DOCTYPE annotations>\n<annotations>"),
        "is broken: line 2: a document type (<!DOCTYPE>) may fill the memory",
    ),
    "cut": (CVAT[:700], "is broken: line 15: not well-formed XML: unclosed token"),
    "encoding": (
        CVAT.replace('"utf-8"', '"gb2312"'),
        "is broken: line 1: XML that cannot be read: multi-byte encodings",
    ),
    "other": ("<photos/>", "the root element is <photos>, expected <annotations>"),
    "cut project": (exported("via")["via_project.json"][:700], "is broken: "),
    "latin-1": (
        exported("via_csv")["via_region_data.csv"].replace("\\u00f6", "\xf6").encode("latin-1"),
        "after line 2: 'utf-8'",
    ),
}


@pytest.mark.parametrize(("text", "message"), UNUSABLE.values(), ids=UNUSABLE)
def test_a_broken_file_of_many_images_ends_the_run(
    tmp_path: Path, text: str | bytes, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """As the images that it would name are unknown."""
    start = text[:9] if isinstance(text, bytes) else text[:9].encode()
    name = "a.csv" if start == b"filename," else "a.json" if start[:1] == b"{" else "a.xml"
    write_files(f"{tmp_path}/set", {**tools.images(), name: text})
    argv = ("--images", f"{tmp_path}/set", "--labels", f"{tmp_path}/set/{name}")
    layout = "cvat" if name == "a.xml" else "via"
    assert harness.convert(*argv, "--layout", layout, "--output", f"{tmp_path}/out") == 2
    assert f"{tmp_path}/set/{name}" in (error := capsys.readouterr().err)
    assert message in error


def test_lines_and_points_are_asked_about(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As no box is made of them."""
    line = '<polyline label="car" points="1,2;3,4"/><points label="car" points="1,2"/><skeleton label="a"/>'
    content = CVAT.replace("    <mask", f"{line}<cuboid label='a'/>\n    <mask")
    write_files(f"{tmp_path}/set", {**tools.images(), "a.xml": content})
    argv = ("--images", f"{tmp_path}/set", "--output", f"{tmp_path}/out", harness.ALL_BAD)
    assert harness.convert_asking(*argv) == 2
    error = capsys.readouterr().err
    assert all(f"1 {kind}" in error for kind in ("cuboid", "line", "point", "skeleton"))
    assert harness.convert(*argv) == 0
    assert [label for label, _ in written(tmp_path / "out")["2"]] == ["car", "car"]
