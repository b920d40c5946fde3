"""One call to the operating system fails, whichever it is: the data set is right, or there is none and an error."""

from __future__ import annotations

import errno
import hashlib
import os
import random
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.faults import Call, Fault, faults_of, watched
from tests.harness import NONE_BAD, convert
from tests.pictures import picture, write_pictures

RESUME, OVERWRITE, REUSE = "--resume", "--overwrite", "--reuse"
EVERY = bool(os.environ.get("BEAM_TFRECORD_EVERY_FAULT"))
"""Try each error at each call, some ten minutes; else one error at every fourth call, in turns."""
PART = 4


class Scene:
    """A folder with images and perhaps an output folder, put back before each fault.

    Attributes:
      folder: the folder whose calls fail.
      out: the output folder in it.
      argv: arguments of the conversion.
      wanted: file -> digest of the data set that it makes.
      earlier: a data set in the folder that is not to change; empty if there is none.
    """

    def __init__(self, folder: Path, *more: str) -> None:
        self.folder = folder
        self.out = folder / "out"
        self._before = folder.parent / "before"
        names = ["a/0.jpg", "b/1.jpg", "a/2.jpg"]
        write_pictures(f"{folder}/photos", names)
        self.argv = ["--images", f"{folder}/photos", "--output", str(self.out), "--name", "d"]
        self.argv += ["--num_shards", "2", "--layout", "class_folders", NONE_BAD, *more]
        whole = folder.parent / "whole"
        assert convert(*self.argv, "--output", str(whole)) == 0
        self.wanted = _files(whole)
        self.earlier = ""

    def make_earlier(self) -> None:
        """Makes a data set of other images; one of the two shards would stay as it is."""
        photo = self.folder / "photos" / "b" / "1.jpg"
        stays, times = photo.read_bytes(), photo.stat()
        photo.write_bytes(picture(9))
        os.utime(photo, ns=(1, 1))
        self.earlier = f"{self.folder}/earlier"
        assert convert(*self.argv, "--output", self.earlier) == 0
        photo.write_bytes(stays)
        os.utime(photo, ns=(times.st_atime_ns, times.st_mtime_ns))

    def options(self, option: str) -> list[str]:
        """An option with its value."""
        return [option, *([self.earlier] if option == REUSE else [])] if option else []

    def keep(self) -> None:
        """Takes the output folder as it is for the state before each fault."""
        if self.out.exists():
            shutil.copytree(self.out, self._before)

    def put_back(self) -> None:
        shutil.rmtree(self.out, ignore_errors=True)
        if self._before.exists():
            shutil.copytree(self._before, self.out)

    def calls(self, *option: str) -> list[Call]:
        """The calls of a conversion without a fault."""
        self.put_back()
        with watched(self.folder) as watch:
            assert convert(*self.argv, *option) == 0
        assert _files(self.out) == self.wanted
        return watch.calls


@pytest.fixture
def scene(request: pytest.FixtureRequest, tmp_path: Path) -> Scene:
    """The state that a conversion meets: "new", "unfinished", "complete", "earlier", or "other" with another seed."""
    state = request.param
    folder = tmp_path / "work"
    scene = Scene(folder)
    if state == "other":
        assert convert(*scene.argv, "--seed", "7") == 0
    elif state == "earlier":
        scene.make_earlier()
    elif state == "complete":
        assert convert(*scene.argv) == 0
    elif state == "unfinished":
        second = Call("replace", "out/d-train.tfrecord-00001-of-00002", 0)
        with watched(folder, Fault(second, errno.ENOSPC)):
            assert convert(*scene.argv) == 1
        assert "manifest.json" not in os.listdir(scene.out)
    scene.keep()
    return scene


@pytest.mark.promise("fault")
@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("scene", "option"),
    [
        ("new", ""),
        ("unfinished", RESUME),
        ("complete", RESUME),
        ("other", OVERWRITE),
        ("earlier", REUSE),
    ],
    indirect=["scene"],
)
def test_a_fault_at_any_call(scene: Scene, option: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 0 means the right data set; else one line says why, and the next run makes the right one."""
    options = scene.options(option)
    earlier = _files(Path(scene.earlier)) if scene.earlier else {}
    faults = faults_of(scene.calls(*options), every=EVERY)
    found = []
    if not EVERY:
        faults = faults[random.Random(len(faults)).randrange(PART) :: PART]
    for fault in faults:
        scene.put_back()
        capsys.readouterr()
        if wrong := _tried(scene, fault, options, capsys):
            found.append(f"{fault}: {wrong}")
        if scene.earlier and _files(Path(scene.earlier)) != earlier:
            found.append(f"{fault}: the earlier data set has changed")
            break
    assert not found, "\n".join(found)


def _files(folder: Path) -> dict[str, str]:
    """File -> SHA-256 of the files of a data set, without notes and receipts.

    Nor changes.json, which says which shards were reused: after a fault, fewer may be.
    """
    paths = [path for path in folder.glob("*") if path.is_file() and path.name != "changes.json"]
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}


def _tried(
    scene: Scene, fault: Fault, options: Sequence[str], capsys: pytest.CaptureFixture[str]
) -> str:
    """Converts with a fault and again without; returns what is wrong, or an empty text."""
    before = _files(scene.out)
    with watched(scene.folder, fault) as watch:
        try:
            code = convert(*scene.argv, *options)
        except Exception as error:
            return f"a traceback: {type(error).__name__}: {str(error)[:200]}"
    if not watch.happened:
        return "it did not happen"
    error = capsys.readouterr().err
    after = _files(scene.out)
    if code == 0:
        return "" if after == scene.wanted else "exit code 0, and the data set is not the right one"
    if "Traceback" in error or not error.splitlines()[-1].startswith("beam-tfrecord: error: "):
        return f"no error of one line: {error}"
    if "manifest.json" in after and after not in (before, scene.wanted):
        left = {name for name in before if after.get(name) != before[name]}
        return f"a manifest, and these have changed: {sorted(left)}"
    more = [] if options[:1] in ([RESUME], [OVERWRITE]) else [RESUME]
    again = convert(*scene.argv, *options, *more)
    if again:
        return f"afterwards: {capsys.readouterr().err}, after {error}"
    return "" if _files(scene.out) == scene.wanted else "afterwards: another data set"
