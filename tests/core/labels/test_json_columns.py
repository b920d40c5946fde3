"""Columns of JSON, which are kept as text."""

from __future__ import annotations

import json
from typing import Any

import pytest

from beam_pipeline.core.errors import LabelTableError
from beam_pipeline.core.labels.cells import BadCellError, json_text
from beam_pipeline.core.labels.schema import Column, ColumnKind
from beam_pipeline.core.references import LabelRow
from tests.core.labels.fixtures import inspect, read

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
    assert json_text(cell) == text


@pytest.mark.parametrize(
    ("cell", "problem"),
    [
        ("[1,", "'[1,' is not JSON: Expecting value"),
        ("[1e999]", "'[1e999]' is not JSON: a number is too large"),
        ("[NaN]", "'[NaN]' is not JSON: Out of range float values are not JSON compliant"),
        ('["\\ud800"]', "is not JSON: it escapes half a character"),
        ("[" * 100_000, "is not JSON: maximum recursion depth exceeded"),
        ("cat", "'cat' is not JSON: Expecting value"),
    ],
)
def test_what_is_not_json_is_a_bad_cell(cell: str, problem: str) -> None:
    """Broken text, numbers that no reader can hold, and text that is not UTF-8."""
    with pytest.raises(BadCellError) as caught:
        json_text(cell)
    assert problem in str(caught.value)


CSV = 'file_name,label,turns\na.jpg,cat,"{""a"": 1}"\nb.jpg,dog,"{""a"""\nc.jpg,dog,\n'
LINES = (
    '{"file_name": "a.jpg", "label": "cat", "turns": {"a": 1}}\n'
    '{"file_name": "b.jpg", "label": "dog", "turns": {"a": 1e999}}\n'
    '{"file_name": "c.jpg", "label": "dog"}\n'
)


@pytest.mark.parametrize(
    ("content", "name", "line", "problem"),
    [
        (CSV, "l.csv", 3, """'{"a"' is not JSON: Expecting ':' delimiter"""),
        (CSV.replace(",", "\t"), "l.tsv", 3, """'{"a"' is not JSON: Expecting ':' delimiter"""),
        (LINES, "l.jsonl", 2, "{'a': '1e999'} is not JSON: a number is too large"),
    ],
)
def test_a_bad_cell_is_a_problem_of_its_row(
    content: str, name: str, line: int, problem: str
) -> None:
    """The others have the text; an empty cell has none."""
    rows = [
        row for row in read(content, name, kinds={"turns": "json"}) if isinstance(row, LabelRow)
    ]
    assert [row.values for row in rows] == [("cat", '{"a":1}'), ("dog", None), ("dog", None)]
    assert [row.line for row in rows if row.problem] == [line]
    assert problem in rows[1].problem


def test_undeclared_objects_are_asked_about() -> None:
    """The answer declares them, and says that there is no label if nothing else is one."""
    schema, _ = inspect(
        '{"file_name": "a.jpg", "id": 7, "turns": [{"a": 1}], "boxes": [[1, 2]]}\n', "l.jsonl"
    )
    (question,) = schema.questions
    assert question.id == "nested"
    assert question.answer == {
        "columns": {"turns": "json", "boxes": "json"},
        "label_column": "none",
    }
    assert schema.columns == (
        Column("id", ColumnKind.INT64, "label/id"),
        Column("turns", ColumnKind.JSON, "label/turns"),
        Column("boxes", ColumnKind.JSON, "label/boxes"),
    )
    labelled, _ = inspect('{"name": "a.jpg", "label": "cat", "turns": {"a": 1}}\n', "l.jsonl")
    assert [question.answer for question in labelled.questions] == [{"columns": {"turns": "json"}}]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"label": "turns"}, "the column 'turns' is the label, so it cannot be JSON (--columns)"),
        ({"key": "turns"}, "the column 'turns' names the image, so it cannot be JSON (--columns)"),
        (
            {"separators": {"turns": ";"}},
            "the column 'turns' is text of JSON (--columns), so it is not split (--list_column)",
        ),
    ],
)
def test_json_is_no_label_no_name_and_no_list(options: dict[str, Any], problem: str) -> None:
    """Options that contradict each other are an error."""
    with pytest.raises(LabelTableError) as caught:
        inspect(CSV, "l.csv", kinds={"turns": "json"}, **options)
    assert str(caught.value) == f"l.csv: {problem}"
