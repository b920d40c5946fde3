"""Texts, URIs, errors and dead letters: what is decoded, escaped, hidden and written."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_pipeline.core import errors, uris
from beam_pipeline.core.dead_letters import (
    EXPLANATIONS,
    Reason,
    Stage,
    image_dead_letter,
    row_dead_letter,
)
from beam_pipeline.core.errors import (
    ERRORS,
    ConversionError,
    OutputError,
    Refusal,
    UsageError,
    refusal_order,
)
from beam_pipeline.core.text import decoded, excerpt, is_utf8, printable, terminal_line
from tests.rows import in_rows


@in_rows
def test_half_of_a_surrogate_pair_is_escaped(text: str, expected: bool, escaped: str) -> None:
    """As bytes of a file name that are not UTF-8 are decoded; all other text stays as it is."""
    assert is_utf8(text) is expected
    assert printable(text) == escaped


def test_a_text_file_is_decoded_as_utf_8() -> None:
    """A byte order mark is no part of the text; other encodings are refused by the file's name."""
    assert decoded(b"\xef\xbb\xbfgr\xc3\xb6\xc3\x9fe\n", "a.txt") == "größe\n"
    with pytest.raises(UsageError, match=r"^--list a\.txt is not UTF-8 \(.*\); save it as UTF-8$"):
        decoded(b"gr\xf6\xdfe", "--list a.txt")


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


# --- What is local and what is remote


@in_rows
def test_no_secret_of_a_url_is_shown(text: str, shown: str) -> None:
    """Signed queries, users and passwords go; scheme, host, path and names with a question mark stay."""
    assert uris.without_secrets(text) == shown
    assert uris.without_secrets(shown) == shown


def test_a_signed_url_with_spaces_is_cut_as_a_whole() -> None:
    """As the name of an image, which may hold anything."""
    assert uris.uri_without_secrets("https://h/a b.jpg?sig=1 2'3") == "https://h/a b.jpg?..."
    assert uris.uri_without_secrets("a b?.jpg") == "a b?.jpg"


@in_rows
def test_a_text_of_megabytes_takes_no_longer_than_its_length(part: str) -> None:
    """Whatever it is made of."""
    started = time.process_time()
    uris.without_secrets(f"https://h/{part * 1_000_000}=")
    assert time.process_time() - started < 5


# --- Failures as values: from an error to a refusal and back


def test_the_tree_at_the_top_of_the_file_is_the_tree() -> None:
    """Every class stands there once, below the class that it derives from."""
    drawn: dict[str, str] = {}
    above = {0: "Exception"}
    for line in (errors.__doc__ or "").splitlines():
        name = line.lstrip("│├└─ ").split(" ")[0]
        if name.endswith("Error"):
            depth = (len(line) - len(line.lstrip("│├└─ "))) // 4
            drawn[name] = above[depth]
            above[depth + 1] = name
    others = {"OSError": "Exception", "ChangedFileError": "OSError"}
    assert drawn == {cls.__name__: cls.__base__.__name__ for cls in ERRORS} | others


@pytest.mark.parametrize("error", ERRORS)
def test_there_and_back(error: type[ConversionError]) -> None:
    """The same class with the same message."""
    found = Refusal.from_error(error("why")).to_error()
    assert (type(found), str(found)) == (error, "why")


def test_an_error_of_another_module_becomes_the_nearest_listed_one() -> None:
    """Only listed names are written, as a note may be read by another process."""

    class MineError(OutputError):
        pass

    assert Refusal.from_error(MineError("why")) == Refusal("OutputError", "why")


def test_a_name_of_another_version_is_still_an_error() -> None:
    """The message counts, and no attribute of a module is looked up by a name from a file."""
    for name in ("NewError", "annotations", "__loader__"):
        found = Refusal(name, "why").to_error()
        assert (type(found), str(found)) == (ConversionError, "why")


