from __future__ import annotations

import json
import math
import struct
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from beam_pipeline.core.labels.cells import (
    BadCellError,
    bracketed_items,
    json_text,
    parse_value,
)
from beam_pipeline.core.labels.samples import KeepUnlabelled, is_unlabelled
from beam_pipeline.core.labels.schema import (
    Column,
    ColumnKind,
    further_column,
    label_column,
    object_columns,
)
from beam_pipeline.core.references import ImageRef, LabelValue, SampleRef
from tests.rows import in_rows

CLASS, INT64, FLOAT, BYTES = (
    ColumnKind.CLASS,
    ColumnKind.INT64,
    ColumnKind.FLOAT,
    ColumnKind.BYTES,
)


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        ("7", INT64, 7),
        (" -7 ", INT64, -7),
        ("9223372036854775807", INT64, (1 << 63) - 1),
        ("9007199254740993", INT64, (1 << 53) + 1),
        (9007199254740993, INT64, (1 << 53) + 1),
        (7.0, INT64, 7),
        (True, INT64, 1),
        ("0.5", FLOAT, 0.5),
        ("1e3", FLOAT, 1000.0),
        ("-inf", FLOAT, -math.inf),
        (3, FLOAT, 3.0),
        (" x ", BYTES, "x"),
        (3, BYTES, "3"),
        (False, BYTES, "false"),
        (None, BYTES, ""),
        (2.5, CLASS, "2.5"),
    ],
)
def test_a_cell_is_a_value_of_its_kind(value: Any, kind: ColumnKind, expected: LabelValue) -> None:
    """Value and type are those of the column, whatever the file had."""
    parsed = parse_value(value, kind)
    assert parsed == expected
    assert type(parsed) is type(expected)


@in_rows
def test_a_cell_that_is_no_value_of_its_kind_is_an_error(value: Any, kind: ColumnKind) -> None:
    """Nothing is rounded, cut or taken for a number that a person would not take for one."""
    with pytest.raises(ValueError):  # noqa: PT011  its message is the caller's business
        parse_value(value, kind)


@given(st.floats())
@example(math.nextafter(3.4028235677973366e38, 0))  # the largest that rounds to a float32
@example(-3.4028235677973366e38)
def test_a_float_that_is_accepted_fits_a_float32(number: float) -> None:
    """What passes can be packed, and what is refused cannot."""
    try:
        packed = struct.pack("<f", number)
    except OverflowError:
        with pytest.raises(ValueError, match="too large for a float32"):
            parse_value(number, FLOAT)
    else:
        accepted = parse_value(number, FLOAT)
        assert isinstance(accepted, float)
        assert struct.pack("<f", accepted) == packed


# --- lists in brackets ---------------------------------------------------------------------------


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]))))
def test_what_python_and_json_write_is_read_back(items: list[str]) -> None:
    """With any characters in the items."""
    assert bracketed_items(json.dumps(items)) == items
    assert bracketed_items(repr(items)) == items


TURNS = [{"from": "human", "value": "é <image>"}, {"value": 1.50, "from": None}]
TEXT = '[{"from":"human","value":"é <image>"},{"value":1.5,"from":null}]'


@pytest.mark.parametrize(
    ("cell", "problem"),
    [
        ("[1,", "'[1,' is not JSON: Expecting value"),
        ("[1e999]", "'[1e999]' is not JSON: a number is too large"),
        ("[NaN]", "'[NaN]' is not JSON: Out of range float values are not JSON compliant"),
        ('["\\ud800"]', "is not JSON: it escapes half a character"),
        ("[" * 100_000, "[... is nested too deep"),
        ("cat", "'cat' is not JSON: Expecting value"),
    ],
)
def test_what_is_not_json_is_a_bad_cell(cell: str, problem: str) -> None:
    """Broken text, numbers that no reader can hold, and text that is not UTF-8."""
    with pytest.raises(BadCellError) as caught:
        json_text(cell)
    assert problem in str(caught.value)


# --- renames ------------------------------------------------------------------------------------

ANIMAL = (label_column("animal", ColumnKind.CLASS), further_column("age", ColumnKind.INT64))


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


def test_the_label_decides_whether_a_sample_is_labelled() -> None:
    """An empty one is none, whatever the other columns say; no objects are a label."""
    keep = KeepUnlabelled.of((AGE, LABEL))
    assert marked(keep, 3, "cat") == (3, "cat", 1)
    assert marked(keep, None, "cat") == (None, "cat", 1)
    assert marked(keep, 3, None) == (3, None, 0)
    assert marked(KeepUnlabelled.of((AGE,)), None) == (None, 1)
    assert marked(KeepUnlabelled.of(object_columns(pixels=True)), (), ()) == ((), (), 1)
