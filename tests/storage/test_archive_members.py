"""Members of archives are files that are read, in any storage, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from beam_pipeline.core.archives import member_uri, tar_entries
from beam_pipeline.core.errors import ChangedFileError
from beam_pipeline.storage import beam_filesystems, files
from beam_pipeline.storage.archives import ArchiveMembers
from tests.archives import make_tar


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
