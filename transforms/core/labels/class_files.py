"""Files that say which classes there are: names line by line, or a manifest of an earlier data set.

A list of names, such as `labels.txt`, gives a class the number of its line as its id, counted from
the first id of the data set; a `manifest.json` says the ids itself.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from beam_pipeline.transforms.core.dead_letters import DeadLetter, Reason, Stage, image_dead_letter
from beam_pipeline.transforms.core.errors import UsageError
from beam_pipeline.transforms.core.references import SampleRef
from beam_pipeline.transforms.core.text import decoded, enumerated

_SHOWN = 5

Classes = tuple[tuple[str, int], ...]
"""(name, id) of every class, in order of id."""


def parse_class_list(data: bytes, uri: str, base: int) -> Classes:
    """The classes of a file with a name a line.

    Args:
      data: the file, in UTF-8. Spaces around names and empty lines at the end do not count.
      uri: where it lies, for messages.
      base: the id of the first line.

    Raises:
      UsageError: it is no text, names nothing, or has an empty line or a name twice.
    """
    text = decoded(data, f"--classes {uri}")
    names = [line.strip() for line in text.rstrip().splitlines()]
    if not any(names):
        raise UsageError(f"--classes {uri} is empty; expected a class a line")
    seen: dict[str, int] = {}
    for line, name in enumerate(names, 1):
        if not name:
            raise UsageError(
                f"--classes {uri}, line {line} is empty; expected a class a line, as the number of "
                "a line is an id"
            )
        if name in seen:
            raise UsageError(
                f"--classes {uri}: lines {seen[name]} and {line} both say {name!r}; expected each "
                "class once"
            )
        seen[name] = line
    return tuple((name, i) for i, name in enumerate(names, base))


def parse_class_manifest(data: bytes, uri: str) -> Classes:
    """The classes of a data set's manifest.

    Raises:
      UsageError: it is no manifest, or of a data set without classes.
    """
    try:
        manifest: Any = json.loads(data)
        if manifest["format"] != "beam-tfrecord":
            raise ValueError(f"its format is {manifest['format']!r}")
        classes = tuple((str(entry["name"]), int(entry["id"])) for entry in manifest["classes"])
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise UsageError(
            f"--classes {uri} is no manifest of beam-tfrecord ({error!r}); name such a manifest.json, "
            "or a text file with a class a line"
        ) from error
    if not classes:
        raise UsageError(f"--classes {uri}: the data set has no classes")
    return tuple(sorted(classes, key=lambda item: item[1]))


@dataclass(frozen=True)
class KnownClasses:
    """The classes that there are, by a file of the person's.

    Attributes:
      names: of the classes, in order of their ids.
      column: index of the class among a sample's labels.
      uri: the file, for messages.
    """

    names: tuple[str, ...]
    column: int
    uri: str

    def sort_out(self, samples: Iterable[SampleRef]) -> tuple[list[SampleRef], list[DeadLetter]]:
        """Splits samples of these classes alone from all others, which become dead letters.

        A sample with several classes, or objects, is left out if one of them is not known: an image
        with some of its objects missing would teach a detector that there is nothing.
        """
        known = frozenset(self.names)
        kept, dead_letters = [], []
        for sample in samples:
            unknown = [name for name in class_names(sample, self.column) if name not in known]
            if unknown:
                dead_letters.append(self._dead_letter(sample, unknown))
            else:
                kept.append(sample)
        return kept, dead_letters

    def _dead_letter(self, sample: SampleRef, unknown: Sequence[str]) -> DeadLetter:
        names = enumerated(list(dict.fromkeys(map(repr, unknown))), _SHOWN)
        return image_dead_letter(
            stage=Stage.LABELS,
            key=sample.key,
            uri=sample.uri,
            reason=Reason.UNKNOWN_CLASS,
            message=f"{names}: no class of {self.uri}, which has {enumerated(self.names, _SHOWN)}",
            file=sample.origin,
        )


def class_names(sample: SampleRef, column: int) -> Sequence[str]:
    """The classes of a sample: one, a list of them, or one an object; none if it is unlabelled."""
    value: Any = sample.labels[column]
    if value is None:
        return ()
    return value if isinstance(value, tuple) else (value,)
