"""Options of a conversion: kinds of values, groups, their registry, and what they are resolved to."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from beam_pipeline import cli, inputs
from beam_pipeline.commands import convert as command
from beam_pipeline.config import ConvertConfig
from beam_pipeline.core.errors import UsageError
from beam_pipeline.core.listing.filters import ImageRoot
from beam_pipeline.core.records.example_source import LabelledImages
from beam_pipeline.core.records.sharding import ShardConfig, SplitFractions
from beam_pipeline.layouts.layout import ContainerLabels, FolderLabels, Source, SourceOptions
from beam_pipeline.options import ConvertOptions
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
from beam_pipeline.options.output import (
    EngineOptions,
    ImageOptions,
    OutputOptions,
    SplitOptions,
)
from beam_pipeline.options.source import InputOptions
from beam_pipeline.storage.read_ahead import ReadOptions
from beam_pipeline.work.records import SpoolReader
from tests.harness import convert, digests, reasons_of
from tests.pictures import write_files, write_pictures
from tests.rows import in_rows, raised

# --- values ----------------------------------------------------------------------------------------


KINDS = {
    "size": parse_size,
    "splits": lambda text: str(parse_splits(text).fractions),
    "num_shards": parse_num_shards,
    "columns": parse_columns,
    "features": parse_features,
    "list_column": parse_list_column,
}


@in_rows
def test_values_are_parsed(kind: str, text: str, value: object) -> None:
    """Units are of 1,000 or 1,024; shares stay exact; all that follows the first `=` separates the values of a list."""
    assert KINDS[kind](text) == value


@in_rows
def test_what_is_no_value_is_refused(kind: str, text: str, message: str) -> None:
    """The error shows an example, quoted for the shell."""
    with pytest.raises(argparse.ArgumentTypeError, match=message):
        KINDS[kind](text)


@in_rows
def test_arguments_in_python_are_read_like_typed_ones(
    name: str, value: Any, group: str, read: object
) -> None:
    """By the option's own parser."""
    assert getattr(getattr(ConvertOptions.of_python({name: value}), group), name) == read


@in_rows
def test_arguments_that_are_no_value_are_refused(name: str, value: Any, message: str) -> None:
    """They are named as given, with what was expected, and go no further."""
    assert str(raised(UsageError, ConvertOptions.of_python, {name: value})) == message


# --- group -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Fruit(OptionGroup):
    """One option of each kind."""

    title = "fruit"
    description = "What grows."

    kinds: tuple[str, ...] = option(
        "kinds", kind=Kind("KIND", empty=(), repeated=True), required=True
    )
    colour: str = option("of the skin", choices=("red", "green"))
    weight: float = option("in kg", 1.0, Kind("KG", float, 0.5, 2))
    count: int = option("how many", 5, Kind("", int, 1))
    peeled: bool = option("without skin", False)
    parts: Mapping[str, str] = option(
        "parts", kind=Kind("", parse_list_column, empty={}, repeated=True)
    )


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
    columns = parsed_options("--columns=a:int,b:str", "--columns=b:float").labels.columns
    assert columns == {"a": "int", "b": "float"}


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


@in_rows
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


def test_help_shows_the_common_options_and_help_all_every_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Twelve are shown first, with the number of the others."""
    shown = []
    for argv in (["--help"], ["--help", "all"]):
        with pytest.raises(SystemExit):
            cli.main(["convert", *argv])
        shown.append(capsys.readouterr().out)
    common, every = (re.findall(r"^  (--\w+)", text, re.MULTILINE) for text in shown)
    flags = [option.flag for option in command.options()]
    assert sorted(every) == sorted(flags)
    assert len(common) == 12
    assert (
        f"`beam-tfrecord convert --help all` describes {len(flags) - 12} further options."
        in shown[0]
    )


# --- config ----------------------------------------------------------------------------------------


@pytest.fixture
def options(tmp_path: Path) -> ConvertOptions:
    """A table of two columns, and an option of each kind."""
    write_pictures(f"{tmp_path}/photos", ["1.jpg"])
    write_files(str(tmp_path), {"l.csv": "filename,label,size\n1.jpg,cat,2\n"})
    return ConvertOptions(
        inputs=InputOptions(images=(f"{tmp_path}/photos",), labels=(f"{tmp_path}/l.csv",)),
        splits=SplitOptions(
            splits=SplitFractions((("train", Fraction(9, 10)), ("test", Fraction(1, 10)))),
            num_shards={"train": 3},
            seed=7,
        ),
        images=ImageOptions(clip_boxes=True),
        output=OutputOptions(
            output=f"{tmp_path}/my set/", compression="gzip", features={"image/source_id": "label"}
        ),
    )


def test_filters_are_recorded_where_they_are_given(options: ConvertOptions) -> None:
    """In one order, whatever the order they were typed in; manifests without them stay as they were."""
    images = ImageOptions(clip_boxes=True, max_image_bytes=500, max_aspect=2.5, min_side=3)
    plain, _ = inputs.convert_config(options)
    config, _ = inputs.convert_config(dataclasses.replace(options, images=images))
    filters = '{"min_side": 3, "max_aspect": 2.5, "max_image_bytes": 500}'
    assert (
        json.dumps(config.recorded) == f'{json.dumps(plain.recorded)[:-1]}, "filters": {filters}}}'
    )
    assert config.encoding.options.filters == images.filters


def test_what_was_typed_and_what_it_is_are_kept_apart(
    options: ConvertOptions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The options stay as typed; paths, name and features are resolved beside them."""
    monkeypatch.chdir(tmp_path)
    typed = ConvertOptions(inputs=InputOptions(images=("photos",)), output=OutputOptions("out"))
    config, why = inputs.convert_config(typed)
    assert config.options is typed
    assert config.output == f"{tmp_path}/out"
    assert config.name == "out"
    assert [root.uri for root in config.source.roots] == [f"{tmp_path}/photos"]
    assert (config.label_bytes, config.inventory, config.renames) == (None, (), {})
    assert why == "no --labels and no other layout's files"
    labelled, _ = inputs.convert_config(options)
    assert labelled.label_bytes == len("filename,label,size\n1.jpg,cat,2\n")


