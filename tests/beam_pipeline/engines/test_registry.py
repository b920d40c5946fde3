"""Which engine runs a job: by any of the names that Beam knows it under."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from beam_pipeline.core.errors import UsageError
from beam_pipeline.engines.base import Engine, engine_for
from beam_pipeline.engines.dataflow import DataflowEngine
from beam_pipeline.engines.flink import FlinkEngine
from beam_pipeline.engines.local import LocalEngine, PrismEngine


@pytest.mark.parametrize(
    ("argv", "kind", "name"),
    [
        ([], LocalEngine, "FnApiRunner"),
        (["--direct_num_workers=2"], LocalEngine, "FnApiRunner"),
        (["--runner=direct"], LocalEngine, "DirectRunner"),
        (["--runner", "prismrunner"], PrismEngine, "PrismRunner"),
        (
            ["--runner=apache_beam.runners.portability.fn_api_runner.FnApiRunner"],
            LocalEngine,
            "FnApiRunner",
        ),
        (["--runner=dataflow"], DataflowEngine, "DataflowRunner"),
        (["--runner=DATAFLOWRUNNER"], DataflowEngine, "DataflowRunner"),
        (["--runner=flink"], FlinkEngine, "FlinkRunner"),
        (["--runner=somebody.elses.Engine"], Engine, "Engine"),
    ],
)
def test_the_engine_that_options_name(argv: list[str], kind: type[Engine], name: str) -> None:
    """Without --runner it is Beam's in this process."""
    engine = engine_for(argv)
    assert type(engine) is kind
    assert engine.name == name
    assert engine.failures.retries == (not issubclass(kind, LocalEngine))
    assert engine.waits


def test_a_job_that_cannot_be_built_leaves_no_temporary_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beam makes one with each pipeline, and removes it when the pipeline has run."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(ZeroDivisionError):
        engine_for([]).run(lambda _: 1 / 0)
    assert os.listdir(tmp_path) == []


def test_clouds_and_clusters_are_left_alone() -> None:
    """Elsewhere the job would end with the command."""
    assert not engine_for(["--runner=dataflow"], wait=False).waits
    assert not engine_for(["--runner=flink", "--flink_master=h:1"], wait=False).waits
    with pytest.raises(UsageError, match=r"with PrismRunner as given it ends with this command"):
        engine_for(["--runner=prism"], wait=False)
