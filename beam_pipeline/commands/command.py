"""The protocol of a command, and code that commands share."""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from beam_pipeline.core.errors import UsageError

PROGRAM = "beam-tfrecord"


@dataclass(frozen=True)
class Call:
    """A command as it was called.

    Attributes:
      arguments: the command's own arguments, parsed.
      beam_argv: all other arguments: options of Apache Beam, or mistakes.
    """

    arguments: argparse.Namespace
    beam_argv: Sequence[str] = ()


class Command(Protocol):
    """A command; the module of the same name holds it as `COMMAND`.

    Attributes:
      description: text for `beam-tfrecord COMMAND --help`; empty lines separate paragraphs, and
        lines that start with two spaces are not wrapped.
      usage: its arguments in one line, for the help; empty to list them all.
      examples: command lines with headings, shown at the end of the help.
      takes_beam_options: True if it passes unknown options on to Apache Beam.
    """

    description: str
    usage: str
    examples: str
    takes_beam_options: bool

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Adds the command's arguments."""

    def run(self, call: Call) -> bool:
        """Runs the command; returns False if it found faults.

        Raises:
          ConversionError: the command failed; the message gives the reason.
        """


class DatasetCommand:
    """A command whose only argument is the output folder of a conversion."""

    usage = ""
    examples = ""
    takes_beam_options = False

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Adds the folder."""
        parser.add_argument("folder", metavar="DIR", help="output folder of a conversion")


def refuse_unknown(unknown: Sequence[str], known: Iterable[str]) -> None:
    """Refuses unknown arguments.

    Args:
      unknown: the arguments; if empty, nothing happens.
      known: the options from which to suggest the closest.

    Raises:
      UsageError: there is one; the message names the first.
    """
    if not unknown:
        return
    name = unknown[0].partition("=")[0]
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    hint = f"; did you mean {close[0]}?" if close else ""
    kind = "option" if name.startswith("-") else "argument"
    raise UsageError(f"unknown {kind} {name}: neither {PROGRAM} nor Apache Beam knows it{hint}")
