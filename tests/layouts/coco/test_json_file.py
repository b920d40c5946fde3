"""Tests for reading large JSON objects piece by piece."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from beam_pipeline.layouts.coco.json_file import JsonFileError, first_value, json_members


class Trickle(io.BytesIO):
    """A file that gives a few bytes at a time, as one from the network may."""

    def __init__(self, data: bytes, size: int) -> None:
        super().__init__(data)
        self._size = size

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(min(self._size, self._size if size is None else size))


class Endless(io.BytesIO):
    """A file that never ends, and counts what was read of it."""

    served = 0

    def read(self, size: int | None = -1, /) -> bytes:
        assert size is not None
        self.served += size
        return super().read(size) or b"x" * size


def read(data: bytes | str, size: int = 1 << 20) -> list[tuple[str, Any]]:
    """All members, lists taken whole."""
    encoded = data.encode() if isinstance(data, str) else data
    members = json_members(Trickle(encoded, size), _Everything())
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
    assert read(text) == [
        ("a", [1, {"b": [2]}, "c"]),
        ("d", {"e": None}),
        ("f", []),
        ("g", 1.5),
        ("a", True),
    ]
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
@example(members={"a": [10**3000, 1.5e300]}, size=7, indent=None, ascii_only=True)
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


def test_the_first_value_may_hold_what_json_does_not_have() -> None:
    """As in every other value."""
    text = b'{"x": "NaN", "a": {"b": [NaN, -Infinity, 1.5], "c": "\\uD800"}}'
    assert repr(first_value(io.BytesIO(text), "a")) == ("[{'b': [nan, -inf, 1.5], 'c': '\\ud800'}]")


def test_elements_that_nobody_takes_are_passed_over() -> None:
    """The next member may be asked for at any time; the iterator of the last one is then at its end."""
    members = json_members(io.BytesIO(b'{"a": [1, 2, 3], "b": [4, 5], "c": 6}'), "abc")
    key, first = next(members)
    assert (key, next(first)) == ("a", 1)
    key, second = next(members)
    assert (key, list(first)) == ("b", [])
    assert next(members) == ("c", 6)
    assert list(second) == []


def test_a_byte_order_mark_and_white_space_do_not_count() -> None:
    """As Windows leaves them."""
    assert read(b'\xef\xbb\xbf \r\n{\r\n\t"a" : [ 1 ,\r\n 2 ] }\r\n \r\n') == [("a", [1, 2])]


def test_other_members_are_skipped() -> None:
    """Whatever they hold, keys and lists of the wanted names included."""
    text = b'{"x": {"a": [1], "b": {}}, "a": [2], "y": [[{"a": 3}], []], "z": 1, "b": 4}'
    members = json_members(io.BytesIO(text), ("a", "b"))
    assert [(key, taken(value)) for key, value in members] == [("a", [2]), ("b", 4)]


def test_the_first_value_at_a_path() -> None:
    """A member, an element of a list, or none; a fault behind it is not met."""
    text = b'{"x": {"b": 0}, "a": [{"b": 1.5}, 2], "b": [3]}'
    assert first_value(io.BytesIO(text), "b") == [[3]]
    assert first_value(io.BytesIO(text), "a.item") == [{"b": 1.5}]
    assert first_value(io.BytesIO(text), "c") == []
    assert first_value(io.BytesIO(b"\xef\xbb\xbf" + text), "b") == [[3]]
    broken = b'{"a": 1, "b": 2' + b" " * (1 << 20) + b"x"
    assert first_value(io.BytesIO(broken), "a") == [1]
    with pytest.raises(JsonFileError, match=r"^lexical error"):
        first_value(io.BytesIO(broken), "c")


BROKEN = [
    (b"", "parse error: premature EOF at the end of the file, byte 0"),
    (b"[1]", "expected an object in braces"),
    (b"\xff\xfe{\x00", "lexical error: invalid char in json text in bytes 1 to 4, near '"),
    (b'{"a": [1, 2', "parse error: premature EOF at the end of the file, byte 11"),
    (
        b'{"a": [1, 2}',
        "parse error: after array element, I expect ',' or ']' in bytes 1 to 12, near",
    ),
    (
        b'{"a": [1,]}',
        "parse error: unallowed token at this point in JSON text in bytes 1 to 11, ne",
    ),
    (b'{"a": 1', "parse error: premature EOF at the end of the file, byte 7"),
    (b'{"a"; 1}', "lexical error: invalid char in json text in bytes 1 to 8, near '{\"a\"; 1}'"),
    (
        b"{1: 2}",
        "parse error: invalid object key (must be a string) in bytes 1 to 6, near '{1: 2}'",
    ),
    (b'{"a": "b', "parse error: premature EOF at the end of the file, byte 8"),
    (b'{"a": Nan}', 'lexical error: invalid char in json text in bytes 1 to 10, near \'{"a": Nan'),
    (b'{"a": -Inf}', "lexical error: malformed number, a digit is required after the minus sign"),
    (b'{"a": 1} {', "parse error: trailing garbage in bytes 1 to 10, near '{\"a\": 1} {'"),
    (b'{"a": ["\xc3("]}', "lexical error: invalid bytes in UTF8 string in bytes 1 to 13, near"),
    (b'{"a": ' + b"9" * 100_000 + b"}", "a number of more than 4000 digits in bytes"),
    (b'{"a": ' + b'{"a": ' * 3000, "nested more than 100 deep in bytes 1 to "),
    (b'{"a": ' + b"[" * 3000 + b"]" * 3000 + b"}", "nested more than 100 deep in bytes 1 to "),
    (
        b'{"a": ' + b'{"a": ' * 100_000,
        "more than 4000 brackets without an end in bytes 1 to 65536",
    ),
    (b'{"a": ' + b"[" * 100_000, "more than 4000 brackets without an end in bytes 1 to 65536"),
]


@pytest.mark.parametrize(("data", "message"), BROKEN)
def test_what_is_broken_says_where(data: bytes, message: str) -> None:
    """What is wrong, in which bytes, and near what text."""
    with pytest.raises(JsonFileError) as caught:
        read(data)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("data", [data for data, _ in BROKEN if len(data) < 100])
def test_what_is_broken_is_found_however_bytes_arrive(data: bytes) -> None:
    """One by one."""
    with pytest.raises(JsonFileError):
        read(data, 1)


@pytest.mark.parametrize("size", [700, 65536])
def test_a_number_too_long_is_found_wherever_it_begins(size: int) -> None:
    """Of 4,000 digits; one of a digit less is read."""
    for place in range(0, 1000, 111):
        with pytest.raises(JsonFileError, match="a number of more than 4000 digits"):
            read(b'{"a": ' + b" " * place + b"1" * 4000 + b"}", size)
    assert read(b'{"a": ' + b"1" * 3999 + b"}", size) == [("a", int("1" * 3999))]


def test_the_place_counts_from_the_beginning_of_the_file() -> None:
    """Not from that of the piece."""
    text = '{"a": [' + "1," * 5000 + "2;"
    with pytest.raises(JsonFileError, match=r"in bytes 10001 to 10009, near '.*1,1,2;'$"):
        read(text, 100)


@pytest.mark.parametrize("key", ["a", "b"])
def test_a_file_is_not_read_to_its_end_for_a_text_that_never_ends(key: str) -> None:
    """A quote that is missing does not fill the memory, of a member that is wanted or not."""
    file = Endless(b'{"a": ["')
    message = "4 MiB without a comma, expected the end of a text"
    with pytest.raises(JsonFileError, match=message):
        consume(json_members(file, (key,)))
    assert file.served < 5 << 20
    file = Endless(b'{"a": ["')
    with pytest.raises(JsonFileError, match=message):
        first_value(file, "b")


def consume(members: Iterator[tuple[str, Any]]) -> None:
    for _, value in members:
        list(value)
