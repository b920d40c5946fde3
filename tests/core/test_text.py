"""Texts, URIs, errors and dead letters: what is decoded, escaped, hidden and written."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_pipeline.core import errors, uris
from beam_pipeline.core.dead_letters import (
    EXPLANATIONS,
    DeadLetter,
    Reason,
    Stage,
)
from beam_pipeline.core.errors import (
    ERRORS,
    ConversionError,
    OutputError,
    Refusal,
    UsageError,
    refusal_order,
)
from beam_pipeline.core.text import excerpt, terminal_line
from tests.rows import in_rows

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


def test_an_error_becomes_a_refusal_and_an_error_again() -> None:
    """Only listed names are written; a name of another version is still an error, and nothing is looked up by it."""

    class MineError(OutputError):
        pass

    assert Refusal.from_error(MineError("why")) == Refusal("OutputError", "why")
    refusals = [(Refusal.from_error(error("why")), error) for error in ERRORS]
    for name in ("NewError", "annotations", "__loader__"):
        refusals.append((Refusal(name, "why"), ConversionError))
    for refusal, error in refusals:
        assert (type(refusal.to_error()), str(refusal.to_error())) == (error, "why")


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


@in_rows
def test_a_dead_letter_is_this_line(letter: tuple[Any, ...], line: str) -> None:
    """One line of JSON, letters as they are, with the file and line of a row, and without secrets."""
    assert DeadLetter(*letter).to_json() == line


def test_reasons_and_stages_are_these() -> None:
    """The lists are closed: people count and filter by them. Each reason has a sentence of its own."""
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
    assert set(EXPLANATIONS) == set(Reason)
    assert len(set(EXPLANATIONS.values())) == len(Reason)
