"""Files by URI: each function passes the call on to the file system of its URI."""

from __future__ import annotations

import errno
import os
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import BinaryIO

from google_crc32c import extend

from beam_pipeline.core.dataset.names import temporary_name
from beam_pipeline.core.errors import UsageError
from beam_pipeline.core.records.record_format import Sink
from beam_pipeline.core.text import decoded
from beam_pipeline.core.uris import is_remote
from beam_pipeline.storage.base import FoundFile, all_of
from beam_pipeline.storage.registry import file_system

_CHUNK_BYTES = 1 << 20  # 1 MiB
_NOT_NORMAL = re.compile(r"//|/\.\.?(/|\Z)|/\Z")


def canonical(uri: str) -> str:
    """Returns the absolute form of a local path, or a URI without slashes at its end."""
    if uri.startswith("file://"):
        uri = uri[len("file://") :]
    if is_remote(uri):
        return uri.rstrip("/")
    if uri.startswith("/") and not _NOT_NORMAL.search(uri):  # fast, for a million inventory rows
        return uri
    return os.path.abspath(os.path.expanduser(uri))


def join(folder: str, *names: str) -> str:
    """Returns a URI below a folder."""
    if is_remote(folder):  # a name there may begin with a slash
        return "/".join((folder, *filter(None, names)))
    return posixpath.join(folder, *names)


def read_image(uri: str, size: int, offset: int = -1) -> bytes:
    """Reads a whole file, or one image of a file that holds several.

    Args:
      uri: the file.
      size: its bytes, as listed.
      offset: the first byte; -1 for the whole file.

    Raises:
      ChangedFileError: the whole file has another size now.
      OSError: the file is missing, cannot be read, or ends before `offset + size`.
    """
    if offset < 0:
        return file_system(uri).read_listed(uri, size)
    return all_of(file_system(uri).read(uri, size, offset), uri, size, offset)


def read_bytes(uri: str) -> bytes:
    """Reads a whole file. Raises OSError, also for a local pipe or device."""
    data = read_if_there(uri)
    if data is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), uri)
    return data


def read_if_there(uri: str) -> bytes | None:
    """Reads a whole file; returns None if it does not exist. Raises OSError."""
    return file_system(uri).read_if_there(uri)


def read_text(uri: str, name: str = "", *, most: int | None = None) -> str:
    """Reads a text file in UTF-8, with or without a byte order mark.

    Args:
      uri: the file.
      name: the file as messages name it; by default its URI.
      most: the bytes that it may have; None for any number.

    Raises:
      UsageError: the file is missing, cannot be read, is too long, or is not UTF-8.
    """
    try:
        size = size_of(uri) if most is not None else 0
        if most is not None and size > most:
            raise UsageError(f"{name or uri} has {size} bytes; expected {most} at most")
        data = read_bytes(uri)
    except OSError as error:
        raise UsageError(f"{name or uri} cannot be read: {error.strerror or error}") from error
    return decoded(data, name or uri)


def read_part(uri: str, size: int, offset: int) -> bytes:
    """Reads part of a file; fewer bytes if the file ends before. Raises OSError."""
    return file_system(uri).read_part(uri, size, offset)


def open_input(uri: str) -> BinaryIO:
    """Opens a file for reading and seeking. Raises OSError."""
    return file_system(uri).open_input(uri)


def exists(uri: str) -> bool:
    """True if a file or, where the storage has folders, a folder of this name exists."""
    return file_system(uri).exists(uri)


def size_of(uri: str) -> int:
    """Returns the size of a file in bytes; -1 if it does not exist."""
    return file_system(uri).size_of(uri)


def is_link(uri: str) -> bool:
    """Tells whether a name is a link to another file or folder; there are none in buckets."""
    return file_system(uri).is_link(uri)


def holds(uri: str, size: int, crc32c: int) -> bool:
    """True if a file has this length and this CRC-32C.

    A local file is read. Google Cloud Storage stores the checksums of its objects. Other storage
    has no partial files, and only the length is compared.

    Raises:
      OSError: the file cannot be read.
    """
    return file_system(uri).holds(uri, size, crc32c)


def is_older(uri: str, size: int, other: str) -> bool:
    """Tells, without reading, that a file has this length and was not written after another one.

    False where that is not known, as in buckets.

    Raises:
      OSError: one of them cannot be found.
    """
    return file_system(uri).is_older(uri, size, other)


def altered(folder: str, expected: Mapping[str, tuple[int, str]]) -> list[str]:
    """Returns the sorted names of files that are missing in a folder, or hold something else.

    Only Google Cloud Storage tells, whose listings have checksums; elsewhere the result is empty.

    Args:
      folder: the folder.
      expected: name -> (length in bytes, CRC-32C as a manifest has it).

    Raises:
      BucketError: the bucket does not exist or may not be listed.
      OSError: the listing broke off.
    """
    return file_system(folder).altered(folder, expected)


