"""Files that may contain labels and that a listing of images passes over, counted by their kind.

The kinds are a fixed set, and few names of each are kept, so that the counts stay small however many
files there are. Counts of several workers add up to the same in any order.
"""

from __future__ import annotations

import posixpath
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

_EXTENSIONS = frozenset(
    [
        *(".csv", ".tsv", ".json", ".jsonl", ".ndjson", ".parquet"),
        *(".xml", ".txt", ".caption"),
    ]
)
_OF_DATA_SETS = frozenset(
    [
        "manifest.json",
        "dataset_info.json",
        "features.json",
        "croissant.json",
        "changes.json",
        "duplicates.json",
        "dead_letters.jsonl",
        "labels.txt",
    ]
)
_SEVERAL = (  # beginning, end and kind of files that a data set may have several of
    ("dead_letters-", ".jsonl", "dead_letters.jsonl"),
    ("", ".labels.txt", "labels.txt"),
)
_SHARD = ".tfrecord"
_KEPT = 2


class LabelFile(NamedTuple):
    """Attributes: key, like an image's there; uri; archive, whether it is in one."""

    key: str
    uri: str
    archive: bool = False


@dataclass
class LabelFiles:
    """Files that may contain labels.

    Attributes:
      counts: how many there are of each extension, in lower case. Files that are called as files of
        a written data set are counted by their names, and its shards as `.tfrecord`.
      first: the first two of each in the order of their keys.
    """

    counts: Counter[str] = field(default_factory=Counter)
    first: dict[str, list[LabelFile]] = field(default_factory=dict)

    def see(self, file: LabelFile) -> None:
        """Counts a file if it is named like a label file or a data set's file."""
        kind = kind_of(file.key)
        if kind:
            self.counts[kind] += 1
            first = self.first.setdefault(kind, [])
            if len(first) < _KEPT or file < first[-1]:
                self.first[kind] = sorted((*first, file))[:_KEPT]

    def add(self, further: LabelFiles) -> None:
        """Adds the counts of another listing."""
        self.counts.update(further.counts)
        self._keep(further.first)

    def _keep(self, first: Mapping[str, Sequence[LabelFile]]) -> None:
        for kind, files in first.items():
            self.first[kind] = sorted((*self.first.get(kind, ()), *files))[:_KEPT]

    def by_extension(self) -> LabelFiles:
        """All label files by their extensions, except data sets' own if there are shards.

        >>> seen = LabelFiles()
        >>> for key in ("a.csv", "out/manifest.json", "out/d.tfrecord-00000-of-00001"):
        ...     seen.see(LabelFile(key, f"gs://b/{key}"))
        >>> seen.by_extension().counts
        Counter({'.csv': 1})
        """
        by_extension = LabelFiles()
        for kind, count in self.counts.items():
            if kind == _SHARD or (kind in _OF_DATA_SETS and self.counts[_SHARD]):
                continue
            extension = posixpath.splitext(f"x{kind}")[1]
            by_extension.counts[extension] += count
            by_extension._keep({extension: self.first[kind]})
        return by_extension


def kind_of(key: str) -> str:
    """The kind that a file counts as; empty for one that is neither a label file nor a shard."""
    name = posixpath.basename(key)
    if name.startswith("."):
        return ""
    if name in _OF_DATA_SETS:
        return name
    if _SHARD in name:
        return _SHARD
    extension = posixpath.splitext(name)[1].lower()
    for start, end, kind in _SEVERAL:
        if name.startswith(start) and name.endswith(end):
            return kind
    return extension if extension in _EXTENSIONS else ""
