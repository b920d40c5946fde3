"""The protocol of file systems: the operations of each kind of storage on files named by URIs."""

from __future__ import annotations

import errno
import io
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import BinaryIO, NamedTuple

from google_crc32c import extend

from beam_pipeline.core.errors import ChangedFileError
from beam_pipeline.core.records.record_format import Sink

CHUNK_BYTES = 1 << 20  # 1 MiB


class FoundFile(NamedTuple):
    """A file, as its storage describes it.

    Attributes:
      name: its path relative to the folder that was listed, or its URI.
      size: bytes.
      version: changes when the file does, such as the generation in a bucket; 0 if unknown.
      digest: MD5 of its bytes, if it was asked for and the storage knows it; else empty.
      crc32c: CRC-32C of its bytes as a manifest has it, with the same conditions.
    """

    name: str
    size: int
    version: int = 0
    digest: bytes = b""
    crc32c: str = ""


class FileSystem(ABC):
    """One kind of storage.

    A new kind is a subclass in a new file, and a line in `files.py`. URIs are in the form that
    `files.canonical` returns: a local path is absolute, and no URI ends with a slash. Every method
    may be called from several threads at once, and raises OSError unless documented otherwise.
    Methods that a storage cannot have, such as writing a member of an archive, refuse.

    Attributes:
      lists_ranges: True if listings are sorted by name and may begin and end at any name, so that
        ranges of names can be listed in parallel with `list_range` and `first_name`.
      lists_digests: True if `list_range` can give digests.
    """

    lists_ranges = False
    lists_digests = False

    # Read.

    @abstractmethod
    def read(self, uri: str, size: int = 0, offset: int = -1) -> bytes:
        """Reads a whole file, or part of it.

        Args:
          uri: the file.
          size: the number of bytes to read from `offset`, or the expected size of the whole file,
            which is a hint only.
          offset: the first byte to read; -1 for the whole file, whatever its size is now.

        Returns: the bytes; fewer than `size` if the file ends before.
        """

    def read_listed(self, uri: str, size: int) -> bytes:
        """Reads a whole file that was listed earlier.

        Args:
          uri: the file.
          size: its bytes, as listed.

        Raises:
          ChangedFileError: it has another size now.
        """
        data = self.read(uri, size)
        if len(data) != size:
            raise ChangedFileError.of_sizes(len(data), size)
        return data

    def open_input(self, uri: str) -> BinaryIO:
        """Opens a file for reading and seeking."""
        raise _unsupported(uri)

    def read_if_there(self, uri: str) -> bytes | None:
        """Reads a whole file; returns None if it does not exist."""
        try:
            return self.read(uri)
        except FileNotFoundError:
            return None

    # Inspect.

    @abstractmethod
    def find(self, uri: str) -> FoundFile:
        """Describes a file, with its URI as its name. Raises FileNotFoundError."""

    def describe(self, uri: str) -> FoundFile | None:
        """Describes a file as `find`; None if it does not exist."""
        try:
            return self.find(uri)
        except FileNotFoundError:
            return None

    def size_of(self, uri: str) -> int:
        """Returns the size of a file in bytes; -1 if it does not exist."""
        described = self.describe(uri)
        return described.size if described else -1

    def version_of(self, uri: str) -> int:
        """Returns the file's `FoundFile.version`."""
        return self.find(uri).version

    def exists(self, uri: str) -> bool:
        """True if a file or, where the storage has folders, a folder of this name exists."""
        return self.size_of(uri) >= 0

    def holds(self, uri: str, size: int, crc32c: int) -> bool:
        """True if a file has this length and, if the storage can determine it, this checksum.

        Storage without partial files and without checksums compares only the length.
        """
        return self.size_of(uri) == size

    def is_older(self, uri: str, size: int, later: str) -> bool:
        """Tells, without reading, that a file has this length and was not written after another one.

        False where the storage cannot tell.
        """
        return False

    def altered(self, folder: str, expected: Mapping[str, tuple[int, str]]) -> list[str]:
        """Returns the sorted names of files that are missing in a folder, or contain something else.

        Only where a listing tells; elsewhere none, and a claim keeps other jobs out if one can.

        Args:
          folder: the folder.
          expected: name -> (length in bytes, CRC-32C as a manifest has it).
        """
        return []

    def changed_at(self, uri: str) -> int:
        """Returns the time of the file's last change: a number that is larger for later ones. Raises OSError."""
        return self.version_of(uri)

    # List.

    @abstractmethod
    def list_files(self, folder: str) -> Iterator[FoundFile]:
        """Lists every file below a folder, at any depth.

        Raises:
          BucketError: the bucket does not exist or may not be listed.
          Exception: an error of a Beam file system.
        """

    def list_folder(self, folder: str) -> list[str]:
        """Returns the sorted names in a folder, hidden ones included; none if it does not exist.

        Storage without folders returns the relative paths of all files below.
        """
        return sorted(file.name for file in self.list_files(folder))

    def files_in(self, folder: str) -> dict[str, FoundFile]:
        """Returns name -> file for the files that `list_folder` names."""
        return {file.name: file for file in self.list_files(folder)}

    def list_range(
        self, uri_prefix: str, start: str = "", end: str = "", *, digests: bool = False
    ) -> Iterator[FoundFile]:
        """Lists the files whose URIs begin with a prefix, sorted by name, if `lists_ranges`.

        Args:
          uri_prefix: a prefix of URIs; with a slash at its end, the files in a folder.
          start: the first name to list, relative to the prefix.
          end: the first name not to list, relative to the prefix; empty for no end.
          digests: ask for the files' digests, if `lists_digests`.
        """
        raise NotImplementedError

    def first_name(self, uri_prefix: str, start: str = "", end: str = "") -> str | None:
        """Returns the first name of a range, with one request; None if the range is empty.

        It takes the arguments of `list_range`. An object that represents a folder counts.
        """
        raise NotImplementedError

    # Check, before a job starts.

    def check_credentials(self) -> None:
        """Checks that there are credentials. Raises UsageError."""
        return

    def check_readable(self, folder: str) -> None:
        """Checks that a folder can be listed, if that takes one request. Raises ConversionError."""
        return

    def prepare_folder(self, folder: str, probe: str) -> None:
        """Makes a folder and its parents where the storage has folders; else checks write access.

        Args:
          folder: the folder.
          probe: a URI below it that may be written and deleted as a check.

        Raises:
          BucketError: the bucket does not exist, or a permission is missing.
        """
        self.make_folder(folder)

    # Write.

    def open_output(
        self, uri: str, temporary: str, *, new: bool = False
    ) -> AbstractContextManager[Sink]:
        """Opens a file that appears under its name, whole, when its `with` block ends without error.

        An older file stays whole until then, also if the process is killed at any point.

        Args:
          uri: the file; an older one is replaced.
          temporary: a unique URI to write to first, where the storage needs one.
          new: no other job may write this file at the same time. If the storage can detect that, an
            existing file is kept, and raises an OutputError if its bytes differ.
        """
        raise _unsupported(uri)

    def copy_from(self, source: str, uri: str, temporary: str, *, new: bool = False) -> bool:
        """Makes a file of another file of this storage; no byte of it passes this machine.

        The file appears whole, and stays what it is when the other one is deleted.

        Args:
          source: the other file.
          uri: the file; an older one is replaced.
          temporary: a unique URI that may be used on the way.
          new: as in `open_output`.

        Returns: False, with nothing done, where the storage cannot do that.
        """
        return False

    def make_folder(self, folder: str) -> None:
        """Makes a folder and its parents, where the storage has folders."""
        return

    def remove_folder(self, folder: str) -> None:
        """Removes a folder if it is empty, where the storage has folders."""
        return

    def delete(self, uris: Sequence[str]) -> None:
        """Deletes files of one folder; missing ones are ignored."""
        for uri in uris:
            raise _unsupported(uri)

    def delete_folder(self, folder: str) -> None:
        """Deletes everything in a folder, and the folder, if it exists."""
        self.delete([f"{folder}/{name}" for name in self.list_folder(folder)])


class FileSink:
    """Writes buffers to an open file."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def write(self, *buffers: bytes) -> None:
        """Adds buffers to the file."""
        for buffer in buffers:
            self._file.write(buffer)


def _unsupported(uri: str) -> OSError:
    return io.UnsupportedOperation(errno.EROFS, "a member of an archive is only read", uri)


def checksum_of(file: BinaryIO) -> int:
    """Returns the CRC-32C of the rest of a file."""
    crc = 0
    while chunk := file.read(CHUNK_BYTES):
        crc = extend(crc, chunk)
    return crc
