"""The dead letters of a data set, as one list, whether one file contains them or several parts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from beam_pipeline.core.dataset.manifest import Manifest, line_crc
from beam_pipeline.core.dataset.names import DEAD_LETTERS_NAME, dead_letter_names, part_of
from beam_pipeline.core.dead_letters import DeadLetter
from beam_pipeline.core.errors import Refusal
from beam_pipeline.core.packing import Columns, items_of
from beam_pipeline.storage import files


def dead_letter_lines(folder: str, manifest: Manifest) -> Iterator[bytes]:
    """Reads the lines of the dead letters of a data set, one at a time; parts follow one another.

    Args:
      folder: the data set.
      manifest: its manifest.

    Raises:
      OSError: a file cannot be read.
    """
    for name in dead_letter_names(manifest.dead_letter_parts):
        with files.open_input(files.join(folder, name)) as file:
            yield from file


def read_dead_letters(folder: str, manifest: Manifest) -> Iterator[dict[str, Any]]:
    """The same, parsed. Raises also ValueError for a line that is not JSON."""
    yield from map(json.loads, dead_letter_lines(folder, manifest))


def shown_uri(folder: str, manifest: Manifest) -> str:
    """The file of the dead letters for people; a pattern where there are several."""
    parts = manifest.dead_letter_parts
    name = f"dead_letters-*-of-{parts:05d}.jsonl" if parts else DEAD_LETTERS_NAME
    return files.join(folder, name)


@dataclass(frozen=True)
class PartDivision:
    """The parts that list dead letters."""

    parts: int

    def numbers(self, columns: Columns) -> Sequence[int]:
        """The part of each dead letter."""
        return [part_of(letter, self.parts) for letter in items_of(DeadLetter, columns)]


class WrittenPart(NamedTuple):
    """A part that was written.

    Attributes:
      letters: the number of its dead letters.
      refusal: why it could not be written, or None.
      crc: the sum of `line_crc` over their lines.
    """

    letters: int
    refusal: Refusal | None = None
    crc: int = 0


def write_lines(uri: str, dead_letters: Iterable[DeadLetter]) -> int:
    """Writes a file with a line for each dead letter; returns the sum of `line_crc`. Raises OSError."""
    crc = 0
    with files.open_output(uri) as sink:
        for letter in dead_letters:
            line = letter.to_json().encode()
            crc += line_crc(line)
            sink.write(line + b"\n")
    return crc


def write_parts(
    folder: str, names: Sequence[str], dead_letters: Iterable[DeadLetter]
) -> Iterator[WrittenPart]:
    """Writes all parts in one process.

    Args:
      folder: the output folder.
      names: of all parts; without any, nothing is written.
      dead_letters: sorted.

    Raises:
      OSError: a file cannot be written.
    """
    parts: list[list[DeadLetter]] = [[] for _ in names]
    for letter in dead_letters if names else ():
        parts[part_of(letter, len(names))].append(letter)
    for name, part in zip(names, parts, strict=True):
        yield WrittenPart(len(part), crc=write_lines(files.join(folder, name), part))
