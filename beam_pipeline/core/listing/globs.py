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
    parts = path.split("/")
    fixed = next((i for i, part in enumerate(parts) if has_glob(part)), len(parts) - 1)
    return "/".join(parts[:fixed]) or ("/" if path.startswith("/") else "."), "/".join(
        parts[fixed:]
    )


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
    sections: list[str] = []  # between double stars, each with the double star before it
    double, stars = "", _Stars(groups)
    i = 0
    while i < len(pattern):
        at_start = i == 0 or pattern[i - 1] == "/"
        piece, length = _glob_piece(pattern, i, at_start)
        guard = r"(?!\.)" if at_start and pattern[i] in "*?[" and piece != _FOLDERS else ""
        if piece in (_FOLDERS, _ANYTHING):
            sections.append(_settled(double, stars.text(is_last=False), groups))
            double, stars = guard + piece, _Stars(groups)
        elif piece == _NAME:
            stars.begin(guard)
        else:
            stars.add(guard + piece, is_slash=piece == "/")
        i += length
    sections.append(double + stars.text(is_last=True))
    return re.compile("".join(sections), re.DOTALL)


_FOLDERS = r"(?:(?!\.)[^/]+/)*"
_ANYTHING = r"(?:[^/]|/(?!\.))*"
_NAME = "[^/]*"


class _Stars:
    """The regular expression of pieces and single stars between two double stars."""

    def __init__(self, groups: Iterator[int]) -> None:
        self._groups = groups
        self._done: list[str] = []
        self._star = ""
        self._fixed: list[str] = []
        self._has_slash = True  # the text between a star and a slash has only one possible place

    def begin(self, guard: str) -> None:
        """Adds a star, which makes the previous one atomic."""
        self._done.append(self._piece(is_last=self._has_slash))
        self._star, self._fixed, self._has_slash = guard + _NAME, [], False

    def add(self, piece: str, *, is_slash: bool) -> None:
        """Adds a piece that is not a star."""
        self._fixed.append(piece)
        self._has_slash |= is_slash

    def text(self, *, is_last: bool) -> str:
        """Returns the whole expression; in the last section, the last star is not atomic."""
        return "".join((*self._done, self._piece(is_last=is_last)))

    def _piece(self, *, is_last: bool) -> str:
        fixed = "".join(self._fixed)
        return self._star + fixed if is_last else _settled(self._star, fixed, self._groups)


def _settled(star: str, fixed: str, groups: Iterator[int]) -> str:
    """Returns an atomic group of a star and the text after it, up to its first occurrence."""
    if not star:
        return fixed
    name = f"s{next(groups)}"
    return f"(?=(?P<{name}>{star}?{fixed}))(?P={name})"


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
    out, i = [], 0
    while i < len(text):
        if text[i + 1 : i + 2] == "-" and i + 2 < len(text):
            if text[i] <= text[i + 2]:
                out.append(f"{re.escape(text[i])}-{re.escape(text[i + 2])}")
            i += 3
        else:
            out.append(re.escape(text[i]))
            i += 1
    return "".join(out)


class FolderGlob:
    """Finds the folders that can contain matches of a glob, so that the others need not be listed.

    >>> folders = FolderGlob("cat/*/a?.jpg")
    >>> [folders.can_hold(key) for key in ("cat", "cat/b", "cat/b/c", "dog")]
    [True, True, False, False]
    """

    def __init__(self, pattern: str) -> None:
        *folders, _ = parts = pattern.split("/")
        # Below a double star, or a set that continues after a slash, any folder can.
        any_below = next(
            (i for i, part in enumerate(parts) if _is_open(part, parts[i + 1 :])), None
        )
        self._any_below = any_below is not None
        self._folders = [glob_regex(folder) for folder in folders[:any_below]]

    def can_hold(self, folder: str) -> bool:
        """True if a folder, given as a key without a slash at its end, can contain matches."""
        names = folder.split("/")
        if len(names) > len(self._folders) and not self._any_below:
            return False
        return all(map(re.Pattern.fullmatch, self._folders, names))


def _is_open(part: str, rest: Sequence[str]) -> bool:
    return "**" in part or ("[" in part and any("]" in later for later in rest))


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
