"""Processes that write shards for an engine that runs in one process.

Threads gain nothing here: each image takes a dozen short system calls, and two threads lose more by
passing Python's lock back and forth than they win. A process has its own lock, does not import Beam and
starts in a tenth of a second, so a local job has one per core.

`writer_processes` provides them in the launcher, and starts them as soon as there is enough to do: each costs
as much time as some hundred images. `submit` uses them where they were started. Over its connection, a process
receives tasks. For each it sends its `Counts`, a few times a second, then the result.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from multiprocessing.connection import Connection, Pipe
from queue import SimpleQueue
from typing import Any, Generic, Protocol, TypeVar

from beam_pipeline.core.errors import WriterProcessError
from beam_pipeline.work.job import Counts, Resource, held_claims, report_progress, reported_to

_Result = TypeVar("_Result", covariant=True)
_SHARD_TASK = "beam_pipeline.work.writing"

FEW_SAMPLES = 512
FEW_BYTES = 64 << 20  # 64 MiB
"""The most samples, of images that are copied, that take less time to write here than processes to start."""


class Task(Protocol[_Result]):
    """A shard to write, or other work, as something that can be pickled."""

    @property
    def doing(self) -> str:
        """What a process does that runs it, for messages: "writing /data/out/pets-00000-of-00004"."""

    def run(self) -> _Result:
        """Does it."""


class _WriterProcess:
    """A process and the connection to it."""

    def __init__(self, claims: Sequence[int]) -> None:
        self._connection, theirs = Pipe()
        code = (
            f"import sys; sys.path[:] = {sys.path!r}; "
            "from beam_pipeline.startup import begin_writer; begin_writer(); "
            f"from beam_pipeline.work.writer_process import serve; serve({theirs.fileno()})"
        )
        # It inherits the mask: Ctrl-C is the launcher's business, from the interpreter's first instruction on.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        try:
            # Its standard input is open as long as we live.
            self._process = subprocess.Popen(  # noqa: S603 -- our own code
                [sys.executable, "-c", code],
                stdin=subprocess.PIPE,
                pass_fds=[theirs.fileno(), *claims],
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        theirs.close()

    @property
    def lives(self) -> bool:
        """False if it has died."""
        return self._process.poll() is None

    def result(self, task: Task[_Result]) -> _Result:
        """Has it run a task, and reports its progress.

        Raises:
          WriterProcessError: the process died.
          Exception: the error of the task, raised there.
        """
        try:
            self._connection.send(task)
            result: _Result | Exception | Counts = self._connection.recv()
            while isinstance(result, Counts):
                report_progress(result)
                result = self._connection.recv()
        except (EOFError, OSError) as error:
            raise self._death(task) from error
        if isinstance(result, Exception):
            raise result
        return result

    def _death(self, task: Task[Any]) -> WriterProcessError:
        """The error of a task that the process did not live to end."""
        code = self._process.wait()
        return WriterProcessError(
            f"the process that was {task.doing} died "
            f"({signal.Signals(-code).name if code < 0 else f'exit code {code}'}); the system may have "
            "run out of memory. No file is left half written; run the job again"
        )

    def stop(self) -> None:
        """Ends the process; an unfinished shard is left in `.incomplete`."""
        self._connection.close()
        self._process.kill()
        self._process.wait()
        assert self._process.stdin is not None
        self._process.stdin.close()


class _WriterPool:
    """A number of processes; each task goes to an idle one. A process that died is replaced."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._claims = held_claims()
        self._threads: ThreadPoolExecutor | None = None
        self._processes: set[_WriterProcess] = set()
        self._idle: SimpleQueue[_WriterProcess] = SimpleQueue()
        self._lock = threading.Lock()
        self._stopped = False
        self._expected = 0

    @property
    def is_running(self) -> bool:
        """True if the processes were started."""
        return self._threads is not None

    def expect(self, samples: int) -> None:
        """Starts the processes, if they can be, once more samples are expected than are written without them."""
        with self._lock:
            self._expected += samples
            if self._expected > FEW_SAMPLES and self.count and not self.is_running:
                try:
                    self.start()
                except (OSError, RuntimeError):
                    self.count = 0

    def start(self) -> None:
        """Starts the processes. Raises OSError or RuntimeError if the system lacks room for them."""
        threads = ThreadPoolExecutor(self.count, thread_name_prefix="writer")
        all_started = threading.Event()
        try:  # now, as Beam would log a traceback if a thread could not be started within the job
            for _ in range(self.count):
                threads.submit(all_started.wait)
        finally:
            all_started.set()
        for _ in range(self.count):
            self._processes.add(_WriterProcess(self._claims))
        for process in self._processes:
            self._idle.put(process)
        self._threads = threads

    def submit(self, task: Task[_Result]) -> Future[_Result] | None:
        """Hands a task to a process; None if none was started."""
        threads = self._threads
        return threads.submit(copy_context().run, self._run, task) if threads else None

    def _run(self, task: Task[_Result]) -> _Result:
        process = self._idle.get()
        try:
            # Where no other can be started, the dead one states its death.
            with self._lock, contextlib.suppress(OSError):
                if not (process.lives or self._stopped):
                    dead, process = process, _WriterProcess(self._claims)
                    self._processes ^= {dead, process}
                    dead.stop()
            return process.result(task)
        finally:
            self._idle.put(process)

    def stop(self) -> None:
        """Ends all processes."""
        if self._threads:
            self._threads.shutdown(wait=False, cancel_futures=True)
        with self._lock:
            self._stopped = True
        for process in self._processes:
            process.stop()


