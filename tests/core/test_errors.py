"""Errors that end a run."""

from __future__ import annotations

import inspect

from beam_pipeline.core import errors
from beam_pipeline.core.errors import ERRORS, ChangedFileError, ConversionError, UsageError


def test_every_error_is_registered() -> None:
    """A refusal is read back by the name of its class, so each class has to be in the list, once."""
    defined = {
        value
        for _, value in inspect.getmembers(errors, inspect.isclass)
        if issubclass(value, ConversionError)
    }
    assert set(ERRORS) == defined
    assert len(ERRORS) == len(defined)


def test_the_tree_names_every_error() -> None:
    """The page at the top of the module says what each is for."""
    assert errors.__doc__ is not None
    named = {word for word in errors.__doc__.split() if word.endswith("Error")}
    assert named == {error.__name__ for error in (*ERRORS, OSError, ChangedFileError)}


def test_a_message_shows_no_secret() -> None:
    """Neither the password nor the signature of a URL; the rest of the message stays."""
    error = UsageError("--images https://me:pw@host/a.jpg?sig=5e3c: no such file")
    assert str(error) == "--images https://...@host/a.jpg?...: no such file"
    assert str(ConversionError("plain")) == "plain"
