"""Option groups: a frozen dataclass whose fields are options of the command line.

A field declares everything about its option in one place:

    @dataclass(frozen=True)
    class OutputOptions(OptionGroup):
        title = "output"

        compression: str = option("shard compression", choices=("none", "gzip"))

The argument `--compression none|gzip`, its place and default in `--help`, its checks, and the value
`OutputOptions.from_arguments(arguments).compression` are derived from that.
"""

from __future__ import annotations

import argparse
import codecs
import dataclasses
import itertools
import math
import os
import re
import warnings
from argparse import ArgumentTypeError
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from numbers import Number
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from beam_pipeline.core import errors, references
from beam_pipeline.core.labels.schema import FILE_TYPES, KIND_NAMES, SKIP_KIND
from beam_pipeline.core.records.sharding import MOST_SHARDS, SplitFractions
from beam_pipeline.core.text import excerpt

if TYPE_CHECKING:
    from typing_extensions import Self

_METADATA_KEY = "option"


class Kind(NamedTuple):
    """A kind of value.

    Attributes:
      metavar: placeholder for the value in `--help`; the choices if empty.
      parse: turns the text into the value, or raises `ArgumentTypeError` with the text and what was expected.
      least, most: the bounds of a number.
      empty: the default of options of this kind that name none.
      repeated: True if an option may be given several times: a list of values, or pairs that are merged.
    """

    metavar: str = ""
    parse: Callable[[str], Any] = str
    least: float | None = None
    most: float = math.inf
    empty: Any = None
    repeated: bool = False


NUMBER = Kind("N", int)
PATHS = Kind("PATH", empty=(), repeated=True)
_OF_FILES = (PATHS.metavar, "DIR", "FILE")  # no number is one
COMMON = (
    *("images", "labels", "layout", "yes", "label_column", "splits", "resize", "max_bad_fraction"),
    *("output", "overwrite", "reuse", "resume"),
)
"""The options that `--help` shows; `--help all` shows every option."""


