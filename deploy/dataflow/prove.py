"""Converts one set of images on Dataflow and here, and compares bytes, time and cost; prove.sh starts it.

Two processes do this. The outer one chooses one name for everything that will be made: a folder in the
bucket, a job, a folder here. It starts the inner one, which does the work, and removes whatever bears
that name, however the inner one ended.
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
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from beam_pipeline.cli import EXIT_DONE, EXIT_FAILED, EXIT_USAGE
from beam_pipeline.core.dataset.estimate import (
    GB,
    PRICE_LIST,
    Machines,
    Prices,
    Work,
    estimate,
    parse_prices,
)
from beam_pipeline.core.dataset.manifest import shard_paths
from beam_pipeline.core.errors import ConversionError, UsageError
from beam_pipeline.core.text import counted
from beam_pipeline.core.uris import is_remote
from beam_pipeline.startup import EXIT_INTERRUPTED
from beam_pipeline.storage import files
from beam_pipeline.terminal import complain, say
from beam_pipeline.work.output_folder import read_manifest

PROGRAM = "deploy/dataflow/prove.sh"
ENDPOINT = "https://dataflow.googleapis.com"
MACHINE_TYPE, VCPUS, MEMORY_GB = "e2-standard-4", 4, 16.0

METRICS_EVERY_S = 10.0
METRICS_SECONDS = 300.0
"""Metrics arrive up to three minutes after the end of a job."""

CANCEL_EVERY_S = 5.0
CANCEL_SECONDS = 900.0
_ENDING_SECONDS = 60  # of the inner process, after Ctrl-C

_UPLOADS_AT_ONCE = 32
_CHUNK_BYTES = 1 << 20  # 1 MiB
_TERMINAL = frozenset(
    f"JOB_STATE_{state}" for state in ("DONE", "FAILED", "CANCELLED", "UPDATED", "DRAINED")
)
_MARK = "remote"  # a file in the local folder: from here on there may be something in the cloud
_CHOSEN = re.compile(
    r"--(autoscaling_algorithm|images|job_name|labels|(worker_)?machine_type|(max_)?num_workers|name|no_wait"
    r"|output|overwrite|project|region|resume|reuse|runner|(staging|temp|template)_location)(=.*)?"
)
"""Options that a proof chooses itself."""


class Made(NamedTuple):
    """What a proof makes.

    Attributes:
      name: of the job, and part of the other names.
      remote: the folder in the bucket.
      here: the folder on this machine.
    """

    name: str
    remote: str
    here: str


@dataclass(frozen=True)
class Usage:
    """Resources that a job used, or would use. None where that is not known.

    Attributes:
      seconds: from its start to its end.
      vcpu_hours: of all workers.
      memory_gb_hours: of all workers.
      shuffle_bytes: that Dataflow's shuffle processed.
      billed_bytes: those of them that are billed.
    """

    seconds: float | None
    vcpu_hours: float | None
    memory_gb_hours: float | None
    shuffle_bytes: float | None
    billed_bytes: float | None


def usage_of(job: Mapping[str, Any], metrics: Mapping[str, float]) -> Usage:
    """Reads the usage of a job that has ended.

    Args:
      job: the resource `projects.locations.jobs`.
      metrics: name -> value of the service's metrics. Their original names (`cpu_num_seconds`,
        `mem_mb_seconds`, `shuffle_service_actual_gb`) give the units.
    """
    began, ended = job.get("startTime") or job.get("createTime"), job.get("currentStateTime")
    cpu, memory = metrics.get("TotalVcpuTime"), metrics.get("TotalMemoryUsage")
    shuffled = metrics.get("TotalShuffleDataProcessed")
    billed = metrics.get("BillableShuffleDataProcessed", shuffled)
    return Usage(
        seconds=_time(ended) - _time(began) if began and ended else None,
        vcpu_hours=None if cpu is None else cpu / 3600,
        memory_gb_hours=None if memory is None else memory / 1024 / 3600,
        shuffle_bytes=None if shuffled is None else shuffled * GB,
        billed_bytes=None if billed is None else billed * GB,
    )


def _time(stamp: str) -> float:
    """Seconds of a time such as 2026-01-01T00:00:00.123456789Z."""
    whole, _, fraction = stamp.rstrip("Z").partition(".")
    return datetime.fromisoformat(f"{whole}+00:00").timestamp() + float(f"0.{fraction or 0}")


def planned_usage(work: Work, machines: Machines, prices: Prices) -> Usage:
    """The usage that `plan` estimates."""
    found = estimate(work, machines, prices)
    return Usage(
        seconds=found.seconds,
        vcpu_hours=found.vcpu_hours,
        memory_gb_hours=found.vcpu_hours / machines.vcpus * machines.memory_gb,
        shuffle_bytes=found.shuffle_bytes,
        billed_bytes=found.shuffle_bytes,
    )


def cost_of(usage: Usage, prices: Prices) -> float | None:
    """Dollars for vCPUs, memory and shuffle; None if one of them is not known."""
    known = (usage.vcpu_hours, usage.memory_gb_hours, usage.billed_bytes)
    if None in known:
        return None
    cpu, memory, billed = known
    assert cpu is not None
    assert memory is not None
    assert billed is not None
    return cpu * prices.vcpu_hour + memory * prices.memory_gb_hour + billed / GB * prices.shuffle_gb


def table(job: Usage, plan: Usage, prices: Prices) -> Iterator[str]:
    """Yields the lines that compare a job with its plan."""
    from beam_pipeline.progress_bar import human_size

    def size(count: float) -> str:
        return human_size(round(count))

    rows = [
        ("job time", job.seconds, plan.seconds, "{:.0f} s".format),
        ("vCPU hours", job.vcpu_hours, plan.vcpu_hours, "{:.3f}".format),
        ("memory, GB hours", job.memory_gb_hours, plan.memory_gb_hours, "{:.3f}".format),
        ("shuffled", job.shuffle_bytes, plan.shuffle_bytes, size),
        ("cost, computed", cost_of(job, prices), cost_of(plan, prices), "{:.4f} USD".format),
    ]
    yield f"  {'':<18}{'Dataflow':>14}{'plan':>14}"
    for name, found, planned, shown in rows:
        told = ["not reported" if one is None else shown(one) for one in (found, planned)]
        yield f"  {name:<18}{told[0]:>14}{told[1]:>14}"


def price_lines(prices: Prices, file: str, region: str) -> Iterator[str]:
    """Yields the lines that say how the cost was computed."""
    yield (
        f"The cost is computed, not billed: vCPU hours x {prices.vcpu_hour}, memory x "
        f"{prices.memory_gb_hour}, billed shuffle in GB x {prices.shuffle_gb} USD, with the prices of "
        f"{file or PRICE_LIST}. Disks, requests, network and discounts are not in it."
    )
    if not file and not PRICE_LIST.startswith(f"{region},"):
        yield f"Prices in {region} may differ; --prices names a JSON file with others (docs/planning.md)."


# --- Dataflow's REST interface ---------------------------------------------------------------------


class Service:
    """Jobs of a project in a region, by Dataflow's REST interface.

    https://cloud.google.com/dataflow/docs/reference/rest/v1b3/projects.locations.jobs
    """

    def __init__(self, project: str, region: str, endpoint: str) -> None:
        """Finds the credentials; asks nothing yet."""
        import google.auth
        from google.auth.transport.requests import AuthorizedSession
        from requests.adapters import HTTPAdapter
        from urllib3.util import Retry

        scope = "https://www.googleapis.com/auth/cloud-platform"
        self._session = AuthorizedSession(google.auth.default(scopes=[scope])[0])
        retried = Retry(
            total=6,
            backoff_factor=1,
            status_forcelist=(429, 500, 502, 503, 504),
            allowed_methods=None,
        )
        for scheme in ("https://", "http://"):
            self._session.mount(scheme, HTTPAdapter(max_retries=retried))
        self._jobs = f"{endpoint.rstrip('/')}/v1b3/projects/{project}/locations/{region}/jobs"

    def _ask(self, method: str, path: str = "", **options: Any) -> dict[str, Any]:
        from google.auth.exceptions import GoogleAuthError
        from requests.exceptions import RequestException

        try:
            answer = self._session.request(method, self._jobs + path, timeout=60, **options)
            answer.raise_for_status()
            found: dict[str, Any] = answer.json()
            return found
        except (RequestException, GoogleAuthError, ValueError) as error:
            raise ConversionError(f"Dataflow's service does not answer: {error}") from error

    def jobs(self, name: str) -> list[dict[str, Any]]:
        """Returns the jobs of a name, ended or not. Raises ConversionError."""
        found: list[dict[str, Any]] = []
        page = ""
        while True:
            answer = self._ask("GET", params={"name": name, "pageToken": page})
            found += (job for job in answer.get("jobs", ()) if job["name"] == name)
            page = answer.get("nextPageToken", "")
            if not page:
                return found

    def metrics(self, job_id: str) -> dict[str, float]:
        """Returns name -> value of the metrics that the service measures. Raises ConversionError."""
        answer = self._ask("GET", f"/{job_id}/metrics")
        return {
            one["name"]["name"]: float(one["scalar"])
            for one in answer.get("metrics", ())
            if one["name"].get("origin") != "user" and isinstance(one.get("scalar"), (int, float))
        }

    def cancel(self, job_id: str) -> None:
        """Requests the end of a job. Raises ConversionError."""
        self._ask("PUT", f"/{job_id}", json={"requestedState": "JOB_STATE_CANCELLED"})


def final_metrics(service: Service, job_id: str) -> dict[str, float]:
    """Returns a job's metrics once they no longer change, or as they are after `METRICS_SECONDS`."""
    end = time.monotonic() + METRICS_SECONDS
    before: dict[str, float] = {}
    while True:
        found = service.metrics(job_id)
        if (found.get("TotalVcpuTime") and found == before) or time.monotonic() > end:
            return found
        before = found
        time.sleep(METRICS_EVERY_S)


