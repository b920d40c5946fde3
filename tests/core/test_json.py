"""Large JSON objects read piece by piece, and JSON of anybody's as typed values."""

from __future__ import annotations

import io
import json
import math
import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, NamedTuple

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from beam_pipeline.core import errors, json_file, typed_json
from beam_pipeline.core.json_file import JsonFile, JsonFileError
from tests.rows import in_rows, raised


class Endless(io.BytesIO):
    """A file that never ends, and counts what was read of it."""

    served = 0

    def read(self, size: int | None = -1, /) -> bytes:
        assert size is not None
        data = super().read(size) or b"x" * size
        self.served += len(data)
        return data


def read(data: bytes | str, size: int = 1 << 20) -> list[tuple[str, Any]]:
    """All members, lists taken whole, of a file that is read in pieces of a size."""
    encoded = data.encode() if isinstance(data, str) else data
    members = JsonFile(io.BytesIO(encoded), size).members(_Everything())
    return [(key, taken(value)) for key, value in members]


class _Everything(frozenset[str]):
    """All keys."""

    def __contains__(self, key: object) -> bool:
        return True


def taken(value: Any) -> Any:
    return list(value) if isinstance(value, Iterator) else value


def test_members_come_in_their_order() -> None:
    """Lists as iterators over their elements, all else as it is; a key may come twice."""
    text = '{"a": [1, {"b": [2]}, "c"], "d": {"e": null}, "f": [], "g": 1.5, "a": true}'
    members = [("a", [1, {"b": [2]}, "c"]), ("d", {"e": None}), ("f", []), ("g", 1.5), ("a", True)]
    assert read(text) == members
    assert read("{}") == []


