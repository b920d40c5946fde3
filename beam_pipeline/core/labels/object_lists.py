"""Objects in a cell of JSON: lists of boxes, classes and other values, one item per object.

    {"bbox": [[x, y, width, height], ...], "categories": [...], "area": [...]}

Boxes are in pixels from the upper left corner. A list of dicts, one per object, is equivalent.
Source: https://huggingface.co/docs/datasets/image_dataset#object-detection
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from beam_pipeline.core.labels.cells import (
    NEARLY_ALL,
    BadCellError,
    infer_kind,
    is_nested,
    parse_cell,
    parse_cells,
)
from beam_pipeline.core.labels.leading_columns import LeadingColumns, Parsed
from beam_pipeline.core.labels.schema import (
    Column,
    ColumnKind,
    object_column,
    object_columns,
)
from beam_pipeline.core.labels.table_rows import TableRows
from beam_pipeline.core.numbers import is_finite, is_integer
from beam_pipeline.core.references import Box, LabelValue
from beam_pipeline.core.text import excerpt

OBJECTS_COLUMN = "objects"
BOXES = "bbox"
CATEGORY_NAMES = ("categories", "category", "category_id", "labels", "label")
"""Names of the list of classes, the likelier ones first."""


@dataclass(frozen=True, kw_only=True)
class ObjectLists(LeadingColumns):
    """The boxes of the objects in a list, their classes, and each further list under its own name.

    Attributes:
      column: name of the column.
      categories: name of the list of classes.
    """

    column: str
    categories: str

    def parse(self, rows: TableRows) -> Parsed:
        """Returns the objects of each row, as one list for each of `columns`."""
        cells = zip(rows.cells(self.column), rows.lines, strict=True)
        values, problems = parse_cells(list(cells), self._parse_row)
        empty = ((),) * len(self.columns)
        return list(zip(*(lists or empty for lists in values), strict=True)), problems

    def _parse_row(self, row: tuple[Any, int]) -> tuple[LabelValue, ...]:
        try:
            return parse_objects(row[0], self, row[1])
        except BadCellError as error:
            raise BadCellError(f"column {self.column!r}: {error}") from error


def has_objects(values: Sequence[Any]) -> bool:
    """True if the cells of a column contain objects with boxes."""
    return any(BOXES in lists for lists in map(_lists_of, values) if lists)


def inspect_objects(
    column: str, values: Sequence[Any], kinds: Mapping[str, ColumnKind | None]
) -> ObjectLists:
    """Decides how the lists of each object are read.

    Args:
      column: name of the column.
      values: its cells at the beginnings of the files.
      kinds: "<column>.<list>" -> its kind, or None to leave it out, for those given by the user.
    """
    items: dict[str, list[Any]] = {}
    no_lists: dict[str, None] = {}
    for lists in map(_lists_of, values):
        for name, values_of in (lists or {}).items():
            if isinstance(values_of, list):
                items.setdefault(name, []).extend(values_of)
            elif values_of is not None:
                no_lists[name] = None
    categories = next((name for name in CATEGORY_NAMES if name in items), CATEGORY_NAMES[0])
    columns = list(object_columns(pixels=True))
    for name, listed in items.items():
        if name in (BOXES, categories):
            continue
        chosen = f"{column}.{name}"
        if chosen not in kinds and any(map(is_nested, listed)):
            no_lists[name] = None
        kind = kinds.get(chosen, infer_kind(listed))
        if kind and name not in no_lists:
            columns.append(object_column(name, kind))
    skipped = {name for name, kind in kinds.items() if kind is None}
    left_out = ", ".join(name for n in no_lists if (name := f"{column}.{n}") not in skipped)
    classes = items.get(categories, [])
    return ObjectLists(
        column=column,
        used=(column,),
        categories=categories,
        integer_classes=bool(classes)
        and sum(map(is_integer, classes)) >= NEARLY_ALL * len(classes),
        columns=tuple(columns),
        note=f"left out, since it is not one value an object: {left_out}" if left_out else "",
    )


def list_names(column: str, values: Sequence[Any]) -> list[str]:
    """Returns every list in the cells as "<column>.<list>", its name in --columns."""
    names = dict.fromkeys(name for lists in map(_lists_of, values) for name in lists or ())
    return [f"{column}.{name}" for name in names]


def parse_objects(value: Any, objects: ObjectLists, line: int) -> tuple[LabelValue, ...]:
    """Returns the objects of a cell, one list for each of `ObjectLists.columns`, empty for an empty cell.

    Args:
      value: the cell.
      objects: how it is read.
      line: the row's line, which is stored with the boxes.

    Raises:
      BadCellError: the lists differ in length, or a value is not of its list's kind.
    """
    lists = _lists_of(value)
    if lists is None:
        raise BadCellError(f"{excerpt(value)} is not an object with the lists {BOXES}, ...")
    boxes = _list_named(BOXES, lists)
    parsed: list[tuple[Any, ...]] = [tuple(_boxes(boxes, line)), tuple(_classes(objects, lists))]
    names = [BOXES, objects.categories]
    for column in objects.columns[2:]:
        names.append(column.name)
        parsed.append(tuple(_further(column, _list_named(column.name, lists))))
    for name, items in zip(names, parsed, strict=True):
        if len(items) != len(boxes):
            raise BadCellError(
                f"{BOXES} has {len(boxes)} items, {name} has {len(items)}; expected one an object"
            )
    return tuple(parsed)


def _lists_of(value: Any) -> Mapping[str, Any] | None:
    """Returns a cell as name -> list; None if it is neither lists, nor objects, nor empty."""
    if value is None or value == "":
        return {}
    if isinstance(value, dict):
        return value
    if isinstance(value, list) and all(isinstance(item, dict) for item in value):
        names = dict.fromkeys(name for item in value for name in item)
        return {name: [item.get(name) for item in value] for name in names}
    return None


def _list_named(name: str, lists: Mapping[str, Any]) -> list[Any]:
    items = lists.get(name)
    if items is None:
        return []
    if not isinstance(items, list):
        raise BadCellError(f"{name}: {excerpt(items)} is not a list")
    return items


def _boxes(items: Sequence[Any], line: int) -> Iterator[Box]:
    for number, item in enumerate(items, 1):
        if not isinstance(item, list) or len(item) != 4 or not all(map(is_finite, item)):
            raise BadCellError(
                f"{BOXES}: item {number}: {excerpt(item)} is not [x, y, width, height] in pixels"
            )
        x, y, width, height = map(float, item)
        yield x, y, x + width, y + height, line


def _classes(objects: ObjectLists, lists: Mapping[str, Any]) -> Iterator[str]:
    (class_column,) = (c for c in objects.columns if c.kind is ColumnKind.CLASS)
    for number, item in enumerate(_list_named(objects.categories, lists), 1):
        if objects.integer_classes and not is_integer(item):
            raise BadCellError(
                f"{objects.categories}: item {number}: {excerpt(item)} is not an integer, "
                "as most others are"
            )
        yield _single(item, class_column, objects.categories, number)


def _further(column: Column, items: Sequence[Any]) -> Iterator[Any]:
    for number, item in enumerate(items, 1):
        yield _single(item, column, column.name, number)


def _single(item: Any, column: Column, name: str, number: int) -> Any:
    single = Column(column.name, column.kind, column.feature, required=True)
    try:
        return parse_cell(item, single)
    except BadCellError as error:
        raise BadCellError(f"{name}: item {number}: {error}") from error
