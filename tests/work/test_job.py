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

from beam_pipeline.core import errors
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
            raise errors.OutputError("no space")
        if self.does == "be killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.does == "exit":
            os._exit(3)
        if self.does == "report":
            report_progress(COUNTS[0])
            report_progress(COUNTS[1])
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
    future = writer_process.submit(task)
    assert future is not None
    return future.result(timeout=60)


def test_without_writer_processes_a_task_is_the_callers() -> None:
    """`submit` takes none, and none may wait."""
    with writer_process.writer_processes(0):
        assert writer_process.submit(Task()) is None
        assert writer_process.backlog() == 0


def test_tasks_run_in_other_processes() -> None:
    """Each on an idle one; as many again may wait; when the block ends, the processes do."""
    with writer_process.writer_processes(2):
        assert writer_process.backlog() == 4
        futures = [writer_process.submit(Task()) for _ in range(6)]
        pids = {future.result(timeout=60) for future in futures if future}
        assert os.getpid() not in pids
        assert 1 <= len(pids) <= 2
    assert writer_process.submit(Task()) is None
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_processes_start_when_there_is_enough_to_do() -> None:
    """Not for a few samples; a task starts them, too. Asked for at once, they are there."""
    with writer_process.writer_processes(2, at_once=False):
        writer_process.expect(writer_process.FEW_SAMPLES)
        assert not writer_process.are_running()
        writer_process.expect(1)
        assert writer_process.are_running()
    with writer_process.writer_processes(1, at_once=False):
        assert run(Task()) != os.getpid()
        assert writer_process.are_running()
    with writer_process.writer_processes(1):
        assert writer_process.are_running()
    assert not writer_process.are_running()


def test_an_error_of_a_task_is_raised_here_and_its_process_goes_on() -> None:
    """With its type and message."""
    with writer_process.writer_processes(1):
        with pytest.raises(errors.OutputError, match=r"^no space$"):
            run(Task("fail"))
        assert run(Task())


def test_progress_comes_before_the_result() -> None:
    """It goes to the listener of the launcher's process."""
    reports: list[Counts] = []
    with reported_to(reports.append), writer_process.writer_processes(1):
        run(Task("report"))
    assert reports == COUNTS


@pytest.mark.parametrize(("does", "how"), [("be killed", "SIGKILL"), ("exit", "exit code 3")])
def test_a_process_that_dies_is_reported_with_what_it_did(does: str, how: str) -> None:
    """The message says how it died; another process takes the next task."""
    said = (
        rf"^the process that was told to {does} died \({how}\); the system may have run out of "
        r"memory\. No file is left half written; run the job again$"
    )
    with writer_process.writer_processes(1):
        for _ in range(3):
            with pytest.raises(errors.WriterProcessError, match=said):
                run(Task(does))
        assert run(Task()) != os.getpid()


def test_a_process_that_died_while_it_was_idle_is_replaced() -> None:
    """No task is to blame, so none fails; when the block ends, the new process does, too."""
    with writer_process.writer_processes(2):
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
    with writer_process.writer_processes(1):
        tasks: writer_process.Tasks[int] = writer_process.Tasks(repeat=True)
        assert list(tasks.submit(DiesElsewhere(os.getpid()))) == []
        assert [result() for result in tasks.rest()] == [os.getpid()]
        assert run(Task()) != os.getpid()


def test_a_task_of_an_unknown_class_is_an_error_and_its_process_goes_on() -> None:
    """Such as one of a program's own file, which a writer process does not import."""
    unknown = type("Unknown", (Task,), {"__module__": "sys"})
    sys.Unknown = unknown  # type: ignore[attr-defined]
    try:
        with writer_process.writer_processes(1):
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
        with reported_to(reports.append), writer_process.writer_processes(1):
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
    assert writer_process.cores() == len(os.sched_getaffinity(0))
    monkeypatch.delattr(os, "sched_getaffinity")  # as on macOS
    assert writer_process.cores() == os.cpu_count()


