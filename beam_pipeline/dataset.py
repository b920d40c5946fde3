"""A complete data set, read from its manifest.

Readers begin here as well: nothing needs TensorFlow, and what plans conversions is imported where it is used.
"""

from __future__ import annotations

import hashlib
import html
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from numbers import Integral
from operator import itemgetter
from typing import Any, NamedTuple

from beam_pipeline.core import references, text
from beam_pipeline.core.dataset.manifest import (
    MANIFEST_NAME,
    FeatureEntry,
    Manifest,
    parse_manifest,
)
from beam_pipeline.core.errors import ConversionError, UsageError
from beam_pipeline.core.labels.roles import RoleRow
from beam_pipeline.core.labels.schema import written_key
from beam_pipeline.core.listing.folders import SPLIT_NAMES
from beam_pipeline.storage import files

_SHOWN_CLASSES = 10
_MOST_WEIGHT = 1_000_000  # each time is an entry of a list
_SLICE = re.compile(r"(\w+)\[ *(-?\d+%?|-?\d*\.\d+%)? *: *(-?\d+%?|-?\d*\.\d+%)? *\]")


Folders = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
"""The output folder of a conversion, or several that are read as one."""


def class_names(folder: Folders) -> dict[int, str]:
    """The name of each class by its id, in order of id; empty if the data set lacks classes.

    Args:
      folder: the output folder of a conversion, or its URI; or several.

    Raises:
      ConversionError: the folder does not contain a complete data set.
      UsageError: several differ in features or classes.
    """
    return open_to_read(folder).classes


def open_to_read(folder: Folders, weights: Sequence[int] | None = None) -> Dataset:
    """Opens a data set, or several as one, for reading examples.

    Args:
      folder: the output folder of a conversion, or several.
      weights: for each of several, how many times a pass reads it; by default once.

    Raises:
      ConversionError: a folder does not contain a complete data set.
      UsageError: the folder is missing, several differ in features, classes or format, or weights do not fit.
    """
    if isinstance(folder, str | os.PathLike):
        if weights is not None:
            raise UsageError("weights are for several data sets; repeat reads one several times")
        return Dataset.open(folder)
    parts = tuple(Dataset.open(path) for path in folder)
    if not parts:
        raise UsageError("no data set is named; expected a folder, or several")
    weights = (1,) * len(parts) if weights is None else tuple(weights)
    if len(weights) != len(parts) or not all(is_count(w) and w <= _MOST_WEIGHT for w in weights):
        raise UsageError(
            f"weights is {weights!r}, expected {len(parts)} whole numbers from 1 to {_MOST_WEIGHT}: how many "
            "times a pass reads each data set"
        )
    return JoinedDatasets(parts[0].path, parts[0].manifest, parts=parts, weights=weights)


def is_count(value: object) -> bool:
    """True for a whole number from 1 on, NumPy's too, but not for True."""
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 1


def _joined_features(first: Dataset, second: Dataset) -> Mapping[str, FeatureEntry]:
    """The features of the examples of two data sets; what some of them lack is optional.

    Raises:
      UsageError: their examples differ in more; names what.
    """
    from beam_pipeline.core.dataset.changes import option_differences

    described = (  # all but features, by names of options
        {
            "record_format": repr(part.manifest.record_format),
            "classes": {name: i for i, name in part.classes.items()},
            "image_encoding": part.manifest.options.image_encoding,
            "renamed": dict(part.manifest.renames),
        }
        for part in (first, second)
    )
    differences = option_differences(*described)
    joined = {}
    for key in sorted({*first.features, *second.features}):
        entries = [part.features[key] for part in (first, second) if key in part.features]
        optional = len(entries) == 1 or any(feature.optional for feature in entries)
        joined[key] = replace(entries[0], optional=optional)
        if len(entries) == 1 and not entries[0].optional:
            holder, lacking = (first, second) if key in first.features else (second, first)
            differences.append(f"{key} is in {holder.path} and not in {lacking.path}")
        elif entries[0] != replace(entries[-1], optional=entries[0].optional):
            differences.append(f"{key} was {entries[0].described}, is {entries[-1].described}")
    if differences:
        raise UsageError(
            f"{first.path} and {second.path} cannot be read as one: {'; '.join(differences)}. Convert the "
            "second with --classes of the first and the same options; --columns sets the type of a column"
        )
    return joined


