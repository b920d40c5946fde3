"""Conversions that are interrupted or killed at any moment, and `--resume`."""

from __future__ import annotations

import hashlib
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

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
    made_once,
    program,
    run_convert,
    wait_until,
)
from tests.pictures import picture, write_files, write_pictures

# --- interrupts ------------------------------------------------------------------------------------

BEGIN = "import time\nfrom beam_pipeline.launch import interruptible\n"
BEAMS_WARNING = (  # of an environment without Google's clients, with Python 3.14
    "WARNING:root:apitools not found, and bigquery client libraries are not available despite the "
    "import not raising an ImportError.\n"
)
READY = "print('ready', flush=True)\ntime.sleep(60)\n"


def interrupted(
    command: list[str], wait: Callable[[subprocess.Popen[str]], object]
) -> tuple[int, str]:
    """Starts a command in a group of its own, waits, and interrupts the group.

    Returns: the exit code and what it said on standard error, when no process of it holds that any more.
    """
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    ) as running:
        wait(running)
        os.killpg(running.pid, signal.SIGINT)
        _, errors = running.communicate(timeout=PATIENCE_S)
        return running.returncode, errors.removeprefix(BEAMS_WARNING)


def until_ready(running: subprocess.Popen[str]) -> None:
    assert running.stdout is not None
    assert running.stdout.readline() == "ready\n"


@pytest.mark.promise("ctrl_c")
def test_the_program_ends_with_one_line() -> None:
    """The innermost says it; what is at work then plays no part."""
    code = (
        f"with interruptible(lambda: 'no'):\n  with interruptible(lambda: 'interrupted; go on'):\n    "
        f"{READY.replace(chr(10), ';')}"
    )
    command = [sys.executable, "-c", BEGIN + code]
    assert interrupted(command, until_ready) == (130, "\nbeam-tfrecord: interrupted; go on\n")


def test_what_would_be_left_is_cleaned_up(tmp_path: Path) -> None:
    """Also if that fails."""
    for name in ("there", "gone"):
        (tmp_path / "there").touch()
        clean_up = f"lambda: os.remove({str(tmp_path / name)!r})"
        code = (
            f"import os\nwith interruptible(lambda: 'x', {clean_up}): {READY.replace(chr(10), ';')}"
        )
        command = [sys.executable, "-c", BEGIN + code]
        assert interrupted(command, until_ready) == (130, "\nbeam-tfrecord: x\n")
        assert (tmp_path / "there").exists() == (name == "gone")


@pytest.mark.slow
def test_an_engine_in_a_process_of_its_own_ends_with_the_program() -> None:
    """It is out of reach of the terminal, so that it does not end before, and is killed."""
    code = (
        "from beam_pipeline.beam_patches import shielded_engines\nshielded_engines.__enter__()\n"
        "from apache_beam.runners.portability import job_server\n"
        "from apache_beam.utils import subprocess_server\n"
        "job_server.signal.signal(job_server.signal.SIGINT, print)\n"
        "engine = subprocess_server.subprocess.Popen(['sh', '-c', 'trap \"echo hit\" INT; sleep 60 >&- 2>&-; :'])\n"
    )
    end = f"with interruptible(lambda: 'interrupted'): {READY.replace(chr(10), ';')}"
    command = [sys.executable, "-c", BEGIN + code + end]
    code_, errors = interrupted(command, until_ready)
    assert (code_, errors.splitlines()[-2:]) == (130, ["", "beam-tfrecord: interrupted"])


