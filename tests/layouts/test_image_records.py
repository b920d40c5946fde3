"""Exports of labelling tools that list many images: against parsers of these tests, which read them whole."""

from __future__ import annotations

import io
import itertools
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.harness import (
    ALL_BAD,
    NONE_BAD,
    convert,
    convert_asking,
    dead_letters_of,
    float32,
    read_all,
)
from tests.layouts.make_label_tools import (
    SKIPPED,
    UNSEEN,
    annotation,
    choice,
    exported,
    make_label_tools,
    rectangle,
    task,
)
from tests.layouts.make_tables import HEIGHT, WIDTH
from tests.pictures import picture, write_files

_GRID = (WIDTH, HEIGHT, WIDTH, HEIGHT)


def _written(folder: str = "out") -> dict[str, list[tuple[str, float, float, float, float]]]:
    """File name -> its objects, as TensorFlow reads them."""
    found = {}
    for key, features in read_all(folder).items():
        sides = [
            features.get(f"image/object/bbox/{s}", []) for s in ("xmin", "ymin", "xmax", "ymax")
        ]
        names = [name.decode() for name in features.get("image/object/class/text", [])]
        found[key.rpartition("/")[2]] = [*zip(names, *sides, strict=True)]
    return found


@pytest.fixture
def tools(working_folder: Path) -> Path:
    """A folder with the exports of all tools, which is the working directory."""
    make_label_tools(str(working_folder))
    return working_folder


