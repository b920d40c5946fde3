"""Names inside an output folder, of dead letters and of what is not part of the data set.

Dead letters are in one file, or, of very many, in several parts: one takes some 320 bytes in the memory
of the worker that sorts it, so a file lists a million at most. The part is a hash of the dead letter, and
each part is sorted by itself.

out/
d-train.tfrecord-00000-of-00002        the data set: shards, manifest, label map, ...
.receipts/d-train-00000-of-00002.json.gz
.incomplete/plan.json                  the shards of a run that has not finished
.incomplete/writing.json               files beside the shards that it has written or is about to write
.incomplete/deleting.json              files that --overwrite has deleted or is about to delete
.incomplete/refusal-<32 hex digits>.json
why a job writes no data set; the digits tell jobs apart that write to one folder
.incomplete/unpacked/                  files that it needs until it ends
.incomplete/d-train.tfrecord-00001-of-00002.4711.<32 hex digits>
a file that process 4711 is writing
"""

from __future__ import annotations

import os
import posixpath
import re
import uuid
import zlib

from beam_pipeline.core.dead_letters import DeadLetter

MANIFEST_NAME = "manifest.json"
"""The last file that a run writes: it lists what is in a complete data set."""

REPORT_NAME = "report.html"
"""What a data set contains, for people."""

POINTER_NAME = "latest"
"""In a folder of data sets: the name of the newest one."""

INCOMPLETE_FOLDER = ".incomplete"
"""Inside the output folder: files that are not, or no longer, part of a data set."""

RECEIPTS_FOLDER = ".receipts"
"""Inside the output folder: the receipt of each shard, a list of what it was made from."""

TEMPORARY_SUFFIX_BYTES = 1 + 7 + 1 + 32
"""The most that `temporary_name` adds to a name: two dots, a process id and 32 digits."""


def temporary_name(uri: str) -> str:
    """Returns a unique name below `.incomplete` under which a file is written until it is complete.

    The name contains the process id, so that files of a dead process can be found. `.incomplete` is
    in the output folder, also for a receipt and for a file of `.incomplete` itself.
    """
    folder, name = posixpath.split(uri)
    if posixpath.basename(folder) == RECEIPTS_FOLDER:
        folder = posixpath.dirname(folder)
    if posixpath.basename(folder) != INCOMPLETE_FOLDER:
        folder = posixpath.join(folder, INCOMPLETE_FOLDER)
    return posixpath.join(folder, f"{name}.{os.getpid()}.{uuid.uuid4().hex}")


NOTE_NAME = "plan.json"
WRITING_NAME = "writing.json"
DELETING_NAME = "deleting.json"
UNPACKED_FOLDER = "unpacked"
"""In `.incomplete`, as shown above."""

_NOTES = frozenset({NOTE_NAME, WRITING_NAME, DELETING_NAME})
_REFUSAL_NAME = re.compile(r"refusal(-[0-9a-f]{32})?\.json")


def refusal_name(job: str) -> str:
    """Returns the name of a job's refusal in `.incomplete`.

    Args:
      job: the job, as `FailurePolicy.job` has it; empty for one without a name.
    """
    return f"refusal-{job}.json" if job else "refusal.json"


def is_ours_in_incomplete(name: str) -> bool:
    """Tells whether a path relative to `.incomplete` is one that a run gives to a separate file."""
    if name in _NOTES or name.startswith(f"{UNPACKED_FOLDER}/") or _REFUSAL_NAME.fullmatch(name):
        return True
    return "/" not in name and writer_of(name.removesuffix(".replaced")) is not None


def writer_of(temporary: str) -> tuple[str, int] | None:
    """Returns (file name, process id) of a name made by `temporary_name`; None for any other name."""
    match = re.fullmatch(r"(.+)\.(\d+)\.[0-9a-f]{32}", posixpath.basename(temporary))
    return (match[1], int(match[2])) if match else None


DEAD_LETTERS_NAME = "dead_letters.jsonl"
MOST_IN_ONE = 1_000_000
MOST_PARTS = 99_999

PART_PATTERN = r"dead_letters-\d{5}-of-\d{5}\.jsonl"


def parts_for(count: int, most: int = MOST_IN_ONE) -> int:
    """The number of parts that list `count` dead letters; 0 where one file lists them all."""
    return 0 if count <= most else min(MOST_PARTS, -(-count // most))


def dead_letter_names(parts: int) -> list[str]:
    """The names of all files that list dead letters, in order."""
    if not parts:
        return [DEAD_LETTERS_NAME]
    return [f"dead_letters-{part:05d}-of-{parts:05d}.jsonl" for part in range(parts)]


def lists_dead_letters(name: str) -> bool:
    """Tells whether a file of this name lists dead letters."""
    return name == DEAD_LETTERS_NAME or re.fullmatch(PART_PATTERN, name) is not None


def part_of(dead_letter: DeadLetter, parts: int) -> int:
    """The part that lists a dead letter."""
    identity = "\n".join((dead_letter.stage, dead_letter.key, dead_letter.uri, dead_letter.file))
    return zlib.crc32(f"{identity}\n{dead_letter.line}".encode(errors="surrogateescape")) % parts


def dataset_name(folder: str) -> str:
    """Returns a data set name made from a folder's name, with `_` for unsuitable characters."""
    name = re.sub(r"[^\w.-]", "_", posixpath.basename(folder)).lstrip(".-")
    return name or "dataset"
