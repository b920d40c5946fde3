"""CIFAR-10 and CIFAR-100 as downloaded, in the Python version: pickled batches, unpacked or in their archive.

An image is 32 x 32 RGB, 3,072 bytes: the red plane, then green, then blue, each row by row. A file contains a pickled
dict: the images as a NumPy array, one row each, and lists of labels and file names. It was pickled by Python 2, so its
texts are bytes. The binary version has the same images and is not read.

Source: https://www.cs.toronto.edu/~kriz/cifar.html
"""

from __future__ import annotations

import gzip
import io
import os
import pickle
import pickletools
import posixpath
import tarfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from typing import IO, Any, ClassVar

from beam_pipeline.core.archives import TarHeader
from beam_pipeline.core.errors import ContainerError, UsageError
from beam_pipeline.core.images.preparation import PixelFormat
from beam_pipeline.core.labels import schema
from beam_pipeline.core.labels.classes import ClassNumbering
from beam_pipeline.core.records.example_source import LabelledImages
from beam_pipeline.core.references import SampleRef
from beam_pipeline.core.text import excerpt
from beam_pipeline.core.uris import is_remote
from beam_pipeline.layouts.layout import ContainerLabels, NoSink, Source, SourceOptions
from beam_pipeline.storage import files

PIXELS = PixelFormat(32, 32)
_CHUNK_BYTES = 1 << 20  # 1 MiB; files of names have 2 kB at most
_MAX_FILE_BYTES = 256 << 20  # 256 MiB; CIFAR-100's largest file has 148
_MAX_TUPLES = 64  # CIFAR's files have 7 at most
_FILE_NAME = schema.Column("filename", schema.ColumnKind.BYTES, "image/filename", required=True)

Batch = tuple[tuple[Sequence[Any], ...], Sequence[str]]
"""For each label field, the labels of all images, unchecked; the images' names, or none."""


class CifarError(ValueError):
    """A file does not have the expected content. The message does not name the file."""


# --- the layout ----------------------------------------------------------------------------------


