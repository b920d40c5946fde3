"""The same jobs on Prism, the engine that Beam's DirectRunner starts: the same bytes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests import harness
from tests.beam_pipeline.test_interrupted import PATIENCE_S, interrupted
from tests.engines import same_bytes
from tests.layouts.proofs import PROOFS
from tests.pictures import picture, write_files

pytestmark = pytest.mark.prism


@pytest.fixture(scope="session")
def prism() -> tuple[str, ...]:
    """Options that run a job on Prism."""
    binary = os.environ.get("BEAM_TFRECORD_PRISM", "")
    if not shutil.which(binary):
        pytest.skip("needs Prism: name its binary in BEAM_TFRECORD_PRISM (.ci/run builds it)")
    return ("--runner=PrismRunner", f"--prism_location={binary}")


@pytest.mark.promise("same_bytes")
@pytest.mark.parametrize("name", PROOFS)
def test_a_data_set_has_the_same_bytes(
    prism: tuple[str, ...], name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Shards, manifest, class files and dead letters are those of the default engine, for all that is proven."""
    monkeypatch.chdir(tmp_path)
    same_bytes.assert_proof_has_same_bytes(name, prism)


@pytest.mark.parametrize("script", same_bytes.SCRIPTS)
def test_a_pipeline_of_ones_own(prism: tuple[str, ...], script: str, tmp_path: Path) -> None:
    """The public transforms write the same bytes; a step after the commit runs once."""
    same_bytes.assert_example_has_same_bytes(script, prism, tmp_path)


def test_dead_letters_and_resume(prism: tuple[str, ...], tmp_path: Path) -> None:
    """What is left out is left out for the same reasons; a second run finds nothing to do."""
    same_bytes.assert_dead_letters_and_resume(prism, tmp_path)


@pytest.mark.parametrize("bad", [0, 1])
def test_no_engine_is_left_running(prism: tuple[str, ...], bad: int, tmp_path: Path) -> None:
    """The process of Prism ends with the job, and its temporary folders; a refusal is one error, without its tries."""
    (tmp_path / "tmp").mkdir()
    write_files(f"{tmp_path}/photos", {"b/1.jpg": picture(), "a/1.jpg": "no image"})
    argv = ("--images", "photos", "--output", "out", f"--max_bad_fraction={bad}")
    environment = {**os.environ, "TMPDIR": f"{tmp_path}/tmp"}
    done = harness.convert_in_process_of_its_own(*argv, *prism, cwd=tmp_path, env=environment)
    assert done.returncode == 1 - bad
    assert "Traceback" not in done.stderr
    refused = "beam-tfrecord: error: 1 bad sample among 2"
    assert bad or done.stderr.splitlines()[-1].startswith(refused)
    assert same_bytes.processes_in(tmp_path) == []
    assert os.listdir(tmp_path / "tmp") == ["beam-requirements-cache"]


def test_ctrl_c_is_one_line(prism: tuple[str, ...], tmp_path: Path) -> None:
    """A terminal signals Prism, too; nothing is said of that, and no process or temporary folder is left."""
    (tmp_path / "tmp").mkdir()
    write_files(f"{tmp_path}/photos", {"a/0.jpg": picture()})
    for number in range(1, 20_000):
        os.link(tmp_path / "photos/a/0.jpg", tmp_path / f"photos/a/{number}.jpg")
    note = tmp_path / "out" / ".incomplete" / "plan.json"

    def until_writing(running: subprocess.Popen[str]) -> None:
        end = time.monotonic() + PATIENCE_S
        while not note.exists() and time.monotonic() < end:
            assert running.poll() is None
            time.sleep(0.01)

    argv = ["convert", "--images", f"{tmp_path}/photos", "--output", f"{tmp_path}/out", "--yes"]
    command = ["env", f"TMPDIR={tmp_path}/tmp", sys.executable, "-m", "beam_pipeline"]
    code, errors = interrupted([*command, *argv, *prism], until_writing)
    assert (code, errors.splitlines()[-2:]) == (
        130,
        [
            "",
            "beam-tfrecord: interrupted. The same command with --resume continues",
        ],
    )
    assert "Traceback" not in errors
    assert same_bytes.processes_in(tmp_path) == []
    assert os.listdir(tmp_path / "tmp") == ["beam-requirements-cache"]
