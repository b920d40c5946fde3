"""Failures as values: from an error to a refusal and back."""

from __future__ import annotations

import pytest

from beam_pipeline.core import errors
from beam_pipeline.core.errors import (
    ERRORS,
    ConversionError,
    OutputError,
    Refusal,
    UsageError,
    refusal_order,
)


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