class Cifar:
    """One of the two data sets.

    Attributes:
      name, option_names, reads_labels: as of `Layout`.
      title: its name in messages.
      splits: name of a batch's file -> split.
      fields: label of each image -> the number of its meanings; the last one is the class. A batch calls the list of
        labels `<name>s`, and the file with the meanings calls theirs `<name>_names`.
      columns: the class, the file's name, and number and meaning of each further label.
      name_file: the file with the meanings.
      folder: the folder that its archive unpacks to.
    """

    name: ClassVar[str]
    option_names: ClassVar[frozenset[str]] = frozenset()
    reads_labels = False
    title: ClassVar[str]
    splits: ClassVar[Mapping[str, str]]
    fields: ClassVar[Mapping[str, int]]
    columns: ClassVar[tuple[schema.Column, ...]]
    name_file: ClassVar[str]
    folder: ClassVar[str]

    def recognise(self, options: SourceOptions) -> str:
        """Recognises a folder with two or more of its files, the folder above, or its archive."""
        if len(options.images) != 1:
            return ""
        uri = files.canonical(options.images[0])
        name = posixpath.basename(uri)
        archives = [f"{self.title.lower()}-{version}.tar.gz" for version in ("python", "binary")]
        if is_remote(uri) or (name in archives and os.path.isfile(uri)):
            return f"named {name}" if name in (*archives, self.folder) else ""
        folder, batches = self._batches_in(uri)
        first, second = [*batches, *_those_in(folder, [self.name_file]), "", ""][:2]
        return f"{first} and {second} in {folder}" if second else ""

    def open(self, options: SourceOptions) -> Source:
        """Finds the batches, and reads the meanings of their labels.

        Raises:
          UsageError: batches are missing, or no file gives the meanings of the labels.
        """
        uris = [files.canonical(path) for path in options.images]
        uri, archived = uris[0], False
        try:
            batches = set(map(posixpath.basename, uris))
            named = self.splits.keys() >= batches and all(map(_is_file, uris))
            if len(batches) < len(uris) or not (named or len(uris) == 1):
                raise UsageError(
                    f"--images: {len(uris)} paths, expected one folder or archive, or single batches, each once"
                )
            if not named:
                archived = uri.endswith((".gz", ".tgz")) if is_remote(uri) else os.path.isfile(uri)
                uris = uris if archived else self._all_batches_in(uri)
            where = uri if archived else posixpath.dirname(uris[0])
            meanings = self.meanings(self._names_in(where, archived))
        except CifarError as error:
            raise UsageError(f"--images: {where}, {self.name_file}: {error}") from error
        except (ContainerError, OSError) as error:
            raise UsageError(f"--images: {error}") from error
        return Source(
            layout=self.name,
            roots=(),
            labels=ContainerLabels(CifarReader(self, meanings, archived), tuple(uris)),
            examples=LabelledImages(self.columns, PIXELS),
            numbering=ClassNumbering(known=tuple((n, i) for i, n in enumerate(meanings[-1]))),
        )

    def _batches_in(self, uri: str) -> tuple[str, list[str]]:
        """A folder, or the usual one in it, and the names of the batches there."""
        for folder in (uri, files.join(uri, self.folder)):
            if batches := _those_in(folder, self.splits):
                return folder, batches
        return uri, []

    def _all_batches_in(self, uri: str) -> list[str]:
        """The URIs of all batches. Raises UsageError."""
        folder, batches = self._batches_in(uri)
        if missing := sorted(self.splits.keys() - {*batches}):
            raise UsageError(
                f"--images: {folder} lacks {', '.join(missing)} of {self.title}'s Python version; expected all of its "
                f"files, or a folder with {self.folder}. Download it again, or name single files"
            )
        return [files.join(folder, name) for name in batches]

    def _names_in(self, where: str, archived: bool) -> bytes:
        """The content of the file with the meanings of labels, in a folder or an archive; empty without one."""
        uri = where if archived else files.join(where, self.name_file)
        if not archived and not _is_file(uri):
            return b""
        with opened(uri, archived) as inside:
            contents = (file.read(_CHUNK_BYTES) for name, file in inside if name == self.name_file)
            return next(contents, b"")  # the job reads the rest

    def meanings(self, data: bytes) -> tuple[tuple[str, ...], ...]:
        """The meanings of the labels of each field, in the order of their numbers. Raises CifarError.

        Args:
          data: the content of `name_file`.
        """
        if not data:
            raise CifarError(f"no such file; download {self.title.lower()}-python.tar.gz")
        content, meanings = unpickle(io.BytesIO(data)), []
        for field, count in self.fields.items():
            values = map(_as_text, _list_of(count, content, f"{field}_names"))
            names = tuple(dict.fromkeys(name for v in values if (name := (v or "").strip())))
            if len(names) < count:
                problem = f"{len(names)} different names, expected {count}, one for each {field}"
                raise CifarError(f"{problem}; download it again")
            meanings.append(names)
        return tuple(meanings)


class Cifar10(Cifar):
    """60,000 images in 10 classes."""

    name = "cifar10"
    title = "CIFAR-10"
    splits: ClassVar[Mapping[str, str]] = {
        **{f"data_batch_{i}": "train" for i in range(1, 6)},
        "test_batch": "test",
    }
    fields: ClassVar[Mapping[str, int]] = {"label": 10}
    columns = (schema.label_column("label", schema.ColumnKind.CLASS), _FILE_NAME)
    name_file = "batches.meta"
    folder = "cifar-10-batches-py"


class Cifar100(Cifar):
    """60,000 images in 100 classes, which are in 20 coarse ones."""

    name = "cifar100"
    title = "CIFAR-100"
    splits: ClassVar[Mapping[str, str]] = {"train": "train", "test": "test"}
    fields: ClassVar[Mapping[str, int]] = {"coarse_label": 20, "fine_label": 100}
    columns = (
        schema.label_column("fine_label", schema.ColumnKind.CLASS),
        _FILE_NAME,
        schema.Column("coarse_label", schema.ColumnKind.INT64, "label/coarse_label", required=True),
        schema.Column("coarse_text", schema.ColumnKind.BYTES, "label/coarse_text", required=True),
    )
    name_file = "meta"
    folder = "cifar-100-python"


def _is_file(uri: str) -> bool:
    return files.exists(uri) if is_remote(uri) else os.path.isfile(uri)


def _those_in(folder: str, names: Iterable[str]) -> list[str]:
    """The names that are files of a folder, which may contain any number of other files."""
    return [name for name in names if _is_file(files.join(folder, name))]


# --- batches and archives ------------------------------------------------------------------------


