"""COCO's files: instances parsed, and what a file is about found before the job."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from beam_pipeline.core import errors
from beam_pipeline.core.labels.schema import ColumnKind, further_column, group_column
from beam_pipeline.core.records.features import feature_kinds
from beam_pipeline.core.references import LabelRow
from beam_pipeline.layouts import coco, coco_file, label_files, layout
from beam_pipeline.layouts.coco_tasks import Captions, Classes, Instances, Panoptic
from tests import harness
from tests.layouts.make_coco import CATEGORIES, NAMES, dumped, entry, one, with_changes
from tests.pictures import picture, write_files


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
                coco_file.CocoReader(Instances(), {"x.json": "test"}).read(
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


def survey(annotations: list[Any]) -> coco_file.Description:
    return coco_file.survey_annotations(iter(annotations))


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
    assert survey(annotations) == coco_file.Description(Classes, False, 3, 1, ("b", (0, 7)))


@pytest.mark.parametrize(
    "key", ["bbox", "bbox_relative", "segmentation", "keypoints", "segments_info", "caption"]
)
def test_what_describes_more_than_a_class_is_no_class(key: str) -> None:
    """Even if only one of the annotations does, and whatever its value is."""
    annotations = [of(1, 3), of(2, 3, **{key: None}), of(3, 3)]
    assert survey(annotations) == coco_file.Description()


@pytest.mark.parametrize("annotations", [[], [None], ["x"], [{"id": 1}], [{"image_id": 1}]])
def test_annotations_without_categories_say_nothing(annotations: list[Any]) -> None:
    """Nor do none at all."""
    assert survey(annotations) == coco_file.Description()


def test_the_beginning_of_a_large_file_is_surveyed() -> None:
    """Of the rest only boxes are looked for."""
    annotations = [*(of(number, 0) for number in range(coco_file.SURVEYED)), of(0, 1), of(1, 1)]
    assert survey(annotations) == coco_file.Description(Classes, False, coco_file.SURVEYED)
    assert survey([*annotations, of(2, 1, bbox=[])]) == coco_file.Description()


def test_captions_need_no_categories() -> None:
    """Their annotations are enough."""
    text = with_changes(annotations=[{"image_id": 139, "caption": "A dog."}], categories=...)
    assert coco_file.describe(io.BytesIO(text.encode()), "x.json") == coco_file.Description(
        Captions
    )
    assert survey([{"segments_info": []}]) == coco_file.Description(Panoptic)


@pytest.mark.parametrize("order", [("images", "annotations"), ("annotations", "images")])
def test_fields_of_images_are_looked_for_if_wanted(order: tuple[str, ...]) -> None:
    """Those of all of the first images."""
    images = [{"id": 1, "file_name": "a"}, "x", {"id": 2, "place": "p1"}]
    lists = {"categories": CATEGORIES, "images": images, "annotations": [one()]}
    text = dumped({key: lists[key] for key in ("categories", *order)})
    found = coco_file.describe(io.BytesIO(text.encode()), "x.json", with_fields=True)
    assert found.fields == ("id", "file_name", "place")
    assert coco_file.describe(io.BytesIO(text.encode()), "x.json").fields == ()


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
    with pytest.raises(errors.LabelTableError) as caught:
        coco_file.describe(io.BytesIO(data), "x.json")
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
    assert coco_file.describe(file, "x.json").names == NAMES
    assert file.count <= most


# --- features ------------------------------------------------------------------------------------

PERSON_AND_MUG = [
    {"id": 1, "name": "person", "keypoints": ["nose", "left_eye"]},
    {"id": 7, "name": "mug"},
]
SQUARE = [[1, 0, 3, 0, 3, 2, 1, 2]]
RUNS = {"size": [4, 8], "counts": [4, 2, 26]}


def small_image(name: str = "a.png", image_id: int = 5, **changes: Any) -> dict[str, Any]:
    return {"id": image_id, "file_name": name, "width": 8, "height": 4, **changes}


def outlined(object_id: int, **changes: Any) -> dict[str, Any]:
    fields = {"image_id": 5, "category_id": 1, "bbox": [1, 0, 2, 2], "segmentation": SQUARE}
    return {"id": object_id, **fields, **changes}


def write(name: str, images: list[dict[str, Any]], annotations: list[dict[str, Any]]) -> None:
    whole = {"images": images, "annotations": annotations, "categories": PERSON_AND_MUG}
    write_files("coco", {f"annotations/{name}": json.dumps(whole)})
    write_files("coco", {"a.png": picture(1, file_format="PNG", size=(8, 4))})


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def convert_coco(*argv: str, bad: str = harness.NONE_BAD) -> dict[str, Any]:
    assert harness.convert("--images", "coco", *argv, "--output", "out", bad) == 0
    return harness.read_all("out")


def test_polygons_and_run_lengths_become_masks() -> None:
    """PNGs of the image's size, in the order of the objects; without the option there are none."""
    write(
        "instances_val.json",
        [small_image()],
        [outlined(1), outlined(2, segmentation=RUNS, iscrowd=1)],
    )
    assert "image/object/mask" not in convert_coco()["a.png"]
    found = convert_coco("--object_features", "masks", "--overwrite")["a.png"]
    masks = []
    for png in found["image/object/mask"]:
        with Image.open(io.BytesIO(png)) as mask:
            assert (mask.format, mask.mode, mask.size) == ("PNG", "L", (8, 4))
            masks.append(mask.tobytes())
    square = b"\0\1\1\0\0\0\0\0"
    runs = b"\0\1\0\0\0\0\0\0"
    assert masks == [square * 2 + b"\0" * 16, runs * 2 + b"\0" * 16]
    assert found["image/object/id"] == [1, 2]


