"""Options of a conversion, in groups. `ConvertOptions` is their registry.

A new option is a field of a group; a new group is a field of `ConvertOptions`.
"""

from __future__ import annotations

import argparse
import dataclasses
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from beam_pipeline.core.errors import UsageError
from beam_pipeline.layouts.layout import SourceOptions
from beam_pipeline.options.group import Option, OptionGroup
from beam_pipeline.options.output import EngineOptions, ImageOptions, OutputOptions, SplitOptions
from beam_pipeline.options.source import InputOptions, LabelOptions, SampleOptions

if TYPE_CHECKING:
    from typing_extensions import Self


@dataclass(frozen=True)
class ConvertOptions:
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

    def __post_init__(self) -> None:
        for name in ("resume", "reuse"):
            if name in self.output.given and self.engine.shuffle == "records":
                raise UsageError(
                    f"--{name} needs the receipt of each shard, and --shuffle=records writes none; "
                    f"convert without --{name}, or without --shuffle=records"
                )

    @classmethod
    def groups(cls) -> dict[str, type[OptionGroup]]:
        """Field -> group, in order."""
        fields: tuple[dataclasses.Field[Any], ...] = dataclasses.fields(cls)
        return {field.name: field.default_factory for field in fields}  # type: ignore[misc]

    @classmethod
    def options(cls) -> Sequence[Option]:
        """Every option of every group, in order."""
        return [declared for group in cls.groups().values() for declared in group.options()]

    @classmethod
    def add_arguments(cls, parser: argparse.ArgumentParser) -> None:
        """Adds every group to a parser."""
        for group in cls.groups().values():
            group.add_arguments(parser)

    @classmethod
    def from_arguments(cls, arguments: argparse.Namespace) -> Self:
        """Builds the groups from parsed arguments.

        Raises:
          UsageError: a value is not allowed, or two options contradict each other.
        """
        groups = cls.groups().items()
        return cls(**{name: group.from_arguments(arguments) for name, group in groups})  # type: ignore[arg-type]

    def command(self, **changes: Any) -> str:
        """The command line that gives these options.

        Args:
          changes: options with other values, such as `labels`; of mappings, with further items.
        """
        tokens = []
        for name, group in self.groups().items():
            for declared in group.options():
                value = getattr(getattr(self, name), declared.name)
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
