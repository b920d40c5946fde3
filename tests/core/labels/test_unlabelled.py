"""Samples of images without labels, and the mark that tells them from those that have some."""

from __future__ import annotations

from beam_pipeline.core.labels.schema import (
    Column,
    ColumnKind,
    further_column,
    label_column,
    object_columns,
)
from beam_pipeline.core.labels.unlabelled import KeepUnlabelled, is_unlabelled
from beam_pipeline.core.references import ImageRef, LabelValue, SampleRef

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
