"""Jobs on Google Cloud Dataflow: options, staged files, submission, progress, end. docs/dataflow.md has the reasons."""

from __future__ import annotations

import base64
import contextlib
import copy
import hashlib
import importlib.metadata
import logging
import os
import re
import tempfile
import zipfile
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from apache_beam.metrics.metric import MetricsFilter
from apache_beam.options.pipeline_options import (
    DebugOptions,
    GoogleCloudOptions,
    PipelineOptions,
    SetupOptions,
    TestOptions,
    WorkerOptions,
)
from apache_beam.runners.dataflow.dataflow_runner import DataflowRunner, DataflowRuntimeException
from apache_beam.runners.runner import PipelineResult, PipelineRunner, PipelineState

import beam_pipeline
from beam_pipeline.beam_patches import applied, silent_submission
from beam_pipeline.config import ConvertConfig
from beam_pipeline.core import errors, uris
from beam_pipeline.core.dataset.estimate import workers_for
from beam_pipeline.engines.base import Build, Engine, empty_pipeline, job_name
from beam_pipeline.storage.buckets import TRANSIENT_STATUS
from beam_pipeline.terminal import Display, say
from beam_pipeline.work import outcome
from beam_pipeline.work.job import Counts

MACHINE_TYPE, VCPUS = "e2-standard-4", 4
HARNESS_THREADS = 2
"""Shards that a worker process writes at the same time; a worker has one process per vCPU."""

STAGING_FOLDER = ".beam-tfrecord-staging"

_NEEDED = {
    "project": "neither the credentials nor GOOGLE_CLOUD_PROJECT name a project of Google Cloud: give "
    "--project=PROJECT_ID",
    "region": "neither CLOUDSDK_COMPUTE_REGION nor gcloud's configuration names a region: give --region, best "
    "that of the buckets, such as --region=us-central1",
    "temp_location": "--output leaves no place beside the data set for Dataflow's own files: give "
    "--temp_location=gs://BUCKET/FOLDER",
}
"""Option that a job cannot do without -> the message if it is neither given nor known."""


class DataflowEngine(Engine):
    """Dataflow. A job continues if this program ends."""

    outlives_launcher = True
    ends_on_interrupt = False

    def __init__(self, name: str, argv: Sequence[str], *, wait: bool = True) -> None:
        """See `Engine`."""
        super().__init__(name, argv, wait=wait)
        template: str | None = self.options.view_as(GoogleCloudOptions).template_location
        self.waits = wait and not template
        self._job: DataflowJob | None = None

    def interrupt(self) -> str:
        """See `Engine`; a submitted job continues."""
        if self._job is None:
            return "interrupted before Dataflow accepted the job"
        job = self._job
        return (
            f"interrupted; job {job.id} continues on Dataflow. See {job.url} or end it: "
            f"gcloud dataflow jobs cancel {job.id} --region={job.region} --project={job.project}"
        )

    def prepare(self, config: ConvertConfig) -> None:
        """See `Engine`.

        Raises:
          UsageError: an option or a package is missing, or a path is local.
        """
        here = [uri for uri in config.uris if not uris.is_remote(uri)]
        if here:
            raise errors.UsageError(
                f"--runner=DataflowRunner: its workers cannot see paths of this machine: {', '.join(here)}. "
                "Copy them to a bucket (gcloud storage cp -r) and give gs://... instead"
            )
        if config.options.engine.writers:
            raise errors.UsageError(
                "--writers is for processes of this machine; on Dataflow, workers write the shards"
            )
        try:
            from apache_beam.runners.dataflow.internal import apiclient  # noqa: F401
        except ImportError as error:
            raise errors.UsageError(
                f"--runner={self.name} needs Beam's Google Cloud extra, which is not installed "
                f"({error}): pip install '.[gcp]' in the checkout of beam-tfrecord"
            ) from error
        if self.options.view_as(TestOptions).dry_run:
            raise errors.UsageError("--dry_run submits nothing; use `plan` to preview a conversion")
        set_defaults(self.options, config)
        try:
            empty_pipeline(self.runner, copy.deepcopy(self.options))
        except ValueError as error:  # Beam checks options when a pipeline is made
            raise errors.UsageError(f"--runner={self.name}: {error}") from error

    def run(self, build: Build) -> None:
        """Submits a job and, unless `waits` is False, shows its progress until it ends.

        Raises:
          JobError: Dataflow rejected the job, or it failed there.
        """
        options = copy.deepcopy(self.options)  # Beam adds folders of each job to them
        google = options.view_as(GoogleCloudOptions)
        if note := private_addresses_note(self.options):
            say(note)
        say(f"Submitting the job to Dataflow (staging in {google.staging_location})")
        self._job = None
        with applied((*self.patches, silent_submission)), staged_package(options):
            pipeline = empty_pipeline(self.runner, options)
            build(pipeline)
            try:
                result = pipeline.run()
            except Exception as error:  # what Google's and Beam's clients raise lacks a common base
                status = getattr(error, "status_code", None) or getattr(error, "code", None)
                reason = f"the job could not be submitted to Dataflow: {error}\n{_ADVICE}"
                ids = (errors.OUTAGE,) if status in TRANSIENT_STATUS else ()
                raise errors.JobError(reason, ids) from error
        if google.template_location:  # a Flex Template's launcher submits what is written there
            say(f"Wrote the job to {google.template_location}")
            return
        self._job = job = DataflowJob(result.job_id(), google.project, google.region)
        say(f"Job {job.id}", job.url)
        if self.waits:
            follow(result, pipeline.runner, job)


