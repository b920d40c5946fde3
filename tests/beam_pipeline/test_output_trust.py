"""Attacks on an output folder: hostile files in it, files of others, two jobs at once, any moment of death."""

from __future__ import annotations

import ctypes
import os
import resource
import shutil
import signal
import subprocess
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import pytest

from beam_pipeline.cli import main
from beam_pipeline.work import job as work_job
from beam_pipeline.work.job import claimed
from tests.harness import (
    PATIENCE_S,
    Printed,
    convert,
    convert_killed_before,
    digests,
    job,
    made_once,
    program,
    run,
    run_convert,
)
from tests.pictures import write_pictures

SHARDS = 3


def _argv(folder: Path) -> list[str]:
    argv = ["--images", f"{folder}/photos", "--output", f"{folder}/out", "--name", "d"]
    return [*argv, "--num_shards", str(SHARDS)]


def _make(folder: Path) -> None:
    write_pictures(f"{folder}/photos", [f"{'ab'[i % 2]}/{i:02d}.jpg" for i in range(12)])
    assert convert(*_argv(folder)) == 0


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Path]:
    """Images, and their complete data set."""
    return made_once(tmp_path_factory.mktemp("trust"), _make)


@pytest.fixture
def argv(tmp_path: Path) -> list[str]:
    """Arguments that have made a complete data set in tmp_path/out."""
    return _argv(tmp_path)


@pytest.fixture
def tmp_path(made: Callable[[], Path]) -> Path:
    """A folder with images and their complete data set."""
    return made()


@pytest.fixture
def out(argv: list[str], tmp_path: Path) -> Path:
    """The data set, with a copy of it in `whole`."""
    shutil.copytree(tmp_path / "out", tmp_path / "whole")
    return tmp_path / "out"


def error_of(printed: Printed) -> str:
    """The last line of stderr; there is no traceback."""
    error = printed.err
    assert "Traceback" not in error
    return error.splitlines()[-1] if error else ""


# --- hostile receipts and manifests -------------------------------------------------------------


# --- shards that a power failure left -----------------------------------------------------------


# --- two jobs at once ---------------------------------------------------------------------------


OPTIONS = ("", "--overwrite", "--resume", "--reuse")


@pytest.fixture
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs do not wait for the claim of another one to end."""
    monkeypatch.setattr(work_job, "_PATIENCE_S", 0)


def _with_value(option: str, earlier: Path) -> list[str]:
    """An option as it is typed; `--reuse` names a data set."""
    return [*filter(None, [option]), *([str(earlier)] if option == "--reuse" else [])]


@pytest.mark.promise("two_jobs")
@pytest.mark.usefixtures("_impatient")
@pytest.mark.parametrize("option", OPTIONS)
def test_a_job_that_finds_another_at_work_touches_nothing(
    argv: list[str], out: Path, tmp_path: Path, option: str
) -> None:
    """One line, and the folder is as it was."""
    with claimed(str(out)):
        printed = run_convert(*argv, *_with_value(option, tmp_path / "whole"), code=1)
    assert error_of(printed) == (
        f"beam-tfrecord: error: another job is writing to {out}. Nothing of it was touched; wait for "
        "the other job or choose another folder"
    )
    assert digests(out) == digests(tmp_path / "whole")


@pytest.mark.usefixtures("_impatient")
@pytest.mark.parametrize("command", ["repair", "index"])
def test_repair_and_index_respect_a_job(out: Path, command: str) -> None:
    """They would write between its files; `verify` only reads."""
    with claimed(str(out)):
        assert "another job is writing to" in error_of(run(command, str(out), code=1))
        assert main(["verify", str(out)]) == 0


@pytest.mark.promise("two_jobs")
@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "pause_s"),
    [
        ((first, second), (0.0, 0.3, 0.8)[(i + j) % 3])
        for i, first in enumerate(OPTIONS)
        for j, second in enumerate(OPTIONS)
    ],
)
def test_of_two_jobs_with_other_inputs_one_wins(
    tmp_path: Path, options: Sequence[str], pause_s: float
) -> None:
    """The data set is the winner's to the last byte, and the other says why it is not its own."""
    tmp_path /= "own"
    import time

    whole = []
    for side in "ab":
        write_pictures(f"{tmp_path}/{side}", [f"x/{side}{i:03d}.jpg" for i in range(200)])
        argv = ["--images", f"{tmp_path}/{side}", "--name", "d", "--num_shards", "20"]
        assert convert(*argv, "--output", f"{tmp_path}/whole_{side}") == 0
        whole.append(digests(tmp_path / f"whole_{side}"))
    output = tmp_path / "out"
    common = ["--name", "d", "--num_shards", "20", "--output", str(output), "--writers", "2"]
    first, second = (
        [*common, f"--images={tmp_path}/{side}", *_with_value(option, tmp_path / f"whole_{side}")]
        for side, option in zip("ab", options, strict=True)
    )
    with job(*first) as one:
        time.sleep(pause_s)
        with job(*second) as two:
            errors = [process.communicate(timeout=PATIENCE_S)[1] for process in (one, two)]
    assert [digests(tmp_path / f"whole_{side}") for side in "ab"] == whole  # also where reused
    codes = [one.returncode, two.returncode]
    found = {name: content for name, content in digests(output).items() if name != "changes.json"}
    if "--overwrite" in options and codes == [0, 0]:  # one behind the other
        assert found in whole
        return
    assert sorted(map(bool, codes)) == [False, True]
    assert found == whole[codes.index(0)]
    loser = errors[1 - codes.index(0)]
    assert "Traceback" not in loser
    assert "beam-tfrecord: error: " in loser.splitlines()[-1]


