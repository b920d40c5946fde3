"""Text from data, such as file names and cells of tables, prepared for messages.

It may be hostile: control characters drive a terminal, direction marks reorder a line, names may
have megabytes, and UTF-8 cannot encode half of a surrogate pair.
"""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count, takewhile
from typing import Any

from beam_pipeline.core import errors, uris

_SHOWN_CHARACTERS = 80
_SHOWN_NAMES = 3

_MOST_OF_A_WORD, _MOST_OF_A_LINE = 1_000, 8_000  # characters; few paths are longer than a word
_LONG_WORD = re.compile(rf"\S{{{_MOST_OF_A_WORD + 1},}}")

_LETTER = r"[^\x00-\x7f\s]"
# C0 and C1 controls, line separators, direction marks, halves of surrogate pairs, tags and all else that is
# invisible, but joiners only where they join nothing: Persian words and emoji need them.
_NOT_SHOWN = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ud800-\udfff\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff]"
    rf"|(?<!{_LETTER})[\u200c\u200d]|[\u200c\u200d](?!{_LETTER})"
)


def printable(text: str) -> str:
    """Returns text with escapes for bytes that are not UTF-8."""
    return text.encode("utf-8", "backslashreplace").decode()


def terminal_line(text: str) -> str:
    r"""Returns one line for a terminal or a log: escaped, shortened, and without secrets of URLs.

    >>> print(terminal_line("a\x1b[2Jb\nc and https://me:pw@host/a.jpg?sig=5e3c"))
    a\x1b[2Jb\nc and https://...@host/a.jpg?...
    """
    text = uris.without_secrets(text)
    if len(text) > _MOST_OF_A_WORD:
        text = _LONG_WORD.sub(lambda word: _shortened(word[0], _MOST_OF_A_WORD), text)
        text = _shortened(text, _MOST_OF_A_LINE)
    return _NOT_SHOWN.sub(lambda sign: sign[0].encode("unicode_escape").decode(), text)


def _shortened(text: str, most: int) -> str:
    """Returns the beginning and the end of a text that is too long."""
    if len(text) <= most:
        return text
    return f"{text[: most // 2]}...({len(text)} characters)...{text[-(most // 4) :]}"


def decoded(data: bytes, name: str) -> str:
    """Decodes a text file in UTF-8, with or without a byte order mark.

    Args:
      data: the bytes of the file.
      name: the file's name in messages.

    Raises:
      UsageError: it is not UTF-8.
    """
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise errors.UsageError(f"{name} is not UTF-8 ({error}); save it as UTF-8") from error


def is_utf8(text: str) -> bool:
    """True if UTF-8 can encode a text; it cannot encode half of a surrogate pair."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def is_utf8_everywhere() -> bool:
    """True if Python decodes file names as UTF-8, the case in most locales."""
    return sys.getfilesystemencoding().lower() in ("utf-8", "utf8")


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A question that ends a message on an unknown name; empty if none of the known ones is like it."""
    close = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean {close[0]}?" if close else ""


def counted(number: int, noun: str) -> str:
    """Returns `1 shard` or `2 shards`; an irregular plural is given as `class/classes`."""
    one, _, many = noun.partition("/")
    return f"{number} {one if number == 1 else many or one + 's'}"


def enumerated(items: Sequence[str], most: int) -> str:
    """Returns the first items and the number of the others: `a, b, and 3 more`."""
    more = [f"and {len(items) - most} more"] if len(items) > most else []
    return ", ".join([*items[:most], *more])


def span(form: Callable[[float], str], values: Iterable[float]) -> str:
    """Returns the least and the greatest of values as `form` writes them: `8 to 9`, or `8`."""
    numbers = [*values] or [0]
    return " to ".join(dict.fromkeys(map(form, (min(numbers), max(numbers)))))


def excerpt(value: Any) -> str:
    """Returns a value for a message, shortened to a readable length."""
    try:
        text = repr(_beginning(value, count()))
    except (ValueError, RecursionError):  # an integer of thousands of digits, lists nested deep
        return f"a value of type {type(value).__name__}"
    if len(text) <= _SHOWN_CHARACTERS:
        return text
    return text[: _SHOWN_CHARACTERS - 3] + "..."


def _beginning(value: Any, items: Iterator[int]) -> Any:
    """As much of a value as a message shows; YAML's aliases can make a list of billions of items."""
    if isinstance(value, (str, bytes)):
        return value[:_SHOWN_CHARACTERS]
    if type(value) in (list, tuple, dict):
        few = takewhile(lambda _: next(items) < _SHOWN_CHARACTERS, value)
        if isinstance(value, dict):
            return {_beginning(key, items): _beginning(value[key], items) for key in few}
        return type(value)(_beginning(item, items) for item in few)
    return value


def some(names: Sequence[str]) -> str:
    """Returns the first names and the number of the others: `a, b, c and 3 more`."""
    more = f" and {len(names) - _SHOWN_NAMES} more" if len(names) > _SHOWN_NAMES else ""
    return ", ".join(names[:_SHOWN_NAMES]) + more


def quoted(names: Sequence[str]) -> str:
    """Returns names in quotes, `'a', 'b'`, or `none`."""
    return ", ".join(map(repr, names)) or "none"


def human_size(size: float) -> str:
    """Bytes in the largest decimal unit that leaves a number above 1."""
    value = float(size)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"
