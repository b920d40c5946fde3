"""Conversions that lack something: they end in the same bytes, or say in one line what they need."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.harness import PATIENCE_S, convert, digests
from tests.pictures import write_pictures

pytestmark = [pytest.mark.slow]

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
    return subprocess.run(
        [*wrap, sys.executable, "-m", "beam_pipeline", "convert", *_argv(folder, "out"), *more],
        capture_output=True,
        text=True,
        check=False,
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


@pytest.mark.promise("starved")
@pytest.mark.parametrize("files", [32, 12])
def test_few_file_descriptors(folder: Path, files: int) -> None:
    """32 are enough."""
    done = _run(folder, before=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (files, files)))
    if files >= 32:
        _assert_right(folder, done)
    else:
        _assert_right_or_said(
            folder, done, "this process may open only 12 files at once (ulimit -n)"
        )


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


@pytest.mark.promise("starved")
def test_one_core(folder: Path) -> None:
    """The bytes do not depend on how many there are."""
    first = min(os.sched_getaffinity(0))
    _assert_right(folder, _run(folder, before=lambda: os.sched_setaffinity(0, {first})))


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


@pytest.mark.promise("starved")
@pytest.mark.parametrize("what", ["slow", "clock"])
def test_a_slow_disk_and_a_clock_that_jumps(folder: Path, preloaded: str, what: str) -> None:
    """Each call takes 3 ms longer, or the time of day is a day off, to and fro."""
    env = {**os.environ, "LD_PRELOAD": preloaded, "STARVING": what}
    _assert_right(folder, _run(folder, env=env))
