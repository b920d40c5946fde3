"""`beam-tfrecord demo`: a data set from nothing."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import pytest

from beam_pipeline.cli import main
from tests.harness import digests
from tests.pictures import write_files


def test_the_demo_draws_and_converts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One command makes a data set from nothing; a second time it gives the same bytes."""
    monkeypatch.chdir(tmp_path)
    assert main(["demo"]) == 0
    first = digests(tmp_path / "beam-tfrecord-demo/tfrecords")
    lines = capsys.readouterr().out.splitlines()
    shown = lines.index("2 of the examples:")
    assert ", shapes-train.tfrecord-00000-of-00001, record 0" in lines[shown + 2]
    assert ", shapes-validation.tfrecord-00000-of-00001, record 0" in lines[shown + 15]
    assert lines[-2] == "  beam-tfrecord inspect beam-tfrecord-demo/tfrecords"
    assert main(["demo"]) == 0
    assert digests(tmp_path / "beam-tfrecord-demo/tfrecords") == first
    assert main(["verify", "beam-tfrecord-demo/tfrecords"]) == 0
    assert "300 examples, all well" in capsys.readouterr().out


def test_the_demo_touches_no_folder_with_other_things_in_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A folder that holds something else is refused."""
    write_files(str(tmp_path), {"thesis.txt": "precious"})
    assert main(["demo", str(tmp_path)]) == 2
    assert "contains other files" in capsys.readouterr().err
    assert os.listdir(tmp_path) == ["thesis.txt"]


@pytest.mark.slow
def test_the_demo_prints_a_command_that_does_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A person can copy the line, change it and run it again."""
    monkeypatch.chdir(tmp_path)
    assert main(["demo", "shapes"]) == 0
    first = digests(tmp_path / "shapes/tfrecords")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "Drew shapes/images/ and shapes/labels.csv. Now converting them with:"
    program, *argv = shlex.split(lines[2])
    assert program == "beam-tfrecord"
    assert main(argv) == 0
    assert digests(tmp_path / "shapes/tfrecords") == first