@dataclass(frozen=True)
class Option:
    """An option of the command line.

    Attributes:
      help: one line for `--help`; `%(default)s` is replaced by the default.
      default: the field's default.
      kind: the kind of its values.
      choices: the allowed values; empty without such a list.
      choices_checked: False if later code checks the value against its own list.
      required: True if the command line must have it.
      needs: options, as typed, of which one must be given with this.
      excludes: options, as typed, that must not be given with this -> why.
      name: the field's name, which is the option's name without the dashes.
    """

    help: str
    default: Any
    kind: Kind
    choices: tuple[Any, ...] = ()
    choices_checked: bool = True
    required: bool = False
    needs: tuple[str, ...] = ()
    excludes: Mapping[str, str] = field(default_factory=dict)
    name: str = ""

    @property
    def flag(self) -> str:
        """The option as it is typed: `--num_shards`."""
        return f"--{self.name}"

    @property
    def is_switch(self) -> bool:
        """True if the option takes no value: its default is False."""
        return self.default is False

    def add_to(self, parser: argparse._ActionsContainer) -> None:
        """Adds the option to a parser or to one of its argument groups."""
        settings: dict[str, Any] = {"action": "store_true", "help": self.help}
        if not self.is_switch:
            settings = {
                "type": self.kind.parse,
                "default": self.default,
                "metavar": self.kind.metavar or "|".join(map(str, self.choices)) or None,
                "required": self.required,
                "help": self.help,
            }
        if isinstance(self.default, dict):
            settings["action"] = _Collect
        elif self.kind.repeated:
            settings.update(action="extend", nargs="+", default=list(self.default))
        action: Any = parser.add_argument(self.flag, **settings)
        action.common = self.name in COMMON
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
            return [self.flag, *(texts if self.kind.repeated else [",".join(texts)])]
        if isinstance(value, Mapping):
            pairs = self._pairs(value)
            separate = pairs if self.kind.repeated else [",".join(pairs)]
            return [token for pair in separate for token in (self.flag, pair)]
        return [self.flag, str(value)]

    def _pairs(self, values: Mapping[str, Any]) -> list[str]:
        mark = ":" if ":" in self.kind.metavar else "="
        return [f"{name}{mark}{value}" for name, value in values.items()]

    def of_python(self, value: Any) -> Any:
        """The value of an argument in Python, read like a typed one, so that it gets the same checks.

        Raises:
          UsageError: it cannot be read.
        """
        if value is None or (isinstance(value, Mapping) and not value):
            return self.default
        value = value.tolist() if hasattr(value, "tolist") else value  # of NumPy
        if isinstance(self.default, bool) and isinstance(value, bool):
            return value
        if self.is_switch:
            raise errors.UsageError(f"{self.flag} is {value!r}, expected True or False")
        if not self.kind.repeated:
            return self._parsed(value)
        is_one = isinstance(value, str | bytes | os.PathLike | Mapping)
        several = value if isinstance(value, Iterable) and not is_one else [value]
        if not isinstance(self.default, Mapping):
            parsed = tuple(map(self._parsed, several))
            if not parsed and self.kind is PATHS:  # a search that found no file, perhaps
                raise errors.UsageError(f"{self.flag} is empty, expected a path or several")
            return parsed
        pairs = [part if isinstance(part, Mapping) else self._parsed(part) for part in several]
        return {name: item for part in pairs for name, item in part.items()}

    def _parsed(self, given: Any) -> Any:
        """One value by the parser of its text; lists and mappings where the text is one as well."""
        value = os.fspath(given) if isinstance(given, os.PathLike) else given
        if isinstance(value, Mapping | list | tuple) and self.kind.parse is not str:
            parts = self._pairs(value) if isinstance(value, Mapping) else map(str, value)
            value = ",".join(parts)
        is_number = isinstance(value, Number) and not isinstance(value, bool)
        if isinstance(value, float | Fraction) and value % 1 == 0:
            value = int(value)  # of 1e6
        if not isinstance(value, str) and (not is_number or self.kind.metavar in _OF_FILES):
            expected = self.kind.metavar or " or ".join(map(str, self.choices))
            if self.kind is PATHS and isinstance(given, Mapping):
                expected += "; dicts of features are converted by beam_pipeline.convert_samples"
            raise errors.UsageError(f"{self.flag} is {excerpt(given)}, expected {expected}")
        try:
            # str() of a text of an enumeration would be the name of its member.
            return self.kind.parse(value[:] if isinstance(value, str) else str(value))
        except (ArgumentTypeError, ValueError) as error:
            raise errors.UsageError(f"{self.flag}: {error}") from error

    def check(self, value: Any) -> None:
        """Raises UsageError if a value other than the default is not among the allowed ones."""
        if self.choices and self.choices_checked:
            allowed = ", ".join(map(str, self.choices))
            for item in value if isinstance(value, tuple) else (value,):
                if item not in self.choices:
                    raise errors.UsageError(f"{self.flag} is {item!r}, expected one of ({allowed})")
        least, most = self.kind.least, self.kind.most
        if least is not None and not least <= value <= most:  # also refuses NaN
            upwards = f"to {most}" if math.isfinite(most) else "or more"
            raise errors.UsageError(f"{self.flag} is {value}, expected {least} {upwards}")


class _Collect(argparse.Action):
    """Merges the mappings of a repeated option."""

    def __call__(self, _parser: Any, namespace: Any, values: Any, _option: Any = None) -> None:
        setattr(namespace, self.dest, {**getattr(namespace, self.dest), **values})


