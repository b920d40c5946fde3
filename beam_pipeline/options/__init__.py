"""Options of a conversion, in groups. `ConvertOptions` is their registry.

A new option is a field of a group; a new group is a field of `ConvertOptions`.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from beam_pipeline.core.errors import ConversionError, UsageError
from beam_pipeline.core.text import did_you_mean
from beam_pipeline.layouts.layout import SourceOptions
from beam_pipeline.options.group import OptionGroup
from beam_pipeline.options.output import EngineOptions, ImageOptions, OutputOptions, SplitOptions
from beam_pipeline.options.source import InputOptions, LabelOptions, SampleOptions

if TYPE_CHECKING:
    from typing_extensions import Self

TABLE_IN_MEMORY = "beam-tfrecord-labels.jsonl"
"""The name of the file of a table in memory, which messages call by its argument, `labels`."""
_TABLE = re.compile(rf"'?[^\s'\":,]*/{re.escape(TABLE_IN_MEMORY)}'?")
_COMMAND = re.compile("(?<=^    )beam-tfrecord convert (.*)", re.MULTILINE)
_ARGUMENT = re.compile(r"--([a-z_]+)(?:[ =]([A-Z][A-Z_]*)\b)?")


@dataclass(frozen=True)
class ConvertOptions(OptionGroup):
    """The options as typed, checked but not yet resolved: one field per group.

    The order of the fields is the order in `--help`.
    """

    inputs: InputOptions = dataclasses.field(default_factory=InputOptions)
    labels: LabelOptions = dataclasses.field(default_factory=LabelOptions)
    samples: SampleOptions = dataclasses.field(default_factory=SampleOptions)
    splits: SplitOptions = dataclasses.field(default_factory=SplitOptions)
    images: ImageOptions = dataclasses.field(default_factory=ImageOptions)
    output: OutputOptions = dataclasses.field(default_factory=OutputOptions)
    engine: EngineOptions = dataclasses.field(default_factory=EngineOptions)

    @classmethod
    def of_python(cls, arguments: Mapping[str, Any]) -> Self:
        """Builds the groups from keyword arguments.

        Raises:
          UsageError: an argument does not exist, or its value is not allowed.
        """
        declared = {option.name: option for option in cls.options()}
        for name in arguments:
            if name not in declared:
                raise UsageError(
                    f"convert() has no argument {name!r}{did_you_mean(name, declared)}"
                )
        values = {name: option.default for name, option in declared.items()}
        values |= {name: declared[name].of_python(value) for name, value in arguments.items()}
        return cls.from_arguments(argparse.Namespace(**values))

    def command(self, **changes: Any) -> str:
        """The command line that gives these options.

        Args:
          changes: options with other values, such as `labels`; of mappings, with further items.
        """
        tokens = []
        for declared, value in self.values():
            changed = changes.get(declared.name, value)
            both = isinstance(value, Mapping) and isinstance(changed, Mapping)
            tokens += declared.typed({**value, **changed} if both else changed)
        return shlex.join(["beam-tfrecord", "convert", *tokens])

    @property
    def source(self) -> SourceOptions:
        """The options that layouts need: those that `SourceOptions` has fields for."""
        groups = (self.inputs, self.labels, self.samples, self.splits)
        typed = {name: value for group in groups for name, value in vars(group).items()}
        typed["columns"] = {**self.labels.columns, **self.labels.file_columns}
        return SourceOptions(
            **{f.name: typed[f.name] for f in dataclasses.fields(SourceOptions) if f.name in typed}
        )


@contextlib.contextmanager
def speaking_of_arguments() -> Iterator[None]:
    """Rewrites options in messages as arguments: `--label_column NAME` as `label_column=NAME`."""
    try:
        yield
    except ConversionError as error:
        message = as_arguments(str(error))
        if message == str(error):
            raise
        raise type(error)(message, error.given_ids) from error


def as_arguments(message: str) -> str:
    """A message with commands as calls of `convert`, and options as its arguments.

    Example: "--resume or --label_column NAME" becomes "resume=True or label_column=NAME".
    """
    message = _COMMAND.sub(lambda command: _call(command[1]), message)
    message = _TABLE.sub("labels", message).replace("Correct the command", "Correct the call")
    declared = {option.name: option for option in ConvertOptions.options()}

    def argument(match: re.Match[str]) -> str:
        option = declared.get(match[1])
        if option is None:
            return match[0]
        if option.is_switch:
            return f"{option.name}=True" + (f" {match[2]}" if match[2] else "")
        return f"{option.name}={match[2]}" if match[2] else option.name

    return _ARGUMENT.sub(argument, message)


def _call(command: str) -> str:
    """The call of `convert` with the options of a command line."""
    parser = argparse.ArgumentParser()
    ConvertOptions.add_arguments(parser)
    options = ConvertOptions.from_arguments(parser.parse_args(shlex.split(command)))
    arguments = []
    for option, value in options.values():
        if isinstance(value, tuple):
            value = value[0] if len(value) == 1 else list(value)
        elif not isinstance(value, str | int | float | Mapping):
            value = "".join(option.typed(value)[-1:])
        if value not in (option.default, "", []):
            arguments.append(f"{option.name}={value!r}")
    return f"beam_pipeline.convert({', '.join(arguments)})"