# --- the inner process -----------------------------------------------------------------------------


def prove(arguments: argparse.Namespace, made: Made) -> int:
    """Converts here and on Dataflow, compares and reports.

    Returns: 0 if the bytes are the same, else an exit code of `convert` or 1.

    Raises:
      ConversionError: something failed, and why.
    """
    from beam_pipeline.cli import main

    prices = Prices()
    if arguments.prices:
        text = files.read_text(files.canonical(arguments.prices), f"--prices {arguments.prices}")
        prices = parse_prices(text, arguments.prices)
    images, labels = _inputs(arguments, made)
    common = _common(arguments)
    say("", "Converting on this machine")
    local = os.path.join(made.here, "tfrecords")
    if code := main(["convert", *_paths(images, labels, local), *common]):
        return code
    machines = Machines(arguments.workers, VCPUS, MEMORY_GB)
    planned = planned_usage(_work(_paths(images, labels, local), arguments), machines, prices)

    Path(made.here, _MARK).touch()
    output = files.join(made.remote, "tfrecords")
    paths = _paths(*_uploaded(images, labels, made.remote), output)
    say(
        "",
        f"Converting on Dataflow, with {counted(arguments.workers, 'worker')} of {MACHINE_TYPE}",
    )
    began = time.monotonic()
    if code := main(["convert", *paths, *common, *_job_options(arguments, made)]):
        return code
    waited = time.monotonic() - began
    same = compare(local, output)
    say("", f"Reading the job's metrics ({waited:.0f} s from submission to summary)")
    service = Service(arguments.project, arguments.region, arguments.dataflow_endpoint)
    (job,) = service.jobs(made.name)
    usage = usage_of(job, final_metrics(service, job["id"]))
    say("", *table(usage, planned, prices), "")
    say(*price_lines(prices, arguments.prices, arguments.region))
    return EXIT_DONE if same else EXIT_FAILED


