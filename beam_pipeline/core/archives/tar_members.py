"""The members of a tar, one header after another; no content is read."""

from __future__ import annotations

import tarfile
import zlib
from collections.abc import Iterator
from typing import IO, TYPE_CHECKING, BinaryIO

from beam_pipeline.core.archives.members import (
    TAR,
    TAR_BLOCK,
    ArchiveError,
    Entry,
    Member,
    plain_name,
)
from beam_pipeline.core.text import shown

if TYPE_CHECKING:
    from typing_extensions import Self

_MAX_ATTRIBUTE_BYTES = 1 << 16  # 64 KiB; real names have up to 4
_MAX_GLOBAL_ATTRIBUTES = 1000
_ATTRIBUTE_TYPES = frozenset(
    {
        tarfile.GNUTYPE_LONGNAME,
        tarfile.GNUTYPE_LONGLINK,
        tarfile.XHDTYPE,
        tarfile.XGLTYPE,
        tarfile.SOLARIS_XHDTYPE,
    }
)
_LOOKED_BEHIND = 1 << 20  # 1 MiB, for a second archive behind the end of the first


class TarHeader(tarfile.TarInfo):
    """A member of an archive, whose header takes little memory.

    A name or other attributes that do not fit a header come in a member of their own, which `tarfile`
    reads whole; in a hostile archive it may have gigabytes.

    Attributes:
      crc: CRC-32 of the header.
    """

    crc = 0

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        """Reads a header. Raises TarError."""
        return super().frombuf(buf, encoding, errors)._checked(buf)

    @classmethod
    def _frombuf(cls, buf: bytes, encoding: str, errors: str, **more: bool) -> Self:
        """Reads a header; newer versions of `tarfile` call this, not `frombuf`."""
        member: Self = super()._frombuf(buf, encoding, errors, **more)  # type: ignore[misc]
        return member._checked(buf)

    def _checked(self, header: bytes | bytearray) -> Self:
        """Notes the header's checksum. Raises TarError."""
        self.crc = zlib.crc32(header)
        if self.size < 0:
            raise tarfile.ReadError(f"a member of {self.size} bytes")
        if self.type in _ATTRIBUTE_TYPES and self.size > _MAX_ATTRIBUTE_BYTES:
            raise tarfile.ReadError(
                f"a name or other attributes of {self.size} bytes, expected at most "
                f"{_MAX_ATTRIBUTE_BYTES}"
            )
        if self.type == tarfile.GNUTYPE_SPARSE:
            raise tarfile.ReadError("a sparse file, expected plain ones")
        return self

    def _proc_pax(self, archive: tarfile.TarFile) -> tarfile.TarInfo:
        """Reads attributes, whose lengths are digits. Raises TarError."""
        try:
            found: tarfile.TarInfo = super()._proc_pax(archive)  # type: ignore[misc]
        except (OverflowError, ValueError) as error:  # more digits than a position in memory has
            raise tarfile.ReadError(f"attributes that cannot be read: {error}") from error
        return found

    def _proc_gnusparse_10(self, *_: object) -> None:
        """Refuses the newer kind of sparse files, whose lists of parts may be as long."""
        raise tarfile.ReadError("a sparse file, expected plain ones")


def tar_entries(file: BinaryIO) -> Iterator[Entry]:
    """Yields the files of a tar, in its order.

    Args:
      file: the archive; contents are passed over by seeking.

    Raises:
      ArchiveError: it is no tar, or is damaged or cut short.
      OSError: it cannot be read.
    """
    try:
        yield from _entries(file)
    except (tarfile.TarError, RecursionError, ValueError, OverflowError, EOFError) as error:
        if isinstance(error, ArchiveError):
            raise
        raise ArchiveError(f"it is no tar, or is damaged or cut short ({shown(error)})") from error


def _entries(file: BinaryIO) -> Iterator[Entry]:
    with tarfile.open(
        fileobj=file, mode="r:", tarinfo=TarHeader, encoding="utf-8", errors="surrogateescape"
    ) as archive:
        end = -1
        is_empty = archive.firstmember is None  # type: ignore[attr-defined]
        while not is_empty and (found := archive.next()) is not None:  # Python 3.10's would raise
            archive.members.clear()  # type: ignore[attr-defined]  # or all headers would be kept
            if archive.offset <= end or found.size < 0:  # or it would never end
                raise tarfile.ReadError("a member that ends before it begins")
            if len(archive.pax_headers) > _MAX_GLOBAL_ATTRIBUTES:
                raise tarfile.ReadError(f"more than {_MAX_GLOBAL_ATTRIBUTES} global attributes")
            end = archive.offset
            if not found.isdir():
                yield _entry(found)
        # Not at `archive.offset`, which a damaged header moves.
        _check_end(file, max(end, 0))


def _entry(found: tarfile.TarInfo) -> Entry:
    name, problem = plain_name(found.name)
    problem = problem or _kind_problem(found)
    if problem:
        return Entry(name, 0, None, problem)
    assert isinstance(found, TarHeader)
    member = Member(TAR, found.offset_data - TAR_BLOCK, TAR_BLOCK + found.size, found.crc)
    return Entry(name, found.size, member)


def _kind_problem(found: tarfile.TarInfo) -> str:
    """Says why a member is no plain file; empty if it is one."""
    if found.issym() or found.islnk():
        kind, option = ("symbolic", "") if found.issym() else ("hard", "hard-")
        return (
            f"a {kind} link to {shown(found.linkname)}; pack the files that links lead to "
            f"(tar --{option}dereference)"
        )
    if found.sparse is not None:
        return "a sparse file, expected a plain one"
    return "" if found.isreg() else "a device or a pipe, not a file"


def _check_end(file: IO[bytes], offset: int) -> None:
    """Raises ArchiveError if a tar does not end where its reader has stopped.

    `tarfile` takes a damaged header for the end.
    """
    file.seek(offset)
    block = file.read(TAR_BLOCK)
    if len(block) < TAR_BLOCK:
        raise ArchiveError(
            f"it ends at byte {offset + len(block)} without the empty block that ends a tar, so it may "
            "be cut short; copy it again, or pack it again"
        )
    if block.strip(b"\0"):
        raise ArchiveError(
            f"the header at byte {offset} is damaged, so what follows is unknown; copy it again"
        )
    if file.read(_LOOKED_BEHIND).strip(b"\0"):
        raise ArchiveError(
            f"something follows behind its end at byte {offset}, as where archives are joined with cat; "
            "unpack it with tar --ignore-zeros, and pack it again"
        )
