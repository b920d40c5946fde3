"""Cuts the names below a prefix of a bucket into ranges that can be listed in parallel.

A listing returns names in order, one page at a time, and gives no information on later names. So
the names are explored by probes; a probe is a request for the first name at or after a point. The
first probes of a range determine how many characters all of its names share. The next ones try
points among the characters that follow; a point after which they find a name cuts the range. With
img_000.jpg to img_399.jpg in a bucket, four ranges take 13 probes. These are some of them:

    probe from    finds          conclusion
    ""            img_000.jpg    the first name
    "j"           nothing        all names begin with "i"
    "imh"         nothing        ... with "img": the steps double
    "img_1"       img_100.jpg    names differ after "img_": "0" is one character that follows
    "img_:"       nothing        no name has a character after the digits
    "img_5"       nothing        ... nor one of 5 to 9: halve the remaining digits
    "img_3"       img_300.jpg    cut:  ["", "img_3")  and  ["img_3", end)
    "img_2"       img_200.jpg    cut:  ["", "img_2")  and  ["img_2", "img_3")
    "img_1"       img_100.jpg    cut:  ["", "img_1")  and  ["img_1", "img_2")

A bucket orders names by their UTF-8 bytes. That is the order of their code points, and so the order
of Python's strings.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from posixpath import commonprefix
from typing import NamedTuple

PROBES_PER_RANGE = 4
"""Probes allowed for each wanted range, on average."""

_BEYOND = 0x110000  # code points end here
_SURROGATES = range(0xD800, 0xE000)  # not encodable in UTF-8
_FIRST_PRINTABLE = 0x20

_BOUNDARIES = (
    _FIRST_PRINTABLE,
    *(0x30, 0x3A),  # digits
    *(0x41, 0x47, 0x5B),  # A to F, G to Z
    *(0x61, 0x67, 0x7B),  # a to f, g to z
    *(0x7F, 0xA0),  # control characters
    *(0x0300, 0x0370),  # combining characters
    *(0x0400, 0x0530),  # Cyrillic
    *(0x1100, 0x1200),  # letters that make up Korean syllables
    *(0x3000, 0x3100),  # Japanese syllables
    *(0x4E00, 0xA000),  # Chinese characters
    *(0xAC00, 0xD7B0),  # Korean syllables
    *(0xE000, 0x10000),
)
"""Boundaries between kinds of characters. Names rarely use all kinds, so these points are tried
first."""

_CONTROL = (*range(0x20), *range(0x7F, 0xA0))  # ranges are not cut between these


class KeyRange(NamedTuple):
    """The names from `start` up to, but not including, `end`; an empty string means no limit."""

    start: str
    end: str


EVERYTHING = KeyRange("", "")


def find_key_ranges(
    first: Callable[[str, str], str | None],
    wanted: int,
    *,
    within: KeyRange = EVERYTHING,
    map_probes: Callable[..., Iterable[str | None]] = map,
) -> tuple[KeyRange, ...]:
    """Finds ranges of names, in order, each with at least one name in it.

    The ranges are disjoint and leave no gap, so they contain every name, even one that is added
    later. The number of names in a range is unknown; if names branch evenly, it is about equal.

    Args:
      first: returns the first name at or after its first argument and before its second, where an
        empty string means no limit, or None.
      wanted: the approximate number of ranges; fewer if there are fewer names, at most twice as
        many.
      within: the range to cut.
      map_probes: `map`, or one that works in parallel: the probes of one round are independent of each other.

    Returns: the ranges, none without names. They take at most `PROBES_PER_RANGE * wanted` probes plus
      the number of characters of the first name.
    """
    name = first(*within)
    if name is None:
        return ()
    parts = [_Part(*within, name, 0, 1.0).narrowed()]
    allowed = PROBES_PER_RANGE * wanted + len(name)
    probes = 1
    while len(parts) < wanted:
        heavy = _heavy(parts, wanted)[: allowed - probes]
        if not heavy:
            break
        asked = [KeyRange(parts[index].point, parts[index].end) for index in heavy]
        answers = dict(
            zip(heavy, map_probes(lambda probe: first(probe.start, probe.end), asked), strict=True)
        )
        parts = [
            after.narrowed()
            for index, part in enumerate(parts)
            for after in (part.learn(answers[index]) if index in answers else (part,))
        ]
        probes += len(asked)
    return tuple(KeyRange(part.start, part.end) for part in parts)


def _heavy(parts: Sequence[_Part], wanted: int) -> list[int]:
    """Returns the indices of the parts estimated to contain more than their share, heaviest first."""
    open_parts = [index for index, part in enumerate(parts) if part.point]
    weight = sum(parts[index].weight for index in open_parts)
    share = weight / (wanted - len(parts) + len(open_parts))
    heavy = [index for index in open_parts if parts[index].weight >= share]
    return sorted(heavy, key=lambda index: -parts[index].weight)


@dataclass(frozen=True)
class _Part:
    """A range, and the knowledge about its names.

    First, probes determine how many characters its names share, in steps that double and then
    halve. Then the range of the next character is halved, until one character is left or the range
    is light.

    Attributes:
      start, end: its limits.
      name: the first known name in it.
      same: the number of characters that all its names are known to share.
      weight: its estimated share of all names.
      beyond: an upper limit, exclusive, of the code point that follows the shared characters.
      most: the most characters that its names can share; -1 if unknown.
      step: the number of characters beyond `same` to try next, while `most` is unknown.
      whole: True if it cannot be cut, such as a range with a single name.
    """

    start: str
    end: str
    name: str
    same: int
    weight: float
    beyond: int = _BEYOND
    most: int = -1
    step: int = 1
    whole: bool = False

    @property
    def point(self) -> str:
        """The point of the next probe; empty if further probes are useless."""
        if self.whole:
            return ""
        if self.same == len(self.name):
            return self.name + chr(_FIRST_PRINTABLE)
        if self.same == self.most:
            between = self._between
            return self.name[: self.same] + chr(between) if between else ""
        return _after(self.name[: self._tried])

    def learn(self, later: str | None) -> tuple[_Part, ...]:
        """Returns the range, or its pieces, given the first name at or after `point`."""
        if later is not None and not later.startswith(self.name[: self.same]):
            return (replace(self, whole=True),)  # control characters, where ranges are not cut
        if self.same == len(self.name):  # do others begin with this name?
            return (replace(self, whole=True) if later is None else replace(self, name=later),)
        if self.same == self.most:
            return self._cut(later)
        if later is None:
            return (replace(self, same=self._tried, step=2 * self.step),)
        return (replace(self, most=len(commonprefix((self.name, later)))),)

    def narrowed(self) -> _Part:
        """Returns the range with the conclusions that need no request: no name is beyond its end."""
        part = self
        while part.end and part.point >= part.end:
            (part,) = part.learn(None)
        return part

    @property
    def _tried(self) -> int:
        """The number of shared characters to probe for."""
        if self.most < 0:
            return min(self.same + self.step, len(self.name))
        return (self.same + self.most + 1) // 2

    @property
    def _between(self) -> int:
        """The code point at index `same` to cut at, or 0."""
        low = ord(self.name[self.same])
        kind = bisect_right(_BOUNDARIES, low)
        if kind < len(_BOUNDARIES) and _BOUNDARIES[kind] < self.beyond:
            return _BOUNDARIES[kind]
        if low in _CONTROL:
            return 0
        middle = (low + 1 + self.beyond) // 2
        if middle in _SURROGATES:
            middle = _SURROGATES.stop
        return middle if low < middle < self.beyond else 0

    def _cut(self, later: str | None) -> tuple[_Part, ...]:
        low, between = ord(self.name[self.same]), self._between
        if later is None:
            return (replace(self, beyond=between)._of_one_character(),)
        share = 0.5 if between in _BOUNDARIES else (between - low) / (self.beyond - low)
        point = self.point
        left = replace(self, end=point, beyond=between, weight=self.weight * share)
        right = replace(self, start=point, name=later, weight=self.weight * (1 - share))
        return left._of_one_character(), right._of_one_character()

    def _of_one_character(self) -> _Part:
        """Returns the range; if only one character is left at index `same`, the names share it."""
        if self.beyond - ord(self.name[self.same]) > 1:
            return self
        return replace(self, same=self.same + 1, beyond=_BEYOND, most=-1, step=1)


def _after(text: str) -> str:
    """Returns the first text after all that begin with this one, but no control character."""
    code = max(ord(text[-1]) + 1, _FIRST_PRINTABLE)
    if code in _SURROGATES:
        code = _SURROGATES.stop
    return text[:-1] + chr(code) if code < _BEYOND else ""
