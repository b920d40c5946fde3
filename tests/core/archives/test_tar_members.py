"""The members of tars: of every format, with what does not belong, and damaged."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_pipeline.core.archives import ArchiveError, tar_entries
from tests.archives import contents_of, tar_bytes

FILES = {
    "1.jpg": b"one",
    "./cat/2.jpg": b"",
    "größe/猫.jpg": b"x" * 512,
    f"{'long/' * 40}3.jpg": b"y" * 700,
}
PLAIN = {name.removeprefix("./"): content for name, content in FILES.items()}


def read(data: bytes) -> dict[str, bytes | str]:
    return contents_of(data, tar_entries(io.BytesIO(data)))


@pytest.mark.parametrize("tar_format", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_every_member_lies_where_it_is_said_to(tar_format: int) -> None:
    """Long names and those that are not ASCII come in headers of their own."""
    assert read(tar_bytes(FILES, tar_format)) == PLAIN
    assert read(tar_bytes({})) == {}


def test_the_oldest_format_is_read_too() -> None:
    """POSIX's of 1988."""
    assert read(tar_bytes({"a/1.jpg": b"1"}, tarfile.USTAR_FORMAT)) == {"a/1.jpg": b"1"}


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


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (special(tarfile.SYMTYPE, linkname="/etc/passwd"), "a symbolic link to '/etc/passwd'"),
        (special(tarfile.LNKTYPE, linkname="b.jpg"), "a hard link to 'b.jpg'; pack the files"),
        (special(tarfile.FIFOTYPE), "a device or a pipe, not a file"),
        (special(tarfile.CHRTYPE), "a device or a pipe, not a file"),
    ],
)
def test_what_is_no_file_has_a_reason(data: bytes, problem: str) -> None:
    """Links are not followed, whether they lead out of the archive or not."""
    ((name, found),) = read(data).items()
    assert name == "a.jpg"
    assert str(found).startswith(problem)


def test_folders_are_passed_over() -> None:
    """They hold nothing themselves."""
    assert read(special(tarfile.DIRTYPE)) == {}


def test_names_that_lead_out_have_a_reason() -> None:
    """Nothing would be written, but they belong to no data set."""
    assert read(tar_bytes({"../1.jpg": b"1", "/2.jpg": b"2", "3.jpg": b"3"})) == {
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


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "it is no tar"),
        (b"PK\3\4" + bytes(700), "it is no tar"),
        (GOOD[:700], "unexpected end of data"),
        (GOOD[:1536], "ends at byte 1536 without the empty block"),
        (GOOD[:1540], "ends at byte 1540 without the empty block"),
        (GOOD[:1536] + b"x" + GOOD[1537:], "the header at byte 1536 is damaged"),
        (GOOD + GOOD, "something follows behind its end at byte 3584"),
        (_huge_attributes(tarfile.GNUTYPE_LONGNAME), "other attributes of 2147483648 bytes"),
        (_huge_attributes(tarfile.XHDTYPE), "other attributes of 2147483648 bytes"),
        (_huge_attributes(tarfile.XGLTYPE), "other attributes of 2147483648 bytes"),
        (_chain(5000), "recursion"),
        (_negative_size(), "it is no tar"),
        (_pax(size="-5120"), "it is no tar|the header at byte 0 is damaged"),  # by Python's version
        (GOOD[:1536] + _pax(size="-5120"), "it is no tar|the header at byte 1536 is damaged"),
        (special(tarfile.GNUTYPE_SPARSE), "a sparse file"),
        (_pax(**{"GNU.sparse.major": "1", "GNU.sparse.minor": "0"}), "a sparse file"),
    ],
)
def test_a_broken_archive_is_one_error(data: bytes, problem: str) -> None:
    """Nobody knows what it held, so nothing of it is believed."""
    with pytest.raises(ArchiveError, match=problem):
        read(data)


def _mutated(data: bytes) -> st.SearchStrategy[bytes]:
    """The data with some bytes changed, a part cut out, or its end cut off."""

    def change(changes: list[tuple[int, int]]) -> bytes:
        found = bytearray(data)
        for at, value in changes:
            found[at % len(found)] = value
        return bytes(found)

    changes = st.lists(st.tuples(st.integers(0, len(data) - 1), st.integers(0, 255)), max_size=8)
    cuts = st.tuples(st.integers(0, len(data)), st.integers(0, len(data)))
    cut: Callable[[tuple[int, int]], bytes] = lambda span: data[: span[0]] + data[span[1] :]  # noqa: E731
    return changes.map(change) | cuts.map(cut)


FUZZED = [
    tar_bytes(FILES, tarfile.PAX_FORMAT)[:6144],
    tar_bytes(FILES)[:6144],
    special(tarfile.SYMTYPE, linkname="x" * 200),
]


@given(st.sampled_from(FUZZED).flatmap(_mutated))
def test_any_bytes_are_entries_or_an_archive_error(data: bytes) -> None:
    """And reading what is listed is a content of the size that was claimed, or an OSError."""
    try:
        for entry in tar_entries(io.BytesIO(data)):
            assert bool(entry.problem) == (entry.member is None)
            if entry.member:
                found = contents_of(data, [entry])[entry.name]
                assert isinstance(found, str) or len(found) == entry.size
    except ArchiveError:
        pass
