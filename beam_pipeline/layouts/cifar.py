"""CIFAR-10 and CIFAR-100 as downloaded: pickled or binary batches, unpacked or in their archive.

An image is 32 x 32 RGB, 3,072 bytes: the red plane, then green, then blue, each row by row. A file
of the binary version contains records: a byte for each label, then the image. A file of the Python
version contains a pickled dict: the images as a NumPy array, one row each, and lists of labels and
file names. It was pickled by Python 2, so its texts are bytes.

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
from beam_pipeline.core.dead_letters import DeadLetter, Reason, Stage, image_dead_letter
from beam_pipeline.core.errors import ContainerError, UsageError
from beam_pipeline.core.images.preparation import PixelFormat
from beam_pipeline.core.labels import schema
from beam_pipeline.core.labels.classes import ClassNumbering
from beam_pipeline.core.records.example_source import LabelledImages
from beam_pipeline.core.references import LabelValue, SampleRef
from beam_pipeline.core.text import excerpt
from beam_pipeline.core.uris import is_remote
from beam_pipeline.layouts.layout import ContainerLabels, NoSink, Source, SourceOptions
from beam_pipeline.storage import files

PIXELS = PixelFormat(32, 32)
_BINARY = ".bin"
_CHUNK_BYTES = 1 << 20  # 1 MiB; files of names have 2 kB at most
_MAX_FILE_BYTES = 256 << 20  # 256 MiB; CIFAR-100's largest file has 148
_MAX_TUPLES = 64  # CIFAR's files have 7 at most
_FILE_NAME = schema.Column("filename", schema.ColumnKind.BYTES, "image/filename", required=True)

Batch = tuple[tuple[Sequence[object], ...], Sequence[object] | None]
"""For each label field, the labels of all images; the images' names, or None. Both are unchecked."""


class CifarError(ValueError):
    """A file does not have the expected content. The message does not name the file."""


# --- the layout ----------------------------------------------------------------------------------


