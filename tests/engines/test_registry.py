"""Which engine runs a job, by any of the names that Beam knows it under, and its options."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
import tempfile
from pathlib import Path

import apache_beam
import pytest
from apache_beam.options.pipeline_options import (
    DirectOptions,
    PipelineOptions,
    StandardOptions,
    WorkerOptions,
)

from beam_pipeline.core.errors import UsageError
from beam_pipeline.engines import dataflow, flink, local
from beam_pipeline.engines.base import CachedOptions, Engine, engine_for
from tests.harness import convert_in_process_of_its_own, run_convert
from tests.pictures import write_pictures

FN_API = "apache_beam.runners.portability.fn_api_runner.FnApiRunner"


@pytest.mark.parametrize(
    ("argv", "kind", "name"),
    [
        ([], local.LocalEngine, "FnApiRunner"),
        (["--direct_num_workers=2"], local.LocalEngine, "FnApiRunner"),
        (["--runner=direct"], local.LocalEngine, "DirectRunner"),
        (["--runner", "prismrunner"], local.PrismEngine, "PrismRunner"),
        ([f"--runner={FN_API}"], local.LocalEngine, "FnApiRunner"),
        (["--runner=dataflow"], dataflow.DataflowEngine, "DataflowRunner"),
        (["--runner=DATAFLOWRUNNER"], dataflow.DataflowEngine, "DataflowRunner"),
        (["--runner=flink"], flink.FlinkEngine, "FlinkRunner"),
        (["--runner=somebody.elses.Engine"], Engine, "Engine"),
    ],
)
def test_the_engine_that_options_name(argv: list[str], kind: type[Engine], name: str) -> None:
    """Without --runner it is Beam's in this process."""
    engine = engine_for(argv)
    assert type(engine) is kind
    assert engine.name == name
    assert engine.failures.retries == (not issubclass(kind, local.LocalEngine))
    assert engine.waits


def test_a_job_that_cannot_be_built_leaves_no_temporary_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beam makes one with each pipeline, and removes it when the pipeline has run."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(ZeroDivisionError):
        engine_for([]).run(lambda _: 1 / 0)
    assert os.listdir(tmp_path) == []


FORKS = """
import os
from apache_beam.runners.portability import job_server
from beam_pipeline.beam_patches import noted_folders
with noted_folders:
    folder = job_server.tempfile.mkdtemp(dir=os.getcwd())
if os.fork():
    os.wait()
    print(os.path.isdir(folder))
"""


def test_a_forked_process_leaves_an_engines_folder_to_its_parent(tmp_path: Path) -> None:
    """Its engine may still run; the parent removes the folder when it ends."""
    assert subprocess.check_output([sys.executable, "-c", FORKS], cwd=tmp_path) == b"True\n"
    assert os.listdir(tmp_path) == []


def test_clouds_and_clusters_are_left_alone() -> None:
    """Elsewhere the job would end with the command."""
    assert not engine_for(["--runner=dataflow"], wait=False).waits
    assert not engine_for(["--runner=flink", "--flink_master=h:1"], wait=False).waits
    with pytest.raises(UsageError, match=r"with PrismRunner as given it ends with this command"):
        engine_for(["--runner=prism"], wait=False)


# --- local ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("runner", [[], ["--runner=FnApiRunner"], ["--runner=direct"]])
def test_worker_processes_of_beam_are_refused(runner: list[str]) -> None:
    """The error says why, and which option to use instead."""
    with pytest.raises(UsageError) as caught:
        engine_for([*runner, "--direct_running_mode=multi_processing"])
    assert str(caught.value) == (
        "--direct_running_mode=multi_processing: a job whose worker process dies would wait for ever, as "
        "Beam does not notice. Leave the option out and use --writers=N instead: N processes write "
        "shards, faster than Beam's workers would"
    )


def test_the_options_of_a_local_engine() -> None:
    """Prism is quiet unless something else is asked for; so are workers of the default engine."""
    assert engine_for([]).options.get_all_options(drop_default=True)["prism_log_level"] == "warn"
    given = engine_for(["--prism_log_level=debug", "--runner=prism"]).options
    assert given.get_all_options()["prism_log_level"] == "debug"
    level = "default_sdk_harness_log_level"
    assert engine_for([]).options.get_all_options()[level] == "ERROR"
    assert engine_for([f"--{level}=INFO"]).options.get_all_options()[level] == "INFO"
    assert engine_for(["--runner=direct"]).options.get_all_options()[level] is None


# --- prism ----------------------------------------------------------------------------------------


MULTI = "--direct_running_mode=multi_processing"
BUILD = (
    f"`go install github.com/apache/beam/sdks/v2/go/cmd/prism@v{apache_beam.__version__}` builds it"
)
NO_BINARY = "Prism did not start: [Errno 8] Exec format error: '{}/text'; --prism_location names a "
NO_BINARY += f"binary of Prism; {BUILD}"


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        ("--runner=PrismRunner --prism_location={}/nowhere", 1, "Prism did not start: "),
        ("--runner=PrismRunner --prism_location={}/text", 1, NO_BINARY),
        (
            "--runner=FlinkRunner --flink_version=9.9",
            2,
            "Apache Beam: argument --flink_version: invalid choice: '9.9'",
        ),
        (MULTI, 2, f"{MULTI}: a job"),
    ],
)
def test_what_an_engine_refuses_is_one_line(
    options: str, code: int, message: str, tmp_path: Path
) -> None:
    """Before anything is written, but for a binary that cannot be run, of which the system tells."""
    write_pictures(f"{tmp_path}/photos", ["a/1.jpg"])
    Path(tmp_path, "text").write_text("no binary")
    os.chmod(f"{tmp_path}/text", 0o755)
    argv = ("--images", f"{tmp_path}/photos", "--output", f"{tmp_path}/out")
    (line,) = run_convert(*argv, *options.format(tmp_path).split(), code=code).err.splitlines()
    assert line.startswith(f"beam-tfrecord: error: {message.format(tmp_path)}")
    assert code == 1 or not (tmp_path / "out").exists()


# --- cached options -------------------------------------------------------------------------------


ARGV = ["--runner=PrismRunner", "--direct_num_workers=3", "--unknown=1"]


def test_they_have_the_values_of_beam_s() -> None:
    """All of them, also those of views that were never made."""
    assert CachedOptions(ARGV).get_all_options() == PipelineOptions(ARGV).get_all_options()
    assert CachedOptions(ARGV).view_as(StandardOptions).runner == "PrismRunner"


def test_a_view_is_made_once_and_shares_its_values() -> None:
    """A value that is set in one is there in all, as with Beam's."""
    options = CachedOptions(ARGV)
    view = options.view_as(DirectOptions)
    assert options.view_as(DirectOptions) is view
    view.direct_num_workers = 7
    assert options.get_all_options()["direct_num_workers"] == 7
    assert options.view_as(StandardOptions).view_as(DirectOptions).direct_num_workers == 7
    options.view_as(WorkerOptions).num_workers = 2
    assert view.view_as(WorkerOptions).num_workers == 2


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_a_copy_has_values_of_its_own(copied: object) -> None:
    """The views stay behind."""
    options = CachedOptions(ARGV)
    options.view_as(DirectOptions)
    twin: CachedOptions = copied(options)  # type: ignore[operator]
    twin.view_as(DirectOptions).direct_num_workers = 9
    assert options.view_as(DirectOptions).direct_num_workers == 3
    assert twin.get_all_options()["direct_num_workers"] == 9


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
