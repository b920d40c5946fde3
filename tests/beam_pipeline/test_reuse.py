"""`convert --reuse`: a data set that grows is, byte for byte, a conversion from nothing."""

from __future__ import annotations

import json
import os
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.harness import (
    ALL_BAD,
    convert,
    convert_in_process_of_its_own,
    convert_killed_before,
    dead_letters_of,
    digests,
    manifest_of,
    shard_names,
)
from tests.pictures import picture, write_files

SHARDS = 8
KEYS = [f"{i:02d}.bmp" for i in range(40)]
CLASSES = ["ant", "bee", "cat"]


class Photos:
    """Images with a table of their classes, which can be edited."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.labels = {key: CLASSES[i % 3] for i, key in enumerate(KEYS)}
        self.pictures = {key: i for i, key in enumerate(KEYS)}
        self._written: dict[str, int] = {}
        self._edits = 0

    def draw(self, key: str, number: int) -> None:
        """Adds an image, or draws another one under its name."""
        self.pictures[key] = number
        self._written.pop(key, None)
        self.labels.setdefault(key, "ant")

    def remove(self, key: str) -> None:
        """Removes an image and its label."""
        self.pictures.pop(key, None)
        self.labels.pop(key, None)

    def save(self) -> list[str]:
        """Writes what was edited and returns the arguments that convert it."""
        os.makedirs(self.folder / "images", exist_ok=True)
        for key in set(self._written) - set(self.pictures):
            (self.folder / "images" / key).unlink()
            del self._written[key]
        for key, number in self.pictures.items():
            if key not in self._written:
                self._edits += 1
                path = self.folder / "images" / key
                path.write_bytes(b"no image" if number < 0 else picture(number, file_format="BMP"))
                os.utime(path, ns=(self._edits, self._edits))  # no two edits at the same time
                self._written[key] = number
        rows = "".join(f"{key},{label}\n" for key, label in self.labels.items())
        write_files(str(self.folder), {"labels.csv": f"filename,label\n{rows}"})
        labels = f"{self.folder}/labels.csv"
        return ["--images", f"{self.folder}/images", "--labels", labels, ALL_BAD, "--name", "d"]


@pytest.fixture
def photos(tmp_path: Path) -> Photos:
    return Photos(tmp_path)


@pytest.fixture
def first(photos: Photos, tmp_path: Path) -> Path:
    """The data set of the first night."""
    assert convert(*photos.save(), "--num_shards", str(SHARDS), "--output", f"{tmp_path}/1") == 0
    return tmp_path / "1"


def recorded_arguments(folder: Path) -> list[str]:
    """The arguments that give a conversion from nothing the shards and class ids of a data set."""
    options = manifest_of(folder)["options"]
    number = options["num_shards"]
    if isinstance(number, dict):
        number = ",".join(f"{split}={count}" for split, count in number.items())
    found = ["--num_shards", str(number)] if number else []
    return found + (["--classes", f"{folder}/manifest.json"] if "classes" in options else [])


def changes_of(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / "changes.json").read_text())
    return content


def assert_like_from_nothing(folder: Path, argv: list[str], tmp_path: Path) -> None:
    """The shards, the manifest and all other files are those of a conversion from nothing."""
    nothing = tmp_path / "nothing"
    shutil.rmtree(nothing, ignore_errors=True)
    assert convert(*argv, *recorded_arguments(folder), "--output", str(nothing)) == 0
    found = dict(digests(folder))
    del found["changes.json"]
    assert found == digests(nothing)
    assert digests(folder / ".receipts") == digests(nothing / ".receipts")


def linked(folder: Path, earlier: Path) -> set[str]:
    """The shards of a folder that are the same files as those of another."""
    inodes = {(earlier / name).stat().st_ino for name in shard_names(earlier)}
    return {name for name in shard_names(folder) if (folder / name).stat().st_ino in inodes}


KEY = st.sampled_from([*KEYS, *(f"new{i}.bmp" for i in range(4))])
EDIT = st.one_of(
    st.tuples(st.just("draw"), KEY, st.integers(-1, 99)),
    st.tuples(st.just("remove"), KEY, st.just(0)),
    st.tuples(st.just("relabel"), KEY, st.sampled_from([*CLASSES, "bat", "zebra"])),
)


def _edited_like_from_nothing(nights: list[list[tuple[str, str, Any]]], tmp_path: Path) -> None:
    shutil.rmtree(tmp_path)
    photos = Photos(tmp_path)
    size = ["--shard_size", "700"]  # bytes: 8 shards of 40 images, some 6 kB
    assert convert(*photos.save(), *size, "--output", f"{tmp_path}/0") == 0
    for night, edits in enumerate(nights, 1):
        for kind, key, value in edits:
            if kind == "draw":
                photos.draw(key, value)
            elif kind == "remove":
                photos.remove(key)
            elif key in photos.labels:
                photos.labels[key] = value
        argv = [*photos.save(), *size]
        earlier, output = tmp_path / str(night - 1), tmp_path / str(night)
        before = digests(earlier)
        assert convert(*argv, "--output", str(output), "--reuse", str(earlier)) == 0
        assert digests(earlier) == before
        assert_like_from_nothing(output, argv, tmp_path)
        assert len(linked(output, earlier)) == changes_of(output)["shards"]["reused"]


EDITS = st.lists(EDIT, max_size=6)
NIGHTS = st.lists(EDITS, min_size=1, max_size=2)
SHARED_FOLDER = [HealthCheck.function_scoped_fixture]


@pytest.mark.slow
@pytest.mark.promise("reused")
@given(NIGHTS)
@settings(max_examples=10, deadline=None, suppress_health_check=SHARED_FOLDER)
def test_nights_of_random_edits_give_what_a_conversion_from_nothing_gives(
    tmp_path: Path, nights: list[list[tuple[str, str, Any]]]
) -> None:
    """Each night reuses the data set of the night before.

    tests/work/test_receipts.py tries many more edits, without the rest of the job.
    """
    _edited_like_from_nothing(nights, tmp_path)


@pytest.mark.slow
def test_an_interrupted_run_is_resumed(photos: Photos, first: Path, tmp_path: Path) -> None:
    """`--resume` keeps what is there, links the rest, and says the same of what changed."""
    photos.draw("00.bmp", 77)
    argv = [*photos.save(), "--num_shards", str(SHARDS), "--reuse", str(first)]
    output = tmp_path / "2"
    assert convert(*argv, "--output", str(output)) == 0
    whole, changes = digests(output), changes_of(output)
    inodes = linked(output, first)
    shutil.rmtree(output)
    for operation in (30, 60, 90):
        killed = convert_killed_before(
            operation, *argv, "--output", str(output), "--resume", folder=output
        )
        assert killed == -signal.SIGKILL
        assert not (output / "manifest.json").exists()
    assert convert(*argv, "--output", str(output), "--resume") == 0
    assert (digests(output), changes_of(output)) == (whole, changes)
    assert linked(output, first) == inodes
    (output / shard_names(output)[0]).unlink()
    assert convert(*argv, "--output", str(output), "--resume") == 0
    assert digests(output) == whole
    assert linked(output, first) == inodes


@pytest.mark.slow
def test_excluded_keys_come_from_standard_input(photos: Photos, tmp_path: Path) -> None:
    """With a dash for the file; where all samples are excluded, nothing is written."""
    argv = [*photos.save(), "--output", f"{tmp_path}/out", "--exclude", "-"]
    done = convert_in_process_of_its_own(*argv, input="05.bmp\n")
    assert done.returncode == 0, done.stderr
    (letter,) = dead_letters_of(tmp_path / "out")
    assert (letter["key"], letter["file"], letter["line"]) == ("05.bmp", "standard input", 1)
    done = convert_in_process_of_its_own(*argv, "--overwrite", input="\n".join(KEYS))
    assert done.returncode == 1
    assert "none of 40 images can be written with a label: 40 excluded (such as " in done.stderr
    done = convert_in_process_of_its_own(*argv[:-1], f"{tmp_path}/none", input="")
    assert done.returncode == 2
    assert "--exclude" in done.stderr
