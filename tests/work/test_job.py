"""What a job has: writer processes, a file for references, the claim of its output folder."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.testing.util import assert_that, equal_to

from beam_pipeline.core.errors import OutputError, WriterProcessError
from beam_pipeline.core.packing import ImageBatch, pack
from beam_pipeline.core.references import ImageRef
from beam_pipeline.work import job as spilling
from beam_pipeline.work import writer_process
from beam_pipeline.work.job import (
    Counts,
    claimed,
    held_claims,
    report_progress,
    reported_to,
    spill,
    spill_file,
    unspill,
    unspill_all,
)
from beam_pipeline.work.writer_process import Tasks, backlog, submit, writer_processes
from tests.rows import in_rows

COUNTS = [Counts(samples=2, image_bytes=30), Counts(samples=1, image_bytes=5)]


@dataclass(frozen=True)
class Task:
    """A task that behaves as told, and returns the number of its process."""

    does: str = ""
    maker: int = 0

    @property
    def doing(self) -> str:
        return f"told to {self.does}"

    def run(self) -> int:
        if self.does == "fail":
            raise OutputError("no space")
        if self.does == "be killed" or (self.maker and os.getpid() != self.maker):
            os.kill(os.getpid(), signal.SIGKILL)
        if self.does == "exit":
            os._exit(3)
        for counts in COUNTS if self.does == "report" else ():
            report_progress(counts)
        return os.getpid()


Unknown = type("Unknown", (Task,), {"__module__": "sys"})


def run(task: Task) -> int:
    future = submit(task)
    assert future is not None
    return future.result(timeout=60)


def are_gone(pids: set[int]) -> bool:
    return not any(os.path.exists(f"/proc/{pid}") for pid in pids)


def test_tasks_run_in_other_processes() -> None:
    """Each on an idle one; as many again may wait; when the block ends, the processes do. Without any, tasks stay here."""
    with writer_processes(0):
        assert submit(Task()) is None
        assert backlog() == 0
    with writer_processes(2):
        assert backlog() == 4
        futures = [submit(Task()) for _ in range(6)]
        pids = {future.result(timeout=60) for future in futures if future}
        assert os.getpid() not in pids
        assert 1 <= len(pids) <= 2
    assert submit(Task()) is None
    assert are_gone(pids)


def test_processes_start_when_there_is_enough_to_do() -> None:
    """Not for a few samples, nor for a task, which stays here. Asked for at once, they are there."""
    with writer_processes(2, at_once=False):
        writer_process.expect(writer_process.FEW_SAMPLES)
        assert (submit(Task()), backlog()) == (None, 0)
        writer_process.expect(1)
        assert run(Task()) != os.getpid()
        assert backlog() == 4
    with writer_processes(1):
        assert run(Task()) != os.getpid()


DIED = (
    r"^the process that was told to {} died \({}\); the system may have run out of memory\. No file is "
    "left half written; run the job again$"
)


@pytest.mark.parametrize(
    ("task", "error", "said"),
    [
        (Task("fail"), OutputError, "^no space$"),
        pytest.param(
            Task("be killed"),
            WriterProcessError,
            DIED.format("be killed", "SIGKILL"),
            marks=pytest.mark.slow,
        ),
        pytest.param(
            Task("exit"),
            WriterProcessError,
            DIED.format("exit", "exit code 3"),
            marks=pytest.mark.slow,
        ),
        (Unknown(), AttributeError, "Unknown"),  # as of a program's own file
    ],
)
def test_an_error_of_a_task_is_raised_here(
    monkeypatch: pytest.MonkeyPatch, task: Task, error: type[Exception], said: str
) -> None:
    """With its type and message; the next task has a process, another one if that died."""
    monkeypatch.setattr(sys, "Unknown", Unknown, raising=False)
    with writer_processes(1):
        for _ in range(3):
            with pytest.raises(error, match=said):
                run(task)
        assert run(Task()) != os.getpid()


@pytest.mark.slow
def test_a_process_that_died_while_it_was_idle_is_replaced() -> None:
    """No task is to blame, so none fails; when the block ends, the new process does, too."""
    with writer_processes(2):
        pids = {run(Task()) for _ in range(2)}
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        later = {run(Task()) for _ in range(4)}
        assert not later & pids
    assert are_gone(later)


@pytest.mark.slow
def test_a_process_that_cannot_be_replaced_fails_its_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the death of the process, until another one can be started."""
    with writer_processes(1):
        pid = run(Task())
        os.kill(pid, signal.SIGKILL)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        with monkeypatch.context() as changed:
            changed.setattr(sys, "executable", "/gone")
            with pytest.raises(WriterProcessError, match="SIGKILL"):
                run(Task())
        assert run(Task()) not in (pid, os.getpid())


