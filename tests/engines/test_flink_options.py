"""What a job on Flink is given when nothing is said; tests/engines runs such jobs."""

from __future__ import annotations

import dataclasses
import json
import re
import shlex
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from apache_beam.options.pipeline_options import GoogleCloudOptions

from beam_pipeline import beam_patches, cli, inputs, launch
from beam_pipeline.config import ConvertConfig
from beam_pipeline.core.errors import AnotherJobError, ConversionError, UsageError, is_outage
from beam_pipeline.engines import base, flink
from beam_pipeline.options import ConvertOptions
from tests import harness, pictures
from tests.servers import Asked, served

PAGES = ("docs/flink.md", "deploy/flink/README.md")
CLUSTER = flink.Cluster("1.19", task_managers=2, slots=6)


def test_a_job_takes_the_whole_cluster() -> None:
    """A part for each slot, a process for each slot of a TaskManager, Flink's own version."""
    workers = {"--environment_config": "localhost:50000", "--sdk_worker_parallelism": 3}
    defaults = flink._cluster_defaults(CLUSTER, set())
    assert defaults == {
        "--parallelism": 6,
        "--execution_mode_for_batch": "BATCH",
        "--flink_version": "1.19",
        "--environment_type": "EXTERNAL",
        **workers,
    }
    # who names the environment gets nothing of ours beside it
    assert not workers.keys() & flink._cluster_defaults(CLUSTER, {"--environment_type"}).keys()


def test_a_version_that_beam_does_not_know_is_refused() -> None:
    """Unless a job server is named, which says what it fits."""
    old = flink.Cluster("1.15", task_managers=2, slots=6)
    with pytest.raises(UsageError, match=r"Flink 1\.15, and this version of Beam lacks a job"):
        flink._cluster_defaults(old, set())
    assert "--flink_version" not in flink._cluster_defaults(old, {"--flink_job_server_jar"})


JOBS = {  # id -> state, start, name
    "a1": ("RUNNING", 30, "pets"),
    "b2": ("RESTARTING", 20, "pets2"),
    "c3": ("FINISHED", 10, "pets"),
    "d4": ("RUNNING", 40, "else"),
}
CANCELLED: list[str] = []


def _rest(asked: Asked) -> Any:
    """Flink's REST interface, as far as jobs are asked for."""
    if asked.method == "PATCH":
        CANCELLED.append(asked.path)
        return 200, {}, b"{}"
    found: dict[str, Any] = {
        "/overview": {"flink-version": "1.19.3", "taskmanagers": 1, "slots-total": 2},
    }
    jobs = [
        {"jid": job, "name": name, "state": state, "start-time": start}
        for job, (state, start, name) in JOBS.items()
    ]
    return 200, {}, json.dumps({**found, "/jobs/overview": {"jobs": jobs}}[asked.path]).encode()


@pytest.fixture
def master() -> Iterator[str]:
    """The address of a cluster with some jobs."""
    CANCELLED.clear()
    with served(_rest) as server:
        yield server.url.removeprefix("http://")


@pytest.mark.parametrize("is_there", [True, False])
def test_a_job_whose_cluster_is_gone_may_be_run_again(master: str, is_there: bool) -> None:
    """An outage, other than a job that fails on a cluster that goes on."""
    address = master if is_there else "localhost:1"
    engine = base.engine_for(["--runner=FlinkRunner", f"--flink_master={address}"])

    def fail(_: object) -> None:
        raise RuntimeError("Pipeline a failed in state FAILED: java.io.IOException: x")

    with pytest.raises(ConversionError, match="the job failed on Flink: java") as caught:
        engine.run(fail)
    assert is_outage(caught.value) != is_there


def test_jobs_are_known_by_their_name(master: str) -> None:
    """The newest last."""
    assert flink.jobs_of(master, "pets") == [
        flink.FlinkJob("c3", f"http://{master}/jobs/c3", active=False),
        flink.FlinkJob("a1", f"http://{master}/jobs/a1", active=True),
    ]
    assert flink.jobs_of(master, "pet") == []


@pytest.fixture
def config(tmp_path: Path) -> ConvertConfig:
    """A conversion of one image."""
    pictures.write_pictures(str(tmp_path / "photos"), ["a/1.jpg"])
    argv = ["convert", "--images", str(tmp_path / "photos"), "--output", str(tmp_path / "out")]
    options = ConvertOptions.from_arguments(cli._parser().parse_known_args(argv)[0])
    return inputs.convert_config(options)[0]


