"""Flink for tests: inside Beam's job server, or as a cluster of processes that can be killed."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness import REPOSITORY, process

SCRIPT = os.path.join(REPOSITORY, "deploy/flink/cluster.sh")
_FETCH = "tests/engines/fetch_flink.sh fetches both"


def job_server() -> tuple[str, ...]:
    """Options that run a job on the Flink inside Beam's job server; skips where there is none."""
    jar = os.environ.get("BEAM_TFRECORD_FLINK_JOB_SERVER", "")
    if not os.path.isfile(jar):
        pytest.skip(f"needs Beam's job server: BEAM_TFRECORD_FLINK_JOB_SERVER=its jar ({_FETCH})")
    if not shutil.which("java"):
        pytest.skip("needs Java, for Beam's job server")
    return ("--runner=FlinkRunner", f"--flink_job_server_jar={jar}")


class Cluster:
    """One JobManager, two TaskManagers of one slot each, and a pool of workers.

    Attributes:
      address: of the JobManager's REST interface.
      workers_options: where its TaskManagers find workers.
      options: run a job on it.
    """

    def __init__(self, folder: Path, rest: int, pool: int, options: tuple[str, ...]) -> None:
        self._folder = folder
        self.address = f"localhost:{rest}"
        # Tests run side by side, so the pool's port is not the usual one and must be said.
        self.workers_options = (
            "--environment_type=EXTERNAL",
            f"--environment_config=localhost:{pool}",
        )
        self.options = (*options, f"--flink_master={self.address}", *self.workers_options)

    def finished(self) -> int:
        """The number of jobs that have ended well."""
        return sum(job["state"] == "FINISHED" for job in self.ask("jobs/overview")["jobs"])

    def ask(self, path: str) -> Any:
        """What Flink's REST interface answers."""
        with urllib.request.urlopen(f"http://{self.address}/{path}", timeout=10) as answer:
            return json.load(answer)

    def newest_job(self) -> Any:
        """The job that was begun last, with its steps."""
        jobs = self.ask("jobs/overview")["jobs"]
        return self.ask(f"jobs/{max(jobs, key=lambda job: job['start-time'])['jid']}")

    def writing(self) -> list[dict[str, Any]]:
        """The parts of the newest job's step that writes shards: status, attempt, TaskManager."""
        job = self.newest_job()
        (step,) = [
            v["id"] for v in job["vertices"] if "WriteShards" in v["name"] and "MapP" in v["name"]
        ]
        parts: list[dict[str, Any]] = self.ask(f"jobs/{job['jid']}/vertices/{step}")["subtasks"]
        return parts

    def task_managers(self) -> set[str]:
        """Ids of those that Flink knows."""
        return {manager["id"] for manager in self.ask("taskmanagers")["taskmanagers"]}

    def kill(self, task_manager: str) -> None:
        """Ends a TaskManager as a machine that fails does."""
        os.kill(int((self._folder / "pid" / task_manager).read_text()), signal.SIGKILL)

    def workers(self) -> list[str]:
        """Processes that the pool's template forked into and that are there still."""
        pool = (self._folder / "pid" / "worker-pool").read_text().strip()
        return [worker for template in _children(pool) for worker in _children(template)]


def _children(process: str) -> list[str]:
    return [
        child
        for thread in os.listdir(f"/proc/{process}/task")
        for child in Path(f"/proc/{process}/task/{thread}/children").read_text().split()
    ]


@contextlib.contextmanager
def cluster_of_two(folder: Path, options: tuple[str, ...]) -> Iterator[Cluster]:
    """Starts a cluster by the script of deploy/flink, and stops it.

    Args:
      folder: of its settings and logs.
      options: name Beam's job server.
    """
    distribution = os.environ.get("BEAM_TFRECORD_FLINK", "")
    if not os.path.isdir(os.path.join(distribution, "lib")):
        pytest.skip(f"needs Flink: BEAM_TFRECORD_FLINK=its folder ({_FETCH})")
    rest, rpc, pool = _free_ports(3)
    ports = {"REST_PORT": str(rest), "RPC_PORT": str(rpc), "POOL_PORT": str(pool)}
    environment = {
        **os.environ,
        **ports,
        "FLINK_HOME": distribution,
        "PYTHON": sys.executable,
        "PYTHONPATH": REPOSITORY,
    }
    started = process(SCRIPT, "start", folder, env=environment)
    assert started.returncode == 0, started.stderr
    try:
        cluster = Cluster(folder, rest, pool, options)
        wait_until(
            lambda: cluster.ask("overview")["slots-total"] == 2, "both slots are offered", 60
        )
        yield cluster
    finally:
        subprocess.run([SCRIPT, "stop", folder], env=environment, check=True)


@contextlib.contextmanager
def job_service(cluster: Cluster) -> Iterator[tuple[str, ...]]:
    """Runs Beam's job server for many jobs on a cluster; yields the options of a job in one slot.

    A job costs 6 s of CPU less than one with a server of its own, and 6 s less in one slot than in two.
    """
    jar = os.environ["BEAM_TFRECORD_FLINK_JOB_SERVER"]
    (port,) = _free_ports(1)
    ports = (f"--job-port={port}", "--artifact-port=0", "--expansion-port=0")
    command = ["java", "-jar", jar, f"--flink-master={cluster.address}", *ports]
    quiet = subprocess.DEVNULL
    with subprocess.Popen(command, stdin=quiet, stdout=quiet, stderr=quiet) as server:
        try:
            wait_until(lambda: _answers(port), "the job server answers", 60)
            yield (
                "--runner=FlinkRunner",
                f"--job_endpoint=localhost:{port}",
                "--parallelism=1",
                "--execution_mode_for_batch=BATCH",
                *cluster.workers_options,
            )
        finally:
            server.kill()


def _answers(port: int) -> bool:
    with socket.socket() as a_socket:
        return a_socket.connect_ex(("localhost", port)) == 0


def wait_until(happens: Callable[[], Any], what: str, seconds: float) -> None:
    """Asks ten times a second; fails when it takes too long."""
    end = time.monotonic() + seconds
    while not happens():
        assert time.monotonic() < end, f"not within {seconds} s: {what}"
        time.sleep(0.1)


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for a_socket in sockets:
            a_socket.bind(("localhost", 0))
        return [a_socket.getsockname()[1] for a_socket in sockets]
