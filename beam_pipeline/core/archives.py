"""Members of archives: where each is, how a URI names it, and how its bytes become the content.

A member is read with one read of a range of its archive:

    tar://gs://pets/a.tar#at=1024&bytes=5632&head=6e2a90b1
    zip:///data/pets.zip#at=310&bytes=4210&crc32=9af31c02&deflated=4100

The range of a tar's member is its header and its content; `head` is the CRC-32 of that header, so that
an archive which has changed is noticed. The range of a zip's member ends where the next one begins; the
content has the CRC-32 that the zip's directory names.

The members of a tar are found from header to header, those of a zip by its directory, which is at the
end; no content is read. Each member of a zip claims a separate range. Where ranges overlap, as in zip
bombs that inflate the same bytes again and again, the members are left out.
"""

from __future__ import annotations

import bisect
import contextlib
import errno
import re
import stat
import struct
import tarfile
import zlib
from array import array
from collections.abc import Iterator
from typing import IO, TYPE_CHECKING, Any, BinaryIO, NamedTuple

from beam_pipeline.core.errors import ChangedFileError, ConversionError, UsageError
from beam_pipeline.core.text import excerpt

if TYPE_CHECKING:
    import zipfile

    from typing_extensions import Self

TAR, ZIP = "tar", "zip"
KINDS = (TAR, ZIP)
"""Kinds of archives: the extensions of their files, and the schemes of their members' URIs."""

TAR_BLOCK = 512
ZIP_HEADER = struct.Struct("<4s5H3L2H")
"""Of a member: PK34, version, flags, method, time, date, CRC, two sizes, lengths of name and extra field."""

STORED, DEFLATED = 0, 8
ENCRYPTED = 0x1
_RAW_DEFLATE = -zlib.MAX_WBITS

_LOCATION = re.compile(
    r"at=(\d{1,20})&bytes=(\d{1,20})&(?:head=([0-9a-f]{8})"
    r"|crc32=([0-9a-f]{8})&(deflated|stored)=(\d{1,20}))"
)

_ELSEWHERE = "the archive has changed: where this member was listed, there is another or none"
_COMPRESSED = re.compile(r"\.(tgz|tbz2?|txz|tzst|tar\.(gz|bz2|xz|zst|lz4|z))\Z", re.IGNORECASE)


class ArchiveError(ValueError):
    """An archive is broken as a whole, so its content is unknown. The message does not name it."""


class Member(NamedTuple):
    """The position of a member's content.

    Attributes:
      kind: "tar" or "zip".
      at: the first byte of its header in the archive.
      length: bytes to read from there.
      check: CRC-32 of the header in a tar, of the content in a zip.
      packed: bytes of the content as they are in a zip.
      deflated: whether they are deflated.
    """

    kind: str
    at: int
    length: int
    check: int
    packed: int = 0
    deflated: bool = False


class Entry(NamedTuple):
    """A file that an archive lists.

    Attributes:
      name: its path in the archive.
      size: bytes of its content, as the archive claims.
      member: where that lies; None if it cannot be read.
      problem: why it cannot; empty if it can.
    """

    name: str
    size: int
    member: Member | None
    problem: str = ""


def archive_kind(path: str) -> str:
    """Returns the kind of archive that a path's extension represents; empty for other extensions.

    Raises:
      UsageError: it is a tar that is compressed as a whole.
    """
    if compressed := _COMPRESSED.search(path):
        raise UsageError(
            f"{path} is compressed as a whole, so no image in it can be read on its own; uncompress it "
            f"once, and name {path[: compressed.start()]}.tar"
        )
    extension = path.rpartition(".")[2].lower()
    return extension if extension in KINDS else ""


def member_uri(archive: str, member: Member) -> str:
    """Returns the URI of a member.

    >>> member_uri("/data/a.tar", Member("tar", 1024, 5632, 0x6E2A90B1))
    'tar:///data/a.tar#at=1024&bytes=5632&head=6e2a90b1'
    """
    where = f"{member.kind}://{archive}#at={member.at}&bytes={member.length}"
    if member.kind == TAR:
        return f"{where}&head={member.check:08x}"
    packing = "deflated" if member.deflated else "stored"
    return f"{where}&crc32={member.check:08x}&{packing}={member.packed}"


def parse_member_uri(uri: str) -> tuple[str, Member]:
    """Returns the archive and the member that a URI names.

    Raises:
      OSError: it is not such a URI.
    """
    kind, _, rest = uri.partition("://")
    archive, _, location = rest.rpartition("#")
    match = _LOCATION.fullmatch(location)
    if not match or not archive or (kind == TAR) != (match[3] is not None):
        raise OSError(errno.EINVAL, "no URI of a member of an archive", uri)
    at, length = int(match[1]), int(match[2])
    if kind == TAR:
        return archive, Member(TAR, at, length, int(match[3], 16))
    packed = int(match[6])
    return archive, Member(ZIP, at, length, int(match[4], 16), packed, match[5] == "deflated")


