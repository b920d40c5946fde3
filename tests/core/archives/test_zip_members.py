"""The members of zips: stored, deflated, of 64 bits, with what does not belong, and damaged."""

from __future__ import annotations

import io
import struct
import zipfile
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_pipeline.core import archives
from beam_pipeline.core.archives import ArchiveError, zip_entries
from tests.archives import contents_of, zip_bytes

FILES = {"1.jpg": b"one" * 99, "cat/2.jpg": b"", "größe/猫.jpg": bytes(5000)}


def read(data: bytes) -> dict[str, bytes | str]:
    return contents_of(data, zip_entries(io.BytesIO(data)))


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_every_member_lies_where_it_is_said_to(compression: int) -> None:
    """Stored or deflated; folders are passed over."""
    data = zip_bytes({**FILES, "cat/": b""}, compression)
    assert read(data) == FILES
    assert read(zip_bytes({})) == {}


class _Stream(io.RawIOBase):
    """A pipe: sizes follow the contents, in descriptors."""

    def __init__(self) -> None:
        self.data = b""

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        self.data += bytes(data)  # type: ignore[call-overload]
        return len(bytes(data))  # type: ignore[call-overload]


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_sizes_may_stand_behind_the_content(compression: int) -> None:
    """As in a zip that was written to a pipe."""
    stream = _Stream()
    with zipfile.ZipFile(stream, "w", compression) as archive:  # type: ignore[arg-type]
        for name, content in FILES.items():
            archive.writestr(name, content)
    assert read(stream.data) == FILES


def test_a_zip_of_64_bits_is_read() -> None:
    """Whose local headers say the sizes in an extra field."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in FILES.items():
            with archive.open(name, "w", force_zip64=True) as file:
                file.write(content)
    assert read(out.getvalue()) == FILES


def test_something_may_stand_before_it() -> None:
    """As in an archive that unpacks itself."""
    assert read(b"#!/bin/sh\n" + zip_bytes(FILES)) == FILES
    assert read(zip_bytes({}) + zip_bytes(FILES)) == FILES
    assert read(b"PK\5\6 in a program, and more of it" + zip_bytes(FILES)) == FILES


@pytest.mark.parametrize("comment", [b"", b"a comment, as long as it may be" * 2114])
@pytest.mark.parametrize("last", [FILES, {}])
def test_zips_that_are_joined_are_refused(last: dict[str, bytes], comment: bytes) -> None:
    """The directory at the end does not list the members of the first, which would be in no count."""
    first = io.BytesIO(zip_bytes({str(i): b"" for i in range(3000)}))
    with zipfile.ZipFile(first, "a") as archive:
        archive.comment = comment
    with pytest.raises(ArchiveError, match="3000 members of another zip precede its first"):
        read(first.getvalue() + zip_bytes(last))


def test_joined_zips_of_64_bits_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whose end is a record of its own."""
    monkeypatch.setattr(zipfile, "ZIP_FILECOUNT_LIMIT", 2)
    first = zip_bytes(FILES)
    monkeypatch.undo()
    assert b"PK\6\7" in first
    with pytest.raises(ArchiveError, match="of another zip precede its first"):
        read(first + zip_bytes(FILES))