DATA = bytes(range(256)) * 40
PLACE_BYTES = 16


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of temporary files."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(spilling, "LEAST_FREE_BYTES", 0)
    return tmp_path


@pytest.fixture
def at_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A file that takes the first bytes already."""
    monkeypatch.setattr(spilling, "HELD_BYTES", 0)
    with spill_file():
        yield


@pytest.mark.usefixtures("at_once")
def test_what_went_in_comes_out() -> None:
    """In any order, and as often as it is asked for."""
    items = [DATA[i:] for i in range(0, 5000, 500)]
    places = [spill(item) for item in items]
    assert [len(place) for place in places] == [PLACE_BYTES] * len(items)
    assert [unspill(place) for place in reversed(places)] == items[::-1]
    assert unspill_all(places) == items


def test_the_first_bytes_of_a_job_stay_in_memory(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also those of the next job."""
    monkeypatch.setattr(spilling, "HELD_BYTES", 2 * len(DATA))
    for _ in range(2):
        with spill_file():
            assert [len(spill(DATA)) for _ in range(4)] == [len(DATA)] * 2 + [PLACE_BYTES] * 2


def test_without_a_file_nothing_changes() -> None:
    """As on workers of other machines."""
    assert spill(DATA) is DATA
    assert unspill(DATA) is DATA


@pytest.mark.usefixtures("at_once")
def test_a_job_within_a_job_has_a_file_of_its_own() -> None:
    """The outer one's is there as before when it ends."""
    place = spill(DATA)
    with spill_file():
        assert unspill(spill(DATA[5:])) == DATA[5:]
    assert unspill(place) == DATA


@pytest.mark.usefixtures("at_once")
def test_nobody_sees_the_file(folder: Path) -> None:
    """So there is nothing to clean up behind a job that was killed."""
    assert unspill(spill(DATA)) == DATA
    assert os.listdir(folder) == []


def test_the_disk_space_is_given_back(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No descriptor stays open."""
    monkeypatch.setattr(spilling, "HELD_BYTES", 0)
    before = len(os.listdir("/proc/self/fd"))
    with spill_file():
        spill(DATA)
        assert len(os.listdir("/proc/self/fd")) == before + 1
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.usefixtures("at_once")
def test_a_disk_that_is_nearly_full_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine holds everything, as it would without a file."""
    monkeypatch.setattr(spilling, "LEAST_FREE_BYTES", 1 << 62)
    assert spill(DATA) is DATA


@pytest.mark.usefixtures("at_once")
def test_a_missing_temporary_folder_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine holds everything, as it would without a file."""
    monkeypatch.setattr(tempfile, "tempdir", "/nowhere")
    assert spill(DATA) is DATA


@pytest.mark.usefixtures("at_once")
def test_a_disk_that_becomes_full_loses_nothing() -> None:
    """Half of the second item finds room: it stays in memory, and the next one takes its place."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(DATA) * 3 // 2, hard))
    try:
        first, second, third = spill(DATA), spill(DATA[::-1]), spill(DATA[:100])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert (len(first), len(second), len(third)) == (PLACE_BYTES, len(DATA), PLACE_BYTES)
    assert unspill_all([first, second, third]) == [DATA, DATA[::-1], DATA[:100]]


@pytest.mark.usefixtures("at_once")
def test_threads_share_the_file() -> None:
    """An engine may have several."""

    def there_and_back(number: int) -> bool:
        data = number.to_bytes(4, "big") * 100
        return unspill(spill(data)) == data

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(there_and_back, range(2000)))


@pytest.mark.usefixtures("at_once")
def test_references_of_another_file_are_an_error() -> None:
    """Bytes that are not there are never made up."""
    place = spill(DATA)
    with spill_file(), pytest.raises(OSError, match="Bad file descriptor"):
        unspill(place)


