"""All schemes without their own class, by Apache Beam's file systems (azfs://, hdfs://)."""

from __future__ import annotations

import contextlib
import errno
import functools
import importlib
import io
import logging
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

from beam_pipeline.core.errors import UsageError
from beam_pipeline.core.uris import scheme_of
from beam_pipeline.storage.base import FileSink, FileSystem, FoundFile

_UNCOMPRESSED = "uncompressed"
_EXTRAS = {"azfs": ("azure.storage.blob", "azure"), "hdfs": ("hdfs", "hadoop")}
"""Scheme -> the library that Beam needs for it, and Beam's extra that installs it."""

_WEB = frozenset({"http", "https", "ftp"})


def _beam(uri: str) -> Any:
    """Returns Beam's file systems. Raises UsageError if none supports the URI."""
    _check_scheme(scheme_of(uri))
    return _file_systems()


@functools.cache
def _file_systems() -> Any:
    """Imports Beam's, without what it logs about services that are not installed."""
    before = logging.root.manager.disable
    logging.disable(max(before, logging.WARNING))
    try:
        return importlib.import_module("apache_beam.io.filesystems").FileSystems
    finally:
        logging.disable(before)


@functools.cache
def _check_scheme(scheme: str) -> None:
    """Checks that Beam has a file system for a scheme, and the library for it. Raises UsageError."""
    library, extra = _EXTRAS.get(scheme, ("", ""))
    try:
        if library:
            importlib.import_module(library)
        else:
            _file_systems().get_filesystem(f"{scheme}://x/y")
    except ImportError as error:
        raise UsageError(
            f"{scheme}:// needs {library}, which is not installed: pip install 'apache-beam[{extra}]'"
        ) from error
    except ValueError as error:
        then = "download the files first" if scheme.lower() in _WEB else "copy the files there"
        raise UsageError(
            f"{scheme}:// cannot be read or written; expected local paths, gs://, s3://, az:// or "
            f"{'://, '.join(_EXTRAS)}://; {then}"
        ) from error


class BeamFileSystem(FileSystem):
    """Files of any scheme that Beam has a file system for."""

    def read(self, uri: str, size: int = 0, offset: int = -1) -> bytes:
        with self.open_input(uri) as file:
            if offset < 0:
                return file.read()
            file.seek(offset)
            return file.read(size)

    def open_input(self, uri: str) -> BinaryIO:
        systems = _beam(uri)
        try:
            raw: Any = systems.open(uri, compression_type=_UNCOMPRESSED)
        except OSError:
            raise
        except Exception as error:  # each Beam file system raises its own client's errors
            raise OSError(errno.EIO, f"{type(error).__name__}: {error}", uri) from error
        return io.BufferedReader(raw) if isinstance(raw, io.RawIOBase) else raw

    def read_if_there(self, uri: str) -> bytes | None:
        """Reads a file if there is one; Beam's errors do not tell whether a file is missing."""
        return self.read(uri) if self.exists(uri) else None

    def exists(self, uri: str) -> bool:
        return bool(_beam(uri).exists(uri))

    def find(self, uri: str) -> FoundFile:
        if not self.exists(uri):
            raise FileNotFoundError(errno.ENOENT, "no such file", uri)
        (match,) = _beam(uri).match([uri])
        return FoundFile(uri, int(match.metadata_list[0].size_in_bytes))

    def version_of(self, uri: str) -> int:
        """Returns 0, without a request."""
        return 0

    def check_readable(self, folder: str) -> None:
        """Checks that Beam has a file system for the folder. Raises UsageError."""
        _beam(folder)

    def prepare_folder(self, folder: str, probe: str) -> None:
        self.check_readable(folder)

    def list_files(self, folder: str) -> Iterator[FoundFile]:
        prefix = folder + "/"
        (match,) = _beam(folder).match([prefix + "**"])
        for metadata in match.metadata_list:
            if metadata.path != prefix:
                yield FoundFile(metadata.path[len(prefix) :], metadata.size_in_bytes)

    @contextlib.contextmanager
    def open_output(self, uri: str, temporary: str, *, new: bool = False) -> Iterator[FileSink]:
        """Opens a file that is written under a temporary name and renamed when the `with` block ends.

        `new` is ignored, because Beam's file systems cannot detect other writers. An older file is never
        deleted before the new one is in place, so a crash at any point loses neither:

        - Object stores rename by copying over the old object, which appears whole, and then
          deleting the temporary one. A crash between the two leaves the new file and a leftover.
        - Local disks rename over the old file in one step.
        - HDFS does not rename over a file. The old file is moved aside, to the temporary name with
          `.replaced` at its end, and deleted when the new one is in place. A crash in between leaves
          both under these names.
        """
        beam = _beam(uri)
        file = beam.create(temporary, compression_type=_UNCOMPRESSED)
        try:
            yield FileSink(file)
        except BaseException:
            file.close()
            beam.delete([temporary])
            raise
        file.close()
        try:
            beam.rename([temporary], [uri])
        except OSError:
            has_folders = beam.get_filesystem(uri).has_dirs()
            if not (has_folders and beam.exists(uri)):  # no older file was in the way
                raise
            aside = f"{temporary}.replaced"
            beam.rename([uri], [aside])
            try:
                beam.rename([temporary], [uri])
            except OSError:
                beam.rename([aside], [uri])
                raise
            beam.delete([aside])

    def delete(self, uris: Sequence[str]) -> None:
        there = [uri for uri in uris if self.exists(uri)]
        if there:
            _beam(there[0]).delete(there)
