"""Archives: which members are listed as images, and members as files that are read and nothing else."""

from __future__ import annotations

import os
import tarfile
from collections import Counter
from pathlib import Path

import pytest

from beam_pipeline.core.archives import member_uri, tar_entries
from beam_pipeline.core.errors import ChangedFileError, ListingError
from beam_pipeline.core.listing.filters import Archive, ImageRoot, Listed
from beam_pipeline.storage import beam_filesystems, files
from beam_pipeline.storage.listing import (
    ArchiveMembers,
    OpenedArchive,
    archive_entries,
    list_archive,
)
from tests.archives import make_tar, make_zip

FILES = {
    "cat/1.jpg": b"one",
    "cat/hash": b"no extension",
    "cat/1.cls": b"3",
    ".hidden/2.jpg": b"",
    "__MACOSX/cat/._1.jpg": b"",
    "dog/.3.jpg": b"",
    "dog/4.PNG": b"four",
    "../5.jpg": b"5",
}


def root(path: Path, **fields: str) -> ImageRoot:
    """An archive to list."""
    kind = path.suffix[1:]
    return ImageRoot(str(path), archive=Archive(kind, path.name, **fields))


def together(path: Path, batch_size: int = 2, **fields: str) -> Listed:
    """All batches as one."""
    all_of_it = Listed([], [], Counter())
    for listed in list_archive(root(path, **fields), batch_size):
        assert len(listed.images) <= batch_size
        all_of_it.images += listed.images
        all_of_it.dead_letters += listed.dead_letters
        all_of_it.ignored.update(listed.ignored)
    return all_of_it


@pytest.mark.parametrize("kind", ["tar", "zip"])
def test_the_images_of_an_archive(kind: str, tmp_path: Path) -> None:
    """By the rules of folders; each can be read, and has the archive's version."""
    path = tmp_path / f"pets.{kind}"
    (make_tar if kind == "tar" else make_zip)(path, FILES)
    listed = together(path)
    assert {image.key: files.read_image(image.uri, image.size) for image in listed.images} == {
        "pets.tar/cat/1.jpg".replace("tar", kind): b"one",
        f"pets.{kind}/cat/hash": b"no extension",
        f"pets.{kind}/dog/4.PNG": b"four",
    }
    assert {image.version for image in listed.images} == {os.stat(path).st_mtime_ns}
    assert [image.path for image in listed.images] == ["cat/1.jpg", "cat/hash", "dog/4.PNG"]
    assert listed.ignored == {".cls": 1, "hidden folders": 2, "hidden files": 1}
    (letter,) = listed.dead_letters
    assert letter[:2] == ("list", f"pets.{kind}/../5.jpg")
    assert letter[3:5] == ("unusable_member", "its name leads out of the archive")
    assert letter.uri == str(path)


def test_a_name_that_is_no_utf8_is_left_out(tmp_path: Path) -> None:
    """No feature can hold it."""
    make_tar(tmp_path / "a.tar", {"caf\udce9.jpg": b"1"}, tarfile.GNU_FORMAT)
    listed = together(tmp_path / "a.tar")
    assert listed.images == []
    assert [(found.key, found.reason) for found in listed.dead_letters] == [
        ("a.tar/caf\\udce9.jpg", "name_not_utf8")
    ]


def test_an_image_outside_of_the_top_folder_is_an_error(tmp_path: Path) -> None:
    """It would get another class than was meant."""
    make_tar(tmp_path / "a.tar", {"x/cat/1.jpg": b"", "y/cat/1.jpg": b""})
    with pytest.raises(ListingError, match=r"y/cat/1\.jpg is outside of x/"):
        together(tmp_path / "a.tar", top="x/")


@pytest.mark.parametrize("name", ["a.tar", "a.zip"])
def test_errors_name_the_archive(name: str, tmp_path: Path) -> None:
    """One that is gone, a pipe, and one that is none."""
    path = tmp_path / name
    with pytest.raises(ListingError, match=rf"{name} cannot be read: No such file"):
        list(archive_entries(root(path)))
    os.mkfifo(path)
    with pytest.raises(ListingError, match=rf"{name} cannot be read: a pipe"):
        list(archive_entries(root(path)))
    path.unlink()
    path.write_bytes(b"something else, of some length" * 99)
    with pytest.raises(ListingError, match=rf"{name}: it is not a {name[2:]}"):
        list(archive_entries(root(path)))


def test_a_file_in_an_archive_can_be_read_while_it_is_listed(tmp_path: Path) -> None:
    """As labels beside images are."""
    make_tar(tmp_path / "a.tar", FILES)
    with OpenedArchive(root(tmp_path / "a.tar")) as archive:
        found = {
            entry.name: archive.content(entry.member, entry.size)
            for entry in archive.entries()
            if entry.member
        }
    assert found == {name: content for name, content in FILES.items() if ".." not in name}


@pytest.fixture
def uris(tmp_path: Path) -> list[str]:
    """The members of a tar."""
    make_tar(tmp_path / "a.tar", {"1.jpg": b"one", "2.jpg": b"two" * 300})
    with open(tmp_path / "a.tar", "rb") as file:
        return [
            member_uri(str(tmp_path / "a.tar"), entry.member)
            for entry in tar_entries(file)
            if entry.member
        ]


def test_a_member_is_read_by_its_range(uris: list[str]) -> None:
    """Found by the scheme of its URI."""
    assert [files.read_image(uri, size) for uri, size in zip(uris, (3, 900), strict=True)] == [
        b"one",
        b"two" * 300,
    ]
    assert files.file_system(uris[0]).read(uris[0], 3, 1) == b"ne"


def test_any_storage_may_hold_the_archive(uris: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Beam's file systems read a range of it, not the whole."""
    monkeypatch.setattr(files, "_LOCAL", beam_filesystems.BeamFileSystem())
    assert files.read_image(uris[1], 900) == b"two" * 300


def test_an_archive_that_changed_is_noticed(uris: list[str], tmp_path: Path) -> None:
    """The header before the content is not the one that was listed."""
    make_tar(tmp_path / "a.tar", {"0.jpg": b"one", "2.jpg": b"two" * 300})
    with pytest.raises(ChangedFileError, match="the archive has changed"):
        files.read_image(uris[0], 3)
    with pytest.raises(ChangedFileError, match="the archive has changed"):
        files.read_image(uris[1], 901)


def test_one_that_is_gone_is_an_error(uris: list[str], tmp_path: Path) -> None:
    """As for a file."""
    (tmp_path / "a.tar").unlink()
    with pytest.raises(FileNotFoundError):
        files.read_image(uris[0], 3)


def test_nothing_else_can_be_done(uris: list[str]) -> None:
    """Each try is an OSError."""
    members = ArchiveMembers()
    assert members.size_of(uris[0]) == -1
    assert list(members.list_files(uris[0])) == []
    with pytest.raises(OSError, match="only read"):
        members.open_input(uris[0])
    with pytest.raises(OSError, match="only read"):
        members.open_output(uris[0], "x")
    with pytest.raises(OSError, match="only read"):
        members.delete(uris)
    members.delete([])
