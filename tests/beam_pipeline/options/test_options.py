"""The registry of option groups: one parser, one object, nothing copied or lost."""

from __future__ import annotations

import argparse
import dataclasses
import re

import pytest

from beam_pipeline.cli import main
from beam_pipeline.commands import convert
from beam_pipeline.core.errors import UsageError
from beam_pipeline.core.records.sharding import ShardConfig
from beam_pipeline.layouts.layout import SourceOptions
from beam_pipeline.options import (
    ConvertOptions,
    InputOptions,
    OutputOptions,
    SplitOptions,
)

REQUIRED = ("--images", "in", "--output", "out")


def parsed(*argv: str) -> ConvertOptions:
    """The options as the command line makes them."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    ConvertOptions.add_arguments(parser)
    return ConvertOptions.from_arguments(parser.parse_args([*REQUIRED, *argv]))


def test_defaults_of_the_command_line_are_those_of_python() -> None:
    """An option that was not typed has the default of its field."""
    assert parsed() == ConvertOptions(
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
    assert parsed(*argv).source == SourceOptions(
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
    options = parsed("--splits", "train=0.9,test=0.1", "--num_shards", "3").splits
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
        parsed(*argv)


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