def test_a_job_that_still_runs_is_named(
    master: str, config: ConvertConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With its page and the command that cancels it; Ctrl-C sends the same request, and no other."""
    (tmp_path / "java").touch(mode=0o755)
    (tmp_path / "jar").touch()
    argv = [
        "--runner=FlinkRunner",
        f"--flink_master={master}",
        f"--job_server_java_launcher={tmp_path}/java",
        f"--flink_job_server_jar={tmp_path}/jar",
    ]
    engine = base.engine_for(argv)
    engine.prepare(config)
    google = engine.options.view_as(GoogleCloudOptions)
    assert google.job_name == base.job_name(config)
    monkeypatch.setitem(JOBS, "e5", ("RUNNING", 50, base.job_name(config)))
    told = (
        rf"^job e5 is still running at http://{master}/jobs/e5, and writes to "
        rf"{config.output}\. Wait for its end, or cancel it: curl -X PATCH "
        rf"http://{master}/jobs/e5\. Then --resume"
    )
    late = base.engine_for(argv, wait=False)
    with pytest.raises(AnotherJobError, match=told):
        late.prepare(config)
    with pytest.raises(AnotherJobError, match=r"a1, and has the --job_name pets, too\. Wait"):
        base.engine_for([*argv, "--job_name=pets"]).prepare(config)
    assert late.interrupt() == "interrupted"
    assert CANCELLED == []
    assert engine.interrupt() == "interrupted"
    assert CANCELLED == ["/jobs/e5"]


@pytest.mark.parametrize(
    "more",
    [
        [],
        ["--flink_master=[local]"],
        ["--flink_master=h:1", "--environment_type=LOOPBACK"],
        ["--flink_master=h:1", "--job_endpoint=h:2"],
    ],
)
def test_a_job_that_ends_with_the_command_is_not_left(more: list[str]) -> None:
    """--no_wait needs a cluster with workers of its own."""
    with pytest.raises(UsageError, match="with FlinkRunner as given it ends with this command"):
        base.engine_for(["--runner=FlinkRunner", *more], wait=False)


def test_a_job_that_is_left_reports_to_flink(config: ConvertConfig) -> None:
    """Nobody reads its refusal, so it fails; what needs this program is refused."""
    argv = ["--runner=FlinkRunner", "--flink_master=localhost:1"]
    engine = base.engine_for(argv, wait=False)
    assert engine.failures.raises_refusals
    assert not base.engine_for(argv).failures.raises_refusals
    for change, told in (({"writers": 2}, "--writers is for processes of this machine"),):
        options = dataclasses.replace(config.options.engine, **change)
        changed = dataclasses.replace(config.options, engine=options)
        with pytest.raises(UsageError, match=told):
            engine.prepare(dataclasses.replace(config, options=changed))


def test_a_thread_that_loses_its_connection_is_passed_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Other errors go on to the hook that was there."""
    seen: list[object] = []
    monkeypatch.setattr(threading, "excepthook", seen.append)
    other = threading.ExceptHookArgs((ValueError, ValueError("x"), None, None))
    closed = ValueError("Cannot monitor channel state: Channel closed!")  # gRPC's own thread
    with beam_patches.applied([beam_patches.silent_connections]):
        for lost in (grpc.RpcError(), closed):
            threading.excepthook(threading.ExceptHookArgs((type(lost), lost, None, None)))
        threading.excepthook(other)
    assert seen == [other]


def test_java_and_the_jar_must_be_there(tmp_path: Path) -> None:
    """Both are said before a job begins."""
    with pytest.raises(UsageError, match="needs Java on this machine"):
        flink.with_defaults(["--runner=FlinkRunner", "--job_server_java_launcher=no-such-java"])
    java = tmp_path / "java"
    java.touch(mode=0o755)
    argv = ["--runner=FlinkRunner", f"--job_server_java_launcher={java}"]
    with pytest.raises(
        UsageError, match=r"--flink_job_server_jar=gone\.jar: the file does not exist"
    ):
        flink.with_defaults([*argv, "--flink_job_server_jar=gone.jar"])
    assert flink.with_defaults(argv)[len(argv) :] == [
        "--flink_master=[local]",
        "--flink_version=1.19",
    ]


@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_a_page_are_understood(page: str) -> None:
    """Every option in them is ours or one that Beam knows."""
    text = Path(harness.REPOSITORY, page).read_text(encoding="utf-8")
    commands = re.findall(r"^beam-tfrecord (convert (?:.*\\\n)*.*)$", text, re.MULTILINE)
    assert commands
    for command in commands:
        argv = shlex.split(command.replace("\\\n", " "))
        arguments, beam_argv = cli._parser().parse_known_args(argv)
        assert arguments.output
        assert "--runner=FlinkRunner" in beam_argv
        assert launch.beam_parser().parse_known_args(beam_argv)[1] == []


def test_options_of_flink_are_known_before_it_is_chosen() -> None:
    """In a process that has not imported its engine yet."""
    argv = ["--runner=flink", "--execution_mode_for_batch=PIPELINED", "--never_heard_of=1"]
    script = (
        "import sys; from beam_pipeline.launch import beam_parser; "
        "print(*beam_parser(sys.argv[1:]).parse_known_args(sys.argv[1:])[1])"
    )
    done = harness.python("-c", script, *argv, check=True)
    assert done.stdout == "--never_heard_of=1\n"


def test_every_option_of_the_page_is_one_of_beams() -> None:
    """The table of docs/flink.md names what there is."""
    text = Path(harness.REPOSITORY, PAGES[0]).read_text(encoding="utf-8")
    named = re.findall(r"^\| `(--\w+)[^|]*\|", text, re.MULTILINE)
    assert len(named) == 8
    assert set(named) <= launch.beam_parser()._option_string_actions.keys()
