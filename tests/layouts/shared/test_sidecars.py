"""Columns of files beside images."""

from __future__ import annotations

from typing import Any

import pytest

from beam_pipeline.core.errors import UsageError
from beam_pipeline.layouts.layout import SourceOptions
from beam_pipeline.layouts.sidecars import inspect_sidecars, json_fields


def columns_of(row: dict[str, Any], **options: Any) -> tuple[dict[str, str], tuple[str, ...]]:
    """Feature -> kind of a sample's columns, and the notes."""
    kinds = options.pop("kinds", None)
    schema, table, notes = inspect_sidecars(
        "/d", [{"__key__": "a", **row}], SourceOptions(("/d",), **options), kinds
    )
    assert (table.uri, table.key_column) == ("/d", "__key__")
    return {column.feature: column.kind.value for column in schema.columns}, notes


def test_a_class_is_the_label_and_all_else_further_columns() -> None:
    """Objects are left out, with a note."""
    row = {"cls": "cat", "caption": "7", "meta": {"x": 1}, "boxes": [[1, 2]], "tags": ["a"]}
    columns, notes = columns_of(row)
    assert columns == {"image/class": "class", "label/caption": "int64", "label/tags": "bytes"}
    assert notes == ("left out, since they are objects or lists of them: meta, boxes",)


def test_a_known_type_is_not_guessed_and_options_come_first() -> None:
    """A caption of digits is a text."""
    assert columns_of({"caption": "7"}, kinds={"caption": "str"})[0] == {"label/caption": "bytes"}
    row = {"caption": "7", "n": 1}
    columns, _ = columns_of(row, kinds={"caption": "str"}, columns={"caption": "int"})
    assert columns == {"label/caption": "int64", "label/n": "int64"}


def test_an_unknown_column_is_an_error() -> None:
    """It says what there is."""
    with pytest.raises(UsageError, match=r"labels beside the images of /d: no column 'x'"):
        columns_of({"caption": "a"}, label_column="x")


@pytest.mark.parametrize("text", ["[1]", "1", "{", '{"a": "\\ud800"}'])
def test_other_json_is_refused(text: str) -> None:
    """Half a character cannot be written."""
    with pytest.raises(ValueError):  # noqa: PT011 -- of several kinds
        json_fields(text)
    assert json_fields('{"a": 1e999, "b": "\\u00e9"}') == {"a": "1e999", "b": "é"}
