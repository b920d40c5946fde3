"""Parquet files that contain the images themselves, such as Hugging Face's data sets.

A column contains an image per row, and the other columns its labels. The pages of a file are compressed, so an image
in one cannot be addressed. Images are unpacked, one after another, to a file in a folder that every worker sees, and
are referred to by their positions there.

Hugging Face names the files `data/train-00000-of-00005.parquet`, with or without a hash at the end, or
`default/train/0000.parquet`. Source: https://huggingface.co/docs/hub/datasets-image
"""

from __future__ import annotations

import hashlib
import itertools
import os
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from typing import Any, BinaryIO, NamedTuple

from beam_pipeline.core import errors, questions, text
from beam_pipeline.core.dead_letters import DeadLetter, Reason, Stage, image_dead_letter
from beam_pipeline.core.errors import ContainerError, UsageError, reason_of
from beam_pipeline.core.labels import box_columns, cells, parquet_columns, table_rows, typed_rows
from beam_pipeline.core.labels.classes import ClassNumbering
from beam_pipeline.core.labels.parquet_columns import ParquetColumns
from beam_pipeline.core.labels.schema import (
    NO_LABEL_COLUMN,
    OBJECTS_COLUMN,
    SKIP_KIND,
    Column,
    ColumnKind,
)
from beam_pipeline.core.labels.tables import LABEL_NAMES, LabelSchema
from beam_pipeline.core.listing import globs
from beam_pipeline.core.listing.cuts import numbered_batches
from beam_pipeline.core.listing.folders import named_split
from beam_pipeline.core.records.example_source import LabelledImages
from beam_pipeline.core.records.record_format import Sink
from beam_pipeline.core.references import DEFAULT_SPLIT, SampleRef
from beam_pipeline.core.uris import is_remote
from beam_pipeline.layouts import caption_files, heads, layout, paths, tree
from beam_pipeline.layouts.layout import Source, SourceOptions
from beam_pipeline.layouts.table import table_numbering, unlabelled_notes
from beam_pipeline.storage import files

_IMAGE_NAMES = ("image", "img")
_LOOKED_AT, _LOOKED_AT_REMOTE = 2_000, 200  # rows of the first file and of the last
_SHOWN = 5
_INTEGERS = frozenset(["int", "int64"])  # of --columns: ids stay ids


class Parquet:
    """Rows contain an image and its labels."""

    name = "parquet"
    option_names = caption_files.SIDECAR_OPTIONS
    reads_labels = False

    def recognise(self, options: SourceOptions) -> str:
        """Recognises Parquet files, without images beside them; the first contains images."""
        firsts = [first_parquet(path) for path in options.images]
        first = firsts[0]
        if first is None or not all(firsts):
            return ""
        try:
            columns, _ = _beginning(first.uri, frozenset(), most=0)
        except UsageError:  # reported when the file is opened
            return f"{first.name} is called like a Parquet file"
        names = (*columns.images, *columns.image_lists)
        where = f"column{'s' * (len(names) > 1)} {', '.join(names)}"
        return f"{first.name} contains images in its {where}" if names else ""

    def open(self, options: SourceOptions) -> Source:
        """Looks at the schemas and the first rows of the first file and of the last.

        Raises:
          UsageError: a path names no Parquet file, or no column of images or of labels can be told.
        """
        parquet = parquet_files(options.images)
        uris = tuple(file.uri for file in parquet)
        skipped = frozenset(name for name, kind in options.columns.items() if kind == SKIP_KIND)
        most = _LOOKED_AT_REMOTE if is_remote(uris[0]) else _LOOKED_AT
        splits = {file.name: file.split for file in parquet}
        columns, rows = _beginning(uris[0], skipped, most)
        if uris[1:]:
            rows += _beginning(uris[-1], skipped, most)[1]
        image = _image_column(uris[0], columns, skipped)
        labels = tuple(name for name in columns.labels if name not in skipped)
        classes = {
            name: names
            for name, names in columns.classes.items()
            if (outer := name.partition(".")[0]) in labels
            and outer in (name, OBJECTS_COLUMN)
            and options.columns.get(name) not in _INTEGERS
        }
        if not rows:
            raise UsageError(f"{uris[0]}: the file is without rows; expected one for each image")
        for number, fields in enumerate(rows):
            name_classes(fields, classes, "")
            fields[ROW] = f"{uris[0]}/{number}"
        schema, table, left_out = _inspect(uris[0], rows, columns, labels, classes, options)
        has_path = image in columns.structs
        path = Column(f"{image}.path", ColumnKind.BYTES, "image/filename", required=True)
        reader = ParquetReader(parquet, image, labels, classes, table, schema, has_path)
        notes = [*schema.notes, *unlabelled_notes(options, schema)]
        if left_out:
            names = text.enumerated(left_out, _SHOWN)
            notes.append(f"left out, since they are objects, lists of lists or bytes: {names}")
        further = _further_images(columns, image, skipped)
        return Source(
            layout=self.name,
            roots=(),
            labels=layout.ContainerLabels(reader, uris),
            examples=LabelledImages((*schema.columns, path) if has_path else schema.columns),
            numbering=_numbering(options, schema, classes),
            notes=(*paths.split_notes(splits, "files"), *notes),
            questions=(*schema.questions, *paths.split_questions(splits, "files"), *further),
            roles=tuple(row for row in schema.roles if row.subject != f"column {ROW}"),
        )