# --- killed while --overwrite cleans up ---------------------------------------------------------


OPERATIONS = range(1, 34)


@pytest.mark.slow
@pytest.mark.promise("killed_overwriting")
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("option", ["--overwrite", "--resume"])
def test_killed_while_it_removes_a_data_set_the_next_run_goes_on(
    argv: list[str], out: Path, tmp_path: Path, operation: int, option: str
) -> None:
    """Before each operation on a file: plain refuses, `--overwrite` and `--resume` make the data set."""
    more = [*argv, "--seed", "7"]
    assert convert(*more, "--output", f"{tmp_path}/wanted") == 0
    code = convert_killed_before(operation, *more, "--overwrite", folder=out)
    assert code == -signal.SIGKILL
    if os.listdir(out):
        assert convert(*more) == 2
    there = (out / "manifest.json").exists()
    if option == "--resume" and there:  # nothing of the old data set is gone yet
        assert digests_but_notes(out) == digests(tmp_path / "whole")
        assert convert(*argv, option) == 0
        assert digests(out) == digests(tmp_path / "whole")
        return
    assert convert(*more, option) == 0
    assert digests(out) == digests(tmp_path / "wanted")


def digests_but_notes(out: Path) -> dict[str, str]:
    """Of a folder in which a run has just begun."""
    copy = out.parent / "copy"
    shutil.copytree(out, copy, ignore=shutil.ignore_patterns(".incomplete"))
    found = dict(digests(copy))
    shutil.rmtree(copy)
    return found


# --- files of others ----------------------------------------------------------------------------


# --- refused, interrupted, full -----------------------------------------------------------------


@pytest.mark.promise("disk_small")
def test_a_disk_too_small_is_found_before_a_shard_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Files with holes claim more than any disk here has; none of them is opened."""
    tmp_path /= "own"
    folder = tmp_path / "photos" / "a"
    folder.mkdir(parents=True)
    each = os.statvfs(tmp_path).f_bavail * os.statvfs(tmp_path).f_frsize // 2
    for number in range(3):
        with open(folder / f"{number}.jpg", "wb") as file:
            file.truncate(min(each + 1_000_000, 1 << 43))
    argv = ("--images", f"{tmp_path}/photos", "--output", f"{tmp_path}/out", "--num_shards=1")
    assert convert(*argv) == 1
    error = error_of(capsys.readouterr())
    assert "beam-tfrecord: error: the shards would take about" in error
    assert "Nothing was written; make room or choose another --output" in error
    assert os.listdir(tmp_path / "out") == []


@pytest.mark.slow
@pytest.mark.promise("disk_full")
def test_a_disk_that_is_full_at_the_last_files_is_one_line(argv: list[str], tmp_path: Path) -> None:
    """A limit on the size of files lets shards and receipts through, and stops the manifest."""
    argv[argv.index(str(SHARDS))] = "16"
    argv += ["--no_report", "--no_card"]  # which are larger
    assert convert(*argv, "--overwrite") == 0
    sizes = {p.name: p.stat().st_size for p in (tmp_path / "out").rglob("*") if p.is_file()}
    limit = sizes.pop("manifest.json") - 1
    assert max(sizes.values()) < limit
    argv[argv.index(f"{tmp_path}/out")] = f"{tmp_path}/full"
    limits = partial(resource.setrlimit, resource.RLIMIT_FSIZE, (limit, limit))
    done = program("convert", *argv, "--writers=0", timeout=PATIENCE_S, preexec_fn=limits)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("beam-tfrecord: error: ")
    assert "File too large" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
    assert "manifest.json" not in os.listdir(tmp_path / "full")


# --- folders that may not be written to ---------------------------------------------------------


_PR_CAPBSET_DROP, _CAP_DAC_OVERRIDE = 24, 1  # of linux/prctl.h and linux/capability.h


def _bound_by_permissions(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Runs a command that may not ignore permissions, also where the tests run as root."""

    def drop() -> None:  # fails for other users, whom permissions bind anyway
        ctypes.CDLL(None).prctl(_PR_CAPBSET_DROP, _CAP_DAC_OVERRIDE, 0, 0, 0)

    return program(*command, timeout=PATIENCE_S, preexec_fn=drop)


@pytest.mark.promise("read_only")
@pytest.mark.parametrize("option", ["", "--resume", "--overwrite", "repair", "index", "new"])
def test_a_folder_that_may_not_be_written_to_is_one_line(
    argv: list[str], out: Path, tmp_path: Path, option: str
) -> None:
    """Whatever the command; nothing is written to it."""
    (tmp_path / "empty").mkdir()
    if option in ("", "new"):
        name = "empty" if not option else "empty/deep/new"
        argv[argv.index(str(out))] = f"{tmp_path}/{name}"
    for folder in (out, out / ".receipts", tmp_path / "empty"):
        folder.chmod(0o555)
    commands = {"repair": ["repair", str(out)], "index": ["index", str(out)]}
    command = commands.get(option, ["convert", *argv, *([option] if option[:2] == "--" else [])])
    try:
        done = _bound_by_permissions(command)
    finally:
        for folder in (out, out / ".receipts", tmp_path / "empty"):
            folder.chmod(0o755)
    assert done.returncode in (1, 2), done
    assert "Traceback" not in done.stderr
    line = done.stderr.splitlines()[-1]
    assert line.startswith("beam-tfrecord: error: the output folder ")
    assert "cannot be made or written to: Permission denied" in line
    assert digests(out) == digests(tmp_path / "whole")
    assert os.listdir(tmp_path / "empty") == []
