"""A job on Dataflow: its links, its progress, its end."""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from operator import sub

from apache_beam.metrics.metric import MetricsFilter
from apache_beam.runners.dataflow.dataflow_runner import DataflowRunner, DataflowRuntimeException
from apache_beam.runners.runner import PipelineResult, PipelineRunner, PipelineState

from beam_pipeline.core.errors import JobError
from beam_pipeline.progress_bar import Display, display
from beam_pipeline.transforms import counters
from beam_pipeline.work.progress import Counts

ROUND_MS = 4000
"""The least time between two queries of the counters; Beam waits in steps of 5 seconds."""

_PLANNED = (counters.SAMPLES_PLANNED, counters.BYTES_PLANNED)
_DONE = (counters.IMAGES_LISTED, counters.SAMPLES_DONE, counters.BYTES_DONE)
_BEAM = "apache_beam.runners.dataflow.dataflow_runner"
_STATE = re.compile(r"is in state JOB_STATE_(\w+)")
_MESSAGE = re.compile(r"JOB_MESSAGE_(\w+): (.*)", re.DOTALL)


@dataclass(frozen=True)
class DataflowJob:
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

    @property
    def cancel_command(self) -> str:
        """The command that cancels the job."""
        return (
            f"gcloud dataflow jobs cancel {self.id} --region={self.region} --project={self.project}"
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
    show = display()
    counts = _Increments(show)
    state = PipelineState.UNKNOWN
    with contextlib.closing(show), _told_by_beam(_JobLog(show)):
        try:
            # All requests come from this thread: the client of older Beam versions is not thread-safe.
            while not PipelineState.is_terminal(state):
                state = result.wait_until_finish(ROUND_MS)
                counts.update(_query(result))
        except DataflowRuntimeException as error:
            raise JobError(_end(result, runner, job)) from error
        except Exception as error:  # what Google's and Beam's clients raise has no common base
            raise JobError(
                f"job {job.id} could not be followed to its end, and may go on: {error}. See {job.url}"
            ) from error


def _end(result: PipelineResult, runner: PipelineRunner, job: DataflowJob) -> str:
    state: str = result.state
    if state == PipelineState.CANCELLED:
        return f"job {job.id} was cancelled; run it again with --resume to go on with it"
    with contextlib.suppress(Exception):  # then there is no message from the service
        if not runner.last_error_msg:  # it may arrive half a minute after the end
            DataflowRunner.poll_for_job_completion(runner, result, None)
    message = runner.last_error_msg or "nothing"
    return f"job {job.id} ended as {state}, and says:\n{message.strip()}\nAll that it logged: {job.url}"


@contextlib.contextmanager
def _told_by_beam(handler: logging.Handler) -> Iterator[None]:
    """Passes on the job's states and messages, which Beam fetches and logs, while the block runs."""
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
    """Shows each state, warning and error of a job once, on one line.

    Each wait makes Beam fetch all messages again. The last state is not shown, as the result
    follows.
    """

    def __init__(self, show: Display) -> None:
        super().__init__(logging.INFO)
        self._show = show
        self._state = ""
        self._shown: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if state := _STATE.search(text):
            if state[1] != self._state and not PipelineState.is_terminal(state[1]):
                self._show.note(f"Dataflow: {state[1].lower().replace('_', ' ')}")
            self._state = state[1]
            return
        message = _MESSAGE.search(text)
        if message and record.levelno >= logging.WARNING and text not in self._shown:
            self._shown.add(text)
            # The last line of a traceback is the error; the job's log has the whole traceback.
            error = message[2].strip().splitlines()[-1:]
            self._show.note(f"Dataflow: {message[1].lower()}: {''.join(error)}")


class _Increments:
    """Shows the workers' counters as increments since the last query."""

    def __init__(self, show: Display) -> None:
        self._show = show
        self._before = Counts()
        self._started = False

    def update(self, values: Mapping[str, int]) -> None:
        """Shows new values: counter -> value so far."""
        samples, size = (values.get(name, 0) for name in _PLANNED)
        if samples and not self._started:
            self._started = True
            self._show.report(Counts(samples=samples, image_bytes=size, is_total=True))
        now = Counts._make(
            (*map(max, self._before, (values.get(name, 0) for name in _DONE)), False)
        )
        if now != self._before:
            self._show.report(Counts._make(map(sub, now, self._before)))
            self._before = now


def _query(result: PipelineResult) -> Mapping[str, int]:
    """Returns counter -> value so far; empty if the service does not answer."""
    try:
        found = result.metrics().query(MetricsFilter().with_namespace(counters.NAMESPACE))
    except Exception:  # counts are only shown, and the next ones include these
        return {}
    totals: dict[str, int] = {}
    for counter in found["counters"]:
        # "Attempted" counts retried work twice.
        value = counter.attempted if counter.committed is None else counter.committed
        name = counter.key.metric.name
        totals[name] = totals.get(name, 0) + int(value or 0)
    return totals
