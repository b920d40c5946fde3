"""Columns of a table that together are a sample's label: its objects, or its class.

They become the first columns of the samples, whatever the table has them as:

| form | columns of the table | module |
|---|---|---|
| `ObjectLists` | a column of JSON with the lists of all objects | `object_lists` |
| `BoxColumns` | a row for each object, its box in four columns or in one | `box_columns` |
| `OneHot` | a column for each class | here |
| `FolderClass` | none: rows name images, whose folders are their classes | here |

One-hot columns contain 1 for the class of the image and 0 for all others:

    image,cat,dog,bird
    a.jpg,1,0,0
    b.jpg,0,0,1

a.jpg is a cat, b.jpg a bird. Tables with 1 and -1, without any 0, are read in the same way; where there
is a 0, -1 may well mean that the class is uncertain, and is an error.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from beam_pipeline.core.errors import LabelTableError
from beam_pipeline.core.labels.cells import by_text, is_empty, text_of
from beam_pipeline.core.labels.schema import Column, ColumnKind, label_column
from beam_pipeline.core.labels.table_rows import TableRows
from beam_pipeline.core.packing import Same
from beam_pipeline.core.questions import Question
from beam_pipeline.core.text import enumerated, excerpt

_ONE = frozenset(("1", "1.0", "true", "True", "TRUE"))
_ZERO = frozenset(("0", "0.0", "false", "False", "FALSE"))
_MINUS = frozenset(("-1", "-1.0"))  # in place of 0, in CelebA's attributes
_SHOWN_NAMES = 5

Parsed = tuple[Sequence[Sequence[Any]], Mapping[int, str]]
"""The values of each column, and row -> what is wrong with it."""


@dataclass(frozen=True, kw_only=True)
class LeadingColumns:
    """The columns that come first in a schema, and how they are read.

    Attributes:
      columns: of the schema.
      used: the columns of the table that become no further columns of the schema.
      class_name: the column of the table whose cells are names of classes, or empty.
      integer_classes: whether the classes of objects are integers, which are then their ids; None if there are
        no objects.
      size: the columns of the table that claim the image's width and height; or none.
      several_rows: True if the lists of all rows of an image are put together.
      note: a sentence on how they are read; or empty.
      question: what is not safe to assume of them; None if there is nothing.
    """

    columns: tuple[Column, ...] = ()
    used: Collection[str] = ()
    class_name: str = ""
    integer_classes: bool | None = None
    size: tuple[str, ...] = ()
    several_rows: bool = False
    note: str = ""
    question: Question | None = None

    def parse(self, rows: TableRows) -> Parsed:
        """Returns the values of `columns`; a row with a problem gets empty lists."""
        return [], {}


NO_LEADING = LeadingColumns()


@dataclass(frozen=True, kw_only=True)
class FolderClass(LeadingColumns):
    """No column is a label: the class of an image is its folder, and None in every row."""

    columns: tuple[Column, ...] = (
        replace(label_column("folder", ColumnKind.CLASS), required=False),
    )

    def parse(self, rows: TableRows) -> Parsed:
        """No values."""
        return [Same(None, len(rows))], {}


@dataclass(frozen=True, kw_only=True)
class OneHot(LeadingColumns):
    """One-hot columns, and the classes that they mean.

    Attributes:
      classes: (column, class) pairs.
      several: True if an image may have several classes, or none.
      absent: the cells of a class that the image does not have.
    """

    classes: tuple[tuple[str, str], ...]
    several: bool
    absent: frozenset[str] = _ZERO

    def parse(self, rows: TableRows) -> Parsed:
        """Returns the class of each row, or its classes.

        A cell that is neither 1 nor 0 (or -1, where others are) is a problem, and so is a row of one class
        without exactly one 1.
        """
        classes: list[list[str]] = [[] for _ in rows.lines]
        problems: dict[int, str] = {}
        absent = "0" if self.absent == _ZERO else "-1"
        for name, text in self.classes:
            for row, mark in enumerate(by_text(rows.cells(name), self._is_one)):
                if mark:
                    classes[row].append(text)
                elif mark is None:
                    cell = text_of(rows.cells(name)[row])
                    message = f"column {name!r}: {excerpt(cell)} is neither {absent} nor 1"
                    problems.setdefault(row, message)
        if self.several:
            values: list[Any] = [
                () if row in problems else tuple(c) for row, c in enumerate(classes)
            ]
            return [values], problems
        for row, texts in enumerate(classes):
            if len(texts) != 1:
                count = f"1 for {', '.join(texts)}" if texts else "no 1"
                problems.setdefault(
                    row,
                    f"one-hot columns: {count}, where the rows of the file's beginning have a single 1",
                )
        return [[() if row in problems else c[0] for row, c in enumerate(classes)]], problems

    def _is_one(self, cell: Any) -> bool | None:
        """True or False; None for any other cell."""
        text = text_of(cell)
        return True if text in _ONE else False if text in self.absent or is_empty(text) else None


def find_one_hot(names: Sequence[str], rows: TableRows) -> tuple[str, ...]:
    """Finds the columns that contain only 0 and 1, with one 1 in each row, in two of them at least.

    A single 1 that is always in one column, as in `region_count,region_id` of an image's only region,
    proves nothing.
    """
    ones: dict[str, Sequence[bool]] = {}
    for name in names:
        texts = by_text(rows.cells(name), text_of)
        if len(rows) and set(texts) <= _ONE | _ZERO:
            ones[name] = by_text(texts, _ONE.__contains__)
    sums = map(sum, zip(*ones.values(), strict=True))
    single = all(count == 1 for count in sums)
    return tuple(ones) if single and sum(map(any, ones.values())) > 1 else ()


def chosen_one_hot(
    patterns: Sequence[str], names: Sequence[str], rows: TableRows, where: str
) -> OneHot:
    """Returns the columns named by --one_hot.

    Args:
      patterns: names, or `prefix_*` for all columns with that prefix; the class is the part for
        `*`.
      names: the columns of the table.
      rows: the first rows of the files, which show if an image may have several classes.
      where: the files, for messages.

    Raises:
      LabelTableError: the column does not exist, or only one.
    """
    classes: dict[str, str] = {}
    for pattern in patterns:
        matching = dict(_matching(pattern, names))
        if not matching:
            raise LabelTableError(
                f"{where}: no column {pattern!r} (--one_hot); found {', '.join(names)}"
            )
        classes.update(matching)
    if len(classes) < 2:
        raise LabelTableError(
            f"{where}: --one_hot names the column {', '.join(classes)} alone; expected one a class"
        )
    columns = [by_text(rows.cells(name), text_of) for name in classes]
    cells = {text for texts in columns for text in set(texts)}
    absent = _MINUS if cells & _MINUS and not cells & _ZERO else _ZERO
    counts = map(sum, zip(*(by_text(texts, _ONE.__contains__) for texts in columns), strict=True))
    several = any(count > 1 for count in counts)
    named = enumerated(list(classes.values()), _SHOWN_NAMES)
    how = "images may be of several" if several else "an image is of one"
    column = replace(label_column("one_hot", ColumnKind.CLASS), repeated=several)
    return OneHot(
        columns=(column,),
        used=frozenset(classes),
        note=f"one-hot columns are {len(classes)} classes: {named}; {how}",
        classes=tuple(classes.items()),
        several=several,
        absent=absent,
    )


def one_hot_question(names: Sequence[str]) -> Question:
    """Asks whether columns that the user did not name are classes."""
    return Question(
        "one_hot",
        f"the columns {enumerated(names, _SHOWN_NAMES)} contain a single 1 in each row; they look like "
        "one-hot classes.",
        "--label_column none makes each a feature. To confirm the classes:",
        {"one_hot": tuple(names)},
    )


def _matching(pattern: str, names: Sequence[str]) -> Iterator[tuple[str, str]]:
    if pattern in names:
        yield pattern, pattern
    elif pattern.endswith("*"):
        prefix = pattern[:-1]
        for name in names:
            if name.startswith(prefix) and len(name) > len(prefix):
                yield name, name[len(prefix) :]
