"""A complete data set, read from its manifest. Readers begin here, too; nothing needs TensorFlow."""

from __future__ import annotations

import html
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from typing import Any, NamedTuple

from beam_pipeline.core.dataset.receipts import option_changes
from beam_pipeline.core.dataset.sharding import DEFAULT_SPLIT
from beam_pipeline.core.errors import UsageError
from beam_pipeline.core.images.pixels import RAW_FORMAT
from beam_pipeline.core.labels.schema import written_key
from beam_pipeline.core.records.formats import recorded_format
from beam_pipeline.core.records.record_format import RecordFormat
from beam_pipeline.core.text import counted
from beam_pipeline.storage import files
from beam_pipeline.work.dead_letter_files import read_dead_letters
from beam_pipeline.work.output_folder import read_manifest

_SHOWN_CLASSES = 10


Folders = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
"""The output folder of a conversion, or several that are read as one."""


def class_names(folder: Folders) -> dict[int, str]:
    """The name of each class by its id, in order of id; empty if the data set has no classes.

    Args:
      folder: the output folder of a conversion, or its URI; or several.

    Raises:
      ConversionError: the folder holds no complete data set.
      UsageError: several differ in features or classes.
    """
    return open_to_read(folder).classes


def open_to_read(folder: Folders) -> Dataset:
    """Opens a data set, or several as one, for reading examples.

    Raises:
      ConversionError: a folder holds no complete data set.
      UsageError: there is no folder, or several differ in features, classes or format.
    """
    if isinstance(folder, str | os.PathLike):
        return Dataset.open(folder, whole=False)
    parts = tuple(Dataset.open(one, whole=False) for one in folder)
    if not parts:
        raise UsageError("no data set is named; expected a folder, or several")
    for part in parts[1:]:
        _check_alike(parts[0], part)
    return JoinedDatasets(parts[0].path, parts[0].manifest, parts)


def _check_alike(first: Dataset, other: Dataset) -> None:
    """Checks that examples of two data sets can be told apart by nothing but their shards.

    Raises:
      UsageError: names what differs.
    """
    described = [
        {
            "record_format": repr(one.record_format),
            "features": dict(one.manifest["features"]),
            "classes": {name: i for i, name in one.classes.items()},
            "image_encoding": one.manifest["options"].get("image_encoding"),
            "renamed": dict(one.manifest["options"].get("features") or {}),
        }
        for one in (first, other)
    ]
    found = option_changes(*described)
    if found:
        raise UsageError(
            f"{first.path} and {other.path} cannot be read as one: {'; '.join(found)}. Convert the "
            "second with --classes of the first and the same options"
        )


class Shard(NamedTuple):
    """A shard of a data set.

    Attributes:
      uri: its file.
      examples: records in it.
      bytes: length of the file.
    """

    uri: str
    examples: int
    bytes: int


class StoredFeature(NamedTuple):
    """The values that examples hold under a key, as the manifest describes them.

    Attributes:
      kind: "bytes", "float" or "int64".
      optional: whether some examples lack it.
      shape: () for one value, (n,) for n of them, (None,) for any number.
      pixels: of a PNG whose pixels are ids, their type, "uint8" or "uint16"; else empty.
    """

    kind: str
    optional: bool
    shape: tuple[int | None, ...]
    pixels: str = ""

    @property
    def ragged(self) -> bool:
        """Tells whether examples differ in the number of values."""
        return None in self.shape


