"""The members of tars and zips: of every format, with what does not belong, and damaged."""

from __future__ import annotations

import io
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_pipeline.core import archives, errors
from beam_pipeline.core.archives import (
    ZIP_HEADER,
    ArchiveError,
    Entry,
    Member,
    archive_kind,
    content,
    member_uri,
    parse_member_uri,
    tar_entries,
    zip_entries,
)
from tests.archives import contents_of, tar_bytes, zip_bytes
from tests.rows import in_rows

_SIZES = st.integers(0, 2**63)
_CRCS = st.integers(0, 2**32 - 1)
TARS = st.builds(Member, st.just("tar"), _SIZES, _SIZES, _CRCS, st.just(0), st.just(False))
ZIPS = st.builds(Member, st.just("zip"), _SIZES, _SIZES, _CRCS, _SIZES, st.booleans())


@given(st.sampled_from(["/d/a b#1.zip", "gs://b/x&y.tar", "/#at=1&bytes=2"]), TARS | ZIPS)
def test_a_uri_names_archive_and_member(archive: str, member: Member) -> None:
    """Whatever the archive is called."""
    assert parse_member_uri(member_uri(archive, member)) == (archive, member)


def test_archives_are_known_by_their_extension() -> None:
    """In any case; a tar that is compressed is refused."""
    paths = ["a.tar", "gs://b/A.ZIP", "a.tar.d", "a.jpg", "x.tar/"]
    assert [archive_kind(path) for path in paths] == ["tar", "zip", "", "", ""]
    for path in ("a.tar.gz", "a.tgz", "b/a.tar.XZ"):
        with pytest.raises(errors.UsageError, match=r"uncompress it once, and name .*a\.tar$"):
            archive_kind(path)


def _local(method: int, data: bytes, flags: int = 0) -> bytes:
    header = ZIP_HEADER.pack(b"PK\3\4", 20, flags, method, 0, 0, 0, 0, 0, 1, 2)
    return header + b"nEE" + data


def _deflated(data: bytes) -> bytes:
    deflater = zlib.compressobj(9, zlib.DEFLATED, -15)
    return deflater.compress(data) + deflater.flush()


CRC = zlib.crc32(b"content")


def deflated(claimed: int, data: bytes) -> Member:
    """A deflated member of seven bytes, of whose data its directory claims so much."""
    return Member("zip", 0, 9, CRC, len(_deflated(data)) + claimed, deflated=True)


def test_the_content_of_a_zip_lies_behind_its_own_header() -> None:
    """Which may have another extra field than the directory."""
    assert content(Member("zip", 0, 99, CRC, 7), _local(0, b"content"), 7) == b"content"
    packed = _local(8, _deflated(b"content")) + b"descriptor"
    assert content(deflated(0, b"content"), packed, 7) == b"content"
    assert content(Member("zip", 0, 99, 0, 0), _local(0, b""), 0) == b""


@pytest.mark.parametrize(
    ("member", "data"),
    [
        (Member("zip", 0, 9, CRC, 7), b"Content"),
        (Member("zip", 0, 9, CRC, 7), b"conten"),
        (Member("zip", 0, 9, CRC, 7, deflated=True), b"content"),
        (deflated(-3, b"content"), _deflated(b"content")),
        (Member("zip", 0, 9, CRC, 3, deflated=True), b"\xff\xff\xff"),
        (deflated(0, b"content+"), _deflated(b"content+")),
        (deflated(0, b"con"), _deflated(b"con")),
    ],
)
def test_damage_is_an_error_of_reading(member: Member, data: bytes) -> None:
    """Whatever is not the claimed bytes; never more is inflated than was claimed."""
    with pytest.raises(OSError, match=f"not the 7 bytes with the CRC-32 {CRC:08x} that"):
        content(member, _local(8 * member.deflated, data), 7)


def test_a_bomb_is_inflated_no_further_than_it_claims() -> None:
    """100 MB of zeros that claim to be 9 bytes."""
    packed = _deflated(bytes(100_000_000))
    member = Member("zip", 0, 9, 0, len(packed), deflated=True)
    with pytest.raises(OSError, match="not the 9 bytes with"):
        content(member, _local(8, packed), 9)


