"""Classes that are lists of classes, as cells of a table with several values are."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping

_SEPARATORS = ",;|"
_SPACE = " "
_INTEGERS = re.compile(r"\d+( \d+)*")
_PLURALS = frozenset(["labels", "classes", "categories", "targets", "tags", "attributes", "genres"])
_FLAGS = frozenset(["0", "1", "0.", "1.", "0.0", "1.0"])
_MARKS = str.maketrans(dict.fromkeys("[],;", " "))


def separator_of_lists(classes: Mapping[str, int], column: str) -> str:
    """The separator of which classes look like lists, or empty.

    Those are lists whose every item is found in another class as well: `cat,dog` beside `cat` and
    `dog`, or beside `cat,bird` and `bird,dog`. A comma alone proves nothing: ImageNet has the class
    `tench, Tinca tinca`. A space proves even less.

    Args:
      classes: class -> number of images that have it.
      column: the label column of a table, or empty.
    """
    for separator in _SEPARATORS:
        split = {name: items_of(name, separator) for name in classes if separator in name}
        in_classes: dict[str, int] = {}
        for name in classes:
            for item in split.get(name, {name}):
                in_classes[item] = in_classes.get(item, 0) + 1
        lists = [
            name
            for name, items in split.items()
            if len(items) > 1 and all(in_classes[item] > 1 for item in items)
        ]
        if 2 * len(lists) > len(split):
            return separator
    return _SPACE if column and _are_spaced_lists(classes, column) else ""


def _are_spaced_lists(classes: Collection[str], column: str) -> bool:
    """True if classes look like lists separated by spaces.

    Those are several integers, as `16 0`; lists whose items are classes themselves, as `scab rust`
    beside `scab` and `rust`; and, in a column such as `tags`, lists of different lengths whose items
    are found in other classes as well. `golden retriever` beside `golden eagle` is none.
    """
    lists = [items for name in classes if len(items := name.split(_SPACE)) > 1]
    if not lists or all(map(_INTEGERS.fullmatch, classes)):
        return bool(lists)
    if column.lower() in _PLURALS and len(set(map(len, lists))) > 1:
        in_classes = Counter(item for name in classes for item in set(name.split(_SPACE)))
        found = sum(all(in_classes[item] > 1 for item in items) for items in lists)
    else:
        found = sum(all(item in classes for item in items) for items in lists)
    return 2 * found > len(lists)


def items_of(name: str, separator: str) -> set[str]:
    """Returns the items of a list, without empty ones."""
    return {item.strip() for item in name.split(separator)} - {""}


def are_flag_rows(classes: Collection[str]) -> bool:
    """True if classes look like rows of 0 and 1, one for each class, all of the same length."""
    rows = [name.translate(_MARKS).split() for name in classes]
    lengths = set(map(len, rows))
    return (
        len(rows) > 1
        and len(lengths) == 1
        and 1 not in lengths
        and all(map(_FLAGS.issuperset, rows))
    )
