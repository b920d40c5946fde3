"""Ctrl-C ends a job with one line, whatever it is doing, and takes its engine's processes along.

As an exception it would surface in the code of a worker, and be reported as its failure. A terminal
signals every process of its foreground group, so an engine that Beam started would end before the
launcher does, and the launcher's threads would report that. Such processes get a session of their own.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from beam_pipeline.startup import EXIT_INTERRUPTED
from beam_pipeline.terminal import complain

if TYPE_CHECKING:  # else an import that most commands do without
    import subprocess

_started: list[subprocess.Popen[Any]] = []


@contextlib.contextmanager
def interruptible(
    message: Callable[[], str], clean_up: Callable[[], None] = lambda: None
) -> Iterator[None]:
    """While the block runs in the main thread, Ctrl-C ends the program at once.

    Args:
      message: called then for what the program says; may cancel a job elsewhere.
      clean_up: called then for what else would be left.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def leave(*_: object) -> None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # a second Ctrl-C does not wait
        complain("", f"beam-tfrecord: {message()}")
        with contextlib.suppress(OSError):
            clean_up()
        for process in _started:
            process.kill()
        os._exit(EXIT_INTERRUPTED)

    before = signal.signal(signal.SIGINT, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


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
        _started.append(process)
        return process


class _Signals:
    """The module `signal`, without setting handlers: Beam's would stop the engine, and then go on."""

    def __getattr__(self, name: str) -> Any:
        return getattr(signal, name)

    def signal(self, *_: object) -> None:
        """Sets nothing."""


def shield_engines() -> None:
    """Keeps Ctrl-C from the engines that Beam starts as processes of their own."""
    from apache_beam.runners.portability import job_server  # not imported for every command
    from apache_beam.utils import subprocess_server

    if not isinstance(subprocess_server.subprocess, _Subprocesses):
        subprocess_server.subprocess = _Subprocesses(subprocess_server.subprocess)
    job_server.signal = _Signals()
