"""Cells as typed values, lists in brackets and JSON in them; images without labels."""

from __future__ import annotations

import json
import math
import struct
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from beam_pipeline.core.labels import cells, samples, schema
from beam_pipeline.core.references import LabelValue, SampleRef
from tests.rows import in_rows, raised


@in_rows
def test_a_cell_is_a_value_of_its_kind(value: Any, kind: str, expected: LabelValue) -> None:
    """Value and type are those of the column, whatever the file had."""
    assert repr(cells.parse_value(value, schema.ColumnKind(kind))) == repr(expected)


@in_rows
def test_a_cell_that_is_no_value_of_its_kind_is_an_error(value: Any, kind: str) -> None:
    """Nothing is rounded, cut or taken for a number that a person would not take for one."""
    raised(ValueError, cells.parse_value, value, schema.ColumnKind(kind))


@given(st.floats(allow_infinity=False))
@example(math.nextafter(3.4028235677973366e38, 0))  # the largest that rounds to a float32
@example(-3.4028235677973366e38)
def test_a_float_that_is_accepted_fits_a_float32(number: float) -> None:
    """What passes can be packed, and what is refused cannot."""
    try:
        packed = struct.pack("<f", number)
    except OverflowError:
        error = raised(ValueError, cells.parse_value, number, schema.ColumnKind.FLOAT)
        assert "too large for a float32" in str(error)
    else:
        assert struct.pack("<f", cells.parse_value(number, schema.ColumnKind.FLOAT)) == packed


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]))))
def test_lists_that_python_and_json_write_are_read_back(items: list[str]) -> None:
    """With any characters in the items."""
    assert cells.bracketed_items(json.dumps(items)) == items
    assert cells.bracketed_items(repr(items)) == items


@pytest.mark.parametrize(
    ("cell", "problem"),
    [
        ("[1,", "'[1,' is not JSON: Expecting value"),
        ("[1e999]", "'[1e999]' is not JSON: Out of range float values"),
        ("[NaN]", "'[NaN]' is not JSON: Out of range float values are not JSON compliant"),
        ('["\\ud800"]', "is not JSON: it escapes half a character"),
        ("[" * 100_000, "[... is nested too deep"),
        ("cat", "'cat' is not JSON: Expecting value"),
    ],
)
def test_what_is_not_json_is_a_bad_cell(cell: str, problem: str) -> None:
    """Broken text, numbers that no reader can hold, and text that is not UTF-8."""
    assert problem in str(raised(cells.BadCellError, cells.json_text, cell))


LABEL = schema.label_column("kind", schema.ColumnKind.BYTES)
AGE = schema.further_column("age", schema.ColumnKind.INT64)


def test_no_column_is_required_but_the_mark() -> None:
    """What an image without labels lacks is optional; each says whether it has them."""
    keep = samples.KeepUnlabelled.of((LABEL, AGE))
    assert [(column.feature, column.required) for column in keep.label_columns] == [
        ("image/class", False),
        ("label/age", False),
    ]
    mark = schema.Column("labelled", schema.ColumnKind.INT64, "image/labelled", required=True)
    assert keep.columns[-1] == mark


@pytest.mark.parametrize(
    ("columns", "labels", "mark"),
    [
        ((AGE, LABEL), (3, "cat"), 1),
        ((AGE, LABEL), (None, "cat"), 1),
        ((AGE, LABEL), (3, None), 0),
        ((AGE,), (None,), 1),
        (schema.object_columns(pixels=True), ((), ()), 1),
    ],
)
def test_the_label_decides_whether_a_sample_is_labelled(
    columns: Any, labels: Any, mark: int
) -> None:
    """An empty one is none, whatever the other columns say; no objects are a label."""
    ref = SampleRef("1.jpg", "/photos/1.jpg", 9, "train", labels)
    marked = samples.KeepUnlabelled.of(columns).marked(ref)
    assert (marked.labels, samples.is_unlabelled(marked)) == ((*labels, mark), mark == 0)