def _beginning(
    uri: str, skipped: frozenset[str], most: int
) -> tuple[ParquetColumns, list[dict[str, Any]]]:
    """The columns of a file, and the labels of its first rows, without columns to skip.

    Raises:
      UsageError: it cannot be read, or is not a Parquet file.
    """
    with files.naming(f"--images {uri}", UsageError), files.open_input(uri) as file:
        columns = parquet_columns.parquet_columns(file, uri)
        labels = tuple(name for name in columns.labels if name not in skipped)
        if not labels:
            return columns, [{} for _ in range(min(most, columns.rows))]
        rows = itertools.islice(_rows(file, uri, columns, "", labels), most)
        return columns, [fields for *_, fields in rows]


def _image_column(uri: str, columns: ParquetColumns, skipped: frozenset[str]) -> str:
    """The column of images. Raises UsageError if it cannot be told."""
    images = [name for name in columns.images if name not in skipped]
    by_lower = {name.lower(): name for name in reversed(images)}
    usual = [by_lower[name] for name in _IMAGE_NAMES if name in by_lower]
    if usual or len(images) == 1:
        return (usual or images)[0]
    names = ", ".join((*columns.labels, *columns.unused)) or "none"
    problem = (
        f" does not contain images; its columns are {names}. If it is a table of labels, name it with --labels, and "
        "the images' folder with --images"
    )
    if images:
        others = ",".join(f"{name}:skip" for name in images[1:])
        which = f"which of the columns {', '.join(images)} contains the images?"
        problem = f": {which} Leave out the others, as in --columns {others}"
    elif columns.image_lists:
        lists = f"the column {columns.image_lists[0]!r} contains a list of images in each row"
        problem = f": {lists}; expected one image a row. Write a file with a row for each image"
    raise UsageError(f"{uri}{problem}")


def _inspect(
    uri: str,
    rows: Sequence[dict[str, Any]],
    columns: ParquetColumns,
    labels: Sequence[str],
    classes: Mapping[str, tuple[str, ...]],
    options: SourceOptions,
) -> tuple[LabelSchema, table_rows.LabelTable, Sequence[str]]:
    """Infers the columns. Raises UsageError.

    Returns: the schema, the table, and columns that are left out because no feature can contain them.
    """
    unread = {*columns.images, *columns.image_lists, *columns.labels, *columns.unused} - {*labels}
    sides = box_columns.find_boxes(labels)[1]
    kinds = {name: columns.kinds.get(name, "") for name in labels if name not in sides}
    kinds |= {name: "str" for name in classes if name in labels}
    kinds |= {name: kind for name, kind in options.columns.items() if name not in unread}
    kinds = {name: kind for name, kind in kinds.items() if kind}
    label = _label_column(labels, classes, options)
    choices = replace(
        options, key_column=ROW, label_column=label, columns=kinds, label_needed=False
    )
    schema, table, nested = caption_files.inspect_rows(uri, rows, choices, options.columns)
    return schema, table, [*nested, *columns.unused]


