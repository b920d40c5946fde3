"""Reads images and labels from Parquet files.

The pages of a Parquet file are compressed, so an image in one has no address. Images are unpacked,
one after another, to a file in a folder that every worker sees, and are referred to by their
positions there.

Hugging Face names them `data/train-00000-of-00005.parquet`, with or without a hash at the end, or
`default/train/0000.parquet`.
"""

from __future__ import annotations

import glob
import hashlib
import os
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any, BinaryIO, Generic, NamedTuple, TypeVar

from beam_pipeline.core.dead_letters import (
    DeadLetter,
    Reason,
    Stage,
    image_dead_letter,
)
from beam_pipeline.core.errors import ContainerError, LabelTableError, OutputError, UsageError
from beam_pipeline.core.labels.cells import text_of
from beam_pipeline.core.labels.object_lists import OBJECTS_COLUMN
from beam_pipeline.core.labels.parquet_columns import (
    BYTES,
    PATH,
    ParquetColumns,
    json_value,
    opened_parquet,
    parquet_columns,
    parquet_errors,
)
from beam_pipeline.core.labels.table_files import LabelTable
from beam_pipeline.core.labels.tables import LabelSchema
from beam_pipeline.core.labels.typed_rows import typed_row
from beam_pipeline.core.listing.folders import named_split
from beam_pipeline.core.listing.globs import has_glob, split_pattern
from beam_pipeline.core.listing.row_groups import numbered_batches
from beam_pipeline.core.packing import pack, unpack
from beam_pipeline.core.questions import Question
from beam_pipeline.core.records.record_format import Sink
from beam_pipeline.core.references import DEFAULT_SPLIT, SampleRef
from beam_pipeline.core.text import enumerated, shown
from beam_pipeline.core.uris import is_remote
from beam_pipeline.layouts.heads import PARQUET_ENDING
from beam_pipeline.layouts.layout import NoSink
from beam_pipeline.layouts.paths import remote_matches
from beam_pipeline.layouts.tree import names_in
from beam_pipeline.storage import files

_PARTS = re.compile(r"(\w+)-[0-9]{5}-of-[0-9]{5}(-[0-9a-f]+)?")
_LEVELS, _MOST_FOLDERS = 4, 50  # of folders that are searched for the first file
_SHOWN = 2


class FoundParquet(NamedTuple):
    """A Parquet file.

    Attributes:
      uri: the file.
      name: its path below the folder that was named, or its file name; it begins its images' keys.
    """

    uri: str
    name: str


def first_parquet(path: str) -> FoundParquet | None:
    """The first Parquet file that a path names; None if it names none, or images beside it.

    A folder in a bucket is not listed for this.
    """
    uri = files.canonical(path)
    if _is_parquet(uri):
        if is_remote(uri) and not has_glob(uri):
            return FoundParquet(uri, posixpath.basename(uri))
        try:
            return next(iter(_found(path)), None)
        except UsageError:  # the layout that is finally chosen reports it
            return None
    if is_remote(uri) or not os.path.isdir(uri):
        return None
    found = _first_in(uri, _LEVELS)
    return FoundParquet(found, _below(uri, found)) if found else None


def parquet_files(paths: Sequence[str]) -> tuple[FoundParquet, ...]:
    """All Parquet files that paths, folders and globs name, in the order of their names.

    Raises:
      UsageError: a path names none, or two files have the same name.
    """
    by_name: dict[str, FoundParquet] = {}
    for path in paths:
        if not path.strip():
            raise UsageError("--images: an empty path")
        for found in _found(path):
            other = by_name.setdefault(found.name, found)
            if other.uri != found.uri:
                raise UsageError(
                    f"--images: {other.uri} and {found.uri} would both be called {found.name} in the "
                    "keys of their images; name a folder above both"
                )
    return tuple(by_name[name] for name in sorted(by_name))


def _found(path: str) -> list[FoundParquet]:
    uri = files.canonical(path)
    folder = uri
    if not is_remote(uri) and os.path.isdir(uri):
        matches = [*_local_files(uri)]
    elif is_remote(uri) and not has_glob(uri):
        if _is_parquet(uri):
            return [FoundParquet(uri, posixpath.basename(uri))]
        names = (found.name for found in files.list_files(uri))
        matches = [files.join(uri, name) for name in names if _is_visible(name)]
    elif is_remote(uri):
        folder, matches = split_pattern(uri)[0], remote_matches(uri)
    elif os.path.lexists(uri):
        return [FoundParquet(uri, posixpath.basename(uri))]
    elif has_glob(uri):
        folder = split_pattern(uri)[0]
        matches = [found for found in glob.glob(uri, recursive=True) if os.path.isfile(found)]
    else:
        raise UsageError(f"--images {path}: no such file or folder")
    found = [FoundParquet(match, _below(folder, match)) for match in matches if _is_parquet(match)]
    if not found:
        raise UsageError(f"--images {path}: no Parquet files there, whose names end in .parquet")
    return found


