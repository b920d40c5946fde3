"""Converts the same images on Dataflow and here, and compares bytes, time and resources; prove.sh starts it.

Everything that it makes in the cloud has one name, and is removed at the end, also after an error or Ctrl-C.
"""

import argparse
import os
import re
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any

from beam_pipeline import cli, startup, terminal
from beam_pipeline.commands.demo import make_demo
from beam_pipeline.core.errors import ConversionError
from beam_pipeline.dataset import read_manifest
from beam_pipeline.storage import files

POLL_S, METRICS_S, CANCEL_S = 10.0, 300.0, 900.0  # metrics come minutes late
ENDED = re.compile("JOB_STATE_(DONE|FAILED|CANCELLED|UPDATED|DRAINED)")
UNITS = {
    "TotalVcpuTime": (3600, "vCPU hours"),
    "TotalMemoryUsage": (1024 * 3600, "GB hours of memory"),
    "TotalShuffleDataProcessed": (1, "GB shuffled"),
    "BillableShuffleDataProcessed": (1, "GB of shuffle billed"),
}


def requests_of(given: argparse.Namespace) -> Any:
    """Makes requests: https://cloud.google.com/dataflow/docs/reference/rest/v1b3/projects.locations.jobs."""
    from google.auth import default
    from google.auth.transport.requests import AuthorizedSession
    from requests.adapters import HTTPAdapter
    from urllib3.util import Retry

    session = AuthorizedSession(default(["https://www.googleapis.com/auth/cloud-platform"])[0])
    retry = Retry(6, backoff_factor=1, status_forcelist=(429, 503), allowed_methods=None)
    session.mount(given.dataflow_endpoint, HTTPAdapter(max_retries=retry))
    url = f"{given.dataflow_endpoint}/v1b3/projects/{given.project}/locations/{given.region}/jobs"

    def request(method: str, path: str = "", **options: Any) -> Any:
        answer = session.request(method, url + path, timeout=60, **options)
        answer.raise_for_status()
        return answer.json()

    return request


def job_of(request: Any, name: str) -> dict[str, Any]:
    """Returns the job of a name; empty without one."""
    jobs = request("GET", params={"name": name}).get("jobs", ())
    return next((job for job in jobs if job["name"] == name), {})


def metrics_of(request: Any, job_id: str) -> dict[str, float]:
    """Returns the service's own metrics of a job once they no longer change."""
    end, metrics = time.monotonic() + METRICS_S, {"": 0.0}
    while time.monotonic() < end:
        before, listed = metrics, request("GET", f"/{job_id}/metrics").get("metrics", ())
        own = [item for item in listed if item["name"].get("origin") != "user"]
        metrics = {item["name"]["name"]: item.get("scalar") for item in own}
        if metrics.get("TotalVcpuTime") and metrics == before:
            break
        time.sleep(POLL_S)
    return metrics


def usage(job: Mapping[str, Any], metrics: Mapping[str, float]) -> Iterator[str]:
    """Yields time and resources of a job that has ended, to compare with the plan's estimate."""
    began, ended = (
        datetime.fromisoformat(stamp[:19])  # whole seconds; up to 9 digits and a Z follow
        for stamp in (job.get("startTime") or job["createTime"], job["currentStateTime"])
    )
    yield f"  job time {(ended - began).total_seconds():.0f} s"
    for name, (divisor, unit) in UNITS.items():
        yield f"  {metrics[name] / divisor:.6f} {unit}" if name in metrics else f"  no {name} yet"


def compare(*folders: str) -> None:
    """Compares verified data sets by the checksums in their manifests. Raises ConversionError."""
    here, there = map(read_manifest, folders)
    names = ("classes", "counts", "dead_letters", "splits")
    if differing := [key for key in names if getattr(here, key) != getattr(there, key)]:
        raise ConversionError(f"the data sets differ in {', '.join(differing)}")
    terminal.say("", "The same bytes here and on Dataflow, by the checksums of every shard")


def beam_tfrecord(*argv: str) -> None:
    """Runs a command in another process, which a terminal's Ctrl-C ends. Raises ConversionError."""
    terminal.say("", " ".join(argv))
    done = subprocess.run([sys.executable, "-m", "beam_pipeline", *argv], check=False)  # noqa: S603
    if done.returncode:
        raise ConversionError(f"{argv[0]} ended with exit code {done.returncode}")


