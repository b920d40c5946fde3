"""Reads images and labels from Parquet files.

The pages of a Parquet file are compressed, so an image in one cannot be addressed. Images are unpacked,
one after another, to a file in a folder that every worker sees, and are referred to by their
positions there.

Hugging Face names them `data/train-00000-of-00005.parquet`, with or without a hash at the end, or
`default/train/0000.parquet`.
"""

from __future__ import annotations

import glob
import hashlib
import itertools
import os
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any, BinaryIO, NamedTuple

from beam_pipeline.core import text, uris
from beam_pipeline.core.dead_letters import DeadLetter, Reason, Stage, image_dead_letter
from beam_pipeline.core.errors import ContainerError, LabelTableError, OutputError, UsageError
from beam_pipeline.core.labels import cells, table_rows, tables, typed_rows
from beam_pipeline.core.labels.parquet_columns import (
    BYTES,
    PATH,
    ParquetColumns,
    json_value,
    opened_parquet,
    parquet_columns,
    parquet_errors,
)
from beam_pipeline.core.labels.schema import OBJECTS_COLUMN
from beam_pipeline.core.listing.cuts import numbered_batches
from beam_pipeline.core.listing.folders import named_split
from beam_pipeline.core.listing.globs import has_glob, split_pattern
from beam_pipeline.core.packing import pack, unpack
from beam_pipeline.core.records.record_format import Sink
from beam_pipeline.core.references import DEFAULT_SPLIT, SampleRef
from beam_pipeline.layouts import heads, tree
from beam_pipeline.layouts.layout import NoSink
from beam_pipeline.layouts.paths import remote_matches
from beam_pipeline.storage import files

_PART = re.compile(r"(\w+)-[0-9]{5}-of-[0-9]{5}(-[0-9a-f]+)?")
_LEVELS, _MOST_FOLDERS = 4, 50  # of folders that are searched for the first file


class ParquetFile(NamedTuple):
    """A Parquet file.

    Attributes:
      uri: the file.
      name: its path below the folder that was named, or its file name; it begins its images' keys.
      split: the split that its name represents; empty if it represents none, or is not known yet.
    """

    uri: str
    name: str
    split: str = ""


def first_parquet(path: str) -> ParquetFile | None:
    """The first Parquet file that a path names; None if it names none, or images beside it.

    A folder in a bucket is not listed for this.
    """
    uri = files.canonical(path)
    if _is_parquet(uri):
        if uris.is_remote(uri) and not has_glob(uri):
            return ParquetFile(uri, posixpath.basename(uri))
        try:
            return next(iter(_files_of(path)), None)
        except UsageError:  # the layout that is finally chosen reports it
            return None
    if uris.is_remote(uri) or not os.path.isdir(uri):
        return None
    first = _first_in(uri, _LEVELS)
    return ParquetFile(first, first[len(uri.rstrip("/")) + 1 :]) if first else None


def parquet_files(paths: Sequence[str]) -> tuple[ParquetFile, ...]:
    """All Parquet files that paths, folders and globs name, in the order of their names.

    Raises:
      UsageError: a path names none, or two files have the same name.
    """
    by_name: dict[str, ParquetFile] = {}
    for path in paths:
        if not path.strip():
            raise UsageError("--images: an empty path")
        for file in _files_of(path):
            first = by_name.setdefault(file.name, file)
            if first.uri != file.uri:
                raise UsageError(
                    f"--images: {first.uri} and {file.uri} would both be called {file.name} in the "
                    "keys of their images; name a folder above both"
                )
    splits = splits_of(sorted(by_name))
    return tuple(by_name[name]._replace(split=split) for name, split in splits.items())


def splits_of(names: Sequence[str]) -> Mapping[str, str]:
    """Name -> split that the file's own name, or else a folder in it, represents; empty if none does.

    Hugging Face allows any split, so `extra` in `extra-00000-of-00002.parquet` is one as well, beside files of usual
    splits; alone, it may be the data set's name.

    >>> splits_of(["data/val-00000-of-00001-0a1b.parquet", "extra-00000-of-00002.parquet", "x.parquet"])
    {'data/val-00000-of-00001-0a1b.parquet': 'validation', 'extra-00000-of-00002.parquet': 'extra', 'x.parquet': ''}
    >>> splits_of(["extra-00000-of-00002.parquet"])
    {'extra-00000-of-00002.parquet': ''}
    """
    splits = {}
    for name in names:
        folders = reversed(name[: -len(heads.PARQUET_ENDING)].split("/"))
        splits[name] = next(filter(None, map(named_split, folders)), "")
    if any(splits.values()):
        for name in names:
            part = _PART.fullmatch(posixpath.basename(name[: -len(heads.PARQUET_ENDING)]))
            splits[name] = splits[name] or (part[1] if part else "")
    return splits