def _local_files(folder: str) -> Iterator[str]:
    for above, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            if not name.startswith("."):
                yield posixpath.join(above, name)


def _first_in(folder: str, levels: int) -> str | None:
    """The first Parquet file in a folder or below; None if there are images, or no such files."""
    here = names_in(folder)
    if here.images:
        return None
    for name in here.files:
        if _is_parquet(name):
            return posixpath.join(folder, name)
    for below in here.folders[:_MOST_FOLDERS] if levels > 1 else ():
        found = _first_in(below, levels - 1)
        if found or names_in(below).images:
            return found
    return None


def _is_parquet(name: str) -> bool:
    return name.lower().endswith(PARQUET_ENDING)


def _is_visible(name: str) -> bool:
    return not any(part.startswith(".") for part in name.split("/"))


def _below(folder: str, uri: str) -> str:
    return uri[len(folder.rstrip("/")) + 1 :]


def splits_of(names: Sequence[str]) -> Mapping[str, str]:
    """Returns name -> split of files, as far as their names, or else the folders in them, say one.

    If one of them does, `support` is a split, too, in `support-00000-of-00001.parquet`.

    >>> splits_of(["data/val-00000-of-00001-0a1b.parquet", "default/train/0000.parquet", "x.parquet"])
    {'data/val-00000-of-00001-0a1b.parquet': 'validation', 'default/train/0000.parquet': 'train'}
    """
    said = {name: split for name in names if (split := _split_of(name))}
    for name in names if said else ():
        parts = _PARTS.fullmatch(posixpath.basename(name)[: -len(PARQUET_ENDING)])
        if parts and name not in said:
            said[name] = parts[1]
    return said


def _split_of(name: str) -> str:
    for part in reversed(name[: -len(PARQUET_ENDING)].split("/")):
        found = named_split(part)
        if found:
            return found
    return ""


def split_notes(splits: Mapping[str, str]) -> Iterator[str]:
    """A note for the user on the splits that files' names say."""
    by_split: dict[str, list[str]] = {}
    for name, split in splits.items():
        by_split.setdefault(split, []).append(name)
    if by_split:
        said = (
            f"{split} ({enumerated(names, _SHOWN)})" for split, names in sorted(by_split.items())
        )
        yield f"the names of the files say their splits: {', '.join(said)}; --splits overrides them"


def split_questions(names: Sequence[str], splits: Mapping[str, str]) -> Iterator[Question]:
    """A question if only some of the files' names say a split."""
    others = [name for name in names if name not in splits]
    if splits and others:
        yield Question(
            "splits_of_files",
            f"{enumerated([*splits], _SHOWN)} name a split, and {enumerated(others, _SHOWN)} none, so "
            "these would be in train. Rename the files, or name those of one split and say --splits "
            "train=1.",
        )


ROW = "(row)"
"""The column of keys that rows get beside those of the file."""

_BATCH_BYTES = 4 << 20  # 4 MiB of a file's rows at a time
_MOST_ROWS = 1024
_PACKED_AT_ONCE = 4096
_NO_CLASS = -1  # as Hugging Face has it, in test sets whose labels are secret

_Item = TypeVar("_Item", bound=tuple[Any, ...])


