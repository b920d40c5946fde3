"""Rows of tests as text: `test_x.txt` beside `test_x.py` has a section for each test of rows, and a line for each row.

    == test_kinds: key, kind
    # by extension, in any case
    'a/labels.CSV', '.csv'

Values are written as in Python; an indented line continues the one before. What follows `#` names the rows below it, and what stands
before the first section describes it.
"""

from __future__ import annotations

import ast
import functools
import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

Test = TypeVar("Test", bound=Callable[..., None])
Error = TypeVar("Error", bound=BaseException)


def in_rows(test: Test) -> Test:
    """Runs a test once for each row of its section."""
    names, rows = sections(Path(inspect.getfile(test)).with_suffix(".txt"))[test.__name__]
    marked: Test = pytest.mark.parametrize(names, list(params(rows)))(test)
    return marked


@functools.cache
def sections(path: Path) -> dict[str, tuple[str, str]]:
    """Test -> the names of its columns, and its rows as text."""
    found = {}
    for section in re.split("^== ", path.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        heading, _, rows = section.partition("\n")
        test, _, names = heading.partition(": ")
        assert test not in found, f"{path} has two sections {test}"
        assert rows.strip(), f"{path}: {test} has no rows"
        found[test] = (names, rows)
    return found


def params(rows: str) -> Iterator[Any]:
    """The values of each row."""
    name = None
    for row in re.split(r"\n+(?! )", rows.strip("\n")):
        if row.startswith("# "):
            name = row[2:]
        else:
            yield pytest.param(*ast.literal_eval(f"({row}\n,)"), id=name)


def raised(
    kind: type[Error], call: Callable[..., object], *arguments: Any, **options: Any
) -> Error:
    """The error that a call ends with."""
    with pytest.raises(kind) as caught:
        call(*arguments, **options)
    return caught.value
