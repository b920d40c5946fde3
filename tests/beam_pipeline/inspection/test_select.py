"""Where-expressions: what they mean, and what is none."""

from __future__ import annotations

import pytest

from beam_pipeline.core.errors import UsageError
from beam_pipeline.core.records.example_view import FeatureList
from beam_pipeline.inspection.select import Condition, parse_conditions

EXAMPLE = {
    "image/width": FeatureList("int64", [200]),
    "score": FeatureList("float", [0.5]),
    "big": FeatureList("int64", [2**60 + 1]),
    "format": FeatureList("bytes", [b"png"]),
    "colour": FeatureList("bytes", [b"light blue"]),
    "tags": FeatureList("bytes", [b"a", b"b"]),
    "x": FeatureList("float", [1.0, 9.0]),
    "empty": FeatureList("", []),
    "a b": FeatureList("int64", [1]),
}


def holds(text: str) -> bool:
    return all(condition.holds(EXAMPLE) for condition in parse_conditions(text))


@pytest.mark.parametrize(
    "text",
    [
        "image/width=200",
        "image/width == 200",
        "image/width>=200 and image/width<=200",
        "image/width<200.5",
        "score>.25 and score != 1",
        f"big={2**60 + 1}",
        "format=png",
        "format!=jpeg",
        "format>jpeg",
        "colour='light blue'",
        'colour = "light blue" and format = "png"',
        "tags=b",
        "tags!=c",
        "x>8",
        "x<2",
        "'a b'=1",
    ],
)
def test_these_hold(text: str) -> None:
    """Numbers are compared as numbers, texts as texts; one value of a list is enough."""
    assert holds(text)


@pytest.mark.parametrize(
    "text",
    [
        "image/width<200",
        "image/width=200 and format=jpeg",
        f"big={2**60}",
        "format=PNG",
        "tags!=b",
        "x>9",
        "missing=1",
        "missing!=1",
        "empty!=1",
        "empty=1",
    ],
)
def test_these_do_not_hold(text: str) -> None:
    """An example without the feature meets no condition on it."""
    assert not holds(text)


def test_quotes_keep_operators_and_the_word_and() -> None:
    """They are taken off; nothing else in a value has a meaning."""
    assert parse_conditions("a='x and y<3' and b>=$(id)") == (
        Condition("a", "=", "x and y<3"),
        Condition("b", ">=", "$(id)"),
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "found '', expected FEATURE OPERATOR VALUE"),
        ("image/width", "found 'image/width', expected"),
        ("image/width<", "expected FEATURE OPERATOR VALUE"),
        ("<3", "expected FEATURE OPERATOR VALUE"),
        ("a=1 and", "expected FEATURE OPERATOR VALUE"),
        ("a=1 or b=2", "found 'a = 1 or', expected"),
        ("a=1 b=2", "found 'a = 1 b', expected"),
        ("a=1, b=2", "expected FEATURE OPERATOR VALUE"),
        ("a<<3", "found 'a < < 3', expected"),
        ("a!3", "'!3' cannot be read"),
        ("a='x", '"\'x" cannot be read'),
        ("a=" + "x" * 10_000, "--where has 10002 characters"),
    ],
)
def test_what_cannot_be_read_is_shown(text: str, message: str) -> None:
    """With what was expected instead."""
    with pytest.raises(UsageError) as raised:
        parse_conditions(text)
    assert message in str(raised.value)


def test_a_number_is_not_compared_with_a_text() -> None:
    """That is a mistake, not a comparison that fails."""
    with pytest.raises(UsageError, match="image/width holds int64 values; 'wide' is not a number"):
        holds("image/width<wide")