class ClassNames:
    """Puts the names of classes where rows have their ids.

    Args:
      names: column, or "objects.<list>" -> the names, in order of their ids.
      label: the column of the label, or empty.
    """

    def __init__(self, names: Mapping[str, tuple[str, ...]], label: str) -> None:
        self._names = names
        self._label = label

    def replace_in(self, fields: dict[str, Any]) -> str:
        """Replaces the ids in a row; returns what is wrong with one, or nothing."""
        problem = ""
        for column, names in self._names.items():
            outer, _, member = column.partition(".")
            if outer == OBJECTS_COLUMN and member:
                objects = fields.get(outer)
                cells = objects if isinstance(objects, list) else [objects]
                owners: list[Any] = [cell for cell in cells if isinstance(cell, dict)]
                name = member
            else:
                owners, name = [fields], column
            for owner in owners:
                owner[name], wrong = self._named(owner.get(name), names, column)
                problem = problem or wrong
        return problem

    def _named(self, value: Any, names: tuple[str, ...], column: str) -> tuple[Any, str]:
        if isinstance(value, list):
            found = [self._named(item, names, column) for item in value]
            return [name for name, _ in found], next((wrong for _, wrong in found if wrong), "")
        if value is None or isinstance(value, str):
            return value, ""
        if isinstance(value, int) and 0 <= value < len(names):
            return names[value], ""
        if value == _NO_CLASS and column != self._label and "." not in column:
            return None, ""
        meaning = ", which stands for no class" if value == _NO_CLASS else ""
        wrong = f"{shown(value)}{meaning}; expected 0 to {len(names) - 1}"
        return None, f"column {column!r}: {wrong}"


@dataclass(frozen=True)
class ParquetReader:
    """Reads Parquet files of images.

    Attributes:
      found: the files.
      splits: name of a file -> split, where its name says one.
      image: the column of images.
      labels: the columns of labels.
      classes: column, or "objects.<list>" -> names of its classes, in order of their ids.
      table: how rows are read, as of a table.
      schema: their columns.
      has_path: whether the values of a sample end with the original name of its image's file.
    """

    found: tuple[FoundParquet, ...]
    splits: Mapping[str, str]
    image: str
    labels: tuple[str, ...]
    classes: Mapping[str, tuple[str, ...]]
    table: LabelTable
    schema: LabelSchema
    has_path: bool

    def read(self, uri: str, unpack_to: str) -> Iterator[SampleRef | DeadLetter]:
        """Yields a reference to the image of each row; its key is `<file>/<row, from 00000>`.

        Raises:
          ContainerError: the file is broken, has other columns than the first, or cannot be unpacked.
        """
        (name,) = (found.name for found in self.found if found.uri == uri)
        unpacked = files.join(unpack_to, f"{_digest(name)}.images")
        samples, letters = _Packed(SampleRef), _Packed(DeadLetter)
        try:
            with files.open_input(uri) as file:
                columns = parquet_columns(file, uri)
                self._check(columns, uri)
                if unpack_to:
                    _check_space(columns, uri, unpack_to)
                with files.open_output(unpacked) if unpack_to else nullcontext(NoSink()) as sink:
                    for item in self._unpack(file, columns, uri, name, unpacked, sink):
                        if isinstance(item, DeadLetter):
                            letters.add(item)
                        else:
                            samples.add(item)
        except LabelTableError as error:
            raise ContainerError(str(error)) from error
        except (OSError, OutputError) as error:
            what = (isinstance(error, OSError) and error.strerror) or error
            raise ContainerError(
                f"{uri} cannot be read, or not be unpacked to {unpack_to}: {what}"
            ) from error
        yield from samples
        yield from letters

    def _check(self, columns: ParquetColumns, uri: str) -> None:
        missing = [name for name in self.labels if name not in columns.labels]
        if self.image not in columns.images:
            missing.insert(0, self.image)
        first = self.found[0].uri
        if missing:
            raise ContainerError(
                f"{uri} has not the columns of {first}: {', '.join(missing)} is missing or of another "
                "type; convert files of different columns one by one"
            )
        for name, names in self.classes.items():
            if columns.classes.get(name) != names:
                raise ContainerError(
                    f"{uri} has other names of the classes in {name} than {first}; convert the two "
                    "one by one"
                )

    def _unpack(
        self,
        file: BinaryIO,
        columns: ParquetColumns,
        uri: str,
        name: str,
        unpacked: str,
        sink: Sink,
    ) -> Iterator[SampleRef | DeadLetter]:
        table, version = replace(self.table, uri=uri), files.version_of(uri)
        file_split = self.splits.get(name, DEFAULT_SPLIT)
        label = self.schema.columns[0].name if self.schema.has_label else ""
        class_names = ClassNames(self.classes, label)
        offset = 0
        rows = _rows(file, uri, columns, self.image, self.labels)
        for number, (data, path, fields) in enumerate(rows):
            key = f"{name}/{number:05d}"
            if not data:
                reason, what = _no_image(data, path, self.image)
                yield _letter(key, uri, number, reason, what)
                continue
            problem = class_names.replace_in(fields)
            row = typed_row(
                name=key,
                fields={**fields, ROW: key},
                table=table,
                schema=self.schema,
                line=number + 1,
            )
            problem = problem or row.problem
            if problem:
                yield _letter(key, uri, number, Reason.BAD_LABEL_VALUE, problem)
                continue
            sink.write(data)
            yield SampleRef(
                key,
                unpacked,
                len(data),
                row.split or file_split,
                (*row.values, text_of(path) or key) if self.has_path else row.values,
                offset,
                uri,
                version,
                row.size,
            )
            offset += len(data)