def _inputs(arguments: argparse.Namespace, made: Made) -> tuple[str, str]:
    """Returns the images and the labels to convert; draws the demo's if none are given."""
    if arguments.images:
        labels = files.canonical(arguments.labels) if arguments.labels else ""
        return files.canonical(arguments.images), labels
    from beam_pipeline.commands.demo import make_demo

    demo = make_demo(os.path.join(made.here, "demo"), arguments.samples)
    return demo.images, demo.labels


def _common(arguments: argparse.Namespace) -> list[str]:
    """Options of both conversions."""
    shards = [] if arguments.images else ["--num_shards=8"]
    return ["--name=proof", *shards, *arguments.convert]


def _paths(images: str, labels: str, output: str) -> list[str]:
    paths = ["--images", images, "--output", output]
    return [*paths, "--labels", labels] if labels else paths


def _job_options(arguments: argparse.Namespace, made: Made) -> list[str]:
    """Options of Dataflow and Beam for the job; the workers are fixed, as those of an estimate are."""
    return [
        "--runner=DataflowRunner",
        f"--project={arguments.project}",
        f"--region={arguments.region}",
        f"--job_name={made.name}",
        f"--temp_location={made.remote}/temp",
        f"--worker_machine_type={MACHINE_TYPE}",
        f"--num_workers={arguments.workers}",
        f"--max_num_workers={arguments.workers}",
        "--autoscaling_algorithm=NONE",
    ]


