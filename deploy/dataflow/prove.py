"""Converts the same images on Dataflow and here, and compares bytes, time and resources; prove.sh starts it.

Everything it makes in the cloud bears one name, and is removed at the end, on errors and on Ctrl-C as well.
"""

from __future__ import annotations

import argparse
import os
import re
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any

from beam_pipeline.cli import EXIT_FAILED
from beam_pipeline.commands.demo import make_demo
from beam_pipeline.core.errors import ConversionError
from beam_pipeline.startup import EXIT_INTERRUPTED
from beam_pipeline.storage import files
from beam_pipeline.terminal import complain, say
from beam_pipeline.work.output_folder import read_manifest

MACHINE_TYPE, VCPUS = "e2-standard-4", 4
POLL_SECONDS, METRICS_SECONDS, CANCEL_SECONDS = 10.0, 300.0, 900.0  # metrics come minutes late
_ENDED = re.compile("JOB_STATE_(DONE|FAILED|CANCELLED|UPDATED|DRAINED)")


class Service:
    """Jobs of one name: https://cloud.google.com/dataflow/docs/reference/rest/v1b3/projects.locations.jobs."""

    def __init__(self, project: str, region: str, endpoint: str, name: str) -> None:
        import google.auth
        from google.auth.transport.requests import AuthorizedSession
        from requests.adapters import HTTPAdapter
        from urllib3.util import Retry

        scope = "https://www.googleapis.com/auth/cloud-platform"
        self._session = AuthorizedSession(google.auth.default(scopes=[scope])[0])
        retry = Retry(6, backoff_factor=1, status_forcelist=(429, 503), allowed_methods=None)
        self._session.mount(endpoint, HTTPAdapter(max_retries=retry))
        self._jobs = f"{endpoint.rstrip('/')}/v1b3/projects/{project}/locations/{region}/jobs"
        self._name = name

    def ask(self, method: str, path: str = "", **options: Any) -> dict[str, Any]:
        """Returns the answer to a request. Raises ConversionError."""
        try:
            answer = self._session.request(method, self._jobs + path, timeout=60, **options)
            answer.raise_for_status()
            return dict(answer.json())
        except (OSError, ValueError) as error:  # those of requests are OSErrors
            raise ConversionError(f"Dataflow's service does not answer: {error}") from error

    def jobs(self) -> list[dict[str, Any]]:
        """Returns the jobs of the name, ended or not."""
        answer = self.ask("GET", params={"name": self._name})
        return [job for job in answer.get("jobs", ()) if job["name"] == self._name]

    def metrics(self, job: str) -> dict[str, float]:
        """Returns the service's own metrics of a job once they no longer change."""
        end, before = time.monotonic() + METRICS_SECONDS, {}
        while True:
            metrics = {
                metric["name"]["name"]: float(metric["scalar"])
                for metric in self.ask("GET", f"/{job}/metrics").get("metrics", ())
                if metric["name"].get("origin") != "user"
                and isinstance(metric.get("scalar"), (int, float))
            }
            if (metrics.get("TotalVcpuTime") and metrics == before) or time.monotonic() > end:
                return metrics
            before = metrics
            time.sleep(POLL_SECONDS)

    def cancel(self) -> None:
        """Cancels the job if it runs, and waits for its end. Raises ConversionError."""
        end, asked = time.monotonic() + CANCEL_SECONDS, set()
        while active := [job["id"] for job in self.jobs() if not _ENDED.match(job["currentState"])]:
            if time.monotonic() > end:
                raise ConversionError(f"job {active[0]} has not ended yet")
            for job in set(active) - asked:
                say(f"Cancelling job {job}")
                self.ask("PUT", f"/{job}", json={"requestedState": "JOB_STATE_CANCELLED"})
            asked.update(active)
            time.sleep(POLL_SECONDS)


def usage(job: Mapping[str, Any], metrics: Mapping[str, float]) -> Iterator[str]:
    """Yields lines on the time and the resources that a job used, to compare with the plan's estimate.

    Args:
      job: the resource `projects.locations.jobs` of a job that has ended.
      metrics: vCPU seconds, MB seconds of memory and GB of shuffle, by their names.
    """
    began, ended = (
        datetime.fromisoformat(re.sub(r"(\.\d{6})?\d*Z$", r"\1+00:00", stamp)).timestamp()
        for stamp in (job.get("startTime") or job["createTime"], job["currentStateTime"])
    )
    yield f"  job time {ended - began:.0f} s"
    for name, divisor, unit in (
        ("TotalVcpuTime", 3600, "vCPU hours"),
        ("TotalMemoryUsage", 1024 * 3600, "GB hours of memory"),
        ("TotalShuffleDataProcessed", 1, "GB shuffled"),
        ("BillableShuffleDataProcessed", 1, "GB of shuffle billed"),
    ):
        yield f"  {metrics[name] / divisor:.6f} {unit}" if name in metrics else f"  no {name} yet"


def compare(here: str, there: str) -> None:
    """Compares two verified data sets by the checksums in their manifests.

    Raises:
      ConversionError: they differ; names the entries.
    """
    first, second = map(read_manifest, (here, there))
    names = ("classes", "counts", "dead_letters", "splits")
    if differing := [key for key in names if getattr(first, key) != getattr(second, key)]:
        raise ConversionError(f"the data sets differ in {', '.join(differing)}")
    say("", "The same bytes here and on Dataflow, by the checksums of every shard")