def first_fields(
    file: BinaryIO, uri: str, columns: ParquetColumns, labels: tuple[str, ...], most: int
) -> list[dict[str, Any]]:
    """Returns the labels of the first rows of a file, as values of JSON, without their images."""
    if not labels:
        return [{} for _ in range(min(most, columns.rows))]
    found: list[dict[str, Any]] = []
    with parquet_errors(uri):
        opened = opened_parquet(file)
        for _, batch in numbered_batches(opened, None, rows_at_once=most, columns=labels):
            found += map(_fields, batch.to_pylist())
            if len(found) >= most:
                break
    return found[:most]


def _rows(
    file: BinaryIO, uri: str, columns: ParquetColumns, image: str, labels: tuple[str, ...]
) -> Iterator[tuple[bytes | None, str | None, dict[str, Any]]]:
    """Yields (image, name of its file, labels) of every row; memory holds a few pages."""
    import pyarrow

    at_once = min(_MOST_ROWS, max(1, _BATCH_BYTES // max(1, columns.bytes_per_row)))
    with parquet_errors(uri):
        opened = opened_parquet(file)
        columns_read = [image, *labels]
        for _, batch in numbered_batches(opened, None, rows_at_once=at_once, columns=columns_read):
            images = batch.column(image)
            paths = pyarrow.nulls(len(images))
            if image in columns.structs:
                members = dict(zip((m.name for m in images.type), images.flatten(), strict=True))
                images, paths = members[BYTES], members.get(PATH, paths)
            rows = batch.select(list(labels)).to_pylist() if labels else ({},) * len(images)
            for data, path, fields in zip(images, paths, rows, strict=True):
                yield data.as_py(), path.as_py(), _fields(fields)


def _fields(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: json_value(value) for name, value in row.items()}


def _no_image(data: bytes | None, path: str | None, column: str) -> tuple[Reason, str]:
    """The reason why a row holds no image, and a message."""
    if data is not None:
        return Reason.EMPTY_FILE, f"the image in column {column!r} has no bytes"
    if path:
        return Reason.MISSING_IMAGE, (
            f"column {column!r} holds no bytes, only the path {shown(path)}; write the file again "
            "with the images in it"
        )
    return Reason.MISSING_IMAGE, f"column {column!r} is empty"


def _digest(name: str) -> str:
    """A file name for any path: without folders, and short."""
    return hashlib.sha256(name.encode("utf-8", "surrogateescape")).hexdigest()[:32]


def _letter(key: str, uri: str, number: int, reason: Reason, message: str) -> DeadLetter:
    letter = image_dead_letter(Stage.LABELS, key, uri, reason, message, file=uri)
    return letter._replace(line=number + 1)


def _check_space(columns: ParquetColumns, uri: str, folder: str) -> None:
    """Raises ContainerError if the images will not fit on the disk to which they are unpacked."""
    files.make_folder(folder)
    free, needed = files.free_bytes(folder), columns.rows * columns.bytes_per_row
    if free is not None and needed > free:
        raise ContainerError(
            f"the images of {uri} would be unpacked to about {needed:,} bytes, and the disk of "
            f"{folder} has {free:,} left. Nothing was written; make room or choose another --output"
        )


class _Packed(Generic[_Item]):
    """Keeps any number of references or dead letters in little memory, in their order."""

    def __init__(self, item: type[_Item]) -> None:
        self._item = item
        self._last: list[_Item] = []
        self._packed: list[bytes] = []

    def add(self, item: _Item) -> None:
        """Adds one."""
        self._last.append(item)
        if len(self._last) >= _PACKED_AT_ONCE:
            self._packed.append(pack(self._last))
            self._last = []

    def __iter__(self) -> Iterator[_Item]:
        for packed in self._packed:
            yield from unpack(self._item, packed)
        yield from self._last