def test_masks_that_cannot_be_drawn() -> None:
    """Each is a dead letter of its image, which says what is wrong."""
    write(
        "instances_val.json",
        [small_image(), small_image("b.png", 6), small_image("c.png", 7)],
        [
            outlined(1, segmentation=None),
            outlined(2, image_id=6, segmentation={"size": [2, 2], "counts": [4]}),
            outlined(3, image_id=7, segmentation=[[float("nan")] * 6]),
        ],
    )
    write_files(
        "coco", {name: picture(1, file_format="PNG", size=(8, 4)) for name in ("b.png", "c.png")}
    )
    assert convert_coco("--object_features", "masks", bad=harness.ALL_BAD) == {}
    assert {x["key"]: (x["reason"], x["message"]) for x in harness.dead_letters_of("out")} == {
        "a.png": (
            "bad_label_value",
            "annotation 1: segmentation None is neither polygons nor run lengths",
        ),
        "b.png": (
            "size_mismatch",
            "a mask of 2 x 2 pixels, the image has 8 x 4; take the image that was labelled, or scale "
            "the mask",
        ),
        "c.png": (
            "bad_label_value",
            "annotation 3: segmentation [[nan, nan, nan, nan, nan, nan]] is a polygon that is not a "
            "list of numbers",
        ),
    }


@pytest.mark.parametrize(
    ("points", "problem"),
    [
        ([1, 2, 2], "keypoints [1, 2, 2] are not 6 numbers: x, y and visibility of each"),
        (
            [1, 2, 2, 1, 2, "x"],
            "keypoints [1, 2, 2, 1, 2, 'x'] are not 6 numbers: x, y and visibility of each",
        ),
        ("x", "keypoints 'x' are not 6 numbers: x, y and visibility of each"),
    ],
)
def test_key_points_that_are_wrong(points: Any, problem: str) -> None:
    """What was found, and what was expected."""
    with pytest.raises(label_files.BadLabelError) as caught:
        Instances(keypoints=("a", "b")).parse(outlined(1, keypoints=points))
    assert str(caught.value) == problem


# --- Fields of images' entries that become features or keep images together


FIELDS = {"x.json": ("license", "file_name", "id", "location", "hour")}


def fields(**options: Any) -> tuple[Any, ...]:
    return coco.image_fields(layout.SourceOptions(("x",), **options), FIELDS, Instances().columns)


def test_fields_that_options_name_become_columns() -> None:
    """One that is written groups as it is; another one has a column for that alone."""
    location = further_column("location", ColumnKind.BYTES)
    hour = further_column("hour", ColumnKind.INT64)
    assert fields() == ()
    assert fields(columns={"location": "str", "hour": "int"}) == (location, hour)
    assert fields(split_by="location") == (group_column("location"),)
    assert fields(split_by="location", columns={"location": "str"}) == (location,)
    assert fields(split_by="location", columns={"location": "skip"}) == (group_column("location"),)


@pytest.mark.parametrize("name", ["folder", "image_id", "bbox"])
def test_what_groups_without_a_field_stays(name: str) -> None:
    """The folder, and columns that are there in any case."""
    assert fields(split_by=name) == ()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"split_by": "place"},
            r"--split_by place: images in x\.json lack the field 'place'; found license, file_name, id, "
            r"location, hour",
        ),
        ({"columns": {"place": "int"}}, r"--columns place: images in .* lack the field 'place'"),
        (
            {"columns": {"image_id": "int"}},
            r"--columns image_id: the layout coco has a column of this name, whose kind is fixed; "
            "leave it out",
        ),
    ],
)
def test_a_name_that_is_no_field_is_refused(options: dict[str, Any], message: str) -> None:
    """With those that there are."""
    with pytest.raises(errors.UsageError, match=message):
        fields(**options)


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        (" p1 ", ColumnKind.BYTES, "p1"),
        (7, ColumnKind.BYTES, "7"),
        (float("nan"), ColumnKind.FLOAT, None),
        (float("nan"), ColumnKind.INT64, None),
        (None, ColumnKind.INT64, None),
        (True, ColumnKind.INT64, 1),
        ("1.5", ColumnKind.FLOAT, 1.5),
    ],
)
def test_values_are_read_as_cells_of_a_table(value: Any, kind: ColumnKind, expected: Any) -> None:
    """NaN, which Python writes, is no value."""
    assert coco_file.field_values({"x": value}, [further_column("x", kind)]) == (expected,)


@pytest.mark.parametrize("value", ["p", 1.5, [1], {"a": 1}, 2**70])
def test_a_value_of_another_kind_is_a_fault(value: Any) -> None:
    """The message names the field."""
    with pytest.raises(label_files.BadLabelError, match="field 'x': "):
        coco_file.field_values({"x": value}, [further_column("x", ColumnKind.INT64)])


def test_half_a_character_is_no_text() -> None:
    """UTF-8 cannot encode it."""
    with pytest.raises(label_files.BadLabelError, match="is not a text"):
        coco_file.field_values({"x": "\ud800"}, [group_column("x")])
