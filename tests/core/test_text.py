"""Text that UTF-8 cannot hold."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_pipeline.core.errors import UsageError
from beam_pipeline.core.text import (
    decoded,
    excerpt,
    is_utf8,
    printable,
    quoted,
    terminal_line,
)


@pytest.mark.parametrize(
    ("text", "expected", "escaped"),
    [
        ("", True, ""),
        ("a\n", True, "a\n"),
        ("größe 猫", True, "größe 猫"),
        (os.fsdecode(b"a\xff.jpg"), False, "a\\udcff.jpg"),
        ("\ud83d", False, "\\ud83d"),
    ],
)
def test_half_of_a_surrogate_pair_is_escaped(text: str, expected: bool, escaped: str) -> None:
    """As bytes of a file name that are not UTF-8 are decoded; all other text stays as it is."""
    assert is_utf8(text) is expected
    assert printable(text) == escaped


def test_a_text_file_is_decoded_as_utf_8() -> None:
    """A byte order mark is no part of the text; other encodings are refused by the file's name."""
    assert decoded(b"\xef\xbb\xbfgr\xc3\xb6\xc3\x9fe\n", "a.txt") == "größe\n"
    with pytest.raises(UsageError, match=r"^--list a\.txt is not UTF-8 \(.*\); save it as UTF-8$"):
        decoded(b"gr\xf6\xdfe", "--list a.txt")


def test_names_are_quoted() -> None:
    """As Python writes them; that there are none is said, too."""
    assert quoted(["a.jpg", "it's"]) == "'a.jpg', \"it's\""
    assert quoted([]) == "none"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("größe 猫 e\u0301 \\", "größe 猫 e\u0301 \\"),
        ("\x1b[31mred\x1b[0m\x9b2J", r"\x1b[31mred\x1b[0m\x9b2J"),
        ("a\nb\r\tc\0\x7f", r"a\nb\r\tc\x00\x7f"),
        ("a\u202egpj.exe\u2066\u200f\u2028", r"a\u202egpj.exe\u2066\u200f\u2028"),
        ("\ud83d" + os.fsdecode(b"a\xff"), r"\ud83da\udcff"),
        ("ca\u200bt\ufeff \xad \u2060 \U000e0041", r"ca\u200bt\ufeff \xad \u2060 \U000e0041"),
        ("cat\u200d \u200cdog", r"cat\u200d \u200cdog"),
        ("می\u200cخواهم 👩\u200d👧 ❤\ufe0f", "می\u200cخواهم 👩\u200d👧 ❤\ufe0f"),
        ("https://me:pw@h/a.jpg?sig=1 b", "https://...@h/a.jpg?... b"),
    ],
)
def test_a_line_holds_nothing_that_moves_a_terminal(text: str, line: str) -> None:
    """Controls, line breaks, marks of direction and surrogates are escaped; other text stays."""
    assert terminal_line(text) == line


VALUES = st.recursive(
    st.none() | st.integers() | st.text(max_size=99) | st.binary(max_size=99) | st.floats(),
    lambda values: (
        st.lists(values) | st.tuples(values, values) | st.dictionaries(st.text(max_size=9), values)
    ),
)


@given(VALUES)
def test_a_value_is_shown_by_its_beginning(value: object) -> None:
    """As much of it as 80 characters hold."""
    whole = repr(value)
    assert excerpt(value) == (whole if len(whole) <= 80 else whole[:77] + "...")


@pytest.mark.timeout(10)
def test_a_value_of_billions_of_items_is_shown() -> None:
    """Lists and objects that hold each other, as YAML's aliases make them."""
    lists: list[object] = ["x"]
    objects: dict[int, object] = {0: "x"}
    for _ in range(50):
        lists, objects = [lists] * 9, dict.fromkeys(range(9), objects)
    assert excerpt(lists) == "[" * 51 + "'x'], ['x'], ['x'], ['x'],"[: 77 - 51] + "..."
    assert excerpt(objects) == ("{0: " * 20)[:77] + "..."


def test_a_name_of_megabytes_is_shortened() -> None:
    """The words around it stay whole; a line of many words is shortened, too."""
    name = "\x1b" * 10_000_000
    line = terminal_line(f"--labels {name}: no such file")
    assert line.startswith(r"--labels \x1b\x1b")
    assert line.endswith(r"\x1b: no such file")
    assert "...(10000001 characters)..." in line
    assert len(line) < 5_000
    path = "x" * 999
    assert terminal_line(path) == path
    assert len(terminal_line("columns " + "ab, " * 1_000_000)) < 10_000
