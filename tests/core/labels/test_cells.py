from __future__ import annotations

import json
import math
import struct
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_pipeline.core.labels.cells import (
    are_bracketed,
    bracketed_items,
    infer_kind,
    parse_value,
)
from beam_pipeline.core.labels.schema import ColumnKind
from beam_pipeline.core.references import LabelValue
from tests.core.labels.fixtures import inspect, read

CLASS, INT64, FLOAT, BYTES = (
    ColumnKind.CLASS,
    ColumnKind.INT64,
    ColumnKind.FLOAT,
    ColumnKind.BYTES,
)


@pytest.mark.parametrize(
    ("values", "share"), [(["1"] * 9 + ["x"], 0.9), (["1", "x"], 0.5), (["2", "2", "2", "x"], 0.75)]
)
def test_exactly_the_share_is_at_least_the_share(values: list[str], share: float) -> None:
    """Nine of ten values that are numbers agree on numbers."""
    assert infer_kind(values, share) is INT64


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1, 2], INT64),
        ([True, False], INT64),
        ([1, 2.5], FLOAT),
        ([1.0, 2.0], INT64),
        ([1, None], INT64),
        ([1, "2"], INT64),
        (["a", 1], BYTES),
        ([True, "true"], BYTES),
        ([None, None], BYTES),
        ([[1], [2]], BYTES),
        ([float("nan"), 1], FLOAT),
    ],
)
def test_values_of_json_are_what_they_are(values: list[Any], kind: ColumnKind) -> None:
    """Numbers, words and nothing are told apart by type as well as by look."""
    assert infer_kind(values, 0.9) is kind


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


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("x", INT64),
        ("", INT64),
        ("1.5", INT64),
        ("1.0", INT64),
        ("1_000", INT64),
        (1.5, INT64),
        (1e300, INT64),
        ("9223372036854775808", INT64),
        ("-9223372036854775809", INT64),
        ("x", FLOAT),
        ("1_0.5", FLOAT),
        ("1,5", FLOAT),
        ("3.5e38", FLOAT),
        ([1], BYTES),
        ({}, CLASS),
        ([], INT64),
    ],
)
def test_a_cell_that_is_no_value_of_its_kind_is_an_error(value: Any, kind: ColumnKind) -> None:
    """Nothing is rounded, cut or taken for a number that a person would not take for one."""
    with pytest.raises(ValueError):  # noqa: PT011  its message is the caller's business
        parse_value(value, kind)


@given(st.floats())
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


@pytest.mark.parametrize(
    ("largest", "fits"), [(math.nextafter(3.4028235677973366e38, 0), True), (3.41e38, False)]
)
def test_the_largest_float_is_the_one_that_rounds_to_a_float32(largest: float, fits: bool) -> None:
    """The bound lies half a step above the largest float32, on either side of zero."""
    for number in (largest, -largest):
        if fits:
            assert parse_value(number, FLOAT) == number
            assert struct.pack("<f", number)
        else:
            with pytest.raises(ValueError, match="too large"):
                parse_value(number, FLOAT)


# --- lists in brackets ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ("['cat', 'sea lion']", ["cat", "sea lion"]),
        ('["cat"]', ["cat"]),
        (" [cat, golden retriever,] ", ["cat", "golden retriever"]),
        ("[golden retriever]", ["golden retriever"]),
        ("['cat' 'dog']", ["cat", "dog"]),
        (r"""["bird's", 'a \'b\', c']""", ["bird's", "a 'b', c"]),
        ("[1, 2.50, NaN]", [1, "2.50", "NaN"]),
        ("[-1.e-3  nan\n 4]", ["-1.e-3", "nan", "4"]),
        ("[None, 'x']", [None, "x"]),
        (r"['C:\data\d', '\\d']", [r"C:\data\d", r"\d"]),
        ("[]", []),
        ("", []),
    ],
)
def test_quotes_commas_and_spaces(text: str, items: Sequence[Any]) -> None:
    """Words without quotes are divided at commas alone, numbers at spaces as well."""
    assert bracketed_items(text) == items


@pytest.mark.parametrize(
    "text",
    [
        "cat",
        "[cat",
        "cat]",
        "[a,,b]",
        "[a, , b]",
        "['a', ['b']]",
        "['a' b, c]",
        "['a'b]",
        "[bird's, cat]",
        "[(1, 2)]",
        "[np.str_('a')]",
        "{'a', 'b'}",
        r"['C:\Users\me']",
        r"['\N{no such character}']",
        "['a\0']",
    ],
)
def test_anything_else_is_no_list(text: str) -> None:
    """Nothing is guessed."""
    with pytest.raises(ValueError, match="not a list in brackets"):
        bracketed_items(text)


@pytest.mark.parametrize("text", [r"['\ud800']", r'["a", "\udfff"]', r"[1, '\ud83d']"])
def test_half_a_character_is_no_text(text: str) -> None:
    """No feature can hold it."""
    with pytest.raises(ValueError, match="not a list of texts in UTF-8"):
        bracketed_items(text)


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]))))
def test_what_python_and_json_write_is_read_back(items: list[str]) -> None:
    """With any characters in the items."""
    assert bracketed_items(json.dumps(items)) == items
    assert bracketed_items(repr(items)) == items


def test_a_column_of_lists_in_brackets() -> None:
    """Its items are texts or numbers; a cell of another form is a bad value."""
    content = (
        """filename,label,score\na.jpg,"['cat', 'dog']","[1, 2.5]"\nb.jpg,[],[]\nc.jpg,owl,[3]\n"""
    )
    separators = {"label": "[]", "score": "[]"}
    schema, _ = inspect(content, separators=separators)
    assert [column.repeated for column in schema.columns] == [True, True]
    rows = read(content, separators=separators)
    assert [row.values for row in rows[:2]] == [(("cat", "dog"), (1.0, 2.5)), ((), ())]
    assert rows[2].problem == "column 'label': 'owl' is not a list in brackets, such as ['a', 'b']"


def test_most_classes_must_look_like_lists() -> None:
    """Or like parts of them, where a list was cut at its commas."""
    assert are_bracketed(["['cat', 'dog']", "['cat']", "owl"])
    assert are_bracketed(["['cat'", "'dog']", "['owl']"])
    assert not are_bracketed(["[unknown]", "dog", "cat"])
    assert not are_bracketed(["[unknown]", "dog"])
