"""Names inside an output folder of what is not part of the data set.

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

MANIFEST_NAME = "manifest.json"
"""The last file that a run writes: it lists what is in a complete data set."""

LABELS_NAME = "labels.txt"
LABEL_MAP_NAME = "label_map.pbtxt"
REPORT_NAME = "report.html"
"""What a data set contains, for people."""

POINTER_NAME = "latest"
"""In a folder of data sets: the name of the newest one."""

INCOMPLETE_FOLDER = ".incomplete"
"""Inside the output folder: files that are not, or no longer, part of a data set."""

RECEIPTS_FOLDER = ".receipts"
"""Inside the output folder: the receipt of each shard, a list of what it was made from."""


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

TEMPORARY_SUFFIX_BYTES = 1 + 7 + 1 + 32
"""The most that `temporary_name` adds to a name: two dots, a process id and 32 digits."""

_OURS = re.compile(
    r"(plan|writing|deleting|refusal(-[0-9a-f]{32})?)\.json|unpacked/.*"
    r"|[^/]+\.\d+\.[0-9a-f]{32}(\.replaced)?",
    re.DOTALL,
)


def refusal_name(job: str) -> str:
    """Returns the name of a job's refusal in `.incomplete`.

    Args:
      job: the job, as `FailurePolicy.job` has it; empty for one without a name.
    """
    return f"refusal-{job}.json" if job else "refusal.json"


def is_ours_in_incomplete(name: str) -> bool:
    """Tells whether a path relative to `.incomplete` is one that a run gives to a separate file."""
    return _OURS.fullmatch(name) is not None


DEAD_LETTERS_NAME = "dead_letters.jsonl"


def dataset_name(folder: str) -> str:
    """Returns a data set name made from a folder's name, with `_` for unsuitable characters."""
    name = re.sub(r"[^\w.-]", "_", posixpath.basename(folder)).lstrip(".-")
    return name or "dataset"
