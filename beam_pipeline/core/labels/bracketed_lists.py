"""Lists that a cell holds as text in brackets, as pandas and JSON write them.

| text | items |
|---|---|
| `["cat", "dog"]`, `['cat', 'dog']`, `[cat, dog]` | `cat`, `dog` |
| `[1, 2.5]`, `[1 2.5]` as of NumPy's arrays | `1`, `2.5` |
| `[]` | none |
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Collection, Sequence
from typing import Any

from beam_pipeline.core.text import is_utf8

BRACKETS = "[]"
"""What --list_column gives in place of a separator for such lists."""

_QUOTED = r"'(?:[^'\\]|\\.)*'|" + r'"(?:[^"\\]|\\.)*"'
_WITH_COMMAS = re.compile(rf"\s*(?:({_QUOTED})\s*|([^,'\"\[\]()]+))(?:,|\Z)")
_WITH_SPACES = re.compile(rf"\s*({_QUOTED})()(?:\s+|\Z)")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED = frozenset("\\'\"abfnrtvxuUN01234567\n")
_NUMBERS = re.compile(r"[-+.\d](?:[-+.\deE\s]|nan|inf)*")
_MISSING = frozenset(["None", "null"])


def bracketed_items(text: str) -> Sequence[Any]:
    """Returns the items of a list in brackets; none of an empty text.

    Raises:
      ValueError: the text is no such list.

    >>> bracketed_items("['cat', 'sea lion']")
    ['cat', 'sea lion']
    """
    text = text.strip()
    if not text:
        return []
    if not (text.startswith("[") and text.endswith("]")):
        raise ValueError("not a list in brackets")
    try:
        found: list[Any] = json.loads(text, parse_float=str, parse_constant=str)
    except (ValueError, RecursionError):
        found = _items_of(text[1:-1].strip())
    if "\\" in text and not is_utf8("".join(map(str, found))):  # an escape of half a character
        raise ValueError("not a list of texts in UTF-8")
    return found


def _items_of(inside: str) -> list[Any]:
    """The items between brackets: between commas, or between spaces as of NumPy's arrays."""
    if _NUMBERS.fullmatch(inside):
        return inside.split()
    for item in (_WITH_COMMAS, _WITH_SPACES):
        found, end = [], 0
        while end < len(inside) and (match := item.match(inside, end)):
            quoted, bare = match.groups()
            found.append(_unquoted(quoted) if quoted else _value_of(bare.strip()))
            end = match.end()
        if end == len(inside):
            return found
    raise ValueError("not a list in brackets")


def _unquoted(quoted: str) -> Any:
    """The text that quotes contain; a backslash before a letter that it does not escape is a backslash."""
    try:
        return ast.literal_eval(
            _ESCAPE.sub(lambda found: "\\" * (found[1] not in _ESCAPED) + found[0], quoted)
        )
    except SyntaxError as error:  # as in 'C:\Users', an escape of a character that there is not
        raise ValueError("not a list in brackets") from error


def _value_of(word: str) -> str | None:
    if not word:
        raise ValueError("not a list in brackets")
    return None if word in _MISSING else word


def are_bracketed(names: Collection[str]) -> bool:
    """True if more than half of some classes are lists in brackets, or their parts cut at commas.

    >>> are_bracketed(["['cat', 'dog']", "['cat']"])
    True
    >>> are_bracketed(["['cat'", "'dog']", "['dog']"])
    True
    >>> are_bracketed(["cat [small]", "[unknown]", "dog", "cat"])
    False
    """
    return 2 * sum(name.startswith("[") or name.endswith("]") for name in names) > len(names)
