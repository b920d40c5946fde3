"""Ctrl-C as a terminal sends it, to the whole process group: one line, exit code 130, nothing left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.pictures import picture

PATIENCE_S = 120
BEGIN = "import time\nfrom beam_pipeline.launch import interruptible\n"
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
        return running.returncode, errors


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


@pytest.mark.promise("ctrl_c")
@pytest.mark.slow
def test_a_plan_leaves_nothing(tmp_path: Path) -> None:
    """One line instead of the tracebacks of workers, and no temporary folder."""
    images, temporary = tmp_path / "photos" / "a", tmp_path / "tmp"
    images.mkdir(parents=True)
    temporary.mkdir()
    (images / "0.jpg").write_bytes(picture())
    for number in range(1, 30_000):
        os.link(images / "0.jpg", images / f"{number}.jpg")

    def until_planning(running: subprocess.Popen[str]) -> None:
        end = time.monotonic() + PATIENCE_S
        while not list(temporary.glob("beam-tfrecord-*")) and time.monotonic() < end:
            assert running.poll() is None
            time.sleep(0.01)

    plan = ["plan", "--images", str(images.parent), "--output", str(tmp_path / "out")]
    command = ["env", f"TMPDIR={temporary}", sys.executable, "-m", "beam_pipeline", *plan]
    assert interrupted(command, until_planning) == (130, "\nbeam-tfrecord: interrupted\n")
    assert list(temporary.glob("beam-tfrecord-*")) == []
