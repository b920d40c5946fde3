"""Local files, read with few system calls."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
from collections.abc import Iterator, Sequence
from typing import BinaryIO

from google_crc32c import extend

from beam_pipeline.core.records.shard_writer import ChangedFileError
from beam_pipeline.storage.atomic_file import AtomicFile, sync_folder
from beam_pipeline.storage.base import FileSystem, FoundFile
from beam_pipeline.storage.regular_file import open_regular

_CHUNK_BYTES = 1 << 20  # 1 MiB
_LARGE_BYTES = 16 << 20  # 16 MiB; compared with reading that much, one more call is negligible
_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK  # or opening a pipe would wait for a writer


def read_file(path: str) -> bytes:
    """Reads a whole file. Raises OSError."""
    with open(open_regular(path), "rb", buffering=0) as file:
        return file.readall()


def read_listed(path: str, size: int) -> bytes:
    """Reads a file that was listed earlier, with one read.

    Args:
      path: a local path.
      size: its bytes as listed; no more are read.

    Raises:
      ChangedFileError: it has another size now, or is no longer a file.
      OSError: it cannot be opened or read.
    """
    return read_and_close(os.open(path, _READ), path, size)


def read_and_close(file: int, path: str, size: int) -> bytes:
    """Reads a file that is open at its beginning, as `read_listed` does, and closes it."""
    try:
        if size > _LARGE_BYTES:
            _check_listed(file, path, size)  # before memory is allocated
        try:
            data = os.read(file, size + 1)  # a file that has grown returns the extra byte
        except BlockingIOError:  # a pipe whose writer has written nothing
            data = b""
        if len(data) == size > 0:
            return data
        _check_listed(file, path, size)
        while len(data) < size:  # the system cuts reads at 2 GiB
            rest = os.read(file, size - len(data))
            if not rest:
                raise ChangedFileError.of_sizes(len(data), size)
            data += rest
        return data
    finally:
        os.close(file)


def _check_listed(file: int, path: str, size: int) -> None:
    """Raises OSError unless an open file is regular and has the size that it was listed with."""
    status = os.fstat(file)
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if not stat.S_ISREG(status.st_mode):
        raise ChangedFileError(f"a pipe or a device, listed as a file of {size} bytes")
    if status.st_size != size:
        raise ChangedFileError.of_sizes(status.st_size, size)


def open_prefetched(path: str) -> int:
    """Opens a file for reading and asks the kernel to fetch it into the page cache.

    The kernel fetches one read-ahead window of it in the background.

    Returns: the file descriptor, or -1 if the file cannot be opened; reading it later reports why.
    """
    try:
        file = os.open(path, _READ)
    except OSError:
        return -1
    try:
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_WILLNEED)
    except OSError:  # a pipe, for instance; reading it reports that
        pass
    return file


def read_range(path: str, size: int, offset: int) -> bytes:
    """Reads part of a file; returns fewer bytes if it ends before. Raises OSError."""
    file = open_regular(path)
    try:
        return os.pread(file, size, offset)
    finally:
        os.close(file)


class LocalFiles(FileSystem):
    """Files of the operating system, by their absolute paths."""

    def read(self, uri: str, size: int = 0, offset: int = -1) -> bytes:
        """Reads a file, or part of it with one read. Raises OSError."""
        return read_file(uri) if offset < 0 else read_range(uri, size, offset)

    def read_listed(self, uri: str, size: int) -> bytes:
        """Reads a file with one read, up to its listed size. Raises OSError."""
        return read_and_close(os.open(uri, _READ), uri, size)

    def read_if_there(self, uri: str) -> bytes | None:
        """Reads a regular file; None if it does not exist. Raises OSError, also for a pipe or device."""
        try:
            return read_file(uri)
        except FileNotFoundError:
            return None

    def open_input(self, uri: str) -> BinaryIO:
        """Opens a regular file. Raises OSError, also for a folder, pipe or device."""
        return os.fdopen(open_regular(uri), "rb")

    def size_of(self, uri: str) -> int:
        """Returns bytes, or -1."""
        try:
            return os.stat(uri).st_size
        except FileNotFoundError:
            return -1

    def exists(self, uri: str) -> bool:
        """Tells whether the path exists; a dangling link does."""
        return os.path.lexists(uri)

    def is_link(self, uri: str) -> bool:
        """Tells whether the path is a symbolic link."""
        return os.path.islink(uri)

    def holds(self, uri: str, size: int, crc32c: int) -> bool:
        """Compares the length, then reads the file for its checksum, 4 GB in a second if it is cached."""
        try:
            with self.open_input(uri) as file:
                if os.fstat(file.fileno()).st_size != size:
                    return False
                crc = 0
                while chunk := file.read(_CHUNK_BYTES):
                    crc = extend(crc, chunk)
        except (FileNotFoundError, IsADirectoryError):
            return False
        return crc == crc32c

    def is_older(self, uri: str, size: int, other: str) -> bool:
        """Compares the times of the last change; a pipe or folder is none. Raises FileNotFoundError."""
        status = os.stat(uri)
        if status.st_size != size or not stat.S_ISREG(status.st_mode):
            return False
        return status.st_mtime_ns <= os.stat(other).st_mtime_ns

    def free_bytes(self, folder: str) -> int | None:
        """Returns the bytes that the file system of a folder has left for this user, if it says so."""
        try:
            status = os.statvfs(folder)
        except OSError:
            return None
        return status.f_bavail * status.f_frsize

    def version_of(self, uri: str) -> int:
        """Returns the time of the last change in nanoseconds. Raises OSError."""
        return os.stat(uri).st_mtime_ns

    def list_files(self, folder: str) -> Iterator[FoundFile]:
        """Lists the files below a folder; links to folders are not followed."""
        for above, _, names in os.walk(folder):
            for name in names:
                path = os.path.join(above, name)
                status = os.stat(path)
                yield FoundFile(os.path.relpath(path, folder), status.st_size, status.st_mtime_ns)

    def list_folder(self, folder: str) -> list[str]:
        """Returns the names in a folder, sorted."""
        try:
            return sorted(os.listdir(folder))
        except FileNotFoundError:
            return []

    def files_in(self, folder: str) -> dict[str, FoundFile]:
        """Returns name -> file for the files in a folder itself. Raises OSError."""
        with os.scandir(folder) as entries:
            found = [(entry.name, entry.stat()) for entry in entries if entry.is_file()]
        return {name: FoundFile(name, at.st_size, at.st_mtime_ns) for name, at in found}

    def open_output(self, uri: str, temporary: str, *, new: bool = False) -> AtomicFile:
        """Opens an `AtomicFile`; `new` is ignored, as the system cannot detect other writers."""
        return AtomicFile(uri, temporary)

    def copy_from(self, source: str, uri: str, temporary: str, *, new: bool = False) -> bool:
        """Makes a hard link: one file with two names. False between disks, or where there are none."""
        if os.path.islink(source):  # a link to it would be relative to another folder
            return False
        os.makedirs(os.path.dirname(temporary), exist_ok=True)
        try:
            os.link(source, temporary)
        except FileNotFoundError:
            raise
        except OSError:  # another disk, no hard links there, too many of them, or not permitted
            return False
        try:
            os.replace(temporary, uri)
        finally:
            # Where both names are of one file already, nothing was moved.
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)
        sync_folder(os.path.dirname(uri))
        return True

    def make_folder(self, folder: str) -> None:
        """Makes a folder and its parents."""
        os.makedirs(folder, exist_ok=True)

    def remove_folder(self, folder: str) -> None:
        """Removes a folder if it is empty."""
        try:
            os.rmdir(folder)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT, errno.ENOTDIR):
                raise

    def delete(self, uris: Sequence[str]) -> None:
        """Deletes files."""
        for uri in uris:
            try:
                os.unlink(uri)
            except FileNotFoundError:
                pass

    def delete_folder(self, folder: str) -> None:
        """Deletes a folder with everything in it."""
        shutil.rmtree(folder, ignore_errors=True)
