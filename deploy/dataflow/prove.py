"""Converts the same images on Dataflow and here, and compares bytes, time and cost; prove.sh starts it.

Everything it makes in the cloud bears one name, and is removed at the end, on errors and on Ctrl-C as well.
"""

from __future__ import annotations

import argparse
import contextlib
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

from beam_pipeline.cli import EXIT_FAILED, EXIT_USAGE
from beam_pipeline.commands.demo import make_demo
from beam_pipeline.core.dataset.estimate import PRICE_LIST, Prices, parse_prices
from beam_pipeline.core.errors import ConversionError, UsageError
from beam_pipeline.core.uris import is_remote
from beam_pipeline.startup import EXIT_INTERRUPTED
from beam_pipeline.storage import files
from beam_pipeline.terminal import complain, say
from beam_pipeline.work.output_folder import read_manifest

PROGRAM = "deploy/dataflow/prove.sh"
MACHINE_TYPE, VCPUS = "e2-standard-4", 4
POLL_SECONDS, METRICS_SECONDS, CANCEL_SECONDS = (
    10.0,
    300.0,
    900.0,
)  # metrics come up to 3 minutes late
_ENDED = re.compile("JOB_STATE_(DONE|FAILED|CANCELLED|UPDATED|DRAINED)")
_CHOSEN = re.compile(
    r"--(autoscaling_algorithm|images|job_name|labels|(worker_)?machine_type|(max_)?num_workers|name|no_wait"
    r"|output|overwrite|project|region|resume|reuse|runner|(staging|temp|template)_location)(=.*)?"
)


class Service:
    """Jobs of one name: https://cloud.google.com/dataflow/docs/reference/rest/v1b3/projects.locations.jobs."""

    def __init__(self, project: str, region: str, endpoint: str, name: str) -> None:
        import google.auth
        from google.auth.transport.requests import AuthorizedSession
        from requests.adapters import HTTPAdapter
        from urllib3.util import Retry

        scope = "https://www.googleapis.com/auth/cloud-platform"
        self._session = AuthorizedSession(google.auth.default(scopes=[scope])[0])
        statuses = (429, 500, 502, 503, 504)
        retry = Retry(6, backoff_factor=1, status_forcelist=statuses, allowed_methods=None)
        for scheme in ("https://", "http://"):
            self._session.mount(scheme, HTTPAdapter(max_retries=retry))
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


def usage(job: Mapping[str, Any], metrics: Mapping[str, float], prices: Prices) -> Iterator[str]:
    """Yields lines on the time and the resources that a job used, to compare with the plan's estimate.

    Args:
      job: the resource `projects.locations.jobs` of a job that has ended.
      metrics: vCPU seconds, MB seconds of memory and GB of shuffle, by their names.
      prices: dollars for them.
    """
    began, ended = (
        datetime.fromisoformat(re.sub(r"(\.\d{6})?\d*Z$", r"\1+00:00", stamp)).timestamp()
        for stamp in (job.get("startTime") or job["createTime"], job["currentStateTime"])
    )
    yield f"  job time {ended - began:.0f} s"
    names = ("TotalVcpuTime", "TotalMemoryUsage", "TotalShuffleDataProcessed")
    if missing := [name for name in names if name not in metrics]:
        yield f"  the service did not report {', '.join(missing)}, so the cost is unknown"
        return
    vcpu, memory, shuffled = (metrics[name] for name in names)
    vcpu, memory = vcpu / 3600, memory / 1024 / 3600
    dollars = vcpu * prices.vcpu_hour + memory * prices.memory_gb_hour
    dollars += metrics.get("BillableShuffleDataProcessed", shuffled) * prices.shuffle_gb
    yield f"  {vcpu:.3f} vCPU hours, {memory:.3f} GB hours of memory, {shuffled:.6f} GB shuffled"
    yield f"  {dollars:.4f} USD, computed; disks, requests, network and discounts are not in it"


def compare(here: str, there: str) -> None:
    """Compares two verified data sets by the checksums in their manifests, and their class files.

    Raises:
      ConversionError: they differ; names the parts.
    """
    sets = []
    for folder in (here, there):
        names, manifest = set(files.sizes_in(folder)), read_manifest(folder)
        content = {key: manifest[key] for key in ("splits", "counts", "dead_letters")}
        for name in names & {"labels.txt", "label_map.pbtxt"}:
            content[name] = files.read_bytes(files.join(folder, name))
        sets.append(content)
    if differing := sorted(k for k in sets[0] | sets[1] if sets[0].get(k) != sets[1].get(k)):
        raise ConversionError(f"the data sets differ in {', '.join(differing)}")
    say("", "The same bytes here and on Dataflow, by the checksums of every shard")