def test_skipped_and_unseen_images_are_counted(
    tools: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As what they are; so are answers that are not used."""
    for tool, counts in (
        ("label_studio", "1 empty, 1 skipped (unlabelled), 1 without an annotation (unlabelled)"),
        ("labelbox", "1 skipped (unlabelled), 1 without a label (unlabelled)"),
        ("hasty", "1 skipped (unlabelled), 1 without a label (unlabelled)"),
        ("ultralytics", "1 empty"),
    ):
        assert convert("--images", tool, "--output", f"out/{tool}", NONE_BAD) == 0
        unlabelled = {f"images/{SKIPPED}", f"images/{UNSEEN}"} if "skipped" in counts else set()
        assert {d["key"] for d in dead_letters_of(f"out/{tool}")} == unlabelled
        out = capsys.readouterr().out
        assert f"Note: of the 25 images looked at: {counts}\n" in out
        unused = {"label_studio": "occluded, time", "labelbox": "seen, time", "hasty": "side, tags"}
        assert f"Note: not used: {unused.get(tool)}; --columns " in out or tool == "ultralytics"


def _write(entries: Any, images: int = 4, name: str = "set/export.json") -> None:
    text = entries if isinstance(entries, str) else json.dumps(entries)
    pictures = {f"set/{i:03d}.jpg": picture(i, size=(WIDTH, HEIGHT)) for i in range(images)}
    write_files(".", {name: text, **pictures})


def test_choices_are_classes_of_images(working_folder: Path) -> None:
    """In a project without regions; several choices are a list where --list_column says so."""
    results = [[choice("cat")], [choice("dog")], [choice("cat"), choice("dog")]]
    tasks = [task(f"{i:03d}.jpg", [annotation(each)]) for i, each in enumerate(results)]
    tasks[2]["annotations"][0]["result"] = [{**choice("cat"), "value": {"choices": ["dog", "cat"]}}]
    _write(tasks, images=3)
    assert convert("--images", "set", "--output", "one", ALL_BAD) == 0
    assert {k: f["image/class/text"] for k, f in read_all("one").items()} == {
        "000.jpg": [b"cat"],
        "001.jpg": [b"dog"],
    }
    (letter,) = dead_letters_of("one")
    assert (letter["key"], letter["reason"]) == ("002.jpg", "bad_label_value")
    assert (
        "several values of time, ['dog', 'cat']; --list_column time=, writes" in letter["message"]
    )
    argv = ("--list_column", "time=,", "--output", "two", NONE_BAD)
    assert convert("--images", "set", *argv) == 0
    assert read_all("two")["002.jpg"]["image/class/text"] == [b"dog", b"cat"]


def test_a_turned_rectangle_becomes_the_box_around_it(working_folder: Path) -> None:
    """It is turned around its first corner, in the image's pixels, not in per cent."""
    turned = rectangle("disc", 50, 10, 80, 20, turned=30)
    _write([task("000.jpg", [annotation(turned)])], images=1)
    argv = ("--columns", "rotation:float", "--output", "out", NONE_BAD)
    assert convert("--images", "set", *argv) == 0
    cos, sin = math.cos(math.pi / 6), math.sin(math.pi / 6)
    box = (50 - 10 * sin, 10, 50 + 30 * cos, 10 + 30 * sin + 10 * cos)
    ((_, *written),) = _written()["000.jpg"]
    assert written == pytest.approx([v / side for v, side in zip(box, _GRID, strict=True)])
    assert read_all("out")["000.jpg"]["image/object/rotation"] == [30.0]


@pytest.mark.parametrize(
    ("url", "image"),
    [
        ("/data/upload/7/0a1b2c3d-street%20one.jpg", "street one.jpg"),
        ("/data/local-files/?d=photos/a.jpg", "photos/a.jpg"),
        ("https://host/media/photos/a.jpg?token=1", "photos/a.jpg"),
        ("s3://bucket/photos/a.jpg", "photos/a.jpg"),
        ("a.jpg", "a.jpg"),
    ],
)
def test_images_are_found_whatever_their_url_in_label_studio(
    working_folder: Path, url: str, image: str
) -> None:
    """Uploaded, on its server's disk, on the web, in a bucket, or named."""
    entry = task("x.jpg", [annotation(rectangle("disc", 1, 1, 9, 9))])
    entry["data"] = {"text": "words", "photo": url}
    write_files(
        ".", {"set.json": json.dumps([entry]), f"set/{image}": picture(size=(WIDTH, HEIGHT))}
    )
    assert convert("--images", "set", "--labels", "set.json", "--output", "out", NONE_BAD) == 0
    assert [*read_all("out")] == [image]


def test_uploaded_images_may_have_their_prefix(working_folder: Path) -> None:
    """As Label Studio's own export of images names them."""
    entries = [task("000.jpg", [annotation(rectangle("disc", 1, 1, 9, 9))])]
    images = {"set/1a2b3c4d-000.jpg": picture(size=(WIDTH, HEIGHT))}
    write_files(".", {"set/p.json": json.dumps(entries), **images})
    assert convert("--images", "set", "--output", "out", NONE_BAD) == 0
    assert [*read_all("out")] == ["1a2b3c4d-000.jpg"]


# --- what is left out ----------------------------------------------------------------------------

_BOX = rectangle("disc", 1, 1, 9, 9)


_PLACE = {key: _BOX[0]["value"][key] for key in ("x", "y", "width", "height")}


def _studio(*results: Any) -> list[Any]:
    """Two tasks: of the results, and a good one."""
    return [task("000.jpg", [annotation(results)]), task("001.jpg", [annotation(_BOX)])]


def _result(value: Any, kind: str = "rectanglelabels", **further: Any) -> dict[str, Any]:
    return {
        "id": "r",
        "type": kind,
        "from_name": "l",
        "to_name": "image",
        "value": value,
        **further,
    }


def _lines(*annotations: Any, **further: Any) -> str:
    """Ultralytics' lines of two images; the second is as given."""
    head, first, second = (
        json.loads(s) for s in exported("ultralytics")["shapes.ndjson"].splitlines()[:3]
    )
    second["annotations"] = {"boxes": [*annotations]}
    return "".join(json.dumps(line) + "\n" for line in (head, first, {**second, **further}))


def _subset(change: Mapping[str, Any]) -> dict[str, Any]:
    """Two items of Datumaro; the first object of the first is changed."""
    content = json.loads(exported("datumaro")["annotations/train.json"])
    content["items"] = content["items"][:2]
    content["items"][0]["annotations"] = [content["items"][0]["annotations"][0] | change]
    return content


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("no json", "entry 2 names no image: b'no json\\n': expected a text as image"),
        ("7", "entry 2 names no image: 7: expected a text as image"),
        ('{"data_row": {"id": 1}}', "expected a text as image"),
        ('{"data_row": {"external_id": "\\ud83d"}}', "'\\ud83d': expected a text as image"),
    ],
)
def test_an_entry_without_an_image_is_a_bad_row(
    working_folder: Path, entry: str, message: str
) -> None:
    """Its dead letter has file and line, and the number of the entry."""
    first = exported("labelbox")["export.ndjson"].splitlines()[0]
    _write(f"{first}\n{entry}\n", images=1, name="set/export.ndjson")
    assert convert("--images", "set", "--output", "out", ALL_BAD) == 0
    (letter,) = dead_letters_of("out")
    assert (letter["key"], letter["reason"], letter["line"]) == ("entry 2", "bad_row", 2)
    assert message in letter["message"]


