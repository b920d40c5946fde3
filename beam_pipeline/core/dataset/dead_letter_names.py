"""Names of the files that list dead letters: one, or, of very many, several parts.

A dead letter takes some 320 bytes in the memory of the worker that sorts it, so a file lists a million
at most. The part is a hash of the dead letter, and each part is sorted by itself.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping
from typing import Any

from beam_pipeline.core.dead_letters import DeadLetter

DEAD_LETTERS_NAME = "dead_letters.jsonl"
MOST_IN_ONE = 1_000_000
MOST_PARTS = 99_999

PARTS_ENTRY = "dead_letter_parts"
"""The manifest's entry for the number of parts; none where there is one file."""

PART_PATTERN = r"dead_letters-\d{5}-of-\d{5}\.jsonl"


def parts_for(count: int, most: int = MOST_IN_ONE) -> int:
    """The number of parts that list `count` dead letters; 0 where one file lists them all."""
    return 0 if count <= most else min(MOST_PARTS, -(-count // most))


def dead_letter_names(parts: int) -> list[str]:
    """The names of all files that list dead letters, in order."""
    if not parts:
        return [DEAD_LETTERS_NAME]
    return [f"dead_letters-{part:05d}-of-{parts:05d}.jsonl" for part in range(parts)]


def names_in_manifest(manifest: Mapping[str, Any]) -> list[str]:
    """The names of the files that list the dead letters of a data set."""
    return dead_letter_names(manifest.get(PARTS_ENTRY, 0))


def lists_dead_letters(name: str) -> bool:
    """Tells whether a file of this name lists dead letters."""
    return name == DEAD_LETTERS_NAME or re.fullmatch(PART_PATTERN, name) is not None


def part_of(dead_letter: DeadLetter, parts: int) -> int:
    """The part that lists a dead letter."""
    what = "\n".join((dead_letter.stage, dead_letter.key, dead_letter.uri, dead_letter.file))
    return zlib.crc32(f"{what}\n{dead_letter.line}".encode(errors="surrogateescape")) % parts
