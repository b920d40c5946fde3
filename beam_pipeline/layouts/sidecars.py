"""Files beside an image that say its labels: a caption, and a JSON object with a column for each of its fields."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from beam_pipeline.core.errors import LabelTableError, UsageError
from beam_pipeline.core.labels.object_lists import OBJECTS_COLUMN
from beam_pipeline.core.labels.table_files import LabelTable, TableHead
from beam_pipeline.core.labels.table_rows import json_float
from beam_pipeline.core.labels.tables import SKIP_KIND, LabelSchema, inspect_tables
from beam_pipeline.core.text import is_utf8, shown
from beam_pipeline.layouts.layout import SourceOptions
from beam_pipeline.layouts.table import column_choices

KEY_COLUMN, CLASS_COLUMN, CAPTION_COLUMN = "__key__", "cls", "caption"

SIDECAR_OPTIONS = frozenset(
    {
        *("label_column", "columns", "list_column", "one_hot"),
        *("label_base", "label_order", "class_ids"),
    }
)
"""The options of layouts whose columns are such files."""


def json_fields(text: str) -> dict[str, Any]:
    """The columns of a JSON object. Raises ValueError, RecursionError."""
    fields: Any = json.loads(text, parse_float=json_float)
    if not isinstance(fields, dict):
        raise ValueError(f"expected a JSON object, found {shown(fields)}")
    if "\\u" in text and not is_utf8(json.dumps(fields, ensure_ascii=False)):
        raise ValueError("it escapes half a character")
    return fields


def inspect_sidecars(
    uri: str,
    rows: Sequence[Mapping[str, Any]],
    options: SourceOptions,
    kinds: Mapping[str, str] | None = None,
) -> tuple[LabelSchema, LabelTable, tuple[str, ...]]:
    """Settles the columns by some samples.

    Args:
      uri: of all files, for messages.
      rows: the columns of each sample, with its name as `KEY_COLUMN`.
      options: the options given.
      kinds: column -> type name of `KIND_NAMES`, of columns whose type is known.

    Returns: the schema; the table that the samples are rows of; notes for the user.

    Raises:
      UsageError: the columns cannot be told.
    """
    nested = dict.fromkeys(
        name
        for row in rows
        for name, value in row.items()
        if name != OBJECTS_COLUMN and name not in options.columns and _is_nested(value)
    )
    choices = column_choices(options)
    has_class = any(CLASS_COLUMN in row for row in rows)
    has_caption = any(CAPTION_COLUMN in row for row in rows)
    choices = replace(
        choices,
        key=KEY_COLUMN,
        label=choices.label or (CLASS_COLUMN if has_class else ""),
        kinds={**(kinds or {}), **options.columns, **dict.fromkeys(nested, SKIP_KIND)},
        label_needed=choices.label_needed and not has_caption,
    )
    try:
        schema, (table,) = inspect_tables([TableHead(uri, b"", True, tuple(rows))], choices)
    except LabelTableError as error:
        raise UsageError(f"the labels beside the images of {error}") from error
    notes = [f"left out, since they are objects or lists of them: {', '.join(nested)}"]
    return schema, table, tuple(notes if nested else ())


def _is_nested(value: Any) -> bool:
    if isinstance(value, list):
        return any(isinstance(item, (list, dict)) for item in value)
    return isinstance(value, dict)
