"""CIFAR-10 and CIFAR-100 as downloaded: pickled or binary batches, unpacked or in their archive.

An image is 32 x 32 RGB, 3,072 bytes: the red plane, then green, then blue, each row by row. A file
of the binary version contains records: a byte for each label, then the image. A file of the Python
version contains a pickled dict: the images as a NumPy array, one row each, and lists of labels and
file names. It was pickled by Python 2, so its texts are bytes.

Source: https://www.cs.toronto.edu/~kriz/cifar.html
"""

from __future__ import annotations

import functools
import gzip
import io
import itertools
import os
import posixpath
import tarfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import IO

from beam_pipeline.core.archives import TarHeader
from beam_pipeline.core.dead_letters import DeadLetter, Reason, Stage, image_dead_letter
from beam_pipeline.core.errors import ContainerError, UsageError
from beam_pipeline.core.images.preparation import PixelFormat
from beam_pipeline.core.labels.classes import ClassNumbering
from beam_pipeline.core.labels.schema import Column, ColumnKind, label_column
from beam_pipeline.core.records.example_source import LabelledImages
from beam_pipeline.core.references import LabelValue, SampleRef
from beam_pipeline.core.text import excerpt
from beam_pipeline.core.uris import is_remote
from beam_pipeline.layouts.layout import ContainerLabels, NoSink, Source, SourceOptions
from beam_pipeline.layouts.pickles import CifarError, PickledArray, as_text, unpickle
from beam_pipeline.storage import files

PIXELS = PixelFormat(32, 32)
_BINARY = ".bin"
_CHUNK_BYTES = 1 << 20  # 1 MiB; files of names have 2 kB at most

Meanings = tuple[tuple[str, ...], ...]
"""The meanings of the labels, for each label field."""

Batch = tuple[tuple[Sequence[object], ...], Sequence[object] | None]
"""For each label field, the labels of all images; the images' names, or None. Both are unchecked."""