def set_defaults(options: PipelineOptions, config: ConvertConfig) -> None:
    """Sets options that were not given.

    Raises:
      UsageError: a good default is missing; the message names the option to give.
    """
    google = options.view_as(GoogleCloudOptions)
    if not google.project and not google.no_auth:
        from beam_pipeline.storage.google import default_credentials  # imports Google's client

        google.project = default_credentials()[1]
    google.region = google.region or DataflowRunner().get_default_gcp_region()
    google.temp_location = google.temp_location or google.staging_location or _staging(config)
    google.staging_location = google.staging_location or google.temp_location
    if missing := [text for name, text in _NEEDED.items() if not getattr(google, name)]:
        raise errors.UsageError(f"--runner=DataflowRunner: {'; '.join(missing)}")
    for name in ("temp_location", "staging_location"):
        folder = getattr(google, name)
        if f"{folder}/".startswith(f"{config.output.rstrip('/')}/"):
            raise errors.UsageError(
                f"--{name} {folder} is inside --output {config.output}, which contains the data set and "
                "nothing else; choose another folder"
            )
    google.job_name = google.job_name or job_name(config)
    workers = options.view_as(WorkerOptions)
    debug = options.view_as(DebugOptions)
    services = (*(google.dataflow_service_options or []), *(debug.experiments or []))
    if not any(service.startswith("enable_prime") for service in services):
        workers.machine_type = workers.machine_type or MACHINE_TYPE  # Prime chooses itself
    threads = debug.number_of_worker_harness_threads or HARNESS_THREADS
    debug.number_of_worker_harness_threads = threads
    _set_workers(workers, threads, config)
    setup = options.view_as(SetupOptions)
    if setup.save_main_session is None:
        setup.save_main_session = False


def _set_workers(workers: WorkerOptions, threads: int, config: ConvertConfig) -> None:
    """Sets how many workers begin, and the most, by what is known before images are listed.

    Dataflow would judge by the bytes that it shuffles, some 25 an image.
    """
    work = config.expected_work
    if not work or workers.autoscaling_algorithm == "NONE":
        return
    vcpus = re.search(r"-(\d+)\Z", workers.machine_type or "")
    wanted, most = workers_for(work, int(vcpus[1]) if vcpus else VCPUS, threads)
    if wanted < 2:
        return
    most = workers.max_num_workers or max(most, workers.num_workers or 0)
    workers.num_workers = workers.num_workers or min(wanted, most)
    workers.max_num_workers = most


def private_addresses_note(options: PipelineOptions) -> str:
    """A warning if workers without public addresses would install packages; else empty."""
    workers, setup = options.view_as(WorkerOptions), options.view_as(SetupOptions)
    in_image = workers.sdk_container_image and setup.sdk_location == "container"
    if workers.use_public_ips is not False or in_image:
        return ""
    return (
        "Note: workers without public addresses cannot fetch packages, unless the network has Cloud "
        "NAT. Build an image that contains them (deploy/dataflow/build.sh), and give "
        "--sdk_container_image=IMAGE --sdk_location=container"
    )


def _staging(config: ConvertConfig) -> str:
    """A folder beside the data set, in the same bucket; empty if the bucket has no place for one."""
    bucket, _, folder = config.output.removeprefix("gs://").partition("/")
    is_below = config.output.startswith("gs://") and folder.strip("/")
    return f"gs://{bucket}/{STAGING_FOLDER}" if is_below else ""


