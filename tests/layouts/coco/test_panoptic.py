"""COCO's panoptic segmentation: rows of files, and a whole conversion."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from beam_pipeline.core.dead_letters import DeadLetter
from beam_pipeline.core.errors import ConversionError, UsageError
from beam_pipeline.core.images.png import grey_png
from beam_pipeline.core.references import LabelRow
from beam_pipeline.layouts.coco import CocoPanoptic
from beam_pipeline.layouts.coco_file import CocoReader
from beam_pipeline.layouts.coco_tasks import Panoptic
from beam_pipeline.layouts.layout import SourceOptions
from tests.core.images.test_masks import segments
from tests.harness import convert, dead_letters_of, manifest_of, read_all
from tests.pictures import picture, write_files

CATEGORIES = [{"id": 1, "name": "person", "isthing": 1}, {"id": 92, "name": "banner", "isthing": 0}]
PERSON = {"id": 70000, "category_id": 1, "bbox": [1, 0, 1, 1], "area": 1, "iscrowd": 0}
BANNER = {"id": 9, "category_id": 92, "bbox": [2, 0, 1, 1], "area": 1, "iscrowd": 0}


def annotation(number: int, *infos: Mapping[str, Any], **fields: Any) -> dict[str, Any]:
    return {"image_id": number, "file_name": f"{number}.png", "segments_info": infos, **fields}


def coco(*annotations: Mapping[str, Any], images: int = 1) -> str:
    listed = [{"id": n, "file_name": f"{n}.jpg", "width": 3, "height": 1} for n in range(images)]
    return json.dumps({"images": listed, "annotations": annotations, "categories": CATEGORIES})


def rows_of(text: str, folder: Path) -> list[LabelRow | DeadLetter]:
    reader = CocoReader(Panoptic(masks={"j": str(folder)}), {"j": "train"}, {"j": "/photos"})
    return list(reader.read(io.BytesIO(text.encode()), "j"))


def test_a_row_refers_to_its_mask(tmp_path: Path) -> None:
    """With the segments that the mask's pixels are of; the PNG is not opened."""
    (tmp_path / "0.png").write_bytes(b"12345")
    (found,) = rows_of(coco(annotation(0, PERSON, BANNER)), tmp_path)
    assert isinstance(found, LabelRow)
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
    assert isinstance(found, LabelRow)
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
    assert convert(*argv, "--output", "out") == 0
    (features,) = read_all("out").values()
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
    assert manifest_of("out")["dead_letters"] == {
        "bad_mask": 1,
        "unlabelled": 1,
    }
    letters = {letter["key"]: letter for letter in dead_letters_of("out")}
    assert letters["1.jpg"]["message"] == (
        "the mask: pixels of a segment 4 that its annotation does not describe"
    )
    assert [(c["id"], c["name"]) for c in manifest_of("out")["classes"]] == [
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
    assert reader == CocoReader(
        Panoptic(masks={uri: f"{here}/annotations/panoptic_val2017"}),
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