def read_manifest(folder: str) -> Manifest:
    """The manifest of a complete data set, its entries checked.

    Raises:
      ConversionError: it is missing or cannot be read.
    """
    uri = files.join(folder, MANIFEST_NAME)
    try:
        return parse_manifest(files.read_bytes(uri), uri)
    except OSError as error:
        is_missing = isinstance(error, (FileNotFoundError, NotADirectoryError))
        state = ": the folder does not contain a complete data set" if is_missing else ""
        raise ConversionError(f"{uri} cannot be read ({error.strerror or error}){state}") from error


class Shard(NamedTuple):
    """A shard of a data set, or the records of one that a slice of its split has.

    Attributes:
      uri: its file.
      examples: records in the file.
      bytes: length of the file.
      crc32c: CRC-32C of the file as in the manifest; empty if that is not known.
      part: the numbers of the records to read; None for all.
    """

    uri: str
    examples: int
    bytes: int
    crc32c: str = ""
    part: range | None = None

    @property
    def wanted(self) -> range:
        """The numbers of the records to read."""
        return range(self.examples) if self.part is None else self.part


@dataclass(frozen=True)
class Dataset:
    """A complete data set.

    Attributes:
      path: its folder, absolute, or its URI.
      manifest: what `manifest.json` contains.
      notes: sentences on how the input was understood, of a data set that `convert` returned.
      input_roles: the table of roles of such a data set.
    """

    path: str
    manifest: Manifest
    notes: Sequence[str] = ()
    input_roles: Sequence[RoleRow] = field(default=(), compare=False)

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Dataset:
        """Opens the output folder of a conversion.

        Args:
          path: the folder, or its URI.

        Raises:
          ConversionError: the folder does not contain a complete data set.
        """
        uri = files.canonical(os.fspath(path))
        return cls(uri, read_manifest(uri))

    @property
    def splits(self) -> dict[str, int]:
        """Split -> number of examples."""
        return {name: split.examples for name, split in self.manifest.splits.items()}

    @property
    def classes(self) -> dict[int, str]:
        """Id -> name of each class, in order of id; empty without classes."""
        return {entry.id: entry.name for entry in self.manifest.classes}

    @property
    def roles(self) -> Sequence[RoleRow]:
        """What each part of the input was used for; of a data set that was opened, columns alone."""
        return self.input_roles or self.manifest.roles

    @cached_property
    def features(self) -> Mapping[str, FeatureEntry]:
        """Key as written -> the feature of the examples."""
        return self.manifest.features

    @property
    def dead_letters(self) -> Iterator[dict[str, Any]]:
        """The images and label rows that became no example, each with its reason.

        Raises:
          OSError: their file cannot be read.
        """
        from beam_pipeline.work.output_folder import read_dead_letters

        yield from read_dead_letters(self.path)

    @property
    def image_formats(self) -> frozenset[str]:
        """The formats of all images, such as "jpeg"; none where they were not counted."""
        images = self.manifest.images
        return frozenset(images.formats if images else ())

    def key_of(self, standard: str) -> str | None:
        """The key that a standard feature was written under; None without such a feature."""
        key = written_key(standard, self.manifest.renames)
        return key if key in self.features else None

    def keys_of(self, standards: Sequence[str]) -> tuple[str, ...] | None:
        """The keys of several standard features; None unless all are there."""
        keys = tuple(key for key in map(self.key_of, standards) if key)
        return keys if len(keys) == len(standards) else None

    def shards(self, split: str) -> list[Shard]:
        """The shards of a split, in order.

        Args:
          split: the name of a split, or a slice of it as TensorFlow Datasets writes it: `train[:10%]`,
            `train[100:-100]`; several joined by `+`.

        Raises:
          UsageError: the split does not exist.
        """
        return [shard for term in split.split("+") for shard in self._shards_of(term.strip())]

    def _shards_of(self, term: str) -> list[Shard]:
        bounds, splits = _SLICE.fullmatch(term), self.manifest.splits
        name = bounds[1] if bounds else term
        if name not in splits:
            close = SPLIT_NAMES.get(name.lower())
            hint = f"did you mean {close!r}? " if close in splits else ""
            raise UsageError(f"{self.path} has no split {name!r}; {hint}it has {', '.join(splits)}")
        shards = [
            Shard(files.join(self.path, entry.path), entry.examples, entry.bytes, entry.crc32c)
            for entry in splits[name].shards
        ]
        if not bounds:
            return shards
        total = sum(shard.examples for shard in shards)
        first, last = (
            round(float(bound[:-1]) * total / 100) if bound.endswith("%") else int(bound)
            for bound in (bounds[2] or "0", bounds[3] or str(total))
        )
        return list(cut(shards, range(total)[first:last]))

    def fingerprint(self, split: str = references.DEFAULT_SPLIT) -> str:
        """A digest of the shards of a split, or a slice of it: equal where their records and order are.

        Saved positions carry it; with tf.data, whose positions do not, keep it beside a checkpoint.
        """
        return fingerprint(self.shards(split))

    def load(self, split: str = references.DEFAULT_SPLIT, **options: Any) -> Any:
        """Reads a split with tf.data; it takes the options of `beam_pipeline.load`."""
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
        cells = ((row.subject, row.values, row.role) for row in self.roles)
        roles = "".join(
            f"<tr><td>{'</td><td>'.join(map(html.escape, row))}</td></tr>" for row in cells
        )
        notes = "".join(f"<p>{html.escape(note)}</p>" for note in self.notes)
        return f"<table>{rows}</table>" + (f"<table>{roles}</table>" if roles else "") + notes

    def _rows(self) -> list[tuple[str, str]]:
        """(value, name) of the figures to show first."""
        rows = [(text.counted(count, "example"), name) for name, count in self.splits.items()]
        if self.classes:
            names = list(self.classes.values())
            more = ", ..." if len(names) > _SHOWN_CLASSES else ""
            rows.append((f"{len(names)}: {', '.join(names[:_SHOWN_CLASSES])}{more}", "classes"))
        rows.append((str(sum(self.manifest.dead_letters.values())), "dead letters"))
        return rows