def _changed(change: Callable[[zipfile.ZipInfo], None], content: bytes = b"content") -> bytes:
    """A zip whose directory says something else of its first member."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("a.jpg", content)
        archive.writestr("b.jpg", b"plain")
        change(archive.filelist[0])
    return out.getvalue()


def _set(**fields: int) -> Callable[[zipfile.ZipInfo], None]:
    def change(info: zipfile.ZipInfo) -> None:
        for name, value in fields.items():
            setattr(info, name, value)

    return change


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (_set(flag_bits=1), "encrypted; unpack the archive with its password"),
        (_set(compress_type=12), "compressed by bzip2, expected stored or deflated"),
        (_set(compress_type=93), "compressed by Zstandard, expected stored or deflated"),
        (_set(compress_type=77), "compressed by method 77, expected stored or deflated"),
        (_set(external_attr=0o120777 << 16, create_system=3), "a symbolic link, not a file"),
        (_set(external_attr=0o010666 << 16, create_system=3), "a device or a pipe, not a file"),
        (_set(file_size=8), "stored in 7 bytes, but it claims to have 8"),
        (
            _set(compress_type=8, file_size=1 << 40),
            "7 compressed bytes cannot be 1099511627776, as it claims",
        ),
        (_set(compress_size=999, file_size=999), "the bytes that it claims lie in another member"),
        (_set(header_offset=1 << 40), "the bytes that it claims lie in another member"),
        (_set(CRC=0), "damaged, or the archive has changed: its CRC-32 is not the one"),
        (_set(compress_type=8), "damaged, or the archive has changed: its own header says another"),
    ],
)
def test_what_cannot_be_read_has_a_reason(
    change: Callable[[zipfile.ZipInfo], None], problem: str
) -> None:
    """The other members are read all the same."""
    found = read(_changed(change))
    assert str(found["a.jpg"]).startswith(problem)
    assert found["b.jpg"] == b"plain"


def test_members_that_overlap_are_left_out() -> None:
    """A bomb inflates the same bytes under many names."""
    found = read(_overlapping())
    message = "the bytes that it claims lie in another member, or outside of the archive"
    assert found == {"a.jpg": message, "b.jpg": message, "c.jpg": b"other"}


def _overlapping() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("a.jpg", b"content")
        archive.writestr("b.jpg", b"content")
        archive.writestr("c.jpg", b"other")
        archive.filelist[1].header_offset = archive.filelist[0].header_offset
    return out.getvalue()


def test_a_member_without_a_name_has_a_reason() -> None:
    """Nothing can be called like that."""
    assert read(zip_bytes({"": b"1"})) == {"": "it has no name"}


def test_names_are_read_as_they_were_meant() -> None:
    """UTF-8 that is not marked as such, an old code page, and the folders of Windows."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name in ("XX/1.jpg", "YY.jpg", "cat/3.jpg"):
            archive.writestr(name, b"1")
            archive.filelist[-1].create_system = 0
    data = out.getvalue().replace(b"XX/", "é".encode() + b"/")
    data = data.replace(b"YY.", b"\x84\x94.").replace(b"cat/3", b"cat\\3")
    assert list(read(data)) == ["é/1.jpg", "äö.jpg", "cat/3.jpg"]


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "it is no zip"),
        (b"no archive at all", "it is no zip"),
        (zip_bytes(FILES)[:-30], "it is no zip"),
        (zip_bytes(FILES)[200:], "it is no zip"),
        (zip_bytes(FILES).replace(b"PK\1\2", b"PK\1\3"), "Bad magic number"),
    ],
)
def test_a_broken_archive_is_one_error(data: bytes, problem: str) -> None:
    """Nobody knows what it held."""
    with pytest.raises(ArchiveError, match=problem):
        read(data)


def test_a_directory_has_a_believable_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is held in memory."""
    monkeypatch.setattr(archives, "MAX_DIRECTORY_BYTES", 99)
    with pytest.raises(ArchiveError, match="its directory has 167 bytes, expected at most 99"):
        read(zip_bytes(FILES))


def test_a_directory_beyond_the_file_is_an_error() -> None:
    """Sizes of 2^32 and above claim nothing that is not there."""
    data = bytearray(zip_bytes(FILES))
    struct.pack_into("<L", data, len(data) - 10, 0xFFFFFFF0)
    with pytest.raises(ArchiveError):
        read(bytes(data))


def _mutated(data: bytes) -> st.SearchStrategy[bytes]:
    """The data with some bytes changed, most in the directory, or a part cut out."""

    def change(changes: list[tuple[int, int]]) -> bytes:
        found = bytearray(data)
        for at, value in changes:
            found[-1 - at % len(found)] = value
        return bytes(found)

    changes = st.lists(st.tuples(st.integers(0, len(data) - 1), st.integers(0, 255)), max_size=8)
    cuts = st.tuples(st.integers(0, len(data)), st.integers(0, len(data)))
    return changes.map(change) | cuts.map(lambda span: data[: span[0]] + data[span[1] :])


FUZZED = [
    zip_bytes({"1.jpg": b"one" * 9, "é/2.jpg": b"2"}),
    zip_bytes({"1.jpg": b"one" * 99, "2.jpg": b"2"}, zipfile.ZIP_DEFLATED),
]


@given(st.sampled_from(FUZZED).flatmap(_mutated))
def test_any_bytes_are_entries_or_an_archive_error(data: bytes) -> None:
    """And reading what is listed is a content of the size that was claimed, or an OSError."""
    try:
        for entry in zip_entries(io.BytesIO(data)):
            assert bool(entry.problem) == (entry.member is None)
            if entry.member:
                assert entry.member.at + entry.member.length <= len(data)
                found = contents_of(data, [entry])[entry.name]
                assert isinstance(found, str) or len(found) == entry.size
    except ArchiveError:
        pass
