"""Options of a conversion: kinds of values, groups of options, and their registry."""

from __future__ import annotations

import argparse
import dataclasses
import re
from collections.abc import Mapping
from dataclasses import FrozenInstanceError, dataclass
from fractions import Fraction

import pytest

from beam_pipeline.cli import main
from beam_pipeline.commands import convert
from beam_pipeline.core.errors import UsageError
from beam_pipeline.core.records.sharding import ShardConfig, SplitFractions
from beam_pipeline.layouts.layout import SourceOptions
from beam_pipeline.options import (
    ConvertOptions,
    InputOptions,
    OutputOptions,
    SplitOptions,
)
from beam_pipeline.options.group import (
    Kind,
    OptionGroup,
    option,
    parse_columns,
    parse_features,
    parse_list_column,
    parse_num_shards,
    parse_size,
    parse_splits,
)

# --- values ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("200MB", 200_000_000),
        ("1KB", 1000),
        ("1KiB", 1024),
        ("1.5MiB", 1_572_864),
        ("2 GB", 2_000_000_000),
        ("3gib", 3 << 30),
        ("123", 123),
    ],
)
def test_sizes_take_decimal_and_binary_units(text: str, size: int) -> None:
    """KB, MB, GB count in thousands, KiB, MiB, GiB in 1,024s."""
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "MB", "12XB", "-3MB", "0", "0.1", "1e3"])
def test_what_is_no_size_is_refused(text: str) -> None:
    """Anything else is an error that shows it."""
    with pytest.raises(argparse.ArgumentTypeError, match=r"size|less"):
        parse_size(text)


def test_splits_shards_and_columns_are_parsed() -> None:
    """Pairs become what the groups hold; shares stay exact."""
    assert parse_splits("train=0.9,validation=0.1") == SplitFractions(
        (("train", Fraction(9, 10)), ("validation", Fraction(1, 10)))
    )
    assert parse_splits("a=1/3,b=2/3").fractions == (("a", Fraction(1, 3)), ("b", Fraction(2, 3)))
    assert parse_num_shards("16") == 16
    assert parse_num_shards("train=128, test=8") == {"train": 128, "test": 8}
    assert parse_columns("n:int,a:b:float") == {"n": "int", "a:b": "float"}
    assert parse_features("image/source_id=label, a=b") == {"image/source_id": "label", "a": "b"}


def test_a_separator_keeps_its_spaces() -> None:
    """All that follows the first `=` separates the values."""
    assert parse_list_column("tags=;") == {"tags": ";"}
    assert parse_list_column("tags=, ") == {"tags": ", "}
    assert parse_list_column("tags==") == {"tags": "="}
    assert parse_list_column("tags=[]") == {"tags": "[]"}
    assert parse_list_column("tags") == {"tags": ""}


@pytest.mark.parametrize("text", ["tags=", "=;", ""])
def test_a_list_column_needs_a_name_and_no_empty_separator(text: str) -> None:
    """The error shows an example, quoted for the shell."""
    with pytest.raises(argparse.ArgumentTypeError, match="COLUMN=SEPARATOR, such as 'tags=;'"):
        parse_list_column(text)


# --- group -----------------------------------------------------------------------------------------


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


# --- options ---------------------------------------------------------------------------------------

REQUIRED = ("--images", "in", "--output", "out")


def parsed_options(*argv: str) -> ConvertOptions:
    """The options as the command line makes them."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    ConvertOptions.add_arguments(parser)
    return ConvertOptions.from_arguments(parser.parse_args([*REQUIRED, *argv]))


def test_defaults_of_the_command_line_are_those_of_python() -> None:
    """An option that was not typed has the default of its field."""
    assert parsed_options() == ConvertOptions(
        inputs=InputOptions(images=("in",)), output=OutputOptions(output="out")
    )


def test_no_two_groups_have_an_option_of_the_same_name() -> None:
    """The command line would not know which is meant."""
    names = [option.name for option in ConvertOptions.options()]
    assert len(names) == len(set(names)) > 50


def test_layouts_get_what_they_know_of() -> None:
    """Every field of `SourceOptions` is filled from the group that has it."""
    argv = ("--labels", "l.csv", "--key_column", "k", "--columns", "a:int", "--label_base", "1")
    argv = (*argv, "--unlabelled", "keep", "--splits", "a=1", "--split_by", "folder")
    assert parsed_options(*argv).source == SourceOptions(
        images=("in",),
        labels=("l.csv",),
        key_column="k",
        columns={"a": "int"},
        label_base=1,
        unlabelled="keep",
        split_by="folder",
    )


def test_shards_and_split_names_come_from_the_splits_group() -> None:
    """A number wins over a size; without --splits there need not be any split."""
    options = parsed_options("--splits", "train=0.9,test=0.1", "--num_shards", "3").splits
    assert options.shards == ShardConfig(3, 200_000_000)
    assert options.split_names == ("train", "test")
    assert SplitOptions().split_names == ()


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (("--resume", "--overwrite"), "--resume keeps what --overwrite removes"),
        (("--resume", "--shuffle=records"), "convert without --resume, or without --shuffle"),
        (
            ("--split_by", "patient"),
            "--split_by needs --splits with the split sizes",
        ),
        (("--stratify",), "--stratify needs --splits with the split sizes"),
        (("--classes_only",), "--classes_only needs --classes"),
        (("--classes=c", "--class_ids=keep"), "--class_ids has no effect with --classes"),
        (("--classes=c", "--label_order=numeric"), "--label_order has no effect with --classes"),
        (
            ("--columns=right:str", "--file_columns=right"),
            "column 'right' is str in --columns and file in --file_columns",
        ),
        (("--name=.hidden",), "--name '.hidden' cannot start a file name"),
    ],
)
def test_options_that_contradict_each_other(argv: tuple[str, ...], message: str) -> None:
    """Within a group the group finds it, between groups the registry."""
    with pytest.raises(UsageError, match=message):
        parsed_options(*argv)


def test_the_groups_are_those_of_the_registry() -> None:
    """A field of `ConvertOptions` is all that a new group needs."""
    assert list(ConvertOptions.groups()) == [f.name for f in dataclasses.fields(ConvertOptions)]
    assert [group.title for group in ConvertOptions.groups().values()] == [
        "inputs",
        "labels",
        "samples",
        "splits and shards",
        "images",
        "output",
        "engine",
    ]


def test_help_shows_the_common_options_and_help_all_every_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Twelve are shown first, with the number of the others."""
    shown = []
    for argv in (["--help"], ["--help", "all"]):
        with pytest.raises(SystemExit):
            main(["convert", *argv])
        shown.append(capsys.readouterr().out)
    common, every = (re.findall(r"^  (--\w+)", text, re.MULTILINE) for text in shown)
    flags = [option.flag for option in convert.options()]
    assert sorted(every) == sorted(flags)
    assert len(common) == 12
    assert (
        f"`beam-tfrecord convert --help all` describes {len(flags) - 12} further options."
        in shown[0]
    )