def prove(arguments: argparse.Namespace, name: str, remote: str, here: str) -> None:
    """Converts here and on Dataflow, compares and reports.

    Raises:
      ConversionError: something failed, and why.
    """
    prices, estimate = Prices(), ["--workers", str(arguments.workers), "--worker_vcpus", str(VCPUS)]
    if arguments.prices:
        text = files.read_text(files.canonical(arguments.prices), f"--prices {arguments.prices}")
        prices = parse_prices(text, arguments.prices)
        estimate += ["--prices", arguments.prices]
    inputs, options = {"images": arguments.images, "labels": arguments.labels}, arguments.convert
    if not arguments.images:
        demo = make_demo(os.path.join(here, "demo"), arguments.samples)
        inputs, options = (
            {"images": demo.images, "labels": demo.labels},
            [*options, "--num_shards=8"],
        )
    local, output = os.path.join(here, "tfrecords"), files.join(remote, "tfrecords")
    say("", "Converting on this machine")
    _run("convert", local, inputs, options)
    say("", "Planning for Dataflow")
    _run("plan", os.path.join(here, "planned"), inputs, [*options, *estimate])
    say("", f"Converting on Dataflow, with {arguments.workers} x {MACHINE_TYPE}, in {remote}")
    service = Service(arguments.project, arguments.region, arguments.dataflow_endpoint, name)
    try:
        uploaded = {option: _uploaded(path, remote) for option, path in inputs.items() if path}
        workers = (f"--num_workers={arguments.workers}", f"--max_num_workers={arguments.workers}")
        where = (f"--project={arguments.project}", f"--region={arguments.region}")
        job_options = ["--runner=DataflowRunner", f"--job_name={name}", *where, *workers]
        job_options += [f"--temp_location={remote}/temp", f"--worker_machine_type={MACHINE_TYPE}"]
        job_options += ["--autoscaling_algorithm=NONE"]
        _run("convert", output, uploaded, [*options, *job_options])
        for folder in (local, output):
            _beam_tfrecord("verify", folder)
        compare(local, output)
        (job,) = service.jobs()
        say("", "On Dataflow:", *usage(job, service.metrics(job["id"]), prices))
    finally:
        _remove(service, remote)


def _run(command: str, output: str, inputs: Mapping[str, str], options: Sequence[str]) -> None:
    paths = [f"--{option}={path}" for option, path in inputs.items() if path]
    _beam_tfrecord(command, *paths, f"--output={output}", "--name=proof", *options)


def _beam_tfrecord(*argv: str) -> None:
    """Runs a command in a process of its own, which a terminal's Ctrl-C ends. Raises ConversionError."""
    command = [sys.executable, "-m", "beam_pipeline", *argv]
    code = subprocess.run(command, check=False).returncode  # noqa: S603 -- this very package
    if code == EXIT_INTERRUPTED:
        raise KeyboardInterrupt
    if code:
        raise ConversionError(f"{argv[0]} ended with exit code {code}")


def _uploaded(path: str, remote: str) -> str:
    """Copies a local file or folder to the bucket; returns its URI there."""
    if is_remote(path):
        return path
    target = files.join(remote, os.path.basename(path.rstrip("/")))
    copies = [(path, target)]
    if os.path.isdir(path):
        names = [entry.name for entry in files.list_files(path)]
        copies = [(os.path.join(path, name), files.join(target, name)) for name in names]
    with ThreadPoolExecutor(32) as pool:
        for _ in pool.map(
            lambda pair: files.write_bytes(pair[1], files.read_bytes(pair[0])), copies
        ):
            pass
    return target


def _remove(service: Service, remote: str) -> None:
    """Ends the job and removes the folder in the bucket, whatever happened before.

    Raises:
      ConversionError: something may be left, and how to remove it.
    """
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


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """Reads the command line; what follows `--` is in `convert`.

    Raises:
      UsageError: an option after `--` is one that a proof chooses itself.
    """
    own, _, further = "\0".join(argv).partition("\0--\0")
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        usage=f"{PROGRAM} PROJECT REGION BUCKET [OPTION ...] [-- OPTION OF CONVERT OR BEAM ...]",
        description="Converts the same images on Dataflow and on this machine, compares the bytes, prints time, "
        "vCPU hours, bytes shuffled and the computed cost beside what `plan` estimates, and removes what it "
        "made. Costs a few cents with the default set.",
        allow_abbrev=False,
    )
    parser.add_argument("project", metavar="PROJECT", help="project of Google Cloud that pays")
    parser.add_argument("region", metavar="REGION", help="region of the workers, best the bucket's")
    parser.add_argument("bucket", metavar="BUCKET", help="bucket, or a folder in it, as gs://...")
    parser.add_argument("--images", default="", help="local or gs://; default: the demo's drawings")
    parser.add_argument("--labels", default="", help="label file of --images; local or gs://")
    parser.add_argument("--samples", type=int, default=1000, help="drawings (default: %(default)s)")
    parser.add_argument(
        "--workers", type=int, default=1, help=f"{MACHINE_TYPE} (default: %(default)s)"
    )
    parser.add_argument("--prices", default="", help=f"JSON, as for `plan`; default: {PRICE_LIST}")
    arguments = parser.parse_args(own.split("\0"))
    arguments.convert = further.split("\0") if further else []
    if arguments.labels and not arguments.images:
        raise UsageError("--labels are those of --images, which is missing")
    if arguments.samples < 1 or arguments.workers < 1:
        raise UsageError("--samples and --workers must be at least 1")
    for token in arguments.convert:
        if chosen := _CHOSEN.fullmatch(token.replace("-", "_").replace("__", "--", 1)):
            raise UsageError(f"--{chosen[1]} is chosen by the proof itself")
    beam = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    beam.add_argument("--dataflow_endpoint", default="https://dataflow.googleapis.com")
    arguments.dataflow_endpoint = beam.parse_known_args(arguments.convert)[0].dataflow_endpoint
    return arguments


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def main(argv: Sequence[str]) -> int:
    """Runs a proof and removes what it made; returns the exit code."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    try:
        arguments = parse(argv)
        name = f"beam-tfrecord-proof-{secrets.token_hex(6)}"
        remote = f"gs://{arguments.bucket.removeprefix('gs://').strip('/')}/{name}"
        say(f"Everything this makes is called {name}, and is removed at the end")
        with tempfile.TemporaryDirectory(prefix=f"{name}-") as here:
            prove(arguments, name, remote, here)
        return 0
    except ConversionError as error:
        complain(f"{PROGRAM}: error: {error}")
        return EXIT_USAGE if isinstance(error, UsageError) else EXIT_FAILED
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):
        sys.exit(main(sys.argv[1:]))