@pytest.mark.usefixtures("at_once")
def test_a_file_that_is_cut_short_is_an_error() -> None:
    """The message names the file."""
    place = spill(DATA)
    open_files = [f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd")]
    (path,) = (
        path
        for path in open_files
        if os.path.lexists(path) and os.path.exists(path) and os.stat(path).st_size == len(DATA)
    )
    os.truncate(path, 10)
    with pytest.raises(OSError, match="the temporary file of references was cut short"):
        unspill(place)


def test_no_references_look_like_a_place() -> None:
    """Packed items begin as Zstandard does, and a batch with the number of its items."""
    assert pack(())[0] == pack([("a",)])[0] == 0x28
    assert ImageBatch().encode()[:4] == bytes(4)


@pytest.mark.usefixtures("at_once")
def test_batches_go_through_the_file_between_stages() -> None:
    """A batch that an engine holds is the same batch when it is read."""
    images = [
        ImageRef(f"{i % 7}/{i * 7919}.jpg", f"/p/{i % 7}/{i * 7919}.jpg", i) for i in range(99)
    ]
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        found = (
            pipeline
            | beam.Create([0])
            | "List" >> beam.Map(lambda _: ImageBatch(images)).with_output_types(ImageBatch)
            | beam.Reshuffle()
            | "Items" >> beam.FlatMap(list)
        )
        assert_that(found, equal_to(images))


HOLD = """
import sys
from beam_pipeline.work.job import claimed
with claimed(sys.argv[1]):
    print("claimed", flush=True)
    sys.stdin.read()
"""


def test_one_claim_at_a_time(tmp_path: Path) -> None:
    """The second is refused in one sentence, and granted when the first has ended."""
    with claimed(str(tmp_path)):
        assert len(held_claims()) == 1
        with (
            pytest.raises(
                errors.OutputError, match=f"another job is writing to {tmp_path}. Nothing of it"
            ),
            claimed(str(tmp_path)),
        ):
            pass
    assert held_claims() == ()
    with claimed(str(tmp_path)):
        assert os.listdir(tmp_path) == []


def test_a_claim_ends_with_its_process(tmp_path: Path) -> None:
    """After SIGKILL nothing has to be removed by hand."""
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"claimed\n"
        with pytest.raises(errors.OutputError, match="another job"), claimed(str(tmp_path)):
            pass
        process.kill()
        process.wait()
        with claimed(str(tmp_path)):
            pass


def test_a_claim_lasts_as_long_as_a_process_that_shares_it(tmp_path: Path) -> None:
    """A writer process that outlives its launcher for a moment keeps the folder."""
    command = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    with claimed(str(tmp_path)):
        writer = subprocess.Popen(command, stdin=subprocess.PIPE, pass_fds=held_claims())
    with writer:
        with pytest.raises(errors.OutputError, match="another job"), claimed(str(tmp_path)):
            pass
        writer.kill()
        writer.wait()
        with claimed(str(tmp_path)):
            pass


def test_a_folder_is_made(tmp_path: Path) -> None:
    """With its parents; without `make` it has to be there."""
    with claimed(f"{tmp_path}/a/b", make=True):
        assert os.path.isdir(tmp_path / "a" / "b")
    with (
        pytest.raises(errors.OutputError, match="cannot be made or written to: No such file"),
        claimed(f"{tmp_path}/c"),
    ):
        pass


@pytest.mark.parametrize("path", ["file", "file/out", "link"])
def test_a_folder_that_cannot_be_made(tmp_path: Path, path: str) -> None:
    """A file or a dangling link is in the way."""
    (tmp_path / "file").write_text("mine")
    (tmp_path / "link").symlink_to("nowhere")
    message = f"the output folder {tmp_path}/{path} cannot be made"
    with pytest.raises(errors.OutputError, match=message), claimed(f"{tmp_path}/{path}", make=True):
        pass


def test_a_bucket_is_not_claimed() -> None:
    """There is nothing to lock."""
    with claimed("gs://bucket/out", make=True):
        assert held_claims() == ()
