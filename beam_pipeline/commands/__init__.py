"""The commands of `beam-tfrecord`, one per module.

A module is imported when its command is called, so no command pays for another's imports.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from beam_pipeline.commands.command import Command

COMMANDS = {
    "convert": "convert images and labels to TFRecords",
    "plan": "preview a conversion without writing anything",
    "inspect": "show figures and examples of a data set, or of any TFRecords",
    "diff": "list the samples by which two data sets differ",
    "verify": "check a data set against its manifest",
    "repair": "rewrite damaged or missing shards",
    "index": "write an index beside each shard, for DALI and similar readers",
    "demo": "draw a small labelled data set and convert it",
}
"""Name of the command and its module -> one line of help."""

GROUPS = {
    "make a data set": ("convert", "plan", "demo"),
    "look at one": ("inspect", "diff", "verify"),
}
"""Heading in the help -> commands; those that are in no group come last."""


def grouped_commands() -> dict[str, list[str]]:
    """Heading -> names of commands, for the help."""
    grouped = {name for names in GROUPS.values() for name in names}
    ungrouped = [name for name in COMMANDS if name not in grouped]
    return {**{heading: list(names) for heading, names in GROUPS.items()}, "other": ungrouped}


def load_command(name: str) -> Command:
    """Imports a command."""
    command: Command = import_module(f"{__name__}.{name}").COMMAND
    return command
