"""Jobs on Apache Flink.

`--runner=FlinkRunner` runs Flink inside Beam's job server, with workers in this process, which
report progress. `--flink_master=HOST:PORT` sends the job to a cluster, after asking it for its
version and slots. Its workers report nothing while the job runs; Flink's own web pages show the
progress.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import os
import re
import secrets
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from apache_beam.options.pipeline_options import (
    FlinkRunnerOptions,
    GoogleCloudOptions,
    JobServerOptions,
    PipelineOptions,
    PortableOptions,
)

from beam_pipeline.config import ConvertConfig
from beam_pipeline.engines.base import Build, Engine
from beam_pipeline.engines.cached_options import CachedOptions
from beam_pipeline.terminal import say
from beam_pipeline.transforms.core.errors import ConversionError, UsageError
from beam_pipeline.transforms.core.failures import FailurePolicy

RUNNER = "FlinkRunner"
WORKER_POOL_PORT = 50_000
_INSIDE = "[local]"
_TESTED_VERSION = "1.19"
_ANSWER_SECONDS = 10
_DATA_PLANE = "apache_beam.runners.worker.data_plane"


class FlinkBatchOptions(PipelineOptions):
    """An option of Beam's Java runner, which Beam's Python code only learns from the job server."""

    @classmethod
    def _add_argparse_args(cls, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--execution_mode_for_batch")


class FlinkEngine(Engine):
    """Flink. A job ends with this program, which reads refusals from the output folder."""

    failures = FailurePolicy(raises_refusals=False)

    def __init__(self, name: str, argv: Sequence[str], *, wait: bool = True) -> None:
        """See `Engine`."""
        super().__init__(name, argv, wait=wait)
        self._argv = argv

    def prepare(self, config: ConvertConfig) -> None:
        """See `Engine`; asks the cluster for its version and slots."""
        self.options = CachedOptions(with_defaults(self._argv))

    def run(self, build: Build) -> None:
        """See `Engine`.

        Raises:
          ConversionError: the job failed.
        """
        logging.getLogger().addFilter(_is_not_raised)
        # Not removed: workers in this process may lose the job server after the job has ended.
        logging.getLogger(_DATA_PLANE).addFilter(_is_not_raised)
        try:
            super().run(build)
        except RuntimeError as error:
            raise _failure(error, self.options) from error
        finally:
            logging.getLogger().removeFilter(_is_not_raised)

    def interrupt(self) -> str:
        """See `Engine`; cancels the job on its cluster."""
        _cancel(self.options)
        return super().interrupt()


@dataclass(frozen=True)
class Cluster:
    """A Flink cluster.

    Attributes:
      version: version of Flink, such as "1.19".
      task_managers: number of TaskManagers.
      slots: number of slots of all TaskManagers together.
      restarts: True if the cluster retries failed or lost work.
    """

    version: str
    task_managers: int
    slots: int
    restarts: bool


def with_defaults(argv: Sequence[str]) -> list[str]:
    """Returns Beam's options, with defaults for a job on Flink.

    Raises:
      UsageError: the job cannot run; the message gives the reason.
    """
    options = PipelineOptions(list(argv))
    if options.view_as(PortableOptions).job_endpoint:
        return list(argv)
    _check_java(options)
    master = options.view_as(FlinkRunnerOptions).flink_master
    named = {token.partition("=")[0] for token in argv}
    if master in ("[auto]", _INSIDE):
        defaults = {"--flink_master": _INSIDE}
        if _TESTED_VERSION in FlinkRunnerOptions.PUBLISHED_FLINK_VERSIONS:
            defaults["--flink_version"] = _TESTED_VERSION
    else:
        cluster = ask_cluster(master)
        if not cluster.restarts:
            say(
                "Note: this cluster has no restart strategy, so a TaskManager that is lost ends the job "
                "(run it again with --resume); set restart-strategy.type in its configuration"
            )
        defaults = _cluster_defaults(cluster, named)
    return [*argv, *(f"{k}={v}" for k, v in defaults.items() if k not in named)]


def _cluster_defaults(cluster: Cluster, named: set[str]) -> dict[str, Any]:
    defaults: dict[str, Any] = {
        "--job_name": f"beam-tfrecord-{secrets.token_hex(4)}",
        "--parallelism": cluster.slots,
        # Data between steps is kept on disk, so that if a TaskManager is lost, only its part is repeated,
        # in the remaining slots.
        "--execution_mode_for_batch": "BATCH",
    }
    if "--flink_job_server_jar" not in named:
        defaults["--flink_version"] = cluster.version
        published = FlinkRunnerOptions.PUBLISHED_FLINK_VERSIONS
        if "--flink_version" not in named and cluster.version not in published:
            raise UsageError(
                f"the cluster runs Flink {cluster.version}, for which this version of Beam has no job "
                f"server; it has them for {', '.join(published)}. Name one by --flink_job_server_jar"
            )
    if "--environment_type" not in named:
        defaults["--environment_type"] = "EXTERNAL"
        defaults["--environment_config"] = f"localhost:{WORKER_POOL_PORT}"
        defaults["--sdk_worker_parallelism"] = -(-cluster.slots // cluster.task_managers)
    return defaults


def _check_java(options: PipelineOptions) -> None:
    java = options.view_as(JobServerOptions).job_server_java_launcher
    if not shutil.which(java):
        raise UsageError(
            f"--runner={RUNNER} needs Java on this machine, for Beam's job server; found no {java!r} in "
            "the path. Install Java 11 or 17"
        )
    jar = options.view_as(FlinkRunnerOptions).flink_job_server_jar
    if jar and "://" not in jar and not os.path.isfile(jar):
        raise UsageError(f"--flink_job_server_jar={jar}: the file does not exist")


def ask_cluster(master: str) -> Cluster:
    """Asks a cluster for its version, TaskManagers and slots.

    Args:
      master: HOST:PORT of its JobManager's REST interface, or a URL.

    Raises:
      UsageError: no Flink answers there, or it has no TaskManager.
    """
    try:
        overview = _rest(master, "overview")
        settings = {entry["key"]: entry["value"] for entry in _rest(master, "jobmanager/config")}
        strategy = settings.get("restart-strategy.type", settings.get("restart-strategy", "none"))
        cluster = Cluster(
            version=".".join(overview["flink-version"].split(".")[:2]),
            task_managers=overview["taskmanagers"],
            slots=overview["slots-total"],
            restarts=strategy not in ("none", "off", "disable"),
        )
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise UsageError(
            f"--flink_master={master}: no JobManager of Flink answers there ({error}). Give the host "
            "and port of its REST interface, such as localhost:8081"
        ) from error
    if not cluster.slots:
        raise UsageError(
            f"--flink_master={master}: the cluster has no TaskManager with slots; start some"
        )
    return cluster


def _rest(master: str, path: str, method: str = "GET") -> Any:
    import urllib.request  # jobs on this machine do not need it

    url = master.strip().rstrip("/")
    if not re.match("https?://", url):
        url = f"http://{url}"
    request = urllib.request.Request(f"{url}/{path}", method=method)  # noqa: S310 -- given by the user
    with urllib.request.urlopen(request, timeout=_ANSWER_SECONDS) as answer:  # noqa: S310
        return json.load(answer)


def _is_not_raised(record: logging.LogRecord) -> bool:
    """False for Beam's logs of a failure that it also raises, or of the end of a connection."""
    return record.module not in ("portable_runner", "data_plane")