def _work(paths: Sequence[str], arguments: argparse.Namespace) -> Work:
    """The work of the conversion, as `plan` finds it."""
    from beam_pipeline.inputs import convert_config
    from beam_pipeline.options import ConvertOptions
    from beam_pipeline.planning import planned_work

    parser = argparse.ArgumentParser(allow_abbrev=False)
    ConvertOptions.add_arguments(parser)
    known, _ = parser.parse_known_args([*paths, *_common(arguments)])
    config, _ = convert_config(ConvertOptions.from_arguments(known))
    return planned_work(config)


def _uploaded(images: str, labels: str, remote: str) -> tuple[str, str]:
    """Copies what is on this machine to the bucket; returns where images and labels lie there."""
    copies: list[tuple[str, str]] = []
    where = []
    for path, folder in ((images, "images"), (labels, "labels")):
        if not path or is_remote(path):
            where.append(path)
            continue
        target = files.join(remote, folder)
        if os.path.isdir(path):
            names = [found.name for found in files.list_files(path)]
            copies += ((os.path.join(path, name), files.join(target, name)) for name in names)
        else:
            target = files.join(target, os.path.basename(path))
            copies.append((path, target))
        where.append(target)
    if copies:
        say("", f"Copying {counted(len(copies), 'file')} to {remote}")
    with ThreadPoolExecutor(_UPLOADS_AT_ONCE) as pool:
        try:
            for _ in pool.map(lambda copy: _copy(*copy), copies):
                pass
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return where[0], where[1]


def _copy(source: str, target: str) -> None:
    files.write_bytes(target, files.read_bytes(source))


def compare(here: str, there: str) -> bool:
    """Compares the shards and class files of two data sets, byte by byte, and says what it found.

    Args:
      here: a local output folder.
      there: an output folder anywhere.
    """
    manifests = [read_manifest(folder) for folder in (here, there)]
    names = sorted({*_data_files(manifests[0]), *_data_files(manifests[1])})
    sizes = [files.sizes_in(folder) for folder in (here, there)]
    names = [name for name in names if any(name in found for found in sizes)]
    differ = [
        name
        for name in names
        if sizes[0].get(name) != sizes[1].get(name)
        or not _is_same(files.join(here, name), files.join(there, name))
    ]
    for name in differ:
        found = [f"{size[name]} bytes" if name in size else "missing" for size in sizes]
        complain(f"{name} differs: {found[0]} here, {found[1]} on Dataflow")
    counts = [{key: one[key] for key in ("counts", "dead_letters")} for one in manifests]
    if counts[0] != counts[1]:
        complain(f"The counts differ: {counts[0]} here, {counts[1]} on Dataflow")
    if differ or counts[0] != counts[1]:
        return False
    total = sum(sizes[0][name] for name in names)
    say("", f"The same bytes here and on Dataflow: {counted(len(names), 'file')}, {total} bytes")
    return True


