"""Files that fix the classes: a list of names, or the manifest of an earlier data set.

In a list of names, such as `labels.txt`, the position of a line gives the class its id, counting
from the data set's first id. A `manifest.json` contains the ids:

    labels.txt    ids with --label_base 0    ids with --label_base 1
    cat           0                          1
    dog           1                          2
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from beam_pipeline.core.dead_letters import DeadLetter, Reason, Stage, image_dead_letter
from beam_pipeline.core.errors import UsageError
from beam_pipeline.core.references import SampleRef
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
      UsageError: it is not text, has no names, an empty line, or a name twice.
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
                f"--classes {uri}: lines {seen[name]} and {line} both say {name!r}; expected each "
                "class once"
            )
        seen[name] = line
    return tuple((name, i) for i, name in enumerate(names, base))


def parse_class_manifest(data: bytes, uri: str) -> Classes:
    """Parses the classes of a data set's manifest.

    Raises:
      UsageError: it is not a manifest, or its data set has no classes.
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
        raise UsageError(f"--classes {uri}: the data set has no classes")
    return tuple(sorted(classes, key=lambda item: item[1]))


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

    def apply(self, samples: Iterable[SampleRef]) -> tuple[list[SampleRef], list[DeadLetter]]:
        """Keeps samples whose classes are all known; all others become dead letters.

        A sample with several classes, or objects, is rejected if one of them is unknown: an image
        with some objects missing would teach a detector that nothing is there.
        """
        known = frozenset(self.names)
        known_samples, dead_letters = [], []
        for sample in samples:
            unknown = [name for name in class_names(sample, self.column) if name not in known]
            if unknown:
                dead_letters.append(self._dead_letter(sample, unknown))
            else:
                known_samples.append(sample)
        return known_samples, dead_letters

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
    """Returns the classes of a sample: one, a list, or one per object; none if it is unlabelled."""
    value: Any = sample.labels[column]
    if value is None:
        return ()
    return value if isinstance(value, tuple) else (value,)
