"""Writer processes: tasks go in, results and progress come out, and a death is reported."""

from __future__ import annotations

import os
import signal
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest

from beam_pipeline.core.errors import OutputError, WriterProcessError
from beam_pipeline.work import progress, writer_process
from beam_pipeline.work.progress import Counts
from beam_pipeline.work.writer_process import Tasks, backlog, cores, submit, writer_processes

COUNTS = [Counts(samples=2, image_bytes=30), Counts(samples=1, image_bytes=5)]


@dataclass(frozen=True)
class Task:
    """A task that behaves as told, and returns the number of its process."""

    does: str = ""

    @property
    def doing(self) -> str:
        return f"told to {self.does}"

    def run(self) -> int:
        if self.does == "fail":
            raise OutputError("no space")
        if self.does == "be killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.does == "exit":
            os._exit(3)
        if self.does == "report":
            progress.report(COUNTS[0])
            progress.report(COUNTS[1])
        return os.getpid()


@dataclass(frozen=True)
class DiesElsewhere(Task):
    """Kills any process but the one that made it."""

    maker: int = 0

    def __init__(self, maker: int) -> None:
        object.__setattr__(self, "maker", maker)

    def run(self) -> int:
        if os.getpid() != self.maker:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().run()


def run(task: Task) -> int:
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
        pids = {future.result(timeout=60) for future in futures if future}
        assert os.getpid() not in pids
        assert 1 <= len(pids) <= 2
    assert submit(Task()) is None
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_processes_start_when_there_is_enough_to_do() -> None:
    """Not for a few samples; a task starts them, too. Asked for at once, they are there."""
    with writer_processes(2, at_once=False):
        writer_process.expect(writer_process.FEW_SAMPLES)
        assert not writer_process.are_running()
        writer_process.expect(1)
        assert writer_process.are_running()
    with writer_processes(1, at_once=False):
        assert run(Task()) != os.getpid()
        assert writer_process.are_running()
    with writer_processes(1):
        assert writer_process.are_running()
    assert not writer_process.are_running()


def test_an_error_of_a_task_is_raised_here_and_its_process_goes_on() -> None:
    """With its type and message."""
    with writer_processes(1):
        with pytest.raises(OutputError, match=r"^no space$"):
            run(Task("fail"))
        assert run(Task())


def test_progress_comes_before_the_result() -> None:
    """It goes to the listener of the launcher's process."""
    reports: list[Counts] = []
    with progress.reported_to(reports.append), writer_processes(1):
        run(Task("report"))
    assert reports == COUNTS


@pytest.mark.parametrize(("does", "how"), [("be killed", "SIGKILL"), ("exit", "exit code 3")])
def test_a_process_that_dies_is_reported_with_what_it_did(does: str, how: str) -> None:
    """The message says how it died; another process takes the next task."""
    said = (
        rf"^the process that was told to {does} died \({how}\); the system may have run out of "
        r"memory\. No file is left half written; run the job again$"
    )
    with writer_processes(1):
        for _ in range(3):
            with pytest.raises(WriterProcessError, match=said):
                run(Task(does))
        assert run(Task()) != os.getpid()


def test_a_process_that_died_while_it_was_idle_is_replaced() -> None:
    """No task is to blame, so none fails; when the block ends, the new process does, too."""
    with writer_processes(2):
        pids = {run(Task()) for _ in range(2)}
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        later = {run(Task()) for _ in range(4)}
        assert not later & pids
    for pid in later:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_a_task_that_dies_in_planning_is_done_here() -> None:
    """It only computes something; the process that takes the next task is a new one."""
    with writer_processes(1):
        tasks: Tasks[int] = Tasks(repeat=True)
        assert list(tasks.submit(DiesElsewhere(os.getpid()))) == []
        assert [result() for result in tasks.rest()] == [os.getpid()]
        assert run(Task()) != os.getpid()


def test_a_task_of_an_unknown_class_is_an_error_and_its_process_goes_on() -> None:
    """Such as one of a program's own file, which a writer process does not import."""
    unknown = type("Unknown", (Task,), {"__module__": "sys"})
    sys.Unknown = unknown  # type: ignore[attr-defined]
    try:
        with writer_processes(1):
            with pytest.raises(AttributeError, match="Unknown"):
                run(unknown())
            assert run(Task())
    finally:
        del sys.Unknown  # type: ignore[attr-defined]


def test_jobs_in_two_threads_have_processes_and_listeners_of_their_own() -> None:
    """The end of one does not touch the other."""
    both, ended = threading.Barrier(2), threading.Event()

    def job(number: int) -> tuple[set[int], list[Counts]]:
        reports: list[Counts] = []
        with progress.reported_to(reports.append), writer_processes(1):
            pids = {run(Task("report"))}
            both.wait(60)
            if number:
                assert ended.wait(60)
            pids.add(run(Task()))
        ended.set()
        return pids, reports

    with ThreadPoolExecutor(2) as threads:
        (first, reports), (second, other_reports) = threads.map(job, range(2))
    assert len(first) == len(second) == 1
    assert first != second
    assert reports == other_reports == COUNTS


def test_cores_are_those_that_this_process_may_use(monkeypatch: pytest.MonkeyPatch) -> None:
    """A container or `taskset` may allow fewer than the machine has."""
    assert cores() == len(os.sched_getaffinity(0))
    monkeypatch.delattr(os, "sched_getaffinity")  # as on macOS
    assert writer_process.cores() == os.cpu_count()