def _files_of(path: str) -> list[ParquetFile]:
    uri = folder = files.canonical(path)
    is_folder = not _is_parquet(uri) if uris.is_remote(uri) else os.path.isdir(uri)
    if has_glob(uri) and (uris.is_remote(uri) or not os.path.lexists(uri)):
        folder = split_pattern(uri)[0]
        if uris.is_remote(uri):
            matches = remote_matches(uri)
        else:
            matches = [name for name in glob.glob(uri, recursive=True) if os.path.isfile(name)]
    elif is_folder:
        try:
            names = (file.name for file in files.list_files(uri))
            matches = [files.join(uri, name) for name in names if "/." not in f"/{name}"]
        except OSError as error:
            raise UsageError(f"--images {path} cannot be listed: {error}") from error
    elif uris.is_remote(uri) or os.path.lexists(uri):
        return [ParquetFile(uri, posixpath.basename(uri))]
    else:
        raise UsageError(f"--images {path}: no such file or folder")
    start = len(folder.rstrip("/")) + 1
    parquet = [ParquetFile(match, match[start:]) for match in matches if _is_parquet(match)]
    if not parquet:
        raise UsageError(f"--images {path}: no Parquet files there, whose names end in .parquet")
    return parquet


def _first_in(folder: str, levels: int) -> str:
    """The first Parquet file in a folder or below; empty if there are images, or no such files."""
    here = tree.names_in(folder)
    if here.images:
        return ""
    for name in filter(_is_parquet, here.files):
        return posixpath.join(folder, name)
    for below in here.folders[:_MOST_FOLDERS] if levels > 1 else ():
        first = _first_in(below, levels - 1)
        if first or tree.names_in(below).images:
            return first
    return ""


def _is_parquet(name: str) -> bool:
    return name.lower().endswith(heads.PARQUET_ENDING)


ROW = "(row)"
"""The column of keys that rows get beside the file's own."""

_BATCH_BYTES = 4 << 20  # 4 MiB of a file's rows at a time
_MOST_ROWS = 1024
_PACKED_AT_ONCE = 4096
_NO_CLASS = -1  # as Hugging Face has it, in test sets whose labels are secret


def name_classes(fields: dict[str, Any], classes: Mapping[str, tuple[str, ...]], label: str) -> str:
    """Replaces the ids of classes in a row by their names; returns what is wrong with one, or nothing.

    Args:
      fields: the row.
      classes: column, or "objects.<list>" -> the names, in order of their ids.
      label: the column of the label, or empty.
    """
    problem = ""
    for column, names in classes.items():
        outer, _, member = column.partition(".")
        owners: list[Any] = [fields]
        if outer == OBJECTS_COLUMN and member:
            objects = fields.get(outer)
            owners = objects if isinstance(objects, list) else [objects]
        may_lack = column != label and "." not in column
        for owner in owners:
            if isinstance(owner, dict):
                name = member or column
                owner[name], wrong = _named(owner.get(name), names, may_lack)
                problem = problem or (wrong and f"column {column!r}: {wrong}")
    return problem


def _named(value: Any, names: tuple[str, ...], may_lack: bool) -> tuple[Any, str]:
    if isinstance(value, list):
        items = [_named(item, names, may_lack) for item in value]
        return [name for name, _ in items], next((wrong for _, wrong in items if wrong), "")
    if value is None or isinstance(value, str):
        return value, ""
    if isinstance(value, int) and 0 <= value < len(names):
        return names[value], ""
    if value == _NO_CLASS and may_lack:
        return None, ""
    meaning = ", which is not a class" if value == _NO_CLASS else ""
    return None, f"{text.excerpt(value)}{meaning}; expected 0 to {len(names) - 1}"


