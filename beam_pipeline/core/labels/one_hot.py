"""One-hot columns: one column per class, with 1 for the class of the image and 0 for all others.

    image,cat,dog,bird
    a.jpg,1,0,0
    b.jpg,0,0,1

a.jpg is a cat, b.jpg a bird. Tables with 1 and -1, without any 0, are read in the same way; where there
is a 0, -1 may well mean that the class is uncertain, and is an error.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from beam_pipeline.core.errors import LabelTableError
from beam_pipeline.core.labels.cells import BadCellError, is_empty, text_of
from beam_pipeline.core.labels.schema import Column, ColumnKind, label_column
from beam_pipeline.core.references import LabelValue
from beam_pipeline.core.text import enumerated, shown

_ONE = frozenset(("1", "1.0", "true", "True", "TRUE"))
_ZERO = frozenset(("0", "0.0", "false", "False", "FALSE"))
_MINUS = frozenset(("-1", "-1.0"))  # in place of 0, as in CelebA's attributes
_SHOWN_NAMES = 5


@dataclass(frozen=True)
class OneHot:
    """One-hot columns, and the classes that they mean.

    Attributes:
      classes: (column, class) pairs.
      several: True if an image may have several classes, or none.
      absent: the cells of a class that the image does not have.
    """

    classes: tuple[tuple[str, str], ...]
    several: bool
    absent: frozenset[str] = _ZERO

    @property
    def columns(self) -> tuple[Column, ...]:
        """The single column of the schema that replaces them."""
        column = label_column("one_hot", ColumnKind.CLASS)
        return (replace(column, repeated=True) if self.several else column,)

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of the table."""
        return tuple(name for name, _ in self.classes)

    @property
    def note(self) -> str:
        """A sentence on how they are read."""
        classes = enumerated([text for _, text in self.classes], _SHOWN_NAMES)
        how = "images may be of several" if self.several else "an image is of one"
        return f"one-hot columns are {len(self.classes)} classes: {classes}; {how}"

    @property
    def question(self) -> str:
        """The question to ask if the user did not name these columns."""
        return (
            f"the columns {enumerated(self.names, _SHOWN_NAMES)} hold a single 1 in each row; they "
            f"look like one-hot classes. Confirm that with --one_hot {','.join(self.names)}, or make "
            "each a feature with --label_column none"
        )


def find_one_hot(names: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Finds the columns that hold only 0 and 1, with one 1 in each row, in two of them at least.

    A single 1 that is always in one column, as in `region_count,region_id` of an image's only region,
    proves nothing.
    """
    binary = tuple(
        name
        for name in names
        if rows and all(text_of(row.get(name)) in _ONE | _ZERO for row in rows)
    )
    ones = [[name for name in binary if text_of(row.get(name)) in _ONE] for row in rows]
    single = all(len(found) == 1 for found in ones)
    return binary if single and len({name for found in ones for name in found}) > 1 else ()


def chosen_one_hot(
    patterns: Sequence[str], names: Sequence[str], rows: Sequence[Mapping[str, Any]], where: str
) -> OneHot:
    """Returns the columns named by --one_hot.

    Args:
      patterns: names, or `prefix_*` for all columns with that prefix; the class is the part for
        `*`.
      names: the columns of the table.
      rows: the first rows of the files, which show if an image may have several classes.
      where: the files, for messages.

    Raises:
      LabelTableError: there is no such column, or only one.
    """
    classes: dict[str, str] = {}
    for pattern in patterns:
        found = list(_matching(pattern, names))
        if not found:
            raise LabelTableError(
                f"{where}: no column {pattern!r} (--one_hot); found {', '.join(names)}"
            )
        classes.update(found)
    if len(classes) < 2:
        raise LabelTableError(
            f"{where}: --one_hot names the column {', '.join(classes)} alone; expected one a class"
        )
    ones = (sum(text_of(row.get(name)) in _ONE for name in classes) for row in rows)
    cells = {text_of(row.get(name)) for row in rows for name in classes}
    absent = _MINUS if cells & _MINUS and not cells & _ZERO else _ZERO
    return OneHot(tuple(classes.items()), any(count > 1 for count in ones), absent)


def parse_one_hot(fields: Mapping[str, Any], one_hot: OneHot) -> tuple[LabelValue, ...]:
    """Returns the class of a row, or its classes.

    Raises:
      BadCellError: a cell is neither 1 nor 0 (or -1, where others are), or a row with one class does not
        have exactly one 1.
    """
    found = []
    for name, text in one_hot.classes:
        cell = text_of(fields.get(name))
        if cell in _ONE:
            found.append(text)
        elif cell not in one_hot.absent and not is_empty(cell):
            other = "0" if one_hot.absent == _ZERO else "-1"
            raise BadCellError(f"column {name!r}: {shown(cell)} is neither {other} nor 1")
    if one_hot.several:
        return (tuple(found),)
    if len(found) != 1:
        what = f"1 for {', '.join(found)}" if found else "no 1"
        raise BadCellError(
            f"one-hot columns: {what}, where the rows of the file's beginning have a single 1"
        )
    return (found[0],)


def _matching(pattern: str, names: Sequence[str]) -> Iterator[tuple[str, str]]:
    if pattern in names:
        yield pattern, pattern
    elif pattern.endswith("*"):
        prefix = pattern[:-1]
        for name in names:
            if name.startswith(prefix) and len(name) > len(prefix):
                yield name, name[len(prefix) :]
