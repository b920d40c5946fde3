"""Members of archives as files (tar://, zip://), each read from a range of its archive."""

from __future__ import annotations

import errno
import io
from collections.abc import Iterator, Sequence
from typing import BinaryIO, NoReturn

from beam_pipeline.core.archives.members import content, parse_member_uri
from beam_pipeline.storage.base import FileSystem, FoundFile
from beam_pipeline.storage.files import file_system


class ArchiveMembers(FileSystem):
    """Members of archives in any storage. They are read, and nothing else."""

    def read_listed(self, uri: str, size: int) -> bytes:
        """Reads a member with one read of its archive. Raises OSError, ChangedFileError."""
        archive, member = parse_member_uri(uri)
        return content(
            member, file_system(archive).read_part(archive, member.length, member.at), size
        )

    def read(self, uri: str, size: int = 0, offset: int = -1) -> bytes:
        """Reads a member whose size is known. Raises OSError."""
        data = self.read_listed(uri, size)
        return data if offset < 0 else data[offset:]

    def open_input(self, uri: str) -> BinaryIO:
        """Refuses, since the size is unknown. Raises OSError."""
        _refuse(uri)

    def size_of(self, uri: str) -> int:
        """Returns -1."""
        return -1

    def list_files(self, folder: str) -> Iterator[FoundFile]:
        """Lists nothing."""
        return iter(())

    def open_output(self, uri: str, temporary: str, *, new: bool = False) -> NoReturn:
        """Refuses. Raises OSError."""
        _refuse(uri)

    def delete(self, uris: Sequence[str]) -> None:
        """Refuses. Raises OSError."""
        for uri in uris:
            _refuse(uri)


def _refuse(uri: str) -> NoReturn:
    raise io.UnsupportedOperation(errno.EROFS, "a member of an archive is only read", uri)
