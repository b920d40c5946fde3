"""Jobs on Apache Flink.

`--runner=FlinkRunner` runs Flink inside Beam's job server, with workers in this process, which
report progress. `--flink_master=HOST:PORT` sends the job to a cluster, after asking it for its
version, its slots and its jobs. Its workers report nothing while the job runs; Flink's own web
pages show the progress. A job there continues when this program is killed. Its name depends on the output
folder, so the next start finds it.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shutil
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from apache_beam.options.pipeline_options import (
    FlinkRunnerOptions,
    GoogleCloudOptions,
    JobServerOptions,
    PipelineOptions,
    PortableOptions,
)
from apache_beam.runners.runner import PipelineResult, PipelineState

from beam_pipeline import beam_patches, terminal
from beam_pipeline.config import ConvertConfig
from beam_pipeline.core import errors
from beam_pipeline.engines.base import Build, CachedOptions, Engine, job_name

RUNNER = "FlinkRunner"
WORKER_POOL_PORT = 50_000
_INSIDE = "[local]"
_TESTED_VERSION = "1.19"
_ANSWER_SECONDS = 10
_POLL_SECONDS = 0.5
_ENDED = frozenset({"FINISHED", "FAILED", "CANCELED"})


class FlinkBatchOptions(PipelineOptions):
    """An option of the Java runner that Beam's Python code does not know."""

    @classmethod
    def _add_argparse_args(cls, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--execution_mode_for_batch")


class FlinkEngine(Engine):
    """Flink. A job ends with this program, unless a cluster runs it and `--no_wait` is given."""

    # The launcher reads refusals from the output folder.
    failures = errors.FailurePolicy(raises_refusals=False)
    patches = (*beam_patches.EVERY_ENGINE, beam_patches.silent_connections)

    def __init__(self, name: str, argv: Sequence[str], *, wait: bool = True) -> None:
        """See `Engine`."""
        options = PipelineOptions(list(argv))
        loopback = options.view_as(PortableOptions).environment_type == "LOOPBACK"
        self.outlives_launcher = bool(_master(options)) and not loopback
        super().__init__(name, argv, wait=wait)
        if not wait:
            self.failures = errors.DEFAULT_POLICY
        self._argv = argv
        self._is_ours = False  # a job of this name, if there is one

    def prepare(self, config: ConvertConfig) -> None:
        """See `Engine`; asks the cluster for its version, slots and jobs.

        Raises:
          AnotherJobError: a job on the cluster writes to the same folder.
        """
        if not self.waits and config.options.engine.writers:
            raise errors.UsageError(
                "--writers is for processes of this machine, which end with this command; leave it out "
                "with --no_wait"
            )
        self.options = CachedOptions(with_defaults(self._argv, job_name(config)))
        name = self.options.view_as(GoogleCloudOptions).job_name
        does = (
            f"writes to {config.output}"
            if name == job_name(config)
            else f"has the --job_name {name}, too"
        )
        for job in self._jobs():
            raise errors.AnotherJobError(
                f"job {job.id} is still running at {job.url}, and {does}. Wait for its "
                f"end, or cancel it: curl -X PATCH {job.url}. Then --resume continues from its shards"
            )
        self._is_ours = True

    def _jobs(self, *, ended: bool = False) -> list[FlinkJob]:
        """The jobs of this name on the cluster, the newest last; by default those that have not ended."""
        master, name = _master(self.options), self.options.view_as(GoogleCloudOptions).job_name
        jobs = jobs_of(master, name) if master else []
        return [job for job in jobs if ended or job.active]

    def run(self, build: Build) -> None:
        """See `Engine`.

        Raises:
          ConversionError: the job failed.
        """
        try:
            super().run(build)
        except RuntimeError as error:
            raise _failure(error, self.options) from error

    def wait_for(self, result: PipelineResult) -> None:
        """See `Engine`; with `--no_wait`, waits until the cluster has the job."""
        if self.waits:
            super().wait_for(result)
            return
        jobs: list[FlinkJob] = []
        while not jobs:
            if PipelineState.is_terminal(result.state):
                super().wait_for(result)  # raises the reason if it failed
                jobs = self._jobs(ended=True)[-1:]
                break
            time.sleep(_POLL_SECONDS)
            with contextlib.suppress(OSError, ValueError, LookupError):  # the next answer may come
                jobs = self._jobs()
        for job in jobs:
            terminal.say(f"Job {job.id}", job.url)

    def interrupt(self) -> str:
        """See `Engine`; cancels the job on its cluster."""
        with contextlib.suppress(OSError, ValueError, LookupError):
            for job in (
                self._jobs() if self._is_ours else ()
            ):  # if it cannot be cancelled, it continues
                _rest(_master(self.options), f"jobs/{job.id}", "PATCH")
        return super().interrupt()


class FlinkJob(NamedTuple):
    """A job on a cluster.

    Attributes:
      id: its id, given by Flink.
      url: the job in Flink's REST interface. Its page has an address that is never shown whole.
      active: False if it has ended.
    """

    id: str
    url: str
    active: bool


def jobs_of(master: str, name: str) -> list[FlinkJob]:
    """Returns the jobs of a name on a cluster, the newest last.

    Args:
      master: HOST:PORT of its JobManager's REST interface, or a URL.
      name: the name.

    Raises:
      OSError: the cluster does not answer.
    """
    jobs = sorted(_rest(master, "jobs/overview")["jobs"], key=lambda job: job["start-time"])
    url = f"{_rest_url(master)}/jobs"
    return [
        FlinkJob(job["jid"], f"{url}/{job['jid']}", active=job["state"] not in _ENDED)
        for job in jobs
        if job["name"] == name
    ]


def _master(options: PipelineOptions) -> str:
    """The address of the cluster's REST interface; empty without one, or if it is unknown."""
    if options.view_as(PortableOptions).job_endpoint:
        return ""
    master: str = options.view_as(FlinkRunnerOptions).flink_master
    return "" if master in ("[auto]", _INSIDE) else master


class Cluster(NamedTuple):
    """A Flink cluster.

    Attributes:
      version: version of Flink, such as "1.19".
      task_managers: number of TaskManagers.
      slots: number of slots of all TaskManagers together.
    """

    version: str
    task_managers: int
    slots: int


def with_defaults(argv: Sequence[str], name: str = "") -> list[str]:
    """Returns Beam's options, with defaults for a job on Flink.

    Args:
      argv: Beam's options, as given.
      name: of the job on a cluster.

    Raises:
      UsageError: the job cannot run; the message gives the reason.
    """
    options = PipelineOptions(list(argv))
    if options.view_as(PortableOptions).job_endpoint:
        return list(argv)
    java = options.view_as(JobServerOptions).job_server_java_launcher
    if not shutil.which(java):
        raise errors.UsageError(
            f"--runner={RUNNER} needs Java on this machine, for Beam's job server; found no {java!r} in "
            "the path. Install Java 11 or 17"
        )
    jar = options.view_as(FlinkRunnerOptions).flink_job_server_jar
    if jar and "://" not in jar and not os.path.isfile(jar):
        raise errors.UsageError(f"--flink_job_server_jar={jar}: the file does not exist")
    master = options.view_as(FlinkRunnerOptions).flink_master
    named = {token.partition("=")[0] for token in argv}
    if master in ("[auto]", _INSIDE):
        defaults = {"--flink_master": _INSIDE}
        if _TESTED_VERSION in FlinkRunnerOptions.PUBLISHED_FLINK_VERSIONS:
            defaults["--flink_version"] = _TESTED_VERSION
    else:
        cluster = ask_cluster(master)
        defaults = {**_cluster_defaults(cluster, named), "--job_name": name}
    return [*argv, *(f"{k}={v}" for k, v in defaults.items() if k not in named)]


def _cluster_defaults(cluster: Cluster, named: set[str]) -> dict[str, Any]:
    defaults: dict[str, Any] = {
        "--parallelism": cluster.slots,
        # Data between steps is kept on disk, so that if a TaskManager is lost, only its part is repeated,
        # in the remaining slots.
        "--execution_mode_for_batch": "BATCH",
    }
    if "--flink_job_server_jar" not in named:
        defaults["--flink_version"] = cluster.version
        published = FlinkRunnerOptions.PUBLISHED_FLINK_VERSIONS
        if "--flink_version" not in named and cluster.version not in published:
            raise errors.UsageError(
                f"the cluster runs Flink {cluster.version}, and this version of Beam lacks a job "
                f"server; it has them for {', '.join(published)}. Name one by --flink_job_server_jar"
            )
    if "--environment_type" not in named:
        defaults["--environment_type"] = "EXTERNAL"
        defaults["--environment_config"] = f"localhost:{WORKER_POOL_PORT}"
        defaults["--sdk_worker_parallelism"] = -(-cluster.slots // cluster.task_managers)
    return defaults


def ask_cluster(master: str) -> Cluster:
    """Asks a cluster for its version, TaskManagers and slots.

    Args:
      master: HOST:PORT of its JobManager's REST interface, or a URL.

    Raises:
      UsageError: no Flink answers there, or it has no TaskManager.
    """
    try:
        overview = _rest(master, "overview")
        cluster = Cluster(
            version=".".join(overview["flink-version"].split(".")[:2]),
            task_managers=overview["taskmanagers"],
            slots=overview["slots-total"],
        )
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise errors.UsageError(
            f"--flink_master={master}: no JobManager of Flink answers there ({error}). Give the host "
            "and port of its REST interface, such as localhost:8081"
        ) from error
    if not cluster.slots:
        raise errors.UsageError(
            f"--flink_master={master}: the cluster has no TaskManager with slots; start some"
        )
    return cluster


def _rest(master: str, path: str, method: str = "GET") -> Any:
    import urllib.request  # jobs on this machine do not need it

    url = f"{_rest_url(master)}/{path}"
    request = urllib.request.Request(url, method=method)  # noqa: S310 -- given by the user
    with urllib.request.urlopen(request, timeout=_ANSWER_SECONDS) as answer:  # noqa: S310
        return json.load(answer)


def _rest_url(master: str) -> str:
    url = master.strip().rstrip("/")
    return url if re.match("https?://", url) else f"http://{url}"


def _failure(error: RuntimeError, options: PipelineOptions) -> errors.ConversionError:
    """Returns the last cause in Beam's error, whose text contains stack traces of Java and Python."""
    text = str(error).strip() or repr(error)
    prefix = re.match(r"Pipeline \S+ failed in state \w+: ", text)
    if prefix is None:
        jar = options.view_as(FlinkRunnerOptions).flink_job_server_jar
        hint = f"`java -jar {jar}` shows why" if jar else "--flink_job_server_jar names a file"
        return errors.ConversionError(
            f"Beam's job server for Flink did not start: {text}; {hint}. A --job_port may be taken"
        )
    reason = text[prefix.end() :].splitlines()[-1]
    portable = options.view_as(PortableOptions)
    if "ConnectException" in text and portable.environment_type == "EXTERNAL":
        return errors.ConversionError(
            f"a TaskManager found no pool of workers at {portable.environment_config} "
            f"({reason}). Start one beside each TaskManager, "
            "`python -m beam_pipeline.engines.worker_pool`, in an environment that beam-tfrecord is installed in"
        )
    ids: tuple[str, ...] = ()
    if master := _master(options):
        try:
            _rest(master, "overview")
        except (OSError, ValueError):
            ids = (errors.OUTAGE,)
    return errors.ConversionError(
        f"the job failed on Flink: {reason}. The logs of its TaskManagers and workers have the rest",
        ids,
    )
