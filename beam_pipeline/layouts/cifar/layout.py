"""CIFAR-10 and CIFAR-100 as downloaded: pickled or binary batches, unpacked or in their archive."""

from __future__ import annotations

import functools
import gzip
import os
import posixpath
import tarfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import IO, NamedTuple

from beam_pipeline.core.archives import TarHeader
from beam_pipeline.core.dead_letters import DeadLetter, Reason, Stage
from beam_pipeline.core.errors import ContainerError, UsageError
from beam_pipeline.core.labels.classes import ClassNumbering
from beam_pipeline.core.labels.schema import Column, ColumnKind, label_column
from beam_pipeline.core.records.example_source import LabelledImages
from beam_pipeline.core.references import LabelValue, SampleRef
from beam_pipeline.core.uris import is_remote
from beam_pipeline.layouts.cifar.batches import (
    BINARY_SUFFIX,
    CIFAR10,
    CIFAR100,
    PIXELS,
    Batch,
    CifarError,
    CifarFormat,
    as_text,
    label_meanings,
    read_pickled,
    read_records,
    shown,
)
from beam_pipeline.layouts.layout import (
    ContainerLabels,
    NoSink,
    Source,
    SourceOptions,
)
from beam_pipeline.storage import files

_MAX_NAMES_BYTES = 1 << 20  # 1 MiB; the real ones are 2 kB at most

Meanings = tuple[tuple[str, ...], ...]
"""The meanings of the labels, for each label field."""


class _Pixels(NamedTuple):
    """The positions of images: image i begins at byte `first + i * step` of a file."""

    uri: str
    first: int
    step: int


@dataclass(frozen=True)
class CifarReader:
    """Reads batches, or archives of them.

    Attributes:
      fmt: their data set.
      meanings: the meanings of its labels.
      archived: True if the files are archives.
    """

    fmt: CifarFormat
    meanings: Meanings
    archived: bool

    def read(self, uri: str, unpack_to: str) -> Iterator[SampleRef | DeadLetter]:
        """Yields a reference to each image; its key is `<batch>/<number, from 00000>`.

        References to binary records on disk point into the original file. Everything else is
        unpacked first, to one file per batch, named after it.

        Args:
          uri: the file.
          unpack_to: a folder for unpacked batches.

        Raises:
          ContainerError: the file is broken or cannot be unpacked.
        """
        try:
            with files.open_input(uri) as file:
                if self.archived:
                    yield from self._read_archive(file, uri, unpack_to)
                else:
                    yield from self._read_file(file, uri, unpack_to)
        except OSError as error:
            raise ContainerError(
                f"{uri} cannot be read, or not be unpacked to {unpack_to}: "
                f"{error.strerror or error}"
            ) from error

    def _read_file(
        self, file: IO[bytes], uri: str, unpack_to: str
    ) -> Iterator[SampleRef | DeadLetter]:
        name = posixpath.basename(uri)
        try:
            if name.endswith(BINARY_SUFFIX) and (not is_remote(uri) or is_remote(unpack_to)):
                batch, pixels = read_records(file, self.fmt), self._records_at(uri)
            else:
                batch, pixels = self._unpack(file, name, unpack_to)
        except CifarError as error:
            raise ContainerError(f"{uri}: {error}") from error
        yield from self._samples(batch, pixels, name, uri)

    def _read_archive(
        self, file: IO[bytes], uri: str, unpack_to: str
    ) -> Iterator[SampleRef | DeadLetter]:
        missing = list(self.fmt.splits)
        with _archive_errors(uri):
            for name, content in _members(file):
                batch_name = _batch_name(name)
                if batch_name not in self.fmt.splits:
                    continue
                if batch_name not in missing:
                    raise ContainerError(f"{uri} holds {batch_name} twice, expected it once")
                missing.remove(batch_name)
                try:
                    batch, pixels = self._unpack(content, name, unpack_to)
                except CifarError as error:
                    raise ContainerError(f"{uri}: {name}: {error}") from error
                yield from self._samples(batch, pixels, name, uri)
        if missing:
            raise ContainerError(f"{uri} {_lacks(missing)}; download it again")

    def _unpack(self, file: IO[bytes], name: str, folder: str) -> tuple[Batch, _Pixels]:
        """Copies the pixels to a separate file, which appears when it is complete."""
        unpacked = files.join(folder, name)
        with files.open_output(unpacked) if folder else nullcontext(NoSink()) as sink:
            if name.endswith(BINARY_SUFFIX):
                return read_records(file, self.fmt, sink.write), self._records_at(unpacked)
            return read_pickled(file, self.fmt, sink.write), _Pixels(unpacked, 0, PIXELS.size)

    def _records_at(self, uri: str) -> _Pixels:
        return _Pixels(uri, len(self.fmt.fields), self.fmt.record_bytes)

    def _samples(
        self, batch: Batch, pixels: _Pixels, name: str, uri: str
    ) -> Iterator[SampleRef | DeadLetter]:
        batch_name = _batch_name(name)
        split = self.fmt.splits[batch_name]
        version = files.version_of(uri)
        for i, labels in enumerate(zip(*batch.labels, strict=True)):
            key = f"{batch_name}/{i:05d}"
            filename = key if batch.filenames is None else batch.filenames[i]
            values = self._values(labels, filename)
            if isinstance(values, str):
                stage, reason = Stage.LABELS.value, Reason.BAD_LABEL_VALUE.value
                yield DeadLetter(
                    stage=stage, key=key, uri=uri, reason=reason, message=values, file=uri
                )
            else:
                offset = pixels.first + i * pixels.step
                yield SampleRef(key, pixels.uri, PIXELS.size, split, values, offset, uri, version)

    def _values(self, labels: Sequence[object], filename: object) -> tuple[LabelValue, ...] | str:
        """Returns the values of the columns in `_columns`, or the fault."""
        class_name = ""
        further: list[LabelValue] = []
        for index, (field, label) in enumerate(zip(self.fmt.fields, labels, strict=True)):
            if type(label) is not int or not 0 <= label < field.count:
                return (
                    f"{field.name} {shown(label)}, expected an integer from 0 to {field.count - 1}"
                )
            if index == self.fmt.class_field:
                class_name = self.meanings[index][label]
            else:
                further += label, self.meanings[index][label]
        name = as_text(filename)
        if name is None:
            return f"file name {shown(filename)}, expected text in UTF-8"
        return class_name, name, *further


