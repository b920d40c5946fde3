"""Prism that does not start: one line that says what to do."""

from __future__ import annotations

import os
from pathlib import Path

import apache_beam
import pytest

from beam_pipeline.engines.base import engine_for
from beam_pipeline.engines.local import PrismEngine
from tests.harness import convert_in_process_of_its_own, run_convert
from tests.pictures import write_pictures

BUILD = (
    f"`go install github.com/apache/beam/sdks/v2/go/cmd/prism@v{apache_beam.__version__}` builds it"
)


def test_prism_is_an_engine_of_its_own() -> None:
    """The registry names it."""
    assert isinstance(engine_for(["--runner=PrismRunner"]), PrismEngine)


@pytest.mark.parametrize(
    ("location", "code", "message"),
    [
        (
            "{}/nowhere",
            2,
            f"--prism_location={{}}/nowhere: the file does not exist; {BUILD}, and without the option Beam "
            "downloads it",
        ),
        (
            "{}/text",
            1,
            "Prism did not start: [Errno 8] Exec format error: '{}/text'; --prism_location names a "
            f"binary of Prism; {BUILD}",
        ),
    ],
)
def test_a_binary_that_is_none_is_told(
    location: str, code: int, message: str, tmp_path: Path
) -> None:
    """A missing one before anything is written, and one that cannot be run by the system's words."""
    write_pictures(f"{tmp_path}/photos", ["a/1.jpg"])
    Path(tmp_path, "text").write_text("no binary")
    os.chmod(f"{tmp_path}/text", 0o755)
    argv = ("--images", f"{tmp_path}/photos", "--output", f"{tmp_path}/out", "--runner=PrismRunner")
    assert (
        run_convert(*argv, f"--prism_location={location.format(tmp_path)}", code=code).err
        == f"beam-tfrecord: error: {message.format(tmp_path)}\n"
    )
    assert code == 1 or not (tmp_path / "out").exists()


def test_an_engine_that_does_not_start_leaves_no_temporary_folder(tmp_path: Path) -> None:
    """Beam makes three before, and removes none; its cache of packages stays."""
    write_pictures(f"{tmp_path}/photos", ["a/1.jpg"])
    (tmp_path / "tmp").mkdir()
    done = convert_in_process_of_its_own(
        *("--images", "photos", "--output", "out", "--runner=PrismRunner"),
        f"--prism_location={tmp_path}/photos/a/1.jpg",
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": f"{tmp_path}/tmp"},
    )
    assert "Prism did not start" in done.stderr
    assert os.listdir(tmp_path / "tmp") == ["beam-requirements-cache"]


def test_a_value_that_beam_refuses_is_one_line(tmp_path: Path) -> None:
    """Without the list of all options of Beam."""
    write_pictures(f"{tmp_path}/photos", ["a/1.jpg"])
    argv = ("--images", f"{tmp_path}/photos", "--output", f"{tmp_path}/out")
    (line,) = run_convert(
        *argv, "--runner=FlinkRunner", "--flink_version=9.9", code=2
    ).err.splitlines()
    assert line.startswith(
        "beam-tfrecord: error: Apache Beam: argument --flink_version: invalid choice: '9.9'"
    )