@dataclass(frozen=True)
class LabelField:
    """One label that every image has.

    Attributes:
      name: "label"; a pickled batch calls the list of labels `<name>s`, and the pickled meta file
        calls the list of their meanings `<name>_names`.
      names_file: the binary version's file with their meanings, one per line.
      count: the number of different labels, which count from 0.
      names: their meanings where no file gives them; empty if a file has to.
    """

    name: str
    names_file: str
    count: int
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class CifarFormat:
    """One of the two data sets.

    Attributes:
      title: its name.
      splits: name of a batch's file, without `.bin` -> split.
      fields: the labels of an image, in the order of a binary record; the last one is the class.
      meta_file: the Python version's file with the meanings of labels.
      folders: the folders that its archives unpack to.
    """

    title: str
    splits: Mapping[str, str]
    fields: tuple[LabelField, ...]
    meta_file: str
    folders: tuple[str, ...]

    @property
    def archives(self) -> tuple[str, ...]:
        """The names of its archives."""
        return tuple(f"{self.title.lower()}-{version}.tar.gz" for version in ("python", "binary"))

    @property
    def name_files(self) -> tuple[str, ...]:
        """The files of both versions with the meanings of labels."""
        return (self.meta_file, *(field.names_file for field in self.fields))

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns: class, file name, and number and meaning of each further label."""
        *further, label = self.fields
        columns = [
            label_column(label.name, ColumnKind.CLASS),
            Column("filename", ColumnKind.BYTES, "image/filename", required=True),
        ]
        for field in further:
            text = field.name.removesuffix("label") + "text"
            columns += [
                Column(field.name, ColumnKind.INT64, f"label/{field.name}", required=True),
                Column(text, ColumnKind.BYTES, f"label/{text}", required=True),
            ]
        return tuple(columns)


CIFAR10 = CifarFormat(
    "CIFAR-10",
    {**{f"data_batch_{i}": "train" for i in range(1, 6)}, "test_batch": "test"},
    (
        LabelField(
            "label",
            "batches.meta.txt",
            10,
            (
                *("airplane", "automobile", "bird", "cat", "deer"),
                *("dog", "frog", "horse", "ship", "truck"),
            ),
        ),
    ),
    "batches.meta",
    ("cifar-10-batches-py", "cifar-10-batches-bin"),
)
CIFAR100 = CifarFormat(
    "CIFAR-100",
    {"train": "train", "test": "test"},
    (
        LabelField("coarse_label", "coarse_label_names.txt", 20),
        LabelField("fine_label", "fine_label_names.txt", 100),
    ),
    "meta",
    ("cifar-100-python", "cifar-100-binary"),
)


# --- the layout ----------------------------------------------------------------------------------


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
        if name in fmt.archives and (is_remote(uri) or os.path.isfile(uri)):
            return f"named {name}"
        if is_remote(uri):
            return f"named {name}" if name in fmt.folders else ""
        names = (*fmt.splits, *(batch + _BINARY for batch in fmt.splits), *fmt.name_files)
        for folder in self._folders(uri):
            first, second, *_ = (*_those_in(folder, names), "", "")
            if second:
                return f"{first} and {second} in {folder}"
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
        try:
            return self._open([files.canonical(path) for path in options.images])
        except (ContainerError, CifarError, OSError) as error:
            raise UsageError(f"--images: {error}") from error

    def _open(self, uris: Sequence[str]) -> Source:
        batches = {_batch_name(uri) for uri in uris}
        if self._format.splits.keys() >= batches and all(map(_is_file, uris)):
            if len(batches) < len(uris):
                raise UsageError("--images names a batch twice, expected each once")
            return self._open_batches(uris)
        uri = uris[0]
        if len(uris) != 1:
            raise UsageError(
                f"--images: {len(uris)} paths, expected one folder or archive, or single batches"
            )
        if uri.endswith((".gz", ".tgz")) if is_remote(uri) else os.path.isfile(uri):
            return self._open_archive(uri)
        return self._open_batches(self._batches_in(uri))

    def _folders(self, uri: str) -> list[str]:
        """Returns the folders that may contain the batches if the user named this folder."""
        return [uri, *(files.join(uri, name) for name in self._format.folders)]

    def _batches_in(self, uri: str) -> list[str]:
        """Returns the batches of the first version in a folder; another one has the same images."""
        for folder, suffix in itertools.product(self._folders(uri), ("", _BINARY)):
            names = [batch + suffix for batch in self._format.splits]
            there = _those_in(folder, names)
            if there == names:
                return [files.join(folder, name) for name in names]
            if there:
                raise UsageError(
                    f"--images: {folder} lacks {', '.join(n for n in names if n not in there)}; "
                    "download it again, or name the files that you want, such as "
                    f"{files.join(folder, there[0])}"
                )
        raise UsageError(
            f"--images {uri}: none of {self._format.title}'s files is there; expected "
            f"{next(iter(self._format.splits))} and the others, or a folder with them, such as "
            f"{self._format.folders[0]}"
        )

    def _open_batches(self, uris: Sequence[str]) -> Source:
        folder = posixpath.dirname(uris[0])
        contents = {}
        for name in _those_in(folder, self._format.name_files):
            with files.open_input(files.join(folder, name)) as file:
                contents[name] = file.read(_CHUNK_BYTES)
        return self._source(CifarReader(self._format), uris, contents, folder)

    def _open_archive(self, uri: str) -> Source:
        contents: dict[str, bytes] = {}
        missing = dict.fromkeys(self._format.splits)
        with files.open_input(uri) as file, archive_errors(uri):
            for name, content in members(file):
                missing.pop(_batch_name(name), None)
                if name in self._format.name_files:
                    contents[name] = content.read(_CHUNK_BYTES)
                    if name == self._format.meta_file or len(contents) == len(self._format.fields):
                        break  # the job reads the rest
        if missing and not contents:
            raise ContainerError(f"{uri} lacks {', '.join(missing)}; download it again")
        return self._source(CifarReader(self._format, archived=True), [uri], contents, uri)

    def _source(
        self, reader: CifarReader, uris: Sequence[str], contents: Mapping[str, bytes], where: str
    ) -> Source:
        fmt = self._format
        try:
            meanings = label_meanings(fmt, contents)
        except CifarError as error:
            raise CifarError(f"{where}: {error}") from error
        expected = " or ".join(fmt.name_files)
        note = (
            f"{where} does not contain {expected}; classes have the names that {fmt.title}'s have"
        )
        return Source(
            layout=self.name,
            roots=(),
            labels=ContainerLabels(replace(reader, meanings=meanings), tuple(uris)),
            examples=LabelledImages(fmt.columns, PIXELS),
            numbering=ClassNumbering(known=tuple((n, i) for i, n in enumerate(meanings[-1]))),
            notes=() if contents else (note,),
        )


cifar10 = functools.partial(Cifar, "cifar10", CIFAR10)
cifar100 = functools.partial(Cifar, "cifar100", CIFAR100)


def _batch_name(uri: str) -> str:
    return posixpath.basename(uri).removesuffix(_BINARY)


def _is_file(uri: str) -> bool:
    return files.exists(uri) if is_remote(uri) else os.path.isfile(uri)


def _those_in(folder: str, names: Iterable[str]) -> list[str]:
    """Returns the names that are files of a folder, which may contain any number of other files."""
    return [name for name in names if _is_file(files.join(folder, name))]


# --- batches and archives ------------------------------------------------------------------------


@dataclass(frozen=True)
class CifarReader:
    """Reads batches, or archives of them.

    Attributes:
      fmt: their data set.
      meanings: the meanings of its labels.
      archived: True if the files are archives.
    """

    fmt: CifarFormat
    meanings: Meanings = ()
    archived: bool = False

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
        missing = dict.fromkeys(self.fmt.splits if self.archived else [_batch_name(uri)])
        place = uri
        try:
            with files.open_input(uri) as file, archive_errors(uri):
                batches = members(file) if self.archived else [(posixpath.basename(uri), file)]
                for name, content in batches:
                    batch = _batch_name(name)
                    if batch in missing:
                        del missing[batch]
                        place = f"{uri}: {name}" if self.archived else uri
                        yield from self._read_batch(content, name, uri, unpack_to)
                    elif batch in self.fmt.splits:
                        raise ContainerError(f"{uri} contains {batch} twice, expected it once")
        except CifarError as error:
            raise ContainerError(f"{place}: {error}") from error
        except OSError as error:
            raise ContainerError(
                f"{uri} cannot be read, or not be unpacked to {unpack_to}: "
                f"{error.strerror or error}"
            ) from error
        if missing:
            raise ContainerError(f"{uri} lacks {', '.join(missing)}; download it again")

    def _read_batch(
        self, file: IO[bytes], name: str, uri: str, unpack_to: str
    ) -> Iterator[SampleRef | DeadLetter]:
        binary = name.endswith(_BINARY)
        in_place = binary and not self.archived and (not is_remote(uri) or is_remote(unpack_to))
        pixels = uri if in_place else files.join(unpack_to, name)
        read = read_records if binary else read_pickled
        offset = len(self.fmt.fields) if binary else 0
        unpacks = unpack_to and not in_place
        with files.open_output(pixels) if unpacks else nullcontext(NoSink()) as sink:
            all_labels, filenames = read(file, self.fmt, sink.write)
        batch_name, version = _batch_name(name), files.version_of(uri)
        split = self.fmt.splits[batch_name]
        for i, labels in enumerate(zip(*all_labels, strict=True)):
            key = f"{batch_name}/{i:05d}"
            filename = key if filenames is None else filenames[i]
            values = self._values(labels, filename)
            if isinstance(values, str):
                reason = Reason.BAD_LABEL_VALUE
                yield image_dead_letter(Stage.LABELS, key, uri, reason, values, file=uri)
            else:
                place = offset + i * (offset + PIXELS.size)
                yield SampleRef(key, pixels, PIXELS.size, split, values, place, uri, version)

    def _values(self, labels: Sequence[object], filename: object) -> tuple[LabelValue, ...] | str:
        """Returns the values of the columns, or the fault."""
        values: list[LabelValue] = []
        for field, meanings, label in zip(self.fmt.fields, self.meanings, labels, strict=True):
            if type(label) is not int or not 0 <= label < field.count:
                return f"{field.name} {excerpt(label)}, expected an integer from 0 to {field.count - 1}"
            values += label, meanings[label]
        name = as_text(filename)
        if name is None:
            return f"file name {excerpt(filename)}, expected text in UTF-8"
        return values[-1], name, *values[:-2]


def members(file: IO[bytes]) -> Iterator[tuple[str, IO[bytes]]]:
    """Yields (name without folders, content) of each file of a .tar.gz, in its order.

    Nothing is written, and no name is used as a path. The archive is read to the end, which contains
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
        while unzipped.read(_CHUNK_BYTES):
            pass


