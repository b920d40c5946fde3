"""Numbering of classes, the classes and keys that a user gives in files, and the samples that these leave out.

Classes come from a list of names, or from the manifest of an earlier data set. In a list of names, such as
`labels.txt`, the position of a line gives the class its id, counting from the data set's first id. A `manifest.json`
contains the ids:

    labels.txt    ids with --label_base 0    ids with --label_base 1
    cat           0                          1
    dog           1                          2
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from beam_pipeline.core import errors, typed_json
from beam_pipeline.core.dead_letters import DeadLetter, Reason, Stage, image_dead_letter
from beam_pipeline.core.references import SampleRef, image_of
from beam_pipeline.core.text import decoded, enumerated

AUTO_ORDER = "auto"
LABEL_ORDERS = (AUTO_ORDER, "code_point", "numeric")
CLASS_IDS = ("number", "keep")
"""Choices of --class_ids: classes are numbered, or are integers that serve as ids."""

_SHOWN = 5
_INTEGER = re.compile(r"-?[0-9]{1,999}")  # int() refuses thousands of digits
_CONTROL_CHARACTERS = (*range(0x20), 0x7F)
_TEXT_FORMAT = str.maketrans(
    {**{chr(i): f"\\{i:03o}" for i in _CONTROL_CHARACTERS}, "\\": r"\\", '"': r"\""}
)
"""Characters that protobuf's text format requires escaped in a string -> the escape."""


class ClassNumberingError(ValueError):
    """Classes cannot be numbered as asked for."""


@dataclass(frozen=True)
class ClassNumbering:
    """The rule that gives classes their ids.

    Attributes:
      base: id of the first class.
      order: "code_point" sorts names as text, "numeric" sorts names that are integers as numbers,
        and before all others; "auto" is "numeric" if all names are integers, else "code_point".
      known: (name, id) of classes whose ids are fixed by the data set's format. Other classes get
        the ids after them; a known class without samples keeps its id.
      from_name: True if a class's name is its id.
      unsigned: True if, with `from_name`, a negative name is an error.
    """

    base: int = 0
    order: str = "code_point"
    known: tuple[tuple[str, int], ...] = ()
    from_name: bool = False
    unsigned: bool = False

    def number(self, names: Iterable[str]) -> tuple[tuple[str, int], ...]:
        """(name, id) of every class, in order of id.

        Args:
          names: the classes that samples have.

        Raises:
          ClassNumberingError: with `from_name`, a name is not an integer, or two are the same
            integer.
        """
        if self.from_name:
            return self._from_names(names)
        ids = dict(self.known)
        first = max(ids.values(), default=self.base - 1) + 1
        further = set(names) - set(ids)
        order = self.order_of(further)
        ids.update({name: i for i, name in enumerate(_sorted(further, order), first)})
        return tuple(sorted(ids.items(), key=lambda item: item[1]))

    def order_of(self, names: Iterable[str]) -> str:
        """Returns the sort order of these classes; "code_point" if both orders give the same result."""
        if self.order != AUTO_ORDER:
            return self.order
        further = set(names) - dict(self.known).keys()
        if not all_integers(further):
            return "code_point"
        differ = _sorted(further, "numeric") != _sorted(further, "code_point")
        return "numeric" if differ else "code_point"

    def _from_names(self, names: Iterable[str]) -> tuple[tuple[str, int], ...]:
        by_id: dict[int, str] = {}
        for name in sorted(set(names)):
            problem = ""
            if not _INTEGER.fullmatch(name) or int(name) not in typed_json.INT64:
                problem = f"class {name!r} is not an integer, so it cannot be an id"
            elif self.unsigned and int(name) < 0:
                problem = f"class {name!r} is negative, and losses and metrics count ids from 0"
            elif by_id.setdefault(int(name), name) != name:
                problem = f"classes {by_id[int(name)]!r} and {name!r} are the same integer"
            if problem:
                raise ClassNumberingError(problem)
        return tuple((by_id[i], i) for i in sorted(by_id))


