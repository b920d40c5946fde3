"""The members of a zip, by its directory, which lies at the end; no content is read.

Each member claims a range of its own. Where ranges overlap, as in zip bombs that inflate the same bytes
again and again, the members are left out.
"""

from __future__ import annotations

import bisect
import stat
import struct
from array import array
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, BinaryIO

from beam_pipeline.core.archives.members import (
    DEFLATED,
    ENCRYPTED,
    STORED,
    ZIP,
    ZIP_HEADER,
    ArchiveError,
    Entry,
    Member,
    plain_name,
)
from beam_pipeline.core.text import shown

if TYPE_CHECKING:
    import zipfile

MAX_DIRECTORY_BYTES = 128 << 20  # 128 MiB; a million members have about 100
_MOST_OF_AN_END = 1 << 17  # 128 KiB; a comment of up to 64 KiB, and less than 1 KiB besides
_END = struct.Struct("<4s4H2LH")
"""PK56, two numbers of disks, members on this disk and in all, size of the directory, its offset, comment."""
_LOCATOR_BYTES = 20  # before the end of a zip of 64 bits, begin with PK67
_MOST_OF_A_HEADER = ZIP_HEADER.size + 2 * 0xFFFF
_MOST_INFLATED, _LEAST_DEFLATED = 1032, 64
"""Deflate makes at most 1032 bytes of one; of nearly nothing, some more."""
_STRONGLY_ENCRYPTED = 0x40
_NAME_IS_UTF8 = 0x800
_DOS, _UNIX = 0, 3
_METHODS = {9: "Deflate64", 12: "bzip2", 14: "LZMA", 93: "Zstandard", 95: "XZ"}


def zip_entries(file: BinaryIO) -> Iterator[Entry]:
    """Yields the files of a zip, in the order of its directory.

    Args:
      file: the archive; only its directory is read.

    Raises:
      ArchiveError: it is no zip, or is damaged or cut short.
      OSError: it cannot be read.
    """
    archive = _opened(file)
    infos = archive.infolist()
    starts = array("Q", sorted(min(info.header_offset, archive.start_dir) for info in infos))
    _check_beginning(file, min(starts, default=archive.start_dir))
    for info in infos:
        name = _name(info)
        if not name.endswith("/"):
            yield _entry(name, info, starts, archive.start_dir)


def _opened(file: BinaryIO) -> zipfile.ZipFile:
    import zipfile  # takes some milliseconds, and few jobs read archives

    bounded: Any = _BoundedReads(file)
    try:
        archive = zipfile.ZipFile(bounded)
        if any(info.header_offset < 0 for info in archive.filelist):
            raise zipfile.BadZipFile("a member lies before the beginning")
        return archive
    except ArchiveError:
        raise
    except (
        zipfile.BadZipFile,
        NotImplementedError,
        struct.error,
        ValueError,
        OverflowError,
        EOFError,
    ) as error:
        raise ArchiveError(f"it is no zip, or is damaged or cut short ({shown(error)})") from error


def _check_beginning(file: BinaryIO, first: int) -> None:
    """Raises ArchiveError if a zip ends before the first member; a program that unpacks it is no zip."""
    begin = max(0, first - _MOST_OF_AN_END)
    file.seek(begin)
    before = file.read(first - begin)
    end = before.rfind(b"PK\5\6")
    if end < 0 or end + _END.size > len(before):
        return
    _, _, _, count, total, size, _, _ = _END.unpack_from(before, end)
    is_64_bits = before[max(0, end - _LOCATOR_BYTES) : end].startswith(b"PK\6\7")
    if not count or count != total:
        return
    if is_64_bits or size > end or before.startswith(b"PK\1\2", end - size):
        raise ArchiveError(
            f"{total} members of another zip precede its first, as where archives are joined with cat; "
            "unpack the parts one by one, and pack them again"
        )


class _BoundedReads:
    """A file of which no more than a believable directory is read at once."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.seek, self.tell = file.seek, file.tell

    def read(self, size: int = -1) -> bytes:
        """Reads. Raises ArchiveError."""
        if size < 0:  # all from the end's record on
            return self._file.read(_MOST_OF_AN_END)
        if size > MAX_DIRECTORY_BYTES:
            raise ArchiveError(
                f"its directory has {size} bytes, expected at most {MAX_DIRECTORY_BYTES}; pack it as "
                "several archives"
            )
        return self._file.read(size)


def _entry(name: str, info: zipfile.ZipInfo, starts: array[int], end: int) -> Entry:
    name, problem = plain_name(name)
    at = info.header_offset
    following = bisect.bisect_right(starts, at)
    until = starts[following] if following < len(starts) else end
    overlaps = following - bisect.bisect_left(starts, at) != 1
    length = min(until - at, _MOST_OF_A_HEADER + info.compress_size)
    if overlaps or length < ZIP_HEADER.size + info.compress_size:
        problem = (
            problem or "the bytes that it claims lie in another member, or outside of the archive"
        )
    problem = problem or _content_problem(info)
    if problem:
        return Entry(name, 0, None, problem)
    deflated = info.compress_type == DEFLATED
    member = Member(ZIP, at, length, info.CRC, info.compress_size, deflated)
    return Entry(name, info.file_size, member)


def _name(info: zipfile.ZipInfo) -> str:
    r"""Returns a member's name, with `/` between folders.

    Many programs write UTF-8 without saying so, and older ones on Windows separate folders by `\`.
    """
    name = info.orig_filename
    if not info.flag_bits & _NAME_IS_UTF8 and not name.isascii():
        try:
            name = name.encode("cp437").decode()
        except UnicodeError:
            pass
    return name.replace("\\", "/") if info.create_system == _DOS else name


def _content_problem(info: zipfile.ZipInfo) -> str:
    """Says why a member's content cannot be read; empty if it can."""
    mode = info.external_attr >> 16
    if info.create_system == _UNIX and stat.S_IFMT(mode) not in (0, stat.S_IFREG):
        link = stat.S_ISLNK(mode)
        return f"a {'symbolic link' if link else 'device or a pipe'}, not a file"
    if info.flag_bits & (ENCRYPTED | _STRONGLY_ENCRYPTED):
        return "encrypted; unpack the archive with its password, and pack it again without"
    if info.compress_type not in (STORED, DEFLATED):
        method = _METHODS.get(info.compress_type, f"method {info.compress_type}")
        return f"compressed by {method}, expected stored or deflated; pack it again (zip -0)"
    if info.compress_type == STORED and info.compress_size != info.file_size:
        return f"stored in {info.compress_size} bytes, but it claims to have {info.file_size}"
    if info.file_size > _MOST_INFLATED * info.compress_size + _LEAST_DEFLATED:
        return f"{info.compress_size} compressed bytes cannot be {info.file_size}, as it claims"
    return ""
