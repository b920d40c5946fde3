"""Classes of whole images in COCO's JSON: the parser, numbering, and whole conversions."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from beam_pipeline.core import dead_letters, references
from beam_pipeline.core.errors import ConversionError, UsageError
from beam_pipeline.core.images.png import grey_png
from beam_pipeline.layouts import coco_file, coco_tasks
from beam_pipeline.layouts.coco import CocoPanoptic, number_classes
from beam_pipeline.layouts.layout import SourceOptions
from tests import harness
from tests.core.images.test_masks import segments
from tests.layouts.make_coco import coloured
from tests.pictures import picture, write_files

CATEGORIES = [{"id": 0, "name": "empty"}, {"id": 10, "name": "deer"}, {"id": 3, "name": "fox"}]
NAMES = {0: "empty", 3: "fox", 10: "deer"}


def entry(image_id: int | str, **more: Any) -> dict[str, Any]:
    return {"id": image_id, "file_name": f"{image_id}.jpg", **more}


def of(image_id: int | str, category: Any, **more: Any) -> dict[str, Any]:
    return {"id": f"{image_id}-{category}", "image_id": image_id, "category_id": category, **more}


def text(
    images: Sequence[Any], annotations: Sequence[Any], categories: Sequence[Any] = CATEGORIES
) -> str:
    return json.dumps({"images": images, "annotations": annotations, "categories": categories})


# --- ids of classes ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "expected", "changed"),
    [
        ({}, (("empty", 0), ("fox", 1), ("deer", 2)), "3 -> 1, 10 -> 2"),
        ({"label_base": 1}, (("empty", 1), ("fox", 2), ("deer", 3)), "0 -> 1, 3 -> 2, 10 -> 3"),
        (
            {"label_order": "code_point"},
            (("deer", 0), ("empty", 1), ("fox", 2)),
            "10 -> 0, 0 -> 1, 3 -> 2",
        ),
        ({"class_ids": "keep"}, (("empty", 0), ("fox", 3), ("deer", 10)), ""),
    ],
)
def test_classes_are_numbered_in_the_order_of_the_categories_ids(
    options: dict[str, Any], expected: tuple[tuple[str, int], ...], changed: str
) -> None:
    """From 0, unless options say otherwise; a note says which ids are not the file's."""
    given = SourceOptions(("x",), **options)
    numbering, note = number_classes(given, NAMES)
    assert numbering.number([]) == expected
    assert note == (
        f"class ids are not the ids of the categories: {changed}; --class_ids keep writes those of "
        "the categories"
        if changed
        else ""
    )


def test_ids_that_count_from_0_stay() -> None:
    """As iNaturalist's do; there is nothing to say then."""
    given = SourceOptions(("x",))
    numbering, note = number_classes(given, {1: "a", 0: "b"})
    assert (numbering.number([]), note) == ((("b", 0), ("a", 1)), "")


def test_a_negative_id_is_not_kept() -> None:
    """Losses and metrics count from 0."""
    with pytest.raises(UsageError, match=r"category 'none' has the id -1, and losses and metrics"):
        number_classes(SourceOptions(("x",), class_ids="keep"), {-1: "none", 0: "a"})


# --- whole conversions ---------------------------------------------------------------------------


def write_traps(
    images: Sequence[Any], annotations: Sequence[Any], categories: Sequence[Any] = CATEGORIES
) -> None:
    """Writes traps/, with an image for each entry."""
    write_files("traps", {"labels.json": text(images, annotations, categories)})
    for number, image in enumerate(images):
        write_files("traps", {image["file_name"]: coloured((40, 30), 1, number)})


PATHS = ("--images", "traps", "--labels", "traps/labels.json", "--output", "out")


def convert_traps(*argv: str) -> dict[str, Any]:
    """Converts traps/. Returns its examples."""
    assert harness.convert(*PATHS, *argv) == 0
    return harness.read_all("out")