def _columns(fmt: CifarFormat) -> tuple[Column, ...]:
    """Returns the columns: class, file name, and number and meaning of each further label."""
    columns = [
        label_column(fmt.fields[fmt.class_field].name, ColumnKind.CLASS),
        Column("filename", ColumnKind.BYTES, "image/filename", required=True),
    ]
    for index, field in enumerate(fmt.fields):
        if index != fmt.class_field:
            text = field.name.removesuffix("label") + "text"
            columns += [
                Column(field.name, ColumnKind.INT64, f"label/{field.name}", required=True),
                Column(text, ColumnKind.BYTES, f"label/{text}", required=True),
            ]
    return tuple(columns)


def _members(file: IO[bytes]) -> Iterator[tuple[str, IO[bytes]]]:
    """Yields (name without folders, content) of each file of a .tar.gz, in its order.

    Nothing is written, and no name is used as a path. The archive is read to the end, which holds
    the checksum of the whole.
    """
    with (
        gzip.GzipFile(fileobj=file) as unzipped,
        tarfile.open(fileobj=unzipped, mode="r|", tarinfo=TarHeader) as archive,
    ):
        for member in archive:
            content = archive.extractfile(member) if member.isfile() else None
            if content:
                with content:
                    yield posixpath.basename(member.name), content
        while unzipped.read(1 << 20):
            pass


@contextmanager
def _archive_errors(uri: str) -> Iterator[None]:
    """Turns errors of a block into the error that the archive is broken."""
    try:
        yield
    except (tarfile.TarError, gzip.BadGzipFile, EOFError, zlib.error, RecursionError) as error:
        raise ContainerError(
            f"{uri} is not a .tar.gz, or is damaged or cut short ({error}); download it again"
        ) from error


