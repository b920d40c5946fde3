"""Members of archives: where each lies, how a URI says so, and how its bytes become the content.

A member is read with one read of a range of its archive:

    tar://gs://pets/a.tar#at=1024&bytes=5632&head=6e2a90b1
    zip:///data/pets.zip#at=310&bytes=4210&crc32=9af31c02&deflated=4100

The range of a tar's member is its header and its content; `head` is the CRC-32 of that header, so that
an archive which has changed is noticed. The range of a zip's member ends where the next one begins; the
content has the CRC-32 that the zip's directory names.
"""

from __future__ import annotations

import errno
import re
import struct
import zlib
from typing import NamedTuple

from beam_pipeline.core.errors import ChangedFileError, UsageError

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

_COMPRESSED = re.compile(r"\.(tgz|tbz2?|txz|tzst|tar\.(gz|bz2|xz|zst|lz4|z))\Z", re.IGNORECASE)
_UNPACKERS = {"bz2": "bunzip2", "tbz": "bunzip2", "tbz2": "bunzip2", "xz": "unxz", "txz": "unxz"}
_UNPACKERS |= {"zst": "unzstd", "tzst": "unzstd", "lz4": "unlz4"}


class ArchiveError(ValueError):
    """An archive is broken as a whole, so its content is unknown. The message does not name it."""


class Member(NamedTuple):
    """The position of a member's content.

    Attributes:
      kind: "tar" or "zip".
      at: the first byte of its header in the archive.
      length: bytes to read from there.
      check: CRC-32 of the header in a tar, of the content in a zip.
      packed: bytes of the content as they lie in a zip.
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
    """Returns the kind of archive that a path's extension stands for; empty if it is none.

    Raises:
      UsageError: it is a tar that is compressed as a whole.
    """
    compressed = _COMPRESSED.search(path)
    if compressed:
        ending = (compressed[2] or compressed[1]).lower()
        unpacked = f"{path[: compressed.start()]}.tar"
        raise UsageError(
            f"{path} is compressed as a whole, so no image in it can be read on its own; uncompress it "
            f"once, as with {_UNPACKERS.get(ending, 'gunzip')}, and name {unpacked}"
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
      OSError: it is no such URI.
    """
    kind, _, rest = uri.partition("://")
    archive, _, location = rest.rpartition("#")
    found = _LOCATION.fullmatch(location)
    if not found or not archive or (kind == TAR) != (found[3] is not None):
        raise OSError(errno.EINVAL, "no URI of a member of an archive", uri)
    at, length = int(found[1]), int(found[2])
    if kind == TAR:
        return archive, Member(TAR, at, length, int(found[3], 16))
    packed = int(found[6])
    return archive, Member(ZIP, at, length, int(found[4], 16), packed, found[5] == "deflated")


def content(member: Member, data: bytes, size: int) -> bytes:
    """Returns a member's content; never more than the archive claims.

    Args:
      member: where it lies.
      data: what was read there.
      size: bytes of the content, as the archive claimed when it was listed.

    Raises:
      ChangedFileError: the archive is not the one that was listed.
      OSError: the member is damaged.
    """
    if member.kind == TAR:
        if len(data) != TAR_BLOCK + size or zlib.crc32(data[:TAR_BLOCK]) != member.check:
            raise ChangedFileError(
                "the archive has changed: where this member was listed, there is another or none"
            )
        return data[TAR_BLOCK:]
    return _unzipped(member, data, size)


def _unzipped(member: Member, data: bytes, size: int) -> bytes:
    if data[:4] != b"PK\3\4" or len(data) < ZIP_HEADER.size:
        raise ChangedFileError(
            "the archive has changed: where this member was listed, there is none"
        )
    _, _, flags, method, _, _, _, _, _, name, extra = ZIP_HEADER.unpack_from(data)
    if method != (DEFLATED if member.deflated else STORED) or flags & ENCRYPTED:
        raise _damaged("its own header says another compression than the archive's directory")
    start = ZIP_HEADER.size + name + extra
    packed = data[start : start + member.packed]
    if len(packed) != member.packed:
        raise _damaged(f"{len(packed)} bytes of it are there, expected {member.packed}")
    found = _inflated(packed, size) if member.deflated else packed
    if len(found) != size:
        more = "more than " if len(found) > size else f"{len(found)} bytes, expected "
        raise _damaged(f"it has {more}the {size} that the archive's directory claims")
    if zlib.crc32(found) != member.check:
        raise _damaged("its CRC-32 is not the one in the archive's directory")
    return found


def _inflated(packed: bytes, size: int) -> bytes:
    """Returns at most one byte more than the size."""
    inflater = zlib.decompressobj(_RAW_DEFLATE)
    try:
        found = inflater.decompress(packed, size + 1)
    except zlib.error as error:
        raise _damaged(f"it cannot be inflated: {error}") from error
    if len(found) <= size and not inflater.eof:
        raise _damaged("its compressed data ends too early")
    return found


def _damaged(what: str) -> OSError:
    return OSError(errno.EBADMSG, f"damaged, or the archive has changed: {what}")


def plain_name(name: str) -> tuple[str, str]:
    """Returns a member's path without `./` and empty folders, and what is wrong with it or nothing.

    Nothing is written under such a name. But one that leads out of the archive, as `../a.jpg` does,
    belongs to no data set.

    >>> plain_name("./cat//1.jpg")
    ('cat/1.jpg', '')
    """
    parts = name.split("/")
    if "\0" in name:
        return name.replace("\0", "\\0"), "its name holds a null character"
    if name.startswith("/") or re.match(r"[A-Za-z]:[\\/]", name):
        return name, "its name is an absolute path, expected one in the archive"
    if ".." in parts or "..\\" in name:
        return name, "its name leads out of the archive"
    if "" in parts or "." in parts:
        name = "/".join(part for part in parts if part not in ("", "."))
    return name, "" if name else "it has no name"
