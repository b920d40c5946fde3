from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from beam_pipeline.storage.key_ranges import (
    PROBES_PER_RANGE,
    KeyRange,
    find_key_ranges,
)

COUNT = 20_000


class Names:
    """Names as a bucket has them: in the order of their UTF-8 bytes."""

    def __init__(self, names: Iterable[str]) -> None:
        self.keys = sorted({name.encode() for name in names})
        self.asked: list[KeyRange] = []
        self.at_once: list[int] = []

    def index(self, name: str) -> int:
        return bisect_left(self.keys, name.encode())

    def within(self, limits: KeyRange) -> list[str]:
        last = self.index(limits.end) if limits.end else len(self.keys)
        return [key.decode() for key in self.keys[self.index(limits.start) : last]]

    def ranges(self, wanted: int, within: KeyRange | None = None) -> tuple[KeyRange, ...]:
        def first(start: str, end: str) -> str | None:
            self.asked.append(KeyRange(start, end))
            index = self.index(start)
            if index == len(self.keys) or (end and self.keys[index] >= end.encode()):
                return None
            return self.keys[index].decode()

        def map_probes(function: object, probes: Sequence[KeyRange]) -> Iterable[str | None]:
            self.at_once.append(len(probes))
            return [first(*probe) for probe in probes]

        limits = within or KeyRange("", "")
        return find_key_ranges(first, wanted, within=limits, map_probes=map_probes)


def flat(count: int = COUNT) -> list[str]:
    return [f"image_{number:07d}.jpg" for number in range(count)]


def hashed(number: int) -> str:
    return hashlib.sha256(str(number).encode()).hexdigest()


SHAPES = {
    "flat": flat(),
    "not padded": [f"image_{number}.jpg" for number in range(COUNT)],
    "class folders": [f"class_{number % 100:03d}/img_{number:06d}.jpg" for number in range(COUNT)],
    "dates": [
        f"2024/{1 + number % 12:02d}/{1 + number // 12 % 28:02d}/{number}.jpg"
        for number in range(COUNT)
    ],
    "hashes": [f"{hashed(number)}.png" for number in range(COUNT)],
    "words": [
        f"{('cat', 'dog', 'horse', 'terrier', 'zebra')[number % 5]}/{number}.jpg"
        for number in range(COUNT)
    ],
    "Korean": [f"{chr(0xAC00 + number * 7919 % 11172)}{number}.jpg" for number in range(COUNT)],
    "emoji": [f"{chr(0x1F300 + number % 700)}/{number}.jpg" for number in range(COUNT)],
}


@pytest.mark.parametrize("wanted", [16, 64])
@pytest.mark.parametrize("shape", SHAPES)
def test_about_as_many_ranges_are_found_as_are_wanted(shape: str, wanted: int) -> None:
    """Usual ways to name images give ranges, of which none holds more than ten times its share, for
    at most as many probes as are allowed, few of them one after another."""
    names = Names(SHAPES[shape])
    found = names.ranges(wanted)
    assert wanted <= len(found) <= 2 * wanted
    assert max(len(names.within(limits)) for limits in found) <= 10 * COUNT / wanted
    assert len(names.asked) <= PROBES_PER_RANGE * wanted + len(names.keys[0])
    assert len(names.at_once) + 1 <= 32


def test_flat_names_are_cut_behind_what_they_have_in_common() -> None:
    """The digits that are there are halved, and halved again."""
    found = Names(flat(10_000)).ranges(4)
    assert found == (
        KeyRange("", "image_0003"),
        KeyRange("image_0003", "image_0005"),
        KeyRange("image_0005", "image_0008"),
        KeyRange("image_0008", ""),
    )


@pytest.mark.parametrize(
    ("names", "ranges"),
    [
        ([], []),
        (["a.jpg"], [["a.jpg"]]),
        (["a", "a/b", "a/c", "b"], [["a", "a/b"], ["a/c"], ["b"]]),
    ],
)
def test_no_more_ranges_than_names(names: list[str], ranges: list[list[str]]) -> None:
    """Each range has a name in it when it is found; a name that others begin with stays with them."""
    found = Names(names)
    assert [found.within(limits) for limits in found.ranges(16)] == ranges


def test_names_that_others_begin_with_are_cut_off() -> None:
    """What all names have in common may be a name itself."""
    names = Names(["a/image", *(f"a/image{number:03d}" for number in range(1000))])
    found = names.ranges(10)
    assert len(found) >= 10
    assert sum(len(names.within(limits)) for limits in found) == 1001


def test_a_part_of_the_names_is_cut() -> None:
    """Limits given stay: the first range begins and the last ends there."""
    names = Names(flat(1000))
    limits = KeyRange("image_0000300.jpg", "image_0000400.jpg")
    found = names.ranges(8, within=limits)
    assert (found[0].start, found[-1].end) == limits
    assert [name for part in found for name in names.within(part)] == names.within(limits)
    assert all(limits.start <= probe.start < limits.end for probe in names.asked)


def test_ranges_hold_names_added_later() -> None:
    """There is no gap between two ranges, even where no name is yet."""
    found = Names(["a/0.jpg", "a/9.jpg", "b/0.jpg"]).ranges(3)
    assert [part.end for part in found[:-1]] == [part.start for part in found[1:]]


ANY_NAME = st.text(
    st.one_of(
        st.sampled_from("ab01/._- é\u0301\u0300\ud7ff\ue000\uffff\U00010000\U0010ffff\t\x7f\x85"),
        st.characters(exclude_categories=("Cs",)),
    ),
    min_size=1,
    max_size=8,
)


@given(
    st.sets(ANY_NAME, max_size=40),
    st.integers(1, 40),
    st.tuples(st.one_of(st.just(""), ANY_NAME), st.one_of(st.just(""), ANY_NAME)),
)
@example({"\ud7ff", "\ue000", "\uffff", "\U00010000"}, 8, ("", ""))
@example({"a\x01", "a\x05", "a\x07x", "a", "b"}, 8, ("", ""))
@example({"\U0010ffff", "\U0010ffffa", "\U0010ffff\U0010ffff"}, 8, ("", ""))
def test_every_name_lies_in_one_range(some: set[str], wanted: int, limits: tuple[str, str]) -> None:
    """Whatever the names, the ranges are in order, touch, keep to the limits and to UTF-8, and are
    found with as many probes as allowed."""
    names = Names(some)
    within = KeyRange(*limits)
    expected = names.within(within)
    found = names.ranges(wanted, within)
    assert [name for part in found for name in names.within(part)] == expected
    assert all(names.within(part) for part in found)
    assert len(found) <= 2 * wanted
    if expected:
        assert (found[0].start, found[-1].end) == within
        assert len(names.asked) <= PROBES_PER_RANGE * wanted + len(expected[0])
    for before, after in pairwise(found):
        assert before.end == after.start
        assert before.start.encode() < before.end.encode()


@given(st.lists(ANY_NAME))
def test_text_is_in_the_order_of_its_bytes(names: list[str]) -> None:
    """Python compares code points, which have the order of their UTF-8."""
    assert sorted(names) == sorted(names, key=str.encode)
