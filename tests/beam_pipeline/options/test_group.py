"""A group of options: arguments, checks and values from its fields."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import FrozenInstanceError, dataclass

import pytest

from beam_pipeline.core.errors import UsageError
from beam_pipeline.options.group import Kind, OptionGroup, option, parse_list_column


@dataclass(frozen=True)
class Fruit(OptionGroup):
    """One option of each kind."""

    title = "fruit"
    description = "What grows."

    kinds: tuple[str, ...] = option("kinds", (), "KIND", repeated=True, required=True)
    colour: str = option("of the skin", choices=("red", "green"))
    weight: float = option("in kg", 1.0, Kind("KG", float, 0.5, 2))
    count: int = option("how many", 5, Kind("", int, 1))
    peeled: bool = option("without skin", False)
    parts: Mapping[str, str] = option("parts", {}, Kind("", parse_list_column), repeated=True)


@dataclass(frozen=True)
class MoreFruit(OptionGroup):
    """Shares the heading."""

    title = "fruit"

    ripe: bool = option("soft", False)


def parsed(*argv: str) -> Fruit:
    """The group as the command line makes it."""
    parser = argparse.ArgumentParser()
    Fruit.add_arguments(parser)
    return Fruit.from_arguments(parser.parse_args(argv))


def test_a_group_holds_what_was_parsed() -> None:
    """Lists become tuples, repeated pairs one mapping, the rest are defaults."""
    argv = ("--kinds", "apple", "pear", "--kinds=fig", "--parts=a=;", "--parts", "b=,", "--peeled")
    assert parsed(*argv) == Fruit(
        kinds=("apple", "pear", "fig"), parts={"a": ";", "b": ","}, peeled=True
    )
    assert parsed("--kinds=fig") == Fruit(kinds=("fig",))
    assert parsed("--kinds=fig").parts == {}  # not those of the command line before


def test_a_group_is_frozen() -> None:
    """It is passed on whole, so nobody may change it on the way."""
    with pytest.raises(FrozenInstanceError):
        parsed("--kinds=fig").colour = "blue"  # type: ignore[misc]


def test_help_shows_heading_description_choices_and_defaults() -> None:
    """One heading for groups of the same title."""
    parser = argparse.ArgumentParser(prog="eat")
    Fruit.add_arguments(parser)
    MoreFruit.add_arguments(parser)
    text = parser.format_help()
    assert text.count("fruit:\n  What grows.\n\n  --kinds KIND [KIND ...]") == 1
    assert "--colour red|green    of the skin (default: red)" in text
    assert text.count("fruit:") == 1
    assert text.splitlines()[-1].split() == ["--ripe", "soft"]
    (colour,) = (o for o in Fruit.options() if o.flag == "--colour")
    assert colour.help % {"default": colour.default} == "of the skin (default: red)"


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ("--colour=blue", r"--colour is 'blue', expected one of \(red, green\)"),
        ("--weight=3", "--weight is 3.0, expected 0.5 to 2"),
        ("--weight=nan", "--weight is nan, expected 0.5 to 2"),
        ("--count=0", "--count is 0, expected 1 or more"),
    ],
)
def test_values_that_are_not_allowed(argv: str, message: str) -> None:
    """The same error from the command line and from Python."""
    with pytest.raises(UsageError, match=message):
        parsed("--kinds=fig", argv)
    with pytest.raises(UsageError, match="--colour is 'blue'"):
        Fruit(colour="blue")
