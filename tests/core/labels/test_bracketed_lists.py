"""Lists in brackets, as pandas, JSON and NumPy write them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_pipeline.core.labels.bracketed_lists import are_bracketed, bracketed_items
from tests.core.labels.fixtures import inspect, read


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
