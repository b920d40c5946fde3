"""Fields of images' entries that become features or keep images together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from beam_pipeline.core.errors import UsageError
from beam_pipeline.core.labels.schema import ColumnKind, further_column, group_column
from beam_pipeline.layouts.coco.layout import image_fields
from beam_pipeline.layouts.coco.tasks import Instances
from beam_pipeline.layouts.label_files import BadLabelError
from beam_pipeline.layouts.layout import SourceOptions
from tests.harness import ALL_BAD, convert, dead_letters_of, split_of_each
from tests.layouts.coco.fixtures import entry, one, with_changes
from tests.layouts.make_coco import make

FIELDS = {"x.json": ("license", "file_name", "id", "location", "hour")}


def fields(**options: Any) -> tuple[Any, ...]:
    return image_fields(SourceOptions(("x",), **options), FIELDS, Instances().columns)


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
            r"--split_by place: images in x\.json have no field 'place'; found license, file_name, id, "
            r"location, hour",
        ),
        ({"columns": {"place": "int"}}, r"--columns place: images in .* have no field 'place'"),
        (
            {"columns": {"image_id": "int"}},
            r"--columns image_id: the layout coco has a column of this name, whose kind is fixed; "
            "leave it out",
        ),
    ],
)
def test_a_name_that_is_no_field_is_refused(options: dict[str, Any], message: str) -> None:
    """With those that there are."""
    with pytest.raises(UsageError, match=message):
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
    assert Instances((further_column("x", kind),)).field_values({"x": value}) == (expected,)


@pytest.mark.parametrize("value", ["p", 1.5, [1], {"a": 1}, 2**70])
def test_a_value_of_another_kind_is_a_fault(value: Any) -> None:
    """The message names the field."""
    with pytest.raises(BadLabelError, match="field 'x': "):
        Instances((further_column("x", ColumnKind.INT64),)).field_values({"x": value})


def test_half_a_character_is_no_text() -> None:
    """UTF-8 cannot encode it."""
    with pytest.raises(BadLabelError, match="is not a text"):
        Instances((group_column("x"),)).field_values({"x": "\ud800"})


@pytest.mark.slow
def test_images_with_boxes_are_kept_together_by_a_field(working_folder: Path) -> None:
    """One without it could be on either side, so it is left out."""
    make(".")
    names = ("000000000034.jpg", "000000000071.jpg", "000000000508.jpg", "000000558840.jpg")
    ids = (34, 71, 508, 558840)
    places: tuple[Any, ...] = ("p1", "p1", "p2", None)
    images = [
        {**entry(f"train2017/{name}", i), "place": place}
        for name, i, place in zip(names, ids, places, strict=True)
    ]
    Path("coco/x.json").write_text(with_changes(images=images, annotations=[one(image_id=34)]))
    argv = ("--images", "coco", "--labels", "coco/x.json", "--output", "out", ALL_BAD)
    assert (
        convert(*argv, "--splits", "train=0.5,test=0.5", "--split_by", "place", "--seed", "3") == 0
    )
    split_of = {key[-10:]: split for key, split in split_of_each("out").items()}
    assert split_of["000034.jpg"] == split_of["000071.jpg"] != split_of["000508.jpg"]
    (letter,) = [x for x in dead_letters_of("out") if x["reason"] == "bad_label_value"]
    assert letter["key"] == "train2017/000000558840.jpg"
    assert letter["message"].startswith("field 'place': ")