def _data_files(manifest: Mapping[str, Any]) -> list[str]:
    """Names of the shards and of the files that may list the classes."""
    return [*shard_paths(manifest), "labels.txt", "label_map.pbtxt"]


def _is_same(one: str, other: str) -> bool:
    with files.open_input(one) as first, files.open_input(other) as second:
        while True:
            chunk = _read(first)
            if chunk != _read(second):
                return False
            if not chunk:
                return True


def _read(file: Any) -> bytes:
    """The next chunk, whole but at the end of the file."""
    data = b""
    while len(data) < _CHUNK_BYTES and (more := file.read(_CHUNK_BYTES - len(data))):
        data += more
    return data


# --- the outer process -----------------------------------------------------------------------------


def clean_up(made: Made, service: Service) -> None:
    """Ends the job if it still runs, and removes the folder in the bucket.

    Raises:
      ConversionError: something may be left.
      OSError: an object cannot be deleted.
    """
    active = [job for job in service.jobs(made.name) if job["currentState"] not in _TERMINAL]
    for job in active:
        say(f"Cancelling job {job['id']}")
        service.cancel(job["id"])
    end = time.monotonic() + CANCEL_SECONDS
    while active and any(j["currentState"] not in _TERMINAL for j in service.jobs(made.name)):
        if time.monotonic() > end:
            raise ConversionError(f"job {active[0]['id']} has not ended yet")
        time.sleep(CANCEL_EVERY_S)
    files.delete_folder(made.remote)
    if left := files.list_folder(made.remote):
        raise ConversionError(f"{counted(len(left), 'object')} could not be deleted")


def _run_inner(argv: Sequence[str], made: Made) -> tuple[int, bool]:
    """Runs the inner process; returns its exit code, and True if a signal asked for the end."""
    asked: list[int] = []
    started: list[subprocess.Popen[bytes]] = []

    def end(number: int, _: object) -> None:
        asked.append(number)
        if not started:
            return
        if started[0].poll() is not None:
            complain("Still removing what was made")
        elif len(asked) == 1:
            started[0].send_signal(signal.SIGINT)
            signal.alarm(_ENDING_SECONDS)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, end)
    # In a session of its own: a terminal's Ctrl-C reaches the outer process, which passes it on once.
    inner = subprocess.Popen(  # noqa: S603 -- this program, with the same arguments
        [sys.executable, __file__, *argv], env=_environment(made), start_new_session=True
    )
    signal.signal(signal.SIGALRM, lambda *_: os.killpg(inner.pid, signal.SIGKILL))
    started.append(inner)
    if asked:
        inner.send_signal(signal.SIGINT)
    code = inner.wait()
    signal.alarm(0)
    return code, bool(asked)


_VARIABLE = "BEAM_TFRECORD_PROOF"  # tells the inner process what it may make


def _environment(made: Made) -> dict[str, str]:
    return {**os.environ, _VARIABLE: "\n".join(made)}


def _by_hand(made: Made, arguments: argparse.Namespace) -> Iterator[str]:
    where = f"--region={arguments.region} --project={arguments.project}"
    yield "Remove by hand what is left:"
    yield f"  gcloud dataflow jobs list {where} --status=active --filter=name={made.name}"
    yield f"  gcloud dataflow jobs cancel JOB_ID {where}"
    yield f"  gcloud storage rm -r {made.remote}"