@pytest.mark.slow
def test_a_task_that_dies_in_planning_is_done_here() -> None:
    """It only computes something; the process that takes the next task is a new one."""
    with writer_processes(1):
        tasks: Tasks[int] = Tasks(repeat=True)
        assert list(tasks.submit(Task(maker=os.getpid()))) == []
        assert [result() for result in tasks.rest()] == [os.getpid()]
        assert run(Task()) != os.getpid()


def test_jobs_in_two_threads_have_processes_and_listeners_of_their_own() -> None:
    """Progress comes to the job's own listener, before the result; the end of one does not touch the other."""
    both, ended = threading.Barrier(2), threading.Event()

    def job(number: int) -> tuple[set[int], list[Counts]]:
        reports: list[Counts] = []
        with reported_to(reports.append), writer_processes(1):
            pids = {run(Task("report"))}
            assert reports == COUNTS
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
    assert writer_process.cores() == len(os.sched_getaffinity(0))
    monkeypatch.delattr(os, "sched_getaffinity")  # as on macOS
    assert writer_process.cores() == os.cpu_count()


# --- references in a file -------------------------------------------------------------------------

DATA = bytes(range(256)) * 40
PLACE = 16  # bytes


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of temporary files, and a disk with room for a file that takes the first bytes already."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(spilling, "LEAST_FREE_BYTES", 0)
    monkeypatch.setattr(spilling, "HELD_BYTES", 0)
    return tmp_path


@pytest.fixture
def at_once(folder: Path) -> Iterator[None]:
    with spill_file():
        yield


@in_rows
def test_what_goes_in_comes_out(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    held: int,
    least_free: int,
    temporary: str,
    lengths: list[int],
) -> None:
    """In any order, as often as asked for, and in the next job; nobody sees the file, whose space is given back."""
    monkeypatch.setattr(spilling, "HELD_BYTES", held)
    monkeypatch.setattr(spilling, "LEAST_FREE_BYTES", least_free)
    monkeypatch.setattr(tempfile, "tempdir", temporary or str(folder))
    before = len(os.listdir("/proc/self/fd"))
    items = [DATA[i:] + DATA[:i] for i in range(4)]
    for _ in range(2):
        with spill_file():
            places = [spill(item) for item in items]
            assert [len(place) for place in places] == lengths
            assert [unspill(place) for place in reversed(places)] == items[::-1]
            assert unspill_all(places) == items
            assert len(os.listdir("/proc/self/fd")) == before + (not temporary)
            assert os.listdir(folder) == []
        assert len(os.listdir("/proc/self/fd")) == before


def test_without_a_file_nothing_changes() -> None:
    """As on workers of other machines."""
    assert spill(DATA) is DATA
    assert unspill(DATA) is DATA


@pytest.mark.usefixtures("at_once")
def test_references_of_another_file_are_an_error() -> None:
    """Bytes that are not there are never made up; a job within a job has a file of its own."""
    place = spill(DATA)
    with spill_file():
        with pytest.raises(OSError, match="Bad file descriptor"):
            unspill(place)
        assert unspill(spill(DATA[5:])) == DATA[5:]
    assert unspill(place) == DATA


@pytest.mark.usefixtures("at_once")
def test_a_disk_that_becomes_full_loses_nothing() -> None:
    """Half of the second item finds room: it stays in memory, and the next one takes its place."""
    items = [DATA, DATA[::-1], DATA[:100]]
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(DATA) * 3 // 2, hard))
    try:
        places = [spill(item) for item in items]
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert [len(place) for place in places] == [PLACE, len(DATA), PLACE]
    assert unspill_all(places) == items


