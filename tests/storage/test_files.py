"""Files by URI, on this machine and by Beam's own file systems, and what the protocol gives."""

from __future__ import annotations

import errno
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import pytest
from apache_beam.io.filesystem import BeamIOError, FileMetadata, FileSystem
from google_crc32c import extend
from hypothesis import given
from hypothesis import strategies as st

from beam_pipeline.core.errors import UsageError
from beam_pipeline.storage import base, files
from tests.harness import python
from tests.rows import in_rows
from tests.storage.fixtures import MemoryFiles


@pytest.fixture
def storage() -> MemoryFiles:
    """A bucket with two files in `out` and one beside it."""
    return MemoryFiles({"x://b/out/a/1": b"12", "x://b/out/2": b"345", "x://b/outer": b""})


def test_what_the_protocol_gives(storage: MemoryFiles) -> None:
    """Storage without folders lists paths, sorted and relative; what it cannot do, such as credentials, does nothing."""
    assert storage.read_if_there("x://b/out/2") == b"345"
    assert storage.read_if_there("x://b/out/3") is None
    names = ("out/2", "out/3", "outer")  # the last is empty
    assert [storage.exists(f"x://b/{name}") for name in names] == [True, False, True]
    assert storage.list_folder("x://b/out") == ["2", "a/1"]
    sizes = {name: file.size for name, file in storage.files_in("x://b/out").items()}
    assert sizes == {"2": 3, "a/1": 2}
    assert storage.list_folder("x://b/gone") == []
    before = dict(storage.files)
    storage.make_folder("x://b/new")
    storage.prepare_folder("x://b/new", "x://b/new/probe")
    storage.check_credentials()
    storage.check_readable("x://b/gone")
    assert storage.version_of("x://b/out/2") == 0
    assert storage.files == before
    storage.delete_folder("x://b/out")
    assert storage.files == {"x://b/outer": b""}


@given(parts=st.lists(st.sampled_from(["/", "//", "a", ".", "..", ".a", "a.", "~", " "])))
def test_an_absolute_path_is_what_the_system_makes_of_it(parts: list[str]) -> None:
    """However it is written; most need no work."""
    path = "/" + "".join(parts)
    assert files.canonical(path) == os.path.abspath(path)


def test_a_remote_uri_loses_only_slashes_at_its_end() -> None:
    """The name of an object may be anything, also begin with a slash; `file://` is a local path."""
    assert files.canonical("gs://pets/photos//") == "gs://pets/photos"
    assert files.canonical("file:///photos/") == "/photos"
    assert files.canonical("s3://pets/a//../b") == "s3://pets/a//../b"
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
    for content in (b"123456789", bytes(9), b"12345678"):
        path.write_bytes(content)
        assert files.holds(str(path), 9, 0xE3069283) == (content == b"123456789")
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


@in_rows
def test_a_scheme_has_its_file_system(uri: str, expected: str) -> None:
    """One object serves all URIs of a scheme."""
    libraries = {"GoogleStorage": "google.auth", "S3Files": "botocore", "AzureFiles": "obstore"}
    if expected in libraries:
        pytest.importorskip(libraries[expected])
    assert type(files.file_system(uri)).__name__ == expected
    assert files.file_system(uri) is files.file_system(uri)


# --- beam -----------------------------------------------------------------------------------------


SCHEMES = ("over", "copies", "refuses")


def path_of(uri: str) -> str:
    return uri.partition("://")[2]


class DiskFileSystem(FileSystem):
    """Files of the disk by URIs; each change of the disk is a step.

    Attributes:
      step: called before each.
    """

    step: Callable[[], None] = staticmethod(lambda: None)

    @classmethod
    def scheme(cls) -> str:
        return "over"

    def _move(self, source: str, target: str) -> None:
        DiskFileSystem.step()
        os.replace(source, target)

    def rename(self, source_file_names: list[str], destination_file_names: list[str]) -> None:
        for source, target in zip(source_file_names, destination_file_names, strict=True):
            self._move(path_of(source), path_of(target))

    def create(self, path: str, *_: Any, **__: Any) -> BinaryIO:
        DiskFileSystem.step()
        os.makedirs(os.path.dirname(path_of(path)), exist_ok=True)
        return open(path_of(path), "wb")

    def open(self, path: str, *_: Any, **__: Any) -> BinaryIO:
        return open(path_of(path), "rb")

    def exists(self, path: str) -> bool:
        return os.path.exists(path_of(path))

    def delete(self, paths: list[str]) -> None:
        for path in paths:
            DiskFileSystem.step()
            os.unlink(path_of(path))

    def has_dirs(self) -> bool:
        return True

    def _list(self, dir_or_prefix: str) -> Iterator[FileMetadata]:
        for folder, _, names in os.walk(path_of(dir_or_prefix)):
            for name in names:
                path = os.path.join(folder, name)
                yield self.metadata(f"{self.scheme()}://{path}")

    def metadata(self, path: str) -> FileMetadata:
        return FileMetadata(path, os.path.getsize(path_of(path)))

    def size(self, path: str) -> int:
        return os.path.getsize(path_of(path))

    def _unused(self, *_: Any) -> Any:
        raise NotImplementedError

    join = split = mkdirs = copy = last_updated = checksum = _unused


class CopyingFileSystem(DiskFileSystem):
    """An object store."""

    @classmethod
    def scheme(cls) -> str:
        return "copies"

    def has_dirs(self) -> bool:
        return False

    def _move(self, source: str, target: str) -> None:
        DiskFileSystem.step()
        shutil.copy(source, f"{target}.copy")
        os.replace(f"{target}.copy", target)
        DiskFileSystem.step()
        os.unlink(source)


