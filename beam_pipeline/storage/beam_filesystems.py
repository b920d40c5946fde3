"""All schemes without their own class, by Apache Beam's file systems (azfs://, hdfs://)."""

from __future__ import annotations

import errno
import functools
import importlib.util
import io
import threading
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any, BinaryIO

from beam_pipeline.core.errors import UsageError
from beam_pipeline.core.uris import scheme_of
from beam_pipeline.storage.base import FileSystem, FoundFile

_UNCOMPRESSED = "uncompressed"
_CONTAINERS_KEPT = 8  # files that hold many images, such as CIFAR's batches of 30 MB


_EXTRAS = {
    "azfs": ("azure.storage.blob", "azure"),
    "hdfs": ("hdfs", "hadoop"),
}
"""Scheme -> the library that Beam needs for it, and Beam's extra that installs it."""

_WEB = frozenset({"http", "https", "ftp"})


def _beam(uri: str) -> Any:
    """Returns Beam's file systems. Raises UsageError if none supports the URI."""
    _check_scheme(scheme_of(uri))
    from apache_beam.io.filesystems import FileSystems

    return FileSystems


@functools.cache
def _check_scheme(scheme: str) -> None:
    """Checks that Beam has a file system for a scheme, and the library for it. Raises UsageError."""
    library, extra = _EXTRAS.get(scheme, ("", ""))
    if library and not _is_installed(library):
        raise UsageError(
            f"{scheme}:// needs {library}, which is not installed: pip install 'apache-beam[{extra}]'"
        )
    if library:
        return
    from apache_beam.io.filesystems import FileSystems

    try:
        FileSystems.get_filesystem(f"{scheme}://x/y")
    except ValueError as error:
        then = "download the files first" if scheme.lower() in _WEB else "copy the files there"
        raise UsageError(
            f"{scheme}:// cannot be read or written; expected local paths, gs://, s3://, az:// or "
            f"{'://, '.join(_EXTRAS)}://; {then}"
        ) from error


def _is_installed(library: str) -> bool:
    try:
        return importlib.util.find_spec(library) is not None
    except ImportError:  # not even its parent package is installed
        return False


class BeamFileSystem(FileSystem):
    """Files of any scheme that Beam has a file system for."""

    def __init__(self) -> None:
        self._container_lock = threading.Lock()
        self._container = functools.lru_cache(_CONTAINERS_KEPT)(self._read_whole)

    def read(self, uri: str, size: int = 0, offset: int = -1) -> bytes:
        """Reads a file, or part of it. Raises OSError.

        For a part, the whole file is read once and cached: a request for each of its images would
        take as long as reading it.
        """
        if offset < 0:
            return self._read_whole(uri)
        with self._container_lock:  # or parallel reads would fetch the same container
            container = self._container(uri)
        return container[offset : offset + size]

    def read_part(self, uri: str, size: int, offset: int) -> bytes:
        """Reads part of a file with a request of its own. Raises OSError."""
        with self.open_input(uri) as file:
            file.seek(offset)
            return file.read(size)

    def _read_whole(self, uri: str) -> bytes:
        with self.open_input(uri) as file:
            return file.read()

    def open_input(self, uri: str) -> BinaryIO:
        """Opens a file. Raises OSError."""
        systems = _beam(uri)
        try:
            raw: Any = systems.open(uri, compression_type=_UNCOMPRESSED)
        except OSError:
            raise
        except Exception as error:  # each of Beam's file systems raises its own client's errors
            raise OSError(errno.EIO, f"{type(error).__name__}: {error}", uri) from error
        return io.BufferedReader(raw) if isinstance(raw, io.RawIOBase) else raw

    def read_if_there(self, uri: str) -> bytes | None:
        """Reads a file if there is one; Beam's errors do not say whether a file is missing."""
        return self.read(uri) if self.exists(uri) else None

    def exists(self, uri: str) -> bool:
        """Tells whether there is a file or a folder."""
        return bool(_beam(uri).exists(uri))

    def size_of(self, uri: str) -> int:
        """Returns bytes, or -1."""
        if not self.exists(uri):
            return -1
        (found,) = _beam(uri).match([uri])
        return int(found.metadata_list[0].size_in_bytes)

    def check_readable(self, folder: str) -> None:
        """Checks that Beam has a file system for the folder. Raises UsageError."""
        _beam(folder)

    def prepare_folder(self, folder: str, probe: str) -> None:
        """Checks that Beam has a file system for the folder. Raises UsageError."""
        _beam(folder)

    def list_files(self, folder: str) -> Iterator[FoundFile]:
        """Lists every file below a folder. Raises what Beam's file system raises."""
        prefix = folder + "/"
        (found,) = _beam(folder).match([prefix + "**"])
        for metadata in found.metadata_list:
            if metadata.path != prefix:
                yield FoundFile(metadata.path[len(prefix) :], metadata.size_in_bytes)

    def open_output(self, uri: str, temporary: str, *, new: bool = False) -> RenamedFile:
        """Opens a `RenamedFile`; `new` is ignored, as Beam's file systems cannot detect other writers."""
        return RenamedFile(uri, temporary)

    def delete(self, uris: Sequence[str]) -> None:
        """Deletes files."""
        there = [uri for uri in uris if self.exists(uri)]
        if there:
            _beam(there[0]).delete(there)


class RenamedFile:
    """A file written under a temporary name and renamed when its `with` block ends.

    An older file is never deleted before the new one is in place, so a crash at any point loses
    neither:

    - Object stores (S3, Azure) rename by copying over the old object, which appears whole, and then
      deleting the temporary one. A crash between the two leaves the new file and a leftover.
    - Local disks rename over the old file in one step.
    - HDFS does not rename over a file. The old file is moved aside, to the temporary name with
      `.replaced` at its end, and deleted when the new one is in place. A crash in between leaves
      both under these names.
    """

    def __init__(self, uri: str, temporary: str) -> None:
        self._uri = uri
        self._temporary = temporary

    def __enter__(self) -> RenamedFile:
        self._file = _beam(self._uri).create(self._temporary, compression_type=_UNCOMPRESSED)
        return self

    def write(self, *buffers: bytes) -> None:
        """Adds buffers to the file."""
        for buffer in buffers:
            self._file.write(buffer)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()
        if kind is not None:
            _beam(self._uri).delete([self._temporary])
            return
        try:
            _beam(self._uri).rename([self._temporary], [self._uri])
        except OSError:
            has_folders = _beam(self._uri).get_filesystem(self._uri).has_dirs()
            if not (has_folders and _beam(self._uri).exists(self._uri)):  # it was not in the way
                raise
            self._replace()

    def _replace(self) -> None:
        """Moves the older file aside, renames the new one, and deletes the older one."""
        aside = f"{self._temporary}.replaced"
        _beam(self._uri).rename([self._uri], [aside])
        try:
            _beam(self._uri).rename([self._temporary], [self._uri])
        except OSError:
            _beam(self._uri).rename([aside], [self._uri])
            raise
        _beam(self._uri).delete([aside])