@dataclass(frozen=True)
class Dataset:
    """A complete data set.

    Attributes:
      path: its folder, absolute, or its URI.
      manifest: what `manifest.json` holds.
    """

    path: str
    manifest: Mapping[str, Any]

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, whole: bool = True) -> Dataset:
        """Opens the output folder of a conversion.

        Args:
          path: the folder, or its URI.
          whole: check every entry of the manifest, not only those that readers of examples need.

        Raises:
          ConversionError: the folder holds no complete data set.
        """
        uri = files.canonical(os.fspath(path))
        return cls(uri, read_manifest(uri, whole=whole))

    @property
    def splits(self) -> dict[str, int]:
        """Split -> number of examples."""
        return {name: split["examples"] for name, split in self.manifest["splits"].items()}

    @property
    def classes(self) -> dict[int, str]:
        """Id -> name of each class, in order of id; empty if there are no classes."""
        return {entry["id"]: entry["name"] for entry in self.manifest["classes"]}

    @cached_property
    def features(self) -> dict[str, StoredFeature]:
        """Key as written -> the feature of the examples."""
        return {
            key: StoredFeature(
                entry["kind"],
                entry["optional"],
                tuple(entry.get("shape", ())),
                entry.get("pixels", ""),
            )
            for key, entry in self.manifest["features"].items()
        }

    @property
    def dead_letters(self) -> Iterator[dict[str, Any]]:
        """The images and label rows that became no example, each with its reason.

        Raises:
          OSError: their file, or a part of it, cannot be read.
        """
        yield from read_dead_letters(self.path, self.manifest)

    @property
    def record_format(self) -> RecordFormat:
        """The format of the shards."""
        return recorded_format(self.manifest["options"])

    @property
    def bare_pixels(self) -> bool:
        """Tells whether images are stored as bare pixels rather than as image files."""
        return bool(self.manifest["options"].get("image_encoding") == RAW_FORMAT)

    def key_of(self, standard: str) -> str | None:
        """The key that a standard feature was written under; None if there is no such feature."""
        key = written_key(standard, self.manifest["options"].get("features") or {})
        return key if key in self.features else None

    def keys_of(self, standards: Sequence[str]) -> tuple[str, ...] | None:
        """The keys of several standard features; None unless all are there."""
        keys = tuple(key for key in map(self.key_of, standards) if key)
        return keys if len(keys) == len(standards) else None

    def shards(self, split: str) -> list[Shard]:
        """The shards of a split, in order.

        Raises:
          UsageError: there is no such split.
        """
        splits = self.manifest["splits"]
        if split not in splits:
            raise UsageError(f"{self.path} has no split {split!r}; it has {', '.join(splits)}")
        return [
            Shard(files.join(self.path, entry["path"]), entry["examples"], entry.get("bytes", 0))
            for entry in splits[split]["shards"]
        ]

    def load(self, split: str = DEFAULT_SPLIT, **options: Any) -> Any:
        """Reads a split with tf.data; the options are those of `beam_pipeline.load`."""
        from beam_pipeline import load  # imports TensorFlow, which takes seconds

        return load(self.path, split, **options)

    def __repr__(self) -> str:
        return f"Dataset({self.path!r}, {', '.join(map(' '.join, self._rows()))})"

    def _repr_html_(self) -> str:
        """A table for notebooks; names from data are escaped."""
        rows = "".join(
            f"<tr><th>{html.escape(name)}</th><td>{html.escape(value)}</td></tr>"
            for value, name in ((self.path, "folder"), *self._rows())
        )
        return f"<table>{rows}</table>"

    def _rows(self) -> list[tuple[str, str]]:
        """(value, name) of the figures to show first."""
        rows = [(counted(count, "example"), name) for name, count in self.splits.items()]
        if self.classes:
            names = list(self.classes.values())
            more = ", ..." if len(names) > _SHOWN_CLASSES else ""
            rows.append((f"{len(names)}: {', '.join(names[:_SHOWN_CLASSES])}{more}", "classes"))
        rows.append((str(sum(self.manifest["dead_letters"].values())), "dead letters"))
        return rows


@dataclass(frozen=True)
class JoinedDatasets(Dataset):
    """Several data sets of the same features and classes, read as one.

    Attributes:
      path, manifest: of the first.
      parts: all of them.
    """

    parts: Sequence[Dataset] = ()

    @property
    def splits(self) -> dict[str, int]:
        """Split -> number of examples, of all parts."""
        total: Counter[str] = Counter()
        for part in self.parts:
            total.update(part.splits)
        return dict(total)

    def shards(self, split: str) -> list[Shard]:
        """The shards of a split of all parts that have it, mixed in proportion.

        The order depends on the numbers of shards alone: of 4 shards and 2 others, each other follows
        two of the first.

        Raises:
          UsageError: no part has such a split.
        """
        placed = []
        for number, part in enumerate(self.parts):
            if split in part.splits:
                found = part.shards(split)
                placed += [
                    ((2 * i + 1) / len(found), number, shard) for i, shard in enumerate(found)
                ]
        if not placed:
            return self.parts[0].shards(split)
        return [shard for _, _, shard in sorted(placed, key=itemgetter(0, 1))]
