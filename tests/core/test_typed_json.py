"""JSON of anybody's becomes typed values, or an error that names the entry; the numbers that features can hold."""

from __future__ import annotations

import json
import math
import re
import struct
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, NamedTuple

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from beam_pipeline.core.errors import ConversionError
from beam_pipeline.core.typed_json import (
    INT64,
    Count,
    Expect,
    Text,
    decode,
    fits_float32,
    is_finite,
    is_integer,
    one_of,
    parse,
)


class Pair(NamedTuple):
    """A row with a default."""

    name: str
    count: int = 7


@dataclass(frozen=True)
class Inner:
    """An object."""

    size: Count
    kind: Annotated[Any, one_of("a", "b")] = "a"

    def __post_init__(self) -> None:
        if self.size == 13:
            raise ValueError("brings bad luck")


@dataclass(frozen=True)
class Outer:
    """An object of everything."""

    names: tuple[Text, ...]
    inner: Mapping[str, Inner] = field(default_factory=dict)
    maybe: int | None = None
    pairs: tuple[Pair, ...] = ()
    point: tuple[int, str] = (0, "")
    small: Annotated[Count, Expect(lambda count: count < 10, "less than 10")] = 0


def test_values_are_decoded_and_further_entries_ignored() -> None:
    """Defaults stand for what is missing."""
    content = {"names": ["x"], "inner": {"i": {"size": 1}}, "pairs": [["p"], ["q", 1]], "new": 1}
    assert decode(Outer, {**content, "point": [1, "y"]}) == Outer(
        ("x",), {"i": Inner(1)}, None, (Pair("p"), Pair("q", 1)), (1, "y")
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([], "it is [], expected an object"),
        ({}, "it has no entry 'names'"),
        ({"names": "x"}, "names is 'x', expected a list"),
        ({"names": [1]}, "names[0] is 1, expected a text"),
        ({"inner": {"i": {}}}, "inner.i has no entry 'size'"),
        ({"inner": {"i": {"size": True}}}, "inner.i.size is True, expected a whole number"),
        ({"inner": {"i": {"size": -1}}}, "inner.i.size is -1, expected a whole number from 0 on"),
        ({"inner": {"i": {"size": 1, "kind": 1}}}, "inner.i.kind is 1, expected one of a, b"),
        ({"inner": {"i": {"size": 13}}}, "inner.i brings bad luck"),
        ({"maybe": "1"}, "maybe is '1', expected a whole number"),
        ({"pairs": [[]]}, "pairs[0] is [], expected a list of 2"),
        ({"pairs": [["a", "b"]]}, "Pair.count is 'b', expected a whole number"),
        ({"point": [1]}, "point is [1], expected a list of 2"),
        ({"point": [1, 2]}, "point[1] is 2, expected a text"),
        ({"small": 10}, "small is 10, expected less than 10"),
        ({"\ud800": 1}, r"it is '\ud800', expected names of entries that are texts"),
    ],
)
def test_an_unexpected_entry_is_named(content: Any, message: str) -> None:
    """With its place, what it is and what was expected."""
    whole = {"names": [], **content} if isinstance(content, dict) and content else content
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        decode(Outer, whole)


@pytest.mark.parametrize(
    "data",
    [
        *(b"\xff", b"{", b"[" * 100_000, json.dumps({"names": 1}).encode()),
        json.dumps({"names": [10**400]}).encode(),
        json.dumps({"names": [], "small": 10**400}).encode(),
    ],
)
def test_a_file_that_is_something_else_is_one_error(data: bytes) -> None:
    """The parser's own errors do not come out."""
    with pytest.raises(ConversionError, match=r"^x is damaged \(.*\); remove it$"):
        parse(Outer, data, "x is damaged", "; remove it")


LARGEST_FLOAT32 = 3.4028234663852886e38
HALFWAY = 3.4028235677973366e38  # to what would be the next float32; it rounds up, out of range


@given(st.floats())
@example(LARGEST_FLOAT32)
@example(-LARGEST_FLOAT32)
@example(math.nextafter(HALFWAY, 0))
@example(HALFWAY)
@example(-HALFWAY)
def test_a_number_fits_if_it_packs_as_a_float32(value: float) -> None:
    """Infinities and NaN are among the values of a FloatList; a number that rounds to one is not."""
    try:
        struct.pack("<f", value)
    except OverflowError:
        assert not fits_float32(value)
    else:
        assert fits_float32(value)


@pytest.mark.parametrize("number", [-(2**63), 2**63 - 1])
def test_the_integers_of_an_int64_list(number: int) -> None:
    """Both ends are in; the next number is not."""
    assert number in INT64
    assert number + (1 if number > 0 else -1) not in INT64


@pytest.mark.parametrize(
    ("value", "integer", "finite"),
    [
        (0, True, True),
        (-(2**70), True, True),
        (10**400, True, False),
        (1.0, False, True),
        (sys.float_info.max, False, True),
        (math.inf, False, False),
        (math.nan, False, False),
        (True, False, False),
        ("1", False, False),
        (None, False, False),
        ([1], False, False),
    ],
)
def test_the_numbers_of_json(value: Any, integer: bool, finite: bool) -> None:
    """`true` is no number, 1.0 is no integer, and an integer may be too large for a float."""
    assert is_integer(value) is integer
    assert is_finite(value) is finite
