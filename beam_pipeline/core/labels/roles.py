"""The table of roles: what each level of folders, column and kind of file of an input is used for.

| subject | values | role |
|---|---|---|
| path segment 1 | 2 folders, such as 'train' | split |
| column filename | 120 texts, such as 'a.jpg' | key |
| column breed | 3 texts, such as 'cat' | class |
| .txt files | 4 files, such as 'notes.txt' | ignored |
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from beam_pipeline.core.labels.cells import infer_kind, is_empty, text_of
from beam_pipeline.core.labels.schema import CELL_FILES, MASK_KINDS, Column, ColumnKind
from beam_pipeline.core.text import printable

KEY, CLASS, SPLIT, FEATURE, IGNORED = "key", "class", "split", "feature", "ignored"
LABELS = "labels"

_RECORDED = ("column ", "label ", "group ")

_MOST_LINES = 12
_MOST_ROWS = 100  # in a manifest
_LONGEST = 40  # characters of an example
_NUMERIC_SHARE = 0.9
_KINDS = {
    ColumnKind.CLASS: "texts",
    ColumnKind.INT64: "integers",
    ColumnKind.FLOAT: "numbers",
    ColumnKind.BYTES: "texts",
    ColumnKind.JSON: "texts of JSON",
    ColumnKind.BOX: "boxes",
    ColumnKind.POINT: "points",
    ColumnKind.MASK: "masks",
    ColumnKind.SEGMENTATION: "masks",
    ColumnKind.SEGMENTATION_16: "masks of 16 bits",
    ColumnKind.PANOPTIC: "masks of segments",
    **dict.fromkeys(CELL_FILES, "files"),
}
_ROLES = {
    ColumnKind.CLASS: CLASS,
    ColumnKind.BOX: "box",
    ColumnKind.POINT: "point",
    ColumnKind.MASK: "mask",
    **dict.fromkeys(MASK_KINDS, "mask"),
    **dict.fromkeys(CELL_FILES, "file"),
}


@dataclass(frozen=True)
class RoleRow:
    """What a part of the input is used for.

    Attributes:
      subject: the part: "path segment 1", "column breed", ".txt files".
      kind: of its values: "folders", "texts", "integers", "files" and so on.
      distinct: the number of its different values, or of the files; 0 if unknown.
      example: one of them; empty if unknown.
      role: "class", "split", "key", "feature", "ignored" and so on.
      partial: True if the input has more, which was not looked at.
    """

    subject: str
    kind: str
    distinct: int
    example: str
    role: str
    partial: bool = False

    @property
    def values(self) -> str:
        """The values in a few words: `2 folders, such as 'train'`."""
        first, *rest = self.kind.split(" ")
        kind = " ".join([first.removesuffix("s"), *rest]) if self.distinct == 1 else self.kind
        count = f"{self.distinct:,}{' or more' * self.partial} " if self.distinct else ""
        return f"{count}{kind}" + (f", such as {self.example!r}" if self.example else "")


def role_row(subject: str, kind: str, values: Sequence[str], role: str) -> RoleRow:
    """The row of a part with these different values, whose example is the first."""
    example = printable(values[0])[:_LONGEST] if values else ""
    return RoleRow(printable(subject), kind, len(values), example, role)


def column_rows(
    values: Mapping[str, Sequence[Any]], roles: Mapping[str, str], *, partial: bool
) -> tuple[RoleRow, ...]:
    """The rows of the columns of tables.

    Args:
      values: column -> its cells in the first rows.
      roles: column -> role; others are ignored.
      partial: whether there are further rows.
    """
    return tuple(
        replace(_column_row(name, cells, roles.get(name, IGNORED)), partial=partial)
        for name, cells in values.items()
    )


def _column_row(name: str, cells: Sequence[Any], role: str) -> RoleRow:
    cells = [cell for cell in cells if not is_empty(cell)]
    is_list = any(isinstance(cell, list | dict) for cell in cells)
    kind = "lists" if is_list else _KINDS[infer_kind(cells, _NUMERIC_SHARE)]
    return role_row(
        f"column {name or 'without a name'}", kind, list(dict.fromkeys(map(text_of, cells))), role
    )


def role_of(column: Column) -> str:
    """The role of a column of samples' labels."""
    if column.kind in _ROLES:
        return _ROLES[column.kind]
    return "label" if column.feature.startswith("image/label") else FEATURE


def label_rows(columns: Sequence[Column], noun: str) -> tuple[RoleRow, ...]:
    """The rows of labels that come from no table, such as those in COCO files."""
    return tuple(
        RoleRow(f"{noun} {column.name}", _KINDS[column.kind], 0, "", role_of(column))
        for column in columns
    )


def table_of_roles(rows: Sequence[RoleRow]) -> Iterator[str]:
    """Lines for people, a dozen at most; features are the first to be only counted."""
    by_weight = sorted(rows, key=lambda row: row.role == FEATURE)
    listed, rest = by_weight[:_MOST_LINES], by_weight[_MOST_LINES:]
    if rest:
        listed, rest = by_weight[: _MOST_LINES - 1], by_weight[_MOST_LINES - 1 :]
    cells = [(row.subject, row.role, row.values) for row in rows if row in listed]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for subject, role, values in cells:  # the longest last, which may continue in another line
        yield f"  {subject:{widths[0]}}  {role:{widths[1]}}  {values}".rstrip()
    if rest:
        roles = Counter(row.role for row in rest)
        counts = ", ".join(f"{count} {role}" for role, count in roles.items())
        yield f"  and {len(rest)} more: {counts}"


def recorded_roles(rows: Sequence[RoleRow]) -> list[dict[str, Any]]:
    """The rows of a manifest: columns without their values.

    Values of the first rows, and folders and files before they are listed, may be others where the same input
    is stored in another way; manifests may not.
    """
    columns = [row for row in rows if row.subject.startswith(_RECORDED)]
    return [
        asdict(replace(row, distinct=0, example="", partial=False)) for row in columns[:_MOST_ROWS]
    ]
