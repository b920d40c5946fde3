"""A job at Dataflow: where it is seen, how it goes, how it ended."""

from __future__ import annotations

import contextlib
import logging
import re
import threading
from collections.abc import Callable, Iterator, Mapping
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
    counts = _Counts(result, show)
    try:
        with _told_by_beam(_JobLog(show, counts.stop)):
            counts.start()
            result.wait_until_finish()
        counts.update()
    except DataflowRuntimeException as error:
        raise JobError(_end(job, result.state, str(error))) from error
    except Exception as error:  # what Google's and Beam's clients raise has no common base
        raise JobError(
            f"job {job.id} could not be followed to its end, and may go on: {error}. See {job.url}"
        ) from error
    finally:
        counts.stop()
        show.close()


def _end(job: DataflowJob, state: str, error: str) -> str:
    if state == PipelineState.CANCELLED:
        return f"job {job.id} was cancelled; run it again with --resume to go on with it"
    said = error.partition("Error:\n")[2].strip()
    return (
        f"job {job.id} ended as {state}, and says:\n{said or error}\nAll that it logged: {job.url}"
    )


@contextlib.contextmanager
def _told_by_beam(handler: logging.Handler) -> Iterator[None]:
    """While the block runs, hands on the job's states and messages, which Beam fetches and logs."""
    logger = logging.getLogger(_BEAM)
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

    def __init__(self, show: Display, at_end: Callable[[], None]) -> None:
        """`at_end` is called when Beam has heard of the job's end."""
        super().__init__(logging.INFO)
        self._show = show
        self._at_end = at_end
        self._last = ""

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        line = ""
        if state := _STATE.search(text):
            line = f"Dataflow: {state[1].lower().replace('_', ' ')}"
            if PipelineState.is_terminal(state[1]):
                self._at_end()
        elif (message := _MESSAGE.search(text)) and record.levelno >= logging.WARNING:
            # Of a traceback, the last line is the error; the whole one is in the job's own log.
            error = message[2].strip().splitlines()[-1:]
            line = f"Dataflow: {message[1].lower()}: {''.join(error)}"
        if line and line != self._last:
            self._show.note(line)
            self._last = line


class _Counts:
    """Shows what workers have counted, again and again until it is stopped."""

    def __init__(self, result: PipelineResult, show: Display) -> None:
        self._result = result
        self._show = show
        self._listed = self._samples = self._bytes = 0
        self._started = False
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._poll, name="dataflow counts", daemon=True)

    def start(self) -> None:
        """Begins."""
        self._thread.start()

    def stop(self) -> None:
        """Ends it, and waits for the answer that may be on its way.

        Beam keeps for good the counts that it was asked for when it knows the job's end: they must
        not be those from before it.
        """
        self._ended.set()
        self._thread.join()

    def _poll(self) -> None:
        while not self._ended.wait(POLL_SECONDS):
            self.update()

    def update(self) -> None:
        """Shows what is new."""
        found = _query(self._result)
        listed = found.get(counters.IMAGES_LISTED, 0)
        planned = found.get(counters.SAMPLES_PLANNED, 0)
        samples = found.get(counters.SAMPLES_DONE, 0)
        image_bytes = found.get(counters.BYTES_DONE, 0)
        if listed > self._listed and not planned:
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
