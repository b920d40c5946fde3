"""LabelMe, Supervisely, CVAT and VIA."""

from __future__ import annotations

import io
import json
import math
import pickle
import shutil
import tracemalloc
from collections.abc import Iterator, Mapping
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import pytest

from beam_pipeline.core.references import LabelRow
from beam_pipeline.layouts.image_records import (
    FileRows,
    ImageFileLayout,
    RecordColumns,
    RecordReader,
)
from beam_pipeline.layouts.label_files import LabelFileReader, Place
from beam_pipeline.layouts.shape_tools import Cvat, LabelMe, Supervisely, Via
from tests.harness import (
    ALL_BAD,
    convert,
    convert_asking,
    dead_letters_of,
    objects_of,
    read_all,
    split_of_each,
)
from tests.layouts import make_shape_tools as tools
from tests.layouts.make_shape_tools import SCENES, SIZE, Drawn
from tests.pictures import write_files

TOOLS = ("labelme", "supervisely", "cvat", "via")
MASKS = ("--object_features", "masks")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data set of each tool."""
    folder = tmp_path_factory.mktemp("tools")
    tools.make_shape_tools(str(folder))
    files = {**tools.images(), "via_region_data.csv": tools.via_csv(SCENES)}
    write_files(f"{folder}/via_csv", files)
    exported = {**tools.images(), "via_region_data.json": json.dumps(tools.via(SCENES))}
    write_files(f"{folder}/via_json", exported)
    return folder


# --- independent readers --------------------------------------------------------------------------

Boxes = dict[str, list[tuple[str, tuple[float, ...]]]]
"""Name of an image without folder and extension -> class and box of each object."""


def written(output: Path) -> Boxes:
    """What the examples contain, in pixels."""
    boxes: Boxes = {}
    for key, features in read_all(output).items():
        objects = objects_of(features)
        sides = [objects.get(f"bbox/{side}", []) for side in ("xmin", "ymin", "xmax", "ymax")]
        labels = [label.decode() for label in objects.get("class/text", [])]
        in_pixels = [
            tuple(round(value * SIZE[i % 2], 4) for i, value in enumerate(box))
            for box in zip(*sides, strict=True)
        ]
        boxes[Path(key).stem] = list(zip(labels, in_pixels, strict=True))
    return boxes


# --- conversions ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tool", "content", "option", "classes"),
    [
        ("labelme", None, (), {"4": [b"night"]}),
        ("supervisely", None, ("--unlabelled", "keep"), {"4": [b"night"]}),
        ("cvat", None, (), {name: [b"day"] for name in ("yard 1", "2", "3", "4")}),
        ("via", None, (), {"4": [b"yes"]}),
    ],
)
def test_images_without_shapes_have_the_class_of_their_tag(
    tmp_path: Path,
    tool: str,
    content: Any,
    option: tuple[str, ...],
    classes: dict[str, list[bytes]],
) -> None:
    """Flags of LabelMe, tags of Supervisely and CVAT, file attributes of VIA; without one they are unlabelled."""
    scenes: Mapping[str, tuple[Drawn, ...]] = dict.fromkeys(SCENES, ())
    files = tools.images()
    if tool == "cvat":
        files["a.xml"] = tools.cvat(scenes, '    <tag label="day" source="manual"></tag>\n')
    elif tool == "via":
        files["a.json"] = tools.via_project(scenes)
    elif tool == "labelme":
        files |= {f"{name}.json": tools.labelme(name, ()) for name in scenes}
    else:
        files = {name.replace("/", "/img/"): data for name, data in files.items()}
        for name in scenes:
            files[f"{name.replace('/', '/ann/')}.jpg.json"] = tools.supervisely(name, ())
    write_files(f"{tmp_path}/set", files)
    argv = ("--images", f"{tmp_path}/set", "--output", f"{tmp_path}/out", ALL_BAD, *option)
    assert convert(*argv) == 0
    found = {
        Path(key).stem: features["image/class/text"]
        for key, features in read_all(tmp_path / "out").items()
        if "image/class/text" in features
    }
    assert found == classes
    unlabelled = [
        d["key"] for d in dead_letters_of(tmp_path / "out") if d["reason"] == "unlabelled"
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
    files["a.xml"] = tools.cvat({"train/2": ()}, element)
    write_files(f"{tmp_path}/set", files)
    assert convert("--images", f"{tmp_path}/set", "--output", f"{tmp_path}/out", ALL_BAD) == 0
    ((label, around),) = written(tmp_path / "out")["2"]
    half = (10 + 4) / 2 / math.sqrt(2)
    expected = box or (15 - half, 12 - half, 15 + half, 12 + half)
    assert (label, around) == ("car", pytest.approx(expected, abs=1e-3))


# --- recognition ----------------------------------------------------------------------------------


def test_label_files_of_labelme_may_be_elsewhere(made: Path, tmp_path: Path) -> None:
    """In a folder beside that of the images, or one that --labels names; other JSON is a fault of no image."""
    files = tools.images()
    beside = {f"data/images/{name}": data for name, data in files.items()}
    labels = {f"{name}.json": tools.labelme(name, shapes) for name, shapes in SCENES.items()}
    write_files(str(tmp_path), {**beside, **{f"data/json/{n}": text for n, text in labels.items()}})
    write_files(f"{tmp_path}/notes", {**labels, "train/config.json": "{}"})
    for number, argv in enumerate(
        [
            ("--images", f"{tmp_path}/data"),
            ("--images", f"{tmp_path}/data/images", "--labels", f"{tmp_path}/notes"),
        ]
    ):
        output = tmp_path / f"out{number}"
        assert convert(*argv, "--output", str(output), ALL_BAD) == 0
        assert written(output).keys() == {"yard 1", "2", "3", "4"}
        assert set(split_of_each(output).values()) == {"train", "test"}
    reasons = [(d["key"], d["reason"]) for d in dead_letters_of(output)]
    assert sorted(reasons) == [("test/5.jpg", "unlabelled"), ("train/config", "missing_image")]


def test_data_sets_of_supervisely_may_be_nested(tmp_path: Path) -> None:
    """In `datasets` of another one; the first folder is the split, if it is called like one."""
    image = tools.images()["train/2.jpg"]
    for folder in ("test", "test/datasets/a[1]", "test/datasets/b"):
        name = folder.replace("/", "_")
        label = tools.supervisely("x", [BOX])
        files = {f"img/{name}.jpg": image, f"ann/{name}.jpg.json": label}
        write_files(f"{tmp_path}/set/{folder}", files)
    assert convert("--images", f"{tmp_path}/set", "--output", f"{tmp_path}/out") == 0
    assert split_of_each(tmp_path / "out") == {
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
        argv = ("--images", f"{tmp_path}/set", "--output", str(output), ALL_BAD)
        if label == b"yard":
            assert convert_asking(*argv) == 2
            message = "which attribute is the class of a region? Give --label_column, one of 'kind', 'place'"
            assert message in capsys.readouterr().err
            argv = (*argv, "--label_column", "place")
        assert convert_asking(*argv) == 0
        (features,) = read_all(output).values()
        assert features["image/object/class/text"] == [label]


# --- faults ---------------------------------------------------------------------------------------

BOX = SCENES["test/4"][0]
MASK = SCENES["train/2"][1]
GOOD_LABELME, GOOD_SUPERVISELY = (
    tools.labelme("train/2", [BOX]),
    tools.supervisely("train/2", [BOX]),
)


CIRCLE = {"name": "circle", "cx": 9, "cy": 9, "r": 2}
REGION = {"shape_attributes": CIRCLE, "region_attributes": {"a": "b"}}


def _of_via(*regions: Any) -> str:
    """Two images, the second as it should be."""
    entries = {}
    for name, given in ("2", list(regions)), ("3", [REGION]):
        entries[f"{name}.jpg1"] = {
            "filename": f"train/{name}.jpg",
            "size": 1,
            "regions": given,
            "file_attributes": {},
        }
    return json.dumps(entries)


def _of_cvat(*shapes: Drawn, inside: str = "") -> str:
    """Two images, the second as it should be."""
    faulty = tools.cvat({"train/2": shapes}, inside).replace("</annotations>\n", "")
    sound = tools.cvat({"train/3": [BOX]})
    return faulty + sound[sound.index("  <image") :]


FAULTS: dict[str, tuple[str, str, int, str]] = {
    "labelme cut": ("labelme", GOOD_LABELME[:60], 5, "not JSON, as LabelMe's JSON is: Expecting"),
    "labelme list": ("labelme", "[1]", 0, "[1]: expected an object with a list of shapes"),
    "labelme kind": (
        "labelme",
        GOOD_LABELME.replace("rectangle", "blob"),
        0,
        "shape 1: shape_type is 'blob', which LabelMe does not have"
    ),
    "labelme points": (
        "labelme",
        GOOD_LABELME.replace("0.0", '"x"', 1),
        0,
        "shape 1: ['x', 0.0]: expected x and y"
    ),
    "labelme label": ("labelme", GOOD_LABELME.replace('"person"', "3"), 0, "shape 1: 3: expected"),
    "labelme polygon": (
        "labelme",
        GOOD_LABELME.replace("rectangle", "polygon"),
        0,
        "shape 1: an outline of 2 points, expected 3 or more"
    ),
    "labelme mask": (
        "labelme",
        GOOD_LABELME.replace("rectangle", "mask").replace('"mask": null', '"mask": "!"'),
        0,
        "shape 1: a mask that is not a PNG in base64"
    ),
    "labelme mask outside": (
        "labelme",
        tools.labelme("train/2", [Drawn("car", "mask", (38, 4))]),
        0,
        "object 1 ('car'): a mask of 5 x 3 pixels at 38, 4, outside of the image of 40 x 30"
    ),
    "supervisely kind": (
        "supervisely",
        GOOD_SUPERVISELY.replace('"rectangle"', "null"),
        0,
        "object 1: "
    ),
    "supervisely bitmap": (
        "supervisely",
        tools.supervisely("train/2", [MASK]).replace('"data": "', '"data": "AAAA'),
        0,
        "object 1: a mask that is not a PNG in base64: Error"
    ),
    "supervisely points": (
        "supervisely",
        GOOD_SUPERVISELY.replace("[40.0, 30.0]", "[40.0]"),
        0,
        "object 1: [40.0]: expected x and y"
    ),
    "cvat number": (
        "cvat",
        _of_cvat(BOX).replace('xtl="0.00"', 'xtl="x"', 1),
        8,
        "expected numbers as xtl, ytl, xbr, ybr"
    ),
    "cvat infinite": (
        "cvat",
        _of_cvat(BOX).replace('xtl="0.00"', 'xtl="inf"', 1),
        8,
        "expected numbers as xtl, ytl, xbr, ybr"
    ),
    "cvat label": (
        "cvat",
        _of_cvat(BOX).replace('label="person"', 'label=""', 1),
        8,
        "'': expected a text as label"
    ),
    "cvat rle": (
        "cvat",
        _of_cvat(MASK).replace('rle="1,', 'rle="2,', 1),
        8,
        "the rle of a mask does not add up to 5 x 3 pixels"
    ),
    "cvat bomb": (
        "cvat",
        _of_cvat(MASK).replace('width="5" height="3"', 'width="100000" height="100000"').replace(
            'rle="1, 3, 1, 2, 1, 2, 1, 3, 1"', 'rle="0, 10000000000"'
        ),
        8,
        "the rle of a mask does not add up to 100000 x 100000 pixels"
    ),
    "cvat shape": (
        "cvat",
        _of_cvat(inside='<blob label="a"/>'),
        8,
        "<blob> is not a shape of CVAT"
    ),
    "via shape": (
        "via",
        _of_via({"shape_attributes": {"name": "cube"}, "region_attributes": {"a": "b"}}),
        1,
        "region 1: {'name': 'cube'}: expected the shape of a rect or polygon"
    ),
    "via class": (
        "via",
        _of_via(
            REGION,
            {**REGION, "region_attributes": {}}
        ),
        1,
        "region 2: {}: expected a text as a"
    ),
    "via radius": (
        "via",
        _of_via({**REGION, "shape_attributes": {**CIRCLE, "r": 0}}),
        1,
        "region 1: an ellipse whose half axes are 0 and 0"
    ),
    "via rows": (
        "via_csv",
        tools.via_csv({"train/2": SCENES["train/2"], "test/4": [BOX]}).replace(",2,0,", ",3,0,"),
        2,
        "region_count is '3', but the image has 2 rows one after the other"
    )
}  # fmt: skip


FORMATS = {
    "labelme": LabelMe(),
    "supervisely": Supervisely(),
    "cvat": Cvat(),
    "via": Via(attribute="a"),
    "via_csv": Via(attribute="type"),
}


def rows_of(tool: str, text: str) -> list[LabelRow]:
    """The rows of a label file, as a worker reads it."""
    form = FORMATS[tool]
    columns = RecordColumns(None, True, masks=True)
    reader: Any = RecordReader(form, columns)
    if isinstance(form, ImageFileLayout):
        reader = LabelFileReader(FileRows(form, columns), (Place("/d"),))
    uri = {"cvat": "/d/a.xml", "via_csv": "/d/a.csv"}.get(tool, "/d/a.json")
    return list(pickle.loads(pickle.dumps(reader)).read(io.BytesIO(text.encode()), uri))


@pytest.mark.parametrize(("tool", "text", "line", "message"), FAULTS.values(), ids=FAULTS)
def test_a_fault_is_reported_with_its_place(tool: str, text: str, line: int, message: str) -> None:
    """Its image has no labels; the next one has."""
    row, *following = rows_of(tool, text)
    assert message in row.problem
    assert (row.line, row.values) == (line, ((), (), ()))
    assert [len(next_row.values[0]) for next_row in following] == [1] * (tool[:3] in ("cva", "via"))


@pytest.mark.parametrize("tool", TOOLS)
def test_a_faulty_entry_leaves_out_its_image(made: Path, tmp_path: Path, tool: str) -> None:
    """The others are written; the dead letter names the file."""
    shutil.copytree(made / tool, tmp_path / "set")
    name = {"cvat": "annotations.xml", "via": "via_project.json"}.get(tool, "train/2.json")
    name = "train/ann/2.jpg.json" if tool == "supervisely" else name
    file = tmp_path / "set" / name
    key = {"labelme": "points", "supervisely": "origin", "cvat": "", "via": "cx"}[tool]
    file.write_text(file.read_text().replace(f'"{key}"', '"x"', 1).replace("rle=", "x=", 1))
    assert (
        convert("--images", f"{tmp_path}/set", "--output", f"{tmp_path}/out", *MASKS, ALL_BAD) == 0
    )
    (letter,) = [d for d in dead_letters_of(tmp_path / "out") if d["reason"] == "bad_label_value"]
    assert (Path(letter["key"]).stem, letter["file"]) == ("2", str(file))
    assert written(tmp_path / "out").keys() == {"yard 1", "3", "4"}


GOOD_CVAT = tools.cvat(SCENES)
UNUSABLE = {
    "video": (
        GOOD_CVAT.replace("</annotations>", '<track id="0" label="car"></track></annotations>'),
        'contains the tracks of "CVAT for video"; export it as "CVAT for images 1.1"',
    ),
    "doctype": (
        GOOD_CVAT.replace("<annotations>", "<!DOCTYPE annotations>\n<annotations>"),
        "is broken: line 2: a document type (<!DOCTYPE>) may fill the memory",
    ),
    "cut": (GOOD_CVAT[:700], "is broken: line 15: not well-formed XML: unclosed token"),
    "encoding": (
        GOOD_CVAT.replace('"utf-8"', '"gb2312"'),
        "is broken: line 1: XML that cannot be read: multi-byte encodings",
    ),
    "other": ("<photos/>", "the root element is <photos>, expected <annotations>"),
    "cut project": (tools.via_project(SCENES)[:700], "is broken: "),
    "latin-1": (
        tools.via_csv(SCENES).replace("\\u00f6", "\xf6").encode("latin-1"),
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
    assert convert(*argv, "--layout", layout, "--output", f"{tmp_path}/out") == 2
    assert f"{tmp_path}/set/{name}" in (error := capsys.readouterr().err)
    assert message in error


def test_lines_and_points_are_asked_about(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As no box is made of them."""
    line = '<polyline label="car" points="1,2;3,4"/><points label="car" points="1,2"/><skeleton label="a"/>'
    content = tools.cvat({"train/2": [BOX]}, f"{line}<cuboid label='a'/>\n")
    write_files(f"{tmp_path}/set", {**tools.images(), "a.xml": content})
    argv = ("--images", f"{tmp_path}/set", "--output", f"{tmp_path}/out", ALL_BAD)
    assert convert_asking(*argv) == 2
    error = capsys.readouterr().err
    assert all(f"1 {kind}" in error for kind in ("cuboid", "line", "point", "skeleton"))
    assert convert(*argv) == 0
    assert [label for label, _ in written(tmp_path / "out")["2"]] == ["person"]


