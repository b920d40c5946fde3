"""Conversions with faults at any call, or that lack something: they end in the same bytes, or say why not."""

from __future__ import annotations

import errno
import hashlib
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.faults import Call, Fault, faults_of, watched
from tests.harness import NONE_BAD, PATIENCE_S, convert, digests, process
from tests.pictures import picture, write_pictures

# --- faults ----------------------------------------------------------------------------------------

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


# --- starved ---------------------------------------------------------------------------------------


MIB = 1 << 20


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A folder outside the temporary files with images, and in `whole` what they are converted to."""
    base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    path = tempfile.mkdtemp(prefix="beam-tfrecord-starved-", dir=base)
    write_pictures(f"{path}/photos", [f"{'ab'[i % 2]}/{i:03d}.jpg" for i in range(200)])
    assert convert(*_argv(Path(path), "whole")) == 0
    yield Path(path)
    shutil.rmtree(path)


def _argv(folder: Path, output: str) -> list[str]:
    argv = ["--images", f"{folder}/photos", "--output", f"{folder}/{output}", "--name", "d"]
    return [*argv, "--num_shards", "20"]


def _run(
    folder: Path,
    *more: str,
    wrap: tuple[str, ...] = (),
    env: Mapping[str, str] = os.environ,
    before: Callable[[], Any] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Converts to `out` in a process of its own, with what is left of the machine."""
    shutil.rmtree(folder / "out", ignore_errors=True)
    return process(
        *wrap,
        sys.executable,
        "-m",
        "beam_pipeline",
        "convert",
        *_argv(folder, "out"),
        *more,
        timeout=PATIENCE_S,
        env=dict(env),
        preexec_fn=before,
    )


def _assert_right(folder: Path, done: subprocess.CompletedProcess[str]) -> None:
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert digests(folder / "out") == digests(folder / "whole")


def _assert_right_or_said(folder: Path, done: subprocess.CompletedProcess[str], need: str) -> None:
    """The data set is right, or the last line names what is needed and a run without limits goes on."""
    if done.returncode == 0:
        _assert_right(folder, done)
        return
    assert done.returncode == 1, done
    assert "Traceback" not in done.stderr, done.stderr
    last = done.stderr.splitlines()[-1]
    assert last.startswith("beam-tfrecord: error: "), done.stderr
    assert need in last
    assert not (folder / "out" / "manifest.json").exists()
    assert convert(*_argv(folder, "out"), "--resume") == 0
    assert digests(folder / "out") == digests(folder / "whole")


@pytest.mark.slow
@pytest.mark.promise("starved")
@pytest.mark.parametrize("files", [32, 12])
def test_few_file_descriptors(folder: Path, files: int) -> None:
    """32 are enough."""
    done = _run(folder, before=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (files, files)))
    if files >= 32:
        _assert_right(folder, done)
    else:
        _assert_right_or_said(folder, done, "out of memory, threads or open files")


@pytest.mark.slow
@pytest.mark.promise("starved")
@pytest.mark.parametrize(("mebibytes", "writers"), [(512, "0"), (512, "2"), (300, "2")])
def test_little_address_space(folder: Path, mebibytes: int, writers: str) -> None:
    """512 MB."""
    limit = mebibytes * MIB
    done = _run(
        folder,
        "--writers",
        writers,
        before=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
    )
    _assert_right_or_said(folder, done, "out of memory")


@pytest.mark.slow
@pytest.mark.promise("starved")
def test_one_core(folder: Path) -> None:
    """The bytes do not depend on how many there are."""
    first = min(os.sched_getaffinity(0))
    _assert_right(folder, _run(folder, before=lambda: os.sched_setaffinity(0, {first})))


@pytest.mark.slow
@pytest.mark.promise("starved")
@pytest.mark.parametrize("runner", [[], ["--shuffle=records"]])
def test_a_full_tmp_and_a_home_that_cannot_be_written(
    folder: Path, tmp_path: Path, runner: list[str]
) -> None:
    """Neither is used by a conversion."""
    full = f"mount -t tmpfs -o size=4k none {tmp_path} && head -c 8k /dev/zero > {tmp_path}/x"
    wrap = ("unshare", "-rm", "sh", "-c", f'{full} 2>/dev/null; exec "$@"', "sh")
    if not shutil.which("unshare") or subprocess.run([*wrap, "true"], check=False).returncode:
        pytest.skip("no file system can be mounted here")
    env = {**os.environ, "HOME": "/proc/nobody", "TMPDIR": str(tmp_path)}
    done = _run(folder, *runner, wrap=wrap, env=env)
    if runner:
        assert done.returncode == 0, done.stderr
    else:
        _assert_right(folder, done)


@pytest.fixture(scope="module")
def preloaded(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The library of starving.c."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if not compiler:
        pytest.skip("needs a C compiler")
    library = str(tmp_path_factory.mktemp("c") / "starving.so")
    source = str(Path(__file__).with_name("starving.c"))
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    return library


@pytest.mark.slow
@pytest.mark.promise("starved")
@pytest.mark.parametrize("what", ["slow", "clock"])
def test_a_slow_disk_and_a_clock_that_jumps(folder: Path, preloaded: str, what: str) -> None:
    """Each call takes 3 ms longer, or the time of day is a day off, to and fro."""
    env = {**os.environ, "LD_PRELOAD": preloaded, "STARVING": what}
    _assert_right(folder, _run(folder, env=env))