class Cifar:
    """One of the two data sets, in either version.

    Attributes:
      name, option_names, reads_labels: as of `Layout`.
      title: its name in messages.
      splits: name of a batch's file, without `.bin` -> split.
      fields: label of each image -> the number of its meanings, in the order of a binary record; the last one is
        the class. A pickled batch calls the list of labels `<name>s`, and the pickled meta file calls the list of
        their meanings `<name>_names`.
      columns: the class, the file's name, and number and meaning of each further label.
      name_files: the files with the meanings: the Python version's, then the binary version's for each field.
      folders: the folders that its archives unpack to.
      names: the meanings of the class where no file gives them; empty if a file has to.
    """

    name: ClassVar[str]
    option_names: ClassVar[frozenset[str]] = frozenset()
    reads_labels = False
    title: ClassVar[str]
    splits: ClassVar[Mapping[str, str]]
    fields: ClassVar[Mapping[str, int]]
    columns: ClassVar[tuple[schema.Column, ...]]
    name_files: ClassVar[tuple[str, ...]]
    folders: ClassVar[tuple[str, str]]
    names: ClassVar[tuple[str, ...]] = ()

    def recognise(self, options: SourceOptions) -> str:
        """Recognises a folder with two or more of its files, the folder above, or its archive."""
        if len(options.images) != 1:
            return ""
        uri = files.canonical(options.images[0])
        name = posixpath.basename(uri)
        archives = [f"{self.title.lower()}-{version}.tar.gz" for version in ("python", "binary")]
        if is_remote(uri) or (name in archives and os.path.isfile(uri)):
            return f"named {name}" if name in (*archives, *self.folders) else ""
        for folder, batches in self._batches_below(uri):
            there = [*batches, *_those_in(folder, self.name_files)]
            if len(there) > 1:
                return f"{there[0]} and {there[1]} in {folder}"
        return ""

    def open(self, options: SourceOptions) -> Source:
        """Finds the batches, and reads the meanings of their labels.

        Raises:
          UsageError: all or some batches are missing, or no file gives the meanings of the labels.
        """
        uris = [files.canonical(path) for path in options.images]
        uri, archived, expected = uris[0], False, " or ".join(self.name_files)
        try:
            batches = {_batch_name(uri) for uri in uris}
            named = self.splits.keys() >= batches and all(map(_is_file, uris))
            if len(batches) < len(uris) or not (named or len(uris) == 1):
                raise UsageError(
                    f"--images: {len(uris)} paths, expected one folder or archive, or single batches, each once"
                )
            if not named:
                archived = uri.endswith((".gz", ".tgz")) if is_remote(uri) else os.path.isfile(uri)
                uris = uris if archived else self._batches_of(uri)
            where = uri if archived else posixpath.dirname(uris[0])
            contents = self._names_in(where, archived)
            meanings = self.meanings(contents)
        except CifarError as error:
            raise UsageError(f"--images: {where}, {expected}: {error}") from error
        except (ContainerError, OSError) as error:
            raise UsageError(f"--images: {error}") from error
        usual = f"classes have the names that {self.title}'s have"
        return Source(
            layout=self.name,
            roots=(),
            labels=ContainerLabels(CifarReader(self, meanings, archived), tuple(uris)),
            examples=LabelledImages(self.columns, PIXELS),
            numbering=ClassNumbering(known=tuple((n, i) for i, n in enumerate(meanings[-1]))),
            notes=() if contents else (f"{where} does not contain {expected}; {usual}",),
        )

    def _batches_below(self, uri: str) -> Iterator[tuple[str, list[str]]]:
        """(folder, batches of its first version) of the folder given and of its own folders; others have the same images."""
        for folder in (uri, *(files.join(uri, name) for name in self.folders)):
            binary = [batch + _BINARY for batch in self.splits]
            yield folder, _those_in(folder, self.splits) or _those_in(folder, binary)

    def _batches_of(self, uri: str) -> list[str]:
        """The URIs of all batches in a folder or below. Raises UsageError."""
        for folder, there in self._batches_below(uri):
            missing = self.splits.keys() - {*map(_batch_name, there)}
            if there and missing:
                raise UsageError(
                    f"--images: {folder} lacks {', '.join(sorted(missing))}; download it again, or name the files "
                    f"that you want, such as {files.join(folder, there[0])}"
                )
            if there:
                return [files.join(folder, name) for name in there]
        raise UsageError(
            f"--images {uri}: none of {self.title}'s files is there; expected {next(iter(self.splits))} and the "
            f"others, or a folder with them, such as {self.folders[0]}"
        )

    def _names_in(self, where: str, archived: bool) -> dict[str, bytes]:
        """Name -> content of the files with the meanings of labels, in a folder or an archive."""
        if not archived:
            uris = {name: files.join(where, name) for name in _those_in(where, self.name_files)}
            return {name: files.read_part(uri, _CHUNK_BYTES, 0) for name, uri in uris.items()}
        contents: dict[str, bytes] = {}
        missing = dict.fromkeys(self.splits)
        with files.open_input(where) as file, archive_errors(where):
            for name, content in members(file):
                missing.pop(_batch_name(name), None)
                if name in self.name_files:
                    contents[name] = content.read(_CHUNK_BYTES)
                    if name == self.name_files[0] or len(contents) == len(self.fields):
                        return contents  # the job reads the rest
        if missing:
            raise ContainerError(f"{where} lacks {', '.join(missing)}; download it again")
        return contents

    def meanings(self, contents: Mapping[str, bytes]) -> tuple[tuple[str, ...], ...]:
        """The meanings of the labels of each field, in the order of their numbers.

        Args:
          contents: name -> content of its `name_files` that exist.

        Raises:
          CifarError: a file is missing or has other content.
        """
        meta, *name_files = self.name_files
        meanings = []
        for (field, count), name_file in zip(self.fields.items(), name_files, strict=True):
            values: Sequence[object] = self.names
            if meta in contents:
                pickled = unpickle(io.BytesIO(contents[meta]))
                values = _list_of(count, pickled, f"{field}_names")
            elif name_file in contents:
                values = contents[name_file].splitlines()
            names = tuple(name for value in values if (name := (_as_text(value) or "").strip()))
            if not len(names) == len(set(names)) == count:
                raise CifarError(
                    f"{len(set(names))} different names, expected {count}, one for each {field}; download it again"
                )
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
    name_files = ("batches.meta", "batches.meta.txt")
    folders = ("cifar-10-batches-py", "cifar-10-batches-bin")
    names = (
        *("airplane", "automobile", "bird", "cat", "deer"),
        *("dog", "frog", "horse", "ship", "truck"),
    )


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
    name_files = ("meta", "coarse_label_names.txt", "fine_label_names.txt")
    folders = ("cifar-100-python", "cifar-100-binary")


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
      meanings: the meanings of its labels, for each field.
      archived: True if the files are archives.
    """

    fmt: Cifar
    meanings: tuple[tuple[str, ...], ...] = ()
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
            if missing:
                raise ContainerError(f"{uri} lacks {', '.join(missing)}; download it again")
        except CifarError as error:
            raise ContainerError(f"{place}: {error}") from error
        except OSError as error:
            fault = f"cannot be read, or not be unpacked to {unpack_to}: {error.strerror or error}"
            raise ContainerError(f"{uri} {fault}") from error

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
        batch, version, size = _batch_name(name), files.version_of(uri), PIXELS.size
        split = self.fmt.splits[batch]
        for i, labels in enumerate(zip(*all_labels, strict=True)):
            key, place = f"{batch}/{i:05d}", offset + i * (offset + size)
            try:
                values = self._values(labels, key if filenames is None else filenames[i])
            except CifarError as error:
                reason = Reason.BAD_LABEL_VALUE
                yield image_dead_letter(Stage.LABELS, key, uri, reason, str(error), file=uri)
            else:
                yield SampleRef(key, pixels, size, split, values, place, uri, version)

    def _values(self, labels: Sequence[object], filename: object) -> tuple[LabelValue, ...]:
        """Returns the values of the columns. Raises CifarError."""
        values: list[LabelValue] = []
        for field, meanings, label in zip(self.fmt.fields, self.meanings, labels, strict=True):
            most = self.fmt.fields[field] - 1
            if type(label) is not int or not 0 <= label <= most:
                raise CifarError(f"{field} {excerpt(label)}, expected an integer from 0 to {most}")
            values += label, meanings[label]
        name = _as_text(filename)
        if name is None:
            raise CifarError(f"file name {excerpt(filename)}, expected text in UTF-8")
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


def read_records(file: IO[bytes], fmt: Cifar, copy_to: Callable[[bytes], None]) -> Batch:
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
        problem = f"{size} bytes, expected records of {record} bytes: it is cut short, or no file"
        raise CifarError(f"{problem} of {fmt.title}'s binary version; download it again")
    return labels, None


def read_pickled(file: IO[bytes], fmt: Cifar, copy_to: Callable[[bytes], None]) -> Batch:
    """Reads a whole file of the Python version: 30 MB for CIFAR-10, 155 MB for CIFAR-100.

    Args:
      file: open at its beginning.
      fmt: its data set.
      copy_to: takes the pixels of all images, one image after another.

    Raises:
      CifarError: the file is not a pickle, uses a forbidden name, or contains other content.
    """
    content = unpickle(file)
    array = content.get("data")
    pixels = array.data if isinstance(array, _Array) and array.type == "u1" else None
    pixels = bytes(pixels) if isinstance(pixels, bytes | bytearray) else b""
    images, rest = divmod(len(pixels), PIXELS.size)
    if not images or rest or getattr(array, "shape", None) != (images, PIXELS.size):
        expected = (
            f"a NumPy array of shape (images, {PIXELS.size}) and type u1, with all of its pixels"
        )
        raise CifarError(f"'data' is {excerpt(array)}, expected {expected}")
    labels = tuple(_list_of(images, content, f"{field}s") for field in fmt.fields)
    named = content.get("filenames") is not None
    filenames = _list_of(images, content, "filenames") if named else None
    copy_to(pixels)
    return labels, filenames


def _list_of(length: int, content: Mapping[str | None, object], key: str) -> list[object]:
    values = content.get(key)
    if not isinstance(values, list) or len(values) != length:
        raise CifarError(f"{key!r} is {excerpt(values)}, expected a list of {length}")
    return values


# --- pickles --------------------------------------------------------------------------------------


class _DType:
    """Stands for `numpy.dtype`."""

    def __init__(self, name: object = None, *_: object) -> None:
        self.name = _as_text(name)

    def __setstate__(self, state: object) -> None:
        """Ignores byte order and alignment, which do not matter for a type of one byte."""


class _Array:
    """Stands for `numpy.ndarray`, and for the function that makes an empty array to fill."""

    shape: object = None
    type: object = None
    data: object = None

    def __init__(self, *_: object) -> None:
        """Ignores the description of the empty array."""

    def __setstate__(self, state: Any) -> None:
        """Fills it from (version, shape, type, in Fortran order, bytes)."""
        _, self.shape, dtype, is_fortran, self.data = state
        name = dtype.name if isinstance(dtype, _DType) else None
        self.type = f"{name} in Fortran order" if is_fortran else name

    def __repr__(self) -> str:
        return f"a NumPy array of shape {excerpt(self.shape)} and type {excerpt(self.type)}"


class _Unpickler(pickle.Unpickler):
    """Finds stand-ins for what pickled NumPy arrays use, and nothing else: a pickle can call all that it names.

    NumPy's own functions trust a pickle: a forged dtype turns an array of bytes into one of pointers, and reading
    it crashes the process. Each stand-in has a `__setstate__`, so that the opcode BUILD calls that, and cannot set
    attributes of the class for the next pickle to find.
    """

    admitted: Mapping[str, type] = {
        "numpy.dtype": _DType,
        "numpy.ndarray": _Array,
        "numpy.core.multiarray._reconstruct": _Array,
        "numpy._core.multiarray._reconstruct": _Array,  # since NumPy 2
    }

    def find_class(self, module_name: str, global_name: str) -> type:
        name = f"{module_name}.{global_name}"
        if name not in self.admitted:
            risk = "a pickle can run anything by such a name, and CIFAR's needs only NumPy's arrays"
            raise CifarError(f"refuses {name}: {risk}; use the file as downloaded")
        return self.admitted[name]


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
