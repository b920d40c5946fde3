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
from beam_pipeline.engines.base import CachedOptions, engine_for
from tests.harness import convert_in_process_of_its_own, run_convert
from tests.pictures import write_pictures
from tests.rows import in_rows


@in_rows
def test_the_engine_that_options_name(argv: str, kind: str, name: str) -> None:
    """Without --runner it is Beam's in this process."""
    engine = engine_for(argv.split())
    assert (type(engine).__name__, engine.name) == (kind, name)
    assert engine.failures.retries == (kind not in ("LocalEngine", "PrismEngine"))
    assert engine.waits


@in_rows
def test_the_options_of_an_engine(argv: str, option: str, value: str | None) -> None:
    """Those that are given count."""
    assert engine_for(argv.split()).options.get_all_options()[option] == value


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


BUILD = (
    f"`go install github.com/apache/beam/sdks/v2/go/cmd/prism@v{apache_beam.__version__}` builds it"
)


@in_rows
def test_what_an_engine_refuses_is_one_line(
    tmp_path: Path, options: str, code: int, message: str
) -> None:
    """Nothing is written."""
    write_pictures(f"{tmp_path}/photos", ["a/1.jpg"])
    (tmp_path / "text").write_text("no binary")
    (tmp_path / "text").chmod(0o755)
    options, message = (text.replace("OUT", str(tmp_path)) for text in (options, message))
    argv = ("--images", f"{tmp_path}/photos", "--output", f"{tmp_path}/out", *options.split())
    (line,) = run_convert(*argv, code=code).err.splitlines()
    assert line.startswith(f"beam-tfrecord: error: {message.replace('BUILD', BUILD)}")
    assert code == 1 or not (tmp_path / "out").exists()


# --- cached options -------------------------------------------------------------------------------


ARGV = ["--runner=PrismRunner", "--direct_num_workers=3", "--unknown=1"]


def test_a_view_is_made_once_and_shares_its_values() -> None:
    """A value that is set in one is there in all, as with Beam's; so are values of views that were never made."""
    options = CachedOptions(ARGV)
    assert options.get_all_options() == PipelineOptions(ARGV).get_all_options()
    assert options.view_as(StandardOptions).runner == "PrismRunner"
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


@pytest.mark.slow
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
