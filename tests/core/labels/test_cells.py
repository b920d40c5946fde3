from __future__ import annotations

import json
import math
import struct
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from beam_pipeline.core.labels import cells, schema
from beam_pipeline.core.labels.samples import KeepUnlabelled, is_unlabelled
from beam_pipeline.core.references import ImageRef, LabelValue, SampleRef

CLASS, INT64, FLOAT, BYTES = (
    schema.ColumnKind.CLASS,
    schema.ColumnKind.INT64,
    schema.ColumnKind.FLOAT,
    schema.ColumnKind.BYTES,
)


@pytest.mark.parametrize(
    ("values", "share"), [(["1"] * 9 + ["x"], 0.9), (["1", "x"], 0.5), (["2", "2", "2", "x"], 0.75)]
)
def test_exactly_the_share_is_at_least_the_share(values: list[str], share: float) -> None:
    """Nine of ten values that are numbers agree on numbers."""
    assert cells.infer_kind(values, share) is INT64


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
def test_a_cell_is_a_value_of_its_kind(
    value: Any, kind: schema.ColumnKind, expected: LabelValue
) -> None:
    """Value and type are those of the column, whatever the file had."""
    parsed = cells.parse_value(value, kind)
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
def test_a_cell_that_is_no_value_of_its_kind_is_an_error(
    value: Any, kind: schema.ColumnKind
) -> None:
    """Nothing is rounded, cut or taken for a number that a person would not take for one."""
    with pytest.raises(ValueError):  # noqa: PT011  its message is the caller's business
        cells.parse_value(value, kind)


@given(st.floats())
@example(math.nextafter(3.4028235677973366e38, 0))  # the largest that rounds to a float32
@example(-3.4028235677973366e38)
def test_a_float_that_is_accepted_fits_a_float32(number: float) -> None:
    """What passes can be packed, and what is refused cannot."""
    try:
        packed = struct.pack("<f", number)
    except OverflowError:
        with pytest.raises(ValueError, match="too large for a float32"):
            cells.parse_value(number, FLOAT)
    else:
        accepted = cells.parse_value(number, FLOAT)
        assert isinstance(accepted, float)
        assert struct.pack("<f", accepted) == packed


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
    assert cells.bracketed_items(text) == items


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
        cells.bracketed_items(text)


@pytest.mark.parametrize("text", [r"['\ud800']", r'["a", "\udfff"]', r"[1, '\ud83d']"])
def test_half_a_character_is_no_text(text: str) -> None:
    """No feature can hold it."""
    with pytest.raises(ValueError, match="not a list of texts in UTF-8"):
        cells.bracketed_items(text)


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]))))
def test_what_python_and_json_write_is_read_back(items: list[str]) -> None:
    """With any characters in the items."""
    assert cells.bracketed_items(json.dumps(items)) == items
    assert cells.bracketed_items(repr(items)) == items


TURNS = [{"from": "human", "value": "é <image>"}, {"value": 1.50, "from": None}]
TEXT = '[{"from":"human","value":"é <image>"},{"value":1.5,"from":null}]'


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        (TURNS, TEXT),
        (json.dumps(TURNS, indent=2), TEXT),
        ({}, "{}"),
        ([], "[]"),
        (True, "true"),
        (7, "7"),
        ('"a"', '"a"'),
        (' {"b": 1, "a": "\\u00e9"} ', '{"b":1,"a":"é"}'),
        ("", None),
        ("NaN", None),
        ("null", None),
        (None, None),
        ('["1e999"]', '["1e999"]'),
    ],
)
def test_a_value_of_json_and_its_text_become_the_same(cell: Any, text: str | None) -> None:
    """Keys keep their order, and nothing but spaces and escapes changes."""
    assert cells.json_text(cell) == text


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
    with pytest.raises(cells.BadCellError) as caught:
        cells.json_text(cell)
    assert problem in str(caught.value)


# --- renames ------------------------------------------------------------------------------------

ANIMAL = (
    schema.label_column("animal", schema.ColumnKind.CLASS),
    schema.further_column("age", schema.ColumnKind.INT64),
)


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
    assert schema.written_key(key, renames) == written


LABEL = schema.label_column("kind", schema.ColumnKind.BYTES)
AGE = schema.further_column("age", schema.ColumnKind.INT64)
IMAGE = ImageRef("a/1.jpg", "/photos/a/1.jpg", 9, 77)


def marked(keep: KeepUnlabelled, *labels: LabelValue) -> tuple[LabelValue, ...]:
    sample = keep.marked(SampleRef("1.jpg", "/photos/1.jpg", 9, "train", labels))
    assert is_unlabelled(sample) == (sample.labels[-1] == 0)
    return sample.labels


def test_no_column_is_required_but_the_mark() -> None:
    """What an image without labels lacks is optional; each says whether it has them."""
    keep = KeepUnlabelled.of((LABEL, AGE))
    mark = schema.Column("labelled", schema.ColumnKind.INT64, "image/labelled", required=True)
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
    assert marked(KeepUnlabelled.of(schema.object_columns(pixels=True)), (), ()) == ((), (), 1)
