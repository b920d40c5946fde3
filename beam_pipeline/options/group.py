"""Option groups: a frozen dataclass whose fields are options of the command line.

A field declares everything about its option in one place:

    @dataclass(frozen=True)
    class OutputOptions(OptionGroup):
        title = "output"

        compression: str = option("none", choices=("none", "gzip"), help="shard compression")

The argument `--compression none|gzip`, its place in `--help`, its check, and the value
`OutputOptions.from_arguments(arguments).compression` are derived from that. Checks that concern
several options go into the group's `__post_init__`.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from beam_pipeline.core.errors import UsageError

if TYPE_CHECKING:
    from typing_extensions import Self

_METADATA_KEY = "option"


@dataclass(frozen=True)
class Option:
    """An option of the command line.

    Attributes:
      help: one line for `--help`; `%(default)s` is replaced by the default.
      metavar: placeholder for the value in `--help`; the choices if empty.
      parse: turns the text into the value, or raises `argparse.ArgumentTypeError`.
      choices: the allowed values; empty without such a list.
      choices_checked: False if later code checks the value against its own list.
      between: the least and the greatest allowed value.
      repeated: True if it may be given several times: a list of values, or pairs that are merged.
      required: True if the command line must have it.
      common: True if `--help` shows it; `--help all` shows every option.
      name: the field's name, which is the option's name without the dashes.
      default: the field's default.
    """

    help: str
    metavar: str = ""
    parse: Callable[[str], Any] = str
    choices: tuple[Any, ...] = ()
    choices_checked: bool = True
    between: tuple[float, float] | None = None
    repeated: bool = False
    required: bool = False
    common: bool = False
    name: str = ""
    default: Any = None

    @property
    def flag(self) -> str:
        """The option as it is typed: `--num_shards`."""
        return f"--{self.name}"

    @property
    def is_switch(self) -> bool:
        """True if the option takes no value: its default is False."""
        return self.default is False

    @property
    def help_text(self) -> str:
        """The help with the default filled in."""
        return self.help % {"default": self.default}

    def add_to(self, parser: argparse._ActionsContainer) -> None:
        """Adds the option to a parser or to one of its argument groups."""
        if self.is_switch:
            action: Any = parser.add_argument(self.flag, action="store_true", help=self.help)
            action.common = self.common
            return
        settings: dict[str, Any] = {
            "type": self.parse,
            "default": self.default,
            "metavar": self.metavar or "|".join(map(str, self.choices)) or None,
            "required": self.required,
            "help": self.help,
        }
        if self.repeated and isinstance(self.default, dict):
            settings["action"] = _Collect
        elif self.repeated:
            settings.update(action="extend", nargs="+", default=list(self.default))
        action = parser.add_argument(self.flag, **settings)
        action.common = self.common
        if self.choices:
            action.completer = lambda **_: map(str, self.choices)  # for argcomplete

    def typed(self, value: Any) -> list[str]:
        """Returns the arguments that set the option to a value; none for its default."""
        if value == self.default or value is None:
            return []
        if self.is_switch:
            return [self.flag]
        if isinstance(value, tuple):
            texts = list(map(str, value))
            return [self.flag, *(texts if self.repeated else [",".join(texts)])]
        if isinstance(value, Mapping):
            mark = ":" if ":" in self.metavar else "="
            pairs = [f"{name}{mark}{of_name}" for name, of_name in value.items()]
            separate = pairs if self.repeated else [",".join(pairs)]
            return [token for pair in separate for token in (self.flag, pair)]
        return [self.flag, str(value)]

    def check(self, value: Any) -> None:
        """Raises UsageError if the value is not among the allowed ones."""
        if value == self.default:
            return
        if self.choices and self.choices_checked:
            allowed = ", ".join(map(str, self.choices))
            for item in value if isinstance(value, (tuple, list)) else (value,):
                if item not in self.choices:
                    raise UsageError(f"{self.flag} is {item!r}, expected one of ({allowed})")
        if self.between and not self.between[0] <= value <= self.between[1]:  # also refuses NaN
            least, most = self.between
            upwards = f"to {most}" if math.isfinite(most) else "or more"
            raise UsageError(f"{self.flag} is {value}, expected {least} {upwards}")


class _Collect(argparse.Action):
    """Merges the mappings of a repeated option."""

    def __call__(self, _parser: Any, namespace: Any, values: Any, _option: Any = None) -> None:
        setattr(namespace, self.dest, {**getattr(namespace, self.dest), **values})


def option(default: Any, **settings: Any) -> Any:
    """Declares a dataclass field that is an option; `settings` are attributes of `Option`."""
    metadata = {_METADATA_KEY: Option(**settings)}
    if isinstance(default, dict):
        return dataclasses.field(default_factory=default.copy, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


@dataclass(frozen=True)
class OptionGroup:
    """Base class of the groups.

    Attributes:
      title: the group's heading in `--help`. Groups with the same title share one heading.
      description: a line below the heading, or empty.
    """

    title: ClassVar[str]
    description: ClassVar[str] = ""

    def __post_init__(self) -> None:
        for declared in self.options():
            declared.check(getattr(self, declared.name))

    @classmethod
    def options(cls) -> Sequence[Option]:
        """The group's options, in the order of its fields."""
        return [
            dataclasses.replace(
                field.metadata[_METADATA_KEY],
                name=field.name,
                default={} if field.default is dataclasses.MISSING else field.default,
            )
            for field in dataclasses.fields(cls)
        ]

    @classmethod
    def add_arguments(cls, parser: argparse.ArgumentParser) -> None:
        """Adds the group's options to a parser, below the group's heading."""
        headings = {group.title: group for group in parser._action_groups}
        heading = headings.get(cls.title) or parser.add_argument_group(
            cls.title, cls.description or None
        )
        for declared in cls.options():
            declared.add_to(heading)

    @classmethod
    def from_arguments(cls, arguments: argparse.Namespace) -> Self:
        """Builds the group from parsed arguments.

        Raises:
          UsageError: a value is not allowed.
        """
        values = {declared.name: getattr(arguments, declared.name) for declared in cls.options()}
        return cls(**{k: tuple(v) if isinstance(v, list) else v for k, v in values.items()})