def _sorted(names: Iterable[str], order: str) -> list[str]:
    if order != "numeric":
        return sorted(names)
    return sorted(
        names,
        key=lambda name: (False, int(name), name) if _INTEGER.fullmatch(name) else (True, 0, name),
    )


def all_integers(names: Iterable[str]) -> bool:
    """True if there are classes and all of their names are integers."""
    names = list(names)
    return bool(names) and all(map(_INTEGER.fullmatch, names))


def numbering_note(classes: Sequence[tuple[str, int]]) -> str:
    """Returns a sentence on the ids of classes that are integers.

    It is empty for other classes, and if each integer is its own id. For `1` to `10` it is: "class
    names are integers and get other ids: 1 -> 0, 2 -> 1, ..."
    """
    names = [name for name, _ in classes]
    if not all_integers(names):
        return ""
    renumbered = any(int(name) != i for name, i in classes)
    in_order = _sorted(names, "numeric") == names
    if not renumbered and sorted(names) == names:
        return ""
    pairs = ", ".join(f"{name} -> {i}" for name, i in classes[:_SHOWN])
    more = ", ..." if len(classes) > _SHOWN else ""
    note = f"class names are integers{' and get other ids' if renumbered else ''}: {pairs}{more}"
    if not in_order:
        note += "; they are sorted as text, and --label_order numeric sorts them as numbers"
    elif sorted(names) != names:
        note += "; they are sorted as numbers, and --label_order code_point sorts them as text"
    return f"{note}; --class_ids keep writes the integers themselves" if renumbered else note


def fit_a_list(classes: Sequence[tuple[str, int]]) -> bool:
    """True if a file with one name per line can represent the ids: they count up from 0 or 1."""
    if not classes or classes[0][1] not in (0, 1):
        return False
    return all(
        i == number and name.splitlines() == [name]
        for number, (name, i) in enumerate(classes, classes[0][1])
    )


def quoted(text: str) -> str:
    """Returns a string in protobuf's text format."""
    return f'"{text.translate(_TEXT_FORMAT)}"'


def label_map(classes: Iterable[tuple[str, int]]) -> str:
    """Returns the classes as a `StringIntLabelMap` in protobuf's text format, for TensorFlow's detectors.

    Source: object_detection/protos/string_int_label_map.proto in the TensorFlow Model Garden.
    """
    return "\n".join(f"item {{\n  id: {i}\n  name: {quoted(name)}\n}}\n" for name, i in classes)


Classes = tuple[tuple[str, int], ...]
"""(name, id) of every class, in order of id."""


def parse_class_list(data: bytes, uri: str, base: int) -> Classes:
    """Parses the classes of a file with one name per line.

    Args:
      data: the file, in UTF-8. Spaces around names and empty lines at the end are ignored.
      uri: the file's URI, for messages.
      base: the id of the first line.

    Raises:
      UsageError: it is not text, lacks names, has an empty line, or a name twice.
    """
    text = decoded(data, f"--classes {uri}")
    names = [line.strip() for line in text.rstrip().splitlines()] or [""]
    seen: dict[str, int] = {}
    for line, name in enumerate(names, 1):
        problem = "" if name else "is empty"
        if seen.setdefault(name, line) != line:
            problem = f"and line {seen[name]} both name {name!r}"
        if problem:
            raise errors.UsageError(
                f"--classes {uri}, line {line} {problem}; expected one class per line, as the line gives the id"
            )
    return tuple((name, i) for i, name in enumerate(names, base))


def parse_class_manifest(data: bytes, uri: str) -> Classes:
    """Parses the classes of a data set's manifest.

    Raises:
      UsageError: it is not a manifest, or its data set lacks classes.
    """
    try:
        manifest: Any = json.loads(data)
        if manifest["format"] != "beam-tfrecord":
            raise ValueError(f"its format is {manifest['format']!r}")
        classes = tuple((str(entry["name"]), int(entry["id"])) for entry in manifest["classes"])
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise errors.UsageError(
            f"--classes {uri} is not a manifest of beam-tfrecord ({error!r}); name such a manifest.json, "
            "or a text file with one class per line"
        ) from error
    if not classes:
        raise errors.UsageError(f"--classes {uri}: the data set lacks classes")
    return tuple(sorted(classes, key=lambda item: item[1]))