_POOL = Resource[_WriterPool]()


@contextlib.contextmanager
def writer_processes(count: int, *, at_once: bool = True) -> Iterator[None]:
    """While the block runs, `count` other processes run the tasks that this job submits.

    Args:
      count: how many; 0 for none.
      at_once: whether they are started now, and not when there is enough to do.
    """
    if not count:
        yield
        return
    pool = _WriterPool(count)
    try:
        if at_once:
            pool.start()
        with _POOL.given(pool):
            yield
    finally:
        pool.stop()


def cores() -> int:
    """The number of cores that this process may use; a container or `taskset` may limit it."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def submit(task: Task[_Result]) -> Future[_Result] | None:
    """Hands a task to a writer process; None if this job has started none."""
    pool = _POOL.get()
    return pool.submit(task) if pool else None


def expect(samples: int) -> None:
    """Tells the pool of this job that there are some more samples to write."""
    if pool := _POOL.get():
        pool.expect(samples)


def backlog() -> int:
    """The number of tasks that may be submitted before the oldest should be waited for."""
    pool = _POOL.get()
    return 2 * pool.count if pool and pool.is_running else 0


class Tasks(Generic[_Result]):
    """Tasks on their way, in order: in writer processes, or run here where there are none.

    Results are functions that return a task's result, or raise its error.
    """

    def __init__(self, *, repeat: bool = False) -> None:
        """No task is on its way.

        Args:
          repeat: whether a task whose process died runs again here, because it only computes.
        """
        self._repeat = repeat
        self._waiting: deque[Callable[[], _Result]] = deque()

    def submit(self, task: Task[_Result]) -> Iterator[Callable[[], _Result]]:
        """Hands on a task; yields the results of the oldest ones if too many are on their way."""
        future = submit(task)
        self._waiting.append(partial(self._result, future, task) if future else task.run)
        while len(self._waiting) > backlog():
            yield self._waiting.popleft()

    def rest(self) -> Iterator[Callable[[], _Result]]:
        """Yields the results of all other tasks."""
        while self._waiting:
            yield self._waiting.popleft()

    def _result(self, future: Future[_Result], task: Task[_Result]) -> _Result:
        try:
            return future.result()
        except WriterProcessError:
            if self._repeat:
                return task.run()
            raise


def serve(file_descriptor: int) -> None:
    """Runs in a writer process: writes shard after shard until the launcher is gone."""
    threading.Thread(target=_exit_with_launcher, daemon=True).start()
    connection = Connection(file_descriptor)
    importlib.import_module(_SHARD_TASK)  # while the launcher still plans

    def send(message: Any) -> None:
        with contextlib.suppress(OSError):  # the launcher is gone, so this process ends anyway
            connection.send(message)

    with reported_to(send):  # one thread runs tasks and reports, so messages do not mix
        while True:
            result: Any
            try:
                task: Task[Any] = connection.recv()
            except (EOFError, OSError):  # the launcher is gone
                return
            except Exception as error:  # of a class that cannot be imported here
                result = error
            else:
                try:
                    result = task.run()
                except Exception as error:  # the launcher handles them all
                    result = error
            send(result)


def _exit_with_launcher() -> None:
    """Ends this process at once when the launcher ends, for whatever reason."""
    # Without a buffer, whose lock would disturb the exit of the interpreter.
    os.read(sys.stdin.fileno(), 1)
    os._exit(1)
