"""Files by URI, and what a file system gets from the protocol beyond what it must bring itself."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from google_crc32c import extend
from hypothesis import given
from hypothesis import strategies as st

from beam_pipeline.core.errors import UsageError
from beam_pipeline.storage import files
from beam_pipeline.storage.files import file_system
from tests.harness import python
from tests.storage.fixtures import MemoryFiles


@pytest.fixture
def storage() -> MemoryFiles:
    """A bucket with two files in `out` and one beside it."""
    return MemoryFiles({"x://b/out/a/1": b"12", "x://b/out/2": b"345", "x://b/outer": b""})


def test_a_missing_file_is_none_or_an_error(storage: MemoryFiles) -> None:
    """`read_if_there` tells the two apart; other errors pass."""
    assert storage.read_if_there("x://b/out/2") == b"345"
    assert storage.read_if_there("x://b/out/3") is None
    assert (storage.exists("x://b/out/2"), storage.exists("x://b/out/3")) == (True, False)
    assert storage.exists("x://b/outer")  # though it is empty


def test_storage_without_folders_lists_paths(storage: MemoryFiles) -> None:
    """Names are sorted, and relative to the folder; a folder that does not exist has none."""
    assert storage.list_folder("x://b/out") == ["2", "a/1"]
    sizes = {name: file.size for name, file in storage.files_in("x://b/out").items()}
    assert sizes == {"2": 3, "a/1": 2}
    assert storage.list_folder("x://b/gone") == []


def test_deleting_a_folder_deletes_what_is_below_it(storage: MemoryFiles) -> None:
    """And nothing beside it."""
    storage.delete_folder("x://b/out")
    assert storage.files == {"x://b/outer": b""}


def test_what_a_storage_cannot_do_does_nothing(storage: MemoryFiles) -> None:
    """Folders, credentials and versions are not of every storage."""
    before = dict(storage.files)
    storage.make_folder("x://b/new")
    storage.prepare_folder("x://b/new", "x://b/new/probe")
    storage.check_credentials()
    storage.check_readable("x://b/gone")
    assert storage.version_of("x://b/out/2") == 0
    assert storage.files == before


@given(parts=st.lists(st.sampled_from(["/", "//", "a", ".", "..", ".a", "a.", "~", " "])))
def test_an_absolute_path_is_what_the_system_makes_of_it(parts: list[str]) -> None:
    """However it is written; most need no work."""
    path = "/" + "".join(parts)
    assert files.canonical(path) == os.path.abspath(path)


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("gs://pets/photos//", "gs://pets/photos"),
        ("file:///photos/", "/photos"),
        ("s3://pets/a//../b", "s3://pets/a//../b"),
    ],
)
def test_a_remote_uri_loses_only_slashes_at_its_end(uri: str, expected: str) -> None:
    """The name of an object may be anything; `file://` is a local path."""
    assert files.canonical(uri) == expected


def test_the_name_of_an_object_may_begin_with_a_slash() -> None:
    """A local one is then a path of its own."""
    assert files.join("gs://pets", "/a", "", "b") == "gs://pets//a/b"
    assert files.join("/pets", "a", "b") == "/pets/a/b"


def test_a_text_file_that_cannot_be_read_is_refused_by_name(tmp_path: Path) -> None:
    """A missing one, a folder, one that is too long and one in another encoding."""
    path = tmp_path / "a.txt"
    path.write_bytes(b"\xef\xbb\xbfone\n")
    assert files.read_text(str(path), most=7) == "one\n"
    with pytest.raises(UsageError, match=r"a\.txt has 7 bytes; expected 6 at most"):
        files.read_text(str(path), most=6)
    path.write_bytes(b"\xff")
    with pytest.raises(UsageError, match=r"--list a is not UTF-8 .*; save it as UTF-8"):
        files.read_text(str(path), "--list a")
    with pytest.raises(UsageError, match=r"none\.txt cannot be read: No such file or directory"):
        files.read_text(str(tmp_path / "none.txt"))
    with pytest.raises(UsageError, match="cannot be read: Is a directory"):
        files.read_text(str(tmp_path))


def test_an_image_in_a_container_must_be_there_whole(tmp_path: Path) -> None:
    """A file that ends before is an error with its name; a whole file may have any size."""
    path = str(tmp_path / "a.bin")
    files.write_bytes(path, b"0123456789")
    assert files.read_image(path, 4, 3) == b"3456"
    assert files.read_image(path, 10) == b"0123456789"
    with pytest.raises(OSError, match="the file ends before byte 12") as caught:
        files.read_image(path, 4, 8)
    assert (caught.value.errno, caught.value.filename) == (errno.EIO, path)


def test_a_file_is_written_in_the_incomplete_folder(tmp_path: Path) -> None:
    """Until it is complete; a file of that folder itself, too."""
    for name in ("a", ".incomplete/plan.json"):
        with files.open_output(str(tmp_path / name)) as sink:
            sink.write(b"x")
            (temporary,) = [n for n in os.listdir(tmp_path / ".incomplete") if n != "plan.json"]
            assert temporary.startswith(f"{os.path.basename(name)}.{os.getpid()}.")
        assert files.read_if_there(str(tmp_path / name)) == b"x"
    assert os.listdir(tmp_path / ".incomplete") == ["plan.json"]


def test_a_missing_file_has_no_bytes_and_no_size(tmp_path: Path) -> None:
    """None and -1 say so; deleting it is no error."""
    uri = str(tmp_path / "none")
    assert files.read_if_there(uri) is None
    assert files.size_of(uri) == -1
    assert not files.exists(uri)
    files.delete(str(tmp_path), ["none"])
    files.delete_folder(uri)


def test_only_an_empty_folder_is_removed(tmp_path: Path) -> None:
    """One that holds something stays, and one that does not exist is no error."""
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "mine").write_bytes(b"")
    files.remove_folder(str(folder))
    assert os.listdir(folder) == ["mine"]
    (folder / "mine").unlink()
    files.remove_folder(str(folder))
    files.remove_folder(str(folder))
    assert not folder.exists()


def test_a_file_holds_what_its_length_and_checksum_say(tmp_path: Path) -> None:
    """Zeros of the same length, another length, a folder and nothing at all do not."""
    path = tmp_path / "a"
    path.write_bytes(b"123456789")
    assert files.holds(str(path), 9, 0xE3069283)
    path.write_bytes(bytes(9))
    assert not files.holds(str(path), 9, 0xE3069283)
    path.write_bytes(b"12345678")
    assert not files.holds(str(path), 9, 0xE3069283)
    assert not files.holds(str(tmp_path), 9, 0xE3069283)
    assert not files.holds(str(tmp_path / "none"), 9, 0xE3069283)


def test_a_file_that_cannot_be_linked_is_copied(tmp_path: Path) -> None:
    """As a link is followed, for instance; nothing appears where the bytes are others than expected."""
    (tmp_path / "a").write_bytes(b"content")
    (tmp_path / "link").symlink_to("a")
    crc = extend(0, b"content")
    assert files.copy(str(tmp_path / "link"), str(tmp_path / "b"), crc)
    assert (tmp_path / "b").read_bytes() == b"content"
    assert not os.path.samefile(tmp_path / "a", tmp_path / "b")
    assert not files.copy(str(tmp_path / "link"), str(tmp_path / "c"), crc + 1)
    assert not (tmp_path / "c").exists()
    assert files.copy(str(tmp_path / "a"), str(tmp_path / "d"), crc)
    assert os.path.samefile(tmp_path / "a", tmp_path / "d")


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("/photos/a.jpg", "LocalFiles"),
        ("photos/a.jpg", "LocalFiles"),
        ("gs:/a", "LocalFiles"),
        ("gs://pets/a.jpg", "GoogleStorage"),
        ("s3://pets/a.jpg", "S3Files"),
        ("az://pets/a.jpg", "AzureFiles"),
        ("abfs://pets@account.dfs.core.windows.net/a.jpg", "AzureFiles"),
        ("hdfs://pets/a.jpg", "BeamFileSystem"),
        ("GS://pets/a.jpg", "BeamFileSystem"),
    ],
)
def test_a_scheme_has_its_file_system(uri: str, expected: str) -> None:
    """One object serves all URIs of a scheme."""
    libraries = {"GoogleStorage": "google.auth", "S3Files": "botocore", "AzureFiles": "obstore"}
    if expected in libraries:
        pytest.importorskip(libraries[expected])
    assert type(file_system(uri)).__name__ == expected
    assert file_system(uri) is file_system(uri)


def test_local_files_import_no_other_file_system() -> None:
    """Neither the modules for other schemes nor their libraries."""
    script = (
        "import sys; from beam_pipeline.storage import files;"
        "files.list_folder('/'); files.exists('/');"
        "names = [n for n in sys.modules if n.startswith(('apache_beam', 'obstore', 'botocore', 'google.cloud.storage', 'google.auth'))];"
        "ours = [n for n in sys.modules if '.storage.google' in n or '.storage.beam' in n or '.storage.obstore' in n];"
        "print(names, ours)"
    )
    run = python("-c", script, check=True)
    assert run.stdout == "[] []\n"