@pytest.mark.promise("ctrl_c")
def test_after_the_manifest_it_says_that_the_data_set_is_complete(tmp_path: Path) -> None:
    """The job is held where it has written the manifest and cleans up."""
    (tmp_path / "photos" / "a").mkdir(parents=True)
    (tmp_path / "photos" / "a" / "0.jpg").write_bytes(picture())
    code = (
        "import sys, time\nfrom beam_pipeline.cli import main\n"
        "from beam_pipeline.work import finishing\n"
        "def hold(folder):\n  print('ready', flush=True, file=sys.__stdout__)\n  time.sleep(60)\n"
        "finishing.delete_incomplete = hold\n"
        f"main(['convert', '--images', {str(tmp_path / 'photos')!r}, '--yes', '--no_report', "
        f"'--output', {str(tmp_path / 'out')!r}])"
    )

    def until_held(running: subprocess.Popen[str]) -> None:
        assert running.stdout is not None
        while running.stdout.readline() != "ready\n":
            assert running.poll() is None

    exit_code, errors = interrupted([sys.executable, "-c", code], until_held)
    assert (exit_code, errors.splitlines()[-1]) == (
        130,
        f"beam-tfrecord: interrupted at the very end: {tmp_path}/out contains the complete data set",
    )


INTERRUPTED_BY_ITS_FOLDER = """
import os, signal
mkdir = os.mkdir

def mkdir_and_ctrl_c(path, *mode):
    mkdir(path, *mode)
    if "beam-tfrecord-" in path:
        os.kill(os.getpid(), signal.SIGINT)

os.mkdir = mkdir_and_ctrl_c
from beam_pipeline.__main__ import run
run()
"""


@pytest.mark.promise("ctrl_c")
def test_a_plan_that_is_interrupted_as_its_folder_appears_leaves_nothing(tmp_path: Path) -> None:
    """Ctrl-C is handled before the temporary folder exists."""
    write_files(str(tmp_path), {"photos/a/0.jpg": picture(0), "photos/b/1.jpg": picture(1)})
    (tmp_path / "tmp").mkdir()
    plan = ["plan", "--images", f"{tmp_path}/photos", "--output", f"{tmp_path}/out"]
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_BY_ITS_FOLDER, *plan],
        env={**os.environ, "TMPDIR": f"{tmp_path}/tmp"},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (130, "\nbeam-tfrecord: interrupted\n")
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
    [25, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 2, 3, 26, 27, 50, 70))],
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
            time.sleep(moment * 0.2)
            if not _shards(output):
                os.kill(writers[0], signal.SIGKILL)
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
    sigint = partial(signal.signal, signal.SIGINT, signal.default_int_handler)
    argv = [*argv, "--image_check=full", "--output", str(output)]
    with job(*argv, start_new_session=True, preexec_fn=sigint) as running:
        wait_until(lambda: _shards(output), running)
        os.killpg(running.pid, signal.SIGINT)
        # communicate() also waits until no process of the job holds the pipe
        _, error = running.communicate(timeout=PATIENCE_S)
    assert running.returncode == 130
    assert "Traceback" not in error
    assert error.splitlines()[-2:] == [  # after lines of progress
        "",
        "beam-tfrecord: interrupted; no manifest was written. The same command with --resume continues",
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


def _make(folder: Path) -> None:
    write_pictures(f"{folder}/photos", [f"{'ab'[i % 2]}/{i:02d}.jpg" for i in range(40)])
    write_files(f"{folder}/photos", {"a/bad.jpg": "no image", "README.txt": "mine"})
    assert convert(*_argv(folder)) == 0


def _argv(folder: Path) -> list[str]:
    command = ["--images", f"{folder}/photos", "--output", f"{folder}/out", "--name", "d"]
    return [*command, "--num_shards", "4", ALL_BAD]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Path]:
    """Images, one of them broken, and their complete data set."""
    return made_once(tmp_path_factory.mktemp("resumed"), _make)


@pytest.fixture
def complete(made: Callable[[], Path]) -> Path:
    """A folder with images and their complete data set, in `out`, that has one dead letter."""
    return made()


@pytest.fixture
def command(complete: Path) -> list[str]:
    """The arguments that made it."""
    return _argv(complete)