@dataclass(frozen=True)
class CifarReader:
    """Reads batches, or archives of them.

    Attributes:
      fmt: their data set.
      meanings: the meanings of its labels, for each field.
      archived: True if the files are archives.
    """

    fmt: Cifar
    meanings: tuple[tuple[str, ...], ...] = ()
    archived: bool = False

    def read(self, uri: str, unpack_to: str) -> Iterator[SampleRef]:
        """Yields a reference to each image; its key is `<batch>/<number, from 00000>`.

        Batches are unpacked first, to one file each, named after it.

        Args:
          uri: the file.
          unpack_to: a folder for unpacked batches.

        Raises:
          ContainerError: the file is broken or cannot be unpacked.
        """
        missing = dict.fromkeys(self.fmt.splits if self.archived else [posixpath.basename(uri)])
        place = uri
        try:
            with opened(uri, self.archived) as batches:
                for batch, content in batches:
                    if batch in missing:
                        del missing[batch]
                        place = f"{uri}: {batch}" if self.archived else uri
                        yield from self._read_batch(content, batch, uri, unpack_to)
                    elif batch in self.fmt.splits:
                        raise ContainerError(f"{uri} contains {batch} twice, expected it once")
            if missing:
                raise ContainerError(f"{uri} lacks {', '.join(missing)}; download it again")
        except CifarError as error:
            raise ContainerError(f"{place}: {error}") from error
        except OSError as error:
            fault = f"cannot be read, or not be unpacked to {unpack_to}: {error.strerror or error}"
            raise ContainerError(f"{uri} {fault}") from error

    def _read_batch(
        self, file: IO[bytes], batch: str, uri: str, unpack_to: str
    ) -> Iterator[SampleRef]:
        pixels = files.join(unpack_to, batch)
        with files.open_output(pixels) if unpack_to else nullcontext(NoSink()) as sink:
            all_labels, filenames = read_pickled(file, self.fmt, sink.write)
        for (field, count), labels in zip(self.fmt.fields.items(), all_labels, strict=True):
            for label in labels:
                if type(label) is not int or not 0 <= label < count:
                    fault = f"{field} {excerpt(label)}, expected an integer from 0 to {count - 1}"
                    raise CifarError(f"{fault}; download it again")
        version, size, split = files.version_of(uri), PIXELS.size, self.fmt.splits[batch]
        keys = [f"{batch}/{i:05d}" for i in range(len(all_labels[0]))]
        rows = zip(keys, filenames or keys, *all_labels, strict=True)
        for i, (key, filename, *labels) in enumerate(rows):
            meanings = zip(labels, self.meanings, strict=True)
            *further, text = [value for n, texts in meanings for value in (n, texts[n])]
            values = text, filename, *further[:-1]
            yield SampleRef(key, pixels, size, split, values, i * size, uri, version)


@contextmanager
def opened(uri: str, archived: bool) -> Iterator[Iterable[tuple[str, IO[bytes]]]]:
    """Opens a file: (name, content) of itself, or of each file in an archive. Raises ContainerError for a broken one."""
    with files.open_input(uri) as file:
        try:
            yield members(file) if archived else [(posixpath.basename(uri), file)]
        except (tarfile.TarError, gzip.BadGzipFile, EOFError, zlib.error, RecursionError) as error:
            fault = f"is not a .tar.gz, or is damaged or cut short ({error})"
            raise ContainerError(f"{uri} {fault}; download it again") from error


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


def read_pickled(file: IO[bytes], fmt: Cifar, copy_to: Callable[[bytes], None]) -> Batch:
    """Reads a whole batch: 30 MB for CIFAR-10, 155 MB for CIFAR-100.

    Args:
      file: open at its beginning.
      fmt: its data set.
      copy_to: takes the pixels of all images, one image after another.

    Raises:
      CifarError: the file is not a pickle, uses a forbidden name, or contains other content.
    """
    content = unpickle(file)
    match getattr(array := content.get("data"), "state", None):
        case (_, shape, _Made(given=(b"u1" | "u1", *_)), False, bytes(pixels)) if pixels:
            images = len(pixels) // PIXELS.size
        case _:
            shape, images, pixels = None, 0, b""
    if shape != (images, PIXELS.size) or len(pixels) != images * PIXELS.size:
        expected = (
            f"a NumPy array of shape (images, {PIXELS.size}) and type u1, with all of its pixels"
        )
        raise CifarError(f"'data' is {excerpt(array)}, expected {expected}")
    labels = tuple(_list_of(images, content, f"{field}s") for field in fmt.fields)
    named = content.get("filenames") is not None
    texts = map(_as_text, _list_of(images, content, "filenames") if named else ())
    filenames = [text for text in texts if text is not None]
    if named and len(filenames) < images:
        raise CifarError(f"{images - len(filenames)} of the file names is not a text in UTF-8")
    copy_to(pixels)
    return labels, filenames


