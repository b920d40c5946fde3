"""Local files, read with few system calls, and written so that they appear whole."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import shutil
import stat
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import BinaryIO

from beam_pipeline.core.errors import ChangedFileError
from beam_pipeline.core.records.record_format import Sink
from beam_pipeline.storage.base import FileSink, FileSystem, FoundFile, checksum_of

_LARGE_BYTES = 16 << 20  # 16 MiB; compared with reading that much, one more call is negligible
_BUFFER_BYTES = 256 << 10  # 256 KiB
_DESCRIPTORS = resource.getrlimit(resource.RLIMIT_NOFILE)[0]  # below 0: without a limit
_MOST_OPEN = max(1, min(64, _DESCRIPTORS // 8)) if _DESCRIPTORS >= 0 else 64  # of one reader
_NO_SYNC = frozenset({errno.EINVAL, errno.EBADF, errno.ENOSYS, errno.ENOTSUP})
_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK  # or opening a pipe would wait for a writer


def open_regular(path: str) -> int:
    """Opens a regular file for reading and returns its descriptor.

    Opening a pipe would wait for a writer, perhaps forever, and opening a device can have side
    effects.

    Raises:
      OSError: the file cannot be opened, or it is a folder, a pipe, a socket or a device.
    """
    try:
        file = os.open(path, _READ | os.O_NOCTTY)
    except ValueError as error:  # a null character, or half of a surrogate pair
        raise OSError(errno.EINVAL, f"no name of a file ({error})", path) from error
    mode = os.fstat(file).st_mode
    if stat.S_ISREG(mode):
        return file
    os.close(file)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    raise OSError(errno.EINVAL, "a pipe, socket or device, not a file", path)


def read_and_close(file: int, path: str, size: int) -> bytes:
    """Reads a file that is open at its beginning, with one read, and closes it.

    Args:
      file: its descriptor.
      path: a local path.
      size: its bytes as listed; no more are read.

    Raises:
      ChangedFileError: it has another size now, or is not a file any more.
      OSError: it cannot be read.
    """
    try:
        if size > _LARGE_BYTES:
            _check_listed(file, size)  # before memory is allocated
        try:
            data = os.read(file, size + 1)  # a file that has grown returns the extra byte
        except BlockingIOError:  # a pipe whose writer has written nothing
            data = b""
        if len(data) == size > 0:
            return data
        _check_listed(file, size)
        while len(data) < size:  # the system cuts reads at 2 GiB
            rest = os.read(file, size - len(data))
            if not rest:
                raise ChangedFileError.of_sizes(len(data), size)
            data += rest
        return data
    finally:
        os.close(file)


def _check_listed(file: int, size: int) -> None:
    """Raises OSError unless an open file is regular and has the size that it was listed with."""
    status = os.fstat(file)
    if not stat.S_ISREG(status.st_mode):
        raise ChangedFileError(f"a folder, pipe or device, listed as a file of {size} bytes")
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
    with contextlib.suppress(OSError):  # a pipe, for instance; reading it reports that
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_WILLNEED)
    return file


class _OpenFile:
    """A regular file, open for reading as long as something refers to it."""

    descriptor = -1

    def __init__(self, path: str) -> None:
        self.descriptor = open_regular(path)

    def __del__(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)


class OpenFiles:
    """Reads parts of local files; those that were read last stay open until this object goes.

    Several threads may use it, and forked processes: no position is shared. A file that another thread
    puts out of the cache is open until its read ends. A pickled copy opens files itself.
    """

    def __init__(self) -> None:
        self._opened = lru_cache(_MOST_OPEN)(_OpenFile)

    def __reduce__(self) -> tuple[type[OpenFiles], tuple[()]]:
        return OpenFiles, ()

    def read(self, path: str, size: int, offset: int) -> bytes:
        """Reads that many bytes, fewer where the file ends. Raises OSError."""
        file = self._opened(path)
        return os.pread(file.descriptor, size, offset)


class LocalFiles(FileSystem):
    """Files of the operating system, by their absolute paths."""

    def read(self, uri: str, size: int = 0, offset: int = -1) -> bytes:
        with open(open_regular(uri), "rb", buffering=0) as file:
            return file.readall() if offset < 0 else os.pread(file.fileno(), size, offset)

    def read_listed(self, uri: str, size: int) -> bytes:
        return read_and_close(os.open(uri, _READ), uri, size)

    def open_input(self, uri: str) -> BinaryIO:
        """Opens a regular file. Raises OSError, also for a folder, pipe or device."""
        return os.fdopen(open_regular(uri), "rb")

    def find(self, uri: str) -> FoundFile:
        """Describes anything of this name; its version is the time of the last change in nanoseconds."""
        status = os.stat(uri)
        return FoundFile(uri, status.st_size, status.st_mtime_ns)

    def exists(self, uri: str) -> bool:
        """Tells whether the path exists; a dangling link does."""
        return os.path.lexists(uri)

    def holds(self, uri: str, size: int, crc32c: int) -> bool:
        """Compares the length, then reads the file for its checksum, 4 GB in a second if it is cached."""
        try:
            with self.open_input(uri) as file:
                if os.fstat(file.fileno()).st_size != size:
                    return False
                return checksum_of(file) == crc32c
        except (FileNotFoundError, IsADirectoryError):
            return False

    def is_older(self, uri: str, size: int, later: str) -> bool:
        """Compares the times of the last change; False for a pipe or folder. Raises FileNotFoundError."""
        status = os.stat(uri)
        if status.st_size != size or not stat.S_ISREG(status.st_mode):
            return False
        return status.st_mtime_ns <= os.stat(later).st_mtime_ns

    def describe(self, uri: str) -> FoundFile | None:
        """Describes a regular file; None for anything else."""
        # ValueError: a null character
        with contextlib.suppress(FileNotFoundError, NotADirectoryError, ValueError):
            status = os.stat(uri)
            if stat.S_ISREG(status.st_mode):
                return FoundFile(uri, status.st_size, status.st_mtime_ns)
        return None

    def list_files(self, folder: str) -> Iterator[FoundFile]:
        """Lists the files below a folder; links to folders are not followed."""
        for above, _, names in os.walk(folder):
            for name in names:
                path = os.path.join(above, name)
                yield self.find(path)._replace(name=os.path.relpath(path, folder))

    def list_folder(self, folder: str) -> list[str]:
        try:
            return sorted(os.listdir(folder))
        except FileNotFoundError:
            return []

    def files_in(self, folder: str) -> dict[str, FoundFile]:
        """Returns name -> file for the files in a folder itself. Raises OSError."""
        with os.scandir(folder) as entries:
            return {
                entry.name: self.find(entry.path)._replace(name=entry.name)
                for entry in entries
                if entry.is_file()
            }

    def open_output(
        self, uri: str, temporary: str, *, new: bool = False
    ) -> contextlib.AbstractContextManager[Sink]:
        """Opens an `atomic_file`; `new` is ignored, because the system cannot detect other writers."""
        return atomic_file(uri, temporary)

    def copy_from(self, source: str, uri: str, temporary: str, *, new: bool = False) -> bool:
        """Makes a hard link: one file with two names. False between disks, or where there are none."""
        if os.path.islink(source):  # a link to it would be relative to another folder
            return False
        os.makedirs(os.path.dirname(temporary), exist_ok=True)
        try:
            os.link(source, temporary)
        except FileNotFoundError:
            raise
        except OSError:  # another disk, or hard links are unsupported, not permitted or too many
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
        os.makedirs(folder, exist_ok=True)

    def remove_folder(self, folder: str) -> None:
        with contextlib.suppress(OSError):  # an empty folder that stays does no harm
            os.rmdir(folder)

    def delete(self, uris: Sequence[str]) -> None:
        for uri in uris:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(uri)

    def delete_folder(self, folder: str) -> None:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def atomic_file(path: str, temporary: str) -> Iterator[FileSink]:
    """Opens a local file that appears under its name whole or not at all.

    It is written under a temporary name and moved with `os.replace` when the `with` block ends; an
    error in the block removes it.

    After the block, the file survives a power failure: first its content is synced to the disk
    (`fsync`), then its name. So a file that is written later, such as a receipt, never exists
    without the shard that it describes.

    Args:
      path: the file.
      temporary: a unique path on the same disk, in a folder that need not exist.
    """
    os.makedirs(os.path.dirname(temporary), exist_ok=True)
    file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        with open(file, "wb", _BUFFER_BYTES) as buffered:
            yield FileSink(buffered)
            buffered.flush()
            _sync(file)
        os.replace(temporary, path)  # not onto a folder of this name
    except BaseException:
        os.unlink(temporary)
        raise
    sync_folder(os.path.dirname(path))


def sync_folder(folder: str) -> None:
    """Syncs the names in a folder to the disk, if the folder may be read."""
    try:
        file = os.open(folder or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except PermissionError:
        return
    try:
        _sync(file)
    finally:
        os.close(file)


def _sync(file: int) -> None:
    """Syncs a file to the disk, if its file system supports that."""
    try:
        os.fsync(file)
    except OSError as error:
        if error.errno not in _NO_SYNC:
            raise