def _label_column(
    labels: Sequence[str], classes: Mapping[str, tuple[str, ...]], options: SourceOptions
) -> str:
    """The column of the label, if its name need not be guessed from the names of all columns."""
    if options.label_column or OBJECTS_COLUMN in labels:
        return options.label_column
    named = [name for name in labels if name in classes]
    usual = any(name.lower() in LABEL_NAMES for name in labels)
    if len(named) > 1 and not usual:
        raise UsageError(
            f"--images: which of the columns {', '.join(named)} is the label? Give --label_column NAME, "
            "or --label_column none to keep all of them as features label/<column>"
        )
    return "" if usual else next(iter(named), "" if labels else NO_LABEL_COLUMN)


def _numbering(
    options: SourceOptions, schema: LabelSchema, classes: Mapping[str, tuple[str, ...]]
) -> ClassNumbering:
    """The ids that the file gives its classes; without names of classes, a table's."""
    column = schema.columns[0].name if schema.has_label else ""
    if schema.objects:
        column = f"{OBJECTS_COLUMN}.{schema.objects.categories}"
    names = classes.get(column, ())
    numbering = table_numbering(options, schema)
    if not names or numbering.from_name:
        return numbering
    base = options.label_base or 0
    return replace(numbering, base=base, known=tuple((n, i) for i, n in enumerate(names, base)))


def _further_images(
    columns: ParquetColumns, image: str, skipped: frozenset[str]
) -> Iterator[questions.Question]:
    """A question if there are images that would be left out."""
    images = (*columns.images, *columns.image_lists)
    further = [name for name in images if name not in skipped and name != image]
    if further:
        yield questions.Question(
            "further_images",
            f"The images are taken from the column {image!r}, and those in "
            f"{text.counted(len(further), 'further column')}, {', '.join(further)}, would be left out.",
            f"--columns {image}:skip,... takes another; masks are read from files, with --masks. If that is meant:",
            {"columns": dict.fromkeys(further, "skip")},
        )


# --- files and rows --------------------------------------------------------------------------------

_PART = re.compile(r"(\w+)-[0-9]{5}-of-[0-9]{5}(-[0-9a-f]+)?")
_MOST_FOLDERS = 50  # that are searched for the first file


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
        with suppress(UsageError):  # the layout that is finally chosen reports it
            return _files_of(path)[0]
    if is_remote(uri) or _is_parquet(uri):
        return None
    for folder in tree.walk(uri, _MOST_FOLDERS):
        if folder.images:
            return None
        for first in folder.of_kind(heads.PARQUET_ENDING):
            return ParquetFile(first, first[len(uri.rstrip("/")) + 1 :])
    return None


def parquet_files(images: Sequence[str]) -> tuple[ParquetFile, ...]:
    """All Parquet files that the paths, folders and globs of --images name, in the order of their names.

    Raises:
      UsageError: a path names none, or two files have the same name.
    """
    by_name: dict[str, ParquetFile] = {}
    for path in images:
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
        folders = reversed(posixpath.splitext(name)[0].split("/"))
        splits[name] = next(filter(None, map(named_split, folders)), "")
    if any(splits.values()):
        for name in names:
            part = _PART.fullmatch(posixpath.splitext(posixpath.basename(name))[0])
            splits[name] = splits[name] or (part[1] if part else "")
    return splits


def _files_of(path: str) -> list[ParquetFile]:
    uri = files.canonical(path)
    if os.path.isfile(uri) or (is_remote(uri) and _is_parquet(uri) and not globs.has_glob(uri)):
        return [ParquetFile(uri, posixpath.basename(uri))]
    folder, pattern = paths.root_and_pattern(path, "--images")
    with files.naming(f"--images {path}", UsageError, deed="listed"):
        if pattern:  # which only the folders that it names are read for
            names = [match[len(folder.rstrip("/")) + 1 :] for match in paths.matching_files(uri)]
        else:
            names = [file.name for file in files.list_files(folder)]
            names = [name for name in names if "/." not in f"/{name}"]
    named = sorted(filter(_is_parquet, names))
    if not named:
        raise UsageError(f"--images {path}: no Parquet files there, whose names end in .parquet")
    return [ParquetFile(files.join(folder, name), name) for name in named]


def _is_parquet(name: str) -> bool:
    return name.lower().endswith(heads.PARQUET_ENDING)


ROW = "(row)"
"""The column of keys that rows get beside the file's own."""