def option(help: str, default: Any = ..., kind: Kind | str = "", **settings: Any) -> Any:  # noqa: A002
    """Declares a dataclass field that is an option.

    Args:
      help: see `Option`; the default is appended, unless it is described there.
      default: its default; if it is left out, the first of the choices, or what is empty for its kind.
      kind: the kind of its values, or the placeholder of a text.
      **settings: further attributes of `Option`.
    """
    settings["choices"] = tuple(settings.get("choices", ()))
    kind = Kind(kind, empty="") if isinstance(kind, str) else kind
    default = next(iter(settings["choices"]), kind.empty) if default is ... else default
    has_text = isinstance(default, str | int | float) and default is not False and default != ""
    if has_text and "(default" not in help:
        help += " (default: %(default)s)"  # noqa: A001
    metadata = {_METADATA_KEY: Option(help, default, kind, **settings)}
    if isinstance(default, dict):
        return field(default_factory=default.copy, metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass(frozen=True)
class OptionGroup:
    """Base class of the groups. Each field is an option, or a group.

    Attributes:
      title: the group's heading in `--help`. Groups with the same title share one heading.
      description: a line below the heading, or empty.
    """

    title: ClassVar[str]
    description: ClassVar[str] = ""

    def __post_init__(self) -> None:
        given = self.given

        def is_given(typed: str) -> bool:
            name, _, value = typed.partition(" ")
            return name in given and value in ("", given[name])

        for declared in (option for option in self.options() if option.name in given):
            declared.check(given[declared.name])
            if declared.needs and not any(map(is_given, declared.needs)):
                raise errors.UsageError(f"{declared.flag} needs --{' or --'.join(declared.needs)}")
            for reason in (why for typed, why in declared.excludes.items() if is_given(typed)):
                raise errors.UsageError(f"{declared.flag} {reason}")

    @property
    def given(self) -> Mapping[str, Any]:
        """The options that are not at their defaults."""
        return {option.name: value for option, value in self.values() if value != option.default}

    def values(self) -> list[tuple[Option, Any]]:
        """Each option with its value."""
        pairs: list[tuple[Option, Any]] = []
        for name, declared in self._fields():
            value = getattr(self, name)
            pairs += [(declared, value)] if isinstance(declared, Option) else value.values()
        return pairs

    @classmethod
    def _fields(cls) -> Iterator[tuple[str, Option | type[OptionGroup]]]:
        for each in dataclasses.fields(cls):
            declared: Any = each.metadata.get(_METADATA_KEY) or each.default_factory
            is_option = isinstance(declared, Option)
            yield (
                each.name,
                dataclasses.replace(declared, name=each.name) if is_option else declared,
            )

    @classmethod
    def options(cls) -> Sequence[Option]:
        """The group's options, in the order of its fields."""
        parts = [[d] if isinstance(d, Option) else d.options() for _, d in cls._fields()]
        return [*itertools.chain.from_iterable(parts)]

    @classmethod
    def add_arguments(cls, parser: argparse.ArgumentParser) -> None:
        """Adds the group's options to a parser, below the group's heading."""
        for _, declared in cls._fields():
            if isinstance(declared, Option):
                headings = {group.title: group for group in parser._action_groups}
                declared.add_to(
                    headings.get(cls.title)
                    or parser.add_argument_group(cls.title, cls.description or None)
                )
            else:
                declared.add_arguments(parser)

    @classmethod
    def from_arguments(cls, arguments: argparse.Namespace) -> Self:
        """Builds the group from parsed arguments.

        Raises:
          UsageError: a value is not allowed, or two options contradict each other.
        """
        values = {}
        for name, declared in cls._fields():
            if isinstance(declared, Option):
                value = getattr(arguments, name)
                values[name] = tuple(value) if isinstance(value, list) else value
            else:
                values[name] = declared.from_arguments(arguments)
        return cls(**values)


# --- kinds of values ------------------------------------------------------------------------------

LABEL_FILES = "label_files"
"""The value of --splits that makes each label file a split."""

_UNITS = {
    **{unit: 1000**power for power, unit in enumerate(("B", "KB", "MB", "GB", "TB"))},
    **{unit: 1024**power for power, unit in enumerate(("", "KIB", "MIB", "GIB", "TIB"))},
}


def parse_size(text: str) -> int:
    """Returns bytes: `200MB` is 200,000,000, `128MiB` is 134,217,728, `1000` is 1000."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)", text.strip())
    if match is None or match[2].upper() not in _UNITS:
        raise ArgumentTypeError(
            f"{text!r} is not a size; expected a number with KB, MB, GB, KiB, MiB or GiB"
        )
    size = int(Fraction(match[1]) * _UNITS[match[2].upper()])
    if size < 1:
        raise ArgumentTypeError(f"{text!r} is less than one byte")
    return size


def parse_side_lengths(text: str) -> str:
    """Returns the text of a width and a height: `256`, which is both, or `320x240`.

    A pair of Python as text, `(320, 240)`, is the same.
    """
    text = text.strip("()[] ").lower()
    match = re.fullmatch(r"([0-9]{1,5})(?:(?:x|, ?)([0-9]{1,5}))?", text)
    if match is None or not all(int(side) for side in match.groups("1")):
        raise ArgumentTypeError(
            f"{text!r} is not an image size; expected pixels, as 256, or WIDTHxHEIGHT, as 320x240"
        )
    return "x".join(filter(None, match.groups()))


def parse_truth(text: str) -> bool:
    """Returns a boolean: `true` or `false`."""
    if text.lower() not in ("true", "false"):
        raise ArgumentTypeError(f"{text!r}; expected true or false")
    return text.lower() == "true"


def parse_splits(text: str) -> SplitFractions | str:
    """Returns exact fractions that add up to 1: `train=0.9,test=0.1` or `a=1/3,b=2/3`.

    `label_files` stays what it is: each label file is a split.
    """
    if text == LABEL_FILES:
        return text
    fractions = []
    for name, share in _pairs(text, "SPLIT=FRACTION").items():
        try:
            fraction = Fraction(share)
        except (ValueError, ZeroDivisionError):
            fraction = Fraction(-1)
        if not 0 < fraction <= 1:
            raise ArgumentTypeError(f"{share!r} is not a fraction greater than 0 and at most 1")
        fractions.append((name, fraction))
    try:
        return SplitFractions(tuple(fractions))
    except ValueError as error:
        raise ArgumentTypeError(f"{text!r}: {error}") from error


def parse_num_shards(text: str) -> int | dict[str, int]:
    """Returns one number for every split (`16`) or split -> number (`train=128,test=8`)."""
    shards = _pairs(text, "SPLIT=N") if "=" in text else {"": text.strip()}
    for value in shards.values():
        if not value.isdecimal() or not 1 <= int(value) <= MOST_SHARDS:
            raise ArgumentTypeError(
                f"{value!r} is not a number of shards; expected 1 to {MOST_SHARDS}"
            )
    return {name: int(value) for name, value in shards.items()} if "=" in text else int(text)


def parse_features(text: str) -> dict[str, str]:
    """Returns written key -> feature or column: `image/source_id=label`."""
    return _pairs(text, "KEY=WHAT")


def parse_columns(text: str) -> dict[str, str]:
    """Returns column -> type name: `name:int,score:float`."""
    columns = _pairs(text, "NAME:TYPE")
    for name, kind in columns.items():
        if kind not in KIND_NAMES and kind != SKIP_KIND:
            kinds = ", ".join([*KIND_NAMES, SKIP_KIND])
            raise ArgumentTypeError(f"{kind!r} (of column {name}) is not a type; use {kinds}")
    return columns


def parse_file_columns(text: str) -> dict[str, str]:
    """Returns column -> type for columns of files: `right,thumb:copy`."""
    return parse_columns(
        ",".join(part if ":" in part else f"{part}:{FILE_TYPES[0]}" for part in text.split(","))
    )


def parse_list_column(text: str) -> dict[str, str]:
    """Returns column -> separator for one column: `tags=;`. Spaces are kept: `tags=, `.

    The separator is empty for a name alone: each row of an image has one value.
    """
    name, equals, separator = text.partition("=")
    if not name or (equals and not separator):
        raise ArgumentTypeError(
            f"{text!r}: expected COLUMN=SEPARATOR, such as 'tags=;' (in quotes, for the shell), or COLUMN "
            "for a value a row"
        )
    return {name: separator}


def parse_names(text: str) -> tuple[str, ...]:
    """Returns names without repetitions: `cat,dog,bird` or `class_*`."""
    names = tuple(dict.fromkeys(filter(None, map(str.strip, text.split(",")))))
    if not names:
        raise ArgumentTypeError(f"{text!r} lacks names; expected names such as a,b,c")
    return names


def parse_encoding(text: str) -> str:
    """Returns Python's name of a text encoding; empty for empty text."""
    if not text:
        return ""
    try:
        "".encode(text)
        name = codecs.lookup(text).name
    except (LookupError, ValueError) as error:
        raise ArgumentTypeError(
            f"{text!r} is not an encoding; expected a name such as utf-8, cp1252 or shift_jis"
        ) from error
    return "utf-8-sig" if name == "utf-8" else name


def parse_label_from(text: str) -> str:
    """Returns the text unchanged if it is a regular expression with named groups, or empty."""
    try:
        with warnings.catch_warnings():
            # Of what it warns, the next Python makes another label of the same name.
            warnings.simplefilter("error", FutureWarning)
            groups = re.compile(text).groupindex
    except (re.error, FutureWarning) as error:
        raise ArgumentTypeError(
            f"{text!r} is not a regular expression, or not the same one in each Python: {error}"
        ) from error
    if text and not groups:
        raise ArgumentTypeError(
            rf"{text!r} lacks a named group; expected one such as (?P<label>.+)_\d+\.jpg"
        )
    return text


def _pairs(text: str, expected: str) -> dict[str, str]:
    """Splits `a=1,b=2` at the commas and each part at its last mark; names must be unique."""
    mark = ":" if ":" in expected else "="
    pairs: dict[str, str] = {}
    for part in text.split(","):
        name, separator, value = (piece.strip() for piece in part.rpartition(mark))
        if not separator or not name or not value:
            raise ArgumentTypeError(f"{part!r} in {text!r}: expected {expected}")
        if name in pairs:
            raise ArgumentTypeError(f"{text!r} names {name} twice")
        if expected.startswith("SPLIT") and not references.SPLIT_NAME.fullmatch(name):
            raise ArgumentTypeError(f"{name!r} cannot name a split; use letters, digits and '_'")
        pairs[name] = value
    return pairs


SIZE = Kind("SIZE", parse_size, 1)