def test_the_command_shown_is_that_of_the_data_set(options: ConvertOptions) -> None:
    """Whatever engine, folder and earlier data set made it, and without secrets."""
    config, _ = inputs.convert_config(options)
    here = OutputOptions("/elsewhere/x", name="my_set", overwrite=True, reuse="sets/1")
    again = dataclasses.replace(options, output=here, engine=EngineOptions(writers=3))
    other = dataclasses.replace(config, options=again, output="/elsewhere/x")
    plain = dataclasses.replace(here, output="my_set", overwrite=False, reuse="")
    expected = dataclasses.replace(options, output=plain, engine=EngineOptions()).command()
    assert other.command == expected
    shown = dataclasses.replace(other, shown_inputs={"labels": ("https://h/a.csv?sig=5e3c",)})
    assert "--labels 'https://h/a.csv?...'" in shown.command
    assert dataclasses.replace(other, made_by="f()").command == "f()"


def test_an_encoding_for_images_in_files_is_refused(options: ConvertOptions) -> None:
    """Only the source tells whether images are bare pixels."""
    config, _ = inputs.convert_config(options)
    raw = ConvertOptions(images=ImageOptions(image_encoding="raw"))
    with pytest.raises(UsageError, match="--image_encoding means nothing for this input"):
        ConvertConfig(options=raw, source=config.source, output="/out", name="x")


# --- read ahead ------------------------------------------------------------------------------------


@pytest.fixture
def photos(tmp_path: Path) -> str:
    """Forty images in two classes, an empty file, and one that is no image."""
    folder = str(tmp_path / "photos")
    write_pictures(folder, [f"{'ab'[i % 2]}/{i}.jpg" for i in range(40)])
    write_files(folder, {"a/empty.jpg": b"", "b/text.jpg": "no image"})
    return folder


@in_rows
def test_reading_ahead_changes_no_byte(photos: str, tmp_path: Path, options: tuple[str]) -> None:
    """Shards, manifest and dead letters are those of a run that reads one image at a time."""
    argv = ("--images", photos, "--name=x", "--num_shards=3", "--max_bad_fraction=0.1")
    assert convert(*argv, "--read_ahead=1", "--output", f"{tmp_path}/one") == 0
    assert convert(*argv, *options, "--output", f"{tmp_path}/ahead") == 0
    assert digests(tmp_path / "one") == digests(tmp_path / "ahead")
    assert reasons_of(tmp_path / "ahead") == {
        "a/empty.jpg": "empty_file",
        "b/text.jpg": "not_an_image",
    }


@pytest.mark.parametrize(
    ("folders", "output", "asked", "expected"),
    [
        (("/photos",), "gs://bucket/out", None, ReadOptions(prefetched=16)),
        (("gs://bucket/photos",), "/out", None, ReadOptions(32)),
        (("/photos", "s3://bucket/photos"), "/out", None, ReadOptions(32)),
        (("gs://bucket/photos",), "gs://bucket/out", 1, ReadOptions(1)),
        (("/photos",), "/out", 1, ReadOptions(1)),
        (("/photos",), "/out", 5, ReadOptions(5)),
        ((), "/out", None, ReadOptions(1)),
        ((), "gs://bucket/out", None, ReadOptions(32)),
    ],
)
@pytest.mark.skipif(not hasattr(os, "posix_fadvise"), reason="the system takes no advice")
def test_where_images_lie_decides_how_far_is_read_ahead(
    folders: tuple[str, ...], output: str, asked: int | None, expected: ReadOptions
) -> None:
    """32 reads for a bucket, prefetched files for a disk, neither for containers, if nothing is said.

    What containers hold may be unpacked to the output, so where that lies counts for them.
    """
    labels = FolderLabels() if folders else ContainerLabels(SpoolReader(), ("/cifar/data_batch_1",))
    source = Source("some", tuple(map(ImageRoot, folders)), labels, LabelledImages(()))
    options = ConvertOptions(engine=EngineOptions(read_ahead=asked))
    config = ConvertConfig(options=options, source=source, output=output, name="x")
    assert config.reading == expected
    assert not any("read" in name for name in config.recorded)