@dataclass(frozen=True)
class Exclusion:
    """Keys of samples to leave out.

    Attributes:
      uri: the file that lists them, for messages.
      lines: key -> its line in the file, from 1.
      files: the indices of the labels that are paths of files, by which they leave out their sample.
      rows: samples are rows or objects, which the key of their image leaves out as well.
    """

    uri: str
    lines: Mapping[str, int]
    files: tuple[int, ...] = ()
    rows: bool = False

    @classmethod
    def parse(cls, data: bytes, uri: str) -> Exclusion:
        """Reads a file with a key a line, in UTF-8. Empty lines do not count.

        Raises:
          UsageError: it is not text.
        """
        keys: dict[str, int] = {}
        for number, line in enumerate(decoded(data, f"--exclude {uri}").split("\n"), 1):
            key = line.removesuffix("\r")
            if key:
                keys.setdefault(key, number)
        return cls(uri, keys)

    def dead_letter(self, sample: SampleRef) -> DeadLetter | None:
        """That of a listed sample."""
        names = [sample.key, *([image_of(sample.key)] if self.rows else [])]
        for index in self.files:
            value: Any = sample.labels[index] or ()
            names += [value] if isinstance(value, str) else value
        line = next(filter(None, map(self.lines.get, names)), None)
        if line is None:
            return None
        reason = (Reason.EXCLUDED, "left out, as --exclude asks for")
        return image_dead_letter(Stage.JOIN, sample.key, sample.uri, *reason, self.uri, line)

    def not_met(self, keys: Iterable[str]) -> list[str]:
        """The listed keys that no sample that was left out has."""
        return sorted(self.lines.keys() - set(keys))


@dataclass(frozen=True)
class KnownClasses:
    """The classes in the file given with --classes.

    Attributes:
      names: their names, in order of their ids.
      column: index of the class among a sample's labels.
      uri: the file, for messages.
    """

    names: tuple[str, ...]
    column: int
    uri: str

    @cached_property
    def _known(self) -> frozenset[str]:
        return frozenset(self.names)

    def dead_letter(self, sample: SampleRef) -> DeadLetter | None:
        """That of a sample with an unknown class.

        A sample with several classes, or objects, is rejected if one of them is unknown: an image
        with some objects missing would teach a detector that nothing is there.
        """
        value: Any = sample.labels[self.column]  # one class, a list, or one an object
        of_sample = value if isinstance(value, tuple) else () if value is None else (value,)
        unknown = dict.fromkeys(repr(name) for name in of_sample if name not in self._known)
        if not unknown:
            return None
        classes = enumerated(self.names, _SHOWN)
        message = f"{enumerated([*unknown], _SHOWN)}: no class of {self.uri}, which has {classes}"
        place = (Stage.LABELS, sample.key, sample.uri, Reason.UNKNOWN_CLASS)
        return image_dead_letter(*place, message, file=sample.origin)


@dataclass(frozen=True)
class SampleFilters:
    """Several filters; the first that leaves a sample out gives the reason."""

    filters: tuple[Exclusion | KnownClasses, ...]

    def apply(self, samples: Iterable[SampleRef]) -> tuple[list[SampleRef], list[DeadLetter]]:
        """Splits the samples that stay from those that are left out."""
        remaining, dead_letters = [], []
        for sample in samples:
            letters = (sample_filter.dead_letter(sample) for sample_filter in self.filters)
            letter = next(filter(None, letters), None)
            if letter:
                dead_letters.append(letter)
            else:
                remaining.append(sample)
        return remaining, dead_letters