def prove(given: argparse.Namespace, inputs: list[str], remote: str, here: str) -> None:
    """Converts here and on Dataflow, and compares. Raises ConversionError."""
    if not any(option.startswith("--images") for option in inputs):
        demo, at_once = make_demo(f"{here}/demo", given.samples), ThreadPoolExecutor(32)
        (images,), (labels,) = demo.inputs.images, demo.inputs.labels
        copies = {f"{remote}/images/{name}": name for name in os.listdir(images)}
        sources = [os.path.join(images, name) for name in copies.values()]
        list(at_once.map(files.write_bytes, copies, map(files.read_bytes, sources)))
        files.write_bytes(f"{remote}/labels.csv", files.read_bytes(labels))
        drawn = (f"--images={remote}/images", f"--labels={remote}/labels.csv", "--num_shards=8")
        inputs = [*drawn, *inputs]
    job = ("project", "region", "dataflow_endpoint")
    there = ["--runner=DataflowRunner", *(f"--{name}={getattr(given, name)}" for name in job)]
    there += [f"--job_name={remote.rpartition('/')[2]}", f"--temp_location={remote}/temp"]
    there += ["--worker_machine_type=e2-standard-4", f"--num_workers={given.workers}"]
    inputs = ["--name=proof", *inputs]
    beam_tfrecord("convert", f"--output={here}/set", *inputs)
    beam_tfrecord("plan", f"--output={here}/plan", f"--workers={given.workers}", *inputs)
    beam_tfrecord(
        "convert", f"--output={remote}/set", "--autoscaling_algorithm=NONE", *there, *inputs
    )
    for folder in (here, remote):
        beam_tfrecord("verify", f"{folder}/set")
    compare(f"{here}/set", f"{remote}/set")


def remove(request: Any, remote: str) -> None:
    """Ends the job and removes the folder. Raises ConversionError, after it said what is left."""
    name, end, asked = remote.rpartition("/")[2], time.monotonic() + CANCEL_S, False
    terminal.say("", f"Removing {remote}")
    try:
        while (job := job_of(request, name)) and not ENDED.match(job["currentState"]):
            if not asked:
                terminal.say(f"Cancelling job {job['id']}")
                request("PUT", f"/{job['id']}", json={"requestedState": "JOB_STATE_CANCELLED"})
            elif time.monotonic() > end:
                raise ConversionError(f"job {job['id']} has not ended yet")
            asked = True
            time.sleep(POLL_S)
        files.delete_folder(remote)
        if left := files.list_folder(remote):
            raise ConversionError(f"{len(left)} objects could not be deleted")
    except (ConversionError, OSError) as error:
        terminal.complain(
            "Remove by hand what is left:",
            f"  gcloud dataflow jobs list --status=active --filter=name={name}, and cancel it",
            f"  gcloud storage rm -r {remote}",
        )
        raise ConversionError(str(error)) from error


def main() -> int:
    """Runs a proof and removes what it made; returns the exit code."""
    syntax = "prove.sh PROJECT REGION BUCKET [--samples N] [--workers N] [OPTION OF convert ...]"
    parser = argparse.ArgumentParser(usage=syntax, description=__doc__, allow_abbrev=False)
    for name in ("project", "region", "bucket"):
        parser.add_argument(name)
    parser.add_argument("--samples", type=int, default=1000, help="drawings without --images")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--dataflow_endpoint", default="https://dataflow.googleapis.com")
    given, inputs = parser.parse_known_args()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    name = f"beam-tfrecord-proof-{secrets.token_hex(6)}"
    remote = f"gs://{given.bucket.removeprefix('gs://').strip('/')}/{name}"
    terminal.say(f"Everything this makes is called {name}, and is removed at the end")
    try:
        request = requests_of(given)
        try:
            with tempfile.TemporaryDirectory(prefix=f"{name}-") as here:
                prove(given, inputs, remote, here)
            job = job_of(request, name)
            terminal.say("", "On Dataflow:", *usage(job, metrics_of(request, job["id"])))
        finally:
            remove(request, remote)
    except (ConversionError, OSError) as error:
        terminal.complain(f"prove.sh: error: {error}")
        return cli.EXIT_FAILED
    except KeyboardInterrupt:
        return startup.EXIT_INTERRUPTED
    return 0


if __name__ == "__main__":
    sys.exit(main())