class Cifar:
    """One of the two data sets, in either version.

    Args:
      name: its name in --layout.
      fmt: its files.
    """

    option_names: frozenset[str] = frozenset()

    def __init__(self, name: str, fmt: CifarFormat) -> None:
        self.name = name
        self._format = fmt

    def recognise(self, options: SourceOptions) -> str:
        """Recognises a folder with two or more of its files, the folder above, or its archive."""
        if options.labels or len(options.images) != 1 or not options.images[0].strip():
            return ""
        fmt = self._format
        uri = files.canonical(options.images[0])
        name = posixpath.basename(uri)
        if is_remote(uri):
            return f"named {name}" if name in (*fmt.folders, *fmt.archives) else ""
        if name in fmt.archives and os.path.isfile(uri):
            return f"named {name}"
        batches = [batch + suffix for suffix in ("", BINARY_SUFFIX) for batch in fmt.splits]
        for folder in self._folders(uri):
            found = _those_in(folder, (*batches, *sorted(fmt.name_files)))
            if len(found) > 1:
                return f"{found[0]} and {found[1]} in {folder}"
        return ""

    def open(self, options: SourceOptions) -> Source:
        """Finds the batches, and reads the meanings of their labels.

        Raises:
          UsageError: all or some batches are missing, or no file gives the meanings of the labels.
        """
        if options.labels:
            raise UsageError(
                f"--layout {self.name} takes labels from where the images are; leave out --labels"
            )
        if not all(path.strip() for path in options.images):
            raise UsageError("--images: an empty path")
        try:
            return self._open([files.canonical(path) for path in options.images])
        except ContainerError as error:
            raise UsageError(f"--images: {error}") from error
        except OSError as error:
            raise UsageError(
                f"--images: {error.filename} cannot be read: {error.strerror or error}"
            ) from error

    def _open(self, uris: Sequence[str]) -> Source:
        if all(_batch_name(uri) in self._format.splits and _is_file(uri) for uri in uris):
            return self._open_batches(uris)
        if len(uris) != 1:
            raise UsageError(
                f"--images: {len(uris)} paths, expected for --layout {self.name} one folder or "
                f"archive, or files such as {next(iter(self._format.splits))}"
            )
        (uri,) = uris
        if uri.endswith((".gz", ".tgz")) if is_remote(uri) else os.path.isfile(uri):
            return self._open_archive(uri)
        if not is_remote(uri) and not os.path.isdir(uri):
            raise UsageError(f"--images {uri}: no such file or folder")
        return self._open_folder(uri)

    def _folders(self, uri: str) -> list[str]:
        """Returns the folders that may hold the batches if the user named this folder."""
        return [uri, *(files.join(uri, name) for name in self._format.folders)]

    def _open_folder(self, uri: str) -> Source:
        batches = list(self._format.splits)
        versions = [
            (folder, suffix, found)
            for folder in self._folders(uri)
            for suffix in ("", BINARY_SUFFIX)
            if (found := _those_in(folder, [batch + suffix for batch in batches]))
        ]
        if not versions:
            raise UsageError(
                f"--images {uri}: none of {self._format.title}'s files is there; expected "
                f"{batches[0]} and the others, or a folder with them, such as "
                f"{self._format.folders[0]}"
            )
        if len(versions) > 1:
            first, second = (files.join(folder, found[0]) for folder, _, found in versions[:2])
            raise UsageError(
                f"--images {uri}: there are {first} and {second}, which are two versions of the "
                "same images; name the folder of one, or move one away"
            )
        ((folder, suffix, found),) = versions
        missing = [batch + suffix for batch in batches if batch + suffix not in found]
        if missing:
            raise UsageError(
                f"--images: {folder} {_lacks(missing)}; download it again, or name the files that "
                f"you want, such as {files.join(folder, found[0])}"
            )
        return self._open_batches([files.join(folder, name) for name in found])

    def _open_batches(self, uris: Sequence[str]) -> Source:
        names = [_batch_name(uri) for uri in uris]
        for name in names:
            if names.count(name) > 1:
                raise UsageError(f"--images names {name} twice, expected each batch once")
        folder = posixpath.dirname(uris[0])
        found = {}
        for name in _those_in(folder, sorted(self._format.name_files)):
            with files.open_input(files.join(folder, name)) as file:
                found[name] = file.read(_MAX_NAMES_BYTES)
        return self._source(uris, found, folder, archived=False)

    def _open_archive(self, uri: str) -> Source:
        found: dict[str, bytes] = {}
        missing = list(self._format.splits)
        with files.open_input(uri) as file, _archive_errors(uri):
            for name, content in _members(file):
                if _batch_name(name) in missing:
                    missing.remove(_batch_name(name))
                if name in self._format.name_files:
                    found[name] = content.read(_MAX_NAMES_BYTES)
                    if self._meanings(found, uri):
                        break
            else:
                if missing:
                    raise ContainerError(f"{uri} {_lacks(missing)}; download it again")
        return self._source([uri], found, uri, archived=True)

    def _meanings(self, found: Mapping[str, bytes], where: str) -> Meanings | None:
        try:
            return label_meanings(self._format, found)
        except CifarError as error:
            raise UsageError(f"--images: {where}: {error}") from error

    def _source(
        self, uris: Sequence[str], found: Mapping[str, bytes], where: str, *, archived: bool
    ) -> Source:
        fmt = self._format
        notes = []
        meanings = self._meanings(found, where)
        if meanings is None:
            meanings = tuple(field.meanings for field in fmt.fields)
            expected = f"{fmt.meta_file} or {' and '.join(f.names_file for f in fmt.fields)}"
            if not all(meanings):
                raise UsageError(
                    f"--images: {where} lacks the file with the names of the classes, {expected}; "
                    "download it again"
                )
            notes.append(
                f"{where} holds no {expected}; classes have the names that {fmt.title}'s have"
            )
        numbers = tuple((name, i) for i, name in enumerate(meanings[fmt.class_field]))
        return Source(
            layout=self.name,
            roots=(),
            labels=ContainerLabels(CifarReader(fmt, meanings, archived), tuple(uris)),
            examples=LabelledImages(_columns(fmt), PIXELS),
            numbering=ClassNumbering(known=numbers),
            notes=tuple(notes),
        )


def _batch_name(uri: str) -> str:
    return posixpath.basename(uri).removesuffix(BINARY_SUFFIX)


def _is_file(uri: str) -> bool:
    return files.exists(uri) if is_remote(uri) else os.path.isfile(uri)


def _those_in(folder: str, names: Iterable[str]) -> list[str]:
    """Returns the names that are files of a folder, which may hold any number of other files."""
    return [name for name in names if _is_file(files.join(folder, name))]


def _lacks(names: Iterable[str]) -> str:
    return f"lacks {', '.join(names)}"


cifar10 = functools.partial(Cifar, "cifar10", CIFAR10)
cifar100 = functools.partial(Cifar, "cifar100", CIFAR100)
