"""Patterns of paths: globs, split into folder and pattern and matched against keys, and braces, as shells expand them."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterator, Sequence

from beam_pipeline.core.errors import UsageError


def has_glob(path: str) -> bool:
    """True if a path contains a wildcard."""
    return re.search(r"[*?\[]", path) is not None


def split_pattern(path: str) -> tuple[str, str]:
    """Splits a glob into (folder before the first wildcard, pattern relative to it).

    >>> split_pattern("photos/2024/*/a?.jpg")
    ('photos/2024', '*/a?.jpg')
    """
    folder, slash, _ = fixed_beginning([path]).rpartition("/")
    return folder or slash or ".", path[len(folder + slash) :]


def fixed_beginning(patterns: Sequence[str]) -> str:
    """Returns the common prefix of everything that these globs match.

    >>> fixed_beginning(["cat/a*.jpg", "cat/b.jpg"])
    'cat/'
    """
    fixed = [re.split(r"[*?\[]", pattern, maxsplit=1)[0] for pattern in patterns]
    return os.path.commonprefix(fixed)  # noqa: RUF071 -- of texts, not of paths


def glob_regex(pattern: str) -> re.Pattern[str]:
    """Returns a glob as a regular expression.

    `*`, `?` and `[...]` match within a folder, and not a dot at the beginning of a name; `**`
    matches any number of folders.

    A star tries every length, and for each of them so does every star before it: time would grow
    with the length of a name to the power of the number of stars. But for the text between two
    stars, its first occurrence is as good as any later one. So all stars of a kind except the last
    become atomic groups, which never backtrack. Python 3.10 has none, so they are written as a
    lookahead and a reference to its match. `a*b*c` becomes:

        a  (?=(?P<s0>[^/]*?b))(?P=s0)  [^/]*c
           up to the first b, fixed    the last star may backtrack
    """
    groups = itertools.count()
    # Of each double star: itself, and the single stars after it, each with the text that follows
    # and whether that has a slash: the text between a star and a slash has one possible place only.
    sections: list[tuple[str, list[tuple[str, str, bool]]]] = [("", [("", "", True)])]
    i = 0
    while i < len(pattern):
        at_start = i == 0 or pattern[i - 1] == "/"
        piece, length = _glob_piece(pattern, i, at_start)
        guard = r"(?!\.)" if at_start and pattern[i] in "*?[" and piece != _FOLDERS else ""
        stars = sections[-1][1]
        if piece in (_FOLDERS, _ANYTHING):
            sections.append((guard + piece, [("", "", True)]))
        elif piece == _NAME:
            stars.append((guard + piece, "", False))
        else:
            star, text, has_slash = stars[-1]
            stars[-1] = star, text + guard + piece, has_slash or piece == "/"
        i += length
    regex = ""
    for number, (double, stars) in enumerate(sections, 1):
        section, is_last = "", number == len(sections)
        for index, (star, text, has_slash) in enumerate(stars, 1):
            backtracks = is_last if index == len(stars) else has_slash
            section += star + text if backtracks else _atomic(star, text, groups)
        regex += double + section if is_last else _atomic(double, section, groups)
    return re.compile(regex, re.DOTALL)


_FOLDERS = r"(?:(?!\.)[^/]+/)*"
_ANYTHING = r"(?:[^/]|/(?!\.))*"
_NAME = "[^/]*"


def _atomic(star: str, text: str, groups: Iterator[int]) -> str:
    """Returns an atomic group of a star and the text after it, up to its first occurrence."""
    if not star:
        return text
    name = f"s{next(groups)}"
    return f"(?=(?P<{name}>{star}?{text}))(?P={name})"


def _glob_piece(pattern: str, i: int, at_start: bool) -> tuple[str, int]:
    """Returns the regular expression of the piece of a glob at an index, and the piece's length."""
    if at_start and pattern.startswith("**/", i):
        return _FOLDERS, 3
    if pattern.startswith("**", i):
        return _ANYTHING, 2
    if pattern[i] == "*":
        return _NAME, 1
    if pattern[i] == "?":
        return "[^/]", 1
    # "]" closes a set only after its first character.
    first = i + (2 if pattern[i + 1 : i + 2] in ("!", "^") else 1)
    end = pattern.find("]", first + 1) if pattern[i] == "[" else -1
    if end < 0:
        return re.escape(pattern[i]), 1
    members = _set_members(pattern[first:end])
    if first == i + 2:
        return f"[^/{members}]", end + 1 - i
    return f"(?!/)[{members}]" if members else "(?!)", end + 1 - i


def _set_members(text: str) -> str:
    """Returns the inside of a set, such as a-z, escaped; a reversed range is empty."""
    return "".join(
        re.escape(single) or f"{re.escape(first)}-{re.escape(last)}" * (first <= last)
        for first, last, single in re.findall("(.)-(.)|(.)", text, re.DOTALL)
    )


class FolderGlob:
    """Finds the folders that can contain matches of a glob, so that the others need not be listed.

    >>> folders = FolderGlob("cat/*/a?.jpg")
    >>> [folders.can_hold(key) for key in ("cat", "cat/b", "cat/b/c", "dog")]
    [True, True, False, False]
    """

    def __init__(self, pattern: str) -> None:
        # Below a double star, or a set that continues after a slash, any folder can.
        any_below = re.search(r"\*\*|\[[^/]*/.*\]", pattern, re.DOTALL)
        fixed = pattern[: any_below.start()] if any_below else pattern
        self._any_below = any_below is not None
        self._folders = [glob_regex(folder) for folder in fixed.split("/")[:-1]]

    def can_hold(self, folder: str) -> bool:
        """True if a folder, given as a key without a slash at its end, can contain matches."""
        names = folder.split("/")
        if len(names) > len(self._folders) and not self._any_below:
            return False
        return all(map(re.Pattern.fullmatch, self._folders, names))


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
    names = 1
    for index, text in enumerate(_GROUP.split(path)):  # every second one is between braces
        of_group = _choices(text, path) or [f"{{{text}}}"] if index % 2 else [text]
        names *= len(of_group)
        if names > MOST_NAMES:
            raise _too_many(path)
        choices.append(of_group)
    return ["".join(parts) for parts in itertools.product(*choices)]


def _choices(text: str, path: str) -> Sequence[str]:
    """Returns the choices between braces, one by one; nothing if it is not a choice."""
    numbers = _RANGE.fullmatch(text)
    if not numbers:
        return text.split(",") if "," in text else ()
    first, last = map(int, numbers.groups())
    if abs(last - first) >= MOST_NAMES:
        raise _too_many(path)
    padded = any(re.match("-?0[0-9]", typed) for typed in numbers.groups())
    width = max(map(len, numbers.groups())) if padded else 0
    step = 1 if last >= first else -1
    return [f"{number:0{width}d}" for number in range(first, last + step, step)]


def _too_many(path: str) -> UsageError:
    return UsageError(f"{path} matches more than {MOST_NAMES} names")
