"""COCO's large files: how much of them is read before the job."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from beam_pipeline.layouts import coco_file
from beam_pipeline.layouts.coco_tasks import Classes


def of(image_id: int, category: int, **more: Any) -> dict[str, Any]:
    return {"id": 1, "image_id": image_id, "category_id": category, **more}


def test_all_annotations_of_a_large_file_are_looked_at() -> None:
    """A box after many annotations without one makes a file one of objects."""
    annotations = [*(of(number, 0) for number in range(1000)), of(0, 1)]
    assert coco_file.survey_annotations(iter(annotations)) == coco_file.Description(Classes)
    with_box = [*annotations, of(2, 1, bbox=[])]
    assert coco_file.survey_annotations(iter(with_box)) == coco_file.Description()


class Counting(io.BytesIO):
    """A file that counts what is read of it."""

    count = 0

    def read(self, size: int | None = -1, /) -> bytes:
        data = super().read(size)
        self.count += len(data)
        return data


LISTS = {
    "info": {"categories": [{"id": 1, "name": "not this one"}]},
    "images": [{"id": 1, "file_name": "a.jpg"}],
    "annotations": [of(1, 18, bbox=[1, 2, 3, 4], segmentation=[[0.25] * 500])] * 5000,
    "categories": [{"id": 18, "name": "dog"}],
}


@pytest.mark.parametrize(
    ("keys", "most"),
    [
        ("info images annotations categories", 20 << 20),
        pytest.param("images annotations categories info", 20 << 20, marks=pytest.mark.slow),
        ("info categories images annotations", 1 << 20),
        pytest.param("annotations categories images", 20 << 20, marks=pytest.mark.slow),
        ("images categories info annotations", 1 << 20),
    ],
)
def test_categories_are_found_wherever_they_are(keys: str, most: int) -> None:
    """No more is read than up to them. A list of this name in another object is not it."""
    file = Counting(json.dumps({key: LISTS[key] for key in keys.split()}).encode())
    assert len(file.getvalue()) > 12 << 20
    assert coco_file.describe(file, "x.json").names == {18: "dog"}
    assert file.count <= most
