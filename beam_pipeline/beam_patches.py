"""Every change that a job makes to Beam's own code while it runs; all are for Beam 2.77.

Each is made when the first job of this process needs it and undone when the last one has ended, so jobs
in several threads share it and a program's own pipelines find Beam as it was.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial, wraps
from types import MethodType, SimpleNamespace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # else an import that most commands do without
    import subprocess

_Undo = Callable[[], object]
_Specs = tuple[set[Any], set[Any]]

_NEVER_MS = 7 * 24 * 3600 * 1000  # a week
_MOST_SPECS = 1024  # kinds of DoFns; a user's program may run other jobs as well
_DATA_PLANE = "apache_beam.runners.worker.data_plane"
_SUBPROCESS_SERVER = "apache_beam.utils.subprocess_server"
_ASK_FOR_IPYTHON = (
    "apache_beam.utils.interactive_utils",
    "apache_beam.pipeline",
    "apache_beam.runners.direct.direct_runner",
)

engine_processes: list[subprocess.Popen[Any]] = []
"""The processes of engines that Beam has started; they do not hear of Ctrl-C."""


class Patch:
    """A change to Beam."""

    _lock = threading.Lock()

    def __init__(self, make: Callable[[], _Undo]) -> None:
        """Takes a function that makes the change and returns what undoes it."""
        self._make = make
        self._jobs = 0
        self._undo: _Undo = bool

    def apply(self) -> None:
        """Makes the change for one more job."""
        with self._lock:
            if not self._jobs:
                self._undo = self._make()
            self._jobs += 1

    def undo(self) -> None:
        """Undoes it if no other job needs it."""
        with self._lock:
            self._jobs -= 1
            if not self._jobs:
                self._undo()


@contextlib.contextmanager
def applied(patches: Sequence[Patch]) -> Iterator[None]:
    """Makes changes while the block runs."""
    with contextlib.ExitStack() as stack:
        for patch in patches:
            patch.apply()
            stack.callback(patch.undo)
        yield


def _set(target: Any, **values: Any) -> _Undo:
    """Sets attributes; returns what sets them back."""
    before = {name: getattr(target, name) for name in values}

    def set_all(values: dict[str, Any]) -> None:
        for name, value in values.items():
            setattr(target, name, value)

    set_all(values)
    return lambda: set_all(before)


def _all(*parts: _Undo) -> _Undo:
    def undo() -> None:
        for part in parts:
            part()

    return undo


def _filtered(keep: Callable[[logging.LogRecord], bool], *names: str) -> _Undo:
    """Drops records of loggers; returns what stops that."""
    loggers = [logging.getLogger(name) for name in names]
    for logger in loggers:
        logger.addFilter(keep)
    return _all(*(partial(logger.removeFilter, keep) for logger in loggers))


# --- every engine ---------------------------------------------------------------------------------


@Patch
def remembered_dofn_specs() -> _Undo:
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
            if len(known) >= _MOST_SPECS:
                known.clear()
            known[kind] = find(dofn)
        states, timers = known[kind]
        return set(states), set(timers)

    return _set(userstate, get_dofn_specs=find_once)


class _Subprocesses:
    """The module `subprocess`, whose processes are out of reach of a terminal's signals."""

    def __init__(self, module: Any) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)

    def Popen(self, *arguments: Any, **options: Any) -> subprocess.Popen[Any]:  # noqa: N802 -- its name there
        process: subprocess.Popen[Any] = self._module.Popen(
            *arguments, start_new_session=True, **options
        )
        engine_processes.append(process)
        return process


class _Signals:
    """The module `signal`, without setting handlers: Beam's would stop the engine, and then continue."""

    def __getattr__(self, name: str) -> Any:
        return getattr(signal, name)

    def signal(self, *_: object) -> None:
        """Sets nothing."""


@Patch
def shielded_engines() -> _Undo:
    """Keeps Ctrl-C from the engines that Beam starts as processes of their own."""
    from apache_beam.runners.portability import job_server  # not imported for every command
    from apache_beam.utils import subprocess_server

    return _all(
        _set(subprocess_server, subprocess=_Subprocesses(subprocess_server.subprocess)),
        _set(job_server, signal=_Signals()),
    )


def _is_no_process_report(record: logging.LogRecord) -> bool:
    if record.module != "subprocess_server":
        return True
    is_raised_too = str(record.msg).startswith("Failed to start job service")
    return record.levelno >= logging.ERROR and not is_raised_too


@Patch
def silent_processes() -> _Undo:
    """Drops Beam's warnings about the normal start and stop of its processes; errors are not dropped.

    Beam logs some of them through the root logger, such as "Waiting for grpc channel to be ready" on a
    slow machine, so they are recognised by their module.
    """
    return _filtered(_is_no_process_report, "", _SUBPROCESS_SERVER)


@Patch
def as_in_a_script() -> _Undo:
    """Lets Beam take a notebook for a script.

    In IPython, Beam imports its interactive runner for every transform that is applied, to label it with
    the cell. The import fails without pandas and with pandas 3, and a conversion does not use it.
    """
    modules = [importlib.import_module(name) for name in _ASK_FOR_IPYTHON]
    return _all(*(_set(module, is_in_ipython=bool) for module in modules))


EVERY_ENGINE = (silent_processes, shielded_engines, remembered_dofn_specs, as_in_a_script)


# --- engines on this machine ----------------------------------------------------------------------


@Patch
def whole_elements() -> _Undo:
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
    return _all(
        _set(worker_handlers, DATA_BUFFER_TIME_LIMIT_MS=_NEVER_MS),
        lambda: delattr(BundleProcessorCache, "_lock"),
    )


@Patch
def unsampled_states() -> _Undo:
    """Starts no thread that samples which step of a bundle is running; no command shows its figures.

    The end of a bundle waits for that thread, which sleeps for up to a sixth of the bundle's time.
    """
    from apache_beam.runners.worker.statesampler import statesampler_impl

    if not hasattr(statesampler_impl, "threading"):  # it is not compiled, and samples nothing
        return bool
    unstarted = SimpleNamespace(start=bool, join=bool)
    return _set(statesampler_impl, threading=SimpleNamespace(Thread=lambda target: unstarted))


# --- Flink ----------------------------------------------------------------------------------------


def _is_not_raised(record: logging.LogRecord) -> bool:
    """False for Beam's logs of a failure that it also raises, or of the end of a connection."""
    return record.module not in ("portable_runner", "data_plane")


@Patch
def silent_connections() -> _Undo:
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

    return _all(
        _filtered(_is_not_raised, "", _DATA_PLANE),
        _set(threading, excepthook=pass_over),
    )


# --- Dataflow -------------------------------------------------------------------------------------


@Patch
def silent_submission() -> _Undo:
    """Drops Beam's logs of errors that it also raises, and its warnings about wheels."""
    loggers = [
        logging.getLogger("apache_beam.runners.dataflow.internal.apiclient"),
        logging.getLogger("apache_beam.runners.portability.stager"),
    ]
    undo = _all(*(partial(logger.setLevel, logger.level) for logger in loggers))
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    return undo