@contextlib.contextmanager
def staged_package(options: PipelineOptions) -> Iterator[None]:
    """Adds this package to the staged files while the block runs, unless the options provide it already."""
    setup, workers = options.view_as(SetupOptions), options.view_as(WorkerOptions)
    given = setup.extra_packages or []
    names = [os.path.basename(path).lower().replace("_", "-") for path in given]
    packed = any(name.startswith(f"{DISTRIBUTION}-") for name in names)
    in_image = workers.sdk_container_image and setup.sdk_location == "container"
    if setup.setup_file or packed or in_image:
        yield
        return
    with tempfile.TemporaryDirectory(prefix="beam-tfrecord-") as folder:
        setup.extra_packages = [*given, build_package(folder)]
        yield


_ADVICE = (
    "Check --project, --region and --temp_location; that the account that submits has the roles of "
    "docs/dataflow.md (`gcloud auth application-default login`); and the project's quotas"
)

ROUND_MS = 4000
"""The least time between two queries of the counters; Beam waits in steps of 5 seconds."""

_PLANNED = (outcome.SAMPLES_PLANNED, outcome.BYTES_PLANNED)
_BEGUN = (outcome.SAMPLES_DONE, outcome.BYTES_DONE)
_BEAM = "apache_beam.runners.dataflow.dataflow_runner"
_STATE = re.compile(r"is in state JOB_STATE_(\w+)")
_MESSAGE = re.compile(r"JOB_MESSAGE_(\w+): (.*)", re.DOTALL)


class DataflowJob(NamedTuple):
    """A job on Dataflow.

    Attributes:
      id: its id, given by Dataflow.
      project, region: where it runs.
    """

    id: str
    project: str
    region: str

    @property
    def url(self) -> str:
        """The job's page in Google's console."""
        return (
            f"https://console.cloud.google.com/dataflow/jobs/{self.region}/{self.id}"
            f"?project={self.project}"
        )


def follow(result: PipelineResult, runner: PipelineRunner, job: DataflowJob) -> None:
    """Waits for a job and shows its states, warnings, errors and progress.

    Args:
      result: Beam's result of submitting the job.
      runner: the runner that submitted it.
      job: the same job.

    Raises:
      JobError: the job failed or was cancelled, with the service's message, or it cannot be
        followed.
    """
    state, planned = PipelineState.UNKNOWN, Counts()
    with contextlib.closing(Display()) as show, _messages_shown(show):
        try:
            # All requests come from this thread: the client of older Beam versions is not thread-safe.
            while not PipelineState.is_terminal(state):
                state = result.wait_until_finish(ROUND_MS)
                done, total = _counts(result)
                if total.samples and not planned.samples:
                    show.report(planned := total)
                show.update(done)
        except DataflowRuntimeException as error:
            raise errors.JobError(_end(result, runner, job)) from error
        except Exception as error:  # what Google's and Beam's clients raise lacks a common base
            message = f"job {job.id} could not be followed to its end, and may still run: {error}. See {job.url}"
            raise errors.JobError(message, (errors.OUTAGE,)) from error


def _end(result: PipelineResult, runner: PipelineRunner, job: DataflowJob) -> str:
    state: str = result.state
    if state == PipelineState.CANCELLED:
        return f"job {job.id} was cancelled; run it again with --resume to continue it"
    with contextlib.suppress(Exception):  # then a message from the service is missing
        if not runner.last_error_msg:  # it may arrive half a minute after the end
            DataflowRunner.poll_for_job_completion(runner, result, None)
    message = runner.last_error_msg or "nothing"
    return f"job {job.id} ended as {state}, with the message:\n{message.strip()}\nAll that it logged: {job.url}"


@contextlib.contextmanager
def _messages_shown(show: Display) -> Iterator[None]:
    """While the block runs, shows each state, warning and error of a job once, on one line.

    Beam fetches the job's messages, again with each wait, and logs them. The last state is not shown, because
    the result follows.
    """
    shown = set[str]()

    def show_once(record: logging.LogRecord) -> bool:
        text = record.getMessage()
        state, message = _STATE.search(text), _MESSAGE.search(text)
        line = ""
        if state and not PipelineState.is_terminal(state[1]):
            line = state[1].lower().replace("_", " ")
        elif message and record.levelno >= logging.WARNING:
            # The last line of a traceback is the error; the job's log has the whole traceback.
            error = message[2].strip().splitlines()[-1:]
            line = f"{message[1].lower()}: {''.join(error)}"
        if line and text not in shown:
            shown.add(text)
            show.note(f"Dataflow: {line}")
        return False

    logger = logging.getLogger(_BEAM)
    level = logger.level
    logger.setLevel(logging.INFO)
    logger.addFilter(show_once)
    try:
        yield
    finally:
        logger.removeFilter(show_once)
        logger.setLevel(level)


