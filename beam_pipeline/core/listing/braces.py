"""Brace patterns in paths, as shells expand them: `shards-{000..099}.tar`, `{train,val}.zip`."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence

from beam_pipeline.core.errors import UsageError

MOST_NAMES = 100_000
_RANGE = re.compile(r"(-?\d{1,18})\.\.(-?\d{1,18})")
_GROUP = re.compile(r"\{([^{}]*)\}")


def expand_braces(path: str) -> Sequence[str]:
    """Returns the paths that a brace pattern represents, in its order; braces of other kinds stay.

    Numbers have as many digits as the longer of the two, if one of them begins with a zero.

    >>> expand_braces("{train,val}-{08..10}.tar")[2:4]
    ['train-10.tar', 'val-08.tar']

    Raises:
      UsageError: they are too many.
    """
    choices: list[Sequence[str]] = []
    names, end = 1, 0
    for group in _GROUP.finditer(path):
        choices_of_group = _choices(group[1], path)
        if not choices_of_group:
            continue
        choices += [path[end : group.start()]], choices_of_group
        end = group.end()
        names *= len(choices_of_group)
        if names > MOST_NAMES:
            raise _too_many(path)
    choices.append([path[end:]])
    return ["".join(parts) for parts in itertools.product(*choices)]


def _choices(text: str, path: str) -> Sequence[str]:
    """Returns the choices between braces, one by one; nothing if it is not a choice."""
    numbers = _RANGE.fullmatch(text)
    if not numbers:
        return text.split(",") if "," in text else ()
    first, last = int(numbers[1]), int(numbers[2])
    if abs(last - first) >= MOST_NAMES:
        raise _too_many(path)
    return list(_numbers(first, last, numbers[1], numbers[2]))


def _numbers(first: int, last: int, *typed: str) -> Iterator[str]:
    padded = any(re.match("-?0[0-9]", text) for text in typed)
    width = max(map(len, typed)) if padded else 0
    step = 1 if last >= first else -1
    return (f"{number:0{width}d}" for number in range(first, last + step, step))


def _too_many(path: str) -> UsageError:
    return UsageError(f"{path} matches more than {MOST_NAMES} names")
