"""Numbering of classes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from beam_pipeline.core.numbers import INT64

AUTO_ORDER = "auto"
LABEL_ORDERS = (AUTO_ORDER, "code_point", "numeric")
CLASS_IDS = ("number", "keep")
"""Choices of --class_ids: classes are numbered, or are integers that serve as ids."""

_SHOWN = 5
_INTEGER = re.compile(r"-?[0-9]{1,999}")  # int() refuses thousands of digits
_CONTROL_CHARACTERS = (*range(0x20), 0x7F)
_TEXT_FORMAT = str.maketrans(
    {**{chr(i): f"\\{i:03o}" for i in _CONTROL_CHARACTERS}, "\\": r"\\", '"': r"\""}
)
"""Characters that protobuf's text format requires escaped in a string -> the escape."""


class ClassNumberingError(ValueError):
    """Classes cannot be numbered as asked for."""


@dataclass(frozen=True)
class ClassNumbering:
    """The rule that gives classes their ids.

    Attributes:
      base: id of the first class.
      order: "code_point" sorts names as text, "numeric" sorts names that are integers as numbers,
        and before all others; "auto" is "numeric" if all names are integers, else "code_point".
      known: (name, id) of classes whose ids are fixed by the data set's format. Other classes get
        the ids after them; a known class without samples keeps its id.
      from_name: True if a class's name is its id.
      unsigned: True if, with `from_name`, a negative name is an error.
    """

    base: int = 0
    order: str = "code_point"
    known: tuple[tuple[str, int], ...] = ()
    from_name: bool = False
    unsigned: bool = False

    def number(self, names: Iterable[str]) -> tuple[tuple[str, int], ...]:
        """(name, id) of every class, in order of id.

        Args:
          names: the classes that samples have.

        Raises:
          ClassNumberingError: with `from_name`, a name is not an integer, or two are the same
            integer.
        """
        if self.from_name:
            return self._from_names(names)
        ids = dict(self.known)
        first = max(ids.values(), default=self.base - 1) + 1
        further = set(names) - set(ids)
        order = self.order_of(further)
        ids.update({name: i for i, name in enumerate(_sorted(further, order), first)})
        return tuple(sorted(ids.items(), key=lambda item: item[1]))

    def order_of(self, names: Iterable[str]) -> str:
        """Returns the sort order of these classes; "code_point" if both orders give the same result."""
        if self.order != AUTO_ORDER:
            return self.order
        further = set(names) - dict(self.known).keys()
        if not all_integers(further):
            return "code_point"
        differ = _sorted(further, "numeric") != _sorted(further, "code_point")
        return "numeric" if differ else "code_point"

    def _from_names(self, names: Iterable[str]) -> tuple[tuple[str, int], ...]:
        by_id: dict[int, str] = {}
        for name in sorted(set(names)):
            if not _INTEGER.fullmatch(name) or int(name) not in INT64:
                raise ClassNumberingError(
                    f"class {name!r} is not an integer, so it cannot be an id"
                )
            if self.unsigned and int(name) < 0:
                raise ClassNumberingError(
                    f"class {name!r} is negative, and losses and metrics count ids from 0"
                )
            earlier = by_id.setdefault(int(name), name)
            if earlier != name:
                raise ClassNumberingError(f"classes {earlier!r} and {name!r} are the same integer")
        return tuple((by_id[i], i) for i in sorted(by_id))


def _sorted(names: Iterable[str], order: str) -> list[str]:
    if order != "numeric":
        return sorted(names)
    return sorted(
        names,
        key=lambda name: (False, int(name), name) if _INTEGER.fullmatch(name) else (True, 0, name),
    )


def all_integers(names: Iterable[str]) -> bool:
    """True if there are classes and all of their names are integers."""
    names = list(names)
    return bool(names) and all(map(_INTEGER.fullmatch, names))


def numbering_note(classes: Sequence[tuple[str, int]]) -> str:
    """Returns a sentence on the ids of classes that are integers.

    It is empty for other classes, and if each integer is its own id. For `1` to `10` it is: "class
    names are integers and get other ids: 1 -> 0, 2 -> 1, ..."
    """
    names = [name for name, _ in classes]
    if not all_integers(names):
        return ""
    renumbered = any(int(name) != i for name, i in classes)
    in_order = _sorted(names, "numeric") == names
    if not renumbered and sorted(names) == names:
        return ""
    pairs = ", ".join(f"{name} -> {i}" for name, i in classes[:_SHOWN])
    more = ", ..." if len(classes) > _SHOWN else ""
    note = f"class names are integers{' and get other ids' if renumbered else ''}: {pairs}{more}"
    if not in_order:
        note += "; they are sorted as text, and --label_order numeric sorts them as numbers"
    elif sorted(names) != names:
        note += "; they are sorted as numbers, and --label_order code_point sorts them as text"
    return f"{note}; --class_ids keep writes the integers themselves" if renumbered else note


def fit_a_list(classes: Sequence[tuple[str, int]]) -> bool:
    """True if a file with one name per line can represent the ids: they count up from 0 or 1."""
    if not classes or classes[0][1] not in (0, 1):
        return False
    return all(
        i == number and name.splitlines() == [name]
        for number, (name, i) in enumerate(classes, classes[0][1])
    )


def quoted(text: str) -> str:
    """Returns a string in protobuf's text format."""
    return f'"{text.translate(_TEXT_FORMAT)}"'


def label_map(classes: Iterable[tuple[str, int]]) -> str:
    """Returns the classes as a `StringIntLabelMap` in protobuf's text format, for TensorFlow's detectors.

    Source: object_detection/protos/string_int_label_map.proto in the TensorFlow Model Garden.
    """
    return "\n".join(f"item {{\n  id: {i}\n  name: {quoted(name)}\n}}\n" for name, i in classes)