def _counts(result: PipelineResult) -> tuple[Counts, Counts]:
    """The counts so far, and the totals, by the workers' counters; zeros if the service does not answer."""
    try:
        metrics = result.metrics().query(MetricsFilter().with_namespace(outcome.COUNTERS))
    except Exception:  # counts are only shown, and the next ones include these
        return Counts(), Counts()
    values = Counter[str]()
    for counter in metrics["counters"]:
        name = counter.key.metric.name
        # "Attempted" counts retried work twice, and shards that are being written.
        begun = name in _BEGUN or counter.committed is None
        values[name] += int((counter.attempted if begun else counter.committed) or 0)
    listed, samples, size = (values[name] for name in (outcome.IMAGES_LISTED, *_BEGUN))
    done = Counts(listed, samples, size)
    samples, size = (values[name] for name in _PLANNED)
    total = Counts(listed, samples, size, is_total=True)
    return Counts._make(map(min, done, total)) if total.samples else done, total


DISTRIBUTION = "beam-tfrecord"
_WORKER_EXTRA = "gcp"  # for workers that read and write buckets
_BEAM_PACKAGE = "apache-beam"
_SUFFIXES = (".py", "py.typed", ".html", ".css", ".js", ".yaml", "card.md", ".json")
_WHEEL = "Wheel-Version: 1.0\nGenerator: beam-tfrecord\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def build_package(folder: str) -> str:
    """Writes the wheel, with the same bytes each time, and returns its path.

    It requires what this package and Google's client require, except Beam: a worker has Beam, and
    must keep the version that its engine was started with.

    Raises:
      ConversionError: the requirements of this package are unknown.
    """
    version = beam_pipeline.__version__
    name = DISTRIBUTION.replace("-", "_")
    info = f"{name}-{version}.dist-info"
    contents = dict(_modules())
    metadata = ["Metadata-Version: 2.1", f"Name: {DISTRIBUTION}", f"Version: {version}"]
    metadata += [f"Requires-Dist: {requirement}" for requirement in requirements()]
    contents[f"{info}/METADATA"] = "\n".join([*metadata, ""]).encode()
    contents[f"{info}/WHEEL"] = _WHEEL.encode()
    record = "".join(f"{path},{_digest(data)},{len(data)}\n" for path, data in contents.items())
    contents[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    wheel = os.path.join(folder, f"{name}-{version}-py3-none-any.whl")
    with zipfile.ZipFile(wheel, "w") as file:
        for path, data in contents.items():
            # Dated 1980, so that the bytes do not depend on the time
            member = zipfile.ZipInfo(path)
            member.external_attr = 0o100644 << 16
            file.writestr(member, data, zipfile.ZIP_DEFLATED)
    return wheel


def requirements() -> list[str]:
    """Returns the requirements of a worker, without Beam, in `pip`'s notation.

    Raises:
      ConversionError: this package is imported from a folder, but not installed.
    """
    try:
        declared = importlib.metadata.requires(DISTRIBUTION) or []
    except importlib.metadata.PackageNotFoundError as error:
        raise errors.ConversionError(
            f"{DISTRIBUTION} is not installed, so the requirements of its workers are not known: "
            f"{os.path.dirname(beam_pipeline.__path__[0])} is only on Python's path. Install it "
            "with pip install '.[gcp]'"
        ) from error
    parts = (requirement.partition(";") for requirement in declared)
    needed = [(name.strip(), marker) for name, _, marker in parts if _BEAM_PACKAGE not in name]
    return [name for name, marker in needed if not marker or _WORKER_EXTRA in marker]


def _modules() -> Iterator[tuple[str, bytes]]:
    """Yields (path in the wheel, content) of every module and template."""
    (root,) = beam_pipeline.__path__
    above = os.path.dirname(root)
    for folder, folders, names in os.walk(root, followlinks=True):
        folders.sort()  # includes transforms/, which is a link in a checkout
        for name in sorted(names):
            if name.endswith(_SUFFIXES):
                path = os.path.join(folder, name)
                with open(path, "rb") as file:
                    yield os.path.relpath(path, above).replace(os.sep, "/"), file.read()


def _digest(data: bytes) -> str:
    encoded = base64.urlsafe_b64encode(hashlib.sha256(data).digest())
    return f"sha256={encoded.rstrip(b'=').decode()}"