def _cancel(options: PipelineOptions) -> None:
    master = options.view_as(FlinkRunnerOptions).flink_master
    name = options.view_as(GoogleCloudOptions).job_name
    if master == _INSIDE or not name:
        return
    with contextlib.suppress(
        OSError, ValueError, LookupError
    ):  # then it goes on; nothing can be done
        for job in _rest(master, "jobs/overview")["jobs"]:
            if job["name"] == name:
                _rest(master, f"jobs/{job['jid']}?mode=cancel", "PATCH")


def _failure(error: RuntimeError, options: PipelineOptions) -> ConversionError:
    """Returns the last cause in Beam's error, whose text holds stack traces of Java and Python."""
    text = str(error).strip() or repr(error)
    told = re.match(r"Pipeline \S+ failed in state \w+: ", text)
    if told is None:
        jar = options.view_as(FlinkRunnerOptions).flink_job_server_jar
        hint = (
            f"`java -jar {jar}` shows why"
            if jar
            else "--flink_job_server_jar names one that is here"
        )
        port = options.view_as(JobServerOptions).job_port
        if port and "failed to start up" in text:
            hint = f"--job_port={port} may be taken; leave the option out, and a free port is found"
        return ConversionError(f"Beam's job server for Flink did not start: {text}; {hint}")
    reason = text[told.end() :].splitlines()[-1]
    portable = options.view_as(PortableOptions)
    if "ConnectException" in text and portable.environment_type == "EXTERNAL":
        return ConversionError(
            f"a TaskManager found no pool of workers at {portable.environment_config} "
            f"({reason}). Start one beside each TaskManager, "
            "`python -m beam_pipeline.engines.worker_pool`, in an environment that beam-tfrecord is installed in"
        )
    return ConversionError(
        f"the job failed on Flink: {reason}. The logs of its TaskManagers and workers have the rest"
    )