@dataclass(frozen=True)
class ParquetReader:
    """Reads Parquet files of images.

    Attributes:
      parquet: the files.
      image: the column of images.
      labels: the columns of labels.
      classes: column, or "objects.<list>" -> names of its classes, in order of their ids.
      table: how rows are read, like a table's.
      schema: their columns.
      has_path: whether the values of a sample end with the original name of its image's file.
    """

    parquet: tuple[ParquetFile, ...]
    image: str
    labels: tuple[str, ...]
    classes: Mapping[str, tuple[str, ...]]
    table: table_rows.LabelTable
    schema: tables.LabelSchema
    has_path: bool

    def read(self, uri: str, unpack_to: str) -> Iterator[SampleRef | DeadLetter]:
        """Yields a reference to the image of each row; its key is `<file>/<row, from 00000>`.

        Raises:
          ContainerError: the file is broken, has other columns than the first, or cannot be unpacked.
        """
        (listed,) = (file for file in self.parquet if file.uri == uri)
        digest = hashlib.sha256(listed.name.encode("utf-8", "surrogateescape")).hexdigest()[:32]
        unpacked = files.join(unpack_to, f"{digest}.images")
        kinds: tuple[Any, ...] = (SampleRef, DeadLetter)
        packed: dict[Any, list[bytes]] = {kind: [] for kind in kinds}
        try:
            with files.open_input(uri) as file:
                columns = parquet_columns(file, uri)
                self._check(columns, uri)
                if unpack_to:
                    _check_space(columns, uri, unpack_to)
                with files.open_output(unpacked) if unpack_to else nullcontext(NoSink()) as sink:
                    items = self._unpack(file, columns, listed, unpacked, sink)
                    while part := list(itertools.islice(items, _PACKED_AT_ONCE)):
                        for kind in kinds:
                            packed[kind].append(pack(i for i in part if isinstance(i, kind)))
        except LabelTableError as error:
            raise ContainerError(str(error)) from error
        except (OSError, OutputError) as error:
            problem = (isinstance(error, OSError) and error.strerror) or error
            raise ContainerError(
                f"{uri} cannot be read, or not be unpacked to {unpack_to}: {problem}"
            ) from error
        for kind in kinds:
            for part_of_kind in packed[kind]:
                yield from unpack(kind, part_of_kind)

    def _check(self, columns: ParquetColumns, uri: str) -> None:
        missing = [name for name in self.labels if name not in columns.labels]
        if self.image not in columns.images:
            missing.insert(0, self.image)
        first = self.parquet[0].uri
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
        listed: ParquetFile,
        unpacked: str,
        sink: Sink,
    ) -> Iterator[SampleRef | DeadLetter]:
        uri = listed.uri
        table, version = replace(self.table, uri=uri), files.version_of(uri)
        label = self.schema.columns[0].name if self.schema.has_label else ""
        offset = 0
        rows = _rows(file, uri, columns, self.image, self.labels)
        for number, (data, path, fields) in enumerate(rows):
            key = f"{listed.name}/{number:05d}"
            reason, problem = Reason.BAD_LABEL_VALUE, name_classes(fields, self.classes, label)
            fields[ROW] = key
            row = typed_rows.typed_row(key, fields, table, self.schema, line=number + 1)
            problem = problem or row.problem
            if not data:
                reason = Reason.MISSING_IMAGE if data is None else Reason.EMPTY_FILE
                problem = f"column {self.image!r} is empty"
                if data is not None:
                    problem = f"the image in column {self.image!r} is without bytes"
                elif path:
                    problem = (
                        f"column {self.image!r} does not contain bytes, only the path {text.excerpt(path)}; write "
                        "the file again with the images in it"
                    )
            if problem:
                letter = image_dead_letter(Stage.LABELS, key, uri, reason, problem, file=uri)
                yield letter._replace(line=number + 1)
                continue
            assert data
            sink.write(data)
            values = (*row.values, cells.text_of(path) or key) if self.has_path else row.values
            split = row.split or listed.split or DEFAULT_SPLIT
            yield SampleRef(key, unpacked, len(data), split, values, offset, uri, version, row.size)
            offset += len(data)


def first_fields(
    file: BinaryIO, uri: str, columns: ParquetColumns, labels: tuple[str, ...], most: int
) -> list[dict[str, Any]]:
    """Returns the labels of the first rows of a file, as values of JSON, without their images."""
    if not labels:
        return [{} for _ in range(min(most, columns.rows))]
    rows = _rows(file, uri, columns, "", labels)
    return [fields for *_, fields in itertools.islice(rows, most)]


def _rows(
    file: BinaryIO, uri: str, columns: ParquetColumns, image: str, labels: tuple[str, ...]
) -> Iterator[tuple[bytes | None, str | None, dict[str, Any]]]:
    """Yields (image, name of its file, labels) of every row; memory contains a few pages. `image` may be empty."""
    import pyarrow

    at_once = min(_MOST_ROWS, max(1, _BATCH_BYTES // max(1, columns.bytes_per_row)))
    with parquet_errors(uri):
        opened = opened_parquet(file)
        columns_read = [*([image] if image else ()), *labels]
        for _, batch in numbered_batches(opened, None, rows_at_once=at_once, columns=columns_read):
            images = batch.column(image) if image else pyarrow.nulls(len(batch))
            paths = pyarrow.nulls(len(images))
            if image in columns.structs:
                members = dict(zip((m.name for m in images.type), images.flatten(), strict=True))
                images, paths = members[BYTES], members.get(PATH, paths)
            rows = batch.select(list(labels)).to_pylist() if labels else ({},) * len(images)
            for data, path, fields in zip(images, paths, rows, strict=True):
                yield data.as_py(), path.as_py(), json_value(fields)


def _check_space(columns: ParquetColumns, uri: str, folder: str) -> None:
    """Raises ContainerError if the images will not fit on the disk where they are unpacked."""
    files.make_folder(folder)
    free, needed = files.free_bytes(folder), columns.rows * columns.bytes_per_row
    if free is not None and needed > free:
        raise ContainerError(
            f"the images of {uri} would be unpacked to about {needed:,} bytes, and the disk of "
            f"{folder} has {free:,} left. Nothing was written; make room or choose another --output"
        )
