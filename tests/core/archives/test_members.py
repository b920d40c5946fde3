"""Members of archives: their URIs, names and contents."""

from __future__ import annotations

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_pipeline.core.archives import (
    ZIP_HEADER,
    Member,
    archive_kind,
    content,
    member_uri,
    parse_member_uri,
    plain_name,
)
from beam_pipeline.core.errors import ChangedFileError, UsageError

_SIZES = st.integers(0, 2**63)
_CRCS = st.integers(0, 2**32 - 1)
TARS = st.builds(Member, st.just("tar"), _SIZES, _SIZES, _CRCS, st.just(0), st.just(False))
ZIPS = st.builds(Member, st.just("zip"), _SIZES, _SIZES, _CRCS, _SIZES, st.booleans())


@given(st.sampled_from(["/d/a b#1.zip", "gs://b/x&y.tar", "/#at=1&bytes=2"]), TARS | ZIPS)
def test_a_uri_names_archive_and_member(archive: str, member: Member) -> None:
    """Whatever the archive is called."""
    assert parse_member_uri(member_uri(archive, member)) == (archive, member)


@pytest.mark.parametrize(
    "uri",
    [
        "",
        "/data/a.tar",
        "tar:///data/a.tar",
        "tar://#at=0&bytes=9&head=00000000",
        "zip:///a.zip#at=0&bytes=9&head=00000000",
        "tar:///a.tar#at=0&bytes=9&crc32=00000000&stored=9",
        "tar:///a.tar#at=-1&bytes=9&head=00000000",
        "zip:///a.zip#at=0&bytes=9&crc32=00000000&bzip2=9",
    ],
)
def test_other_uris_are_refused(uri: str) -> None:
    """Each is an error of reading, as they may stand in a receipt."""
    with pytest.raises(OSError, match="no URI of a member"):
        parse_member_uri(uri)


@pytest.mark.parametrize(
    ("name", "plain", "problem"),
    [
        ("cat/1.jpg", "cat/1.jpg", ""),
        ("./cat/./1.jpg", "cat/1.jpg", ""),
        ("cat//1.jpg", "cat/1.jpg", ""),
        ("cat\n/1.jpg", "cat\n/1.jpg", ""),
        ("./", "", "it has no name"),
        ("../1.jpg", "../1.jpg", "its name leads out of the archive"),
        ("a/../../1.jpg", "a/../../1.jpg", "its name leads out of the archive"),
        ("..\\1.jpg", "..\\1.jpg", "its name leads out of the archive"),
        ("/etc/1.jpg", "/etc/1.jpg", "its name is an absolute path, expected one in the archive"),
        ("C:\\1.jpg", "C:\\1.jpg", "its name is an absolute path, expected one in the archive"),
        ("a\0.jpg", "a\\0.jpg", "its name holds a null character"),
    ],
)
def test_names_are_paths_in_the_archive(name: str, plain: str, problem: str) -> None:
    """Others are left out with a reason."""
    assert plain_name(name) == (plain, problem)


def test_archives_are_known_by_their_extension() -> None:
    """In any case; a tar that is compressed is refused, with what uncompresses it."""
    paths = ["a.tar", "gs://b/A.ZIP", "a.tar.d", "a.jpg", "x.tar/"]
    assert [archive_kind(path) for path in paths] == ["tar", "zip", "", "", ""]
    for path, tool in [("a.tar.gz", "gunzip"), ("a.tgz", "gunzip"), ("b/a.tar.XZ", "unxz")]:
        with pytest.raises(UsageError, match=f"with {tool}, and name .*a.tar$"):
            archive_kind(path)


def _local(method: int, data: bytes, flags: int = 0) -> bytes:
    header = ZIP_HEADER.pack(b"PK\3\4", 20, flags, method, 0, 0, 0, 0, 0, 1, 2)
    return header + b"nEE" + data


def _deflated(data: bytes) -> bytes:
    deflater = zlib.compressobj(9, zlib.DEFLATED, -15)
    return deflater.compress(data) + deflater.flush()


def test_the_content_of_a_zip_lies_behind_its_own_header() -> None:
    """Which may have another extra field than the directory."""
    crc = zlib.crc32(b"content")
    assert content(Member("zip", 0, 99, crc, 7), _local(0, b"content"), 7) == b"content"
    packed = _deflated(b"content")
    member = Member("zip", 0, 99, crc, len(packed), deflated=True)
    assert content(member, _local(8, packed) + b"descriptor", 7) == b"content"
    assert content(Member("zip", 0, 99, 0, 0), _local(0, b""), 0) == b""


CRC = zlib.crc32(b"content")
PACKED = _deflated(b"content")


@pytest.mark.parametrize(
    ("member", "data", "problem"),
    [
        (Member("zip", 0, 9, CRC, 7), _local(0, b"Content"), "its CRC-32 is not the one in"),
        (Member("zip", 0, 9, CRC, 7), _local(0, b"conten"), "6 bytes of it are there, expected 7"),
        (Member("zip", 0, 9, CRC, 7), _local(8, b"content"), "its own header says another"),
        (Member("zip", 0, 9, CRC, 7), _local(0, b"content", 1), "its own header says another"),
        (
            Member("zip", 0, 9, CRC, len(PACKED) - 1, deflated=True),
            _local(8, PACKED),
            "its compressed data ends too early",
        ),
        (
            Member("zip", 0, 9, CRC, 3, deflated=True),
            _local(8, b"\xff\xff\xff"),
            "it cannot be inflated",
        ),
        (
            Member("zip", 0, 9, CRC, len(_deflated(b"content+")), deflated=True),
            _local(8, _deflated(b"content+")),
            "it has more than the 7 that the archive's directory claims",
        ),
        (
            Member("zip", 0, 9, CRC, len(_deflated(b"con")), deflated=True),
            _local(8, _deflated(b"con")),
            "it has 3 bytes, expected the 7",
        ),
    ],
)
def test_damage_is_an_error_of_reading(member: Member, data: bytes, problem: str) -> None:
    """What is wrong is said, and never more inflated than was claimed."""
    with pytest.raises(OSError, match=problem):
        content(member, data, 7)


def test_a_bomb_is_inflated_no_further_than_it_claims() -> None:
    """100 MB of zeros that claim to be 9 bytes."""
    packed = _deflated(bytes(100_000_000))
    member = Member("zip", 0, 9, 0, len(packed), deflated=True)
    with pytest.raises(OSError, match="more than the 9"):
        content(member, _local(8, packed), 9)


@pytest.mark.parametrize("data", [b"", b"PK\3\4", bytes(512), b"h" * 512 + b"content!"])
def test_an_archive_that_changed_is_noticed(data: bytes) -> None:
    """Where a member was listed lies something else."""
    for member in (Member("tar", 0, 519, 1), Member("zip", 0, 99, 0, 7)):
        with pytest.raises(ChangedFileError, match="the archive has changed"):
            content(member, data, 7)