@pytest.mark.usefixtures("at_once")
def test_threads_share_the_file() -> None:
    """An engine may have several."""

    def there_and_back(number: int) -> bool:
        data = number.to_bytes(4, "big") * 100
        return unspill(spill(data)) == data

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(there_and_back, range(2000)))


@pytest.mark.usefixtures("at_once")
def test_a_file_that_is_cut_short_is_an_error() -> None:
    """The message names the file."""
    before = set(os.listdir("/proc/self/fd"))
    place = spill(DATA)
    (file,) = {
        file
        for file in set(os.listdir("/proc/self/fd")) - before
        if os.path.exists(f"/proc/self/fd/{file}")
    }
    os.truncate(int(file), 10)
    with pytest.raises(OSError, match="the temporary file of references was cut short"):
        unspill(place)


def test_no_references_look_like_a_place() -> None:
    """Packed items begin as Zstandard does, and a batch with the number of its items."""
    assert pack(())[0] == pack([("a",)])[0] == 0x28
    assert ImageBatch().encode()[:4] == bytes(4)


@pytest.mark.usefixtures("at_once")
def test_batches_go_through_the_file_between_stages() -> None:
    """A batch that an engine holds is the same batch when it is read."""
    names = [f"{i % 7}/{i * 7919}.jpg" for i in range(99)]
    images = [ImageRef(name, f"/p/{name}", i) for i, name in enumerate(names)]
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        batch = beam.Map(lambda _: ImageBatch(images)).with_output_types(ImageBatch)
        found = pipeline | beam.Create([0]) | batch | beam.Reshuffle() | beam.FlatMap(list)
        assert_that(found, equal_to(images))


# --- claims ---------------------------------------------------------------------------------------

HOLD = """
import sys
from beam_pipeline.work.job import claimed
with claimed(sys.argv[1]):
    print("claimed", flush=True)
    sys.stdin.read()
"""


def assert_refused(folder: object, said: str, *, make: bool = False) -> None:
    with pytest.raises(OutputError, match=said), claimed(str(folder), make=make):
        pass


def test_one_claim_at_a_time(tmp_path: Path) -> None:
    """The second is refused in one sentence, and granted when the first has ended; a bucket has nothing to lock."""
    with claimed(f"{tmp_path}/a/b", make=True):  # with its parents
        assert len(held_claims()) == 1
        assert_refused(
            f"{tmp_path}/a/b", f"another job is writing to {tmp_path}/a/b. Nothing of it"
        )
    with claimed(f"{tmp_path}/a/b"):
        assert os.listdir(tmp_path / "a/b") == []
    with claimed("gs://bucket/out", make=True):
        assert held_claims() == ()


@pytest.mark.parametrize("shared", [False, True])
def test_a_claim_ends_with_the_last_process_that_has_it(tmp_path: Path, shared: bool) -> None:
    """After SIGKILL nothing has to be removed by hand; a writer process may outlive its launcher for a moment."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    if shared:
        with claimed(str(tmp_path)):
            command = [
                sys.executable,
                "-c",
                "import sys; print('claimed', flush=True); sys.stdin.read()",
            ]
            process = subprocess.Popen(command, pass_fds=held_claims(), **pipes)  # type: ignore[call-overload]
    else:
        process = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], **pipes)  # type: ignore[call-overload]
    with process:
        assert process.stdout.readline() == b"claimed\n"
        assert_refused(tmp_path, "another job")
        process.kill()
        process.wait()
        with claimed(str(tmp_path)):
            pass


@in_rows
def test_a_folder_that_cannot_be_claimed(tmp_path: Path, path: str, make: bool, said: str) -> None:
    """It is missing, or a file or a dangling link is in the way."""
    (tmp_path / "file").write_text("mine")
    (tmp_path / "link").symlink_to("nowhere")
    assert_refused(tmp_path / path, said.replace("OUT", str(tmp_path)), make=make)