def prove(arguments: argparse.Namespace, further: Sequence[str], remote: str, here: str) -> None:
    """Converts here and on Dataflow, compares and reports. Raises ConversionError."""
    name = remote.rpartition("/")[2]
    service = Service(arguments.project, arguments.region, arguments.dataflow_endpoint, name)
    local, output = os.path.join(here, "tfrecords"), files.join(remote, "tfrecords")
    inputs, options = list(arguments.inputs), ["--name=proof", *further]
    on_dataflow = [
        "--runner=DataflowRunner",
        f"--dataflow_endpoint={arguments.dataflow_endpoint}",
        f"--job_name={name}",
        f"--project={arguments.project}",
        f"--region={arguments.region}",
        f"--temp_location={remote}/temp",
        f"--worker_machine_type={MACHINE_TYPE}",
        f"--num_workers={arguments.workers}",
        "--autoscaling_algorithm=NONE",
    ]
    try:
        if not inputs:
            demo = make_demo(os.path.join(here, "demo"), arguments.samples)
            copies = [(demo.labels, f"{remote}/labels.csv")]
            copies += [
                (entry.path, f"{remote}/images/{entry.name}") for entry in os.scandir(demo.images)
            ]
            with ThreadPoolExecutor(32) as pool:
                list(
                    pool.map(
                        lambda pair: files.write_bytes(pair[1], files.read_bytes(pair[0])), copies
                    )
                )
            inputs = [
                f"--images={remote}/images",
                f"--labels={remote}/labels.csv",
                "--num_shards=8",
            ]
        estimate = [f"--workers={arguments.workers}", f"--worker_vcpus={VCPUS}"]
        for title, argv in (
            ("Converting on this machine", ("convert", *inputs, f"--output={local}", *options)),
            ("Planning", ("plan", *inputs, f"--output={here}/planned", *options, *estimate)),
            (
                f"Converting on Dataflow, with {arguments.workers} x {MACHINE_TYPE}, in {remote}",
                ("convert", *inputs, f"--output={output}", *options, *on_dataflow),
            ),
            ("Verifying", ("verify", local)),
            ("Verifying", ("verify", output)),
        ):
            say("", title)
            beam_tfrecord(*argv)
        compare(local, output)
        (job,) = service.jobs()
        say("", "On Dataflow:", *usage(job, service.metrics(job["id"])))
    finally:
        _remove(service, remote)


def beam_tfrecord(*argv: str) -> None:
    """Runs a command in a process of its own, which a terminal's Ctrl-C ends. Raises ConversionError."""
    command = [sys.executable, "-m", "beam_pipeline", *argv]
    code = subprocess.run(command, check=False).returncode  # noqa: S603 -- this very package
    if code == EXIT_INTERRUPTED:
        raise KeyboardInterrupt
    if code:
        raise ConversionError(f"{argv[0]} ended with exit code {code}")


def _remove(service: Service, remote: str) -> None:
    """Ends the job and removes the folder in the bucket. Raises ConversionError, after it said what is left."""
    say("", f"Removing {remote}")
    try:
        service.cancel()
        files.delete_folder(remote)
        if left := files.list_folder(remote):
            raise ConversionError(f"{len(left)} objects could not be deleted")
    except (ConversionError, OSError) as error:
        name = remote.rpartition("/")[2]
        complain(
            "Remove by hand what is left:",
            f"  gcloud dataflow jobs list --status=active --filter=name={name}, and cancel it",
            f"  gcloud storage rm -r {remote}",
        )
        raise ConversionError(str(error)) from error


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def main(argv: Sequence[str]) -> int:
    """Runs a proof and removes what it made; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="deploy/dataflow/prove.sh",
        description="Converts the same images on Dataflow and on this machine, compares the bytes, prints time, "
        "vCPU hours and bytes shuffled beside what `plan` estimates, and removes what it made. Costs a few cents "
        "with the default set. Further options go to both conversions.",
        allow_abbrev=False,
    )
    parser.add_argument("project", help="project of Google Cloud that pays")
    parser.add_argument("region", help="region of the workers, best the bucket's")
    parser.add_argument("bucket", help="bucket, or a folder in it, as gs://...")
    for option in ("--images", "--labels"):
        parser.add_argument(option, help="gs://...; default: drawings, as of `demo`")
    parser.add_argument("--samples", type=int, default=1000, help="drawings (default: %(default)s)")
    parser.add_argument("--workers", type=int, default=1, help="default: %(default)s")
    parser.add_argument("--dataflow_endpoint", default="https://dataflow.googleapis.com")
    arguments, further = parser.parse_known_args(argv)
    given = {"--images": arguments.images, "--labels": arguments.labels}
    arguments.inputs = [f"{option}={uri}" for option, uri in given.items() if uri]
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    name = f"beam-tfrecord-proof-{secrets.token_hex(6)}"
    remote = f"gs://{arguments.bucket.removeprefix('gs://').strip('/')}/{name}"
    say(f"Everything this makes is called {name}, and is removed at the end")
    try:
        with tempfile.TemporaryDirectory(prefix=f"{name}-") as here:
            prove(arguments, further, remote, here)
        return 0
    except ConversionError as error:
        complain(f"prove.sh: error: {error}")
        return EXIT_FAILED
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