INTEGERS = st.integers()
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
VALUES = st.recursive(
    st.none() | st.booleans() | INTEGERS | FLOATS | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


@given(
    members=st.dictionaries(TEXTS, VALUES, max_size=5),
    size=st.integers(1, 9),
    indent=st.sampled_from([None, 1]),
    ascii_only=st.booleans(),
)
@example(members={"a": [10**3000, 1.5e300, -0.0]}, size=7, indent=None, ascii_only=True)
@example(members={"a": 12345, "é": [1.5e-7, "\U0001f600"]}, size=1, indent=None, ascii_only=False)
def test_any_object_is_read_as_json_reads_it(
    members: dict[str, Any], size: int, indent: int | None, ascii_only: bool
) -> None:
    """However the bytes arrive, numbers and characters that are cut in two included."""
    text = json.dumps(members, indent=indent, ensure_ascii=ascii_only)
    assert read(text, size) == list(json.loads(text).items())


@given(
    members=st.dictionaries(
        st.text(),
        st.recursive(
            st.floats()
            | st.text()
            | st.sampled_from(["NaN", ", NaN,", '"NaN', "\\", '\\"Infinity']),
            lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
            max_leaves=12,
        ),
        max_size=5,
    ),
    size=st.integers(1, 40),
)
@example(members={"a": [math.nan, -math.inf], "b": "\ud800.jpg", "c": "\udc00\ud800"}, size=3)
def test_what_python_writes_and_json_does_not_have(members: dict[str, Any], size: int) -> None:
    """NaN, Infinity and halves of characters come out as json.load gives them, and not out of texts."""
    text = json.dumps({key.encode("utf-8", "replace").decode(): v for key, v in members.items()})
    assert repr(read(text, size)) == repr(list(json.loads(text).items()))


def test_elements_that_nobody_takes_are_passed_over() -> None:
    """The next member may be asked for at any time; the iterator of the last one is then at its end."""
    members = JsonFile(io.BytesIO(b'{"a": [1, 2, 3], "b": [4, 5], "c": 6}')).members("abc")
    key, first = next(members)
    assert (key, next(first)) == ("a", 1)
    key, second = next(members)
    assert (key, list(first)) == ("b", [])
    assert next(members) == ("c", 6)
    assert list(second) == []


def test_other_members_are_skipped() -> None:
    """Whatever they hold, keys and lists of the wanted names included."""
    text = b'{"x": {"a": [1], "b": {}}, "a": [2], "y": [[{"a": 3}], []], "z": 1, "b": 4}'
    members = JsonFile(io.BytesIO(text)).members(("a", "b"))
    assert [(key, taken(value)) for key, value in members] == [("a", [2]), ("b", 4)]


@in_rows
def test_a_broken_file_is_reported_with_the_place(data: bytes, message: str) -> None:
    """What is wrong, at which byte, and near what text."""
    assert str(raised(JsonFileError, read, data)).startswith(message)


@pytest.mark.parametrize(
    ("repeated", "message"),
    [
        (b"9", "a number of thousands of digits at byte 6, near"),
        (b"[", "a value that is nested too deep at byte 7, near"),
        (b'{"a": ', "a value that is nested too deep at byte 6, near"),
    ],
)
def test_a_value_without_measure_is_reported(repeated: bytes, message: str) -> None:
    """Whether it ends or not."""
    for end in (b"}", b"]" * 100_000 + b"}"):
        data = b'{"a": ' + repeated * 100_000 + end
        assert str(raised(JsonFileError, read, data)).startswith(message)


def test_the_place_counts_from_the_beginning_of_the_file() -> None:
    """Not from that of the piece; a character may have several bytes."""
    text = '{"a": [' + '"\u00e9",' * 5000 + "2;"
    with pytest.raises(JsonFileError, match=r"^expected , or \] at byte 25008, near '.*2;'$"):
        read(text, 100)


def test_a_fault_far_from_the_end_of_the_buffer_is_reported_at_once() -> None:
    """The rest of the file is not read for it."""
    file = Endless(b'{"a": [{"b": 1, }], "c": ["')
    with pytest.raises(JsonFileError, match=r"at byte 1[4-7]"):
        consume(JsonFile(file).members("a"))
    assert file.served < 3 << 20


@pytest.mark.parametrize("key", ["a", "b"])
def test_a_file_is_not_read_to_its_end_for_a_text_that_never_ends(key: str) -> None:
    """A quote that is missing does not fill the memory, of a member that is wanted or not."""
    file = Endless(b'{"a": ["')
    with pytest.raises(JsonFileError, match="a value of more than 33554432 characters at byte 7"):
        consume(JsonFile(file).members(key))
    assert file.served < 70 << 20


@in_rows
def test_a_list_larger_than_the_limit_of_a_value_is_skipped(
    skipped: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In bounded memory."""
    monkeypatch.setattr(json_file, "_MOST_CHARACTERS", 2 << 20)
    data = skipped % (b"[" + b"[0, 1, 2, 3], " * 500_000 + b"0]")
    assert list(JsonFile(io.BytesIO(data)).members("a")) == [("a", 1)]


def consume(members: Iterator[tuple[str, Any]]) -> None:
    for _, value in members:
        list(value)


# --- JSON of anybody's becomes typed values, or an error that names the entry; the numbers that features can hold


class Pair(NamedTuple):
    """A row with a default."""

    name: str
    count: int = 7


@dataclass(frozen=True)
class Inner:
    """An object."""

    size: typed_json.Count
    kind: Annotated[Any, typed_json.one_of("a", "b")] = "a"

    def __post_init__(self) -> None:
        if self.size == 13:
            raise ValueError("brings bad luck")


@dataclass(frozen=True)
class Outer:
    """An object of everything."""

    names: tuple[typed_json.Text, ...]
    inner: Mapping[str, Inner] = field(default_factory=dict)
    maybe: int | None = None
    pairs: tuple[Pair, ...] = ()
    point: tuple[int, str] = (0, "")
    small: Annotated[
        typed_json.Count, typed_json.Expect(lambda count: count < 10, "less than 10")
    ] = 0


def test_values_are_decoded_and_further_entries_ignored() -> None:
    """Defaults stand for what is missing."""
    content = {"names": ["x"], "inner": {"i": {"size": 1}}, "pairs": [["p"], ["q", 1]], "new": 1}
    assert typed_json.decode(Outer, {**content, "point": [1, "y"]}) == Outer(
        ("x",), {"i": Inner(1)}, None, (Pair("p"), Pair("q", 1)), (1, "y")
    )


@in_rows
def test_an_unexpected_entry_is_named(content: Any, message: str) -> None:
    """With its place, what it is and what was expected."""
    whole = {"names": [], **content} if isinstance(content, dict) and content else content
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        typed_json.decode(Outer, whole)


def test_a_file_that_is_something_else_is_one_error() -> None:
    """The parser's own errors do not come out."""
    contents = [{"names": 1}, {"names": [10**400]}, {"names": [], "small": 10**400}]
    for data in (b"\xff", b"{", b"[" * 100_000, *(json.dumps(c).encode() for c in contents)):
        with pytest.raises(errors.ConversionError, match=r"^x is damaged \(.*\); remove it$"):
            typed_json.parse(Outer, data, "x is damaged", "; remove it")


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
        assert not typed_json.fits_float32(value)
    else:
        assert typed_json.fits_float32(value)


@pytest.mark.parametrize("number", [-(2**63), 2**63 - 1])
def test_the_integers_of_an_int64_list(number: int) -> None:
    """Both ends are in; the next number is not."""
    assert number in typed_json.INT64
    assert number + (1 if number > 0 else -1) not in typed_json.INT64


def test_a_number_that_no_float_holds_is_not_finite() -> None:
    """It may be an integer all the same."""
    assert [typed_json.is_finite(value) for value in (10**400, math.inf, math.nan)] == [False] * 3
    assert typed_json.is_integer(10**400)
