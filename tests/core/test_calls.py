"""Functions of values, by the calls in `calls.txt` of each folder: arguments and, as the last value, what they make of them.

== filters:kind_of
# by extension, in any case
'a/labels.CSV', '.csv'

== globs:expand_braces raises UsageError
'{0..999}{0..999}', 'matches more than 100000 names'
"""

from __future__ import annotations

import dataclasses
import enum
import pkgutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.rows import params, sections

HERE = Path(__file__).parent


def calls(errors: bool) -> Iterator[Any]:
    """The function, the name of its error, and the values of each row."""
    for path in sorted(HERE.rglob("calls.txt")):
        package = ".".join(("beam_pipeline.core", *path.relative_to(HERE).parts[:-1]))
        for heading, (_, rows) in sections(path).items():
            name, _, error = heading.partition(" raises ")
            if bool(error) is errors:
                function = pkgutil.resolve_name(f"{package}.{name}")
                for row in params(rows):
                    yield pytest.param(function, error, row.values, id=f"{name} {row.id or ''}")


def plain(value: Any) -> Any:
    """A value as it is written in a row."""
    if dataclasses.is_dataclass(value):
        value = dataclasses.astuple(value)
    if isinstance(value, Exception | enum.Enum):
        return value.value if isinstance(value, enum.Enum) else str(value)
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return tuple(map(plain, value))
    if isinstance(value, set | list | Iterator):
        return [*map(plain, sorted(value) if isinstance(value, set) else value)]
    return value


@pytest.mark.parametrize(("function", "error", "values"), calls(errors=False))
def test_a_call_comes_to_this(
    function: Callable[..., Any], error: str, values: tuple[Any, ...]
) -> None:
    """Types count, too: 1 is neither 1.0 nor true."""
    *arguments, expected = values
    assert repr(plain(function(*arguments))) == repr(expected)


@pytest.mark.parametrize(("function", "error", "values"), calls(errors=True))
def test_a_call_fails_with_this(
    function: Callable[..., Any], error: str, values: tuple[Any, ...]
) -> None:
    """The kind of error itself, and a part of its message."""
    *arguments, message = values
    with pytest.raises(Exception) as caught:  # noqa: PT011  -- it is compared below
        plain(function(*arguments))
    assert type(caught.value).__name__ == error
    assert message in str(caught.value)