def run(arguments: argparse.Namespace, argv: Sequence[str]) -> int:
    """Runs a proof and removes what it made; returns the exit code."""
    name = f"beam-tfrecord-proof-{secrets.token_hex(6)}"
    folder = arguments.bucket.removeprefix("gs://").strip("/")
    with tempfile.TemporaryDirectory(prefix=f"{name}-") as here:
        made = Made(name, f"gs://{folder}/{name}", here)
        say(f"Everything this makes is called {name}, and is removed at the end")
        code, interrupted = _run_inner(argv, made)
        if interrupted:
            code = EXIT_INTERRUPTED
        elif code < 0:
            complain(f"{PROGRAM}: error: the process that converts ended by signal {-code}")
            code = EXIT_FAILED
        if os.path.exists(os.path.join(here, _MARK)):
            say("", f"Removing {made.remote}")
            try:
                clean_up(
                    made, Service(arguments.project, arguments.region, arguments.dataflow_endpoint)
                )
            except Exception as error:  # whatever it is, the person must know what is left
                complain(f"{PROGRAM}: error: {error}", *_by_hand(made, arguments))
                code = EXIT_FAILED
    return code


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """Reads the command line; what follows `--` is in `convert`.

    Raises:
      UsageError: an option after `--` is one that a proof chooses itself.
    """
    own, further = list(argv), []
    if "--" in own:
        at = own.index("--")
        own, further = own[:at], own[at + 1 :]
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        usage=f"{PROGRAM} PROJECT REGION BUCKET [OPTION ...] [-- OPTION OF CONVERT OR BEAM ...]",
        description="Converts one set of images on Dataflow and on this machine, compares the bytes, prints "
        "time, vCPU hours, bytes shuffled and the computed cost beside what `plan` estimates, and "
        "removes what it made. Costs a few cents with the default set.",
        allow_abbrev=False,
    )
    parser.add_argument("project", metavar="PROJECT", help="project of Google Cloud that pays")
    parser.add_argument("region", metavar="REGION", help="region of the workers, best the bucket's")
    parser.add_argument("bucket", metavar="BUCKET", help="bucket, or a folder in it, as gs://...")
    parser.add_argument(
        "--images", metavar="PATH", default="", help="local or gs://; default: the demo's drawings"
    )
    parser.add_argument("--labels", metavar="FILE", default="", help="of --images; local or gs://")
    parser.add_argument(
        "--samples", metavar="N", type=int, default=1000, help="drawings (default: %(default)s)"
    )
    parser.add_argument(
        "--workers", metavar="N", type=int, default=1, help=f"{MACHINE_TYPE} (default: %(default)s)"
    )
    parser.add_argument(
        "--prices", metavar="FILE", default="", help=f"JSON, as of `plan`; default: {PRICE_LIST}"
    )
    arguments = parser.parse_args(own)
    if arguments.labels and not arguments.images:
        raise UsageError("--labels are those of --images, which is missing")
    if arguments.samples < 1 or arguments.workers < 1:
        raise UsageError("--samples and --workers must be at least 1")
    for token in further:
        if found := _CHOSEN.fullmatch(token.replace("-", "_").replace("__", "--", 1)):
            raise UsageError(f"--{found[1]} is chosen by the proof itself")
    beam = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    beam.add_argument("--dataflow_endpoint", default=ENDPOINT)
    arguments.convert = further
    arguments.dataflow_endpoint = beam.parse_known_args(further)[0].dataflow_endpoint
    return arguments


def main(argv: Sequence[str]) -> int:
    """Runs the outer or the inner process; returns its exit code."""
    try:
        arguments = parse(argv)
        if _VARIABLE not in os.environ:
            return run(arguments, argv)
        return prove(arguments, Made(*os.environ[_VARIABLE].split("\n")))
    except UsageError as error:
        complain(f"{PROGRAM}: error: {error}")
        return EXIT_USAGE
    except ConversionError as error:
        complain(f"{PROGRAM}: error: {error}")
        return EXIT_FAILED
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
