"""What the program promises when things go wrong, and the tests that hold each promise.

A test names the promises that it holds, `@pytest.mark.promise("killed", ...)`, and docs/reliability.md
lists them with the files of those tests. `python -m tests.promises` writes that list; a test compares the two.
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
            "any number of threads, writer processes or workers, any engine, a second run",
            "every file is the same, byte for byte",
        ),
        "locale": Promise("another locale or file-system encoding", "the same bytes"),
        "books": Promise(
            "any mixture of good and bad images and rows",
            "images and rows without an image = examples + dead letters, each with its reason",
        ),
        "bad_image": Promise(
            "an image is missing, empty, truncated, corrupt, too large or not an image",
            "a dead letter with its reason; the rest is converted",
        ),
        "bad_label": Promise(
            "a label does not parse, a row has no image, two rows disagree",
            "a dead letter with file and line",
        ),
        "too_many_bad": Promise(
            "more bad samples than `--max_bad_fraction`",
            "no manifest; the summary counts the reasons; dead letters are kept",
        ),
        "unlisted_folder": Promise(
            "a folder cannot be listed", "an error that names it, for its images would be lost"
        ),
        "miscounted": Promise(
            "the counts do not add up at the end",
            "no manifest, and an error that calls it a bug in the program",
        ),
    },
    "Interrupted": {
        "killed": Promise(
            "the job is killed (SIGKILL, power failure)",
            "whole shards and no manifest; `--resume` gives the same bytes",
        ),
        "killed_overwriting": Promise(
            "the job is killed while `--overwrite` removes a data set",
            "a run without options refuses; `--overwrite` continues, and so does `--resume` once the "
            "manifest is gone: before that, the old data set is whole",
        ),
        "threads": Promise(
            "two threads of a program call `beam_pipeline.convert` at once",
            "both data sets are whole; nothing of Beam, logging or signals stays changed",
        ),
        "ctrl_c": Promise(
            "Ctrl-C", "exit code 130 at once, and one line that names `--resume`; no manifest"
        ),
        "writer_dies": Promise(
            "a writer process dies (out of memory) while it writes a shard",
            "one line names the shard; the others are written, and `--resume` adds it",
        ),
        "writer_dies_planning": Promise(
            "a writer process dies while it plans or is idle",
            "another takes its place; every file is the same, byte for byte",
        ),
        "zeros": Promise(
            "a power failure leaves a shard of the right length with zeros in it",
            "`--resume` writes it again",
        ),
        "changed_between": Promise(
            "inputs or options change between two runs of `--resume`",
            "an error that names the change; nothing is written",
        ),
    },
    "The machine": {
        "fault": Promise(
            "one call to the system fails, whichever it is: disk full, I/O error, too many open "
            "files, no permission, a short read or write, a failed rename or `fsync`",
            "the right data set, or an error of one line and no manifest; the next run ends in the "
            "same bytes",
        ),
        "disk_full": Promise(
            "the disk is full", "an error of one line; nothing of the shard is visible"
        ),
        "disk_small": Promise(
            "the disk is too small for images that are stored as they are",
            "an error before a shard is written",
        ),
        "read_only": Promise(
            "the output folder may not be made or written to", "an error of one line"
        ),
        "starved": Promise(
            "32 file descriptors, 512 MB of address space, one core, a full /tmp, a read-only home, "
            "a slow disk, a clock that jumps",
            "the same bytes, or an error of one line that names what is needed",
        ),
    },
    "The output folder": {
        "two_jobs": Promise(
            "two jobs write to one folder",
            "one wins, the other reports it; nothing is mixed",
        ),
        "refused": Promise(
            "a run fails before its first shard", "nothing is left but its dead letters"
        ),
        "not_empty": Promise(
            "the output folder is not empty",
            "an error; `--overwrite` removes what an earlier run wrote and nothing else",
        ),
        "files_of_others": Promise(
            "a file of yours has a name that a run needs",
            "an error; it is neither deleted nor replaced",
        ),
        "damaged_later": Promise(
            "a shard, or a file beside it, is damaged or lost later",
            "`verify` locates it; `repair` writes shards, and what the manifest determines, again",
        ),
        "unreadable_manifest": Promise(
            "a manifest cannot be read any more",
            "`--overwrite` replaces the data set, whose receipts list its files",
        ),
    },
    "Data sets that grow": {
        "reused": Promise(
            "some images or labels changed since the data set of `--reuse`",
            "the files of a conversion from nothing, byte for byte; only the shards of changed samples "
            "are written, and the earlier data set is not changed",
        ),
        "damaged_together": Promise(
            "a shard that two data sets share, as a hard link of `--reuse`, is damaged",
            "`verify` and `repair` of each name the other, and `repair` of both heals both",
        ),
        "reused_damaged": Promise(
            "a shard of the earlier data set is damaged or lost",
            "it is written again, and a line names it",
        ),
        "excluded": Promise(
            "images have to go (`--exclude`)",
            "they are in no shard; their shards alone are written again",
        ),
        "duplicates": Promise(
            "images have the same bytes, in one split or across splits",
            "the summary warns and `duplicates.json` counts them; `--duplicates first` keeps one, never "
            "one in `train` before another, and names it in the dead letters of the others",
        ),
    },
    "Hostile input": {
        "hostile_manifest": Promise(
            "a manifest, note or receipt has entries of other types, huge numbers or paths that lead out",
            "an error of one line; no file outside the folder is opened, none hangs",
        ),
        "hostile_labels": Promise(
            "a label row names a file that is not among `--images`",
            "a dead letter; the file is not opened",
        ),
        "no_file": Promise(
            "a shard or an image is a folder, pipe or device",
            "an error or a dead letter; none hangs",
        ),
        "bombs": Promise(
            "compressed data inflates to gigabytes, a header claims billions of pixels",
            "an error or a dead letter, in bounded memory",
        ),
        "terminal": Promise(
            "names and cells contain control characters", "none reaches a terminal as it is"
        ),
        "secrets": Promise(
            "rows contain signed URLs or passwords", "they are in no file and in no line of output"
        ),
        "fuzz": Promise(
            "files of any bytes: images, records, tables, annotations, archives",
            "the right result or a named error; no hang",
        ),
    },
    "Buckets": {
        "bucket_retries": Promise(
            "a request fails (429, 5xx, cut, slow)",
            "retried for 5 minutes; the same bytes in the end",
        ),
        "bucket_fault": Promise(
            "one request gets 403, 404, 429, 500 or 503 or is cut, whichever it is",
            "the right data set, or an error without a traceback and no manifest; the next run ends "
            "in the same bytes",
        ),
        "bucket_trouble": Promise(
            "a request keeps failing",
            "the bundle fails, and an engine that retries runs it again; never a dead letter",
        ),
        "object_gone": Promise("an object is gone or may not be read", "a dead letter"),
        "object_replaced": Promise(
            "a label file or a shard in a bucket is replaced while it is read",
            "an error, never a mixture",
        ),
        "bucket_denied": Promise(
            "a bucket does not exist or a permission is missing",
            "an error before the job that names the bucket and the permission",
        ),
        "no_credentials": Promise(
            "no credentials", "an error at once that lists where they are looked for"
        ),
        "bucket_two_jobs": Promise(
            "two jobs write to one folder of a bucket",
            "one wins or none, and the loser reports it; a manifest never lists another job's shards, and "
            "where none won, `--overwrite` starts afresh",
        ),
        "bucket_killed": Promise(
            "a job on a bucket is killed", "whole objects only; `--resume` gives the same ones"
        ),
    },
    "Engines": {
        "task_manager": Promise(
            "a TaskManager of Flink is lost",
            "its part runs again on the others; finished shards are kept",
        ),
        "flink_ctrl_c": Promise("Ctrl-C while Flink works", "the job is cancelled on the cluster"),
        "flink_launcher": Promise(
            "`kill -9` of the launcher of a job on Flink",
            "the job continues; the next start names it and how to cancel it, and writes nothing",
        ),
        "dataflow_fails": Promise(
            "a job on Dataflow fails, is refused or cancelled",
            "exit code 1 with the reason that the job recorded, or else Dataflow's own",
        ),
        "dataflow_ctrl_c": Promise(
            "Ctrl-C while a job runs on Dataflow",
            "the job continues there; exit code 130, with the command that cancels it",
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
    tests = holders()
    parts = []
    for title, promises in PROMISES.items():
        parts += [f"### {title}", "", "| when | then | tests |", "|---|---|---|"]
        parts += [
            f"| {promise.when} | {promise.then} | {_held_by(tests.get(name, []))} |"
            for name, promise in promises.items()
        ]
        parts.append("")
    return "\n".join(parts)


def _held_by(tests: list[Holder]) -> str:
    files = dict.fromkeys(test.file for test in tests)
    return ", ".join(f"[{Path(file).stem.removeprefix('test_')}](../{file})" for file in files)


def page() -> str:
    """The page, with the list as its last section."""
    return PAGE.read_text(encoding="utf-8").partition(HEADING)[0] + HEADING + list_of_promises()


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
