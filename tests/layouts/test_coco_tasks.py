"""Classes of whole images in COCO's JSON: the parser, numbering, and whole conversions."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from beam_pipeline.core.images.png import grey_png
from tests import harness
from tests.core.images.test_masks import segments
from tests.pictures import picture, write_files

CATEGORIES = [{"id": 0, "name": "empty"}, {"id": 10, "name": "deer"}, {"id": 3, "name": "fox"}]


def entry(image_id: int | str, **more: Any) -> dict[str, Any]:
    return {"id": image_id, "file_name": f"{image_id}.jpg", **more}


def of(image_id: int | str, category: Any, **more: Any) -> dict[str, Any]:
    return {"id": f"{image_id}-{category}", "image_id": image_id, "category_id": category, **more}


def text(
    images: Sequence[Any], annotations: Sequence[Any], categories: Sequence[Any] = CATEGORIES
) -> str:
    return json.dumps({"images": images, "annotations": annotations, "categories": categories})


# --- whole conversions ---------------------------------------------------------------------------


def write_traps(
    images: Sequence[Any], annotations: Sequence[Any], categories: Sequence[Any] = CATEGORIES
) -> None:
    """Writes traps/, with an image for each entry."""
    write_files("traps", {"labels.json": text(images, annotations, categories)})
    for number, image in enumerate(images):
        write_files("traps", {image["file_name"]: picture(number, size=(40, 30))})


PATHS = ("--images", "traps", "--labels", "traps/labels.json", "--output", "out")


def convert_traps(*argv: str) -> dict[str, Any]:
    """Converts traps/. Returns its examples."""
    assert harness.convert(*PATHS, *argv) == 0
    return harness.read_all("out")


@pytest.mark.slow
def test_a_later_set_has_the_ids_of_an_earlier_one(working_folder: Path) -> None:
    """With --classes, although its file lists fewer categories."""
    write_traps([entry("a"), entry("b")], [of("a", 3), of("b", 10)])
    convert_traps()
    os.rename("out", "earlier")
    write_traps([entry("a"), entry("b")], [of("a", 10), of("b", 10)], CATEGORIES[1:2])
    examples = convert_traps("--classes", "earlier")
    assert [one["image/class/label"] for one in examples.values()] == [[2], [2]]


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