@contextmanager
def archive_errors(uri: str) -> Iterator[None]:
    """Turns errors of a block into the error that the archive is broken."""
    try:
        yield
    except (tarfile.TarError, gzip.BadGzipFile, EOFError, zlib.error, RecursionError) as error:
        raise ContainerError(
            f"{uri} is not a .tar.gz, or is damaged or cut short ({error}); download it again"
        ) from error


def read_records(file: IO[bytes], fmt: CifarFormat, copy_to: Callable[[bytes], None]) -> Batch:
    """Reads the labels of a file of the binary version.

    Args:
      file: open at its beginning.
      fmt: its data set.
      copy_to: takes the whole file, piece by piece.

    Raises:
      CifarError: the file is empty or ends within a record.
    """
    record, size = len(fmt.fields) + PIXELS.size, 0
    labels = tuple(bytearray() for _ in fmt.fields)
    while chunk := file.read(_CHUNK_BYTES):
        for index, values in enumerate(labels):
            values += chunk[(index - size) % record :: record]
        size += len(chunk)
        copy_to(chunk)
    if size % record or not size:
        raise CifarError(
            f"{size} bytes, expected records of {record} bytes: it is cut short, or no file of "
            f"{fmt.title}'s binary version; download it again"
        )
    return labels, None


def read_pickled(file: IO[bytes], fmt: CifarFormat, copy_to: Callable[[bytes], None]) -> Batch:
    """Reads a whole file of the Python version: 30 MB for CIFAR-10, 155 MB for CIFAR-100.

    Args:
      file: open at its beginning.
      fmt: its data set.
      copy_to: takes the pixels of all images, one image after another.

    Raises:
      CifarError: the file is not a pickle, uses a forbidden name, or contains other content.
    """
    content = unpickle(file)
    pixels = _pixels_of(content.get("data"))
    images = len(pixels) // PIXELS.size
    labels = tuple(_list_of(images, content, f"{field.name}s") for field in fmt.fields)
    named = content.get("filenames") is not None
    filenames = _list_of(images, content, "filenames") if named else None
    copy_to(pixels)
    return labels, filenames