@pytest.mark.parametrize(
    ("entries", "argv", "message"),
    [
        (
            _studio(_result({**_PLACE, "rectanglelabels": ["a"]})),
            "--columns age:int",
            "--columns age: there is only 'occluded'",
        ),
        (_studio(*_BOX), "--columns occluded:xyxy", "--columns occluded: there is only none"),
        (_studio(choice("a")), "--label_column age", "age: there is only 'time'"),
        ([task("0.jpg", [annotation([choice("a"), choice("b", "x")])])], "", "one of 'time', 'x'"),
        ([task("000.jpg", [])], "", "no label in the first 1 image"),
        ('[{"annotations": [], "data": {"image": "a.jpg"}}, {', "", "is broken: "),
        ({**_subset({}), "items": 3}, "", "is broken: no list of items; export it again"),
        (_subset({}), "--label_base 1", "Datumaro's JSON gives classes their ids"),
        (_lines().replace('"0": "disc"', '"0": "square"'), "", "'square' has the id 0 in"),
    ],
)
def test_what_cannot_be_used_is_an_error(
    working_folder: Path, capsys: pytest.CaptureFixture[str], entries: Any, argv: str, message: str
) -> None:
    """Options that name nothing, projects without labels, broken files: before any image is read."""
    name = "set/e.ndjson" if isinstance(entries, str) and '"dataset"' in entries else "set/e.json"
    _write(entries, name=name)
    assert convert("--images", "set", *argv.split(), "--output", "out") == 2
    assert message in capsys.readouterr().err


