"""Conversions that are interrupted or killed at any moment, and `--resume`."""

from __future__ import annotations

import hashlib
import os
import random
import re
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from beam_pipeline.cli import EXIT_OUTAGE
from beam_pipeline.core.dataset.receipts import receipt_name
from beam_pipeline.core.records.tfrecord import read_records
from tests.harness import (
    ALL_BAD,
    PATIENCE_S,
    convert,
    convert_killed_before,
    digests,
    job,
    program,
    wait_until,
)
from tests.pictures import picture, write_files

SIGINT = partial(signal.signal, signal.SIGINT, signal.default_int_handler)
"""Before a command starts: Ctrl-C interrupts it, whatever started the tests."""

# --- interrupts ------------------------------------------------------------------------------------

BEGIN = """
import os, sys, time
from beam_pipeline.cli import main
from beam_pipeline.launch import interruptible

def hold(*_):
    print("ready", flush=True, file=sys.__stdout__)
    time.sleep(60)

mkdir = os.mkdir
def mkdir_and_hold(path, mode=0o777):
    mkdir(path, mode)
    if "beam-tfrecord-" in path:
        hold()

"""
ENGINE = """
from beam_pipeline.beam_patches import shielded_engines
shielded_engines.__enter__()
from apache_beam.runners.portability import job_server
from apache_beam.utils import subprocess_server
job_server.signal.signal(job_server.signal.SIGINT, print)
trapped = ["sh", "-c", 'trap "echo hit" INT; sleep 60 >&- 2>&-; :']
engine = subprocess_server.subprocess.Popen(trapped)
with interruptible(lambda: "interrupted"): hold()
"""
AT_THE_END = """
from beam_pipeline.work import output_folder
output_folder.delete_incomplete = hold
main(["convert", "--images", "photos", "--output", "out", "--yes", "--no_report"])
"""
AS_ITS_FOLDER_APPEARS = """
os.mkdir = mkdir_and_hold
main(["plan", "--images", "photos", "--output", "out", "--yes"])
"""
RESUMES = "interrupted. The same command with --resume continues"
HELD = {
    "within another": (
        "with interruptible(lambda: 'no'):\n  with interruptible(lambda: 'go on'): hold()",
        "go on",
    ),
    "with a file to remove": (
        "mkdir('tmp/x')\nwith interruptible(lambda: 'x', lambda: os.rmdir('tmp/x')): hold()",
        "x",
    ),
    "with nothing to remove": (
        "with interruptible(lambda: 'x', lambda: os.rmdir('tmp/x')): hold()",
        "x",
    ),
    "after the manifest": (AT_THE_END, RESUMES),
    "as its folder appears": (AS_ITS_FOLDER_APPEARS, "interrupted"),
    "while an engine works": (ENGINE, "interrupted"),
}
"""Where a program is held when Ctrl-C comes -> its code, and its last line."""


def interrupted(
    command: list[str], wait: Callable[[subprocess.Popen[str]], object], **options: Any
) -> tuple[int, str]:
    """Starts a command in a group of its own, waits, and interrupts the group.

    Returns: the exit code, and standard error as it is when no process of the command holds it any more.
    """
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    alone = {"start_new_session": True, "preexec_fn": SIGINT}
    with subprocess.Popen(command, **streams, **alone, **options) as running:
        wait(running)
        os.killpg(running.pid, signal.SIGINT)
        _, errors = running.communicate(timeout=PATIENCE_S)
    return running.returncode, errors


def until_ready(running: subprocess.Popen[str]) -> None:
    assert running.stdout is not None
    assert "ready\n" in iter(running.stdout.readline, "")


