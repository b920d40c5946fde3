"""What the columns of a Parquet file hold."""

from __future__ import annotations

import io
import json
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from beam_pipeline.core.errors import LabelTableError
from beam_pipeline.core.labels.parquet_columns import (
    ParquetColumns,
    parquet_columns,
)
from tests.pictures import picture


def columns_of(columns: dict[str, Any], features: Any = None) -> ParquetColumns:
    """The columns of a file with these, described as Hugging Face does if there are `features`."""
    table = pa.table(columns)
    if features is not None:
        described = features if isinstance(features, str) else json.dumps(features)
        table = table.replace_schema_metadata({"huggingface": described})
    out = io.BytesIO()
    parquet.write_table(table, out)
    return parquet_columns(io.BytesIO(out.getvalue()), "x.parquet")


def test_images_are_told_by_their_bytes() -> None:
    """As structs, as bytes, and in lists; other bytes are no images, and nulls say nothing."""
    image = {"bytes": picture(1), "path": "a.jpg"}
    columns = columns_of(
        {
            "struct": [None, image],
            "plain": [picture(1), None],
            "several": [[], [image]],
            "sound": [{"bytes": b"RIFF....WAVE", "path": None}] * 2,
            "raw": [b"\x00\x01", b""],
            "nothing": pa.array([None, None], pa.binary()),
            "score": [0.5, 1],
            "numbers": [[0.5], []],
            "name": ["a", "b"],
            "label": [0, 1],
        }
    )
    assert columns.rows == 2
    assert columns.hold_images
    assert columns.images == ("struct", "plain")
    assert columns.image_lists == ("several",)
    assert columns.structs == ("struct", "several")
    assert columns.unused == ("sound", "raw", "nothing")
    assert columns.labels == ("score", "numbers", "name", "label")
    assert (columns.floats, columns.texts) == (("score", "numbers"), ("name",))


def test_the_description_counts_where_there_is_one() -> None:
    """An image may be missing in all rows; sound is no image, whatever its bytes are."""
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    rows = pa.array([{"bytes": None, "path": "a.jpg"}], kind)
    sound = pa.array([{"bytes": picture(1), "path": None}], kind)
    features = {"image": {"_type": "Image"}, "sound": {"_type": "Audio"}}
    columns = columns_of({"image": rows, "sound": sound}, {"info": {"features": features}})
    assert (columns.images, columns.unused) == (("image",), ("sound",))


NAMES = {"names": ["a", "b"], "_type": "ClassLabel"}


@pytest.mark.parametrize(
    ("described", "classes"),
    [
        (NAMES, {"label": ("a", "b")}),
        ({"feature": NAMES, "_type": "Sequence"}, {"label": ("a", "b")}),
        ({"feature": NAMES, "_type": "List"}, {"label": ("a", "b")}),
        ([NAMES], {"label": ("a", "b")}),
        (
            {"feature": {"category": NAMES, "id": {"_type": "Value"}}, "_type": "Sequence"},
            {"label.category": ("a", "b")},
        ),
        ({"category": {"feature": NAMES, "_type": "List"}}, {"label.category": ("a", "b")}),
        ({"_type": "Value"}, {}),
        ({"_type": "ClassLabel"}, {}),
        ({"_type": "ClassLabel", "names": ["a", "a "]}, {}),
        ({"_type": "ClassLabel", "names": ["a", 1]}, {}),
        ({"_type": "ClassLabel", "names": ["", "a"]}, {}),
        ("text", {}),
        (None, {}),
    ],
)
def test_names_of_classes(described: Any, classes: dict[str, tuple[str, ...]]) -> None:
    """Wherever the description has them; names that are no names leave the ids."""
    columns = columns_of({"label": [0]}, {"info": {"features": {"label": described}}})
    assert columns.classes == classes


@pytest.mark.parametrize(
    "described", ["", "{", "[]", '{"info": 3}', '{"info": {"features": []}}', "[" * 99999]
)
def test_a_description_that_is_none(described: str) -> None:
    """It is passed over."""
    assert columns_of({"label": [0]}, described).classes == {}


def test_two_columns_of_one_name() -> None:
    """Nobody knows which of the two is meant."""
    out = io.BytesIO()
    table = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    parquet.write_table(table, out)
    with pytest.raises(LabelTableError, match=r"x\.parquet has more than one column 'a'"):
        parquet_columns(io.BytesIO(out.getvalue()), "x.parquet")