@dataclass(frozen=True)
class JoinedDatasets(Dataset):
    """Several data sets of the same features and classes, read as one.

    Attributes:
      path, manifest: of the first.
      parts: all of them.
      weights: how many times a pass reads each of them.
    """

    parts: Sequence[Dataset] = ()
    weights: Sequence[int] = ()

    def __post_init__(self) -> None:
        self.__dict__["features"] = self.parts[0].features
        for part in self.parts[1:]:
            self.__dict__["features"] = _joined_features(self, part)

    @property
    def splits(self) -> dict[str, int]:
        """Split -> number of examples in a pass over all parts."""
        total: Counter[str] = Counter()
        for part, weight in zip(self.parts, self.weights, strict=True):
            total.update({name: count * weight for name, count in part.splits.items()})
        return dict(total)

    @property
    def image_formats(self) -> frozenset[str]:
        """Those of all parts."""
        formats = [part.image_formats for part in self.parts]
        return frozenset().union(*formats) if all(formats) else frozenset()

    def _shards_of(self, term: str) -> list[Shard]:
        """The shards of a split of all parts that have it, mixed in proportion; a slice is one of each.

        The order depends on the numbers of shards alone: of 4 shards and 2 others, each other follows
        two of the first.
        """
        placed = []
        for number, (part, weight) in enumerate(zip(self.parts, self.weights, strict=True)):
            if term.partition("[")[0] in part.splits:
                shards = part.shards(term) * weight
                placed += [
                    ((2 * i + 1) / len(shards), number, shard) for i, shard in enumerate(shards)
                ]
        if not placed:
            return self.parts[0].shards(term)
        return [shard for _, _, shard in sorted(placed, key=itemgetter(0, 1))]


def cut(shards: Iterable[Shard], wanted: range) -> Iterator[Shard]:
    """The shards that contain a range of the records of shards, each with the records that are in the range."""
    first = 0
    for shard in shards:
        has = shard.wanted
        inside = has[max(wanted.start - first, 0) : max(wanted.stop - first, 0)]
        if inside:
            yield shard if inside == range(shard.examples) else shard._replace(part=inside)
        first += len(has)


def fingerprint(shards: Iterable[Shard]) -> str:
    """A digest of what shards contain and of their order, wherever they are stored."""
    content = [(s.crc32c, s.bytes, s.examples, s.wanted.start, s.wanted.stop) for s in shards]
    return hashlib.sha256(repr(content).encode()).hexdigest()[:32]
