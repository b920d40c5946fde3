"""What the program promises when things go wrong, and the tests that hold each promise.

A test names the promises that it holds, `@pytest.mark.promise("killed", ...)`; each has at least one.
`python -m tests.promises` writes the list into docs/reliability.md; a test compares the two.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from tests.harness import REPOSITORY

PAGE = Path(REPOSITORY, "docs", "reliability.md")
HEADING = "## Promises\n\n"


class Promise(NamedTuple):
    """A promise.

    Attributes:
      when: what goes wrong.
      then: what happens.
    """

    when: str
    then: str


PROMISES: Mapping[str, Mapping[str, Promise]] = {
    "The same bytes, every sample": {
        "same_bytes": Promise(
            "any engine or number of threads, processes or workers; a second run",
            "the same bytes in every file",
        ),
        "locale": Promise("another locale or file-system encoding", "the same bytes"),
        "books": Promise(
            "good and bad images and rows, mixed",
            "images and rows without an image = examples + dead letters, each with its reason",
        ),
        "bad_image": Promise(
            "an image is missing, truncated, corrupt or too large",
            "a dead letter; the rest is converted",
        ),
        "bad_label": Promise(
            "a label does not parse, no image matches, rows disagree",
            "a dead letter with file and line",
        ),
        "too_many_bad": Promise(
            "more bad samples than `--max_bad_fraction`",
            "no manifest; dead letters are kept, and the reasons counted",
        ),
        "unlisted_folder": Promise("a folder cannot be listed", "an error that names it"),
        "miscounted": Promise(
            "the counts do not add up at the end", "no manifest; an error that calls it a bug"
        ),
    },
    "Interrupted": {
        "killed": Promise(
            "the job is killed, or power fails",
            "whole shards and no manifest; `--resume` gives the same bytes",
        ),
        "killed_overwriting": Promise(
            "the job is killed while `--overwrite` removes a data set",
            "the old data set is whole while its manifest exists; afterwards `--resume` continues, before it only `--overwrite`",
        ),
        "threads": Promise(
            "two threads of a program call `beam_pipeline.convert` at once",
            "both data sets are whole; Beam, logging and signals are as before",
        ),
        "ctrl_c": Promise("Ctrl-C", "exit code 130 at once, and a line that names `--resume`"),
        "writer_dies": Promise(
            "a writer process dies in a shard", "the others are written; `--resume` adds the shard"
        ),
        "writer_dies_planning": Promise(
            "it dies while it plans or is idle", "another replaces it; the same bytes"
        ),
        "zeros": Promise(
            "a power failure leaves zeros in a shard of the right length",
            "`--resume` writes it again",
        ),
        "changed_between": Promise(
            "inputs or options change between two runs of `--resume`",
            "an error that names the change; nothing is written",
        ),
    },
    "The machine": {
        "fault": Promise(
            "any one system call fails: disk full, I/O error, permission, short read, rename, `fsync` ...",
            "the right data set, or an error of one line and no manifest; the next run gives the same bytes",
        ),
        "disk_full": Promise(
            "the disk is full", "an error of one line; no part of the shard is visible"
        ),
        "disk_small": Promise(
            "the disk is too small for copied images", "an error before a shard is written"
        ),
        "read_only": Promise("the output folder cannot be written to", "an error of one line"),
        "starved": Promise(
            "32 file descriptors, 512 MB of address space, one core, a full /tmp, a read-only home, "
            "a slow disk, a clock that jumps",
            "the same bytes, or a line that names what is needed",
        ),
    },
    "The output folder": {
        "two_jobs": Promise("two jobs write to one folder", "one wins, the other reports it"),
        "refused": Promise("a run fails before its first shard", "only its dead letters are left"),
        "not_empty": Promise(
            "the output folder is not empty",
            "an error; `--overwrite` removes only what an earlier run wrote",
        ),
        "files_of_others": Promise(
            "a file of yours has a name that a run needs", "an error; your file stays"
        ),
        "damaged_later": Promise(
            "a file is damaged or lost later",
            "`verify` locates it; `repair` writes it again if it is a shard or made from the manifest",
        ),
        "unreadable_manifest": Promise(
            "a manifest is unreadable", "`--overwrite` deletes nothing and names it"
        ),
    },
    "Data sets that grow": {
        "reused": Promise(
            "images or labels changed since the data set of `--reuse`",
            "the bytes of a full conversion; only shards of changed samples are written, and the earlier "
            "data set stays as it is",
        ),
        "damaged_together": Promise(
            "a shard that `--reuse` hard-linked is damaged",
            "`verify` and `repair` name the other data set; repairing both heals both",
        ),
        "reused_damaged": Promise(
            "a shard of the earlier data set is damaged or lost", "it is written again and named"
        ),
        "excluded": Promise(
            "images are excluded (`--exclude`)",
            "they are in no shard; only their shards are written again",
        ),
        "duplicates": Promise(
            "images have the same bytes",
            "a warning, counts in `duplicates.json`; `--duplicates first` keeps one, outside `train` if "
            "possible, and names it in the dead letters of the others",
        ),
    },
    "Hostile input": {
        "hostile_manifest": Promise(
            "a manifest, note or receipt has wrong types, huge numbers or paths that lead out",
            "an error of one line; no file outside the folder is opened",
        ),
        "hostile_labels": Promise(
            "a label row names a file outside `--images`", "a dead letter; the file is not opened"
        ),
        "no_file": Promise(
            "a shard or an image is a folder, pipe or device",
            "an error or a dead letter, never a hang",
        ),
        "bombs": Promise(
            "data inflates to gigabytes, a header claims billions of pixels",
            "an error or a dead letter, in bounded memory",
        ),
        "terminal": Promise("names and cells contain control characters", "they are escaped"),
        "secrets": Promise(
            "rows contain signed URLs or passwords", "no file and no output contains them"
        ),
        "fuzz": Promise(
            "any bytes as images, records, tables, annotations, archives",
            "the right result or a named error, never a hang",
        ),
    },
    "Buckets": {
        "bucket_retries": Promise(
            "a request fails (429, 5xx, cut, slow)",
            "retried for 5 minutes, refusals for up to an hour while others succeed; the same bytes",
        ),
        "bucket_fault": Promise(
            "any one request gets 403, 404, 429, 500 or 503, or is cut",
            "the right data set, or an error and no manifest; the next run gives the same bytes",
        ),
        "bucket_trouble": Promise(
            "a request keeps failing",
            "the bundle fails, and the engine may retry it; never a dead letter",
        ),
        "object_gone": Promise("an object is gone or may not be read", "a dead letter"),
        "object_replaced": Promise(
            "a label file or shard is replaced while it is read", "an error, never a mixture"
        ),
        "bucket_denied": Promise(
            "a bucket or permission is missing", "an error before the job that names it"
        ),
        "no_credentials": Promise("no credentials", "an error at once that lists where it looked"),
        "bucket_two_jobs": Promise(
            "two jobs write to one folder of a bucket",
            "at most one succeeds, the others report it; a manifest lists no other job's shards; if none "
            "succeeded, `--overwrite` starts afresh",
        ),
        "bucket_killed": Promise(
            "a job on a bucket is killed", "whole objects only; `--resume` gives the same ones"
        ),
    },
    "Engines": {
        "task_manager": Promise(
            "a TaskManager of Flink is lost", "the others take over; finished shards are kept"
        ),
        "flink_ctrl_c": Promise("Ctrl-C while Flink works", "the job is cancelled"),
        "flink_launcher": Promise(
            "`kill -9` of the launcher of a job on Flink",
            "the job continues; the next start names it and writes nothing",
        ),
        "dataflow_fails": Promise(
            "a job on Dataflow fails, is refused or cancelled",
            "exit code 1 with the job's reason, or else Dataflow's",
        ),
        "dataflow_ctrl_c": Promise(
            "Ctrl-C while a job runs on Dataflow",
            "the job continues; exit code 130, with the command that cancels it",
        ),
    },
}
"""Title -> name -> promise, in the order of the page."""


class Holder(NamedTuple):
    """A test function: its file below the repository, and its name."""

    file: str
    name: str


def holders() -> dict[str, list[Holder]]:
    """Name of a promise -> the tests that name it, found in the source of all tests."""
    found: dict[str, list[Holder]] = defaultdict(list)
    for path in sorted(Path(REPOSITORY, "tests").rglob("test_*.py")):
        source = path.read_text(encoding="utf-8")
        if "mark.promise" not in source:
            continue
        for node in ast.parse(source).body:
            if isinstance(node, ast.FunctionDef):
                for name in _promises(node):
                    file = path.relative_to(REPOSITORY).as_posix()
                    found[name].append(Holder(file, node.name))
    return dict(found)


def _promises(function: ast.FunctionDef) -> Iterator[str]:
    """The arguments of a function's `pytest.mark.promise`."""
    for decorator in function.decorator_list:
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "pytest.mark.promise":
            yield from map(ast.literal_eval, decorator.args)


def list_of_promises() -> str:
    """The list as Markdown, a table a title."""
    parts = []
    for title, promises in PROMISES.items():
        parts += [f"### {title}", "", "| when | then |", "|---|---|"]
        parts += [f"| {promise.when} | {promise.then} |" for promise in promises.values()]
        parts.append("")
    return "\n".join(parts)


def page() -> str:
    """The page, with the list as its last section."""
    return PAGE.read_text(encoding="utf-8").partition(HEADING)[0] + HEADING + list_of_promises()


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