class RefusingFileSystem(DiskFileSystem):
    """One that has no way to rename over a file."""

    @classmethod
    def scheme(cls) -> str:
        return "refuses"

    def _move(self, source: str, target: str) -> None:
        if os.path.exists(target):
            raise BeamIOError("Rename operation failed", {(source, target): "it exists"})
        super()._move(source, target)


def contents(folder: Path) -> dict[str, bytes]:
    """Path below the folder -> bytes of every file."""
    paths = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_file_is_written_read_and_deleted(tmp_path: Path, scheme: str) -> None:
    """New and over an older one; nothing else is left, and what is missing is said to be."""
    folder = f"{scheme}://{tmp_path}/out"
    uri = files.join(folder, "a")
    assert files.read_if_there(uri) is None
    assert files.size_of(uri) == -1
    for content in (b"old", b"newer"):
        files.write_bytes(uri, content)
        assert contents(tmp_path) == {"out/a": content}
    assert files.read_bytes(uri) == files.read_image(uri, 5) == b"newer"
    assert files.read_image(uri, 2, 1) == b"ew"
    with pytest.raises(OSError, match="the file ends before byte 7"):
        files.read_image(uri, 4, 3)
    assert files.size_of(uri) == 5
    assert list(files.list_files(folder)) == [base.FoundFile("a", 5)]
    assert {name: file.size for name, file in files.files_in(folder).items()} == {"a": 5}
    files.delete(folder, ["a", "none"])
    assert files.list_folder(folder) == []


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_file_whose_writing_failed_is_removed(tmp_path: Path, scheme: str) -> None:
    """The older one stays."""
    uri = f"{scheme}://{tmp_path}/a"
    files.write_bytes(uri, b"old")

    def write_and_fail() -> None:
        with files.open_output(uri) as sink:
            sink.write(b"new")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_and_fail()
    assert contents(tmp_path) == {"a": b"old"}


def killed_at(step: int, uri: str) -> bool:
    """Writes a file in a process that is killed before a step; tells whether it came that far."""
    process = os.fork()
    if process == 0:
        steps = iter(range(step))
        DiskFileSystem.step = staticmethod(  # type: ignore[assignment]
            lambda: os.kill(os.getpid(), signal.SIGKILL) if next(steps, None) is None else None
        )
        try:
            files.write_bytes(uri, b"new")
        finally:
            os._exit(0)
    _, status = os.waitpid(process, 0)
    return os.WIFSIGNALED(status)


LEFT_BEHIND: dict[str, list[set[str]]] = {
    "over": [set(), {"new"}, set()],
    "copies": [set(), {"new"}, {"new"}, set()],
    "refuses": [set(), {"new"}, {"new", "old"}, {"old"}, set()],
}


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_older_file_survives_a_kill_at_any_point(tmp_path: Path, scheme: str) -> None:
    """It or the new one has the name; while HDFS lets none have it, both are in `.incomplete`."""
    for step, left in enumerate(LEFT_BEHIND[scheme]):
        folder = tmp_path / str(step)
        uri = f"{scheme}://{folder}/a"
        files.write_bytes(uri, b"old")
        assert killed_at(step, uri) == (step < len(LEFT_BEHIND[scheme]) - 1)
        named = folder / "a"
        hidden = {path.read_bytes().decode() for path in (folder / ".incomplete").iterdir()}
        assert hidden == left
        if named.exists():
            assert named.read_bytes() in (b"old", b"new")
        else:
            assert scheme == "refuses"
            (aside,) = (folder / ".incomplete").glob("a.*.replaced")
            assert aside.read_bytes() == b"old"


def test_a_rename_that_fails_for_another_reason_keeps_the_older_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is an error, and the older file has its name again."""
    uri = f"refuses://{tmp_path}/a"
    files.write_bytes(uri, b"old")
    refuse = RefusingFileSystem._move
    tried: list[str] = []

    def move(self: RefusingFileSystem, source: str, target: str) -> None:
        tried.append(target)
        if len(tried) == 3:  # the older file has been moved aside
            raise BeamIOError("Rename operation failed", {})
        refuse(self, source, target)

    monkeypatch.setattr(RefusingFileSystem, "_move", move)
    with pytest.raises(OSError, match="Rename operation failed"):
        files.write_bytes(uri, b"new")
    assert (tmp_path / "a").read_bytes() == b"old"


OURS = "cannot be read or written; expected local paths, gs://, s3://, az:// or azfs://, hdfs://"


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("https://host/a", f"https:// {OURS}; download the files first"),
        ("foo://a", f"foo:// {OURS}; copy the files there"),
    ],
)
@pytest.mark.parametrize(
    "ask", ["read_bytes", "open_input", "exists", "check_readable", "prepare_folder"]
)
def test_a_scheme_without_a_file_system_is_one_clear_line(uri: str, message: str, ask: str) -> None:
    """Whatever is asked of it."""
    with pytest.raises(UsageError) as caught:
        getattr(files, ask)(uri)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("scheme", "library", "extra"),
    [("azfs", "azure.storage.blob", "azure"), ("hdfs", "hdfs", "hadoop")],
)
def test_a_library_that_is_missing_is_named(scheme: str, library: str, extra: str) -> None:
    """With what installs it; Beam itself asserts, or says what it was not given."""
    code = (
        "import sys\n"
        f"sys.modules[{library!r}] = sys.modules[{library.partition('.')[0]!r}] = None\n"
        "from beam_pipeline.cli import main\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    bucket = f"{scheme}://bucket"
    argv = ["convert", "--images", f"{bucket}/photos", "--output", f"{bucket}/out"]
    done = python("-c", code, *argv)
    assert done.returncode == 2
    assert done.stderr == (
        f"beam-tfrecord: error: {scheme}:// needs {library}, which is not installed: "
        f"pip install 'apache-beam[{extra}]'\n"
    )