@pytest.mark.slow
@pytest.mark.promise("ctrl_c")
@pytest.mark.parametrize("where", HELD)
def test_ctrl_c_ends_the_program_with_one_line(tmp_path: Path, where: str) -> None:
    """Exit code 130; nothing temporary is left, and no process: an engine, which the terminal's signal does not
    reach, is killed."""
    code, message = HELD[where]
    write_files(str(tmp_path), {"photos/a/0.jpg": picture()})
    (tmp_path / "tmp").mkdir()
    here: dict[str, Any] = {"cwd": tmp_path, "env": {**os.environ, "TMPDIR": f"{tmp_path}/tmp"}}
    exit_code, errors = interrupted([sys.executable, "-c", BEGIN + code], until_ready, **here)
    assert exit_code == 130
    assert errors.splitlines()[-2:] == ["", f"beam-tfrecord: {message}"]
    assert os.listdir(tmp_path / "tmp") == []


# --- kill ------------------------------------------------------------------------------------------

SHARDS = 40
PROGRESS = re.compile(" listed$| to write$| samples/s, ")


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[str], dict[str, str]]:
    """Arguments that make as many shards of fewer images, and file -> SHA-256 of what they make."""
    folder = tmp_path_factory.mktemp("few")
    write_files(
        str(folder / "photos"), {f"{'abcd'[i % 4]}/{i}.png": picture(i) for i in range(200)}
    )
    argv = ["--images", str(folder / "photos"), "--name", "d", "--num_shards", str(SHARDS)]
    assert convert(*argv, "--output", f"{folder}/out") == 0
    return argv, dict(digests(folder / "out"))


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Some megabytes of images, enough to be killed in the middle of them."""
    folder = tmp_path_factory.mktemp("input") / "photos"
    contents = {
        f"{'abcd'[i % 4]}/{i:04d}.bmp": picture(i, file_format="BMP", size=(90, 70))
        for i in range(2000)
    }
    write_files(str(folder), contents)
    return folder


@pytest.fixture(scope="module")
def argv(images: Path) -> list[str]:
    """Arguments that make many shards of the images."""
    return ["--images", str(images), "--name", "d", "--num_shards", str(SHARDS)]


@pytest.fixture(scope="module")
def wanted(argv: list[str], tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """File -> SHA-256 of what an undisturbed job writes."""
    folder = tmp_path_factory.mktemp("whole")
    assert convert(*argv, "--output", f"{folder}/out") == 0
    return dict(digests(folder / "out"))


@pytest.mark.promise("killed")
@pytest.mark.parametrize(
    "operation",
    [pytest.param(n, marks=pytest.mark.slow) for n in (1, 2, 3, 25, 26, 27, 50, 70)],
)
def test_killed_at_any_moment_only_whole_shards_are_seen(
    few: tuple[list[str], dict[str, str]], tmp_path: Path, operation: int
) -> None:
    """After SIGKILL, all shards are whole and no manifest is there; --overwrite then makes all of it."""
    argv, wanted = few
    output = tmp_path / "out"
    code = convert_killed_before(operation, *argv, "--output", str(output), folder=output)
    assert code == -signal.SIGKILL
    _assert_whole(output, wanted)
    assert "manifest.json" not in (os.listdir(output) if output.is_dir() else [])
    again = ("--overwrite",) if output.is_dir() and os.listdir(output) else ()
    if again:
        assert convert(*argv, "--output", str(output)) == 2
    assert convert(*argv, "--output", str(output), *again) == 0
    assert dict(digests(output)) == wanted


@pytest.mark.promise("killed")
@pytest.mark.slow
@pytest.mark.parametrize("shards", [1, 20])
def test_writer_processes_leave_only_whole_shards(
    argv: list[str], wanted: dict[str, str], tmp_path: Path, shards: int
) -> None:
    """When the launcher is killed, its writers end too; what they leave is whole, and the writers of --resume keep it."""
    output = tmp_path / "out"
    with job(*argv, "--writers", "2", "--output", str(output)) as running:
        wait_until(lambda: len(_shards(output)) >= shards or running.poll() is not None)
        writers = _children(running.pid)
        running.kill()
        running.wait(PATIENCE_S)
    wait_until(lambda: not any(map(_is_running, writers)))
    _assert_whole(output, wanted)
    inodes = {name: n for name, n in _inodes(output).items() if _has_receipt(output, name)}
    assert inodes or shards == 1  # which may lack its receipt
    assert convert(*argv, "--output", str(output), "--resume", "--writers=2") == 0
    assert inodes.items() <= _inodes(output).items()
    assert digests(output) == wanted


def _assert_whole(output: Path, wanted: dict[str, str]) -> None:
    """Every shard has the bytes it has in the whole data set, and its records can be read."""
    for name in _shards(output):
        assert hashlib.sha256((output / name).read_bytes()).hexdigest() == wanted[name]
        with open(output / name, "rb") as file:
            assert sum(1 for _ in read_records(file, name)) > 0


@pytest.mark.promise("writer_dies")
@pytest.mark.slow
def test_a_writer_process_that_dies_costs_the_shard_that_it_was_writing(
    argv: list[str], wanted: dict[str, str], tmp_path: Path
) -> None:
    """One line names it, without tracebacks; the others are written, and --resume adds that one."""
    for attempt in range(5):  # until it was not between two shards, which costs nothing
        output = tmp_path / f"out{attempt}"
        checked = [*argv, "--image_check", "full", "--output", str(output)]
        with job(*checked, "--writers", "2") as running:
            wait_until(partial(_shards, output), running)
            os.kill(wait_until(lambda: _children(running.pid), running)[0], signal.SIGKILL)
            _, error = running.communicate(timeout=PATIENCE_S)
        if running.returncode:
            break
    assert running.returncode == EXIT_OUTAGE
    (line,) = [line for line in error.splitlines() if not PROGRESS.search(line)]
    assert line.startswith(f"beam-tfrecord: error: the process that was writing {output}/d-train")
    assert "died (SIGKILL); the system may have run out of memory" in line
    assert "manifest.json" not in os.listdir(output)
    assert len(_shards(output)) >= SHARDS - 1  # it may die between the shard and its receipt
    assert convert(*checked, "--resume") == 0
    shards = {name: digest for name, digest in wanted.items() if name.startswith("d-train")}
    assert shards.items() <= dict(digests(output)).items()


@pytest.mark.promise("writer_dies_planning")
@pytest.mark.slow
def test_a_writer_process_that_dies_before_it_writes_costs_nothing(
    argv: list[str], wanted: dict[str, str], tmp_path: Path
) -> None:
    """Whether it is starting, idle or planning: another takes its place, and nothing is said."""
    for moment in range(4):
        output = tmp_path / f"{moment}"
        with job(*argv, "--output", str(output), "--writers", "2") as running:
            writers = wait_until(lambda: _children(running.pid), running)
            time.sleep(moment * 0.05)
            running.send_signal(signal.SIGSTOP)  # so that no shard begins after the look
            if not (_shards(output) or (output / ".incomplete/plan.json").exists()):
                os.kill(writers[0], signal.SIGKILL)
            running.send_signal(signal.SIGCONT)
            _, error = running.communicate(timeout=PATIENCE_S)
        assert running.returncode == 0
        assert [line for line in error.splitlines() if not PROGRESS.search(line)] == []
        assert digests(output) == wanted


@pytest.mark.promise("disk_full")
@pytest.mark.slow
@pytest.mark.parametrize("shuffle", ["references", "records"])
def test_a_full_disk_ends_the_job_with_one_line(images: Path, tmp_path: Path, shuffle: str) -> None:
    """A limit on file size stands in for the disk; nothing is left, and there is no traceback."""
    output = tmp_path / "out"
    argv = ["--images", str(images), "--name", "d", "--num_shards", "2", "--output", str(output)]
    limits = partial(resource.setrlimit, resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
    argv += ["--yes", "--shuffle", shuffle]
    done = program("convert", *argv, timeout=PATIENCE_S, preexec_fn=limits)
    assert done.returncode == 1
    said = [line for line in done.stderr.splitlines() if line.startswith("beam-tfrecord: ")]
    assert said == [
        f"beam-tfrecord: error: a shard in {output} cannot be written: [Errno 27] File too large"
    ]
    assert os.listdir(output) == []


@pytest.mark.promise("ctrl_c")
@pytest.mark.slow
def test_ctrl_c_ends_the_job_at_once_and_without_a_traceback(
    argv: list[str], tmp_path: Path
) -> None:
    """Exit code 130, one line, no manifest, and no process left behind."""
    output = tmp_path / "out"
    argv = [*argv, "--image_check=full", "--output", str(output)]
    with job(*argv, start_new_session=True, preexec_fn=SIGINT) as running:
        wait_until(lambda: _shards(output), running)
        os.killpg(running.pid, signal.SIGINT)
        # communicate() also waits until no process of the job holds the pipe
        _, error = running.communicate(timeout=PATIENCE_S)
    assert running.returncode == 130
    assert "Traceback" not in error
    assert error.splitlines()[-2:] == [  # after lines of progress
        "",
        "beam-tfrecord: interrupted. The same command with --resume continues",
    ]
    assert "manifest.json" not in os.listdir(output)


def _is_running(pid: int) -> bool:
    """True while a process exists and has not ended."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _children(pid: int) -> list[int]:
    """Process ids of the writer processes of a job."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat", encoding="utf-8") as file:
                    parent = int(file.read().rpartition(")")[2].split()[1])
            except OSError:
                continue  # it has ended
            if parent == pid:
                found.append(int(entry))
    return found


def _shards(folder: Path) -> list[str]:
    return sorted(n for n in os.listdir(folder) if ".tfrecord-" in n) if folder.is_dir() else []


# --- resume ---------------------------------------------------------------------------------------


MANY_SHARDS = 120


@pytest.mark.promise("killed")
@pytest.mark.slow
def test_killed_twenty_times_the_job_ends_in_the_same_bytes(tmp_path: Path) -> None:
    """At moments drawn from a fixed seed; no shard with a receipt is written again."""
    contents = {f"{'abcd'[i % 4]}/{i:04d}.bmp": picture(i, file_format="BMP") for i in range(1500)}
    write_files(f"{tmp_path}/photos", {**contents, "a/bad.jpg": "no image"})
    command = ["--images", f"{tmp_path}/photos", "--name", "d", "--num_shards", str(MANY_SHARDS)]
    command += ["--image_check", "full", ALL_BAD]
    assert convert(*command, "--output", f"{tmp_path}/whole") == 0
    whole = digests(tmp_path / "whole")
    output = tmp_path / "killed"
    command += ["--output", str(output), "--resume"]
    rng = random.Random(0)
    inodes: dict[str, int] = {}
    for _ in range(20):
        # A run begins with a few operations for each shard that is there, then writes further ones.
        operation = rng.choice([1, 5, 40]) + rng.randrange(6 * len(inodes) + 40)
        assert convert_killed_before(operation, *command, folder=output) in (-signal.SIGKILL, 0)
        found = _inodes(output)
        assert {name: found.get(name) for name in inodes} == inodes
        inodes = {name: found[name] for name in found if _has_receipt(output, name)}
        assert (output / "manifest.json").exists() <= (len(found) == MANY_SHARDS)
    assert inodes
    assert convert(*command) == 0
    assert inodes.items() <= _inodes(output).items()
    assert digests(output) == whole
    assert not (output / ".incomplete").exists()


def _inodes(folder: Path) -> dict[str, int]:
    """Shard -> its inode, which changes when it is written again."""
    names = os.listdir(folder) if folder.is_dir() else []
    return {name: os.stat(folder / name).st_ino for name in names if ".tfrecord-" in name}


def _has_receipt(folder: Path, shard: str) -> bool:
    return (folder / receipt_name(shard)).exists()
