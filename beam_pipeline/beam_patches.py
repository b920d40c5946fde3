"""Every change that a job makes to Beam's own code while it runs; all are for Beam 2.77.

Each is made when the first job of this process needs it and undone when the last one has ended, so jobs
in several threads share it and a program's own pipelines find Beam as it was.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import shutil
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from types import MethodType, SimpleNamespace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # else an import that most commands do without
    import subprocess

_Specs = tuple[set[Any], set[Any]]

_NEVER_MS = 7 * 24 * 3600 * 1000  # a week

engine_processes: list[subprocess.Popen[Any]] = []
"""The processes of engines that Beam has started; they do not hear of Ctrl-C."""

_folders: list[tuple[int, str]] = []  # the process that made it, and the folder


@atexit.register
def remove_engine_folders() -> None:
    """Removes the temporary folders that Beam made for engines; it leaves some behind.

    A process that a program forks leaves them to the program, whose engines may still run.
    """
    for process, folder in _folders:
        if process == os.getpid():
            shutil.rmtree(folder, ignore_errors=True)


class Patch:
    """A change to Beam, as a context: made by the first job that enters it, and undone by the last one that leaves."""

    _lock = threading.Lock()

    def __init__(self, change: Callable[[], Iterator[None]]) -> None:
        """Takes the change as a function that yields while it lasts."""
        self._change = contextlib.contextmanager(change)
        self._jobs = 0
        self._made = contextlib.ExitStack()

    def __enter__(self) -> None:
        with self._lock:
            if not self._jobs:
                self._made.enter_context(self._change())
            self._jobs += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._jobs -= 1
            if not self._jobs:
                self._made.close()


@contextlib.contextmanager
def applied(patches: Sequence[Patch]) -> Iterator[None]:
    """Makes changes while the block runs."""
    with contextlib.ExitStack() as stack:
        for patch in patches:
            stack.enter_context(patch)
        yield


@contextlib.contextmanager
def _set(target: Any, **values: Any) -> Iterator[None]:
    """Sets attributes while the block runs."""
    before = {name: getattr(target, name) for name in values}
    vars(target).update(values)
    yield
    vars(target).update(before)


@contextlib.contextmanager
def _filtered(keep: Callable[[logging.LogRecord], bool], name: str) -> Iterator[None]:
    """Drops records of the root logger and another one while the block runs."""
    loggers = (logging.root, logging.getLogger(name))
    for logger in loggers:
        logger.addFilter(keep)
    yield
    for logger in loggers:
        logger.removeFilter(keep)


# --- every engine ---------------------------------------------------------------------------------


@Patch
def remembered_dofn_specs() -> Iterator[None]:
    """Finds out once for each kind of DoFn whether it has state or timers.

    Beam looks through all methods of a DoFn for them some 50 times while it starts a job of ours, which
    takes a fifth of the time of a small one. The answer depends on the methods alone.
    """
    from apache_beam.transforms import userstate

    find, known = userstate.get_dofn_specs, dict[Any, _Specs]()

    @wraps(find)
    def find_once(dofn: Any) -> _Specs:
        # `beam.Map` keeps the function as an attribute, which is a method if that is one.
        own = [value for value in vars(dofn).values() if isinstance(value, MethodType)]
        kind = (type(dofn), *(method.__func__ for method in own))
        if kind not in known:
            known[kind] = find(dofn)
        states, timers = known[kind]
        return set(states), set(timers)

    with _set(userstate, get_dofn_specs=find_once):
        yield


@Patch
def shielded_engines() -> Iterator[None]:
    """Keeps Ctrl-C from the engines that Beam starts as processes of their own."""
    import subprocess

    from apache_beam.runners.portability import job_server
    from apache_beam.utils import subprocess_server

    def start(*arguments: Any, **options: Any) -> subprocess.Popen[Any]:
        process = subprocess.Popen(*arguments, start_new_session=True, **options)  # noqa: S603
        engine_processes.append(process)
        return process

    started = SimpleNamespace(**{**vars(subprocess), "Popen": start})
    # Beam's handler of signals would stop the engine, and then continue.
    unhandled = SimpleNamespace(**{**vars(signal), "signal": lambda *_: None})
    with _set(subprocess_server, subprocess=started), _set(job_server, signal=unhandled):
        yield


@Patch
def noted_folders() -> Iterator[None]:
    """Notes the temporary folders that Beam makes for engines, of which it removes only some.

    They stay until this process ends, because an engine's process may serve several jobs.
    """
    from apache_beam.runners.portability import job_server
    from apache_beam.transforms import environments

    def make(**options: Any) -> str:
        folder: str = tempfile.mkdtemp(**options)
        _folders.append((os.getpid(), folder))
        return folder

    noting = SimpleNamespace(**{**vars(tempfile), "mkdtemp": make})
    with _set(job_server, tempfile=noting), _set(environments, tempfile=noting):
        yield


def _is_no_process_report(record: logging.LogRecord) -> bool:
    if record.module != "subprocess_server":
        return True
    is_raised_too = str(record.msg).startswith("Failed to start job service")
    return record.levelno >= logging.ERROR and not is_raised_too


@Patch
def silent_processes() -> Iterator[None]:
    """Drops Beam's warnings about the normal start and stop of its processes; errors are not dropped.

    Beam logs some of them through the root logger, such as "Waiting for grpc channel to be ready" on a
    slow machine, so they are recognised by their module.
    """
    with _filtered(_is_no_process_report, "apache_beam.utils.subprocess_server"):
        yield


@Patch
def as_in_a_script() -> Iterator[None]:
    """Lets Beam take a notebook for a script.

    In IPython, Beam imports its interactive runner for every transform that is applied, to label it with
    the cell. The import fails without pandas and with pandas 3, and a conversion does not use it.
    """
    from apache_beam import pipeline
    from apache_beam.runners.direct import direct_runner
    from apache_beam.utils import interactive_utils

    with contextlib.ExitStack() as stack:
        for module in (interactive_utils, pipeline, direct_runner):
            stack.enter_context(_set(module, is_in_ipython=bool))
        yield


EVERY_ENGINE = (
    silent_processes,
    shielded_engines,
    noted_folders,
    remembered_dofn_specs,
    as_in_a_script,
)


# --- engines on this machine ----------------------------------------------------------------------


@Patch
def whole_elements() -> Iterator[None]:
    """Keeps Beam's own engine from reading halves of elements, and its threads from a missing lock.

    With threads as workers, it flushes their output once per second, from another thread and in the middle
    of an element, and then reads each half as an element. Elements are lost, or request gigabytes:
    https://github.com/apache/beam/issues/21643.

    It also starts a thread that needs a lock before it makes the lock. The thread sleeps first, unless the
    clock jumps.
    """
    from apache_beam.runners.portability.fn_api_runner import worker_handlers
    from apache_beam.runners.worker.sdk_worker import BundleProcessorCache

    BundleProcessorCache._lock = threading.Lock()
    with _set(worker_handlers, DATA_BUFFER_TIME_LIMIT_MS=_NEVER_MS):
        yield
    del BundleProcessorCache._lock


@Patch
def unsampled_states() -> Iterator[None]:
    """Starts no thread that samples which step of a bundle is running; no command shows its figures.

    The end of a bundle waits for that thread, which sleeps for up to a sixth of the bundle's time.
    """
    from apache_beam.runners.worker.statesampler import statesampler_impl

    if not hasattr(statesampler_impl, "threading"):  # it is not compiled, and samples nothing
        yield
        return
    unstarted = SimpleNamespace(start=bool, join=bool)
    with _set(statesampler_impl, threading=SimpleNamespace(Thread=lambda target: unstarted)):
        yield


# --- Flink ----------------------------------------------------------------------------------------


@Patch
def silent_connections() -> Iterator[None]:
    """Passes over connections that end: workers in this process are threads, and Flink hangs up on them.

    Beam reports a loss that matters as the job's failure.
    """
    import grpc

    hook = threading.excepthook

    def pass_over(raised: threading.ExceptHookArgs) -> None:
        error = raised.exc_value
        # A thread of gRPC's own may watch the channel while it is closed.
        closed = isinstance(error, ValueError) and "Channel closed" in str(error)
        if not closed and not isinstance(error, grpc.RpcError):
            hook(raised)

    def is_not_raised(record: logging.LogRecord) -> bool:
        return record.module not in ("portable_runner", "data_plane")

    with (
        _filtered(is_not_raised, "apache_beam.runners.worker.data_plane"),
        _set(threading, excepthook=pass_over),
    ):
        yield


# --- Dataflow -------------------------------------------------------------------------------------


@Patch
def silent_submission() -> Iterator[None]:
    """Drops Beam's logs of errors that it also raises, and its warnings about wheels."""
    runners = logging.getLogger("apache_beam.runners")
    client = runners.getChild("dataflow.internal.apiclient")
    with _set(client, disabled=True), _set(runners.getChild("portability.stager"), disabled=True):
        yield
