"""A job at Dataflow: where it is seen, how it goes, how it ended."""

from __future__ import annotations

import contextlib
import logging
import re
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from apache_beam.metrics.metric import MetricsFilter
from apache_beam.runners.dataflow.dataflow_runner import DataflowRuntimeException
from apache_beam.runners.runner import PipelineResult, PipelineState

from beam_pipeline.progress_bar import Display, display
from transforms import counters
from transforms.core.errors import JobError

POLL_SECONDS = 5.0
"""Between two looks at the counts; the service itself collects them every few seconds."""

_BEAM = "apache_beam.runners.dataflow.dataflow_runner"
_STATE = re.compile(r"is in state JOB_STATE_(\w+)")
_MESSAGE = re.compile(r"JOB_MESSAGE_(\w+): (.*)", re.DOTALL)


@dataclass(frozen=True)
class DataflowJob:
    """Attributes: id, as Dataflow gave it; project; region."""

    id: str
    project: str
    region: str

    @property
    def url(self) -> str:
        """Where the job is seen in a browser."""
        return (
            f"https://console.cloud.google.com/dataflow/jobs/{self.region}/{self.id}"
            f"?project={self.project}"
        )

    @property
    def cancel_command(self) -> str:
        """What ends it."""
        return (
            f"gcloud dataflow jobs cancel {self.id} --region={self.region} --project={self.project}"
        )


def follow(result: PipelineResult, job: DataflowJob) -> None:
    """Waits for a job, and shows its states, its troubles and what it has done.

    Args:
      result: what Beam returned when it submitted the job.
      job: the same.

    Raises:
      JobError: it failed or was cancelled, with what the service says of it; or nothing is heard of it.
    """
    show = display()
    try:
        with _told_by_beam(show), _counted(result, show):
            result.wait_until_finish()
    except DataflowRuntimeException as error:
        raise JobError(_end(job, result.state, str(error))) from error
    except Exception as error:  # what Google's and Beam's clients raise has no common base
        raise JobError(
            f"job {job.id} could not be followed to its end, and may go on: {error}. See {job.url}"
        ) from error
    finally:
        show.close()


def _end(job: DataflowJob, state: str, error: str) -> str:
    if state == PipelineState.CANCELLED:
        return f"job {job.id} was cancelled; run it again with --resume to go on with it"
    said = error.partition("Error:\n")[2].strip()
    return f"job {job.id} ended as {state}. See {job.url}. It says:\n{said or error}"


@contextlib.contextmanager
def _told_by_beam(show: Display) -> Iterator[None]:
    """While the block runs, shows the job's states and messages, which Beam fetches and logs."""
    logger = logging.getLogger(_BEAM)
    handler = _JobLog(show)
    before = (logger.level, logger.propagate)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before[0])
        logger.propagate = before[1]


class _JobLog(logging.Handler):
    """Shows states, warnings and errors of a job, each as a line and none twice in a row."""

    def __init__(self, show: Display) -> None:
        super().__init__(logging.INFO)
        self._show = show
        self._last = ""

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        line = ""
        if state := _STATE.search(text):
            line = f"Dataflow: {state[1].lower().replace('_', ' ')}"
        elif (message := _MESSAGE.search(text)) and record.levelno >= logging.WARNING:
            # Of a traceback, the last line is the error; the whole one is in the job's own log.
            line = f"Dataflow: {message[1].lower()}: {message[2].strip().rpartition(chr(10))[2]}"
        if line and line != self._last:
            self._show.note(line)
            self._last = line


@contextlib.contextmanager
def _counted(result: PipelineResult, show: Display) -> Iterator[None]:
    """While the block runs, and once behind it, shows what workers have counted."""
    ended = threading.Event()
    counts = _Counts(show)

    def poll() -> None:
        while not ended.wait(POLL_SECONDS):
            counts.update(result)

    thread = threading.Thread(target=poll, name="dataflow counts", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        counts.update(result)


class _Counts:
    """What was shown of the counts; shows what is new."""

    def __init__(self, show: Display) -> None:
        self._show = show
        self._listed = self._samples = self._bytes = 0
        self._started = False

    def update(self, result: PipelineResult) -> None:
        found = _query(result)
        listed = found.get(counters.IMAGES_LISTED, 0)
        planned = found.get(counters.SAMPLES_PLANNED, 0)
        samples = found.get(counters.SAMPLES_DONE, 0)
        image_bytes = found.get(counters.BYTES_DONE, 0)
        if listed > self._listed and not self._started:
            self._show.note(f"{listed} images listed")
            self._listed = listed
        if planned and not self._started:
            self._show.start(planned, found.get(counters.BYTES_PLANNED, 0))
            self._started = True
        if self._started and samples > self._samples:
            self._show.add(samples - self._samples, image_bytes - self._bytes)
            self._samples, self._bytes = samples, image_bytes


def _query(result: PipelineResult) -> Mapping[str, int]:
    """Counter -> its value so far; nothing where the service does not answer."""
    try:
        found = result.metrics().query(MetricsFilter().with_namespace(counters.NAMESPACE))
    except Exception:  # counts are for show, and the next ones hold these too
        return {}
    totals: dict[str, int] = {}
    for counter in found["counters"]:
        # What was attempted counts work twice that was done twice.
        value = counter.attempted if counter.committed is None else counter.committed
        name = counter.key.metric.name
        totals[name] = totals.get(name, 0) + int(value or 0)
    return totals
