"""Cuts the names below a prefix of a bucket into ranges that can be listed in parallel.

A listing returns names in order, one page at a time, and gives no information on later names. So
the names are explored by probes; a probe is a request for the first name at or after a point. A first
probe after the next character of the first name tells whether all names of a range share it. If not,
points among the characters that follow are tried; one at or after which there is a name cuts the range. With
img_000.jpg to img_399.jpg in a bucket, four ranges take 14 probes. These are some of them:

    probe from    finds          conclusion
    ""            img_000.jpg    the first name
    "j"           nothing        all names begin with "i"
    "imh"         nothing        ... with "img"
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

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

PROBES_PER_RANGE = 5
"""Probes allowed for each wanted range, on average."""

_KINDS = (0x3A, 0x5B, 0x7B, 0x80)
"""The ends of digits, capitals, letters and ASCII. Names rarely use all of them, so these points are tried first."""

_BEYOND = 0x110000  # code points end here
_LAST_BEFORE_SURROGATES, _AFTER_SURROGATES = 0xD7FF, 0xE000  # which are not encodable in UTF-8


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
    parts = [_Part(*within, name)._shared().narrowed()]
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


class _Part(NamedTuple):
    """A range, and the knowledge about its names.

    Attributes:
      start, end: its limits.
      name: the first known name in it.
      same: the number of characters that all its names are known to share.
      weight: its estimated share of all names.
      beyond: an upper limit, exclusive, of the code point that follows the shared characters.
      differs: True if it is known that not all names have the same.
      whole: True if the range has a single name.
    """

    start: str
    end: str
    name: str
    same: int = 0
    weight: float = 1.0
    beyond: int = _BEYOND
    differs: bool = False
    whole: bool = False

    @property
    def point(self) -> str:
        """The point of the next probe; empty if further probes are useless."""
        if self.whole:
            return ""
        return self.name[: self.same] + chr(self._code)

    @property
    def _code(self) -> int:
        """The code point at index `same` to probe at."""
        if self.same == len(self.name):
            return ord(" ")
        low = ord(self.name[self.same])
        if not self.differs:
            return _next(low)
        middle = (low + 1 + self.beyond) // 2
        middle = next((kind for kind in _KINDS if low < kind < self.beyond), middle)
        if _LAST_BEFORE_SURROGATES < middle < _AFTER_SURROGATES:
            middle = _LAST_BEFORE_SURROGATES
        return max(middle, _next(low))

    def learn(self, later: str | None) -> tuple[_Part, ...]:
        """Returns the range, or its pieces, given the first name at or after `point`."""
        if self.same == len(self.name):  # do others begin with this name?
            return (self._replace(whole=True) if later is None else self._replace(name=later),)
        if later is None:
            return (self._replace(beyond=self._code)._shared(),)
        if not self.differs:
            return (self._replace(differs=True),)
        half = self.weight / 2
        left = self._replace(end=self.point, beyond=self._code, weight=half)
        right = self._replace(start=self.point, name=later, weight=half)
        return left._shared(), right._shared()

    def narrowed(self) -> _Part:
        """Returns the range with the conclusions that need no request: no name is beyond its end."""
        part = self
        while part.end and part.point >= part.end:
            (part,) = part.learn(None)
        return part

    def _shared(self) -> _Part:
        """Returns the range; if only one character is left at index `same`, the names share it."""
        if _next(ord(self.name[self.same])) < self.beyond:
            return self
        return self._replace(same=self.same + 1, beyond=_BEYOND, differs=False)


def _next(code: int) -> int:
    return _AFTER_SURROGATES if code == _LAST_BEFORE_SURROGATES else code + 1