def error_of(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    capsys.readouterr()
    assert harness.convert_asking(*PATHS, *argv) == 2
    error = capsys.readouterr().err
    assert "Traceback" not in error
    return error.replace(f"{os.getcwd()}/", "")


def test_several_categories_of_an_image_are_asked_about(
    working_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The answer is lists for all images, or to leave these out; never one category of several."""
    images = [entry("a"), entry("b"), entry("c")]
    write_traps(images, [of("a", 3), of("a", 10), of("b", 10)])
    assert (
        "- of the first 2 images with annotations in traps/labels.json, 1 have several categories, such "
        "as 'a' with 'fox', 'deer'. --yes leaves these images out. To write lists of classes:\n"
    ) in error_of(capsys)
    lists = convert_traps("--list_column", "category=,")
    assert {key: one["image/class/label"] for key, one in lists.items()} == {
        "a.jpg": [1, 2],
        "b.jpg": [2],
    }
    assert harness.reasons_of("out") == {"c.jpg": "unlabelled"}
    single = convert_traps(harness.ALL_BAD, "--overwrite")
    assert {key: one["image/class/label"] for key, one in single.items()} == {"b.jpg": [2]}
    assert harness.reasons_of("out") == {"a.jpg": "bad_label_value", "c.jpg": "unlabelled"}


@pytest.mark.slow
def test_a_later_set_has_the_ids_of_an_earlier_one(working_folder: Path) -> None:
    """With --classes, although its file lists fewer categories."""
    write_traps([entry("a"), entry("b")], [of("a", 3), of("b", 10)])
    convert_traps()
    os.rename("out", "earlier")
    write_traps([entry("a"), entry("b")], [of("a", 10), of("b", 10)], CATEGORIES[1:2])
    examples = convert_traps("--classes", "earlier")
    assert [one["image/class/label"] for one in examples.values()] == [[2], [2]]


def test_a_file_with_any_box_holds_objects(working_folder: Path) -> None:
    """An image whose annotation has none is left out, as ever."""
    images = [entry("a", location="x"), entry("b", location="y")]
    whole = of("b", 3, bbox=[1, 2, 3, 4])
    write_traps(images, [{**of("a", 3), "id": 1}, {**whole, "id": 2}])
    examples = convert_traps(harness.ALL_BAD, "--columns", "location:str")
    assert list(examples) == ["b.jpg"]
    assert examples["b.jpg"]["image/object/class/label"] == [3]
    assert examples["b.jpg"]["label/location"] == [b"y"]
    assert harness.reasons_of("out") == {"a.jpg": "bad_label_value"}


# --- panoptic segmentation -----------------------------------------------------------------------

SEGMENT_CATEGORIES = [
    {"id": 1, "name": "person", "isthing": 1},
    {"id": 92, "name": "banner", "isthing": 0},
]
PERSON = {"id": 70000, "category_id": 1, "bbox": [1, 0, 1, 1], "area": 1, "iscrowd": 0}
BANNER = {"id": 9, "category_id": 92, "bbox": [2, 0, 1, 1], "area": 1, "iscrowd": 0}


def annotation(number: int, *infos: Mapping[str, Any], **fields: Any) -> dict[str, Any]:
    return {"image_id": number, "file_name": f"{number}.png", "segments_info": infos, **fields}


def coco(*annotations: Mapping[str, Any], images: int = 1) -> str:
    listed = [{"id": n, "file_name": f"{n}.jpg", "width": 3, "height": 1} for n in range(images)]
    return json.dumps(
        {"images": listed, "annotations": annotations, "categories": SEGMENT_CATEGORIES}
    )


def rows_of(text: str, folder: Path) -> list[references.LabelRow | dead_letters.DeadLetter]:
    reader = coco_file.CocoReader(
        coco_tasks.Panoptic(masks={"j": str(folder)}), {"j": "train"}, {"j": "/photos"}
    )
    return list(reader.read(io.BytesIO(text.encode()), "j"))


def test_a_row_refers_to_its_mask(tmp_path: Path) -> None:
    """With the segments that the mask's pixels are of; the PNG is not opened."""
    (tmp_path / "0.png").write_bytes(b"12345")
    (found,) = rows_of(coco(annotation(0, PERSON, BANNER)), tmp_path)
    assert isinstance(found, references.LabelRow)
    place, *values = found.values
    version = (tmp_path / "0.png").stat().st_mtime_ns
    assert place == (f"{tmp_path}/0.png", 5, version, ((70000, 1, 0), (9, 92, 0)))
    assert values == [
        ((1.0, 0.0, 2.0, 1.0, 0), (2.0, 0.0, 3.0, 1.0, 0)),
        ("person", "banner"),
        (1.0, 1.0),
        (0, 0),
        (70000, 9),
        "0",
    ]
    assert (found.name, found.split, found.size) == ("/photos/0.jpg", "train", (3, 1))


@pytest.mark.parametrize(
    ("one", "problem"),
    [
        (annotation(0, PERSON, file_name="x.png"), "its mask x.png is not in"),
        (annotation(0, PERSON, file_name=None), "file_name None is not text"),
        (annotation(0, segments_info={}), "segments_info is not a list of objects"),
        (annotation(0, {**PERSON, "id": "a"}), "a segment's id 'a' is not an integer"),
        (annotation(0, {**PERSON, "category_id": 5}), "category_id 5 is not among the categories"),
    ],
)
def test_a_mask_that_is_not_described_is_a_problem(
    tmp_path: Path, one: Mapping[str, Any], problem: str
) -> None:
    """Of its image."""
    (tmp_path / "0.png").write_bytes(b"12345")
    (found,) = rows_of(coco(one), tmp_path)
    assert isinstance(found, references.LabelRow)
    assert problem in found.problem


def test_annotations_without_image_and_images_without_annotation(tmp_path: Path) -> None:
    """The former are dead letters, the latter have no row; two masks of an image are a problem."""
    (tmp_path / "0.png").write_bytes(b"12345")
    text = coco(annotation(7, PERSON), {"file_name": "a.png"}, images=1)
    letters = rows_of(text, tmp_path)
    assert [getattr(letter, "reason", "") for letter in letters] == ["bad_row", "missing_image"]
    (twice,) = rows_of(coco(annotation(0, PERSON), annotation(0, BANNER)), tmp_path)
    assert getattr(twice, "problem", "") == "the image has 2 masks, expected one"


def test_a_panoptic_set_is_converted(working_folder: Path) -> None:
    """Masks of categories and instances, the segments, and classes with COCO's ids."""
    write_files("train2017", {f"{n}.jpg": picture(n, size=(3, 1)) for n in range(3)})
    masks = {"0.png": segments(0, 70000, 9), "1.png": segments(4, 70000, 9)}
    write_files("annotations/panoptic_train2017", masks)
    text = coco(annotation(0, PERSON, BANNER), annotation(1, PERSON, BANNER), images=3)
    write_files("annotations", {"panoptic_train2017.json": text})
    labels = ("--labels", "annotations/panoptic_train2017.json")
    argv = ("--images", "train2017", *labels, "--max_bad_fraction", "1")
    assert harness.convert(*argv, "--output", "out") == 0
    (features,) = harness.read_all("out").values()
    beginning = "image/panoptic/"
    found = {k[len(beginning) :]: v for k, v in features.items() if k.startswith(beginning)}
    assert found == {
        "category_mask": [grey_png(b"\0\x01\x5c", 3, 1)],
        "instance_mask": [grey_png(b"\0\1\2", 3, 1)],
        "bbox/xmin": [pytest.approx(1 / 3), pytest.approx(2 / 3)],
        "bbox/ymin": [0, 0],
        "bbox/xmax": [pytest.approx(2 / 3), 1],
        "bbox/ymax": [1, 1],
        "class/label": [1, 92],
        "class/text": [b"person", b"banner"],
        "area": [1, 1],
        "is_crowd": [0, 0],
        "id": [70000, 9],
    }
    assert harness.manifest_of("out")["dead_letters"] == {"bad_mask": 1, "unlabelled": 1}
    letters = {letter["key"]: letter for letter in harness.dead_letters_of("out")}
    assert letters["1.jpg"]["message"] == (
        "the mask: pixels of a segment 4 that its annotation does not describe"
    )
    assert [(c["id"], c["name"]) for c in harness.manifest_of("out")["classes"]] == [
        (1, "person"),
        (92, "banner"),
    ]


def test_files_are_told_from_their_names(working_folder: Path) -> None:
    """panoptic_*.json; --masks names another folder of PNGs."""
    layout = CocoPanoptic()
    write_files("annotations", {"panoptic_val2017.json": coco(), "panoptic.txt": ""})
    write_files("val2017", {"0.jpg": picture(0)})
    options = SourceOptions(("val2017",), ("annotations/panoptic_val2017.json",))
    assert layout.recognise(options) == (
        "COCO's panoptic JSON in annotations/panoptic_val2017.json"
    )
    assert layout.recognise(SourceOptions(("val2017",))) == ""
    here = str(working_folder)
    uri = f"{here}/annotations/panoptic_val2017.json"
    reader = layout.open(options).labels.reader
    assert reader == coco_file.CocoReader(
        coco_tasks.Panoptic(masks={uri: f"{here}/annotations/panoptic_val2017"}),
        {uri: "validation"},
        {uri: f"{here}/val2017"},
    )
    given = SourceOptions(options.images, options.labels, ("pngs",))
    assert layout.open(given).labels.reader.task.masks == {uri: f"{here}/pngs"}
    with pytest.raises(UsageError, match="needs --labels"):
        layout.open(SourceOptions(("val2017",)))
    with pytest.raises(UsageError, match="expected the one folder"):
        layout.open(SourceOptions(options.images, options.labels, ("a", "b")))


@pytest.mark.parametrize("text", ["{", "[]", '{"categories": 3}', '{"images": []}'])
def test_a_file_without_categories_is_refused(working_folder: Path, text: str) -> None:
    """Before the job."""
    write_files(".", {"panoptic_x.json": text, "p/0.jpg": picture(0)})
    with pytest.raises(ConversionError, match=r"panoptic_x\.json"):
        CocoPanoptic().open(SourceOptions(("p",), ("panoptic_x.json",)))
