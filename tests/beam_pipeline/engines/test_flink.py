"""What a job on Flink is given when nothing is said; tests/engines runs such jobs."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from beam_pipeline.cli import _parser
from beam_pipeline.engines.flink import Cluster, _cluster_defaults, with_defaults
from beam_pipeline.launch import beam_option_names
from beam_pipeline.transforms.core.errors import UsageError
from tests.harness import REPOSITORY

PAGES = ("docs/flink.md", "deploy/flink/README.md")
CLUSTER = Cluster("1.19", task_managers=2, slots=6, restarts=True)


def test_a_job_takes_the_whole_cluster() -> None:
    """A part for each slot, a process for each slot of a TaskManager, Flink's own version."""
    defaults = _cluster_defaults(CLUSTER, set())
    assert defaults.pop("--job_name").startswith("beam-tfrecord-")
    assert defaults == {
        "--parallelism": 6,
        "--execution_mode_for_batch": "BATCH",
        "--flink_version": "1.19",
        "--environment_type": "EXTERNAL",
        "--environment_config": "localhost:50000",
        "--sdk_worker_parallelism": 3,
    }


def test_workers_of_ones_own_are_left_alone() -> None:
    """Who names the environment gets nothing of ours beside it."""
    defaults = _cluster_defaults(CLUSTER, {"--environment_type"})
    assert not {"--environment_config", "--sdk_worker_parallelism"} & set(defaults)


def test_a_version_that_beam_does_not_know_is_refused() -> None:
    """Unless a job server is named, which says what it fits."""
    old = Cluster("1.15", task_managers=2, slots=6, restarts=True)
    with pytest.raises(UsageError, match=r"Flink 1\.15, for which this version of Beam has no job"):
        _cluster_defaults(old, set())
    assert "--flink_version" not in _cluster_defaults(old, {"--flink_job_server_jar"})


def test_java_and_the_jar_must_be_there(tmp_path: Path) -> None:
    """Both are said before a job begins."""
    with pytest.raises(UsageError, match="needs Java on this machine"):
        with_defaults(["--runner=FlinkRunner", "--job_server_java_launcher=no-such-java"])
    java = tmp_path / "java"
    java.touch(mode=0o755)
    argv = ["--runner=FlinkRunner", f"--job_server_java_launcher={java}"]
    with pytest.raises(
        UsageError, match=r"--flink_job_server_jar=gone\.jar: the file does not exist"
    ):
        with_defaults([*argv, "--flink_job_server_jar=gone.jar"])
    assert with_defaults(argv)[len(argv) :] == ["--flink_master=[local]", "--flink_version=1.19"]


@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_a_page_are_understood(page: str) -> None:
    """Every option in them is ours or one that Beam knows."""
    text = Path(REPOSITORY, page).read_text(encoding="utf-8")
    commands = re.findall(r"^beam-tfrecord (convert (?:.*\\\n)*.*)$", text, re.MULTILINE)
    assert len(commands) == 2
    for command in commands:
        argv = shlex.split(command.replace("\\\n", " "))
        arguments, beam_argv = _parser().parse_known_args(argv)
        assert arguments.output
        assert "--runner=FlinkRunner" in beam_argv
        assert beam_option_names().unknown(beam_argv) == []


def test_every_option_of_the_page_is_one_of_beams() -> None:
    """The table of docs/flink.md names what there is."""
    text = Path(REPOSITORY, PAGES[0]).read_text(encoding="utf-8")
    named = re.findall(r"^\| `(--\w+)[^|]*\|", text, re.MULTILINE)
    assert len(named) == 8
    assert set(named) <= set(beam_option_names().all)
