"""Files that determine which samples are left out: the known classes (`--classes`), or keys (`--exclude`).

Classes come from a list of names, or from the manifest of an earlier data set. In a list of names, such as `labels.txt`, the position of a line gives the class its id, counting
from the data set's first id. A `manifest.json` contains the ids:

    labels.txt    ids with --label_base 0    ids with --label_base 1
    cat           0                          1
    dog           1                          2
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

from beam_pipeline.core.dead_letters import DeadLetter, Reason, Stage, image_dead_letter
from beam_pipeline.core.errors import UsageError
from beam_pipeline.core.references import SampleRef, image_of
from beam_pipeline.core.text import decoded, enumerated

_SHOWN = 5

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
    names = [line.strip() for line in text.rstrip().splitlines()]
    if not any(names):
        raise UsageError(f"--classes {uri} is empty; expected one class per line")
    seen: dict[str, int] = {}
    for line, name in enumerate(names, 1):
        if not name:
            raise UsageError(
                f"--classes {uri}, line {line} is empty; expected one class per line, as the line "
                "gives the id"
            )
        if name in seen:
            raise UsageError(
                f"--classes {uri}: lines {seen[name]} and {line} both name {name!r}; expected each "
                "class once"
            )
        seen[name] = line
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
        raise UsageError(
            f"--classes {uri} is not a manifest of beam-tfrecord ({error!r}); name such a manifest.json, "
            "or a text file with one class per line"
        ) from error
    if not classes:
        raise UsageError(f"--classes {uri}: the data set lacks classes")
    return tuple(sorted(classes, key=lambda item: item[1]))


class SampleFilter(Protocol):
    """Leaves samples out once they have their labels."""

    def dead_letter(self, sample: SampleRef) -> DeadLetter | None:
        """The dead letter of a sample that is left out; None if it stays."""


@dataclass(frozen=True)
class SampleFilters:
    """Several filters; the first that leaves a sample out gives the reason."""

    filters: tuple[SampleFilter, ...]

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
        letter = image_dead_letter(Stage.JOIN, sample.key, sample.uri, *reason)
        return letter._replace(file=self.uri, line=line)

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
        return image_dead_letter(
            stage=Stage.LABELS,
            key=sample.key,
            uri=sample.uri,
            reason=Reason.UNKNOWN_CLASS,
            message=f"{enumerated(list(unknown), _SHOWN)}: no class of {self.uri}, which has "
            f"{enumerated(self.names, _SHOWN)}",
            file=sample.origin,
        )