def content(member: Member, data: bytes, size: int) -> bytes:
    """Returns a member's content; never more than the archive claims.

    Args:
      member: its place.
      data: what was read there.
      size: bytes of the content, as the archive claimed when it was listed.

    Raises:
      ChangedFileError: the archive is not the one that was listed.
      OSError: the member is damaged.
    """
    if member.kind == TAR:
        if len(data) != TAR_BLOCK + size or zlib.crc32(data[:TAR_BLOCK]) != member.check:
            raise ChangedFileError(_ELSEWHERE)
        return data[TAR_BLOCK:]
    return _unzipped(member, data, size)


def _unzipped(member: Member, data: bytes, size: int) -> bytes:
    if data[:4] != b"PK\3\4" or len(data) < ZIP_HEADER.size:
        raise ChangedFileError(_ELSEWHERE)
    *_, name, extra = ZIP_HEADER.unpack_from(data)
    start = ZIP_HEADER.size + name + extra
    packed = data[start : start + member.packed]
    with contextlib.suppress(zlib.error):
        if member.deflated:
            packed = zlib.decompressobj(_RAW_DEFLATE).decompress(packed, size + 1)
        if len(packed) == size and zlib.crc32(packed) == member.check:
            return packed
    raise OSError(
        errno.EBADMSG,
        f"damaged, or the archive has changed: its content is not the {size} bytes with the CRC-32 "
        f"{member.check:08x} that the archive's directory claims",
    )


def plain_name(name: str) -> tuple[str, str]:
    """Returns a member's path without `./` and empty folders, and what is wrong with it or nothing.

    Nothing is written under such a name. But one that leads out of the archive, as `../a.jpg` does,
    belongs to no data set.

    >>> plain_name("./cat//1.jpg")
    ('cat/1.jpg', '')
    """
    parts = name.split("/")
    if "\0" in name:
        return name.replace("\0", "\\0"), "its name contains a null character"
    if name.startswith("/") or re.match(r"[A-Za-z]:[\\/]", name):
        return name, "its name is an absolute path, expected one in the archive"
    if ".." in parts or "..\\" in name:
        return name, "its name leads out of the archive"
    name = "/".join(part for part in parts if part not in ("", "."))
    return name, "" if name else "it has no name"


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
            info: tarfile.TarInfo = super()._proc_pax(archive)  # type: ignore[misc]
        except (OverflowError, ValueError) as error:  # more digits than a position in memory has
            raise tarfile.ReadError(f"attributes that cannot be read: {error}") from error
        return info

    def _proc_gnusparse_10(self, *_: object) -> None:
        """Refuses the newer kind of sparse files, whose lists of parts may be as long."""
        raise tarfile.ReadError("a sparse file, expected plain ones")


@contextlib.contextmanager
def _reading(kind: str) -> Iterator[None]:
    """Turns whatever a library raises for hostile bytes into an ArchiveError; storage has its own errors."""
    try:
        yield
    except (OSError, MemoryError, ConversionError, ArchiveError):
        raise
    except Exception as error:
        raise ArchiveError(
            f"it is not a {kind}, or is damaged or cut short ({excerpt(error)})"
        ) from error


def tar_entries(file: BinaryIO) -> Iterator[Entry]:
    """Yields the files of a tar, in its order.

    Args:
      file: the archive; contents are passed over by seeking.

    Raises:
      ArchiveError: it is not a tar, or is damaged or cut short.
      OSError: it cannot be read.
    """
    with (
        _reading(TAR),
        tarfile.open(
            fileobj=file, mode="r:", tarinfo=TarHeader, encoding="utf-8", errors="surrogateescape"
        ) as archive,
    ):
        end = -1
        is_empty = archive.firstmember is None  # type: ignore[attr-defined]
        while not is_empty and (info := archive.next()) is not None:  # Python 3.10's would raise
            archive.members.clear()  # type: ignore[attr-defined]  # or all headers would be kept
            if archive.offset <= end or info.size < 0:  # or it would never end
                raise tarfile.ReadError("a member that ends before it begins")
            if len(archive.pax_headers) > _MAX_GLOBAL_ATTRIBUTES:
                raise tarfile.ReadError(f"more than {_MAX_GLOBAL_ATTRIBUTES} global attributes")
            end = archive.offset
            if not info.isdir():
                yield _tar_entry(info)
        # Not at `archive.offset`, which a damaged header moves.
        _check_end(file, max(end, 0))