@pytest.mark.parametrize("data", [b"", b"PK\3\4", bytes(512), b"h" * 512 + b"content!"])
def test_an_archive_that_changed_is_noticed(data: bytes) -> None:
    """Where a member was listed lies something else."""
    for member in (Member("tar", 0, 519, 1), Member("zip", 0, 99, 0, 7)):
        with pytest.raises(errors.ChangedFileError, match="the archive has changed"):
            content(member, data, 7)


# --- tars ---------------------------------------------------------------------------------------

TAR_FILES = {
    "1.jpg": b"one",
    "./cat/2.jpg": b"",
    "größe/猫.jpg": b"x" * 512,
    f"{'long/' * 40}3.jpg": b"y" * 700,
}
PLAIN = {name.removeprefix("./"): content for name, content in TAR_FILES.items()}


def read_tar(data: bytes) -> dict[str, bytes | str]:
    return contents_of(data, tar_entries(io.BytesIO(data)))


@pytest.mark.parametrize("tar_format", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_every_member_of_a_tar_lies_where_it_is_said_to(tar_format: int) -> None:
    """Long names and those that are not ASCII come in headers of their own."""
    assert read_tar(tar_bytes(TAR_FILES, tar_format)) == PLAIN
    assert read_tar(tar_bytes({})) == {}
    assert read_tar(tar_bytes({"a/1.jpg": b"1"}, tarfile.USTAR_FORMAT)) == {"a/1.jpg": b"1"}


def special(kind: bytes, **fields: object) -> bytes:
    """A tar whose one member is no file."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        info = tarfile.TarInfo("a.jpg")
        info.type = kind
        for name, value in fields.items():
            setattr(info, name, value)
        archive.addfile(info)
    return out.getvalue()


@in_rows
def test_what_is_no_file_has_a_reason(kind: bytes, linkname: str, problem: str) -> None:
    """Links are not followed, whether they lead out of the archive or not."""
    members = read_tar(special(kind, linkname=linkname))
    assert list(members) == ["a.jpg"]
    assert str(members["a.jpg"]).startswith(problem)


def test_a_file_with_holes_has_a_reason() -> None:
    """Its bytes in the archive are not those of the file."""
    holes = {"GNU.sparse.size": "9", "GNU.sparse.map": "0,1"}
    assert read_tar(special(tarfile.REGTYPE, pax_headers=holes)) == {
        "a.jpg": "a sparse file, expected a plain one"
    }


def test_names_that_lead_out_have_a_reason() -> None:
    """Nothing would be written, but they belong to no data set; folders hold nothing themselves."""
    assert read_tar(special(tarfile.DIRTYPE)) == {}
    assert read_tar(tar_bytes({"../1.jpg": b"1", "/2.jpg": b"2", "3.jpg": b"3"})) == {
        "../1.jpg": "its name leads out of the archive",
        "/2.jpg": "its name is an absolute path, expected one in the archive",
        "3.jpg": b"3",
    }


def test_a_name_twice_is_two_members() -> None:
    """The job reports both."""
    data = tar_bytes([("a.jpg", b"old"), ("a.jpg", b"new")])
    assert [entry.name for entry in tar_entries(io.BytesIO(data))] == ["a.jpg", "a.jpg"]


GOOD = tar_bytes({"1.jpg": b"1" * 600, "2.jpg": b"2", "3.jpg": b"3"})


def _huge_attributes(kind: bytes) -> bytes:
    info = tarfile.TarInfo("x")
    info.type, info.size = kind, 2 << 30
    return info.tobuf(tarfile.GNU_FORMAT)


def _chain(count: int) -> bytes:
    info = tarfile.TarInfo("x")
    info.type, info.size = tarfile.GNUTYPE_LONGNAME, 1
    return (info.tobuf(tarfile.GNU_FORMAT) + b"a".ljust(512, b"\0")) * count


def _negative_size() -> bytes:
    header = bytearray(tarfile.TarInfo("x.jpg").tobuf(tarfile.GNU_FORMAT))
    header[124:136] = b"\xff" * 8 + (-1024 & 0xFFFFFFFF).to_bytes(4, "big")
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return bytes(header) + bytes(1024)


def _pax(**attributes: str) -> bytes:
    info = tarfile.TarInfo("x.jpg")
    info.pax_headers = attributes
    return info.tobuf(tarfile.PAX_FORMAT) + bytes(2048)


def _global_attributes(count: int) -> bytes:
    attributes = {str(i): "x" for i in range(count)}
    return tarfile.TarInfo.create_pax_global_header(attributes) + GOOD


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "it is not a tar"),
        (b"PK\3\4" + bytes(700), "it is not a tar"),
        (GOOD[:700], "unexpected end of data"),
        (GOOD[:1536], "at byte 1536 it does not end as a tar does"),
        (GOOD[:1540], "at byte 1536 it does not end as a tar does"),
        (GOOD[:1536] + b"x" + GOOD[1537:], "at byte 1536 it does not end as a tar does"),
        (GOOD + GOOD, "at byte 3584 it does not end as a tar does"),
        (_huge_attributes(tarfile.GNUTYPE_LONGNAME), "other attributes of 2147483648 bytes"),
        (_huge_attributes(tarfile.XHDTYPE), "other attributes of 2147483648 bytes"),
        (_huge_attributes(tarfile.XGLTYPE), "other attributes of 2147483648 bytes"),
        (_chain(5000), "recursion"),
        (_negative_size(), "it is not a tar"),
        (
            _pax(size="-5120"),
            "it is not a tar|at byte 0 it does not end as",
        ),  # by Python's version
        (GOOD[:1536] + _pax(size="-5120"), "it is not a tar|at byte 1536 it does not end as"),
        (special(tarfile.GNUTYPE_SPARSE), "a sparse file"),
        (_pax(**{"GNU.sparse.major": "1", "GNU.sparse.minor": "0"}), "a sparse file"),
        (_global_attributes(1001), "more than 1000 global attributes"),
    ],
)
def test_a_broken_tar_is_one_error(data: bytes, problem: str) -> None:
    """Nobody knows what it held, so nothing of it is believed."""
    with pytest.raises(ArchiveError, match=problem):
        read_tar(data)


# --- zips ---------------------------------------------------------------------------------------

ZIP_FILES = {"1.jpg": b"one" * 99, "cat/2.jpg": b"", "größe/猫.jpg": bytes(5000)}


def read_zip(data: bytes) -> dict[str, bytes | str]:
    return contents_of(data, zip_entries(io.BytesIO(data)))


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_every_member_of_a_zip_lies_where_it_is_said_to(compression: int) -> None:
    """Stored or deflated; folders are passed over."""
    data = zip_bytes({**ZIP_FILES, "cat/": b""}, compression)
    assert read_zip(data) == ZIP_FILES
    assert read_zip(zip_bytes({})) == {}


@pytest.mark.parametrize("entries", [tar_entries, zip_entries])
def test_errors_of_storage_are_no_damage(entries: Callable[[io.BytesIO], Iterator[Entry]]) -> None:
    """A bucket that cannot be read says so itself."""

    class Gone(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            raise errors.BucketError("gs://b: no bucket has this name")

    with pytest.raises(errors.BucketError, match=r"^gs://b: no bucket"):
        list(entries(Gone(b"x" * 1024)))


class Pipe(io.BytesIO):
    """A file that cannot go back, so that sizes follow the contents, in descriptors."""

    def seekable(self) -> bool:
        return False

    def tell(self) -> int:
        raise OSError("a pipe has no position")


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize(("file", "force"), [(Pipe, False), (io.BytesIO, True)])
def test_sizes_may_stand_elsewhere(compression: int, file: type[io.BytesIO], force: bool) -> None:
    """Behind the content, as in a zip that was written to a pipe; in an extra field of 64 bits."""
    out = file()
    with zipfile.ZipFile(out, "w", compression) as archive:
        for name, data in ZIP_FILES.items():
            with archive.open(name, "w", force_zip64=force) as member:
                member.write(data)
    assert read_zip(out.getvalue()) == ZIP_FILES


def test_something_may_stand_before_it() -> None:
    """As in an archive that unpacks itself."""
    assert read_zip(b"#!/bin/sh\n" + zip_bytes(ZIP_FILES)) == ZIP_FILES
    assert read_zip(zip_bytes({}) + zip_bytes(ZIP_FILES)) == ZIP_FILES
    assert read_zip(b"PK\5\6 in a program, and more of it" + zip_bytes(ZIP_FILES)) == ZIP_FILES


@pytest.mark.parametrize("comment", [b"", b"a comment, as long as it may be" * 2114])
@pytest.mark.parametrize("last", [ZIP_FILES, {}])
def test_zips_that_are_joined_are_refused(last: dict[str, bytes], comment: bytes) -> None:
    """The directory at the end does not list the members of the first, which would be in no count."""
    first = io.BytesIO(zip_bytes({str(i): b"" for i in range(3000)}))
    with zipfile.ZipFile(first, "a") as archive:
        archive.comment = comment
    with pytest.raises(ArchiveError, match="3000 members of another zip precede its first"):
        read_zip(first.getvalue() + zip_bytes(last))


def test_joined_zips_of_64_bits_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whose end is a record of its own."""
    monkeypatch.setattr(zipfile, "ZIP_FILECOUNT_LIMIT", 2)
    first = zip_bytes(ZIP_FILES)
    monkeypatch.undo()
    assert b"PK\6\7" in first
    with pytest.raises(ArchiveError, match="of another zip precede its first"):
        read_zip(first + zip_bytes(ZIP_FILES))


@in_rows
def test_what_cannot_be_read_has_a_reason(changes: dict[str, int], problem: str) -> None:
    """Where the directory says something else of a member; the others are read all the same."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("a.jpg", b"content")
        archive.writestr("b.jpg", b"plain")
        for name, value in changes.items():
            setattr(archive.filelist[0], name, value)
    members = read_zip(out.getvalue())
    assert str(members["a.jpg"]).startswith(problem)
    assert members["b.jpg"] == b"plain"


def test_members_that_overlap_are_left_out() -> None:
    """A bomb inflates the same bytes under many names."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, data in (("a.jpg", b"content"), ("b.jpg", b"content"), ("c.jpg", b"other")):
            archive.writestr(name, data)
        archive.filelist[1].header_offset = archive.filelist[0].header_offset
    message = "the bytes that it claims are in another member, or outside of the archive"
    members = {"a.jpg": message, "b.jpg": message, "c.jpg": b"other"}
    assert read_zip(out.getvalue()) == members
    assert read_zip(zip_bytes({"": b"1"})) == {"": "it has no name"}


def test_names_are_read_as_they_were_meant() -> None:
    """UTF-8 that is not marked as such, an old code page, and the folders of Windows."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name in ("XX/1.jpg", "YY.jpg", "cat/3.jpg"):
            archive.writestr(name, b"1")
            archive.filelist[-1].create_system = 0
    data = out.getvalue().replace(b"XX/", "é".encode() + b"/")
    data = data.replace(b"YY.", b"\x84\x94.").replace(b"cat/3", b"cat\\3")
    assert list(read_zip(data)) == ["é/1.jpg", "äö.jpg", "cat/3.jpg"]


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "it is not a zip"),
        (b"no archive at all", "it is not a zip"),
        (zip_bytes(ZIP_FILES)[:-30], "it is not a zip"),
        (zip_bytes(ZIP_FILES)[200:], "it is not a zip"),
        (zip_bytes(ZIP_FILES).replace(b"PK\1\2", b"PK\1\3"), "Bad magic number"),
    ],
)
def test_a_broken_zip_is_one_error(data: bytes, problem: str) -> None:
    """Nobody knows what it held."""
    with pytest.raises(ArchiveError, match=problem):
        read_zip(data)


def test_a_directory_has_a_believable_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is held in memory."""
    monkeypatch.setattr(archives, "MAX_DIRECTORY_BYTES", 99)
    with pytest.raises(ArchiveError, match="its directory has 167 bytes, expected at most 99"):
        read_zip(zip_bytes(ZIP_FILES))


def test_a_directory_beyond_the_file_is_an_error() -> None:
    """Sizes of 2^32 and above claim nothing that is not there."""
    data = bytearray(zip_bytes(ZIP_FILES))
    struct.pack_into("<L", data, len(data) - 10, 0xFFFFFFF0)
    with pytest.raises(ArchiveError):
        read_zip(bytes(data))
