"""COCO's files: instances parsed, and what a file is about found before the job."""

from __future__ import annotations

import io
from typing import Any

import pytest

from beam_pipeline.layouts import coco_file
from beam_pipeline.layouts.coco_tasks import Classes
from tests.layouts.make_coco import CATEGORIES, NAMES, dumped, entry, one

# --- Which files of COCO's say the classes of whole images


def survey(annotations: list[Any]) -> coco_file.Description:
    return coco_file.survey_annotations(iter(annotations))


def of(image_id: int | str, category: Any, **more: Any) -> dict[str, Any]:
    return {"id": 1, "image_id": image_id, "category_id": category, **more}


def test_the_beginning_of_a_large_file_is_surveyed() -> None:
    """Of the rest only boxes are looked for."""
    annotations = [*(of(number, 0) for number in range(coco_file.SURVEYED)), of(0, 1), of(1, 1)]
    assert survey(annotations) == coco_file.Description(Classes, False, coco_file.SURVEYED)
    assert survey([*annotations, of(2, 1, bbox=[])]) == coco_file.Description()


class Counting(io.BytesIO):
    """A file that counts what is read of it."""

    count = 0

    def read(self, size: int | None = -1, /) -> bytes:
        data = super().read(size)
        self.count += len(data)
        return data


def document(*keys: str) -> bytes:
    """A file of 12 MB with its lists in this order."""
    lists = {
        "info": {"categories": [{"id": 1, "name": "not this one"}]},
        "images": [entry()],
        "annotations": [one(id=number, segmentation=[[0.25] * 500]) for number in range(5000)],
        "categories": CATEGORIES,
    }
    return dumped({key: lists[key] for key in keys}).encode()


@pytest.mark.parametrize(
    ("keys", "most"),
    [
        (("info", "images", "annotations", "categories"), 13 << 20),
        pytest.param(
            ("images", "annotations", "categories", "info"), 13 << 20, marks=pytest.mark.slow
        ),
        (("info", "categories", "images", "annotations"), 1 << 20),
        pytest.param(("annotations", "categories", "images"), 13 << 20, marks=pytest.mark.slow),
        (("images", "categories", "info", "annotations"), 1 << 20),
    ],
)
def test_categories_are_found_wherever_they_are(keys: tuple[str, ...], most: int) -> None:
    """No more is read than up to them. A list of this name in another object is not it."""
    data = document(*keys)
    assert len(data) > 12 << 20
    file = Counting(data)
    assert coco_file.describe(file, "x.json").names == NAMES
    assert file.count <= most