def _list_of(length: int, content: Mapping[str | None, object], key: str) -> list[object]:
    values = content.get(key)
    if not isinstance(values, list) or len(values) != length:
        raise CifarError(f"{key!r} is {excerpt(values)}, expected a list of {length}")
    return values


# --- pickles --------------------------------------------------------------------------------------


class _Made:
    """Stands for what a pickle makes with NumPy: an array, or its type.

    Attributes:
      given: what it is made of; the name of a type comes first.
      state: of an array: version, shape, type, whether it is in Fortran order, bytes.
    """

    state: object = None

    def __init__(self, *given: object) -> None:
        self.given = given

    def __setstate__(self, state: object) -> None:
        self.state = state

    def __repr__(self) -> str:
        return "a NumPy array"


class _Unpickler(pickle.Unpickler):
    """Finds a stand-in for what pickled NumPy arrays use, and nothing else: a pickle can call all that it names.

    NumPy's own functions trust a pickle: a forged dtype turns an array of bytes into one of pointers, and reading
    it crashes the process. The stand-in has a `__setstate__`, so that the opcode BUILD calls that, and cannot set
    attributes of the class for the next pickle to find.
    """

    admitted = (
        *("numpy.dtype", "numpy.ndarray", "numpy.core.multiarray._reconstruct"),
        "numpy._core.multiarray._reconstruct",  # since NumPy 2
    )

    def find_class(self, module_name: str, global_name: str) -> type:
        name = f"{module_name}.{global_name}"
        if name not in self.admitted:
            risk = "a pickle can run anything by such a name, and CIFAR's needs only NumPy's arrays"
            raise CifarError(f"refuses {name}: {risk}; use the file as downloaded")
        return _Made


def unpickle(file: IO[bytes]) -> dict[str | None, object]:
    """Reads a pickled dict whose keys are texts of Python 2 or 3, without running anything that it names.

    Raises:
      CifarError: the file is not a pickle of that, uses a forbidden name, or is too large.
    """
    data = file.read(_MAX_FILE_BYTES + 1)
    if len(data) > _MAX_FILE_BYTES:
        raise CifarError(
            f"more than {_MAX_FILE_BYTES >> 20} MiB, expected a file of CIFAR's, of 148 MiB at most"
        )
    try:
        _check_opcodes(data)
        content = _Unpickler(io.BytesIO(data), encoding="bytes").load()
    except CifarError:
        raise
    except Exception as error:  # broken pickles raise nearly any
        problem = f"{type(error).__name__} {error}"[:200].strip()
        raise CifarError(
            f"not a pickle, or one that is cut short ({problem}); download it again"
        ) from error
    if not isinstance(content, dict):
        raise CifarError(f"contains {excerpt(content)}, expected a dict")
    return {_as_text(key): value for key, value in content.items()}


def _check_opcodes(data: bytes) -> None:
    """Refuses a pickle that would crash the C unpickler, or make it fill the memory.

    - Tuples nested a million deep, used to key a dict, overflow the C stack when they are hashed.
    - `LONG_BINPUT 2147483647` makes the unpickler's memo, an array, that long: 32 GiB. Real
      picklers number the objects that they memorise from 0 or 1 on.
    - Bytes with a stated length beyond the end of the file would be allocated; `genops` detects
      that.
    """
    tuples = 0
    for count, (opcode, argument, _) in enumerate(pickletools.genops(data), 1):
        tuples += opcode.name.startswith("TUPLE")
        if tuples > _MAX_TUPLES:
            raise CifarError(
                f"contains more than {_MAX_TUPLES} tuples, expected a dict of lists and one array"
            )
        if opcode.name.endswith("PUT") and not 0 <= (argument or 0) <= count:
            raise CifarError(
                f"numbers a value {argument} where at most {count} were expected; use the file as downloaded"
            )


def _as_text(value: object) -> str | None:
    """Returns a text pickled by Python 2 or 3; None if it is something else, or not UTF-8."""
    with suppress(UnicodeDecodeError):
        value = value.decode() if isinstance(value, bytes) else value
    return value if isinstance(value, str) else None