def test_objects_without_boxes_are_asked_about(
    working_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Their images would have too few objects; --yes accepts that."""
    point = {**_result({"x": 1, "y": 1, "width": 1, "keypointlabels": ["a"]}, "keypointlabels")}
    _write(_studio(*_BOX, {**point, "id": "p"}))
    assert convert_asking("--images", "set", "--output", "out") == 2
    assert (
        "- the 2 images looked at have 1 key point, which become no boxes, so these objects would be "
        "missing beside the 2 that do."
    ) in capsys.readouterr().err
    assert convert("--images", "set", "--output", "out", ALL_BAD) == 0
    assert {name: len(boxes) for name, boxes in _written().items()} == {"000.jpg": 1, "001.jpg": 1}


def _disputed() -> list[Any]:
    """Tasks of three images: of the first two, one person drew a square, of the first and last another one a disc."""
    by = {"id": 7, "email": "eve@x.org"}
    square = annotation(rectangle("square", 1, 1, 9, 9))
    disc = annotation(_BOX, 2, completed_by=by, ground_truth=True)
    given = ([square, {**disc, "ground_truth": False}], [square], [disc])
    return [task(f"{i:03d}.jpg", annotations, i) for i, annotations in enumerate(given)]


@pytest.mark.parametrize(
    ("annotator", "classes"),
    [
        ("1", {"000.jpg": "square", "001.jpg": "square"}),
        ("7", {"000.jpg": "disc", "002.jpg": "disc"}),
        ("eve@x.org", {"000.jpg": "disc", "002.jpg": "disc"}),
    ],
)
def test_one_of_several_annotators_counts_alone(
    working_folder: Path, annotator: str, classes: Mapping[str, str]
) -> None:
    """By id or e-mail address; images of others alone are unlabelled."""
    _write(_disputed(), images=3)
    assert convert("--images", "set", "--annotator", annotator, "--output", "out", NONE_BAD) == 0
    assert {name: boxes[0][0] for name, boxes in _written().items()} == classes
    (letter,) = dead_letters_of("out")
    assert letter["reason"] == "unlabelled"


def test_an_annotator_who_labelled_nothing_is_an_error(
    working_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The message names those who did."""
    _write(_disputed(), images=3)
    assert convert("--images", "set", "--annotator", "bob", "--output", "out") == 2
    assert (
        "no label in the first 3 images, 1 labelled by 1 only (unlabelled), 1 labelled by 1, eve@x.org only "
        "(unlabelled), 1 labelled by eve@x.org only (unlabelled)"
    ) in capsys.readouterr().err


def _packed(values: bytes) -> list[int]:
    """Bytes as `rle-pack` writes them: the first eight one by one, the rest in runs."""
    counts = (3, 4, 8, 16)  # bits
    bits = f"{len(values):032b}{7:05b}" + "".join(f"{count - 1:04b}" for count in counts)
    bits += f"000{7:03b}" + "".join(f"{value:08b}" for value in values[:8])
    for value, run in itertools.groupby(values[8:]):
        bits += f"111{len([*run]) - 1:016b}{value:08b}"
    bits += "0" * (-len(bits) % 8)
    return [int(bits[i : i + 8], 2) for i in range(0, len(bits), 8)]


def _brush(values: bytes) -> dict[str, Any]:
    value = {"format": "rle", "rle": _packed(values), "brushlabels": ["a"]}
    sides = {"original_width": WIDTH, "original_height": HEIGHT}
    return _result(value, "brushlabels", **sides)


def test_brush_masks_of_label_studio(working_folder: Path) -> None:
    """Pixels that are not transparent are the object; a mask of another size is a fault."""
    mask = np.zeros((HEIGHT, WIDTH), np.uint8)
    mask[5:20, 30:50], mask[8:10, 33:40] = 255, 0
    rgba = np.zeros((HEIGHT, WIDTH, 4), np.uint8)
    rgba[..., 3] = mask
    tasks = _studio(_brush(rgba.tobytes()))
    further = [("002.jpg", rgba[1:].tobytes()), ("003.jpg", bytes(rgba.size))]
    tasks += [task(name, [annotation([_brush(values)])]) for name, values in further]
    _write(tasks)
    argv = ("--object_features", "masks", "--output", "out", ALL_BAD)
    assert convert("--images", "set", *argv) == 0
    assert {d["key"]: d["message"].partition(";")[0] for d in dead_letters_of("out")} == {
        "002.jpg": f"the rle of a mask is not one of {WIDTH} x {HEIGHT} pixels",
        "003.jpg": "a mask without a pixel",
    }
    (features,) = [each for key, each in read_all("out").items() if key.endswith("000.jpg")]
    sides = (30 / WIDTH, 5 / HEIGHT, 50 / WIDTH, 20 / HEIGHT)
    assert _written()["000.jpg"] == [("a", *float32(sides))]
    (png,) = features["image/object/mask"]
    with Image.open(io.BytesIO(png)) as written:
        assert (np.asarray(written) > 0).tolist() == (mask > 0).tolist()


# --- tables --------------------------------------------------------------------------------------


def test_descriptions_of_classes_that_are_no_pairs_are_an_error(
    tools: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the file and its line."""
    write_files("open_images", {"class-descriptions.csv": "LabelName,DisplayName\n/m/0,a,b\n"})
    labels = ("open_images/train-annotations-bbox.csv", "open_images/class-descriptions.csv")
    assert convert("--images", "open_images/train", "--labels", *labels, "--output", "out") == 2
    assert (
        "class-descriptions.csv, line 2: expected the id and the name of" in capsys.readouterr().err
    )
