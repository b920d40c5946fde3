"""What a report shows of an example."""

from __future__ import annotations

from typing import Any

import pytest

from beam_pipeline.core.labels.schema import (
    Column,
    ColumnKind,
    further_column,
    label_column,
    object_columns,
    segmentation_column,
)
from beam_pipeline.core.records.example_proto import Example
from beam_pipeline.core.report.samples import (
    MOST_BOXES,
    ShownBox,
    ShownSample,
    shown_sample,
)


def record(**features: Any) -> bytes:
    """A serialized example; `__` stands for `/` in keys."""
    example = Example()
    for key, value in features.items():
        feature = example.features.feature[key.replace("__", "/")]
        values = value if isinstance(value, list) else [value]
        if isinstance(values[0], bytes):
            feature.bytes_list.value.extend(values)
        elif isinstance(values[0], float):
            feature.float_list.value.extend(values)
        else:
            feature.int64_list.value.extend(values)
    data: bytes = example.SerializeToString()
    return data


IMAGE = {"image__encoded": b"\xff\xd8", "image__source_id": b"a/1.jpg"}


def test_labels_are_shown_by_their_names() -> None:
    """Classes as texts, numbers with the digits that they have, long lists shortened."""
    columns = (
        label_column("species", ColumnKind.BYTES),
        further_column("score", ColumnKind.FLOAT),
        further_column("empty", ColumnKind.FLOAT),
        further_column("years", ColumnKind.INT64),
    )
    data = record(
        **IMAGE,
        image__class__label=3,
        image__class__text=b"cat",
        label__score=0.1,
        label__years=[1, 2, 3, 4, 5, 6],
    )
    assert shown_sample(data, columns, {}) == ShownSample(
        "a/1.jpg",
        b"\xff\xd8",
        labels=(("class", "cat"), ("score", "0.1"), ("years", "1, 2, 3, 4, and 2 more")),
    )


def test_features_under_other_keys_are_found() -> None:
    """As --features names them."""
    data = record(img=b"png", image__source_id=b"1.png", y=7.5)
    columns = (label_column("y", ColumnKind.FLOAT),)
    found = shown_sample(data, columns, {"img": "image/encoded", "y": "image/label"})
    assert found == ShownSample("1.png", b"png", labels=(("label", "7.5"),))


def test_boxes_and_masks() -> None:
    """Each box with its class, the first of very many; a mask as it is."""
    many = MOST_BOXES + 5
    sides = {f"image__object__bbox__{side}": [0.5] * many for side in ("xmin", "ymin", "xmax")}
    data = record(
        **IMAGE,
        **sides,
        image__object__bbox__ymax=[0.75] * many,
        image__object__class__text=[b"car"] * many,
        image__segmentation__class__encoded=b"mask",
    )
    columns = (*object_columns(pixels=True), segmentation_column("class", required=True))
    found = shown_sample(data, columns, {})
    assert found is not None
    assert found.mask == b"mask"
    assert found.objects == many
    assert found.boxes == (ShownBox(0.5, 0.5, 0.5, 0.75, "car"),) * MOST_BOXES
    assert found.labels == ()


def test_a_kept_sample_without_a_label_is_shown_as_such() -> None:
    """Its mark is no label."""
    columns = (Column("labelled", ColumnKind.INT64, "image/labelled", required=True),)
    unlabelled, labelled = (
        shown_sample(record(**IMAGE, image__labelled=value), columns, {}) for value in (0, 1)
    )
    assert unlabelled is not None
    assert labelled is not None
    assert unlabelled.labels == (("class", "unlabelled"),)
    assert labelled.labels == ()


@pytest.mark.parametrize("data", [b"", record(a=5)])
def test_an_example_of_anything_is_shown(data: bytes) -> None:
    """Those of Python have any features."""
    columns = (*object_columns(pixels=True), label_column("class", ColumnKind.BYTES))
    assert shown_sample(data, columns, {}) == ShownSample("")


def test_what_is_no_example_is_not_shown() -> None:
    """Instead of an error."""
    assert shown_sample(b"\xff\xff", (), {}) is None