def label_meanings(fmt: CifarFormat, contents: Mapping[str, bytes]) -> Meanings:
    """Returns the meanings of the labels of each field, in the order of their numbers.

    Args:
      fmt: the data set.
      contents: name -> content of its `name_files` that exist.

    Raises:
      CifarError: a file is missing or has other content; the message names it.
    """
    meanings = []
    for field in fmt.fields:
        pickled = fmt.meta_file in contents
        file_name = fmt.meta_file if pickled else field.names_file
        if file_name not in contents and field.names:
            meanings.append(field.names)
            continue
        if file_name not in contents:
            expected = f"{fmt.meta_file} or {' and '.join(fmt.name_files[1:])}"
            raise CifarError(
                f"the names of the classes, {expected}, are missing; download it again"
            )
        data = contents[file_name]
        try:
            key = f"{field.name}_names"
            values = (
                _list_of(field.count, unpickle(io.BytesIO(data)), key)
                if pickled
                else data.splitlines()
            )
            names = tuple(name for value in values if (name := (as_text(value) or "").strip()))
            if not len(names) == len(set(names)) == field.count:
                raise CifarError(
                    f"{len(set(names))} different names, expected {field.count}, one for each {field.name}"
                )
        except CifarError as error:
            raise CifarError(f"{file_name}: {error}") from error
        meanings.append(names)
    return tuple(meanings)


def _list_of(length: int, content: Mapping[str | None, object], key: str) -> list[object]:
    values = content.get(key)
    if not isinstance(values, list) or len(values) != length:
        raise CifarError(f"{key!r} is {excerpt(values)}, expected a list of {length}")
    return values


def _pixels_of(array: object) -> bytes:
    """Returns the pixels of all images, one image after another."""
    if isinstance(array, PickledArray) and isinstance(array.data, bytes | bytearray):
        images, rest = divmod(len(array.data), PIXELS.size)
        if images and not rest and (array.shape, array.type) == ((images, PIXELS.size), "u1"):
            return bytes(array.data)
    raise CifarError(
        f"'data' is {excerpt(array)}, expected a NumPy array of shape (images, {PIXELS.size}) and type "
        "u1, with all of its pixels"
    )
