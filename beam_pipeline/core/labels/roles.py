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

from beam_pipeline.core.labels.schema import FEATURE, KINDS, Column
from beam_pipeline.core.text import printable

KEY, CLASS, SPLIT, IGNORED = "key", "class", "split", "ignored"
LABELS = "labels"

_RECORDED = ("column ", "label ", "group ")

_MOST_LINES = 12
_MOST_ROWS = 100  # in a manifest
_LONGEST = 40  # characters of an example


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
    from beam_pipeline.core.labels.cells import filled, infer_kind, texts_of

    rows = []
    for name, cells in values.items():
        cells = filled(cells)
        is_list = not {list, dict}.isdisjoint(map(type, cells))
        kind = "lists" if is_list else KINDS[infer_kind(cells)].values
        subject = f"column {name or 'without a name'}"
        distinct = list(dict.fromkeys(texts_of(cells)))
        rows.append(role_row(subject, kind, distinct, roles.get(name, IGNORED)))
    return tuple(replace(row, partial=partial) for row in rows)


def role_of(column: Column) -> str:
    """The role of a column of samples' labels."""
    role = KINDS[column.kind].role
    return "label" if role == FEATURE and column.feature.startswith("image/label") else role


def label_rows(columns: Sequence[Column], noun: str) -> tuple[RoleRow, ...]:
    """The rows of labels that come from no table, such as those in COCO files."""
    return tuple(
        RoleRow(f"{noun} {column.name}", KINDS[column.kind].values, 0, "", role_of(column))
        for column in columns
    )


def table_of_roles(rows: Sequence[RoleRow]) -> Iterator[str]:
    """Lines for people, a dozen at most; features are the first to be only counted."""
    by_weight = sorted(rows, key=lambda row: row.role == FEATURE)
    most = _MOST_LINES - 1 if len(rows) > _MOST_LINES else _MOST_LINES
    listed, rest = by_weight[:most], by_weight[most:]
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