def modified(folder: Path) -> dict[str, int]:
    """When each file was written."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.stat().st_mtime_ns for path in paths}


def test_a_complete_data_set_is_up_to_date_and_not_touched(
    command: list[str], complete: Path
) -> None:
    """Exit code 0 and one line; no file is written again, and no image is opened."""
    before = modified(complete / "out")
    write_files(f"{complete}/photos", {"notes.txt": "passed over, so nothing has changed"})
    images = sorted((complete / "photos").rglob("*.jpg"))
    for path in images:
        os.utime(path, ns=(0, path.stat().st_mtime_ns))
    printed = run_convert(*command, "--resume")
    assert {path.stat().st_atime_ns for path in images} == {0}
    assert printed.out.splitlines()[-1] == (
        f"{complete}/out is up to date: all is as it was when it was written"
    )
    assert modified(complete / "out") == before
    images[0].read_bytes()
    if images[0].stat().st_atime_ns == 0:
        pytest.skip("this file system does not note when a file was read")


def test_only_what_is_missing_is_written(command: list[str], complete: Path) -> None:
    """A shard that is gone, one that is cut, and side files come back; the rest is not touched."""
    output = complete / "out"
    shutil.copytree(output, complete / "whole")
    before = modified(output)
    gone, cut = "d-train.tfrecord-00001-of-00004", "d-train.tfrecord-00002-of-00004"
    os.unlink(output / gone)
    os.truncate(output / cut, 100)
    os.unlink(output / "labels.txt")
    assert convert(*command, "--resume") == 0
    assert digests(output) == digests(complete / "whole")
    after = modified(output)
    again = {name for name in before if after[name] != before[name]}
    assert again == {gone, cut, "labels.txt"} | {receipt_name(name) for name in (gone, cut)}


CHANGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "an image added": (
        lambda photos: write_pictures(str(photos), ["b/new.jpg"]),
        "its samples have changed: 1 added (b/new.jpg).",
    ),
    "an image changed": (
        lambda photos: (photos / "a/00.jpg").write_bytes((photos / "a/00.jpg").read_bytes()[:-1] + b"x"),
        "its samples have changed: 1 changed (a/00.jpg).",
    ),
    "an image gone": (
        lambda photos: os.unlink(photos / "b/01.jpg"),
        "its samples have changed: 1 gone (b/01.jpg).",
    ),
    "a class renamed": (lambda photos: os.rename(photos / "b", photos / "c"), "added (c/"),
}  # fmt: skip


@pytest.mark.promise("changed_between")
@pytest.mark.parametrize("what", CHANGES)
def test_changed_images_are_refused_and_named(
    command: list[str], complete: Path, what: str
) -> None:
    """Nothing of the complete data set is touched; the message says what changed and what to do."""
    change, message = CHANGES[what]
    before = modified(complete / "out")
    change(complete / "photos")
    error = run_convert(*command, "--resume", code=1).err
    assert message in error
    assert error.endswith("Restore them, or convert again with --overwrite\n")
    assert modified(complete / "out") == before


@pytest.mark.promise("changed_between")
@pytest.mark.parametrize(
    ("option", "message"),
    [
        (["--seed", "1"], "seed was 0, is 1."),
        (["--image_check", "full"], 'options.image_check was "header", is "full".'),
        (["--compression", "gzip"], 'options.compression was "none", is "gzip".'),
        (["--num_shards", "5"], "options.num_shards was 4, is 5."),
        (["--features", "id=image/source_id"], 'options.features.id was null, is "image/source'),
    ],
)
def test_changed_options_are_refused_and_named(
    command: list[str], complete: Path, option: list[str], message: str
) -> None:
    """They are seen before anything is listed."""
    before = modified(complete / "out")
    assert message in run_convert(*command, *option, "--resume", code=1).err
    assert modified(complete / "out") == before


def test_a_damaged_receipt_is_an_error_of_one_line(command: list[str], complete: Path) -> None:
    """It names the file, and the data set stays as it is."""
    receipt = complete / "out" / ".receipts" / "d-train-00002-of-00004.json.gz"
    receipt.write_bytes(b"damaged")
    before = modified(complete / "out")
    error = run_convert(*command, "--resume", code=1).err.splitlines()[-1]
    assert error.startswith(f"beam-tfrecord: error: {receipt} is damaged ")
    assert modified(complete / "out") == before
