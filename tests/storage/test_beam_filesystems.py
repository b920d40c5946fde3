"""Files by Beam's own file systems: three are registered here that keep their files on the disk.

`over://` renames over a file, as a local disk does; `copies://` renames by a copy that appears whole and
a deletion, as S3 and Azure do; `refuses://` does not rename over a file, as HDFS does not.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import pytest
from apache_beam.io.filesystem import BeamIOError, FileMetadata, FileSystem

from beam_pipeline.core.errors import UsageError
from beam_pipeline.storage import files
from beam_pipeline.storage.base import FoundFile
from tests.harness import python

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

    def join(self, basepath: str, *paths: str) -> str:
        raise NotImplementedError

    def split(self, path: str) -> tuple[str, str]:
        raise NotImplementedError

    def mkdirs(self, path: str) -> None:
        raise NotImplementedError

    def copy(self, source_file_names: list[str], destination_file_names: list[str]) -> None:
        raise NotImplementedError

    def last_updated(self, path: str) -> float:
        raise NotImplementedError

    def checksum(self, path: str) -> str:
        raise NotImplementedError


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
    assert list(files.list_files(folder)) == [FoundFile("a", 5)]
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


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        (
            "https://host/a",
            "https:// cannot be read or written; expected local paths, gs://, s3://, az:// or azfs://, "
            "hdfs://; download the files first",
        ),
        (
            "foo://a",
            "foo:// cannot be read or written; expected local paths, gs://, s3://, az:// or azfs://, "
            "hdfs://; copy the files there",
        ),
    ],
)
def test_a_scheme_without_a_file_system_is_one_clear_line(uri: str, message: str) -> None:
    """Whatever is asked of it."""
    for ask in (
        files.read_bytes,
        files.open_input,
        files.exists,
        files.check_readable,
        files.prepare_folder,
    ):
        with pytest.raises(UsageError) as caught:
            ask(uri)
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
    argv = [
        "convert",
        "--images",
        f"{scheme}://bucket/photos",
        "--output",
        f"{scheme}://bucket/out",
    ]
    done = python("-c", code, *argv)
    assert done.returncode == 2
    assert done.stderr == (
        f"beam-tfrecord: error: {scheme}:// needs {library}, which is not installed: "
        f"pip install 'apache-beam[{extra}]'\n"
    )