def free_bytes(folder: str) -> int | None:
    """Returns the bytes that can still be written to an existing folder; None if unknown."""
    return file_system(folder).free_bytes(folder)


def version_of(uri: str) -> int:
    """Returns a number that changes when a file does. Raises OSError.

    It is the time of the last change in nanoseconds for a local file, the generation in Google
    Cloud Storage, and 0 if unknown.
    """
    return file_system(uri).version_of(uri)


def list_folder(folder: str) -> list[str]:
    """Returns the sorted names in a folder, hidden ones included; none if it does not exist.

    For a remote folder, these are the relative paths of all files below it.
    """
    return file_system(folder).list_folder(folder)


def list_files(folder: str) -> Iterator[FoundFile]:
    """Lists every file below a folder by its relative path; those in `gs://` are sorted.

    Raises:
      BucketError: a bucket does not exist or may not be listed.
      Exception: an error of Beam's file systems.
    """
    return file_system(folder).list_files(folder)


def files_in(folder: str) -> dict[str, FoundFile]:
    """Returns name -> file for the files in a folder; for a remote one, by their relative paths."""
    return file_system(folder).files_in(folder)


def sizes_in(folder: str) -> dict[str, int]:
    """Returns name -> bytes for the files in a folder; for a remote one, by their relative paths."""
    return file_system(folder).sizes_in(folder)


def check_credentials(uris: Iterable[str]) -> None:
    """Checks before a job that there are credentials for these URIs.

    Raises:
      UsageError: there are none, or the library for them is not installed.
    """
    for found in {file_system(uri): None for uri in uris}:
        found.check_credentials()


def check_readable(folder: str) -> None:
    """Checks before a job that a bucket can be listed; other folders are checked by the job.

    Raises:
      ConversionError: there are no credentials, no such bucket, or no permission.
    """
    file_system(folder).check_readable(folder)


def written_by_beam(uri: str) -> bool:
    """True if Beam's own sinks can write to the storage of a URI."""
    return file_system(uri).written_by_beam


def make_folder(folder: str) -> None:
    """Makes a folder and its parents, where the storage has folders."""
    file_system(folder).make_folder(folder)


def prepare_folder(folder: str) -> None:
    """Makes a folder and its parents, or checks that a bucket can be written to.

    Raises:
      BucketError: the bucket does not exist, or a permission is missing.
    """
    file_system(folder).prepare_folder(folder, temporary_name(join(folder, "probe")))


def delete(folder: str, names: list[str]) -> None:
    """Deletes files in a folder; missing ones are no error."""
    if names:
        file_system(folder).delete([join(folder, name) for name in names])


def delete_folder(folder: str) -> None:
    """Deletes a folder with everything in it, if it exists."""
    file_system(folder).delete_folder(folder)


def remove_folder(folder: str) -> None:
    """Removes a folder if it is empty, where the storage has folders."""
    file_system(folder).remove_folder(folder)


def open_output(uri: str, *, new: bool = False) -> AbstractContextManager[Sink]:
    """Opens a file that appears under its name, whole, when its `with` block ends without error.

    Args:
      uri: the file; an older one is replaced, and stays whole until then.
      new: no other job may write this file at the same time. If the storage can detect that, an
        existing file is kept, and raises an OutputError if its bytes differ.
    """
    return file_system(uri).open_output(uri, temporary_name(uri), new=new)


def copy(source: str, uri: str, crc32c: int, *, new: bool = False) -> bool:
    """Makes a file of another one: a hard link on one disk, a copy by the service in one kind of
    bucket, else a plain copy, whose checksum is compared.

    Args:
      source: the other file.
      uri: the file; an older one is replaced.
      crc32c: of the other file.
      new: as in `open_output`.

    Returns: False, with nothing done, if a plain copy has another checksum.

    Raises:
      OSError: the other file is gone or cannot be read, or the file cannot be written.
    """
    system = file_system(uri)
    if file_system(source) is system and system.copy_from(
        source, uri, temporary_name(uri), new=new
    ):
        return True
    try:
        with open_input(source) as file, open_output(uri, new=new) as sink:
            found = 0
            while chunk := file.read(_CHUNK_BYTES):
                found = extend(found, chunk)
                sink.write(chunk)
            if found != crc32c:
                raise _OtherBytesError
    except _OtherBytesError:
        return False
    return True


class _OtherBytesError(Exception):
    """Keeps a file from appearing that holds other bytes than it should."""


def write_bytes(uri: str, data: bytes, *, new: bool = False) -> None:
    """Writes a whole file atomically; replaces an older one; `new` is `open_output`'s."""
    with open_output(uri, new=new) as file:
        file.write(data)
