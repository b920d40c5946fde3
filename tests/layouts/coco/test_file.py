"""COCO's files: instances parsed, and what a file is about found before the job."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from beam_pipeline.core.dead_letters import DeadLetter
from beam_pipeline.core.errors import LabelTableError
from beam_pipeline.core.records.features import feature_kinds
from beam_pipeline.core.references import LabelRow
from beam_pipeline.layouts.coco_file import (
    SURVEYED,
    CocoReader,
    Description,
    describe,
    survey_annotations,
)
from beam_pipeline.layouts.coco_tasks import Captions, Classes, Instances, Panoptic
from tests.layouts.coco.fixtures import NAMES, entry, one, with_changes
from tests.layouts.make_coco import CATEGORIES, dumped, instances

BAD_ANNOTATIONS: list[tuple[dict[str, Any], str]] = [
    ({"bbox": [1, 2, 3]}, "bbox [1, 2, 3] is not [x, y, width, height], four numbers of pixels"),
    ({"bbox": [1, 2, "3", 4]}, "bbox [1, 2, '3', 4] is not [x, y, width, height], four numbers"),
    ({"bbox": [1, 2, 3, None]}, "bbox [1, 2, 3, None] is not [x, y, width, height], four"),
    ({"bbox": [1, 2, 3, float("nan")]}, "bbox [1, 2, 3, nan] is not [x, y, width, height]"),
    ({"bbox": [1, 2, 3, True]}, "bbox [1, 2, 3, True] is not [x, y, width, height], four"),
    ({"bbox": [1, 2, 3, 10**400]}, "bbox [1, 2, 3, 1000000000000000000000000000000000000"),
    ({"bbox": None}, "bbox None is not [x, y, width, height], four numbers of pixels"),
    ({"bbox": ...}, "bbox None is not [x, y, width, height], four numbers of pixels"),
    ({"category_id": 2}, "category_id 2 is not among the categories"),
    ({"category_id": "18"}, "category_id '18' is not an integer"),
    ({"category_id": ...}, "category_id None is not an integer"),
    ({"category_id": 2**63}, "category_id 9223372036854775808 is not an integer"),
    ({"area": "much"}, "area 'much' is not a number"),
    ({"area": float("inf")}, "area inf is not a number"),
    ({"area": float("nan")}, "area nan is not a number"),
    ({"iscrowd": 2}, "iscrowd 2 is neither 0 nor 1"),
    ({"iscrowd": []}, "iscrowd [] is neither 0 nor 1"),
]
"""(changes to an annotation that is right, what is wrong then)."""


@pytest.mark.parametrize(("changes", "problem"), BAD_ANNOTATIONS)
def test_a_bad_annotation_is_its_images_problem(changes: dict[str, Any], problem: str) -> None:
    """The row says which annotation and what was found, and has no values; other images have theirs."""
    text = with_changes(
        images=[entry(), entry("b.jpg", 285)],
        annotations=[one(), one(**changes, id=8), one(image_id=285, id=9)],
    )
    bad, good = CocoReader(Instances()).read(io.BytesIO(text.encode()), "x.json")
    assert isinstance(bad, LabelRow)
    assert isinstance(good, LabelRow)
    assert (bad.name, bad.values) == ("000000000139.jpg", ((), (), (), (), (), None))
    assert bad.problem.startswith(f"annotation 8: {problem}")
    assert (good.name, good.values[1], good.problem) == ("b.jpg", ("dog",), "")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"images": ...},
            "x.json has no images; expected COCO's instances: an object with images, ",
        ),
        ({"annotations": ..., "images": ...}, "x.json has no images and no annotations; expected"),
        ({"images": {"1": "a.jpg"}}, "x.json: images is {'1': 'a.jpg'}, expected a list; expected"),
        ({"annotations": None}, "x.json: annotations is None, expected a list; expected COCO's"),
        (
            {"annotations": [{"id": 1, "image_id": 139, "segments_info": []}]},
            "no annotation of x.json has a bbox; expected COCO's instances: an object with images, ",
        ),
        (
            {"annotations": [{"id": 1, "image_id": 139, "category_id": 1}]},
            "no annotation of x.json has a bbox; expected COCO's instances: an object with images, ",
        ),
    ],
)
def test_a_file_without_instances_is_refused(changes: dict[str, Any], message: str) -> None:
    """It is said what is missing."""
    with pytest.raises(LabelTableError) as caught:
        list(CocoReader(Instances()).read(io.BytesIO(with_changes(**changes).encode()), "x.json"))
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("indent", [None, 2])
def test_the_lists_may_come_in_any_order(indent: int | None) -> None:
    """And with any white space; images need not come before the annotations that name them."""
    lists = {
        "categories": CATEGORIES,
        "images": [entry(), entry("b.jpg", 285), entry("c.jpg", 1)],
        "annotations": [
            one(image_id=285, id=1),
            one(id=2),
            one(image_id=285, id=3, category_id=90),
        ],
    }
    rows = []
    for keys in (("images", "annotations", "categories"), ("annotations", "images", "categories"),
                 ("categories", "annotations", "images")):  # fmt: skip
        text = json.dumps({"x": [1], **{key: lists[key] for key in keys}}, indent=indent)
        rows.append(
            list(
                CocoReader(Instances(), {"x.json": "test"}).read(
                    io.BytesIO(text.encode()), "x.json"
                )
            )
        )
    box = (10.0, 20.0, 40.0, 60.0, 0)
    expected = [
        LabelRow(
            "000000000139.jpg",
            ((box,), ("dog",), (600.5,), (0,), (2,), "139"),
            "test",
            "x.json",
            0,
            "",
            (160, 106),
        ),
        LabelRow(
            "b.jpg",
            ((box, box), ("dog", "toothbrush"), (600.5, 600.5), (0, 0), (1, 3), "285"),
            "test",
            "x.json",
            0,
            size=(160, 106),
        ),
        LabelRow("c.jpg", ((), (), (), (), (), "1"), "test", "x.json", 0, "", (160, 106)),
    ]
    assert rows == [expected] * 3


def test_a_list_that_is_there_twice_is_refused() -> None:
    """One of the two would be lost."""
    text = '{"images": [], "annotations": [], "categories": [{"id": 1, "name": "a"}], "images": []}'
    with pytest.raises(LabelTableError, match=r"^x\.json has two lists of images, expected one$"):
        list(CocoReader(Instances()).read(io.BytesIO(text.encode()), "x.json"))


def test_a_file_without_annotations_has_images_without_objects() -> None:
    """An empty list is a statement; it is not the same as no list."""
    text = instances([entry()], [])
    (row,) = CocoReader(Instances(), {}, {"x.json": "/coco/val2017"}).read(
        io.BytesIO(text.encode()), "x.json"
    )
    assert not isinstance(row, DeadLetter)
    assert row.name == "/coco/val2017/000000000139.jpg"
    assert row.values == ((), (), (), (), (), "139")


def test_every_value_has_its_column() -> None:
    """Kinds and shapes as the manifest has them."""
    features = feature_kinds(Instances().columns)
    assert {
        key: features[key]["kind"] for key in features if "object" in key or "label/" in key
    } == {
        **{f"image/object/bbox/{side}": "float" for side in ("xmin", "ymin", "xmax", "ymax")},
        "image/object/class/label": "int64",
        "image/object/class/text": "bytes",
        "image/object/area": "float",
        "image/object/is_crowd": "int64",
        "image/object/id": "int64",
        "label/image_id": "bytes",
    }


# --- Which files of COCO's say the classes of whole images


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
    assert survey(annotations) == Description(Classes, False, 3, 1, ("b", (0, 7)))


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
    assert survey(annotations) == Description(Classes, False, SURVEYED)
    assert survey([*annotations, of(2, 1, bbox=[])]) == Description()


def test_captions_need_no_categories() -> None:
    """Their annotations are enough."""
    text = with_changes(annotations=[{"image_id": 139, "caption": "A dog."}], categories=...)
    assert describe(io.BytesIO(text.encode()), "x.json") == Description(Captions)
    assert survey([{"segments_info": []}]) == Description(Panoptic)


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
            ": the categories (1, 'a') and (1, 'b') have the same id or name; rename or renumber one of them",
        ),
        (
            [{"id": 1, "name": "a"}, {"id": 4, "name": "a"}],
            ": the categories (1, 'a') and (4, 'a') have the same id or name; rename or renumber one of them",
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