# --- size -----------------------------------------------------------------------------------------


class _Stream(io.RawIOBase):
    """A file whose pieces are made while it is read."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces, self._rest = pieces, b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while len(self._rest) < len(buffer) and (piece := next(self._pieces, b"")):
            self._rest += piece
        data, self._rest = self._rest[: len(buffer)], self._rest[len(buffer) :]
        buffer[: len(data)] = data
        return len(data)


def _many(tool: str) -> tuple[Any, Iterator[bytes]]:
    """A format, and a file of it with 10,000 images that have 10 boxes each."""
    shapes = [Drawn("car", "box", (1.0, 2.0, 30.0, 20.0))] * 10
    if tool == "cvat":
        head, image = tools.cvat({"train/1": shapes}).split("  <image", 1)
        image = image.removesuffix("</annotations>\n")
        return Cvat(), chain(
            [head.encode()], repeat(b"  <image" + image.encode(), 10_000), [b"</annotations>"]
        )
    form = Via(attribute="type")
    if tool == "via_csv":
        head, rows = tools.via_csv({"train/1": shapes}).split("\r\n", 1)
        named = (rows.replace("train/1", f"train/{i}").encode() for i in range(10_000))
        return form, chain([f"{head}\r\n".encode()], named)
    ((key, entry),) = tools.via({"train/1": shapes}).items()
    member = f'"{key}": {json.dumps(entry)},'.encode()
    project = tools.via_project({"train/1": ()})
    head, _, rest = project.partition('"_via_img_metadata": {')
    tail = rest[rest.index("}}") :]
    return form, chain(
        [f'{head}"_via_img_metadata": {{'.encode()],
        repeat(member, 9_999),
        [member[:-1], tail[1:].encode()],
    )


@pytest.mark.slow  # to trace the memory of a million values
@pytest.mark.parametrize("tool", ["cvat", "via", "via_csv"])
def test_a_hundred_thousand_objects_in_bounded_memory(tool: str) -> None:
    """A file is read image by image."""
    form, pieces = _many(tool)
    reader = RecordReader(form, RecordColumns(None, True))
    uri = "/d/a.csv" if tool == "via_csv" else "/d/a.json"
    count = objects = 0
    tracemalloc.start()
    try:
        for row in reader.read(io.BufferedReader(_Stream(pieces)), uri):
            assert row.problem == ""
            count, objects = count + 1, objects + len(row.values[0])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (count, objects) == (10_000, 100_000)
    assert peak < 24 << 20
