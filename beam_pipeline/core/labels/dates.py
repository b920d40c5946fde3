"""Folders named by the day that their images were taken, which are hardly classes."""

from __future__ import annotations

import re
from collections.abc import Collection

_MONTH = r"(?:0?[1-9]|1[0-2])"
_DAY = r"(?:0?[1-9]|[12]\d|3[01])"
_DATE = re.compile(
    rf"(?<![^\W_])(?:19|20)\d\d(?:([-_./]){_MONTH}\1{_DAY}|[-/]{_MONTH}|(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01]))"
    r"(?![^\W_])"
)
"""A day, as 2021-05-03, 2021/5/3 or 20210503, or a month, as 2021-05."""


def folders_of_dates(classes: Collection[str]) -> list[str]:
    """The classes that hold a date, sorted; none unless more than half of all do.

    >>> folders_of_dates(["2002/07/19/big", "2002/08/11/big"])
    ['2002/07/19/big', '2002/08/11/big']
    >>> folders_of_dates(["Acura RL Sedan 2012", "2008_000008", "1990s"])
    []
    """
    found = sorted(name for name in classes if _DATE.search(name))
    return found if 2 * len(found) > len(classes) else []


def have_classes_below(folders: Collection[str]) -> bool:
    """True if each folder of a date lies above a folder, and these have different names.

    >>> have_classes_below(["2021-05-03/cat", "2021-05-04/dog"])
    True
    >>> have_classes_below(["2002/07/19/big", "2002/08/11/big"])
    False
    """
    names = set()
    for folder in folders:
        date = _DATE.search(folder)
        above, _, name = folder.rpartition("/")
        if date is None or date.end() > len(above):
            return False
        names.add(name)
    return len(names) > 1