def test_refusals_are_sorted_by_the_numbers_in_them() -> None:
    """Row 9 comes before row 10, as do files; other texts are sorted as texts."""
    messages = ["a", "a 2, row 10", "a 10, row 1", "a 2, row 9", "a row 8", "7"]
    refusals = [Refusal("OutputError", message) for message in messages]
    found = [refusal.message for refusal in sorted(refusals, key=refusal_order)]
    assert found == ["7", "a", "a 2, row 9", "a 2, row 10", "a 10, row 1", "a row 8"]


def test_a_message_shows_no_secret() -> None:
    """Neither the password nor the signature of a URL; the rest of the message stays."""
    error = UsageError("--images https://me:pw@host/a.jpg?sig=5e3c: no such file")
    assert str(error) == "--images https://...@host/a.jpg?...: no such file"
    assert str(ConversionError("plain")) == "plain"


# --- dead letters


def test_a_dead_letter_of_an_image_is_this_line() -> None:
    """One line of JSON, letters as they are, without file and line."""
    dead_letter = image_dead_letter(
        Stage.CHECK, "강아지/1.jpg", "gs://b/강아지/1.jpg", Reason.NOT_AN_IMAGE, 'a "b"\nc'
    )
    assert dead_letter.to_json() == (
        '{"stage": "check", "key": "강아지/1.jpg", "uri": "gs://b/강아지/1.jpg", '
        '"reason": "not_an_image", "message": "a \\"b\\"\\nc"}'
    )


def test_a_dead_letter_of_a_row_is_this_line() -> None:
    """It has no URI, but the place of the row."""
    dead_letter = row_dead_letter(
        Stage.JOIN, "a.jpg", Reason.MISSING_IMAGE, "no image", "/labels/l.csv", 7
    )
    assert dead_letter.to_json() == (
        '{"stage": "join", "key": "a.jpg", "uri": "", "reason": "missing_image", '
        '"message": "no image", "file": "/labels/l.csv", "line": 7}'
    )


def test_reasons_and_stages_are_these() -> None:
    """The lists are closed: people count and filter by them."""
    assert [stage.value for stage in Stage] == ["list", "labels", "join", "read", "check"]
    assert [reason.value for reason in Reason] == [
        "name_not_utf8",
        "not_a_file",
        "unusable_member",
        "bad_row",
        "bad_label_value",
        "unknown_class",
        "unlabelled",
        "missing_image",
        "missing_file",
        "ambiguous_key",
        "conflicting_labels",
        "duplicate_key",
        "excluded",
        "duplicate",
        "unreadable",
        "empty_file",
        "changed_since_listing",
        "too_large",
        "not_an_image",
        "unsupported_format",
        "corrupt_image",
        "decompression_bomb",
        "size_mismatch",
        "not_upright",
        "bad_box",
        "empty_box",
        "small_box",
        "bad_mask",
        "filtered_min_side",
        "filtered_max_aspect",
        "filtered_max_pixels",
        "filtered_max_image_bytes",
    ]


def test_every_reason_is_explained() -> None:
    """No reason without a sentence, no sentence without a reason, no two alike."""
    assert set(EXPLANATIONS) == set(Reason)
    assert len(set(EXPLANATIONS.values())) == len(Reason)


def test_no_secret_of_a_url_is_in_a_dead_letter() -> None:
    """A signed URL of a table that no image has: not in the key, the message or the file's name."""
    url = "https://me:pw@host/a b.jpg?X-Goog-Signature=5e3c 1"
    dead_letter = row_dead_letter(
        Stage.JOIN, url, Reason.MISSING_IMAGE, f"{url!r}?", "https://h/l.csv?sig=1", 7
    )
    assert json.loads(
        dead_letter._replace(uri=url, message="at https://h/a?sig=1: no").to_json()
    ) == {
        "stage": "join",
        "key": "https://...@host/a b.jpg?...",
        "uri": "https://...@host/a b.jpg?...",
        "reason": "missing_image",
        "message": "at https://h/a?...: no",
        "file": "https://h/l.csv?...",
        "line": 7,
    }
