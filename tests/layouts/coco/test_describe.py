"""Which files of COCO's say the classes of whole images."""

from __future__ import annotations

import io
from typing import Any

import pytest

from beam_pipeline.core.errors import LabelTableError
from beam_pipeline.layouts.coco.describe import (
    SURVEYED,
    Description,
    Kind,
    describe,
    survey_annotations,
)
from tests.layouts.coco.fixtures import NAMES, entry, one, with_changes
from tests.layouts.make_coco import CATEGORIES, dumped


def survey(annotations: list[Any]) -> Description:
    return survey_annotations(iter(annotations))


def of(image_id: int | str, category: Any, **more: Any) -> dict[str, Any]:
    return {"id": 1, "image_id": image_id, "category_id": category, **more}


def test_annotations_without_boxes_say_the_classes_of_images() -> None:
    """Two annotations of one category are one class; two categories of an image are counted."""
    annotations = [
        of("a", 3),
        of("a", 3),
        of("b", 7),
        of("b", 0),
        of("c", 1),
        "x",
        {"image_id": "d"},
    ]
    assert survey(annotations) == Description(Kind.CLASSES, False, 3, 1, ("b", (0, 7)))


@pytest.mark.parametrize(
    "key", ["bbox", "bbox_relative", "segmentation", "keypoints", "segments_info", "caption"]
)
def test_what_describes_more_than_a_class_is_no_class(key: str) -> None:
    """Even if only one of the annotations does, and whatever its value is."""
    annotations = [of(1, 3), of(2, 3, **{key: None}), of(3, 3)]
    assert survey(annotations) == Description()


@pytest.mark.parametrize("annotations", [[], [None], ["x"], [{"id": 1}], [{"image_id": 1}]])
def test_annotations_without_categories_say_nothing(annotations: list[Any]) -> None:
    """Nor do none at all."""
    assert survey(annotations) == Description()


def test_the_beginning_of_a_large_file_is_surveyed() -> None:
    """Of the rest only boxes are looked for."""
    annotations = [*(of(number, 0) for number in range(SURVEYED)), of(0, 1), of(1, 1)]
    assert survey(annotations) == Description(Kind.CLASSES, False, SURVEYED)
    assert survey([*annotations, of(2, 1, bbox=[])]) == Description()


def test_captions_need_no_categories() -> None:
    """Their annotations are enough."""
    text = with_changes(annotations=[{"image_id": 139, "caption": "A dog."}], categories=...)
    assert describe(io.BytesIO(text.encode()), "x.json") == Description(Kind.CAPTIONS)
    assert survey([{"segments_info": []}]) == Description(Kind.PANOPTIC)


@pytest.mark.parametrize("order", [("images", "annotations"), ("annotations", "images")])
def test_fields_of_images_are_looked_for_if_wanted(order: tuple[str, ...]) -> None:
    """Those of all of the first images."""
    images = [{"id": 1, "file_name": "a"}, "x", {"id": 2, "place": "p1"}]
    lists = {"categories": CATEGORIES, "images": images, "annotations": [one()]}
    text = dumped({key: lists[key] for key in ("categories", *order)})
    found = describe(io.BytesIO(text.encode()), "x.json", with_fields=True)
    assert found.fields == ("id", "file_name", "place")
    assert describe(io.BytesIO(text.encode()), "x.json").fields == ()


@pytest.mark.parametrize(
    ("categories", "message"),
    [
        (..., " has no categories; expected COCO's instances: an object with images,"),
        ({"1": "cat"}, ": categories is {'1': 'cat'}, expected a list; expected COCO's instances"),
        ([], " has an empty list of categories, so no object has a class"),
        ([{"id": 1}], ": category number 1 is {'id': 1}; expected an object with an integer id"),
        ([{"id": "1", "name": "a"}], ": category number 1 is {'id': '1', 'name': 'a'}; expected"),
        ([CATEGORIES[0], {"id": 2, "name": ""}], ": category number 2 is {'id': 2, 'name': ''}; "),
        (["cat"], ": category number 1 is 'cat'; expected an object with an integer id and a name"),
        (
            [{"id": 1, "name": "a"}, {"id": 1, "name": "b"}],
            ": category id 1 is there twice, as 'a' and 'b'; give each category a different id",
        ),
        (
            [{"id": 1, "name": "a"}, {"id": 4, "name": "a"}],
            ": the name 'a' is that of several categories, ids 1, 4, so it stands for none of them",
        ),
    ],
)
def test_categories_that_cannot_be_used_are_refused(categories: Any, message: str) -> None:
    """The message names the file, and says what was found and what was expected."""
    data = with_changes(categories=categories).encode()
    with pytest.raises(LabelTableError) as caught:
        describe(io.BytesIO(data), "x.json")
    assert str(caught.value).startswith(f"x.json{message}")


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
    assert describe(file, "x.json").names == NAMES
    assert file.count <= most
