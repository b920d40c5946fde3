"""Writer processes: tasks go in, results and progress come out, and a death is reported."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass

import pytest

from beam_pipeline.core.errors import OutputError, WriterProcessError
from beam_pipeline.work import progress, writer_process
from beam_pipeline.work.shard_task import Written
from beam_pipeline.work.writer_process import backlog, cores, submit, writer_processes


@dataclass(frozen=True)
class Task:
    """A task that behaves as told, and puts the number of its process where its bytes would be."""

    does: str = ""

    @property
    def uri(self) -> str:
        return f"/out/{self.does}"

    def run(self) -> Written:
        if self.does == "fail":
            raise OutputError("no space")
        if self.does == "be killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.does == "exit":
            os._exit(3)
        if self.does == "report":
            progress.add(2, 30)
            progress.add(1, 5)
        return Written(None, [], image_bytes=os.getpid())


class Heard:
    """Keeps the counts that are reported."""

    def __init__(self) -> None:
        self.counts: list[tuple[int, int]] = []

    def start(self, samples: int, image_bytes: int) -> None:
        raise AssertionError("totals come from the launcher")

    def add(self, samples: int, image_bytes: int) -> None:
        self.counts.append((samples, image_bytes))


def run(task: Task) -> Written:
    future = submit(task)
    assert future is not None
    return future.result(timeout=60)


def test_without_writer_processes_a_task_is_the_callers() -> None:
    """`submit` takes none, and none may wait."""
    with writer_processes(0):
        assert submit(Task()) is None
        assert backlog() == 0


def test_tasks_run_in_other_processes() -> None:
    """Each on an idle one; as many again may wait; when the block ends, the processes do."""
    with writer_processes(2):
        assert backlog() == 4
        futures = [submit(Task()) for _ in range(6)]
        pids = {future.result(timeout=60).image_bytes for future in futures if future}
        assert os.getpid() not in pids
        assert 1 <= len(pids) <= 2
    assert submit(Task()) is None
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_an_error_of_a_task_is_raised_here_and_its_process_goes_on() -> None:
    """With its type and message."""
    with writer_processes(1):
        with pytest.raises(OutputError, match=r"^no space$"):
            run(Task("fail"))
        assert run(Task()).info is None


def test_progress_comes_before_the_result() -> None:
    """It goes to the listener of the launcher's process."""
    heard = Heard()
    with progress.reported_to(heard), writer_processes(1):
        run(Task("report"))
    assert heard.counts == [(2, 30), (1, 5)]


@pytest.mark.parametrize(("does", "how"), [("be killed", "SIGKILL"), ("exit", "exit code 3")])
def test_a_process_that_dies_is_reported_with_its_shard(does: str, how: str) -> None:
    """The message says how it died, and that nothing of the shard is visible."""
    said = (
        rf"^the process that was writing /out/{does} died \({how}\); the system may have run out of "
        r"memory\. Nothing of the shard is visible; run the job again$"
    )
    with writer_processes(1), pytest.raises(WriterProcessError, match=said):
        run(Task(does))


def test_cores_are_those_that_this_process_may_use(monkeypatch: pytest.MonkeyPatch) -> None:
    """A container or `taskset` may allow fewer than the machine has."""
    assert cores() == len(os.sched_getaffinity(0))
    monkeypatch.delattr(os, "sched_getaffinity")  # as on macOS
    assert writer_process.cores() == os.cpu_count()
