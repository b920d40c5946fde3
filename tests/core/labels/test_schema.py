"""The columns of labels, their features, and samples without labels."""

from __future__ import annotations

import pytest

from beam_pipeline.core.labels.samples import KeepUnlabelled, is_unlabelled
from beam_pipeline.core.labels.schema import (
    CLASS_FOLDER_COLUMNS,
    Column,
    ColumnKind,
    class_column,
    further_column,
    group_column,
    keypoint_columns,
    label_column,
    mask_column,
    object_columns,
    point_column,
    written_key,
)
from beam_pipeline.core.records.features import feature_kinds
from beam_pipeline.core.references import ImageRef, LabelValue, SampleRef


@pytest.mark.parametrize("kind", [ColumnKind.CLASS, ColumnKind.INT64, ColumnKind.BYTES])
def test_a_label_is_a_class(kind: ColumnKind) -> None:
    """Its two features are those of TF Model Garden."""
    column = label_column("animal", kind)
    assert column == Column("animal", ColumnKind.CLASS, "image/class", required=True)
    assert column.feature_keys == ("image/class/label", "image/class/text")


def list_kinds(column: Column) -> tuple[str, ...]:
    return tuple(part.kind for part in column.written)


def test_a_decimal_label_is_a_number_to_regress_on() -> None:
    """Its one feature is image/label."""
    column = label_column("score", ColumnKind.FLOAT)
    assert column == Column("score", ColumnKind.FLOAT, "image/label", required=True)
    assert column.feature_keys == ("image/label",)


@pytest.mark.parametrize("kind", [ColumnKind.INT64, ColumnKind.FLOAT, ColumnKind.BYTES])
def test_a_further_column_is_a_feature_by_its_name(kind: ColumnKind) -> None:
    """It may be empty."""
    column = further_column("age", kind)
    assert column == Column("age", kind, "label/age", required=False)
    assert column.feature_keys == ("label/age",)


def test_folders_are_one_column_of_classes() -> None:
    """Without a table the folder is the label."""
    (column,) = CLASS_FOLDER_COLUMNS
    assert column == Column("folder", ColumnKind.CLASS, "image/class", required=True)


@pytest.mark.parametrize("pixels", [True, False])
def test_boxes_know_their_unit(pixels: bool) -> None:
    """Both columns must be there for every sample, and both are lists."""
    boxes, classes = object_columns(pixels=pixels)
    assert boxes == Column(
        "bbox", ColumnKind.BOX, "image/object/bbox", required=True, repeated=True, pixels=pixels
    )
    assert boxes.feature_keys == (
        "image/object/bbox/xmin",
        "image/object/bbox/ymin",
        "image/object/bbox/xmax",
        "image/object/bbox/ymax",
    )
    assert list_kinds(boxes) == ("float",) * 4
    assert classes == Column(
        "class", ColumnKind.CLASS, "image/object/class", required=True, repeated=True
    )
    assert classes.feature_keys == ("image/object/class/label", "image/object/class/text")
    assert list_kinds(classes) == ("int64", "bytes")


# --- renames ------------------------------------------------------------------------------------

ANIMAL = (label_column("animal", ColumnKind.CLASS), further_column("age", ColumnKind.INT64))


@pytest.mark.parametrize(
    ("renames", "key", "written"),
    [
        ({}, "image/height", "image/height"),
        ({"h": "image/height"}, "image/height", "h"),
        ({"h": "image/height"}, "image/width", "image/width"),
        ({"image/source_id": "label/age"}, "label/age", "image/source_id"),
        ({"image/source_id": "label/age"}, "image/source_id", None),
        ({"a": "b", "b": "a"}, "a", "b"),
        ({"a": "b", "b": "a"}, "b", "a"),
        ({"a": "a"}, "a", "a"),
        ({"a": "b", "b": "c"}, "a", None),
        ({"a": "b", "b": "c"}, "b", "a"),
    ],
)
def test_a_feature_is_written_under_its_new_key_or_gives_its_own_away(
    renames: dict[str, str], key: str, written: str | None
) -> None:
    """Two may change places; one whose key another took and that has no new one is not written."""
    assert written_key(key, renames) == written


def test_the_place_of_the_class_is_known() -> None:
    """It may stand anywhere among the columns, or nowhere."""
    assert class_column(ANIMAL) == 0
    assert class_column(ANIMAL[::-1]) == 1
    assert class_column(ANIMAL[1:]) is None
    assert class_column(()) is None


@pytest.mark.parametrize("pixels", [True, False])
def test_key_points_and_masks_have_the_keys_of_tensorflow_s_detectors(pixels: bool) -> None:
    """Points are two lists of numbers, a mask is an image."""
    points, visibility, labelled = keypoint_columns(pixels=pixels)
    assert points.feature_keys == ("image/object/keypoint/x", "image/object/keypoint/y")
    assert list_kinds(points) == ("float", "float")
    assert visibility.feature_keys == ("image/object/keypoint/visibility",)
    assert labelled.feature_keys == ("image/object/keypoint/num",)
    mask = mask_column(pixels=pixels)
    assert (mask.feature_keys, list_kinds(mask)) == (("image/object/mask",), ("bytes",))
    assert {points.pixels, mask.pixels} == {pixels}
    assert point_column("corner", pixels=pixels).feature == "image/object/corner"


def test_a_column_for_grouping_becomes_no_feature() -> None:
    """It is never empty, and neither the examples nor the manifest know of it."""
    column = group_column("patient")
    assert (column.kind, column.required) == (ColumnKind.BYTES, True)
    assert column.feature_keys == list_kinds(column) == ()
    assert feature_kinds((*ANIMAL, column)) == feature_kinds(ANIMAL)


LABEL = label_column("kind", ColumnKind.BYTES)
AGE = further_column("age", ColumnKind.INT64)
IMAGE = ImageRef("a/1.jpg", "/photos/a/1.jpg", 9, 77)


def marked(keep: KeepUnlabelled, *labels: LabelValue) -> tuple[LabelValue, ...]:
    sample = keep.marked(SampleRef("1.jpg", "/photos/1.jpg", 9, "train", labels))
    assert is_unlabelled(sample) == (sample.labels[-1] == 0)
    return sample.labels


def test_no_column_is_required_but_the_mark() -> None:
    """What an image without labels lacks is optional; each says whether it has them."""
    keep = KeepUnlabelled.of((LABEL, AGE))
    mark = Column("labelled", ColumnKind.INT64, "image/labelled", required=True)
    assert [column.required for column in keep.label_columns] == [False, False]
    assert [column.feature for column in keep.label_columns] == ["image/class", "label/age"]
    assert keep.columns[-1] == mark


def test_an_image_without_labels_is_a_sample_without_values() -> None:
    """Its file and version are those that were listed."""
    sample = KeepUnlabelled.of((LABEL, AGE)).sample(IMAGE, "test")
    assert sample == SampleRef(*IMAGE[:3], "test", (None, None, 0), -1, "", 77)
    assert is_unlabelled(sample)


def test_the_label_decides_whether_a_sample_is_labelled() -> None:
    """An empty one is none, whatever the other columns say; no objects are a label."""
    keep = KeepUnlabelled.of((AGE, LABEL))
    assert marked(keep, 3, "cat") == (3, "cat", 1)
    assert marked(keep, None, "cat") == (None, "cat", 1)
    assert marked(keep, 3, None) == (3, None, 0)
    assert marked(KeepUnlabelled.of((AGE,)), None) == (None, 1)
    assert marked(KeepUnlabelled.of(object_columns(pixels=True)), (), ()) == ((), (), 1)