_BATCH_BYTES = 4 << 20  # 4 MiB of a file's rows at a time
_MOST_ROWS = 1024
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
        inside = fields.get(outer) if member else fields
        name, may_lack = member or column, column != label and not member
        for owner in inside if isinstance(inside, list) else [inside]:
            if isinstance(owner, dict):
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
    schema: LabelSchema
    has_path: bool

    def read(self, uri: str, unpack_to: str) -> Iterator[SampleRef | DeadLetter]:
        """Yields a reference to the image of each row; its key is `<file>/<row, from 00000>`.

        Raises:
          ContainerError: the file is broken, has other columns than the first, or cannot be unpacked.
        """
        (listed,) = (file for file in self.parquet if file.uri == uri)
        digest = hashlib.sha256(listed.name.encode("utf-8", "surrogateescape")).hexdigest()[:32]
        unpacked = files.join(unpack_to, f"{digest}.images")
        try:
            with files.open_input(uri) as file:
                columns = parquet_columns.parquet_columns(file, uri)
                self._check(columns, uri)
                if unpack_to:
                    _check_space(columns, uri, unpack_to)
                target = files.open_output(unpacked) if unpack_to else nullcontext(layout.NoSink())
                with target as sink:
                    outcomes = layout.held(self._unpack(file, columns, listed, unpacked, sink))
        except errors.LabelTableError as error:
            raise ContainerError(str(error)) from error
        except (OSError, errors.OutputError) as error:
            fault = f"cannot be read, or not be unpacked to {unpack_to}: {reason_of(error)}"
            raise ContainerError(f"{uri} {fault}") from error
        yield from itertools.chain.from_iterable(outcomes)

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
                    f"{uri} has other names of the classes in {name} than {first}; convert the two one by one"
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
        version = files.version_of(uri)
        label = self.schema.columns[0].name if self.schema.has_label else ""
        offset = 0
        rows = _rows(file, uri, columns, self.image, self.labels)
        for number, (data, path, fields) in enumerate(rows):
            key = f"{listed.name}/{number:05d}"
            reason, problem = Reason.BAD_LABEL_VALUE, name_classes(fields, self.classes, label)
            fields[ROW] = key
            row = typed_rows.typed_row(key, fields, self.table, self.schema, line=number + 1)
            problem = problem or row.problem
            if not data:
                reason = Reason.MISSING_IMAGE if data is None else Reason.EMPTY_FILE
                only = f", only the path {text.excerpt(path)}; write the file again with the images in it"
                problem = f"column {self.image!r} does not contain bytes{only if path else ''}"
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


def _rows(
    file: BinaryIO, uri: str, columns: ParquetColumns, image: str, labels: tuple[str, ...]
) -> Iterator[tuple[bytes | None, str | None, dict[str, Any]]]:
    """Yields (image, name of its file, labels) of every row; memory contains a few pages. `image` may be empty."""
    import pyarrow

    at_once = min(_MOST_ROWS, max(1, _BATCH_BYTES // max(1, columns.bytes_per_row)))
    with parquet_columns.parquet_errors(uri):
        opened = parquet_columns.opened_parquet(file)
        columns_read = [*([image] if image else ()), *labels]
        for _, batch in numbered_batches(opened, None, rows_at_once=at_once, columns=columns_read):
            images = batch.column(image) if image else pyarrow.nulls(len(batch))
            names = pyarrow.nulls(len(images))
            if image in columns.structs:
                members = dict(zip((m.name for m in images.type), images.flatten(), strict=True))
                images = members[parquet_columns.BYTES]
                names = members.get(parquet_columns.PATH, names)
            rows = batch.select(list(labels)).to_pylist() if labels else ({},) * len(images)
            for data, path, fields in zip(images, names, rows, strict=True):
                yield data.as_py(), path.as_py(), parquet_columns.json_value(fields)


def _check_space(columns: ParquetColumns, uri: str, folder: str) -> None:
    """Raises ContainerError if the images will not fit on the disk where they are unpacked."""
    files.make_folder(folder)
    free, needed = files.free_bytes(folder), columns.rows * columns.bytes_per_row
    if free is not None and needed > free:
        raise ContainerError(
            f"the images of {uri} would be unpacked to about {needed:,} bytes, and the disk of "
            f"{folder} has {free:,} left. Nothing was written; make room or choose another --output"
        )
