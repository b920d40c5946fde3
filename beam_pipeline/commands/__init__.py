"""The commands of `beam-tfrecord`. A module is imported when one of its commands is called, so no command pays for
another's imports.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module

from beam_pipeline.core.errors import UsageError
from beam_pipeline.core.text import did_you_mean

PROGRAM = "beam-tfrecord"

GROUPS = {
    "make a data set": {
        "convert": ("convert.CONVERT", "convert images and labels to TFRecords"),
        "plan": ("convert.PLAN", "preview a conversion without writing anything"),
        "demo": ("demo.DEMO", "draw a small labelled data set and convert it"),
    },
    "look at one": {
        "inspect": (
            "inspect.INSPECT",
            "show figures and examples of a data set, or of any TFRecords",
        ),
        "diff": ("inspect.DIFF", "list the samples by which two data sets differ"),
        "verify": ("verify.VERIFY", "check a data set against its manifest"),
    },
    "other": {
        "repair": ("verify.REPAIR", "rewrite damaged or missing shards"),
        "index": (
            "verify.INDEX",
            "write an index beside each shard, for DALI and similar readers",
        ),
    },
}
"""Heading in the help -> name of the command -> its module and `Command` there, and one line of help."""

COMMANDS = {name: entry for group in GROUPS.values() for name, entry in group.items()}


@dataclass(frozen=True)
class Call:
    """A command as it was called.

    Attributes:
      arguments: the command's own arguments, parsed.
      beam_argv: all other arguments: options of Apache Beam, or mistakes.
    """

    arguments: argparse.Namespace
    beam_argv: Sequence[str] = ()


def add_folder(parser: argparse.ArgumentParser) -> None:
    """Adds the argument of most commands."""
    parser.add_argument("folder", metavar="DIR", help="output folder of a conversion")


@dataclass(frozen=True)
class Command:
    """A command.

    Attributes:
      description: text for `beam-tfrecord COMMAND --help`; empty lines separate paragraphs, and
        lines that start with two spaces are not wrapped.
      run: runs it; returns False if it found faults, and raises ConversionError if it failed.
      add_arguments: adds its arguments; by default the output folder of a conversion.
      usage: its arguments in one line, for the help; empty to list them all.
      examples: command lines with headings, shown at the end of the help.
      takes_beam_options: True if it passes unknown options on to Apache Beam.
    """

    description: str
    run: Callable[[Call], bool]
    add_arguments: Callable[[argparse.ArgumentParser], object] = add_folder
    usage: str = ""
    examples: str = ""
    takes_beam_options: bool = False


def load_command(name: str) -> Command:
    """Imports a command."""
    module, _, attribute = COMMANDS[name][0].partition(".")
    command: Command = getattr(import_module(f"{__name__}.{module}"), attribute)
    return command


def refuse_unknown(unknown: Sequence[str], known: Iterable[str]) -> None:
    """Refuses unknown arguments.

    Args:
      unknown: the arguments; if empty, nothing happens.
      known: the options to suggest from.

    Raises:
      UsageError: there is one; the message names the first.
    """
    if unknown:
        name = unknown[0].partition("=")[0]
        hint = did_you_mean(name, known)
        kind = "option" if name.startswith("-") else "argument"
        raise UsageError(f"unknown {kind} {name}: neither {PROGRAM} nor Apache Beam knows it{hint}")