def _tar_entry(info: tarfile.TarInfo) -> Entry:
    name, problem = plain_name(info.name)
    problem = problem or _kind_problem(info)
    if problem:
        return Entry(name, 0, None, problem)
    assert isinstance(info, TarHeader)
    member = Member(TAR, info.offset_data - TAR_BLOCK, TAR_BLOCK + info.size, info.crc)
    return Entry(name, info.size, member)


def _kind_problem(info: tarfile.TarInfo) -> str:
    """Returns why a member is not a plain file; empty if it is."""
    if info.issym() or info.islnk():
        return (
            f"a link to {excerpt(info.linkname)}; pack the files that links lead to (tar --dereference "
            "--hard-dereference)"
        )
    if info.sparse is not None:
        return "a sparse file, expected a plain one"
    return "" if info.isreg() else "a device or a pipe, not a file"


def _check_end(file: IO[bytes], offset: int) -> None:
    """Raises ArchiveError if a tar does not end where its reader has stopped, as at a damaged header."""
    file.seek(offset)
    end = file.read(TAR_BLOCK + _LOOKED_BEHIND)
    if len(end) < TAR_BLOCK or end.strip(b"\0"):
        raise ArchiveError(
            f"at byte {offset} it does not end as a tar does, with empty blocks only: it is damaged, cut short, "
            "or several that were joined with cat; copy it again, or unpack it with tar --ignore-zeros, and pack "
            "it again"
        )


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


def zip_entries(file: BinaryIO) -> Iterator[Entry]:
    """Yields the files of a zip, in the order of its directory.

    Args:
      file: the archive; only its directory is read.

    Raises:
      ArchiveError: it is not a zip, or is damaged or cut short.
      OSError: it cannot be read.
    """
    archive = _opened(file)
    infos = archive.infolist()
    starts = array("Q", sorted(min(info.header_offset, archive.start_dir) for info in infos))
    _check_beginning(file, min(starts, default=archive.start_dir))
    for info in infos:
        name = _name(info)
        if not name.endswith("/"):
            yield _zip_entry(name, info, starts, archive.start_dir)


def _opened(file: BinaryIO) -> zipfile.ZipFile:
    import zipfile  # takes some milliseconds, and few jobs read archives

    bounded: Any = _BoundedReads(file)
    with _reading(ZIP):
        archive = zipfile.ZipFile(bounded)
        if any(info.header_offset < 0 for info in archive.filelist):
            raise zipfile.BadZipFile("a member starts before the beginning")
        return archive


def _check_beginning(file: BinaryIO, first: int) -> None:
    """Raises ArchiveError if a zip ends before the first member; a program that unpacks it is not a zip."""
    begin = max(0, first - _MOST_OF_AN_END)
    file.seek(begin)
    before = file.read(first - begin)
    end = before.rfind(b"PK\5\6")
    if end < 0 or end + _END.size > len(before):
        return
    _, _, _, count, total, size, _, _ = _END.unpack_from(before, end)
    is_64_bits = before[max(0, end - _LOCATOR_BYTES) : end].startswith(b"PK\6\7")
    is_directory = is_64_bits or size > end or before.startswith(b"PK\1\2", end - size)
    if count and count == total and is_directory:
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


def _zip_entry(name: str, info: zipfile.ZipInfo, starts: array[int], end: int) -> Entry:
    name, problem = plain_name(name)
    at = info.header_offset
    following = bisect.bisect_right(starts, at)
    until = starts[following] if following < len(starts) else end
    overlaps = following - bisect.bisect_left(starts, at) != 1
    length = min(until - at, _MOST_OF_A_HEADER + info.compress_size)
    if not problem and (overlaps or length < ZIP_HEADER.size + info.compress_size):
        problem = "the bytes that it claims are in another member, or outside of the archive"
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
        with contextlib.suppress(UnicodeError):
            name = name.encode("cp437").decode()
    return name.replace("\\", "/") if info.create_system == _DOS else name


def _content_problem(info: zipfile.ZipInfo) -> str:
    """Says why a member's content cannot be read; empty if it can."""
    mode = info.external_attr >> 16
    if info.create_system == _UNIX and stat.S_IFMT(mode) not in (0, stat.S_IFREG):
        return f"a {'symbolic link' if stat.S_ISLNK(mode) else 'device or a pipe'}, not a file"
    if info.flag_bits & (ENCRYPTED | _STRONGLY_ENCRYPTED):
        return "encrypted; unpack the archive with its password, and pack it again without"
    if info.compress_type not in (STORED, DEFLATED):
        method = info.compress_type
        return f"compressed by method {method}, expected stored or deflated; pack it again (zip -0)"
    if info.file_size > _MOST_INFLATED * info.compress_size + _LEAST_DEFLATED:
        return f"{info.compress_size} compressed bytes cannot be {info.file_size}, as it claims"
    return ""
