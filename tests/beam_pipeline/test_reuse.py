"""`convert --reuse`: a data set that grows is, byte for byte, a conversion from nothing."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.archives import zip_bytes
from tests.harness import (
    ALL_BAD,
    NONE_BAD,
    convert,
    convert_in_process_of_its_own,
    convert_killed_before,
    dead_letters_of,
    digests,
    manifest_of,
    run_convert,
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


@pytest.mark.promise("reused")
def test_only_the_shards_of_changed_samples_are_written(
    photos: Photos, first: Path, tmp_path: Path
) -> None:
    """The others are hard links, which stay when the earlier data set is deleted."""
    photos.draw("00.bmp", 77)
    photos.labels["01.bmp"] = "cat"
    photos.remove("02.bmp")
    photos.draw("new.bmp", 5)
    argv = [*photos.save(), "--output", f"{tmp_path}/2", "--num_shards", str(SHARDS)]
    printed = run_convert(*argv, "--reuse", str(first))
    changes = changes_of(tmp_path / "2")
    assert changes["since"] == str(first)
    assert changes["samples"] == {"added": 1, "removed": 1, "changed": 1, "relabelled": 1}
    kept = linked(tmp_path / "2", first)
    assert changes["shards"] == {"reused": len(kept), "written": SHARDS - len(kept)}
    assert SHARDS - 4 <= len(kept) < SHARDS
    assert changes["bytes"]["reused"] == sum((tmp_path / "2" / n).stat().st_size for n in kept)
    assert "Since " + str(first) in printed.out
    whole = digests(tmp_path / "2")
    shutil.rmtree(first)
    assert digests(tmp_path / "2") == whole


@pytest.mark.slow
def test_members_of_an_archive_change_with_it(tmp_path: Path) -> None:
    """Shards without a member of an archive that was written anew are taken, the others written."""

    def put(name: str, numbers: range) -> None:
        members = {f"{'ab'[i % 2]}/{name}{i}.jpg": picture(n) for i, n in enumerate(numbers)}
        write_files(str(tmp_path), {f"{name}.zip": zip_bytes(members)})

    put("many", range(40))
    put("few", range(2))
    argv = ["--images", f"{tmp_path}/*.zip", "--name", "d", "--num_shards", str(SHARDS)]
    assert convert(*argv, "--output", f"{tmp_path}/1") == 0
    put("few", range(5, 7))
    os.utime(tmp_path / "few.zip", ns=(1, 1))
    assert convert(*argv, "--output", f"{tmp_path}/2", "--reuse", f"{tmp_path}/1") == 0
    changes = changes_of(tmp_path / "2")
    assert changes["samples"] == {"added": 0, "removed": 0, "changed": 2, "relabelled": 0}
    assert changes["shards"]["written"] in (1, 2)
    assert_like_from_nothing(tmp_path / "2", argv, tmp_path)


def test_an_unchanged_data_set_is_linked_whole(photos: Photos, first: Path, tmp_path: Path) -> None:
    """Under another name, too: no image is opened, and the manifest differs in the name alone."""
    argv = [*photos.save()[:-2], "--output", f"{tmp_path}/2", "--num_shards", str(SHARDS)]
    images = sorted((tmp_path / "images").iterdir())
    for path in images:
        os.utime(path, ns=(0, path.stat().st_mtime_ns))
    assert convert(*argv, "--reuse", str(first)) == 0
    assert {path.stat().st_atime_ns for path in images} == {0}
    assert linked(tmp_path / "2", first) == set(shard_names(tmp_path / "2"))
    assert shard_names(tmp_path / "2")[0] == "2-train.tfrecord-00000-of-00008"


@pytest.mark.promise("reused_damaged")
@pytest.mark.parametrize(
    "damage",
    ["zeros", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("cut", "gone", "receipt"))],
)
def test_a_damaged_shard_is_written_again_and_named(
    photos: Photos, first: Path, tmp_path: Path, damage: str
) -> None:
    """So is one whose receipt is damaged; all others are linked."""
    name = shard_names(first)[3]
    path = first / name
    if damage == "cut":
        os.truncate(path, 100)
    elif damage == "zeros":
        path.write_bytes(bytes(path.stat().st_size))
    elif damage == "gone":
        path.unlink()
    else:
        (receipt,) = (first / ".receipts").glob("*-00003-of-*")
        receipt.write_bytes(b"damaged")
    argv = [*photos.save(), "--num_shards", str(SHARDS)]
    assert convert(*argv, "--output", f"{tmp_path}/2", "--reuse", str(first)) == 0
    assert linked(tmp_path / "2", first) == {*shard_names(first)} - {name}
    (note,) = changes_of(tmp_path / "2")["notes"]
    assert "00003-of-00008" in note
    assert note.endswith("the shard is written again")
    assert_like_from_nothing(tmp_path / "2", argv, tmp_path)


def test_classes_keep_their_ids(photos: Photos, first: Path, tmp_path: Path) -> None:
    """A class that sorts first comes last; one that nobody has any more keeps its id."""
    photos.labels = {
        key: "ant" if label == "bee" else label for key, label in photos.labels.items()
    }
    photos.labels["00.bmp"] = "aardvark"
    argv = [*photos.save(), "--num_shards", str(SHARDS)]
    printed = run_convert(*argv, "--output", f"{tmp_path}/2", "--reuse", str(first))
    classes = {entry["name"]: entry["id"] for entry in manifest_of(tmp_path / "2")["classes"]}
    assert classes == {"ant": 0, "bee": 1, "cat": 2, "aardvark": 3}
    assert "note: 1 new class: 3 aardvark" in printed.out
    assert_like_from_nothing(tmp_path / "2", argv, tmp_path)


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


@pytest.fixture
def refused(photos: Photos, tmp_path: Path) -> Callable[..., str]:
    """Runs a conversion that must end with exit code 2 and leave nothing, and returns the error."""

    def run(*options: str) -> str:
        printed = run_convert(*photos.save(), "--output", f"{tmp_path}/2", *options, code=2)
        assert not (tmp_path / "2").exists()
        return printed.err

    return run


def test_a_folder_that_cannot_be_reused_is_refused(
    refused: Callable[..., str], photos: Photos, first: Path, tmp_path: Path
) -> None:
    """The message says which option differs, or what the folder lacks."""
    reuse = ["--reuse", str(first)]
    assert "is the output folder" in refused("--reuse", f"{tmp_path}/2")
    assert "there is no manifest.json" in refused("--reuse", f"{tmp_path}/images")
    assert "seed was 0, is 1" in refused(*reuse, "--seed", "1")
    webdataset = refused(*reuse, "--format", "webdataset")
    assert 'would be the same: format was "tfrecord", is "webdataset". Give' in webdataset
    assert 'image_check was "header", is "full"' in refused(*reuse, "--image_check", "full")
    assert 'compression was "none", is "gzip"' in refused(*reuse, "--compression", "gzip")
    assert "--shuffle=records" in refused(*reuse, "--shuffle=records")
    assert "expected latest:FOLDER" in refused("--reuse", "latest:")
    manifest = manifest_of(first)
    write_files(str(first), {"manifest.json": json.dumps({**manifest, "format_version": 2})})
    assert "has version 2; this program reads version 1" in refused(*reuse)
    options = {**manifest["options"], "layout": "coco"}
    write_files(str(first), {"manifest.json": json.dumps({**manifest, "options": options})})
    assert 'layout was "coco", is "table"' in refused(*reuse)
    options = {**options, "columns": []}
    write_files(str(first), {"manifest.json": json.dumps({**manifest, "options": options})})
    assert 'would be the same: layout was "coco", is "table". Give' in refused(*reuse)
    options = {**manifest["options"], "columns": []}
    write_files(str(first), {"manifest.json": json.dumps({**manifest, "options": options})})
    assert "would be the same: columns was [], is [" in refused(*reuse)
    write_files(str(first), {"manifest.json": json.dumps(manifest)})
    shutil.rmtree(first / ".receipts")
    assert "8 of 8 shards lack a receipt" in refused(*reuse)


@pytest.mark.slow
def test_the_newest_complete_data_set_is_found(photos: Photos, tmp_path: Path) -> None:
    """`latest:` takes none on the first night, and passes over what is not complete."""
    sets = tmp_path / "sets"
    argv = [*photos.save(), "--num_shards", str(SHARDS), "--reuse", f"latest:{sets}"]
    out = run_convert(*argv, "--output", f"{sets}/1").out
    assert "does not contain a complete data set yet, so every shard is written" in out
    assert not (sets / "1" / "changes.json").exists()
    assert convert(*argv, "--output", f"{sets}/2") == 0
    os.makedirs(sets / "3")
    shutil.copytree(sets / "2", sets / "4")
    (sets / "4" / "manifest.json").unlink()
    os.utime(sets / "1" / "manifest.json", ns=(0, 0))
    assert (sets / "latest").read_text() == "2\n"
    assert convert(*argv, "--output", f"{sets}/5") == 0
    assert changes_of(sets / "5")["since"] == f"{sets}/2"
    assert convert(*argv, "--output", f"{sets}/2", "--resume") == 0
    assert (sets / "latest").read_text() == "5\n"
    assert sorted(os.listdir(sets)) == [*"12345", "latest"]
    printed = run_convert(*argv, "--output", f"{sets}/5", "--resume")
    assert printed.out.splitlines()[-1].startswith(f"{sets}/5 is up to date")


@pytest.mark.promise("excluded")
def test_excluded_images_leave_with_their_shards(
    photos: Photos, first: Path, tmp_path: Path
) -> None:
    """They are dead letters that are not bad; a key of no image is warned of."""
    write_files(str(tmp_path), {"gone.txt": "05.bmp\n06.bmp\nmisspelt.bmp\n"})
    argv = [*photos.save(), "--num_shards", str(SHARDS), "--exclude", f"{tmp_path}/gone.txt"]
    argv = [NONE_BAD if option == ALL_BAD else option for option in argv]
    printed = run_convert(*argv, "--output", f"{tmp_path}/2", "--reuse", str(first))
    assert [
        (letter["key"], letter["reason"], letter["file"], letter["line"])
        for letter in dead_letters_of(tmp_path / "2")
    ] == [
        ("05.bmp", "excluded", f"{tmp_path}/gone.txt", 1),
        ("06.bmp", "excluded", f"{tmp_path}/gone.txt", 2),
    ]
    changes = changes_of(tmp_path / "2")
    assert changes["samples"] == {"added": 0, "removed": 2, "changed": 0, "relabelled": 0}
    assert changes["shards"]["reused"] >= SHARDS - 2
    assert "1 key of " in (warning := printed.err)
    assert "'misspelt.bmp'" in warning
    assert_like_from_nothing(tmp_path / "2", argv, tmp_path)


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
    assert "no sample is left: --exclude names all 40 images" in done.stderr
    done = convert_in_process_of_its_own(*argv[:-1], f"{tmp_path}/none", input="")
    assert done.returncode == 2
    assert "--exclude" in done.stderr
